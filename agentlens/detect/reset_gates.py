"""The six gates of a branch, each three-valued with its own reason (SPEC section 5).

Conditions are written as ``(condition, value, reason)`` in the order in which they decide. A gate is first the
number of the condition that holds; its value, and the fact that kept it from passing, are looked up by that number.
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
        (pl.col("refused"), _FAIL, "cycle_with_receipt"),
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
        (~pl.col("requires"), _UNKNOWN, "no_required_keys"),
        (~pl.col("reports"), _UNKNOWN, "no_state"),
        (worst == FAIL, _FAIL, "not_restored"),
        (~worst.is_in([DRIFT, EXACT]), _UNKNOWN, "no_evidence"),
    ]


PENDING, UNDECIDED, NO_STATUS, SETTLED_ALL = 0, 1, 2, 3
"""What is worst among the effects of a receipt, the worst first."""


def worst_effect() -> pl.Expr:
    """The worst of the listed effects; null where none is listed."""
    element = pl.element().struct
    status, decision = element.field("status"), element.field("decision_id")
    final = status == "irreversible"
    kind = (
        pl.when(status.is_null())
        .then(NO_STATUS)
        .when(status.is_in(SETTLED) | (final & ~_absent(decision)))
        .then(SETTLED_ALL)
        .when(final)
        .then(UNDECIDED)
        .otherwise(PENDING)
    )
    return pl.col("effects").list.eval(kind.cast(pl.Int8)).list.min()


def effects_gate() -> list[Case]:
    """Gate 3: every effect is settled, and the parent's trace shows no other; an empty list needs the trace."""
    worst = pl.col("worst_effect")
    missing = pl.col("unlisted_effects").fill_null(0) > 0
    some_open = pl.col("open_call").fill_null(value=False)
    empty = pl.col("lists_effects") & worst.is_null()
    return [
        (worst == PENDING, _FAIL, "pending"),
        (worst == UNDECIDED, _FAIL, "irreversible_without_decision"),
        (missing & some_open, _FAIL, "open_call"),
        (missing, _FAIL, "unlisted_effect"),
        (~pl.col("lists_effects"), _UNKNOWN, "no_effects_field"),
        (worst == NO_STATUS, _UNKNOWN, "no_status"),
        (empty & ~pl.col("parent_in_lake").fill_null(value=False), _UNKNOWN, "no_trace_of_parent"),
        (pl.col("perhaps").fill_null(0) > 0, _UNKNOWN, "effect_time_unknown"),
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
    receipt, verified = pl.col("receipt"), pl.col("outcome_verified")
    return [
        (~pl.col("has_outcome"), _UNKNOWN, "no_outcome"),
        (pl.col("shared_outcome").fill_null(value=False), _FAIL, "outcome_of_another_branch"),
        (~verified, _FAIL, "not_verified"),
        (_absent(receipt), _UNKNOWN, "no_outcome_receipt"),
        (verified.is_null(), _UNKNOWN, "not_known_verified"),
        (~pl.col("resumed"), _UNKNOWN, "not_resumed"),
        (pl.col("resumed").is_null(), _UNKNOWN, "not_known_resumed"),
    ]


_GATES: Final = (
    lineage_gate,
    restore_gate,
    effects_gate,
    authority_gate,
    configuration_gate,
    outcome_gate,
)


def decided(*numbers: int) -> list[pl.Expr]:
    """Columns ``gate_N``: the number of the first condition that holds; of conditions, where none does."""
    return [_first_that_holds(_GATES[number - 1]()).alias(f"gate_{number}") for number in numbers]


def gate_words() -> list[pl.Expr]:
    """Columns ``gate_1`` .. ``gate_6`` and ``reason_1`` .. ``reason_6`` in words."""
    columns = []
    for number, gate in enumerate(_GATES, 1):
        cases = gate()
        values = [*(value for _, value, _ in cases), _PASS]
        reasons = [*(reason for _, _, reason in cases), None]
        columns += [
            _looked_up(pl.col(f"gate_{number}"), values).alias(f"gate_{number}"),
            _looked_up(pl.col(f"gate_{number}"), reasons).alias(f"reason_{number}"),
        ]
    return columns


def _first_that_holds(cases: Sequence[Case]) -> pl.Expr:
    chosen = _number(len(cases))
    for number, (condition, _, _) in reversed(list(enumerate(cases))):
        chosen = pl.when(condition).then(_number(number)).otherwise(chosen)
    return chosen


def _looked_up(number: pl.Expr, words: Sequence[str | None]) -> pl.Expr:
    return pl.lit(pl.Series(words, dtype=pl.String)).gather(number)


def _number(number: int) -> pl.Expr:
    return pl.lit(number, dtype=pl.UInt8)


def branch_state() -> pl.Expr:
    """State by precedence: the first five gates, then how far the branch has come."""
    resumed, answered = pl.col("resumed"), pl.col("final_answer").fill_null(value=False)
    went_on = resumed.fill_null(answered)
    states = (*STOPPED, "ready_to_resume", "resumed", "false_success", "verified")
    ready, verified = len(STOPPED), len(states) - 1
    state = (
        pl.when(~went_on)
        .then(_number(ready))
        .when(~answered)
        .then(_number(ready + 1))
        .when(pl.col("gate_6") == _PASS)
        .then(_number(verified))
        .otherwise(_number(verified - 1))
    )
    for number in range(5, 0, -1):
        state = pl.when(pl.col(f"gate_{number}") != _PASS).then(_number(number - 1)).otherwise(state)
    return _looked_up(state, states)


def deciding_reason() -> pl.Expr:
    """Reason of the gate that decided ``result``; of the sixth for a false success."""
    reason: pl.Expr = pl.when(pl.col("result") == "false_success").then("reason_6")
    for number in range(5, 0, -1):
        reason = pl.when(pl.col("result") == STOPPED[number - 1]).then(f"reason_{number}").otherwise(reason)
    return reason
