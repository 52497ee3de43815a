"""Which lane an event belongs to, and where it stands in it."""

from __future__ import annotations

import polars as pl

from agentlens.model.event import ACTIONS
from agentlens.model.once import nulls
from agentlens.normalise.ties import untied

LANE = ("run_id", "agent")


def inherit_agents(records: pl.DataFrame) -> pl.DataFrame:
    """Give rows without an agent that of the nearest enclosing span that names one, else "".

    The instance mark goes with the name. A span is looked for in the same run only; spans that enclose
    each other in a circle name nobody.
    """
    if not nulls(records, "agent"):
        return records
    runs = records.select("run_id", "agent").filter(pl.col("agent").is_null()).select("run_id").unique()
    spans = _telling_spans(records, runs)
    nodes = spans.select("run_id", "span_id", "node")
    named = _nearest_named(spans, nodes)
    found = records.select("run_id", "span_id", "parent_span_id")
    for name, column in (("own", "span_id"), ("above", "parent_span_id")):
        found = found.join(
            nodes.rename({"span_id": column, "node": name}),
            on=["run_id", column],
            how="left",
            maintain_order="left",
        )
    node = found.select(pl.coalesce("own", "above")).to_series()
    asks = pl.col("agent").is_null()
    agent, instance = named["named_agent"].gather(node), named["named_instance"].gather(node)
    return records.with_columns(
        instance=pl.when(asks).then(pl.coalesce("instance", instance)).otherwise("instance"),
        agent=pl.when(asks).then(pl.coalesce(agent, pl.lit(""))).otherwise("agent"),
    )


def _telling_spans(records: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Return one numbered row a span of these runs that says something of others.

    A span that one record tells, with no agent and nothing below it, only passes on what its parent says: most
    spans are of this kind, and looked for by their parent.
    """
    # a digest that two ids share, or an id in two runs, lets a span in that nobody looks for: no more than that
    often = pl.col("span_id").hash().is_duplicated()
    above = pl.col("span_id").is_in(pl.col("parent_span_id").unique().implode())
    return (
        records.select("run_id", "span_id", "parent_span_id", "agent", "instance")
        .filter(pl.col("span_id").is_not_null() & (pl.col("agent").is_not_null() | often | above))
        .join(runs, on="run_id", how="semi")
        .sort("run_id", "span_id", "agent", "instance", "parent_span_id", nulls_last=True)
        .group_by("run_id", "span_id", maintain_order=True)
        .agg(
            pl.col("agent").first(), pl.col("instance").first(), pl.col("parent_span_id").drop_nulls().first()
        )
        .with_row_index("node")
    )


def _nearest_named(spans: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """Climb from every span at once: each round looks twice as far up as the one before."""
    parents = spans.join(
        nodes.rename({"node": "up"}),
        left_on=["run_id", "parent_span_id"],
        right_on=["run_id", "span_id"],
        how="left",
        maintain_order="left",
    )
    climb = parents.select("up", found=pl.when(pl.col("agent").is_not_null()).then("node"))
    for _ in range(len(spans).bit_length() + 1):
        if climb.filter(pl.col("found").is_null() & pl.col("up").is_not_null()).is_empty():
            break
        above = pl.all().gather(pl.col("up"))
        reached = climb.select(above)
        climb = climb.select(reached["up"], found=pl.coalesce("found", reached["found"]))
    found = climb["found"]
    return spans.with_columns(
        named_agent=spans["agent"].gather(found), named_instance=spans["instance"].gather(found)
    )


def mark_instances(records: pl.DataFrame) -> pl.DataFrame:
    """Tell apart agents of one name: ``name#k`` in order of first appearance.

    Only where a name has several instances in a run; rows that carry no instance keep the plain name.
    """
    if nulls(records, "instance") == len(records):
        return records
    given = pl.col("instance").is_not_null()
    place = ("source_id", "position", "position_in")
    several = records.filter(given).select(LANE).unique()
    firsts = (
        records.select(*LANE, "instance", "at", *place)
        .join(several, on=LANE, how="semi")
        .sort(place)
        .group_by("run_id", "agent", "instance", maintain_order=True)
        .agg(pl.col("at").min(), pl.col(place).first())
        .filter(pl.len().over(LANE) > 1)
        .filter(given)
        .sort(*LANE, "at", *place, nulls_last=True)
        .with_columns(k=pl.int_range(1, pl.len() + 1).over(LANE))
    )
    if firsts.is_empty():
        return records
    marks = firsts.select("run_id", "agent", "instance", marked=pl.concat_str("agent", "k", separator="#"))
    return (
        records.join(marks, on=["run_id", "agent", "instance"], how="left", maintain_order="left")
        .with_columns(agent=pl.coalesce("marked", "agent"))
        .drop("marked")
    )


def order(records: pl.DataFrame) -> pl.DataFrame:
    """Sort by lane and fill ``seq``.

    The export's own number orders a lane if every action of the lane has one, else time, else the place in
    the file; a record without a time stands at the time of the record before it, and spans that began in one
    tick are told apart by `untied`. ``seq`` is the export's
    number where those of the lane are unique (facts without a number follow, counted on), else 0, 1, 2, ...
    """
    place = ["source_id", "position", "position_in"]
    numbered = pl.col("seq_given").is_not_null()
    if nulls(records, "seq_given") == len(records):
        timed = _fill_times(records, place)
        ordered = untied(timed.sort(*LANE, "at_filled", *place, nulls_last=False))
        return ordered.with_columns(seq=pl.int_range(pl.len(), dtype=pl.Int64).over(LANE)).drop("at_filled")
    action = pl.col("kind").is_in(ACTIONS)
    judged = _fill_times(records, place).with_columns(
        by_number=(numbered | ~action).all().over(LANE) & numbered.any().over(LANE),
    )
    number = pl.when("by_number").then("seq_given")
    placed = judged.with_columns(number=number).sort(
        *LANE, "number", "at_filled", *place, nulls_last=[False, False, True, False, False, False, False]
    )
    ordered = (
        untied(placed, numbered=True)
        .with_columns(counted=pl.int_range(pl.len(), dtype=pl.Int64).over(LANE))
        .with_columns(
            unique=(pl.col("number").drop_nulls().n_unique() == pl.col("number").count()).over(LANE),
            behind=pl.col("number").max().over(LANE)
            + 1
            + pl.col("counted")
            - pl.col("number").count().over(LANE),
        )
    )
    own = pl.when(pl.col("by_number") & pl.col("unique")).then(pl.coalesce("number", "behind"))
    return ordered.with_columns(seq=own.otherwise("counted").cast(pl.Int64)).drop(
        "at_filled", "by_number", "number", "counted", "unique", "behind"
    )


def _fill_times(records: pl.DataFrame, place: list[str]) -> pl.DataFrame:
    """Add ``at_filled``: the time to sort by; null where a lane has none at all."""
    missing = nulls(records, "at")
    if missing in {0, len(records)}:
        return records.with_columns(at_filled="at")
    return records.sort(*LANE, *place).with_columns(
        at_filled=pl.coalesce(
            pl.col("at").forward_fill().over(*LANE, "source_id"),
            pl.col("at").backward_fill().over(*LANE, "source_id"),
        )
    )
