"""Which stuck events begin an episode, for one rule, from the stuck events alone.

Stuck events in a row with one period are one segment: moving a lap on by one event rotates it. A lane with one
segment has one episode. A later segment begins another one unless its lap is a rotation of the episode's and
nothing in between has closed it. Most gaps hold evidence that the lane had never seen, which closes whatever was
open: running counts say so for all of them at once. Only what is left is walked (SPEC section 3, episodes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agentlens.detect.lanes import LANE

if TYPE_CHECKING:
    from collections.abc import Iterator

Ints: TypeAlias = NDArray[np.int32]
Bits: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class LaneFacts:
    """What closes episodes, one value an action.

    ``closings``: how many actions up to here surely close any open episode. Codes are -1 where a value is null;
    ``named`` and ``valued`` say which signatures, and fingerprints, can be compared.
    """

    start: Ints
    closings: Ints
    passed: Bits
    milestone: Bits
    signature: Ints
    tool: Ints
    evidence: Ints
    named: Ints
    valued: Ints

    @classmethod
    def of(cls, lanes: pl.DataFrame, passed: Bits) -> LaneFacts:
        """Take them from lanes numbered by `agentlens.detect.lanes.in_lanes`."""
        names = pl.concat_str(pl.col("normaliser_version", "key_id").fill_null(""), separator="\0")
        values = pl.concat_str(names, pl.col("fingerprint_version").fill_null(""), separator="\0")
        versions = lanes.select(names.alias("n"), values.alias("v"))
        start = lanes["start"].to_numpy()
        valued = _codes(versions["v"])
        evidence = _codes(lanes["progress_fingerprint"])
        milestone = lanes["milestone"].is_not_null().to_numpy()
        fresh = lanes.select(
            pl.col("progress_fingerprint").is_not_null()
            & pl.struct(*LANE, "progress_fingerprint").is_first_distinct()
        ).to_series()
        # where versions change inside a lane, new evidence may not be comparable: then it is no sure closing
        one = np.ones(lanes.height, dtype=bool)
        changes = np.flatnonzero((valued[1:] != valued[:-1]) & (start[1:] == start[:-1])) + 1
        if changes.size:
            one = ~np.isin(start, start[changes])
        sure = milestone | passed | (fresh.to_numpy() & one)
        return cls(
            start=start,
            closings=np.cumsum(sure).astype(np.int32),
            passed=passed,
            milestone=milestone,
            signature=_codes(lanes["action_signature"]),
            tool=_codes(lanes["tool"]),
            evidence=evidence,
            named=_codes(versions["n"]),
            valued=valued,
        )

    def may_be_equal(self, one: int, other: int) -> bool:
        """Whether two actions may be the same."""
        symbols = self.signature if self.named[one] == self.named[other] else self.tool
        return bool(symbols[one] == symbols[other])


def _codes(column: pl.Series) -> Ints:
    return column.cast(pl.Categorical).to_physical().cast(pl.Int32).fill_null(-1).to_numpy()


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
