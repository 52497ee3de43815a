"""Which stuck events begin an episode, for one rule, from the stuck events alone.

Stuck events in a row with one period are one segment: moving a lap on by one event rotates it. A lane with one
segment has one episode. A later segment begins another one unless its lap is a rotation of the episode's and
nothing in between has closed it. Most gaps hold evidence that the lane had never seen, which closes whatever was
open: running counts say so for all of them at once. Only what is left is walked (SPEC section 3, episodes).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator

Ints: TypeAlias = NDArray[np.int32]
Bits: TypeAlias = NDArray[np.bool_]


class LaneFacts:
    """What closes episodes, one value an action.

    ``closings``: how many actions up to here surely close any open episode. ``evidence``: codes, -1 where it is not
    known. ``valued`` says which fingerprints can be compared.
    """

    def __init__(self, lanes: pl.DataFrame, passed: Bits) -> None:
        """Take them from lanes numbered by `agentlens.detect.lanes.in_lanes`."""
        self._lanes = lanes
        self.start: Ints = lanes["start"].to_numpy()
        self.passed = passed
        self.milestone: Bits = lanes["milestone"].is_not_null().to_numpy()
        self.evidence = _codes(lanes, "progress_fingerprint")
        self.valued = _codes(lanes, "normaliser_version", "key_id", "fingerprint_version")
        fresh = pl.Series(self.start.astype(np.int64) << 32 | self.evidence).is_first_distinct().to_numpy()
        sure = fresh & (self.evidence >= 0)
        # where versions change inside a lane, new evidence may not be comparable: then it is no sure closing
        changes = (
            np.flatnonzero((self.valued[1:] != self.valued[:-1]) & (self.start[1:] == self.start[:-1])) + 1
        )
        if changes.size:
            sure &= ~np.isin(self.start, self.start[changes])
        self.closings: Ints = np.cumsum(sure | self.milestone | passed).astype(np.int32)

    @cached_property
    def signature(self) -> Ints:
        """Codes of action signatures."""
        return _codes(self._lanes, "action_signature")

    @cached_property
    def tool(self) -> Ints:
        """Codes of tools."""
        return _codes(self._lanes, "tool")

    @cached_property
    def named(self) -> Ints:
        """Which signatures can be compared."""
        return _codes(self._lanes, "normaliser_version", "key_id")

    def may_be_equal(self, one: int, other: int) -> bool:
        """Whether two actions may be the same."""
        symbols = self.signature if self.named[one] == self.named[other] else self.tool
        return bool(symbols[one] == symbols[other])


def _codes(lanes: pl.DataFrame, *names: str) -> Ints:
    """Codes of one column (null is -1), or of several taken together (null is a value like others)."""
    code = np.zeros(lanes.height, dtype=np.int64)
    for name in names:
        column = lanes[name]
        if len(names) == 1:
            return column.cast(pl.Categorical).to_physical().cast(pl.Int32).fill_null(-1).to_numpy()
        if column.ne_missing(column.head(1)).any():
            one = column.cast(pl.Categorical).to_physical().cast(pl.Int64).fill_null(-1).to_numpy() + 1
            code = np.unique(code * (int(one.max()) + 1) + one, return_inverse=True)[1]
    return code.astype(np.int32)


@dataclass(frozen=True, kw_only=True)
class _Segments:
    """Stuck events in a row with one period: ``alert`` to ``end``, the stretch from ``onset`` on."""

    alert: Ints
    end: Ints
    onset: Ints
    period: Ints


def starts_of_episodes(facts: LaneFacts, rows: Ints, period: Ints, stretch: Ints) -> tuple[Ints, Ints]:
    """Positions among the stuck `rows` (ascending) of alerts, and the last stuck row of each episode."""
    if not rows.size:
        return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
    goes_on = rows[1:] == rows[:-1] + 1
    goes_on &= facts.start[rows[1:]] == facts.start[rows[:-1]]
    goes_on &= (period[1:] == period[:-1]) & ~facts.passed[rows[1:]]
    first = np.concatenate([[0], np.flatnonzero(~goes_on) + 1]).astype(np.int32)
    segments = _Segments(
        alert=rows[first],
        end=np.append(rows[first[1:] - 1], rows[-1]),
        onset=rows[first] - stretch[first] + 1,
        period=period[first],
    )
    begins = np.ones(first.size, dtype=bool)
    for group in _open_gaps(facts, segments):
        _walk(facts, segments, group, begins)
    opened = np.flatnonzero(begins)
    last = segments.end[np.append(opened[1:] - 1, first.size - 1)]
    return first[opened], last.astype(np.int32)


def _open_gaps(facts: LaneFacts, segments: _Segments) -> Iterator[range]:
    """Runs of segments of one lane and period between which nothing surely closes: ``range`` over segments."""
    alert, end = segments.alert[1:], segments.end[:-1]
    same = facts.start[alert] == facts.start[end]
    same &= (segments.period[1:] == segments.period[:-1]) & (alert > end + 1)
    # new evidence closes only where the laps have some; a judgement right before the alert closes too
    closed = (facts.closings[alert - 1] > facts.closings[end]) & (facts.evidence[end] >= 0)
    left = np.flatnonzero(same & ~closed & ~facts.passed[alert])
    if not left.size:
        return
    for group in np.split(left, np.flatnonzero(np.diff(left) > 1) + 1):
        yield range(int(group[0]), int(group[-1]) + 2)


def _walk(facts: LaneFacts, segments: _Segments, group: range, begins: Bits) -> None:
    """Decide segment by segment whether it goes on with the episode before; write into `begins`."""
    seen: set[tuple[int, int]] = set()
    lap: list[int] = []
    for number in group:
        alert, p = int(segments.alert[number]), int(segments.period[number])
        mine = list(range(alert - p + 1, alert + 1))
        if number > group[0]:
            closed = _closed(facts, seen, int(segments.end[number - 1]) + 1, alert)
            begins[number] = closed or not _rotation(facts, lap, mine)
        if begins[number]:
            seen, lap = set(), mine
        for row in range(int(segments.onset[number]), int(segments.end[number]) + 1):
            if facts.evidence[row] >= 0:
                seen.add((int(facts.evidence[row]), int(facts.valued[row])))


def _closed(facts: LaneFacts, seen: set[tuple[int, int]], begin: int, alert: int) -> bool:
    """Whether an action from `begin` to before `alert`, or a judgement in between, closes the episode."""
    versions = {version for _, version in seen}
    for row in range(begin, alert):
        if facts.passed[row] or facts.milestone[row]:
            return True
        known = int(facts.evidence[row]), int(facts.valued[row])
        if known[0] >= 0 and known[1] in versions and known not in seen:
            return True
    return bool(facts.passed[alert])


def _rotation(facts: LaneFacts, lap: list[int], other: list[int]) -> bool:
    rotations = (lap[k:] + lap[:k] for k in range(len(lap)))
    return any(all(map(facts.may_be_equal, other, rotation)) for rotation in rotations)
