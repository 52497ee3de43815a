"""Spans of one lane that began in one tick of their export's clock.

No export of spans promises an order: children are mostly written before their parents, and calls made side by side in
the order in which they ended. What a run did must not depend on that, so within one tick a span stands behind the one
around it, and calls side by side stand in an order that is the same lap by lap.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from agentlens.model.event import ACTIONS
from agentlens.model.once import nulls

_AS_WRITTEN: Final = ("native", "sql")
"""Readers whose rows have a trace, too, but stand in the order that somebody gave them."""
_SAME: Final = ("run_id", "agent", "at")
_PLACE: Final = ("source_id", "position", "position_in")


def untied(ordered: pl.DataFrame, *, numbered: bool = False) -> pl.DataFrame:
    """Order the spans of one tick among themselves; everything else stays where it is.

    Parameters
    ----------
    ordered
        Records by lane, time and place.
    numbered
        There is a column ``by_number``: lanes that the export's own numbers order are left alone.

    Returns
    -------
    pl.DataFrame
        The same rows: a span behind its parent; of what one span holds, first what took no time, then actions by
        tool and signature, then what went on.
    """
    if nulls(ordered, "trace_id") == len(ordered):
        return ordered
    again = pl.all_horizontal(pl.col(name) == pl.col(name).shift() for name in _SAME).fill_null(value=False)
    spans = pl.col("trace_id").is_not_null() & ~pl.col("reader").is_in(_AS_WRITTEN)
    if numbered:
        spans &= ~pl.col("by_number")
    marks = ordered.select(again=again, spans=spans).with_row_index("row")
    marks = marks.with_columns(tick=(~pl.col("again")).cum_sum()).filter(
        pl.col("again") | pl.col("again").shift(-1, fill_value=False)
    )
    marks = marks.filter(pl.col("spans").all().over("tick")).select("row", "tick")
    if marks.is_empty():
        return ordered
    ticks = ordered.select(
        *_PLACE, "span_id", "parent_span_id", "kind", "tool", "action_signature", "at", "ended_at"
    )[marks["row"]].with_columns(marks)
    long = pl.col("ended_at") > pl.col("at")
    ticks = ticks.with_columns(
        depth=_depths(ticks),
        rank=pl.when(pl.col("kind").is_in(ACTIONS)).then(1).when(long).then(2).otherwise(0),
    )
    told = ticks.sort("tick", "depth", "rank", "tool", "action_signature", "ended_at", "span_id", *_PLACE)[
        "row"
    ]
    rows = pl.int_range(len(ordered), dtype=pl.UInt32, eager=True).scatter(marks["row"], told)
    return ordered.select(pl.all().gather(rows))


def _depths(ticks: pl.DataFrame) -> pl.Series:
    """Count, for each row, the spans of its tick that are around it."""
    nodes = (
        ticks.filter(pl.col("span_id").is_not_null())
        .group_by("tick", "span_id", maintain_order=True)
        .agg(pl.col("parent_span_id").drop_nulls().first())
        .with_row_index("node")
    )
    named = nodes.select("tick", "node", around="span_id")
    climb = nodes.join(
        named.rename({"node": "up"}),
        left_on=["tick", "parent_span_id"],
        right_on=["tick", "around"],
        how="left",
        maintain_order="left",
    )
    up, depth = climb["up"], climb["up"].is_not_null().cast(pl.Int64)
    for _ in range(
        len(nodes).bit_length() + 1
    ):  # each round looks twice as far up; a circle ends with the rounds
        if up.null_count() == len(up):
            break
        depth += depth.gather(up).fill_null(0)
        up = up.gather(up)
    depths = named.with_columns(depth=depth).drop("node")
    own, around = (
        ticks.join(
            depths, left_on=["tick", column], right_on=["tick", "around"], how="left", maintain_order="left"
        )["depth"]
        for column in ("span_id", "parent_span_id")
    )
    return own.fill_null(around + 1).fill_null(0)
