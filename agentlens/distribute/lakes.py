"""A lake on any path Spark reaches: its manifest through Hadoop, its tables through Spark's own Parquet reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from agentlens.distribute import engine, whole
from agentlens.distribute.engine import private, told
from agentlens.distribute.files import Files
from agentlens.distribute.sources import LARGEST
from agentlens.distribute.types import spark_schema
from agentlens.distribute.whole import Runs
from agentlens.errors import EngineError, LakeError
from agentlens.lake.manifest import MANIFEST, Manifest
from agentlens.model.event import CONTENT, EVENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.distribute.types import Schema
    from agentlens.lake.manifest import FileEntry

_INT_MAX = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class SparkLake:
    """One generation of a lake. ``session`` is private: its settings are those that keep files whole."""

    session: Any
    files: Files
    manifest: Manifest

    @classmethod
    def open(cls, session: Any, path: str) -> Self:
        """Open a lake at its newest generation.

        Raises
        ------
        LakeError
            There is none, its schema version is another, or a file that belongs to it is missing or cut off.
        EngineError
            The path cannot be reached.
        """
        files = Files(session, path)
        data = files.read(MANIFEST)
        if data is None:
            raise LakeError(f"{path}: no lake here; accepted: a folder that agentlens ingest wrote")
        manifest = Manifest.from_json(data, f"{path}/{MANIFEST}")
        _check_files(path, manifest, files)
        largest = max((entry.bytes for entry in manifest.files().values()), default=0) + 1
        return cls(session=private(session, **_whole_files(largest)), files=files, manifest=manifest)

    @property
    def event_schema(self) -> pl.Schema:
        """`EVENTS`, with the `CONTENT` columns where some source was ingested with its content."""
        return pl.Schema({**EVENTS, **(CONTENT if self.manifest.content else {})})

    def events(self, columns: Sequence[str] | None = None) -> Any:
        """Return the events as a Spark frame in which every partition is one bucket: whole runs, in order.

        Nothing is shuffled.
        """
        schema = self.event_schema
        kept = {name: schema[name] for name in schema if columns is None or name in columns}
        entries = [bucket.events for _, bucket in sorted(self.manifest.buckets.items())]
        frame = self.scan(entries, kept)
        with told(self.files.root):
            partitions = frame.rdd.getNumPartitions() if entries else 0
        if partitions != len(entries):  # else some run might lie in two of them
            raise EngineError(
                f"{self.files.root}: Spark reads {len(entries)} buckets as {partitions} partitions; accepted: one each "
                "(is a reader other than Spark's own set for Parquet?)"
            )
        return frame

    def whole(self, columns: Sequence[str] | None = None) -> tuple[Any, Runs]:
        """Return the buckets as a Spark frame, and how a worker makes whole runs of it.

        Spark brings each file as it is and the worker decodes it: rows would cost the JVM many times what judging
        them costs. A file too large for one value of a row comes as rows.
        """
        schema = {
            name: dtype for name, dtype in self.event_schema.items() if columns is None or name in columns
        }
        entries = [bucket.events for _, bucket in sorted(self.manifest.buckets.items())]
        as_files = bool(entries) and max(entry.bytes for entry in entries) <= LARGEST
        runs = Runs(schema=schema, files=as_files, rows=engine.BATCH_ROWS, least=whole.CHUNK_ROWS)
        if not as_files:
            return self.events(columns).select(*schema), runs
        beside = engine.private(self.session, **{"spark.sql.execution.arrow.maxRecordsPerBatch": "1"})
        with told(self.files.root):
            found = beside.read.format("binaryFile").load([self.files.at(entry.path) for entry in entries])
        return found.select("content"), runs

    def table(self, name: str, schema: Schema) -> Any:
        """Return ``receipts``, ``branches`` or ``sessions`` as a Spark frame; empty where the lake has none."""
        entry = self.manifest.tables.get(name)
        return self.scan([entry] if entry else [], schema)

    def scan(self, entries: Sequence[FileEntry], schema: Schema) -> Any:
        """Return the rows of several files of one table; a column that a file lacks is null."""
        if not entries:
            return self.session.createDataFrame([], spark_schema(schema))
        paths = [self.files.at(entry.path) for entry in entries]
        with told(self.files.root):
            return self.session.read.schema(spark_schema(schema)).parquet(*paths)


def _check_files(path: str, manifest: Manifest, files: Files) -> None:
    wanted = manifest.files()
    there = {
        name: size
        for folder in sorted({p.split("/")[0] for p in wanted})
        for name, size in files.sizes(folder).items()
    }
    for name, entry in sorted(wanted.items()):
        if there.get(name) != entry.bytes:
            what = "is missing" if name not in there else f"has {there[name]} bytes, not {entry.bytes}"
            raise LakeError(
                f"{path}: the lake is not whole: {name} {what}; accepted: a lake copied with all its files"
            )


def _whole_files(largest: int) -> dict[str, str]:
    """Settings with which Spark makes every file one partition.

    Spark closes a partition when the bytes in it, with the price of opening each file, pass the limit. With a
    price as high as the limit one file fills it, and a limit above the largest file cuts none.
    """
    return {
        "spark.sql.files.maxPartitionBytes": str(largest),
        "spark.sql.files.openCostInBytes": str(largest),
        "spark.sql.files.minPartitionNum": "1",
        "spark.sql.files.maxPartitionNum": str(_INT_MAX),
    }
