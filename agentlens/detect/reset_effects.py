"""What happened in the world after the fork: effects the receipt lists, and those only a trace shows.

Silence proves nothing: an empty list of effects passes only where the parent's own trace is at hand and shows no
call of a tool declared as having external effects after the fork.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from agentlens.model.reset import COMPARISON, EFFECTS, REPEATED_EFFECTS

SETTLED: Final = ("reverted", "reconciled")
_LEAST_KIND: Final = 3
"""Letters of a kind that may be looked for inside the name of a tool; a letter or two are in most names."""
_PLACE: Final = ("run_id", "agent", "seq", "at")


def effect_gate(status: pl.Expr, decision: pl.Expr) -> pl.Expr:
    """`pass`, `fail` or `unknown` for one listed effect."""
    settled = status.is_in(SETTLED) | ((status == "irreversible") & (decision.fill_null("") != ""))
    return (
        pl.when(status.is_null())
        .then(pl.lit("unknown"))
        .when(settled)
        .then(pl.lit("pass"))
        .otherwise(pl.lit("fail"))
    )


def fork_places(branches: pl.LazyFrame, events: pl.LazyFrame) -> pl.LazyFrame:
    """Where each fork point stands in the parent's run: ``branch_id``, ``fork_agent``, ``fork_seq``, ``fork_at``.

    A checkpoint of that id, else the action or message of that span, message or call id; the first such.
    """
    wanted = branches.select("branch_id", run_id="parent_id", point="fork_point").drop_nulls()
    ids = [
        events.filter(pl.col("kind") == "checkpoint").select(*_PLACE, point="target", way=pl.lit(0)),
        events.select(*_PLACE, point="span_id", way=pl.lit(1)),
        events.select(*_PLACE, point="call_id", way=pl.lit(2)),
    ]
    found = wanted.join(pl.concat(ids).drop_nulls("point"), on=["run_id", "point"])
    first = found.sort("branch_id", "way", "at", "agent", "seq", nulls_last=True)
    return first.group_by("branch_id", maintain_order=True).agg(
        fork_agent=pl.col("agent").first(), fork_seq=pl.col("seq").first(), fork_at=pl.col("at").first()
    )


def is_after_fork() -> pl.Expr:
    """True, false, or null where neither lane nor time says; needs the columns of `fork_places` and an event."""
    same_lane = pl.col("agent") == pl.col("fork_agent")
    return (
        pl.when(same_lane)
        .then(pl.col("seq") > pl.col("fork_seq"))
        .otherwise(pl.col("at") > pl.col("fork_at"))
    )


def external_calls(branches: pl.LazyFrame, events: pl.LazyFrame) -> pl.LazyFrame:
    """Calls with declared external effects in the parent's run that are not known to lie before the fork.

    Columns ``branch_id``, place, ids and ``after`` (true, or null where that is not known).
    """
    calls = events.filter(pl.col("external")).select(
        *_PLACE, "tool", "action_signature", "call_id", "span_id", "open", "source"
    )
    forks = branches.select("branch_id", run_id="parent_id").join(
        fork_places(branches, events), on="branch_id", how="left"
    )
    placed = forks.join(calls, on="run_id").with_columns(after=is_after_fork())
    return placed.filter(pl.col("after").fill_null(value=True))


def listed_effects(branches: pl.LazyFrame) -> pl.LazyFrame:
    """One row an effect of a receipt."""
    return (
        branches.select("branch_id", "effects")
        .filter(pl.col("effects").list.len() > 0)
        .explode("effects", empty_as_null=False)
        .unnest("effects")
    )


def unlisted_calls(branches: pl.LazyFrame, events: pl.LazyFrame) -> pl.LazyFrame:
    """External calls of the parent's trace that no listed effect accounts for (columns of `external_calls`).

    An effect is listed where its operation id is the call id, span id or signature of the call. Receipts may use
    ids of their own: an effect whose id is that of no call accounts for one call of its own kind, that is of a tool
    whose name is or holds the kind (``mail``: ``send_email``), and for no other.
    """
    listed = listed_effects(branches).filter(pl.col("operation_id").is_not_null())
    effects = listed.group_by("branch_id", "operation_id").agg(kind=pl.col("kind").min()).cache()
    calls = external_calls(branches, events).with_row_index("call").cache()
    ids = pl.concat(
        calls.select("branch_id", "call", operation_id=name)
        for name in ("call_id", "span_id", "action_signature")
    ).drop_nulls()
    matched = ids.join(effects, on=["branch_id", "operation_id"]).cache()
    rest = calls.join(matched, on="call", how="anti").cache()
    spare = effects.join(matched, on=["branch_id", "operation_id"], how="anti")
    return rest.join(_of_own_kind(rest, spare), on="call", how="anti")


def _of_own_kind(calls: pl.LazyFrame, effects: pl.LazyFrame) -> pl.LazyFrame:
    """Numbers of the calls that effects under ids of their own stand for: one each, those surely after first."""
    kinds = effects.group_by("branch_id", kind=pl.col("kind").str.to_lowercase()).agg(effects=pl.len())
    tool, kind = pl.col("tool").str.to_lowercase(), pl.col("kind")
    holds = tool.str.contains(kind, literal=True) & (kind.str.len_chars() >= _LEAST_KIND)
    possible = calls.join(kinds, on="branch_id").filter((tool == kind) | holds)
    # The name of a tool may hold two kinds: the longer says more.
    closest = possible.sort(
        "call", kind.str.len_chars(), "kind", descending=[False, True, False], nulls_last=True
    ).unique("call", keep="first", maintain_order=True)
    ordered = closest.sort("branch_id", "kind", "after", "at", "agent", "seq", nulls_last=True)
    place = pl.int_range(pl.len()).over("branch_id", "kind")
    return ordered.filter(place < pl.col("effects")).select("call")


def unlisted(branches: pl.LazyFrame, events: pl.LazyFrame) -> pl.LazyFrame:
    """What the parent's trace adds to the receipt, per branch: counts and the first of the `unlisted_calls`."""
    ordered = unlisted_calls(branches, events).sort("branch_id", "at", "agent", "seq", nulls_last=True)
    certain = pl.col("after").is_not_null()
    return ordered.group_by("branch_id", maintain_order=True).agg(
        unlisted_effects=certain.sum().cast(pl.Int64),
        perhaps=(~certain).sum().cast(pl.Int64),
        open_call=pl.col("open").fill_null(value=False).any(),
        first_call=pl.coalesce("call_id", "span_id", "source").first(),
    )


def effect_rows(branches: pl.LazyFrame, events: pl.LazyFrame | None = None) -> pl.LazyFrame:
    """Schema `EFFECTS`: listed effects, and the `unlisted_calls` of the parent's trace, sorted."""
    listed = listed_effects(branches).with_columns(
        listed=pl.lit(True), gate=effect_gate(pl.col("status"), pl.col("decision_id"))
    )
    reason = (
        pl.when(pl.col("status").is_null())
        .then(pl.lit("no_status"))
        .when(pl.col("gate") == "fail")
        .then(
            pl.when(pl.col("status") == "irreversible")
            .then(pl.lit("no_decision"))
            .otherwise(pl.lit("pending"))
        )
    )
    rows = [listed.with_columns(reason=reason)]
    if events is not None:
        calls = unlisted_calls(branches, events)
        is_open = pl.col("open").fill_null(value=False)
        rows.append(
            calls.select(
                "branch_id",
                operation_id=pl.coalesce("call_id", "span_id", "action_signature"),
                kind="tool",
                status=pl.when(is_open).then(pl.lit("pending")),
                listed=pl.lit(False),
                gate=pl.when(pl.col("after").is_null()).then(pl.lit("unknown")).otherwise(pl.lit("fail")),
                reason=pl.when(pl.col("after").is_null())
                .then(pl.lit("time_unknown"))
                .when(is_open)
                .then(pl.lit("open_call"))
                .otherwise(pl.lit("not_listed")),
                agent="agent",
                seq="seq",
                at="at",
                source="source",
            )
        )
    empty = pl.LazyFrame(schema=EFFECTS)
    return (
        pl.concat([empty, *rows], how="diagonal")
        .select(EFFECTS.names())
        .sort(
            "branch_id",
            "listed",
            "operation_id",
            "agent",
            "seq",
            descending=[False, True, False, False, False],
        )
    )


def repeated_effects(branches: pl.LazyFrame, events: pl.LazyFrame) -> pl.LazyFrame:
    """Pairs of the same tool and operation on parent and branch after the fork (schema `REPEATED_EFFECTS`).

    Calls before the fork that a copied history repeats are not pairs: the same call id or span id is one call.
    """
    of_parent = external_calls(branches, events).select(
        "branch_id",
        "tool",
        "action_signature",
        parent_id="run_id",
        parent_agent="agent",
        parent_seq="seq",
        parent_source="source",
        parent_call=pl.coalesce("call_id", "span_id"),
    )
    of_branch = events.filter(pl.col("external")).select(
        "tool",
        "action_signature",
        branch_id="run_id",
        branch_agent="agent",
        branch_seq="seq",
        branch_source="source",
        branch_call=pl.coalesce("call_id", "span_id"),
    )
    pairs = of_parent.join(of_branch, on=["branch_id", "tool", "action_signature"])
    one_call = (pl.col("parent_call") == pl.col("branch_call")).fill_null(value=False)
    return (
        pairs.filter(~one_call & (pl.col("branch_id") != pl.col("parent_id")))
        .select(REPEATED_EFFECTS.names())
        .sort("branch_id", "parent_agent", "parent_seq", "branch_agent", "branch_seq")
    )


def compared(branches: pl.LazyFrame, events: pl.LazyFrame, runs: pl.LazyFrame | None = None) -> pl.LazyFrame:
    """Branch against parent, where both runs are at hand (schema `COMPARISON`), sorted by branch.

    ``runs``: rows of schema `RUNS`, for the verdicts. Outcomes are those of verdict events: failed, else passed,
    else unknown.
    """
    acted = events.filter(pl.col("kind").is_in(["tool", "handoff"]))
    per_run = events.group_by("run_id").agg(
        acts=pl.col("kind").is_in(["tool", "handoff"]).sum().cast(pl.Int64),
        external=pl.col("external").fill_null(value=False).sum().cast(pl.Int64),
        outcome=run_outcome(),
    )
    if runs is None:
        per_run = per_run.with_columns(verdict=pl.lit(None, dtype=pl.String))
    else:
        per_run = per_run.join(runs.select("run_id", "verdict"), on="run_id", how="left")
    places = fork_places(branches, events)
    ids = branches.select("branch_id", "parent_id")
    after = (
        ids.join(places, on="branch_id")
        .join(acted.select("agent", "seq", "at", "external", parent_id="run_id"), on="parent_id")
        .filter(is_after_fork())
        .group_by("branch_id")
        .agg(
            parent_events_after_fork=pl.len().cast(pl.Int64),
            parent_external=pl.col("external").fill_null(value=False).sum().cast(pl.Int64),
        )
    )
    parent = per_run.select(parent_id="run_id", parent_verdict="verdict", parent_outcome="outcome")
    branch = per_run.select(
        branch_id="run_id",
        branch_events="acts",
        branch_external="external",
        branch_verdict="verdict",
        branch_outcome="outcome",
    )
    found = ids.join(parent, on="parent_id").join(branch, on="branch_id")
    placed = found.join(places.select("branch_id", fork_found=pl.lit(True)), on="branch_id", how="left")
    # Nothing after the fork is a count of zero only where the fork was found.
    zero = pl.when("fork_found").then(pl.lit(0, dtype=pl.Int64))
    return (
        placed.join(after, on="branch_id", how="left")
        .with_columns(
            pl.col("fork_found").fill_null(value=False),
            pl.coalesce("parent_events_after_fork", zero),
            pl.coalesce("parent_external", zero),
        )
        .select(COMPARISON.names())
        .sort("branch_id")
    )


def run_outcome() -> pl.Expr:
    """Outcome of a run out of its verdict events: failed, else passed, else unknown, null without any."""
    outcome = pl.col("outcome").filter(pl.col("kind") == "verdict")
    return (
        pl.when((outcome == "failed").any())
        .then(pl.lit("failed"))
        .when((outcome == "passed").any())
        .then(pl.lit("passed"))
        .when(outcome.len() > 0)
        .then(pl.lit("unknown"))
    )
