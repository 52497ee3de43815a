"""Handoffs on Spark: receipts inferred where the runs are, then every operation judged in one place.

Three passes. Over whole runs, without a shuffle: claims, the newest time, and by which names runs are linked. Over
whole runs again, linked ones brought together: receipts. Over receipts shuffled by operation: states.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from agentlens._version import __version__
from agentlens.detect.claims import CLAIMS, CUES, claims, cues
from agentlens.detect.handoffs import handoffs
from agentlens.detect.inferred import inferred_receipts
from agentlens.detect.operations import operations
from agentlens.detect.receipts_auth import AUTHORS, AuthorKeys, authors
from agentlens.detect.shown import chosen_handoffs
from agentlens.distribute import pieces, whole
from agentlens.distribute.engine import told
from agentlens.distribute.links import LINKS, linked, links
from agentlens.distribute.pieces import PIECES, batches_of, packed, table
from agentlens.distribute.tables import VERSIONS, Derived, SparkTables, kept
from agentlens.distribute.types import spark_schema, to_batches
from agentlens.model.event import EVENTS, TIME
from agentlens.model.handoff import HANDOFFS, OPERATIONS
from agentlens.model.receipt import RECEIPTS
from agentlens.model.select import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    import pyarrow as pa

    from agentlens.detect.handoff_limits import HandoffLimits
    from agentlens.distribute.lakes import SparkLake
    from agentlens.distribute.types import Schema
    from agentlens.distribute.whole import Runs

COLUMNS: Final = (
    *("run_id", "agent", "seq", "at", "ended_at", "kind", "tool", "target", "outcome", "lease", "open"),
    *("error_class", "trace_id", "span_id", "parent_span_id", "call_id", "parent_run_id", "source"),
    *("workflow", "model", "agent_version", "task_group", "change", "check", *VERSIONS),
)
"""What inference and claims look at; only these are read."""

_EVENTS: Final = {name: dtype for name, dtype in EVENTS.items() if name in COLUMNS}
_GROUPED: Final = {"group": pl.String(), **_EVENTS}
_NEWEST: Final = pl.Schema({"at": TIME})
_PLACES: Final = pl.Schema({"run_id": pl.String(), "trace_id": pl.String()})
_CUE: Final = ("claimed", "no_tool_call", "no_check_after_change", "false_success")
_CUE_COUNTS: Final = pl.Schema({**{name: CLAIMS[name] for name in _CUE}, "n": pl.Int64()})


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What the judging of receipts depends on."""

    limits: HandoffLimits
    as_of: datetime | None
    keys: AuthorKeys | None
    selection: Selection
    places: pl.DataFrame | None


def judged(
    lake: SparkLake,
    limits: HandoffLimits,
    *,
    as_of: datetime | None = None,
    keys: AuthorKeys | None = None,
    selection: Selection | None = None,
) -> SparkTables:
    """Judge every handoff of a lake; see `agentlens.distribute.spark.handoffs`."""
    selection = selection or Selection()
    buckets, whole_runs = lake.whole(COLUMNS)
    worker = partial(_survey, whole_runs=whole_runs, selection=selection)
    surveyed = kept(buckets.mapInArrow(worker, spark_schema(PIECES)))
    native = lake.table("receipts", RECEIPTS)
    with told(lake.files.root):
        moment = as_of or _newest(surveyed, native)
        places = None
        if selection.workflow is not None:
            places = pieces.fetched(surveyed, "places", _PLACES)
    receipts = native.unionByName(_inferred(lake, linked(table(surveyed, "links", LINKS))))
    asked = _Asked(limits=limits, as_of=moment, keys=keys, selection=selection, places=places)
    by_operation = receipts.repartition("operation_id").sortWithinPartitions("operation_id")
    states = kept(
        by_operation.mapInArrow(partial(_judge, asked=asked, least=whole.CHUNK_ROWS), spark_schema(PIECES))
    )
    return SparkTables(
        made=surveyed.unionByName(states),
        parts=(surveyed, states),
        schemas={"handoffs": HANDOFFS, "operations": OPERATIONS, "claims": CLAIMS},
        keys={
            "handoffs": ("operation_id", "handoff_id"),
            "operations": ("operation_id",),
            "claims": ("run_id",),
        },
        derived={
            "cues": Derived(piece="cues", schema=_CUE_COUNTS, made=_cues, result=CUES),
            "authors": Derived(piece="authors", schema=AUTHORS, made=_authors, result=AUTHORS),
        },
        facts={
            "agentlens": __version__,
            "limits_digest": limits.digest,
            "as_of": "" if moment is None else moment.isoformat(),
        },
    )


def _newest(surveyed: Any, native: Any) -> datetime | None:
    """Newest time of the receipts and of what the traces show; None where nothing carries one."""
    from pyspark.sql import functions as f

    seen = pieces.fetched(surveyed, "newest", _NEWEST)
    row = native.agg(f.max(f.unix_micros("at")).alias("at")).first()
    said = pl.Series("at", [None if row is None else row["at"]], dtype=pl.Int64).cast(TIME)
    return pl.concat([seen["at"], said]).max()  # type: ignore[return-value]


def _inferred(lake: SparkLake, groups: Any | None) -> Any:
    """Receipts that the events show, as a Spark frame of schema `RECEIPTS`."""
    if groups is None:
        buckets, whole_runs = lake.whole(COLUMNS)
        return buckets.mapInArrow(partial(_infer_runs, whole_runs=whole_runs), spark_schema(RECEIPTS))
    events = lake.events(COLUMNS).select(*_EVENTS)
    alone = events.join(groups, "run_id", "left_anti").select(*_EVENTS)
    together = events.join(groups, "run_id").select(*_GROUPED)
    ordered = together.repartition("group").sortWithinPartitions("group", "run_id", "agent", "seq")
    return _receipts_of(alone, _EVENTS, "run_id").unionByName(_receipts_of(ordered, _GROUPED, "group"))


def _receipts_of(events: Any, schema: Schema, by: str) -> Any:
    worker = partial(_infer, schema=dict(schema), by=by, least=whole.CHUNK_ROWS)
    return events.mapInArrow(worker, spark_schema(RECEIPTS))


# -- in the workers


def _survey(
    batches: Iterable[pa.RecordBatch], *, whole_runs: Runs, selection: Selection
) -> Iterator[pa.RecordBatch]:
    """Say of whole runs what needs no other run."""
    place = 0
    for frame in whole_runs.frames(batches):
        events = frame.lazy()
        chosen = selection.apply(events).select("run_id").unique()
        claimed = claims(events.join(chosen, on="run_id", how="semi")).collect()
        found = {
            "claims": claimed,
            "cues": claimed.filter(pl.col("claimed") == "success").group_by(_CUE).agg(_count()),
            "newest": frame.select(at=pl.max_horizontal(pl.col("at").max(), pl.col("ended_at").max())),
            "links": links(events).collect(),
            "versions": frame.select(list(VERSIONS)).unique(),
        }
        if selection.workflow is not None:
            of_workflow = Selection(workflow=selection.workflow).apply(events)
            found["places"] = of_workflow.select(list(_PLACES)).unique().collect()
        for name, made in found.items():
            yield from batches_of(packed(name, made.sort(pl.all()), place=place))
        place += frame.height // pieces.ROWS + 1


def _count() -> pl.Expr:
    return pl.len().cast(pl.Int64).alias("n")


def _infer(
    batches: Iterable[pa.RecordBatch], *, schema: Schema, by: str, least: int
) -> Iterator[pa.RecordBatch]:
    """Read receipts out of whole groups of runs."""
    for frame in whole.whole_runs(batches, schema, by=by, least=least):
        yield from _receipts(frame.select(list(_EVENTS)))


def _infer_runs(batches: Iterable[pa.RecordBatch], *, whole_runs: Runs) -> Iterator[pa.RecordBatch]:
    """Read receipts out of whole runs, none of which is linked with another."""
    for frame in whole_runs.frames(batches):
        yield from _receipts(frame)


def _receipts(events: pl.DataFrame) -> Iterator[pa.RecordBatch]:
    yield from to_batches(inferred_receipts(events.lazy()).select(list(RECEIPTS)).collect(), RECEIPTS)


def _judge(batches: Iterable[pa.RecordBatch], *, asked: _Asked, least: int) -> Iterator[pa.RecordBatch]:
    """Judge whole operations."""
    place = 0
    for frame in whole.whole_runs(batches, RECEIPTS, by="operation_id", least=least):
        receipts = frame.lazy()
        every = handoffs(receipts, asked.limits, as_of=asked.as_of, keys=asked.keys)
        shown = chosen_handoffs(every.collect(engine="in-memory"), asked.selection, asked.places)
        found = {
            "handoffs": shown,
            "operations": operations(shown.lazy()).collect(),
            "authors": authors(receipts, asked.keys or AuthorKeys({})).collect(),
        }
        for name, made in found.items():
            yield from batches_of(packed(name, made, place=place))
        place += frame.height // pieces.ROWS + 1


# -- on the driver, from sums


def _cues(counts: pl.DataFrame) -> pl.DataFrame:
    """Rates of the cues, from how many claims look alike."""
    summed = counts.group_by(_CUE).agg(pl.col("n").sum()).sort(pl.all())
    return cues(summed.select(pl.col(_CUE).repeat_by("n").explode(empty_as_null=False)))


def _authors(counts: pl.DataFrame) -> pl.DataFrame:
    return counts.group_by("author").agg(pl.exclude("author").sum()).sort("author", nulls_last=True)
