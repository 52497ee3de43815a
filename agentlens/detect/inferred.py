"""Receipts and branches read out of traces, each marked with the rule that inferred it.

A trace says who was asked, and often who began; it claims completion and very rarely proves it. So the end of a
child is `completed`, a failed call is `rejected`, and only a verdict from outside, found in the child's own lane
or below its span, is `outcome_verified`. What a trace cannot show stays unknown.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from agentlens.detect.inferred_delivery import by_link, delivery, once, with_inside
from agentlens.detect.inferred_match import base_name, by_call, by_order, by_span, by_turn
from agentlens.model.branch import BRANCHES
from agentlens.model.receipt import RECEIPTS

_WORK: Final = ("tool", "model", "message")


def inferred_receipts(events: pl.LazyFrame) -> pl.LazyFrame:
    """Receipts of the handoffs in a trace (schema `RECEIPTS`, ``inferred``), sorted.

    Parameters
    ----------
    events
        Rows of schema `EVENTS`, whole runs.

    Notes
    -----
    Each handoff is an operation of its own: a trace does not say which is another attempt at the same. The rules
    of acceptance, tried in this order: ``accept.call`` (an explicit start with the call's id), ``span.child`` (an
    agent span below the handoff's), ``span.link`` (an agent span, or a queue's consumer around it, that links to the
    handoff's, in whatever run), ``link.consumer`` (such a consumer alone: delivered, and no more is seen),
    ``span.next`` (an agent span of the addressee that begins next),
    ``turn.next`` (the addressee's next turn before the giver hands over again).
    """
    # Each step is used several times below; without the marks the plan is written out once per use.
    handoffs = _handoffs(events).cache()
    taken = _taken(handoffs, events)
    told = handoffs.join(taken, on="handoff", how="left").cache()
    who = pl.coalesce("target", "name", pl.lit(""))
    accepted = told.filter(pl.col("rule").is_not_null()).with_columns(who=who)
    done = accepted.with_columns(done_at=_done_at(), is_done=_is_done()).cache()
    # A start without a time, below a timed call that came back: the completion stands in for it (implied).
    unseen = pl.col("is_done") & pl.col("accepted_at").is_null() & pl.col("done_at").is_not_null()
    rows = [
        told.select(*_ROW, "at", event=pl.lit("delegated"), author="giver", recipient="target"),
        done.filter(~unseen).select(*_ROW, at="accepted_at", event=pl.lit("accepted"), author="who"),
        done.filter("is_done").select(*_ROW, at="done_at", event=pl.lit("completed"), author="who"),
        _refused(told.with_columns(who=who)),
        *_in_lane(done, events),
    ]
    receipts = pl.concat([pl.LazyFrame(schema={"handoff": pl.String, **RECEIPTS}), *rows], how="diagonal")
    # Clocks are compared inside one handoff: times of only some of its receipts would mislead.
    timed = pl.col("at").is_not_null().all().over("handoff")
    rank = {name: order for order, name in enumerate(_LIFE)}
    return (
        receipts.with_columns(
            operation_id="handoff",
            handoff_id=pl.col("handoff") + "/1",
            at=pl.when(timed).then("at"),
            inferred=pl.lit(True),
            verifiable=pl.lit(False),
            rule=pl.col("rule").fill_null("handoff"),
            order=pl.col("event").replace_strict(rank, return_dtype=pl.Int64),
        )
        .select(RECEIPTS.names())
        .unique()
        .sort("operation_id", "order", "at", "author", "outcome", nulls_last=True)
    )


_LIFE: Final = (
    "delegated",
    "accepted",
    "waiting",
    "progress",
    "completed",
    "outcome_verified",
    "rejected",
)
_ROW: Final = ("handoff", "run_id", "trace_id", "rule", "source")


def _handoffs(events: pl.LazyFrame) -> pl.LazyFrame:
    """One row a handoff action, with an id out of run, lane and place; ``again``: the giver's next one."""
    # what the caller's span of an agent told beside the tool that handed over: the agent's own stands below it
    beside = (pl.col("kind") == "log") & (pl.col("tool") == "handoff") & pl.col("span_id").is_null()
    found = events.filter((pl.col("kind") == "handoff") | beside).select(
        "kind",
        "run_id",
        "seq",
        "at",
        "ended_at",
        "target",
        "call_id",
        "open",
        "error_class",
        "trace_id",
        "source",
        "span_id",
        "parent_span_id",
        giver="agent",
        # the caller's side of an agent stands in the lane around it, and keeps its own span as the call
        place=pl.coalesce("span_id", "call_id"),
        handoff=pl.concat_str("run_id", "agent", "seq", separator="/"),
    )
    following = pl.col("at").shift(-1).over("run_id", "giver")
    told = once(found).filter(pl.col("kind") == "handoff").drop("span_id", "parent_span_id", "kind")
    return told.sort("run_id", "giver", "at", "seq", nulls_last=True).with_columns(again=following)


def _children(events: pl.LazyFrame) -> pl.LazyFrame:
    """One row an agent span, numbered."""
    spans = events.filter(pl.col("kind") == "agent").sort("run_id", "agent", "seq")
    return spans.select(
        "run_id",
        "parent_span_id",
        lane="agent",
        name=pl.when(pl.col("tool") != "").then("tool").otherwise(base_name("agent")),
        # the span that an agent's span links to is its call, in the trace it was started from
        link="call_id",
        linked_trace=pl.coalesce("parent_run_id", "trace_id"),
        child_span="span_id",
        child_at="at",
        child_end="ended_at",
        child_open="open",
        child_error="error_class",
    ).with_columns(child=pl.int_range(pl.len(), dtype=pl.Int64))


def _taken(handoffs: pl.LazyFrame, events: pl.LazyFrame) -> pl.LazyFrame:
    """Who took each handoff, when, and by which rule; one row a handoff that was taken."""
    children = _children(events).cache()
    called = by_call(handoffs, events).cache()
    rest = handoffs.join(called, on="handoff", how="anti").cache()
    below = by_span(with_inside(rest), children).with_columns(rule=pl.lit("span.child")).cache()
    rest = rest.join(below, on="handoff", how="anti").cache()
    links = by_link(rest, children, events).cache()
    linked = links.drop_nulls("child").select("handoff", "child", rule=pl.lit("span.link"))
    rest = rest.join(links, on="handoff", how="anti").cache()
    free = children.join(pl.concat([below, linked]), on="child", how="anti")
    following = by_order(rest, free).with_columns(rule=pl.lit("span.next")).cache()
    spanned = (
        pl.concat([below, linked, following])
        .join(children, on="child")
        .with_columns(child_run="run_id", accepted_at="child_at")
    )
    rest = rest.join(following, on="handoff", how="anti").cache()
    turned = by_turn(rest, events)
    empty = pl.LazyFrame(schema=_TAKEN)
    return pl.concat(
        [
            empty,
            *(
                found.select(pl.col(name) for name in _TAKEN if name in found.collect_schema())
                for found in (called, spanned, delivery(links), turned)
            ),
        ],
        how="diagonal",
    )


_TAKEN: Final = {
    "handoff": pl.String(),
    "rule": pl.String(),
    "child_run": pl.String(),
    "lane": pl.String(),
    "name": pl.String(),
    "accepted_at": pl.Datetime("us", "UTC"),
    "child_span": pl.String(),
    "child_end": pl.Datetime("us", "UTC"),
    "child_open": pl.Boolean(),
    "child_error": pl.String(),
}


def _by_span() -> pl.Expr:
    return pl.col("rule").is_in(["span.child", "span.link", "span.next"])


def _done_at() -> pl.Expr:
    """When the child claimed to be done: the end of its span, else the return of the call."""
    return pl.when(_by_span()).then("child_end").otherwise("ended_at")


def _is_done() -> pl.Expr:
    """The child ended without error.

    A call that returns as its child begins has only launched it: that is no completion.
    """
    launched = (pl.col("ended_at") <= pl.col("accepted_at")).fill_null(value=False)
    returned = pl.col("open").eq(False).fill_null(value=False) & pl.col("error_class").is_null() & ~launched
    ended = pl.col("child_open").eq(False).fill_null(value=False) & pl.col("child_error").is_null()
    return pl.when(_by_span()).then(ended).otherwise(returned)


def _refused(told: pl.LazyFrame) -> pl.LazyFrame:
    """Handoffs that failed: the call's error, else the child's; the error class is the reason."""
    reason = pl.coalesce("error_class", "child_error")
    ended = pl.coalesce(
        pl.when(pl.col("error_class").is_not_null()).then("ended_at"), "child_end", "ended_at", "at"
    )
    failed = told.filter(reason.is_not_null())
    return failed.select(*_ROW, at=ended, event=pl.lit("rejected"), author="who", reason=reason)


def _in_lane(done: pl.LazyFrame, events: pl.LazyFrame) -> list[pl.LazyFrame]:
    """What the child's own lane shows: its last work, its waits, and verdicts from outside."""
    lanes = done.filter(
        (pl.col("lane") != pl.col("giver")) | (pl.col("child_run") != pl.col("run_id"))
    ).select(
        *_ROW,
        "who",
        "child_run",
        "lane",
        "accepted_at",
        "child_span",
        until=pl.when("is_done").then("done_at"),
    )
    facts = events.select(
        "kind",
        "tool",
        "target",
        "outcome",
        "lease",
        "parent_span_id",
        child_run="run_id",
        lane="agent",
        seen_at="at",
    )
    inside = lanes.join(facts, on=["child_run", "lane"]).filter(
        (pl.col("seen_at") >= pl.col("accepted_at"))
        & (pl.col("until").is_null() | (pl.col("seen_at") <= pl.col("until")))
    )
    work = inside.filter(pl.col("kind").is_in(_WORK)).group_by(*_ROW, "who").agg(at=pl.col("seen_at").max())
    waits = inside.filter(pl.col("kind").is_in(["wait", "approval"]))
    lease = pl.col("lease").struct
    below = facts.filter(pl.col("kind") == "verdict").drop("lane").drop_nulls("parent_span_id")
    judged = pl.concat(
        [
            lanes.join(facts.filter(pl.col("kind") == "verdict"), on=["child_run", "lane"]),
            lanes.join(below, left_on=["child_run", "child_span"], right_on=["child_run", "parent_span_id"]),
        ],
        how="diagonal",
    )
    return [
        work.select(*_ROW, "at", event=pl.lit("progress"), author="who"),
        waits.select(
            *_ROW,
            at="seen_at",
            event=pl.lit("waiting"),
            author="who",
            owner=pl.coalesce(lease.field("owner"), "target"),
            reason="tool",
            deadline=lease.field("deadline"),
        ),
        judged.select(
            *_ROW,
            at="seen_at",
            event=pl.lit("outcome_verified"),
            author=pl.coalesce("target", pl.lit("")),
            outcome="outcome",
        ),
    ]


def inferred_branches(events: pl.LazyFrame) -> pl.LazyFrame:
    """Branches that a trace shows: forks of sessions and rewinds inside one (schema `BRANCHES`), sorted.

    A fork of another run is a branch under its own run id. A rewind inside a run is named after its place. What
    such a source cannot prove (restored state, settled effects, pinned configuration) stays null, so that the
    gates are unknown and the branch is never ready.
    """
    forks = events.filter(pl.col("kind").is_in(["fork", "reset"])).with_columns(
        other=pl.when(pl.col("parent_run_id") != pl.col("run_id")).then("parent_run_id")
    )
    claims = (
        events.filter((pl.col("kind") == "claim") & (pl.col("target") == "success"))
        .select("run_id", final_answer=pl.lit(True))
        .unique()
    )
    place = pl.concat_str("run_id", pl.lit("@"), "agent", pl.lit("/"), "seq")
    found = forks.join(claims, on="run_id", how="left").select(
        "at",
        "final_answer",
        branch_id=pl.when(pl.col("other").is_null()).then(place).otherwise("run_id"),
        parent_id=pl.coalesce("other", "run_id"),
        fork_point="target",
        resumed=pl.lit(True),
        inferred=pl.lit(True),
        rule=pl.concat_str(pl.col("reader").fill_null("trace"), "kind", separator="."),
        order="seq",
        source="source",
    )
    return (
        pl.concat([pl.LazyFrame(schema=BRANCHES), found], how="diagonal")
        .select(BRANCHES.names())
        .sort("branch_id", "at", "order", nulls_last=True)
    )
