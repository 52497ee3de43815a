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


_STEPS: Final = tuple(EVIDENCE)
_STEP: Final = {step: number for number, step in enumerate(_STEPS)}


def suggested(limits: HandoffLimits) -> list[pl.Expr]:
    """Columns ``suggestion``, ``authority``, ``attempt_limit``, ``time_limit_us``, ``success_evidence``.

    Reads ``step`` of `next_step`, ``attempt``, the parties and the limit of acknowledgement. How many attempts are
    left is the limit of a new delivery.
    """
    step = pl.col("step")
    words = pl.Series(_STEPS, dtype=pl.String), pl.Series(list(EVIDENCE.values()), dtype=pl.String)
    suggestion, evidence = (pl.lit(each).gather(step) for each in words)
    return [
        suggestion.alias("suggestion"),
        pl.when(step.is_not_null()).then(_authority()).alias("authority"),
        _attempts(limits).alias("attempt_limit"),
        _time(limits).alias("time_limit_us"),
        evidence.alias("success_evidence"),
    ]


def next_step(limits: HandoffLimits) -> pl.Expr:
    """``step``: number of the suggested step in `EVIDENCE`, by ``state``; null where there is nothing to do.

    An orphan may only be delivered again when the retry limit is known and not spent.
    """
    state = pl.col("state")
    again = _number("ask_retry_limit")
    if limits.retry_limit is not None:
        left = pl.col("attempt") < limits.retry_limit
        again = pl.when(left).then(_number("redeliver_if_idempotent")).otherwise(_number("stop_redelivery"))
    failed = pl.when(pl.col("newest_verified").is_null()).then(_number("run_verifier"))
    return (
        pl.when(state == "orphaned")
        .then(again)
        .when(state == "waiting")
        .then(_number("route_request"))
        .when(state == "stuck")
        .then(
            pl.when(pl.col("completed_last").is_null())
            .then(_number("recover_once"))
            .otherwise(_number("run_verifier"))
        )
        .when(state == "failed_outcome")
        .then(failed.otherwise(_number("ask_for_artifact")))
        .when(state == "uncertain")
        .then(_number("ask_first"))
        .alias("step")
    )


def _number(step: str) -> pl.Expr:
    return pl.lit(_STEP[step], dtype=pl.UInt8)


def _is(*steps: str) -> pl.Expr:
    return pl.any_horizontal(pl.col("step") == _STEP[step] for step in steps)


def _authority() -> pl.Expr:
    """Who may decide: the owner of what is waited for, else the giver, else the operator."""
    owner = pl.when(_is("route_request")).then(pl.col("wait_owner"))
    giver = pl.when(~_is("ask_first")).then(pl.col("giver"))
    return pl.coalesce(owner, giver, pl.lit(_OPERATOR))


def _attempts(limits: HandoffLimits) -> pl.Expr:
    left = pl.lit(limits.retry_limit, dtype=pl.Int64) - pl.col("attempt")
    return (
        pl.when(_is("redeliver_if_idempotent"))
        .then(left)
        .when(_is("recover_once", "run_verifier", "ask_for_artifact", "ask_first", "ask_retry_limit"))
        .then(pl.lit(1, dtype=pl.Int64))
        .when(pl.col("step").is_not_null())
        .then(pl.lit(0, dtype=pl.Int64))
    )


def _time(limits: HandoffLimits) -> pl.Expr:
    """How long the step may take: the acknowledgement limit, the rest of the wait, or the evidence window."""
    window = pl.lit(to_us(limits.evidence_window_s), dtype=pl.Int64)
    return (
        pl.when(_is("route_request"))
        .then(pl.col("wait_until") - pl.col("as_of"))
        .when(_is("redeliver_if_idempotent", "ask_retry_limit", "stop_redelivery"))
        .then(pl.col("ack_limit_us"))
        .when(pl.col("step").is_not_null())
        .then(window)
    )
