"""Handoffs that a trace tells of twice, and those that go through a queue."""

from __future__ import annotations

import polars as pl

from agentlens.detect.inferred_match import base_name
from agentlens.model.handed import pairs


def once(handoffs: pl.LazyFrame) -> pl.LazyFrame:
    """Leave one handoff where the tool that hands over and the caller's span of the agent tell of the same act.

    The caller's span stands directly below the tool's, or beside it (below the same span, and not begun before it), and
    names the same addressee, or one of them names none. The tool's handoff stays; ``inside`` is the caller's span,
    below which the agent's own stands. What the caller saw of a failure, and that it is still open, is kept.
    """
    schema = pl.Schema({**handoffs.collect_schema(), "inside": pl.String()})
    # eagerly: these are few rows, and a plan that refers to itself is written out once per reference
    return handoffs.map_batches(_once, schema=schema, streamable=False)


def _once(handoffs: pl.DataFrame) -> pl.DataFrame:
    inner = handoffs.filter(pl.col("span_id").is_null()).drop_nulls(["parent_span_id", "place"])
    outer = handoffs.filter(pl.col("span_id").is_not_null())
    found = (
        pairs(pl.concat([outer, inner]))
        .join(inner, on="handoff")
        .select(
            "above", inside="place", twice="handoff", named="target", failed="error_class", left_open="open"
        )
    )
    kept = handoffs.join(found.select(handoff="twice"), on="handoff", how="anti", maintain_order="left")
    told = kept.join(
        found.drop("twice"), left_on="handoff", right_on="above", how="left", maintain_order="left"
    )
    return told.with_columns(
        target=pl.coalesce("target", "named"),
        error_class=pl.coalesce("error_class", "failed"),
        open=pl.col("open") | pl.col("left_open").fill_null(value=False),
    ).select(*handoffs.columns, "inside")


def with_inside(handoffs: pl.LazyFrame) -> pl.LazyFrame:
    """One row a place at which the agent's own span may hang: the handoff's, and the caller's span inside it."""
    places = pl.concat_list("place", "inside").list.drop_nulls()
    return handoffs.with_columns(place=places).explode("place", empty_as_null=True)


def by_link(handoffs: pl.LazyFrame, children: pl.LazyFrame, events: pl.LazyFrame) -> pl.LazyFrame:
    """The first start that links to the span of a handoff, in its own run or in another.

    That is an agent's span, or that of a consumer which took it out of a queue: a start (kind ``accept``) that has a
    span and links to the span in ``call_id``, of the trace ``parent_run_id`` or its own. A consumer may link to the
    producer's span, which stands directly below what handed over. Gives ``handoff, child`` (the agent's span, that
    directly below a consumer too; null where a consumer is all there is), ``child_run, child_span, lane,
    accepted_at``.
    """
    sent = (
        events.filter(pl.col("kind") == "log")
        .drop_nulls(["parent_span_id", "span_id"])
        .group_by("run_id", place="parent_span_id")
        .agg(sent="span_id")
    )
    points = (
        with_inside(handoffs)
        .select("handoff", "run_id", "trace_id", "place")
        .drop_nulls(["trace_id", "place"])
        .join(sent, on=["run_id", "place"], how="left")
        .with_columns(
            place=pl.concat_list("place", pl.col("sent").fill_null(pl.lit([], dtype=pl.List(pl.String))))
        )
        .explode("place", empty_as_null=True)
    )
    agents = children.select(
        "child",
        child_run="run_id",
        lane="lane",
        child_span="child_span",
        accepted_at="child_at",
        place="link",
        trace_id="linked_trace",
    )
    starts = pl.concat([agents, _consumers(events, children)]).drop_nulls("place")
    order = ("accepted_at", "child", "child_run", "lane", "child_span")
    return (
        points.join(starts, on=["trace_id", "place"])
        .sort("handoff", *order, nulls_last=True)
        .unique("handoff", keep="first")
        .select("handoff", "child", "child_run", "child_span", "lane", "accepted_at")
    )


def _consumers(events: pl.LazyFrame, children: pl.LazyFrame) -> pl.LazyFrame:
    """Each consumer's span, with the first agent span directly below it."""
    taken = events.filter((pl.col("kind") == "accept") & pl.col("span_id").is_not_null()).select(
        child_run="run_id",
        lane="agent",
        child_span="span_id",
        accepted_at="at",
        place="call_id",
        trace_id=pl.coalesce("parent_run_id", "trace_id"),
    )
    below = (
        children.drop_nulls("parent_span_id")
        .sort("child_at", "child", nulls_last=True)
        .group_by(child_run="run_id", child_span="parent_span_id")
        .agg(pl.col("child").first())
    )
    found = taken.join(below, on=["child_run", "child_span"], how="left")
    return found.select("child", "child_run", "lane", "child_span", "accepted_at", "place", "trace_id")


def delivery(linked: pl.LazyFrame) -> pl.LazyFrame:
    """The starts that a consumer alone tells: when it was delivered, and to whom as far as it says."""
    name = base_name("lane")
    return linked.filter(pl.col("child").is_null()).select(
        "handoff",
        "child_run",
        "lane",
        "accepted_at",
        name=pl.when(name != "").then(name),
        rule=pl.lit("link.consumer"),
    )
