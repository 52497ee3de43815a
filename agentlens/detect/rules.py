"""Loop rules: threshold profiles and the named rules that build them (SPEC section 3)."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Literal, get_args

from agentlens.errors import SettingsError

Evidence = Literal["lap", "constant", "none"]
MOST = 2**30
"""The largest count a rule may name: no lane is as long, and sums of two fit every column."""
MOST_PERIODS = 1_000
"""The longest period a rule may look for: each one costs a pass over the data."""
MOST_SECONDS = 10**10
"""The longest pause a rule may name, some 300 years; in microseconds it fits every column."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One loop rule: the cycle condition holds at an event when ``S_p >= thresholds[p-1]`` for some p.

    Parameters
    ----------
    thresholds
        ``T_1..T_P`` in events; each ``T_p >= 2p`` and never falling.
    evidence
        ``lap``: each step saw what it saw one lap before; ``constant``: one value over the whole stretch;
        ``none``: results are ignored (baselines only; milestones and human turns still count).
    max_gap_s
        No stretch crosses a longer pause, in seconds; None for no limit.
    window, head_repetitions
        Set by `full_window` with ``short_starts``: while a lane is shorter than ``window``, the window is all
        of it, and ``i + 2 - head_repetitions * p`` windows agree at position i when ``S_p == i + 1``.
    confirm
        Hysteresis: how many consecutive windows must agree (already inside ``thresholds``).
    name
        What the rule is called in outputs.

    Raises
    ------
    SettingsError
        When the profile is empty, falls, or has a ``T_p`` below ``2p``, or a setting is out of range.

    Examples
    --------
    >>> laps().thresholds
    (4, 6, 6)
    """

    thresholds: tuple[int, ...]
    evidence: Evidence = "lap"
    max_gap_s: float | None = None
    window: int | None = None
    head_repetitions: int | None = None
    confirm: int = 1
    name: str = "custom"

    def __post_init__(self) -> None:
        """Refuse profiles that SPEC section 3 refuses."""
        _check_profile(self.thresholds)
        if self.evidence not in get_args(Evidence):
            raise SettingsError.unknown("evidence", str(self.evidence), get_args(Evidence))
        if self.max_gap_s is not None and not (
            _is_number(self.max_gap_s) and 0 < self.max_gap_s <= MOST_SECONDS
        ):
            raise SettingsError.value(
                "max_gap_s", self.max_gap_s, f"a number of seconds above 0, at most {MOST_SECONDS}, or none"
            )
        _check_count("confirm", self.confirm, 1)
        if (self.window is None) != (self.head_repetitions is None):
            raise SettingsError.value(
                "window", self.window, "window and head_repetitions together, or neither"
            )
        if self.window is not None and self.head_repetitions is not None:
            _check_count("head_repetitions", self.head_repetitions, 2)
            _check_count("window", self.window, self.head_repetitions)

    @property
    def max_period(self) -> int:
        """The longest period looked for, P."""
        return len(self.thresholds)

    @property
    def max_gap_us(self) -> int | None:
        """The longest pause inside a stretch in microseconds."""
        return None if self.max_gap_s is None else round(self.max_gap_s * 1_000_000)

    @property
    def digest(self) -> str:
        """32 hex characters that change with every setting that changes a verdict (the name does not)."""
        facts = {key: value for key, value in asdict(self).items() if key != "name"}
        return blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()


def laps(
    laps: tuple[int, ...] = (4, 3, 2),
    *,
    confirm: int = 1,
    evidence: Evidence = "lap",
    max_gap_s: float | None = None,
) -> Rule:
    """Default rule: ``T_p = p * laps[p] + confirm - 1``."""
    for number in laps:
        _check_count("laps", number, 2)
    return Rule(
        thresholds=tuple(p * n + confirm - 1 for p, n in enumerate(laps, 1)),
        evidence=evidence,
        max_gap_s=max_gap_s,
        confirm=confirm,
        name="laps",
    )


def full_window(
    window: int = 6,
    max_period: int = 3,
    min_repetitions: int = 2,
    *,
    confirm: int = 1,
    short_starts: bool = True,
    evidence: Evidence = "lap",
    max_gap_s: float | None = None,
) -> Rule:
    """Judge windows of ``window`` events.

    ``T = window + confirm - 1`` for ``p <= min(max_period, window // min_repetitions)``.
    With ``short_starts`` a lane shorter than the window is judged on all of it ("at most six events"). With
    ``evidence="constant"`` this is the detector of the articles (CALIBRATION 3.2).

    Examples
    --------
    >>> full_window(window=6, max_period=3, min_repetitions=3).thresholds
    (6, 6)
    """
    _check_count("min_repetitions", min_repetitions, 2)
    _check_count("window", window, min_repetitions)
    _check_count("max_period", max_period, 1)
    _check_count("confirm", confirm, 1)
    longest = min(max_period, window // min_repetitions)
    _check_count("max_period", longest, 1, MOST_PERIODS)
    return Rule(
        thresholds=(window + confirm - 1,) * longest,
        evidence=evidence,
        max_gap_s=max_gap_s,
        window=window if short_starts else None,
        head_repetitions=min_repetitions if short_starts else None,
        confirm=confirm,
        name="full_window",
    )


def equal_surprise(
    k: int, max_period: int, *, evidence: Evidence = "lap", max_gap_s: float | None = None
) -> Rule:
    """Equal chance budget per period: ``T_p = max(2p, p + k)`` (CALIBRATION 3.5).

    Examples
    --------
    >>> equal_surprise(k=3, max_period=4).thresholds
    (4, 5, 6, 8)
    """
    _check_count("k", k, 1)
    _check_count("max_period", max_period, 1, MOST_PERIODS)
    return Rule(
        thresholds=tuple(max(2 * p, p + k) for p in range(1, max_period + 1)),
        evidence=evidence,
        max_gap_s=max_gap_s,
        name="equal_surprise",
    )


def openhands() -> Rule:
    """Baseline of the OpenHands SDK: one action four times, or a pair three times, with equal results."""
    return Rule(thresholds=(4, 6), name="openhands")


def gemini_cli() -> Rule:
    """Baseline of Gemini CLI: five laps of a period up to five, results ignored."""
    return Rule(thresholds=tuple(5 * p for p in range(1, 6)), evidence="none", name="gemini_cli")


def same_call(n: int = 3) -> Rule:
    """Baseline: ``n`` equal calls in a row, results ignored."""
    _check_count("n", n, 2)
    return Rule(thresholds=(n,), evidence="none", name="same_call")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check_count(name: str, value: object, least: int, most: int = MOST) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SettingsError.value(name, value, f"a whole number from {least}")
    if value > most:
        raise SettingsError.value(name, value, f"a whole number from {least} to {most}")


def _check_profile(thresholds: tuple[int, ...]) -> None:
    if not isinstance(thresholds, tuple) or not thresholds:
        raise SettingsError.value("thresholds", thresholds, "a tuple of at least one threshold")
    if len(thresholds) > MOST_PERIODS:
        raise SettingsError.value("periods", len(thresholds), f"at most {MOST_PERIODS} thresholds")
    before = 0
    for period, threshold in enumerate(thresholds, 1):
        _check_count(f"thresholds[{period}]", threshold, 2 * period)
        if threshold < before:
            raise SettingsError.value(
                "thresholds", thresholds, "thresholds that never fall as the period grows"
            )
        before = threshold
