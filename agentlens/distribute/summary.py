"""The few rows a person looks at, summed up on the cluster, whatever the size of the tables behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens.distribute.engine import told
from agentlens.distribute.types import from_batch
from agentlens.model.verdict import EPISODES

if TYPE_CHECKING:
    from agentlens.distribute.tables import SparkTables
    from agentlens.distribute.types import Schema

_COUNTS = pl.Schema(
    {"verdict": pl.String(), "runs": pl.Int64(), "alerts": pl.Int64(), "stuck_events": pl.Int64()}
)
_REASONS = pl.Schema({"reason": pl.String(), "events": pl.Int64()})


def verdict_counts(found: SparkTables) -> pl.DataFrame:
    """Runs by final verdict, most first: the table of `agentlens.results.Loops.counts`."""
    from pyspark.sql import functions as f

    counted = (
        found["runs"]
        .groupBy("verdict")
        .agg(
            f.count(f.lit(1)).alias("runs"),
            f.sum("alerts").alias("alerts"),
            f.sum("stuck_events").alias("stuck_events"),
        )
    )
    return fetched(counted, _COUNTS).sort("runs", "verdict", descending=[True, False])


def event_verdicts(found: SparkTables) -> list[str]:
    """Return the verdicts that some event has, sorted."""
    rows = fetched(found["verdicts"].select("verdict").distinct(), {"verdict": pl.String()})
    return sorted(rows["verdict"].drop_nulls().to_list())


def reasons(found: SparkTables) -> pl.DataFrame:
    """Uncertain events by what is missing, most first."""
    uncertain = found["verdicts"].filter("verdict = 'uncertain'").groupBy("reason").count()
    named = uncertain.withColumnRenamed("count", "events")
    return fetched(named, _REASONS).sort("events", "reason", descending=[True, False])


def costliest(found: SparkTables, count: int) -> tuple[pl.DataFrame, int]:
    """Return the first episodes by tokens and laps, and how many there are in all."""
    from pyspark.sql import functions as f

    every = found["episodes"]
    order = [f.col("tokens").desc_nulls_last(), f.col("laps").desc_nulls_last()]
    order += [f.col(name).asc_nulls_last() for name in ("run_id", "agent", "onset_seq")]
    with told("counting episodes"):
        total = int(every.count())
    return fetched(every.orderBy(*order).limit(count), EPISODES), total


def fetched(frame: Any, schema: Schema) -> pl.DataFrame:
    """Bring a small Spark frame to this machine."""
    with told("fetching a summary"):
        table = frame.toArrow()
    batches = table.to_batches()
    return pl.concat([pl.DataFrame(schema=schema), *(from_batch(batch, schema) for batch in batches)])
