"""A bounded next step for a handoff: who may take it, how often, how long, and what would prove it worked.

A suggestion authorises nothing. It never replays a run, and never retries what waits for a person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from agentlens.detect.handoff_limits import to_us

if TYPE_CHECKING:
    from agentlens.detect.handoff_limits import HandoffLimits

_OPERATOR: Final = "operator"

EVIDENCE: Final = {
    "redeliver_if_idempotent": "accepted by the named recipient within the time limit",
    "ask_retry_limit": "a declared retry limit and the word that the action is idempotent",
    "stop_redelivery": "a decision of the authority to cancel or to change the recipient",
    "route_request": "the answer of the owner, then a receipt of the recipient",
    "recover_once": "a new progress or completed receipt within the time limit",
    "run_verifier": "outcome_verified with outcome passed",
    "ask_for_artifact": "completed with the expected artifact, then outcome_verified with outcome passed",
    "ask_first": "receipts that agree, or one that settles which is right",
}
"""Each suggested step with the evidence that would prove recovery."""


def suggested(limits: HandoffLimits) -> list[pl.Expr]:
    """Columns ``suggestion``, ``authority``, ``attempt_limit``, ``time_limit_us``, ``success_evidence``.

    Reads ``state``, ``reason``, ``attempt``, the parties and the limit of acknowledgement. An orphan may only be
    delivered again when the retry limit is known and not spent; how many attempts are left is the limit.
    """
    step = _step(limits)
    return [
        step.alias("suggestion"),
        pl.when(step.is_not_null()).then(_authority(step)).alias("authority"),
        _attempts(step, limits).alias("attempt_limit"),
        _time(step, limits).alias("time_limit_us"),
        step.replace_strict(EVIDENCE, return_dtype=pl.String).alias("success_evidence"),
    ]


def _step(limits: HandoffLimits) -> pl.Expr:
    state = pl.col("state")
    again: pl.Expr = pl.lit("ask_retry_limit")
    if limits.retry_limit is not None:
        left = pl.col("attempt") < limits.retry_limit
        again = pl.when(left).then(pl.lit("redeliver_if_idempotent")).otherwise(pl.lit("stop_redelivery"))
    failed = pl.when(pl.col("newest_verified").is_null()).then(pl.lit("run_verifier"))
    return (
        pl.when(state == "orphaned")
        .then(again)
        .when(state == "waiting")
        .then(pl.lit("route_request"))
        .when(state == "stuck")
        .then(
            pl.when(pl.col("completed_last").is_null())
            .then(pl.lit("recover_once"))
            .otherwise(pl.lit("run_verifier"))
        )
        .when(state == "failed_outcome")
        .then(failed.otherwise(pl.lit("ask_for_artifact")))
        .when(state == "uncertain")
        .then(pl.lit("ask_first"))
    )


def _authority(step: pl.Expr) -> pl.Expr:
    """Who may decide: the owner of what is waited for, else the giver, else the operator."""
    owner = pl.when(step == "route_request").then(pl.col("wait_owner"))
    giver = pl.when(step != "ask_first").then(pl.col("giver").cast(pl.String))
    return pl.coalesce(owner, giver, pl.lit(_OPERATOR))


def _attempts(step: pl.Expr, limits: HandoffLimits) -> pl.Expr:
    left = pl.lit(limits.retry_limit, dtype=pl.Int64) - pl.col("attempt")
    once = step.is_in(["recover_once", "run_verifier", "ask_for_artifact", "ask_first", "ask_retry_limit"])
    return (
        pl.when(step == "redeliver_if_idempotent")
        .then(left)
        .when(once)
        .then(pl.lit(1, dtype=pl.Int64))
        .when(step.is_not_null())
        .then(pl.lit(0, dtype=pl.Int64))
    )


def _time(step: pl.Expr, limits: HandoffLimits) -> pl.Expr:
    """How long the step may take: the acknowledgement limit, the rest of the wait, or the evidence window."""
    window = pl.lit(to_us(limits.evidence_window_s), dtype=pl.Int64)
    return (
        pl.when(step == "route_request")
        .then(pl.col("wait_until") - pl.col("as_of"))
        .when(step.is_in(["redeliver_if_idempotent", "ask_retry_limit", "stop_redelivery"]))
        .then(pl.col("ack_limit_us"))
        .when(step.is_not_null())
        .then(window)
    )
