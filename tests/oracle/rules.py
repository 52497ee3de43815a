"""Threshold profiles, and the named rules that build them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.oracle.lanes import Event


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Thresholds ``T_1..T_P``, how evidence is compared, and the pause no stretch may cross.

    ``head``: ``(min_repetitions, confirm)`` where starts of lanes may use a window shorter than full.
    """

    thresholds: tuple[int, ...]
    evidence: str = "lap"
    max_gap_s: float | None = None
    head: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Override:
    """A profile for the events that have every name given here."""

    rule: Profile
    workflow: str | None = None
    agent: str | None = None
    tool: str | None = None

    @property
    def names(self) -> dict[str, str]:
        """The names given, the ones that weigh most first."""
        return {w: getattr(self, w) for w in ("tool", "agent", "workflow") if getattr(self, w) is not None}


@dataclass(frozen=True, kw_only=True)
class Book:
    """A default profile and overrides: most names win, then tool over agent over workflow, then the first."""

    default: Profile
    overrides: tuple[Override, ...] = ()

    def of(self, event: Event) -> Profile:
        """Return the profile that judges this event."""
        fitting = [o for o in self.overrides if all(getattr(event, n) == v for n, v in o.names.items())]
        if not fitting:
            return self.default
        order = ("tool", "agent", "workflow")
        return min(fitting, key=lambda o: (-len(o.names), [order.index(n) for n in o.names])).rule


def laps(laps: tuple[int, ...] = (4, 3, 2), confirm: int = 1, evidence: str = "lap") -> Profile:
    """``T_p = p * laps[p] + confirm - 1``."""
    return Profile(thresholds=tuple(p * n + confirm - 1 for p, n in enumerate(laps, 1)), evidence=evidence)


def full_window(
    window: int = 6,
    max_period: int = 3,
    min_repetitions: int = 2,
    confirm: int = 1,
    short_starts: bool = True,
    evidence: str = "lap",
) -> Profile:
    """``T = window + confirm - 1`` for ``p <= min(max_period, window // min_repetitions)``."""
    periods = min(max_period, window // min_repetitions)
    head = (min_repetitions, confirm) if short_starts else None
    return Profile(thresholds=(window + confirm - 1,) * periods, evidence=evidence, head=head)


def equal_surprise(k: int, max_period: int, evidence: str = "lap") -> Profile:
    """``T_p = max(2p, p + k)``."""
    return Profile(thresholds=tuple(max(2 * p, p + k) for p in range(1, max_period + 1)), evidence=evidence)


def openhands() -> Profile:
    """One action four times or a pair three times, results compared."""
    return Profile(thresholds=(4, 6))


def gemini_cli() -> Profile:
    """Any period up to five, five laps, results ignored."""
    return Profile(thresholds=tuple(5 * p for p in range(1, 6)), evidence="none")


def same_call(n: int) -> Profile:
    """``n`` equal calls, results ignored."""
    return Profile(thresholds=(n,), evidence="none")
