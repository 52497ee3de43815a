"""Writing a generation of a lake through Spark: fresh folders, nothing of the lake changes before its manifest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
import polars as pl
import pyarrow as pa

from agentlens.distribute import pieces
from agentlens.distribute.assembling import FACTS, bucket_rows
from agentlens.distribute.engine import told
from agentlens.distribute.types import arrow_schema, spark_schema, to_batches
from agentlens.errors import EngineError
from agentlens.lake.forgotten import honoured
from agentlens.lake.manifest import BucketEntry, FileEntry
from agentlens.lake.store import FOLDERS
from agentlens.model.event import CONTENT, EVENTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from agentlens.distribute.files import Files
    from agentlens.distribute.types import Schema
    from agentlens.lake.manifest import Manifest

_PLACE, _ROW = "_place", "_row"


@dataclass(frozen=True, kw_only=True)
class Writer:
    """Writes the files of one generation."""

    session: Any
    files: Files
    generation: int

    def buckets(self, made: Any, records: pl.Schema) -> dict[int, BucketEntry]:
        """Write records and events, one file a bucket, and return what the manifest says of each."""
        events = pl.Schema({**EVENTS, **{name: dtype for name, dtype in CONTENT.items() if name in records}})
        with told(self.files.root):
            told_facts = made.filter(made["name"] == "facts").select("key", "data").toLocalIterator()
            facts = {int(row["key"]): orjson.loads(_only(bytes(row["data"]))) for row in told_facts}
        written = {
            name: self._by_bucket(name, bucket_rows(made, name, schema), sorted(facts))
            for name, schema in (("records", records), ("events", events))
        }
        entries: dict[int, BucketEntry] = {}
        for number, fact in sorted(facts.items()):
            rows = {name: int(fact.pop(name)) for name in written}
            entries[number] = BucketEntry(
                records=self._entry(*written["records"][number], rows=rows["records"]),
                events=self._entry(*written["events"][number], rows=rows["events"]),
                **fact,
            )
        return entries

    def table(self, name: str, frame: Any, order: Iterable[str]) -> FileEntry | None:
        """Write a table of one file; None where it has no row. ``order`` may name columns that are not kept."""
        where = self._folder(name)
        kept = [column for column in frame.columns if column not in {_PLACE, _ROW}]
        with told(self.files.at(where)):
            rows = int(frame.count())
            if not rows:
                return None
            whole = frame.repartition(1).sortWithinPartitions(*order).select(*kept)
            whole.write.mode("overwrite").parquet(self.files.at(where))
        found = self._parquet(where)
        if len(found) != 1:
            raise EngineError(f"{self.files.at(where)}: Spark wrote {len(found)} files; accepted: one")
        return self._entry(*found[0], rows=rows)

    def frame(self, rows: pl.DataFrame) -> Any:
        """Return a frame of this machine as a Spark frame."""
        schema = rows.schema
        table = pa.Table.from_batches(list(to_batches(rows, schema)), arrow_schema(schema))
        return self.session.createDataFrame(table, spark_schema(schema))

    def discard(self) -> None:
        """Delete what was written: the lake is as it was."""
        for name in FOLDERS:
            self.files.delete(self._folder(name))

    def _by_bucket(self, name: str, rows: Any, numbers: list[int]) -> dict[int, tuple[str, int]]:
        where = self._folder(name)
        with told(self.files.at(where)):
            ordered = rows.sortWithinPartitions("bucket", _PLACE).drop(_PLACE)
            ordered.write.mode("overwrite").partitionBy("bucket").parquet(self.files.at(where))
        found: dict[int, tuple[str, int]] = {}
        for path, size in self._parquet(where):
            number = int(path.removeprefix(f"{where}/bucket=").partition("/")[0])
            if number in found:
                raise EngineError(f"{self.files.at(where)}: bucket {number} is in two files; accepted: one")
            found[number] = path, size
        if sorted(found) != numbers:
            raise EngineError(
                f"{self.files.at(where)}: {len(found)} buckets were written, not {len(numbers)}"
            )
        return found

    def _folder(self, name: str) -> str:
        return f"{name}/g{self.generation:06}"

    def _parquet(self, where: str) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for path, size in self.files.sizes(where).items():
            if path.endswith(".parquet"):
                found.append((path, size))
            else:  # marks of Spark, checksums of Hadoop: no part of a lake
                self.files.delete(path)
        return found

    def _entry(self, path: str, size: int, *, rows: int) -> FileEntry:
        return FileEntry(path=path, rows=rows, bytes=size)


def _only(data: bytes) -> str:
    text: str = pieces.opened(data).select(list(FACTS)).item()
    return text


def placed(made: Any, name: str, schema: Schema, forgotten: Collection[str] = ()) -> Any:
    """Return one table of the pieces as a Spark frame with where each row stood: ``_place, _row``.

    ``forgotten``: digests of deleted runs, whose rows are left out.
    """
    wanted = {**schema, _PLACE: pl.Int64(), _ROW: pl.Int64()}
    mine = made.filter(made["name"] == name).select(*pieces.PIECES)
    worker = partial(_placed, schema=wanted, forgotten=tuple(forgotten))
    return mine.mapInArrow(worker, spark_schema(wanted))


def _placed(
    batches: Iterable[pa.RecordBatch], *, schema: Schema, forgotten: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    for piece in pieces.arriving(batches):
        rows = honoured(pieces.opened(piece["data"]), piece["name"], forgotten)
        where = {_PLACE: pl.lit(piece["place"], dtype=pl.Int64), _ROW: pl.int_range(pl.len(), dtype=pl.Int64)}
        yield from to_batches(rows.with_columns(**where), schema)


def sweep(files: Files, keep: Manifest) -> None:
    """Delete files that no manifest needs: retired ones, and what a killed ingest left behind."""
    kept = set(keep.files())
    for name in FOLDERS:
        for path in files.sizes(name):
            if path not in kept:
                files.delete(path)
