"""Handoffs rolled up: an operation survives retries and restarts, its handoffs are attempts (SPEC section 4)."""

from __future__ import annotations

import polars as pl

from agentlens.model.handoff import OPERATIONS


def operations(handoffs: pl.LazyFrame) -> pl.LazyFrame:
    """State of each operation: that of its newest handoff, the one delegated last.

    Parameters
    ----------
    handoffs
        Rows of schema `HANDOFFS`.

    Returns
    -------
    pl.LazyFrame
        Schema `OPERATIONS`, sorted by operation.
    """
    newest = [
        "handoff_id",
        "state",
        "reason",
        "expected_artifact",
        "urgency",
        "inferred",
        "run_id",
        "suggestion",
    ]
    ordered = handoffs.sort("operation_id", "attempt")
    rolled = ordered.group_by("operation_id", maintain_order=True).agg(
        pl.col(newest).last(),
        attempts=pl.len().cast(pl.Int64),
        accepted_attempts=pl.col("accepted").sum().cast(pl.Int64),
        first_delegated_at=pl.col("delegated_at").min(),
        last_delegated_at=pl.col("delegated_at").max(),
        newest_at=pl.col("newest_at").max(),
        as_of=pl.col("as_of").max(),
    )
    return rolled.select(OPERATIONS.names()).sort("operation_id")
