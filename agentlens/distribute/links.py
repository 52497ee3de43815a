"""Runs that hand over to each other, so that they can be looked at together.

A handoff may be taken in another run: an agent span that links to it by trace, or an explicit start that names the
run it was called from. Runs that share such a name are one group; all others are groups of their own and stay
where they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens.distribute.engine import told
from agentlens.distribute.types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

LINKS = pl.Schema({"run_id": pl.String(), "name": pl.String()})
"""A run, and a name under which another run may mean the same handoffs."""

GROUPS = pl.Schema({"run_id": pl.String(), "group": pl.String()})
"""A run that is linked with others, and the smallest run id among them."""


def links(events: pl.LazyFrame) -> pl.LazyFrame:
    """Return the names by which these runs may be linked with others (schema `LINKS`)."""
    kind, run, trace = pl.col("kind"), pl.lit("run:"), pl.lit("trace:")
    given = events.filter(kind == "handoff")
    called = pl.coalesce("span_id", "call_id").is_not_null()
    agents = events.filter((kind == "agent") & pl.col("call_id").is_not_null())
    starts = events.filter(kind == "accept")
    named = [
        given.select("run_id", name=run + pl.col("run_id")),
        given.filter(called).select("run_id", name=trace + pl.col("trace_id")),
        agents.select("run_id", name=trace + pl.coalesce("parent_run_id", "trace_id")),
        starts.select("run_id", name=run + pl.coalesce("parent_run_id", "run_id")),
    ]
    return pl.concat(named).drop_nulls().unique().sort(pl.all())


def groups(pairs: Iterable[tuple[str, str]]) -> pl.DataFrame:
    """Return the runs that are linked, with their group (schema `GROUPS`), sorted.

    Examples
    --------
    >>> groups([("b", "x"), ("a", "x"), ("c", "y"), ("a", "z"), ("d", "z")]).rows()
    [('a', 'a'), ('b', 'a'), ('d', 'a')]
    """
    parent: dict[str, str] = {}

    def root(of: str) -> str:
        while parent.setdefault(of, of) != of:
            parent[of] = parent[parent[of]]
            of = parent[of]
        return of

    met: dict[str, str] = {}
    for run, name in sorted(pairs):
        one, other = sorted((root(run), root(met.setdefault(name, run))))
        parent[other] = one
    found = [(run, root(run)) for run in parent]
    several = {group for run, group in found if run != group}
    rows = sorted((run, group) for run, group in found if group in several)
    return pl.DataFrame(rows, schema=GROUPS, orient="row")


def linked(table: Any) -> Any | None:
    """Return the linked runs of a lake as a Spark frame of schema `GROUPS`; None where there are none.

    Parameters
    ----------
    table
        A Spark frame of schema `LINKS`. Only names that several runs have come to the driver.
    """
    from pyspark.sql import functions as f

    shared = table.groupBy("name").agg(f.count_distinct("run_id").alias("n")).filter("n > 1")
    with told("finding runs that hand over to each other"):
        pairs = [(row["run_id"], row["name"]) for row in table.join(shared, "name").toLocalIterator()]
    found = groups(pairs)
    if found.is_empty():
        return None
    return table.sparkSession.createDataFrame(
        found.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(arrow_schema(GROUPS))
    )
