"""The few rows a person looks at, summed up on the cluster, whatever the size of the tables behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens.distribute.engine import told
from agentlens.distribute.types import from_batch
from agentlens.model.handoff import HANDOFFS
from agentlens.model.verdict import EPISODES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.distribute.tables import SparkTables
    from agentlens.distribute.types import Schema

_COUNTS = pl.Schema(
    {"verdict": pl.String(), "runs": pl.Int64(), "alerts": pl.Int64(), "stuck_events": pl.Int64()}
)
_STATES = pl.Schema(
    {
        "state": pl.String(),
        "reason": pl.String(),
        "inferred": pl.Boolean(),
        "handoffs": pl.Int64(),
        "late": pl.Int64(),
    }
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


def alarms(found: SparkTables) -> tuple[int, int, int]:
    """Count runs: all, those with an alert, those with an alert or uncertain events."""
    from pyspark.sql import functions as f

    alarmed = f.col("alerts") > 0
    doubted = alarmed | (f.col("uncertain_events") > 0)
    counted = found["runs"].agg(
        f.count(f.lit(1)).alias("runs"),
        f.count_if(alarmed).alias("alarmed"),
        f.count_if(doubted).alias("doubted"),
    )
    row = fetched(counted, dict.fromkeys(("runs", "alarmed", "doubted"), pl.Int64())).row(0)
    return row[0], row[1], row[2]


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


def handoff_states(found: SparkTables) -> pl.DataFrame:
    """Handoffs by state, reason and origin."""
    from pyspark.sql import functions as f

    late = f.coalesce(f.sum(f.col("late_ack").cast("bigint")), f.lit(0)).alias("late")
    counted = found["handoffs"].groupBy("state", "reason", "inferred")
    return fetched(counted.agg(f.count(f.lit(1)).alias("handoffs"), late), _STATES)


def looked_at(found: SparkTables, states: Sequence[str], count: int) -> tuple[pl.DataFrame, int]:
    """Return the first handoffs in one of these states, in their order, and how many there are in all."""
    from pyspark.sql import functions as f

    rank = f.lit(None).cast("int")
    for place, state in reversed(list(enumerate(states))):
        rank = f.when(f.col("state") == state, f.lit(place)).otherwise(rank)
    unsaid = ~f.col("reason").eqNullSafe("verification_unavailable")
    every = found["handoffs"].withColumn("_rank", rank).filter(f.col("_rank").isNotNull() & unsaid)
    with told("counting handoffs"):
        total = int(every.count())
    first = every.orderBy("_rank", "operation_id", "handoff_id").limit(count).drop("_rank")
    return fetched(first, HANDOFFS), total


def unknown_claims(found: SparkTables, count: int) -> pl.Series:
    """Return the first runs that claim success while no outcome is known."""
    every = found["claims"].filter("claimed = 'success' and false_success is null")
    return fetched(every.select("run_id").orderBy("run_id").limit(count), {"run_id": pl.String()})["run_id"]


def fetched(frame: Any, schema: Schema) -> pl.DataFrame:
    """Bring a small Spark frame to this machine."""
    with told("fetching a summary"):
        table = frame.toArrow()
    batches = table.to_batches()
    return pl.concat([pl.DataFrame(schema=schema), *(from_batch(batch, schema) for batch in batches)])
