"""The rows of one bucket in memory, in as little room as they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from agentlens.lake.store import aligned
from agentlens.model.once import said_once

if TYPE_CHECKING:
    from collections.abc import Sequence

CELLS = 25_000_000
"""Values read at once. A bucket of usual size is read in one go, one with a run of millions a few columns at a time."""


def gathered(frames: Sequence[pl.LazyFrame], schema: pl.Schema, by: Sequence[str]) -> pl.DataFrame:
    """Collect frames into one with these columns, sorted, nulls last; a column that says one thing is one value.

    The frames give their rows in the same order each time they are collected.
    """
    rows = pl.concat([aligned(frame, schema) for frame in frames])
    order = rows.select(by).with_row_index("row").collect().sort(by, nulls_last=True)["row"]
    moves = not order.is_sorted()
    names = schema.names()
    wide = max(1, CELLS // max(1, len(order)))
    groups = []
    for low in range(0, len(names), wide):
        group = said_once(rows.select(names[low : low + wide]).collect())
        groups.append(group.select(pl.all().gather(order)) if moves else group)
    return pl.concat(groups, how="horizontal")
