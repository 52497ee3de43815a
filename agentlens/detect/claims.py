"""Claimed success against verified outcome, and the cues that need no outcome.

The model's word is never evidence: a claim stands beside what something outside the agent said, and "unknown" is
its own answer.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from agentlens.detect.reset_effects import run_outcome

CLAIMS = pl.Schema(
    {
        "run_id": pl.String(),
        "workflow": pl.String(),
        "model": pl.String(),
        "agent_version": pl.String(),
        "task_group": pl.String(),
        "claimed": pl.String(),
        "outcome": pl.String(),
        "false_success": pl.Boolean(),
        "actions": pl.Int64(),
        "changes": pl.Int64(),
        "checks": pl.Int64(),
        "no_tool_call": pl.Boolean(),
        "no_check_after_change": pl.Boolean(),
    }
)
"""One row a run, sorted. ``claimed``: ``success``, ``failure``, or null where nothing was claimed. ``outcome``:
``passed``, ``failed``, ``unknown``, or null where nothing outside the agent spoke. ``false_success``: success was
claimed and the outcome failed; null where the outcome is not known. Cues are null where they cannot be told."""

CUES = pl.Schema(
    {
        "cue": pl.String(),
        "claims": pl.Int64(),
        "flagged": pl.Int64(),
        "labelled": pl.Int64(),
        "false": pl.Int64(),
        "precision": pl.Float64(),
        "low": pl.Float64(),
        "high": pl.Float64(),
    }
)
"""One row a cue: runs that claim success, those it flags, of these with a known outcome, of these falsely; the
share of the last with its exact interval (Clopper and Pearson). The cue ``claim`` flags every claim: the base rate."""

CUE_NAMES: Final = ("claim", "no_tool_call", "no_check_after_change")


def claims(events: pl.LazyFrame) -> pl.LazyFrame:
    """Set each run's claim beside its outcome (schema `CLAIMS`).

    The last claim of a run counts. ``no_check_after_change``: nothing verified (no test, linter or diff) follows
    the last change; null where no change was seen.
    """
    is_claim = pl.col("kind") == "claim"
    is_action = pl.col("kind").is_in(["tool", "handoff"])
    order = events.sort("run_id", "at", "agent", "seq", nulls_last=True)
    placed = order.with_columns(place=pl.int_range(pl.len()))
    change = is_action & pl.col("change").fill_null(value=False)
    check = is_action & pl.col("check").fill_null(value=False)
    per_run = placed.group_by("run_id").agg(
        pl.col("workflow", "model", "agent_version", "task_group").drop_nulls().min(),
        claimed=pl.col("target").filter(is_claim).sort_by(pl.col("place").filter(is_claim)).last(),
        outcome=run_outcome(),
        actions=is_action.sum().cast(pl.Int64),
        changes=change.sum().cast(pl.Int64),
        checks=check.sum().cast(pl.Int64),
        last_change=pl.col("place").filter(change).max(),
        last_check=pl.col("place").filter(check).max(),
    )
    success = pl.col("claimed") == "success"
    unchecked = pl.col("last_check").is_null() | (pl.col("last_check") < pl.col("last_change"))
    return (
        per_run.with_columns(
            false_success=pl.when(success & pl.col("outcome").is_in(["passed", "failed"])).then(
                pl.col("outcome") == "failed"
            ),
            no_tool_call=pl.col("actions") == 0,
            no_check_after_change=pl.when(pl.col("last_change").is_not_null()).then(unchecked),
        )
        .select(CLAIMS.names())
        .sort("run_id")
    )


def cues(claims: pl.DataFrame, *, confidence: float = 0.95) -> pl.DataFrame:
    """How well each cue alone points at false success (schema `CUES`).

    Examples
    --------
    >>> row = {"claimed": "success", "no_check_after_change": None}
    >>> runs = [row | {"false_success": True, "no_tool_call": True}] * 9
    >>> runs += [row | {"false_success": False, "no_tool_call": False}]
    >>> cues(pl.DataFrame(runs, schema_overrides={"no_check_after_change": pl.Boolean})).row(1)[:6]
    ('no_tool_call', 10, 9, 9, 9, 1.0)
    """
    claimed = claims.filter(pl.col("claimed") == "success").with_columns(claim=pl.lit(True))
    rows = []
    for cue in CUE_NAMES:
        flagged = claimed.filter(pl.col(cue).fill_null(value=False))
        known = flagged.drop_nulls("false_success")
        wrong = int(known["false_success"].sum())
        rows.append(
            (
                cue,
                claimed.height,
                flagged.height,
                known.height,
                wrong,
                *_share(wrong, known.height, confidence),
            )
        )
    return pl.DataFrame(rows, schema=CUES, orient="row")


def _share(hits: int, of: int, confidence: float) -> tuple[float | None, float | None, float | None]:
    """Share with its exact two-sided interval; nulls of none."""
    if not of:
        return None, None, None
    from scipy.stats import binomtest

    interval = binomtest(hits, of).proportion_ci(confidence_level=confidence, method="exact")
    return hits / of, float(interval.low), float(interval.high)
