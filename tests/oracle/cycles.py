"""Longest periodic suffixes, found by trying every suffix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

from tests.oracle.lanes import Event, Truth, changed, pause_between, same_action, same_evidence

if TYPE_CHECKING:
    from tests.oracle.rules import Profile

Lane: TypeAlias = Sequence[Event]
Compare: TypeAlias = Callable[[Event, Event], Truth]


def _longest(i: int, holds: Callable[[int], bool]) -> int:
    """Length of the longest suffix ending at ``i`` that holds: the longest is tried first."""
    return next(i - start + 1 for start in range(i + 1) if holds(start))


def _crosses_pause(lane: Lane, start: int, i: int, max_gap_s: float | None) -> bool:
    """Say whether the stretch crosses a longer pause than the rule allows; an unknown pause is none."""
    if max_gap_s is None:
        return False
    gaps = (pause_between(lane[j - 1], lane[j]) for j in range(start + 1, i + 1))
    return any(gap is not None and gap > max_gap_s * 1_000_000 for gap in gaps)


def _one_lap_apart(start: int, i: int, p: int) -> Iterator[tuple[int, int]]:
    """Pairs (j - p, j) inside the stretch."""
    return ((j - p, j) for j in range(start + p, i + 1))


def _last_known(
    lane: Lane, start: int, i: int, p: int, known: Callable[[Event], bool]
) -> Iterator[tuple[int, int]]:
    """Pairs at the same place of the lap with no known value between them: each value and those it must agree with."""
    for a, b in combinations(range(start, i + 1), 2):
        if (b - a) % p == 0 and not any(known(lane[m]) for m in range(a + p, b, p)):
            yield a, b


def _surely(lane: Lane, pairs: Iterator[tuple[int, int]], same: Compare) -> bool:
    """Every comparison with an unknown counts as different."""
    return all(same(lane[a], lane[b]) is True for a, b in pairs)


def _possibly(lane: Lane, pairs: Iterator[tuple[int, int]], same: Compare) -> bool:
    """An unknown is whatever keeps the stretch; a known value must agree with the last known one at its place."""
    return all(same(lane[a], lane[b]) is not False for a, b in pairs)


def actions_lo(lane: Lane, i: int, p: int, max_gap_s: float | None = None) -> int:
    """``L_p[i]`` over known signatures: longest suffix with x[j] = x[j-p]."""
    return _longest(
        i,
        lambda s: (
            not _crosses_pause(lane, s, i, max_gap_s) and _surely(lane, _one_lap_apart(s, i, p), same_action)
        ),
    )


def actions_hi(lane: Lane, i: int, p: int, max_gap_s: float | None = None) -> int:
    """``L_p[i]`` if unknown actions are whatever keeps the stretch."""
    return _longest(
        i,
        lambda s: (
            not _crosses_pause(lane, s, i, max_gap_s)
            and _possibly(lane, _last_known(lane, s, i, p, _named), same_action)
        ),
    )


def _evidence(lane: Lane, i: int, p: int, mode: str, agrees: Callable[[int, int], bool]) -> int:
    """Length of the evidence stretch; changed evidence fails the comparison, so a stretch may begin there.

    With ``constant`` evidence there is one value over the whole stretch, so every event is compared with the
    one before. With results ignored (``none``), milestones and human turns still count as changed evidence.
    """
    step = 1 if mode == "constant" else p
    return _longest(
        i,
        lambda s: (
            (mode == "none" or agrees(s, step)) and not any(changed(lane[j]) for j in range(s + step, i + 1))
        ),
    )


def evidence_lo(lane: Lane, i: int, p: int, mode: str) -> int:
    """``V_p[i]``, a comparison with an unknown being different."""
    return _evidence(
        lane, i, p, mode, lambda s, step: _surely(lane, _one_lap_apart(s, i, step), same_evidence)
    )


def evidence_hi(lane: Lane, i: int, p: int, mode: str) -> int:
    """``V_p[i]`` if unknown evidence is whatever keeps the stretch."""
    return _evidence(
        lane, i, p, mode, lambda s, step: _possibly(lane, _last_known(lane, s, i, step, _seen), same_evidence)
    )


def _named(event: Event) -> bool:
    return event.signature is not None


def _seen(event: Event) -> bool:
    return event.fingerprint is not None


def stretch_lo(lane: Lane, i: int, p: int, rule: Profile) -> int:
    """``S_p[i] = min(L_p[i], V_p[i])`` with unknowns different."""
    return min(actions_lo(lane, i, p, rule.max_gap_s), evidence_lo(lane, i, p, rule.evidence))


def stretch_hi(lane: Lane, i: int, p: int, rule: Profile) -> int:
    """``S_p[i] = min(L_p[i], V_p[i])`` with unknowns keeping the stretch."""
    return min(actions_hi(lane, i, p, rule.max_gap_s), evidence_hi(lane, i, p, rule.evidence))


def reaches(stretch: int, i: int, p: int, rule: Profile) -> bool:
    """Say whether a stretch is long enough: ``S_p >= T_p``, or the head of the lane agrees often enough."""
    if stretch >= rule.thresholds[p - 1]:
        return True
    if rule.head is None or stretch != i + 1:
        return False
    repetitions, confirm = rule.head
    return i + 2 - repetitions * p >= confirm


def cycle_condition(lane: Lane, i: int, rule: Profile) -> Truth:
    """True if S_lo reaches T_p for some p, False if S_hi does for none, else not known."""
    periods = range(1, len(rule.thresholds) + 1)
    if any(reaches(stretch_lo(lane, i, p, rule), i, p, rule) for p in periods):
        return True
    if not any(reaches(stretch_hi(lane, i, p, rule), i, p, rule) for p in periods):
        return False
    return None


def loop_period(lane: Lane, i: int, rule: Profile) -> int:
    """Return the smallest p whose condition holds."""
    return next(
        p for p in range(1, len(rule.thresholds) + 1) if reaches(stretch_lo(lane, i, p, rule), i, p, rule)
    )
