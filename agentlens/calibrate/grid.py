"""The grid: settings people type, the classes they fall into, and the chains a certificate walks.

Two settings of one class are the same detector: they have the same threshold for every period (and, with short
starts, at the head of a lane). A full-window setting (W, P, R, H) depends only on ``q = min(P, W // R)`` and
``T = W + H - 1`` (CALIBRATION 3.2): 6,960 settings are 318 classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from agentlens.detect.rules import (
    Evidence,
    Rule,
    equal_surprise,
    full_window,
    gemini_cli,
    laps,
    openhands,
    same_call,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Key: TypeAlias = tuple[Evidence, int | None, tuple[int, ...], tuple[int, ...] | None]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One rule of the grid. ``family`` groups settings that are varied together; ``text`` is what one would type."""

    family: str
    text: str
    rule: Rule


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One class of settings: ``rule`` is that of its first setting, ``settings`` are all, in the order given."""

    key: Key
    rule: Rule
    settings: tuple[Setting, ...]

    @property
    def text(self) -> str:
        """How the class is called on screen: its first setting."""
        return self.settings[0].text


def heads(rule: Rule) -> tuple[int, ...] | None:
    """Thresholds that hold while the stretch is the whole lane so far, or None where they change nothing."""
    if rule.head_repetitions is None:
        return None
    found = tuple(rule.head_repetitions * p + rule.confirm - 1 for p in range(1, rule.max_period + 1))
    return None if all(h >= t for h, t in zip(found, rule.thresholds, strict=True)) else found


def key_of(rule: Rule) -> Key:
    """Return what the verdicts of a rule depend on, and nothing else.

    Examples
    --------
    >>> one, other = full_window(6, 3, 2, confirm=2, short_starts=False), full_window(7, 4, 2, short_starts=False)
    >>> key_of(one) == key_of(other)
    True
    """
    return rule.evidence, rule.max_gap_us, rule.thresholds, heads(rule)


def classes(settings: Iterable[Setting]) -> list[Cell]:
    """Group settings into classes, in the order in which each first appears."""
    found: dict[Key, list[Setting]] = {}
    for setting in settings:
        found.setdefault(key_of(setting.rule), []).append(setting)
    return [Cell(key=key, rule=same[0].rule, settings=tuple(same)) for key, same in found.items()]


def full_windows(
    windows: Sequence[int] = tuple(range(4, 33)),
    periods: Sequence[int] = tuple(range(1, 17)),
    repetitions: Sequence[int] = (2, 3, 4),
    confirms: Sequence[int] = (1, 2, 3, 4, 5),
    *,
    evidence: Evidence = "lap",
    short_starts: bool = False,
) -> list[Setting]:
    """Every full-window setting W x P x R x H: 6,960 by default."""
    found = []
    for w in windows:
        for p in periods:
            for r in repetitions:
                for h in confirms:
                    rule = full_window(w, p, r, confirm=h, short_starts=short_starts, evidence=evidence)
                    starts = "" if short_starts else ", short_starts=False"
                    text = f"full_window({w}, {p}, {r}, confirm={h}{starts}{_mode(evidence)})"
                    found.append(Setting(family="full_window", text=text, rule=rule))
    return found


def lap_settings(profiles: Iterable[tuple[int, ...]], *, evidence: Evidence = "lap") -> list[Setting]:
    """Lap profiles as settings."""
    return [
        Setting(
            family="laps", text=f"laps({profile}{_mode(evidence)})", rule=laps(profile, evidence=evidence)
        )
        for profile in profiles
    ]


@lru_cache
def lap_profiles(most: int = 8) -> tuple[tuple[int, ...], ...]:
    """Laps that fall from at most `most` to at least 2 over periods 1 to 3, the last carried on to up to 6 periods."""
    counts = range(2, most + 1)
    found: list[tuple[int, ...]] = [(a,) for a in counts]
    pairs = [(a, b) for a in counts for b in range(2, a + 1) if a <= 2 * b]  # thresholds may not fall
    triples = [(a, b, c) for a, b in pairs for c in range(2, b + 1) if 2 * b <= 3 * c]
    found += pairs
    for more in range(4):
        found += [(*triple, *triple[2:] * more) for triple in triples]
    return tuple(found)


def surprises(
    ks: Iterable[int] = range(1, 13), max_period: int = 6, *, evidence: Evidence = "lap"
) -> list[Setting]:
    """Equal surprise for several k."""
    return [
        Setting(
            family="equal_surprise",
            text=f"equal_surprise({k}, {max_period}{_mode(evidence)})",
            rule=equal_surprise(k, max_period, evidence=evidence),
        )
        for k in ks
    ]


def baselines() -> list[Setting]:
    """Rules others ship, and the default: rows to compare with."""
    return [
        Setting(family="incumbent", text="laps((4, 3, 2))", rule=laps()),
        Setting(family="baseline", text="same_call(3)", rule=same_call(3)),
        Setting(family="baseline", text="openhands", rule=openhands()),
        Setting(family="baseline", text="gemini_cli", rule=gemini_cli()),
    ]


def _mode(evidence: Evidence) -> str:
    return "" if evidence == "lap" else f", evidence={evidence!r}"
