"""From records to the files of buckets: spread by bucket, assembled there, written by Spark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson
import polars as pl

from agentlens.distribute.pieces import PIECES, arriving, batches_of, opened, packed
from agentlens.distribute.types import from_batch, spark_schema, to_batches
from agentlens.lake.forgotten import honoured
from agentlens.lake.names import Names
from agentlens.lake.rewrite import IN_SOURCE, nonzero
from agentlens.lake.store import aligned
from agentlens.model.event import CONTENT
from agentlens.model.record import RECORDS
from agentlens.normalise.assemble import assembled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from agentlens.distribute.types import Schema

FACTS: Final = pl.Schema({"json": pl.String()})
BUCKET: Final = pl.Schema({"bucket": pl.Int64()})


@dataclass(frozen=True, kw_only=True)
class Placing:
    """Which bucket a run id as read belongs to. ``sessions``: the pairs that name runs."""

    sessions: pl.DataFrame
    buckets: int
    forgotten: tuple[str, ...] = ()
    content: bool = False

    @property
    def schema(self) -> pl.Schema:
        """Columns of the records."""
        return pl.Schema({**RECORDS, **(CONTENT if self.content else {})})

    def places(self, ids: pl.Series) -> pl.DataFrame:
        """Return ``run_id, run, bucket``; forgotten runs are left out."""
        names = Names(before=self.sessions, after=self.sessions)
        return names.places(ids, self.buckets, self.forgotten)


def buckets_of(batches: Iterable[pa.RecordBatch], *, placing: Placing) -> Iterator[pa.RecordBatch]:
    """Name the buckets that new records go into (schema `BUCKET`), each once a piece."""
    for piece in arriving(batches):
        found = placing.places(opened(piece["data"])["run_id"]).select("bucket").unique()
        yield from to_batches(found, BUCKET)


def spread(
    batches: Iterable[pa.RecordBatch], *, placing: Placing, refused: frozenset[str]
) -> Iterator[pa.RecordBatch]:
    """Cut pieces of records into one piece a bucket, without those of sources that were refused half-way."""
    for piece in arriving(batches):
        rows = opened(piece["data"])
        yield from _spread(rows.filter(~pl.col("source_id").is_in(list(refused))), placing, piece["place"])


def spread_rows(
    batches: Iterable[pa.RecordBatch], *, placing: Placing, replaced: frozenset[str]
) -> Iterator[pa.RecordBatch]:
    """Cut old records, as Spark reads them, into pieces, without those of replaced sources."""
    for batch in batches:
        rows = from_batch(batch, placing.schema)
        yield from _spread(rows.filter(~pl.col("source_id").is_in(list(replaced))), placing, -1)


def _spread(rows: pl.DataFrame, placing: Placing, place: int) -> Iterator[pa.RecordBatch]:
    lookup = placing.places(rows["run_id"]).select("run_id", bucket=pl.col("bucket").cast(pl.Int64))
    placed = aligned(rows.lazy(), placing.schema).collect().join(lookup, on="run_id", how="inner")
    for (bucket,), part in placed.sort("bucket", maintain_order=True).group_by("bucket", maintain_order=True):
        yield from batches_of(packed("records", part.drop("bucket"), key=int(bucket), place=place))


def assemble_buckets(batches: Iterable[pa.RecordBatch], *, placing: Placing) -> Iterator[pa.RecordBatch]:
    """Assemble the buckets of one partition, one after the other; its pieces stand in the order of their keys."""
    frames: list[pl.DataFrame] = []
    key: int | None = None
    for piece in arriving(batches):
        if key is not None and piece["key"] != key:
            yield from _bucket(key, frames, placing)
            frames = []
        key = piece["key"]
        frames.append(opened(piece["data"]))
    if key is not None:
        yield from _bucket(key, frames, placing)


def _bucket(key: int, frames: list[pl.DataFrame], placing: Placing) -> Iterator[pa.RecordBatch]:
    rows = pl.concat([aligned(frame.lazy(), placing.schema) for frame in frames]).collect()
    rows = honoured(rows, "records", placing.forgotten).sort(IN_SOURCE, nulls_last=True)
    made = assembled(rows)
    facts = {
        "runs": made.events["run_id"].n_unique(),
        "sources": rows["source_id"].unique().sort().to_list(),
        "dropped": nonzero(made.counts, "dropped"),
        "folded": nonzero(made.counts, "folded"),
        "elsewhere": nonzero(made.elsewhere, "elsewhere"),
        "disputed": nonzero(made.disputed, "disputed"),
        "records": rows.height,
        "events": made.events.height,
    }
    told = pl.DataFrame({"json": [orjson.dumps(facts).decode()]}, schema=FACTS)
    yield from batches_of(packed("facts", told, key=key))
    yield from batches_of(packed("records", rows, key=key))
    yield from batches_of(packed("events", made.events, key=key))


def bucket_rows(pieces: Any, name: str, schema: Schema) -> Any:
    """Return one table of assembled buckets as a Spark frame with ``bucket`` and ``_place``, its rows in order."""
    wanted = {**schema, "bucket": pl.Int32(), "_place": pl.Int64()}
    mine = pieces.filter(pieces["name"] == name).select(*PIECES)
    return mine.mapInArrow(partial(_rows, schema=wanted), spark_schema(wanted))


def _rows(batches: Iterable[pa.RecordBatch], *, schema: Schema) -> Iterator[pa.RecordBatch]:
    for piece in arriving(batches):
        frame = opened(piece["data"]).with_columns(
            bucket=pl.lit(piece["key"], dtype=pl.Int32),
            _place=pl.int_range(pl.len(), dtype=pl.Int64) + piece["place"] * (1 << 32),
        )
        yield from to_batches(frame, schema)
