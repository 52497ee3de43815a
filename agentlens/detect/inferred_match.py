"""Which start of a child answers which handoff: by id where there is one, then by order, never by name alone."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MATCHES = pl.Schema({"handoff": pl.String(), "child": pl.Int64()})
"""A handoff and the row number of the agent span that took it."""

_SHOWS_LIFE: Final = ("tool", "model", "message", "agent", "handoff")


def base_name(lane: str) -> pl.Expr:
    """Name of an agent without the mark of its instance."""
    return pl.col(lane).str.replace(r"#\d+$", "")


def by_call(handoffs: pl.LazyFrame, events: pl.LazyFrame) -> pl.LazyFrame:
    """Explicit starts with the call id of the handoff; where an id repeats in a run, the n-th belongs to the n-th."""
    order = ["run_id", "call_id", "at", "seq"]
    nth = pl.int_range(pl.len()).over("run_id", "call_id").alias("nth")
    calls = handoffs.drop_nulls("call_id").sort(*order, nulls_last=True).with_columns(nth)
    starts = (
        events.filter(pl.col("kind") == "accept")
        .drop_nulls("call_id")
        .with_columns(child_run="run_id", run_id=pl.coalesce("parent_run_id", "run_id"))
        .sort(*order, "agent", nulls_last=True)
        .with_columns(nth)
        .select("run_id", "call_id", "nth", "child_run", lane="agent", accepted_at="at")
    )
    return calls.join(starts, on=["run_id", "call_id", "nth"]).select(
        "handoff", "child_run", "lane", "accepted_at", name=base_name("lane"), rule=pl.lit("accept.call")
    )


def by_span(handoffs: pl.LazyFrame, children: pl.LazyFrame) -> pl.LazyFrame:
    """The first agent span directly below the span of the handoff."""
    below = handoffs.drop_nulls("place").join(
        children, left_on=["run_id", "place"], right_on=["run_id", "parent_span_id"]
    )
    return _first(below)


def _first(below: pl.LazyFrame) -> pl.LazyFrame:
    first = below.sort("handoff", "child_at", "child", nulls_last=True).unique("handoff", keep="first")
    return first.select("handoff", "child")


def by_order(handoffs: pl.LazyFrame, children: pl.LazyFrame) -> pl.LazyFrame:
    """Agent spans of the addressee that begin after the handoff, one each (schema `MATCHES`)."""
    asked = handoffs.drop_nulls("at").select(
        "run_id", "at", "seq", "handoff", name="target", giver=base_name("giver")
    )
    began = children.drop_nulls("child_at").select("run_id", "child", "name", at="child_at")
    both = pl.concat(
        [asked.with_columns(begins=pl.lit(False)), began.with_columns(begins=pl.lit(True))], how="diagonal"
    )
    return both.sort("run_id", "at", "begins", "handoff", "child", nulls_last=True).map_batches(
        _pair, schema=MATCHES
    )


def _pair(rows: pl.DataFrame) -> pl.DataFrame:
    """Pair run by run; a handoff whose addressee is not known is left to any other agent that begins."""
    pairs: list[tuple[str, int]] = []
    for _, run in rows.group_by("run_id", maintain_order=True):
        lanes: dict[str, list[tuple[str | None, int | None]]] = defaultdict(list)
        for name, handoff, child in run.select("name", "handoff", "child").iter_rows():
            if name is not None:
                lanes[name].append((handoff, child))
        for turns in lanes.values():
            pairs += _in_order(turns)
        taken = {child for _, child in pairs}
        nameless = run.filter(pl.col("name").is_null() | (pl.col("begins") & ~pl.col("child").is_in(taken)))
        pairs += _to_anyone(nameless.select("handoff", "child", "name", "giver").iter_rows())
    return pl.DataFrame(pairs, schema=MATCHES, orient="row")


def _in_order(turns: Sequence[tuple[str | None, int | None]]) -> list[tuple[str, int]]:
    """Pair handoffs and starts of one addressee, in order of time.

    While enough starts are left for all open handoffs, the oldest is served first (parallel handoffs). When they
    are not, some were lost and asked again, and the newest is what was answered.
    """
    left = sum(child is not None for _, child in turns)
    open_: list[str] = []
    pairs = []
    for handoff, child in turns:
        if child is None:
            open_.append(str(handoff))
            continue
        if open_:
            pairs.append((open_.pop(0 if left >= len(open_) else -1), child))
        left -= 1
    return pairs


def _to_anyone(
    turns: Iterable[tuple[str | None, int | None, str | None, str | None]],
) -> list[tuple[str, int]]:
    """Pair a handoff without addressee with the next start of an agent that is not the giver."""
    pairs: list[tuple[str, int]] = []
    waiting: tuple[str, str | None] | None = None
    for handoff, child, name, giver in turns:
        if child is None:
            waiting = (str(handoff), giver)
        elif waiting is not None and name != waiting[1]:
            pairs.append((waiting[0], child))
            waiting = None
    return pairs


def by_turn(handoffs: pl.LazyFrame, events: pl.LazyFrame) -> pl.LazyFrame:
    """The addressee's next turn, before the giver hands anything over again (``again``)."""
    asked = handoffs.drop_nulls(["at", "target"]).sort("at", "handoff")
    turns = (
        events.filter(pl.col("kind").is_in(_SHOWS_LIFE))
        .drop_nulls("at")
        .select("run_id", "agent", name=base_name("agent"), accepted_at="at", turn="at")
        .sort("turn", "agent")
    )
    met = asked.join_asof(
        turns,
        left_on="at",
        right_on="turn",
        by_left=["run_id", "target"],
        by_right=["run_id", "name"],
        strategy="forward",
        check_sortedness=False,
    )
    in_time = pl.col("again").is_null() | (pl.col("accepted_at") < pl.col("again"))
    return met.filter(
        pl.col("accepted_at").is_not_null() & in_time & (pl.col("agent") != pl.col("giver"))
    ).select(
        "handoff", "accepted_at", child_run="run_id", lane="agent", name="target", rule=pl.lit("turn.next")
    )
