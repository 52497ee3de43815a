"""Loop rules: threshold profiles and the named rules that build them (SPEC section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentlens.errors import SettingsError

Evidence = Literal["lap", "constant", "none"]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One loop rule: the cycle condition holds at an event when ``S_p >= thresholds[p-1]`` for some p.

    Parameters
    ----------
    thresholds
        ``T_1..T_P`` in events; each ``T_p >= 2p`` and never falling.
    evidence
        ``lap``: each step saw what it saw one lap before; ``constant``: one value over the whole stretch;
        ``none``: results are ignored (baselines only).
    max_gap_s
        No stretch crosses a longer pause, in seconds; None for no limit.
    head_repetitions, window
        Set by `full_window` with ``short_starts``; None elsewhere.
    name
        What the rule is called in outputs.

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
        if not self.thresholds:
            raise SettingsError.value("thresholds", self.thresholds, "at least one threshold")


def laps(laps: tuple[int, ...] = (4, 3, 2), *, confirm: int = 1, evidence: Evidence = "lap") -> Rule:
    """Default rule: ``T_p = p * laps[p] + confirm - 1``."""
    return Rule(
        thresholds=tuple(p * n + confirm - 1 for p, n in enumerate(laps, 1)),
        evidence=evidence,
        confirm=confirm,
        name="laps",
    )
