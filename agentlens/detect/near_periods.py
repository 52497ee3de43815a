"""Near periods: the longest stretch of each lane that would be periodic but for one edit (CALIBRATION section 3.8).

One event was put in, replaced or left out. Chance makes such stretches some tens of times more often than exact ones,
so they inform a reader ("one edit short of an alert") and never decide: no verdict looks at them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agentlens.detect.cycles import mark
from agentlens.detect.lanes import LANE, lane_by_lane
from agentlens.detect.rules import Evidence
from agentlens.errors import SettingsError
from agentlens.model.event import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Ints: TypeAlias = NDArray[np.int64]

NEAR_PERIODS = pl.Schema(
    {
        "run_id": pl.String(),
        "agent": pl.String(),
        "period": pl.Int64(),
        "exact": pl.Int64(),
        "near": pl.Int64(),
        "edit": pl.String(),
        "edit_seq": pl.Int64(),
        "from_seq": pl.Int64(),
        "to_seq": pl.Int64(),
    }
)
"""One row a lane and period, sorted. ``exact``: events of its longest p-periodic stretch; ``near``: events of the
longest one that fits a p-periodic word after one ``edit``: ``inserted`` (the event ``edit_seq`` is foreign),
``replaced`` (it stands in another's place), ``skipped`` (one is missing just before it); an inserted or replaced event
does not count. ``from_seq..to_seq`` is that stretch; without a gain ``edit`` is null and the stretch the exact one."""

_EDITS: Final = ("replaced", "inserted", "skipped")


def near_periods(
    events: pl.LazyFrame, *, max_period: int = 6, evidence: Evidence = "lap", actions: Sequence[str] = ACTIONS
) -> pl.LazyFrame:
    """Find the longest exact and one-edit stretch of every lane, per period.

    Parameters
    ----------
    events
        The event table in any order.
    max_period
        Longest period looked for, at least 1.
    evidence
        ``lap``: an event is its action and what was seen after it; ``none``: its action alone. ``constant`` is not
        known here: one edit of the evidence would say nothing.
    actions
        The kinds that take part in cycles.

    Returns
    -------
    LazyFrame
        Schema `NEAR_PERIODS`. An event whose action (or evidence) is not known, and one with a milestone or after a
        human turn, equals no other, so that both lengths are lower bounds.

    Raises
    ------
    SettingsError
        For a period below 1 or another kind of evidence.

    Examples
    --------
    >>> lane = pl.LazyFrame({"run_id": "r", "seq": range(9), "tool": "t", "action_signature": list("ababxabab")})
    >>> found = near_periods(lane, max_period=2, evidence="none").collect()
    >>> found.select("period", "exact", "near", "edit", "edit_seq").rows()
    [(1, 1, 2, 'replaced', 1), (2, 4, 8, 'inserted', 4)]
    """
    if max_period < 1:
        raise SettingsError.value("max_period", max_period, "a whole number from 1")
    if evidence not in {"lap", "none"}:
        raise SettingsError.unknown(
            "evidence", str(evidence), [e for e in get_args(Evidence) if e != "constant"]
        )

    def judge(lanes: pl.DataFrame) -> pl.DataFrame:
        return _of_lanes(lanes, max_period, evidence)

    return lane_by_lane(events, actions, judge, NEAR_PERIODS).sort(*LANE, "period")


def _of_lanes(lanes: pl.DataFrame, max_period: int, evidence: Evidence) -> pl.DataFrame:
    start = lanes["start"].to_numpy().astype(np.int64)
    opens = np.unique(start)
    stop = np.repeat(np.append(opens[1:], lanes.height) - 1, np.diff(np.append(opens, lanes.height)))
    word = _Word(_symbols(lanes, evidence), start, stop)
    ids, seq = lanes.select(LANE)[opens.tolist()], lanes["seq"].to_numpy()
    parts = []
    for period in range(1, max_period + 1):
        left = word.left(period)
        exact_at = _best(left, start)
        exact = left[exact_at]
        best = {"near": exact, "low": exact_at - exact + 1, "high": exact_at, "edit": np.full(exact.size, -1)}
        best["at"] = np.zeros_like(exact)
        for number, (size, low, high) in enumerate(word.edits(period, left)):
            at = _best(size, start)
            gain = size[at] > best["near"]
            found = {"near": size[at], "low": low[at], "high": high[at], "at": at}
            best = {name: np.where(gain, found.get(name, number), old) for name, old in best.items()}
        parts.append(_frame(ids, period, exact, best, seq))
    return pl.concat([NEAR_PERIODS.to_frame(), *parts])


def _frame(ids: pl.DataFrame, period: int, exact: Ints, best: dict[str, Ints], seq: Ints) -> pl.DataFrame:
    some = best["edit"] >= 0
    return ids.with_columns(
        period=pl.lit(period, pl.Int64),
        exact=pl.Series(exact),
        near=pl.Series(best["near"]),
        edit=pl.Series([_EDITS[e] if e >= 0 else None for e in best["edit"].tolist()], dtype=pl.String),
        edit_seq=pl.when(pl.Series(some)).then(pl.Series(seq[best["at"]])),
        from_seq=pl.Series(seq[best["low"]]),
        to_seq=pl.Series(seq[best["high"]]),
    ).cast(dict(NEAR_PERIODS))  # type: ignore[arg-type]


def _best(size: Ints, start: Ints) -> Ints:
    """Row of the first largest value of each lane."""
    opens = np.unique(start)
    most = np.maximum.reduceat(size, opens)
    lane = np.searchsorted(opens, start)
    rows = np.flatnonzero(size == most[lane])
    _, first = np.unique(lane[rows], return_index=True)
    return np.asarray(rows[first], dtype=np.int64)


def _symbols(lanes: pl.DataFrame, evidence: Evidence) -> Ints:
    """One number for each different event; what is not known, and what counts as new, has one of its own."""
    compared = ["action_signature", "normaliser_version", "key_id"]
    unknown = pl.col("action_signature").is_null() | mark()
    if evidence == "lap":
        compared += ["progress_fingerprint", "fingerprint_version"]
        unknown = unknown | pl.col("progress_fingerprint").is_null()
    same = pl.struct(compared).rank("dense").cast(pl.Int64)
    own = -1 - pl.int_range(pl.len(), dtype=pl.Int64)
    return lanes.select(pl.when(unknown).then(own).otherwise(same)).to_series().to_numpy()


class _Word:
    """Symbols of whole lanes with the first and last row of each row's lane."""

    def __init__(self, symbols: Ints, start: Ints, stop: Ints) -> None:
        self.x, self.start, self.stop = symbols, start, stop
        self.row = np.arange(symbols.size, dtype=np.int64)

    def left(self, p: int) -> Ints:
        """Length of the longest p-periodic stretch that ends at each row."""
        fails = ~self._equal(self.row, self.row - p) & (self.row - p >= self.start)
        cut = np.maximum.accumulate(np.where(fails, self.row - p, -1))
        return self.row - np.maximum(cut, self.start - 1)

    def right(self, p: int) -> Ints:
        """Length of the longest p-periodic stretch that begins at each row."""
        fails = ~self._equal(self.row, self.row + p) & (self.row + p <= self.stop)
        cut = np.minimum.accumulate(np.where(fails, self.row + p, self.x.size)[::-1])[::-1]
        return np.minimum(cut, self.stop + 1) - self.row

    def edits(self, p: int, left: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
        """``size, low, high`` of the longest stretch with each edit at each row, in the order of the names.

        What lies before the edit is periodic, so is what lies after it, and comparisons across it hold at a lag that
        the edit has moved: by none (and twice the period for the replaced event's own class), by one, by minus one.
        """
        before = np.where(self.row > self.start, np.append(0, left[:-1]), 0)
        right = self.right(p)
        after = np.where(self.row < self.stop, np.append(right[1:], 0), 0)
        ordinary = [(d, p) for d in range(1, p)]
        for first, lags, length in (
            (1, [*ordinary, (p, 2 * p)], after),
            (1, [(d, p + 1) for d in range(1, p + 1)], after),
            (0, [*((d, p - 1) for d in range(p - 1)), (p - 1, 2 * p - 1)], right),
        ):
            yield self._stitched(before, length, first, lags)

    def _stitched(
        self, before: Ints, length: Ints, first: int, lags: Sequence[tuple[int, int]]
    ) -> tuple[Ints, Ints, Ints]:
        """Longest ``low..high`` around each row: a comparison across that fails bounds one side or the other."""
        low, last = self.row - before, self.row + first + length - 1
        best = np.full(self.row.size, -1, dtype=np.int64)
        chosen_low, chosen_high = low.copy(), last.copy()

        def offer(low: Ints, high: Ints) -> None:
            size = high - low + 1 - first
            more = size > best
            best[more], chosen_low[more], chosen_high[more] = size[more], low[more], high[more]

        for ahead, lag in lags:
            j = self.row + ahead
            k = j - lag
            offer(low, np.minimum(last, j - 1))
            fails = (j <= last) & (k >= self.start) & ~self._equal(j, k)
            low = np.where(fails, np.maximum(low, k + 1), low)
        offer(low, last)
        return best, chosen_low, chosen_high

    def _equal(self, j: Ints, k: Ints) -> NDArray[np.bool_]:
        """Whether rows hold the same symbol; rows outside the frame are compared with its ends, callers mask them."""
        most = self.x.size - 1
        return np.asarray(self.x[np.clip(j, 0, most)] == self.x[np.clip(k, 0, most)], dtype=np.bool_)
