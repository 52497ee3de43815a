"""The exact fill for unknown values: ``S_hi``, the longest stretch that some completion would give (CALIBRATION 3.6).

An unknown value is whatever would keep the stretch, but a known value must still agree with the last known
value at its position of the lap. Only lanes that have an unknown value come here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from agentlens.detect.symbols import codes_of

if TYPE_CHECKING:
    from agentlens.detect.rules import Rule

_Int = npt.NDArray[np.int32]
_Bool = npt.NDArray[np.bool_]


def longest_possible(lanes: pl.DataFrame, rule: Rule) -> pl.DataFrame:
    """``H_1..H_P`` (Int32), one row for each of `lanes`, whose ``row`` counts from 0 without a gap.

    `lanes` carries ``_mark`` and ``_pause`` of `agentlens.detect.cycles.with_lengths`.
    """
    start = lanes["start"].to_numpy()
    row = np.arange(lanes.height, dtype=np.int32)
    length = _lane_lengths(start)
    signature = _Symbols(lanes, "action_signature", ("normaliser_version", "key_id"))
    evidence = _Symbols(
        lanes, "progress_fingerprint", ("normaliser_version", "key_id", "fingerprint_version")
    )
    tool = codes_of(lanes, "tool")
    marked = lanes["_mark"].to_numpy()
    always = np.where(lanes["_pause"].to_numpy(), row - 1, start - 1)
    columns = {}
    for p in range(1, rule.max_period + 1):
        order = _by_phase(start, length, p)
        cut = np.maximum(always, _action_cut(signature, tool, order, start, p))
        if rule.evidence == "lap":
            np.maximum(cut, evidence.cut(order), out=cut)
        elif rule.evidence == "constant":
            np.maximum(cut, evidence.cut(_by_phase(start, length, 1)), out=cut)
        back = 1 if rule.evidence == "constant" else p
        np.maximum(cut, np.where(marked, row - back, -1), out=cut)
        columns[f"H_{p}"] = row - np.maximum.accumulate(cut)
    return pl.DataFrame(columns)


class _Symbols:
    """One column as integer codes, with which values are known and which were made in the same way."""

    def __init__(self, lanes: pl.DataFrame, name: str, versions: tuple[str, ...]) -> None:
        self.known: _Bool = lanes[name].is_not_null().to_numpy()
        self.code = codes_of(lanes, name)
        self.version = codes_of(lanes, *versions)

    def last_known(self, order: _Order) -> _Int:
        """Row of the last known value at the same position of the lap, strictly before; -1 where there is none."""
        seen = np.maximum.accumulate(np.where(self.known[order.rows], order.places, -1))
        before = np.concatenate([np.full(1, -1, dtype=np.int32), seen[:-1]])
        last = np.empty_like(before)
        last[order.rows] = np.where(before >= order.first, order.rows[before.clip(0)], -1)
        return last

    def cut(self, order: _Order) -> _Int:
        """Row forbidden by a known value that contradicts the last known one; -1 where nothing is."""
        last = self.last_known(order)
        there = last.clip(0)
        clash = self.known & (last >= 0) & (self.code != self.code[there])
        if self.version.any():
            clash &= self.version == self.version[there]
        return np.where(clash, last, np.int32(-1))


class _Order:
    """Rows in the order lane, position of the lap, time; ``first`` is the place where each group begins."""

    def __init__(self, rows: _Int, first: _Int) -> None:
        self.rows = rows
        self.first = first
        self.places = np.arange(len(rows), dtype=np.int32)


def _lane_lengths(start: _Int) -> _Int:
    """Number of actions of each row's lane."""
    opens = np.flatnonzero(np.arange(len(start), dtype=np.int32) == start).astype(np.int32)
    lengths = np.diff(opens, append=np.int32(len(start)))
    return np.repeat(lengths, lengths)


def _by_phase(start: _Int, length: _Int, p: int) -> _Order:
    """Order by lane and position modulo p, worked out by arithmetic instead of by sorting."""
    row = np.arange(len(start), dtype=np.int32)
    if p == 1:
        return _Order(row, start)
    position = row - start
    lap, phase = np.divmod(position, np.int32(p))
    whole, rest = np.divmod(length, np.int32(p))
    first = start + phase * whole + np.minimum(phase, rest)
    place = first + lap
    rows, group = np.empty_like(row), np.empty_like(row)
    rows[place], group[place] = row, first
    return _Order(rows, group)


def _action_cut(signature: _Symbols, tool: _Int, order: _Order, start: _Int, p: int) -> _Int:
    """An unknown action may equal any action of the same tool; actions of different tools are known to differ."""
    cut = signature.cut(order)
    row = np.arange(len(start), dtype=np.int32)
    earlier = (row - np.int32(p)).clip(0)
    comparable = signature.known & signature.known[earlier]
    if signature.version.any():
        comparable &= signature.version == signature.version[earlier]
    other_tool = (row - p >= start) & ~comparable & (tool != tool[earlier])
    return np.maximum(cut, np.where(other_tool, row - np.int32(p), np.int32(-1)))
