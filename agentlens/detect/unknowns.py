"""The exact fill for unknown values: ``S_hi``, the longest stretch that some completion would give (CALIBRATION 3.6).

An unknown value is whatever would keep the stretch, but a known value must still agree with the last known
value at its position of the lap. Only lanes that have an unknown value come here.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from agentlens.detect.rules import Rule

_Int = npt.NDArray[np.int64]
_Bool = npt.NDArray[np.bool_]


def longest_possible(lanes: pl.DataFrame, rule: Rule) -> pl.DataFrame:
    """``H_1..H_P`` (Int32), one row for each of `lanes`, whose ``row`` counts from 0 without a gap.

    `lanes` carries ``_mark`` and ``_pause`` of `agentlens.detect.cycles.with_lengths`.
    """
    start = lanes["start"].to_numpy().astype(np.int64)
    row = np.arange(lanes.height, dtype=np.int64)
    signature = _Symbols(lanes, "action_signature", ("normaliser_version", "key_id"))
    evidence = _Symbols(
        lanes, "progress_fingerprint", ("normaliser_version", "key_id", "fingerprint_version")
    )
    tool = _codes(lanes, "tool")
    marked = lanes["_mark"].to_numpy()
    always = np.where(lanes["_pause"].to_numpy(), row - 1, start - 1)
    columns = {}
    for p in range(1, rule.max_period + 1):
        order = _by_phase(start, p)
        cut = np.maximum(always, _action_cut(signature, tool, order, start, p))
        if rule.evidence == "lap":
            cut = np.maximum(cut, evidence.cut(order))
        elif rule.evidence == "constant":
            cut = np.maximum(cut, evidence.cut(_by_phase(start, 1)))
        back = 1 if rule.evidence == "constant" else p
        cut = np.maximum(cut, np.where(marked, row - back, -1))
        columns[f"H_{p}"] = (row - np.maximum.accumulate(cut)).astype(np.int32)
    return pl.DataFrame(columns)


class _Symbols:
    """One column as integer codes, with which values are known and which were made in the same way."""

    def __init__(self, lanes: pl.DataFrame, name: str, versions: tuple[str, ...]) -> None:
        self.known: _Bool = lanes[name].is_not_null().to_numpy()
        self.code = _codes(lanes, name)
        self.version = _codes(lanes, *versions)

    def last_known(self, order: _Order) -> _Int:
        """Row of the last known value at the same position of the lap, strictly before; -1 where there is none."""
        place = np.arange(len(order.rows), dtype=np.int64)
        seen = np.where(self.known[order.rows], place, -1)
        seen = np.maximum.accumulate(seen)
        before = np.empty_like(seen)
        before[0] = -1
        before[1:] = seen[:-1]
        found = before >= order.first
        last = np.where(found, order.rows[np.maximum(before, 0)], -1)
        result = np.empty_like(last)
        result[order.rows] = last
        return result

    def cut(self, order: _Order) -> _Int:
        """Row forbidden by a known value that contradicts the last known one; -1 where nothing is."""
        last = self.last_known(order)
        there = np.maximum(last, 0)
        clash = (
            self.known & (last >= 0) & (self.version == self.version[there]) & (self.code != self.code[there])
        )
        return np.where(clash, last, -1)


class _Order:
    """Rows in the order lane, position of the lap, time; ``first`` is the place where each group begins."""

    def __init__(self, rows: _Int, first: _Int) -> None:
        self.rows = rows
        self.first = first


def _by_phase(start: _Int, p: int) -> _Order:
    """Order by lane and position modulo p, worked out by arithmetic instead of by sorting."""
    total = len(start)
    row = np.arange(total, dtype=np.int64)
    opens = np.flatnonzero(row == start)
    length = np.repeat(np.diff(opens, append=total), np.diff(opens, append=total))
    position = row - start
    phase = position % p
    first = start + phase * (length // p) + np.minimum(phase, length % p)
    place = first + position // p
    rows = np.empty(total, dtype=np.int64)
    rows[place] = row
    group = np.empty(total, dtype=np.int64)
    group[place] = first
    return _Order(rows, group)


def _action_cut(signature: _Symbols, tool: _Int, order: _Order, start: _Int, p: int) -> _Int:
    """An unknown action may equal any action of the same tool; actions of different tools are known to differ."""
    cut = signature.cut(order)
    row = np.arange(len(start), dtype=np.int64)
    earlier = np.maximum(row - p, 0)
    comparable = (
        signature.known & signature.known[earlier] & (signature.version == signature.version[earlier])
    )
    other_tool = (row - p >= start) & ~comparable & (tool != tool[earlier])
    return np.maximum(cut, np.where(other_tool, row - p, -1))


def _codes(lanes: pl.DataFrame, *names: str) -> _Int:
    """Dense integer codes of the values of one or several columns taken together; null is a value."""
    code = np.zeros(lanes.height, dtype=np.int64)
    for name in names:
        column = lanes[name]
        if column.n_unique() > 1:
            one = column.cast(pl.Categorical).to_physical().cast(pl.Int64).fill_null(-1).to_numpy() + 1
            code = np.unique(code * (int(one.max()) + 1) + one, return_inverse=True)[1] if code.any() else one
    return code
