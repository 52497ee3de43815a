"""The sweep on Spark: what every rule of a grid does, over a lake or its labelled runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from agentlens._version import __version__
from agentlens.calibrate.sweep import TOTALS, sweep
from agentlens.detect.columns import JUDGED
from agentlens.distribute import pieces
from agentlens.distribute.engine import told
from agentlens.distribute.pieces import PIECES, batches_of, packed
from agentlens.distribute.tables import VERSIONS, Derived, SparkTables, kept
from agentlens.distribute.types import spark_schema
from agentlens.model.event import TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from agentlens.calibrate.grid import Cell
    from agentlens.calibrate.sweep import Sweep
    from agentlens.detect.policies import Policies
    from agentlens.distribute.lakes import SparkLake
    from agentlens.distribute.whole import Runs

ALERT_ROWS: Final = pl.Schema(
    {
        "cell": pl.Int32(),
        "run_id": pl.String(),
        "agent": pl.String(),
        "seq": pl.Int64(),
        "at": TIME,
        "onset_seq": pl.Int64(),
        "onset_at": TIME,
        "last_seq": pl.Int64(),
        "period": pl.Int32(),
    }
)
"""One row an episode of a rule: its alert, the first event of its first lap, its last stuck event."""

DOUBT_ROWS: Final = pl.Schema(
    {"cell": pl.Int32(), "run_id": pl.String(), "agent": pl.String(), "seq": pl.Int64(), "at": TIME}
)
"""The first uncertain event of each lane that has one, by rule."""


def sweep_tables(found: Sweep) -> dict[str, pl.DataFrame]:
    """Return a sweep by names instead of row numbers: ``alerts`` (`ALERT_ROWS`), ``doubts``, ``totals``."""
    actions = found.actions

    def at(rows: pl.Series, *names: str) -> pl.DataFrame:
        return actions[rows.to_list()].select(names)

    alerts, doubts = found.alerts, found.doubts
    onset = at(alerts["onset"], "seq", "at").rename({"seq": "onset_seq", "at": "onset_at"})
    last = at(alerts["last"], "seq").rename({"seq": "last_seq"})
    named = [alerts.select("cell", "period"), at(alerts["row"], "run_id", "agent", "seq", "at"), onset, last]
    unsure = [doubts.select("cell"), at(doubts["row"], "run_id", "agent", "seq", "at")]
    return {
        "alerts": pl.concat(named, how="horizontal").select(list(ALERT_ROWS)).sort(_KEY),
        "doubts": pl.concat(unsure, how="horizontal").sort(_KEY),
        "totals": found.totals,
    }


_KEY: Final = ("cell", "run_id", "agent", "seq")


def swept(
    lake: SparkLake,
    cells: Sequence[Cell],
    *,
    runs: Sequence[str] | None = None,
    policies: Policies | None = None,
    actions: Sequence[str],
) -> SparkTables:
    """Try every cell on every run; see `agentlens.distribute.spark.sweep`."""
    buckets, whole_runs = lake.whole(JUDGED)
    worker = partial(
        _sweep,
        whole_runs=whole_runs,
        cells=tuple(cells),
        runs=None if runs is None else frozenset(runs),
        policies=policies,
        actions=tuple(actions),
    )
    made = kept(buckets.mapInArrow(worker, spark_schema(PIECES)))
    return SparkTables(
        made=made,
        schemas={"alerts": ALERT_ROWS, "doubts": DOUBT_ROWS},
        keys={"alerts": _KEY, "doubts": _KEY},
        derived={
            "totals": Derived(piece="totals", schema=TOTALS, made=partial(_totals, len(cells)), result=TOTALS)
        },
        facts={
            "agentlens": __version__,
            "actions": ",".join(actions),
            "policies_digest": policies.digest if policies else "",
        },
    )


def events_of(lake: SparkLake, runs: Sequence[str]) -> pl.DataFrame:
    """Bring the events of some runs to this machine; see `agentlens.distribute.spark.events`."""
    buckets, whole_runs = lake.whole()
    worker = partial(_of_runs, whole_runs=whole_runs, runs=frozenset(runs))
    made = buckets.mapInArrow(worker, spark_schema(PIECES))
    with told("fetching events"):
        found = pieces.fetched(made, "events", lake.event_schema)
    return found.sort("run_id", "agent", "seq", maintain_order=True)


def _of_runs(
    batches: Iterable[pa.RecordBatch], *, whole_runs: Runs, runs: frozenset[str]
) -> Iterator[pa.RecordBatch]:
    """Pick the events of some runs out of a partition (in a worker)."""
    place = 0
    for every in whole_runs.frames(batches):
        frame = every.filter(pl.col("run_id").is_in(list(runs)))
        yield from batches_of(packed("events", frame, place=place))
        place += frame.height // pieces.ROWS + 1


def _sweep(
    batches: Iterable[pa.RecordBatch],
    *,
    whole_runs: Runs,
    cells: tuple[Cell, ...],
    runs: frozenset[str] | None,
    policies: Policies | None,
    actions: tuple[str, ...],
) -> Iterator[pa.RecordBatch]:
    """Sweep the runs of one partition (in a worker)."""
    place = 0
    for frame in whole_runs.frames(batches):
        chosen = frame if runs is None else frame.filter(pl.col("run_id").is_in(list(runs)))
        found = sweep_tables(sweep([chosen.lazy()], cells, policies=policies, actions=actions))
        found["versions"] = chosen.select(list(VERSIONS)).unique().sort(pl.all())
        for name, made in found.items():
            yield from batches_of(packed(name, made, place=place))
        place += max(made.height for made in found.values()) // pieces.ROWS + 1


def _totals(cells: int, counts: pl.DataFrame) -> pl.DataFrame:
    """Sum what the partitions counted; a cell that none counted is zero."""
    every = pl.DataFrame({"cell": range(cells), **dict.fromkeys(list(TOTALS)[1:], 0)}).cast(dict(TOTALS))  # type: ignore[arg-type]
    return pl.concat([every, counts]).group_by("cell").agg(pl.exclude("cell").sum()).sort("cell")
