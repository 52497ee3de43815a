"""Calls that only the words of a model tell of: actions where their trace has no others."""

from __future__ import annotations

import polars as pl

from agentlens.model.event import ACTIONS

ASKED = "asked:"
"""How readers begin the identity of such a call."""
_TRACE = ("run_id", "trace_id")


def promote(records: pl.DataFrame) -> pl.DataFrame:
    """Make the calls that models asked for the actions of traces whose tools left no records of their own.

    Where a trace has actions, those are what was done, and what was asked for is left out: it is told by them.

    Parameters
    ----------
    records
        `RECORDS` rows, merged.

    Returns
    -------
    pl.DataFrame
        The other rows, and those of such traces with ``kind`` ``tool`` or ``handoff`` instead of ``log``.
    """
    asked = pl.col("identity").str.starts_with(ASKED).fill_null(False) & (pl.col("kind") == "log")
    told = records.filter(asked)
    if told.is_empty():
        return records
    acting = records.filter(pl.col("kind").is_in(ACTIONS)).select(_TRACE).unique()
    alone = told.select(_TRACE).unique().join(acting, on=_TRACE, how="anti", nulls_equal=True)
    alone = alone.with_columns(alone=pl.lit(True))
    kind = pl.when(pl.col("target").is_null()).then(pl.lit("tool")).otherwise(pl.lit("handoff"))
    known = pl.col("tool") != ""  # a reply whose call was never seen says of no action
    placed = records.join(alone, on=_TRACE, how="left", maintain_order="left", nulls_equal=True)
    done = asked & known & pl.col("alone").is_not_null()
    kept = placed.with_columns(done=done, asked=asked).filter(pl.col("done") | ~pl.col("asked"))
    return kept.with_columns(kind=pl.when("done").then(kind).otherwise("kind")).select(records.columns)
