"""The caller's span of an agent that a tool hands over to: a fact beside the handoff that the tool tells."""

from __future__ import annotations

import polars as pl

from agentlens.model.handed import pairs

CALLER = (
    (pl.col("tool") == "handoff")
    & pl.col("span_id").is_null()
    & pl.col("call_id").is_not_null()
    & pl.col("parent_span_id").is_not_null()
)
"""What the caller's side of an agent looks like: it stands in the lane around it, with its own span as the call."""


def hand_over_once(records: pl.DataFrame) -> pl.DataFrame:
    """Keep one handoff where a tool and the caller's span of the agent tell of the same act.

    The tool's stays, with the addressee, the failure and the open end that only the caller saw; the caller's becomes a
    ``log`` with all that it says, for the agent's own span stands below it.

    Parameters
    ----------
    records
        `RECORDS` rows, merged, agents inherited.
    """
    callers = (pl.col("kind") == "handoff") & CALLER
    if not records.select(callers.any()).item():
        return records
    numbered = records.with_row_index("handoff")
    handoffs = numbered.filter(pl.col("kind") == "handoff", pl.col("span_id").is_not_null() | CALLER)
    found = pairs(handoffs.select("handoff", "run_id", "span_id", "parent_span_id", "target", "at"))
    mine = handoffs.filter(CALLER).select("handoff", named="target", failed="error_class", left_open="open")
    told = found.join(mine, on="handoff")
    if told.is_empty():
        return records
    twice = told.select("handoff", twice=pl.lit(value=True))
    seen = told.select("named", "failed", "left_open", handoff="above")
    joined = numbered.join(twice, on="handoff", how="left", maintain_order="left").join(
        seen, on="handoff", how="left", maintain_order="left"
    )
    return joined.with_columns(
        kind=pl.when("twice").then(pl.lit("log")).otherwise("kind"),
        target=pl.coalesce("target", "named"),
        error_class=pl.coalesce("error_class", "failed"),
        open=pl.col("open") | pl.col("left_open").fill_null(value=False),
    ).select(records.columns)
