"""The six gates of a branch, each three-valued with its own reason (SPEC section 5).

A gate is two expressions: its value, and the fact that kept it from passing. Conditions are written as
``(condition, value, reason)`` in the order in which they decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from agentlens.detect.reset_effects import SETTLED
from agentlens.detect.state_keys import DRIFT, EXACT, FAIL
from agentlens.model.branch import LOW_RISK
from agentlens.model.reset import STOPPED

if TYPE_CHECKING:
    from collections.abc import Sequence

Case = tuple[pl.Expr, str, str | None]

_PASS: Final = "pass"  # noqa: S105 - the value of a gate
_FAIL: Final = "fail"
_UNKNOWN: Final = "unknown"


def _absent(expression: pl.Expr) -> pl.Expr:
    """Not given, or given empty."""
    return expression.fill_null("") == ""


def lineage_gate() -> list[Case]:
    """Gate 1: ids differ, the fork point is named and was the parent's, nothing moved, no cycle going up."""
    parent, point = pl.col("parent_id"), pl.col("fork_point")
    known = pl.col("parent_checkpoints")
    return [
        (pl.col("branch_id") == parent, _FAIL, "own_parent"),
        (pl.col("moved"), _FAIL, "moved"),
        (pl.col("cyclic"), _FAIL, "cycle"),
        (
            known.is_not_null() & ~_absent(point) & ~known.list.contains(point),
            _FAIL,
            "fork_point_not_of_parent",
        ),
        (_absent(parent), _UNKNOWN, "no_parent"),
        (_absent(point), _UNKNOWN, "no_fork_point"),
    ]


def restore_gate() -> list[Case]:
    """Gate 2: every required key has evidence before and a test after."""
    worst = pl.col("restore")
    return [
        (pl.col("required").is_null(), _UNKNOWN, "no_required_keys"),
        (pl.col("state").is_null(), _UNKNOWN, "no_state"),
        (worst == FAIL, _FAIL, "not_restored"),
        (~worst.is_in([DRIFT, EXACT]), _UNKNOWN, "no_evidence"),
    ]


def effects_gate() -> list[Case]:
    """Gate 3: every effect is settled, and an empty list is borne out by the parent's trace."""
    element = pl.element().struct
    status, decision = element.field("status"), element.field("decision_id")
    effects = pl.col("effects")
    undecided = (status == "irreversible") & (decision.fill_null("") == "")
    pending = status.is_not_null() & ~status.is_in([*SETTLED, "irreversible"])
    missing = pl.col("unlisted_effects").fill_null(0) > 0
    some_open = pl.col("open_call").fill_null(value=False)
    empty = (effects.list.len() == 0).fill_null(value=False)
    return [
        (effects.list.eval(pending).list.any(), _FAIL, "pending"),
        (effects.list.eval(undecided).list.any(), _FAIL, "irreversible_without_decision"),
        (missing & some_open, _FAIL, "open_call"),
        (missing, _FAIL, "unlisted_effect"),
        (effects.is_null(), _UNKNOWN, "no_effects_field"),
        (effects.list.eval(status.is_null()).list.any(), _UNKNOWN, "no_status"),
        (empty & ~pl.col("parent_in_lake").fill_null(value=False), _UNKNOWN, "no_trace_of_parent"),
        (empty & (pl.col("perhaps").fill_null(0) > 0), _UNKNOWN, "effect_time_unknown"),
    ]


def authority_gate() -> list[Case]:
    """Gate 4: a low-risk local edit, or an approved decision that is named."""
    kind, local = pl.col("edit_class"), pl.col("local")
    authority = pl.col("authority")
    decision, approved = authority.struct.field("decision_id"), authority.struct.field("approved")
    low = kind.is_in(LOW_RISK)
    named = ~_absent(decision)
    return [
        ((low & local).fill_null(value=False), _PASS, None),
        ((named & approved).fill_null(value=False), _PASS, None),
        (kind.is_null(), _UNKNOWN, "no_edit_class"),
        (low & local.is_null(), _UNKNOWN, "not_known_local"),
        (authority.is_null(), _UNKNOWN, "no_authority"),
        ((named & approved.is_null()).fill_null(value=False), _UNKNOWN, "decision_open"),
        ((~named & approved).fill_null(value=False), _UNKNOWN, "decision_not_named"),
        (low & ~local, _FAIL, "not_local"),
        (pl.lit(True), _FAIL, "not_approved"),
    ]


def configuration_gate() -> list[Case]:
    """Gate 5: pinned, with the branch digest, equal to the parent's or different on purpose."""
    config = pl.col("config").struct
    pinned, delta = config.field("pinned"), config.field("delta")
    parent, branch = config.field("parent_digest"), config.field("branch_digest")
    meant = (delta.list.len() > 0).fill_null(value=False)
    return [
        (pl.col("config").is_null(), _UNKNOWN, "no_config"),
        (~pinned, _FAIL, "not_pinned"),
        (pinned.is_null(), _UNKNOWN, "not_known_pinned"),
        (_absent(branch), _UNKNOWN, "no_branch_digest"),
        (meant, _PASS, None),
        (_absent(parent), _UNKNOWN, "no_parent_digest"),
        ((branch != parent) & delta.is_null(), _UNKNOWN, "no_delta"),
        (branch != parent, _FAIL, "changed_without_delta"),
    ]


def outcome_gate() -> list[Case]:
    """Gate 6: an outcome receipt of its own, named by no other branch, verified."""
    outcome = pl.col("outcome").struct
    receipt, verified = outcome.field("receipt_id"), outcome.field("verified")
    return [
        (pl.col("outcome").is_null(), _UNKNOWN, "no_outcome"),
        (pl.col("shared_outcome").fill_null(value=False), _FAIL, "outcome_of_another_branch"),
        (~verified, _FAIL, "not_verified"),
        (_absent(receipt), _UNKNOWN, "no_outcome_receipt"),
        (verified.is_null(), _UNKNOWN, "not_known_verified"),
        (~pl.col("resumed"), _UNKNOWN, "not_resumed"),
    ]


def gate_columns() -> list[pl.Expr]:
    """Columns ``gate_1`` .. ``gate_6`` and ``reason_1`` .. ``reason_6``."""
    gates = (lineage_gate, restore_gate, effects_gate, authority_gate, configuration_gate, outcome_gate)
    columns = []
    for number, gate in enumerate(gates, 1):
        cases = gate()
        columns += [
            _first_that_holds([(when, value) for when, value, _ in cases], pl.lit(_PASS)).alias(
                f"gate_{number}"
            ),
            _first_that_holds([(when, reason) for when, _, reason in cases], pl.lit(None)).alias(
                f"reason_{number}"
            ),
        ]
    return columns


def _first_that_holds(cases: Sequence[tuple[pl.Expr, str | None]], otherwise: pl.Expr) -> pl.Expr:
    chosen = otherwise
    for condition, value in reversed(cases):
        chosen = pl.when(condition).then(pl.lit(value, dtype=pl.String)).otherwise(chosen)
    return chosen


def branch_state() -> pl.Expr:
    """State by precedence: the first five gates, then how far the branch has come."""
    resumed, answered = pl.col("resumed"), pl.col("final_answer").fill_null(value=False)
    went_on = resumed.fill_null(answered)
    state = (
        pl.when(~went_on)
        .then(pl.lit("ready_to_resume"))
        .when(~answered)
        .then(pl.lit("resumed"))
        .when(pl.col("gate_6") == _PASS)
        .then(pl.lit("verified"))
        .otherwise(pl.lit("false_success"))
    )
    for number in range(5, 0, -1):
        state = pl.when(pl.col(f"gate_{number}") != _PASS).then(pl.lit(STOPPED[number - 1])).otherwise(state)
    return state


def deciding_reason() -> pl.Expr:
    """Reason of the gate that decided ``result``; of the sixth for a false success."""
    reason: pl.Expr = pl.when(pl.col("result") == "false_success").then("reason_6")
    for number in range(5, 0, -1):
        reason = pl.when(pl.col("result") == STOPPED[number - 1]).then(f"reason_{number}").otherwise(reason)
    return reason
