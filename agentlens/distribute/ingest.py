"""Ingest on Spark: many files read at once, a lake written that one machine can open as well.

The same steps as `agentlens.lake.ingest`: plan, read, place, assemble, and the manifest last. What was read is
staged as compressed Arrow inside the lake's folder, so that a lost machine costs the tasks it had and not all.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens.distribute import pieces
from agentlens.distribute.assembling import BUCKET, Placing, assemble_buckets, buckets_of, spread, spread_rows
from agentlens.distribute.engine import private, told
from agentlens.distribute.files import Files
from agentlens.distribute.keys import WorkerNormaliser
from agentlens.distribute.lakes import SparkLake
from agentlens.distribute.reading import READS, Reading, read_contents, read_tasks, reads_of, task_text
from agentlens.distribute.sources import is_local, listed, planned
from agentlens.distribute.tables import kept
from agentlens.distribute.types import spark_schema
from agentlens.distribute.writing import Writer, placed, sweep
from agentlens.errors import InputError, LakeError
from agentlens.lake.folder import CUT, cut_off, opened
from agentlens.lake.forgotten import OF_SOURCES, heir, lost
from agentlens.lake.manifest import MANIFEST, Manifest, forgotten_in
from agentlens.lake.names import SESSIONS, Names
from agentlens.lake.outcome import entry_of, faults_of, refuse_all, told_of
from agentlens.lake.plan import Planned, Settings, known_again, missed, plan, tasks
from agentlens.lake.reading import table_schemas
from agentlens.lake.rewrite import QUARANTINE, buckets_for
from agentlens.lake.store import ASIDE, FOLDERS, bucket_of, forgotten_mark
from agentlens.lake.summary import report_of
from agentlens.readers.registry import FORMATS
from agentlens.readers.source import expand

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentlens.distribute.sources import Listed
    from agentlens.lake.manifest import BucketEntry, FileEntry, SourceEntry
    from agentlens.lake.reading import PieceRead
    from agentlens.lake.report import IngestReport

PIECE_BYTES = 64 << 20
"""Bytes of files in one batch between the JVM and Python."""


@dataclass(kw_only=True)
class Ingest:
    """One ingest. ``local``: the workers open the sources by themselves; else ``addresses`` are theirs, by id."""

    session: Any
    files: Files
    manifest: Manifest
    before: bytes | None
    settings: Settings
    key_file: str | None
    local: bool
    addresses: dict[str, str] = field(default_factory=dict)

    def run(self, sources: Sequence[str]) -> IngestReport:
        """Read what is new or changed and commit it."""
        found, places, reading = self._plan(sources)
        todo = [one for one in found if one.read or one.status == "known"]
        refuse_all(found)
        if not todo:
            return report_of(found, {}, self.manifest, self.settings)
        sweep(self.files, self.manifest)
        staging = f"{ASIDE}spark-g{self.manifest.generation + 1:06}"
        writer = Writer(session=self.session, files=self.files, generation=self.manifest.generation + 1)
        try:
            staged = self._read(todo, reading, staging)
            return self._commit(found, places, staged, writer)
        except BaseException:
            writer.discard()
            raise
        finally:
            self.files.delete(staging)

    # -- plan

    def _plan(self, sources: Sequence[str]) -> tuple[list[Planned], dict[str, str], Reading]:
        """Return the sources in order, the places of those that Spark brings by source id, and how to read."""
        reading = Reading(
            normaliser=WorkerNormaliser.of(self.settings.normaliser, self.key_file),
            format=self.settings.format,
            sql=self.settings.sql,
        )
        if self.local:
            errors: dict[str, InputError] = {}
            files = expand([_path(one) for one in sources], missing=errors)
            home = _path(self.files.root) if self.files.scheme == "file" else None
            if home is not None:
                files = [one for one in files if not one.path.resolve().is_relative_to(Path(home).resolve())]
            once = known_again(files, self.manifest)
            refused = [missed(name, error) for name, error in errors.items()]
            return [*(plan(one, self.manifest, self.settings) for one in once), *refused], {}, reading
        there, missing = listed(self.session, sources)
        there = [one for one in there if not one.uri.startswith(f"{self.files.root}/")]
        mine = planned(there, self.manifest, self.settings)
        places = {mine[one.uri].source_id: one.place for one in there}
        known = {
            uri: ("" if one.reason else one.digest, one.source.name)
            for uri, one in mine.items()
            if one.source.name in self.manifest.sources
        }
        reading = replace(reading, prefixes=_prefixes(there), known=known)
        self.addresses = {one.source_id: uri for uri, one in mine.items()}
        return [*mine.values(), *missing], places, reading

    # -- read

    def _read(self, todo: list[Planned], reading: Reading, staging: str) -> Any:
        """Have the workers read, and return what they gave, staged."""
        if self.local:
            texts = [(task_text(task),) for task in tasks(todo, self.settings, Path())]
            slices = min(len(texts), 20_000)
            rows = self.session.sparkContext.parallelize(texts, slices)
            brought = self.session.createDataFrame(rows, "task string")
            worker = partial(read_tasks, how=reading)
        else:
            brought = self._contents(
                [self.addresses[one.source_id] for one in todo], max(one.size for one in todo)
            )
            worker = partial(read_contents, how=reading)
        where = self.files.at(staging)
        with told("reading sources"):
            made = brought.mapInArrow(worker, spark_schema(pieces.PIECES))
            made.write.mode("overwrite").parquet(where)
            return self.session.read.schema(spark_schema(pieces.PIECES)).parquet(where)

    def _contents(self, uris: list[str], largest: int) -> Any:
        """Return the bytes of files, so many in a batch as memory allows."""
        from pyspark.sql import functions as f

        most = max(1, min(PIECE_BYTES // max(largest, 1), 1_000))
        beside = private(self.session, **{"spark.sql.execution.arrow.maxRecordsPerBatch": str(most)})
        with told("listing sources"):
            found = beside.read.format("binaryFile").load(uris)
        return found.select("path", "content", f.monotonically_increasing_id().alias("number"))

    # -- commit

    def _commit(
        self, found: list[Planned], places: dict[str, str], staged: Any, writer: Writer
    ) -> IngestReport:
        with told("reading sources"):
            reads = reads_of(pieces.fetched(staged, "reads", READS))
        for one in found:
            if (
                self.local
                and one.read
                and not reads[one.source_id].digest
                and not reads[one.source_id].refused
            ):
                reads[one.source_id].digest = one.digest or one.source.digest()  # read in ranges
        known = self.manifest.sources
        found = [told_of(self._decided(one, reads), reads, known, self.settings) for one in found]
        refuse_all(found)
        same = {one.source_id for one in found if one.status == "unchanged"}
        reads = {key: read for key, read in reads.items() if key not in same}
        taken = [one for one in found if one.read]
        if not taken:
            return report_of(found, reads, self.manifest, self.settings)
        refused = {one.source_id for one in found if one.status == "refused"}
        entries = [
            entry_of(one, reads[one.source_id], self.settings, place=places.get(one.source_id))
            for one in taken
        ]
        made = self._next(staged, taken, reads, entries, refused, writer)
        if self.files.read(MANIFEST) != self.before:
            raise LakeError(
                f"{self.files.root}: another ingest has written to this lake; nothing was changed"
            )
        self.files.write(MANIFEST, made.to_json())
        report = report_of(found, reads, made, self.settings, changed=True)
        return report if self.local else replace(report, notes=(*report.notes, *_alone(reads)))

    def _decided(self, one: Planned, reads: dict[str, PieceRead]) -> Planned:
        """Decide about a source of known size by the digest that a worker took."""
        read = reads.get(one.source_id)
        if one.status != "known" or read is None:
            return one
        if read.digest != one.digest:
            return replace(one, status="changed", reason="")
        return one if not read.digest else replace(one, status="reread" if one.reason else "unchanged")

    def _next(
        self,
        staged: Any,
        taken: list[Planned],
        reads: dict[str, PieceRead],
        entries: list[SourceEntry],
        refused: set[str],
        writer: Writer,
    ) -> Manifest:
        old = self.manifest
        replaced = frozenset(one.source_id for one in taken)
        content = old.content or self.settings.normaliser.keep_content
        lake = SparkLake(session=self.session, files=self.files, manifest=replace(old, content=content))
        names = self._names(staged, lake, replaced, refused)
        rows = self._rows(staged)
        placing = Placing(
            sessions=names.after,
            buckets=buckets_for(old, rows),
            forgotten=tuple(old.forgotten),
            content=content,
        )
        touched = self._touched(staged, placing, names, replaced)
        new = self._spread(staged, lake, placing, touched, replaced, refused)
        gathered = new.repartition("key").sortWithinPartitions("key", "place", "rows")
        worker = partial(assemble_buckets, placing=placing)
        made = kept(gathered.mapInArrow(worker, spark_schema(pieces.PIECES)))
        try:
            written = writer.buckets(made, placing.schema)
        finally:
            made.unpersist()
        stays = {} if placing.buckets != old.bucket_count else old.buckets
        buckets = {number: entry for number, entry in stays.items() if number not in touched} | written
        tables = self._tables(staged, lake, replaced, refused, names, writer)
        gone = self._lost(entries, buckets, tables)
        faults = faults_of([one for one in taken if one.source_id not in gone], reads)
        self._table(tables, "quarantine", writer.frame(faults), lake, replaced, writer)
        sources = old.sources | {one.name: one for one in entries}
        next_one = replace(
            old,
            generation=writer.generation,
            bucket_count=placing.buckets,
            content=content,
            buckets=dict(sorted(buckets.items())),
            tables=tables,
            sources={name: one for name, one in sources.items() if one.id not in gone},
        )
        return replace(next_one, retired=sorted(set(old.files()) - set(next_one.files())))

    def _names(self, staged: Any, lake: SparkLake, replaced: frozenset[str], refused: set[str]) -> Names:
        """Return which sessions name which runs, before and after."""
        from agentlens.distribute.summary import fetched

        before = fetched(lake.table("sessions", SESSIONS), SESSIONS)
        with told("reading sources"):
            found = pieces.fetched(staged, "sessions", SESSIONS)
        stays = before.filter(~pl.col("source_id").is_in(list(replaced)))
        new = found.filter(~pl.col("source_id").is_in(list(refused)))
        every = pl.concat([stays, new]).unique().sort(pl.all())
        marks = set(self.manifest.forgotten)
        ids = pl.concat([every["run_id"], every["session"]]).unique().to_list() if marks else []
        gone = [name for name in ids if forgotten_mark(name) in marks]
        return Names(
            before=before, after=every.filter(~(pl.col("run_id").is_in(gone) | pl.col("session").is_in(gone)))
        )

    def _rows(self, staged: Any) -> int:
        from pyspark.sql import functions as f

        with told("reading sources"):
            row = staged.filter("name = 'records'").agg(f.sum("rows")).first()
        return int(row[0] or 0)

    def _touched(self, staged: Any, placing: Placing, names: Names, replaced: frozenset[str]) -> set[int]:
        """Return the buckets to write: of new rows, of replaced sources, of runs that have another name now."""
        from agentlens.distribute.summary import fetched

        records = staged.filter("name = 'records'").select(*pieces.PIECES)
        found = records.mapInArrow(partial(buckets_of, placing=placing), spark_schema(BUCKET)).distinct()
        touched = set(fetched(found, BUCKET)["bucket"].to_list())
        if placing.buckets != self.manifest.bucket_count:
            return touched | set(range(placing.buckets))
        moved = names.moved()
        touched |= {bucket_of(run, placing.buckets) for run in moved["run"].to_list()}
        touched |= set(placing.places(moved["run_id"])["bucket"].to_list())
        of_replaced = {
            n for n, entry in self.manifest.buckets.items() if not replaced.isdisjoint(entry.sources)
        }
        return touched | of_replaced

    def _spread(
        self,
        staged: Any,
        lake: SparkLake,
        placing: Placing,
        touched: set[int],
        replaced: frozenset[str],
        refused: set[str],
    ) -> Any:
        """Return all records of the touched buckets, new and old, as pieces by bucket."""
        schema = spark_schema(pieces.PIECES)
        records = staged.filter("name = 'records'").select(*pieces.PIECES)
        new = records.mapInArrow(partial(spread, placing=placing, refused=frozenset(refused)), schema)
        same = placing.buckets == self.manifest.bucket_count
        entries = [
            entry.records for n, entry in sorted(self.manifest.buckets.items()) if not same or n in touched
        ]
        if not entries:
            return new
        old = lake.scan(entries, placing.schema)
        return new.unionByName(
            old.mapInArrow(partial(spread_rows, placing=placing, replaced=replaced), schema)
        )

    def _tables(
        self,
        staged: Any,
        lake: SparkLake,
        replaced: frozenset[str],
        refused: set[str],
        names: Names,
        writer: Writer,
    ) -> dict[str, FileEntry]:
        """Write the tables of one file that have changed, but for what was set aside."""
        from pyspark.sql import functions as f

        tables = dict(self.manifest.tables)
        for name, schema in table_schemas().items():
            fresh = placed(staged, name, schema, self.manifest.forgotten)
            fresh = fresh.filter(~f.col("source_id").isin(sorted(refused)))
            self._table(tables, name, fresh, lake, replaced, writer)
        if not names.after.equals(names.before):
            tables.pop("sessions", None)
            entry = writer.table("sessions", writer.frame(names.after), list(SESSIONS))
            if entry is not None:
                tables["sessions"] = entry
        return tables

    def _table(
        self,
        tables: dict[str, FileEntry],
        name: str,
        fresh: Any,
        lake: SparkLake,
        replaced: frozenset[str],
        writer: Writer,
    ) -> None:
        """Write one table: its old rows but those of replaced sources, and new ones."""
        from pyspark.sql import functions as f

        place = {"_place": f.monotonically_increasing_id(), "_row": f.lit(0).cast("bigint")}
        fresh = fresh if "_place" in fresh.columns else fresh.withColumns(place)
        old = lake.table(name, {**table_schemas(), "quarantine": QUARANTINE}[name]).withColumns(place)
        stays = old.filter(~f.col("source_id").isin(sorted(replaced)))
        entry = writer.table(name, stays.unionByName(fresh), ["source_id", "_place", "_row"])
        tables.pop(name, None)
        if entry is not None:
            tables[name] = entry

    def _lost(
        self, entries: list[SourceEntry], buckets: dict[int, BucketEntry], tables: dict[str, FileEntry]
    ) -> set[str]:
        """Return the ids of sources that gave nothing but rows of deleted runs: no name of them is left behind."""
        if not self.manifest.forgotten:
            return set()
        from agentlens.distribute.summary import fetched

        live = {source for bucket in buckets.values() for source in bucket.sources}
        written = SparkLake(
            session=self.session, files=self.files, manifest=replace(self.manifest, tables=tables)
        )
        for name in OF_SOURCES:
            found = written.table(name, table_schemas()[name]).select("source_id").distinct()
            live |= set(fetched(found, {"source_id": pl.String()})["source_id"].to_list())
        return {one.id for one in lost(entries, live, None)}


def _alone(reads: dict[str, PieceRead]) -> Iterator[str]:
    """Say which sources were read without the files beside them that their reader would have looked into."""
    looks = {found.name for found in FORMATS if found.companions is not None}
    named = sorted({read.format for read in reads.values()} & looks)
    if named:
        yield (
            f"files beside a source were not looked into, which {', '.join(named)} may need for names of agents and "
            "outcomes; they are on paths of scheme file:"
        )


def _path(text: str) -> str:
    """Return a path without the scheme ``file``."""
    rest = text.removeprefix("file:")
    return text if rest == text else "/" + rest.lstrip("/")


def _prefixes(files: Sequence[Listed]) -> tuple[tuple[str, str], ...]:
    """Return address and name of what files have in common before their own part, each pair once."""
    found = set()
    for one in files:
        same = 0
        for mine, theirs in zip(reversed(one.uri), reversed(one.name), strict=False):
            if mine != theirs:
                break
            same += 1
        found.add((one.uri[: len(one.uri) - same], one.name[: len(one.name) - same]))
    return tuple(sorted(found))


def _marks(session: Any, lake: str) -> list[str]:
    """Return the digests of what was deleted from another lake."""
    data = Files(session, lake).read(MANIFEST)
    if data is None:
        raise LakeError(f"{lake}: no lake here; accepted: the folder of a lake")
    return forgotten_in(data, f"{lake}/{MANIFEST}")


def refuse_foreign(files: Files, into: str) -> None:
    """Raise `LakeError` where a folder without a manifest holds more than a first ingest that was killed leaves."""
    there = list(files.sizes())
    mine = tuple(f"{name}/" for name in FOLDERS)
    if any(not path.startswith((ASIDE, *mine)) for path in there):
        raise LakeError(f"{into}: holds files and is no lake; accepted: a lake, or a new or empty folder")
    if cut_off(there, killed=any(path.startswith(ASIDE) for path in there)):
        raise LakeError(CUT.format(lake=into))


def ingested(
    session: Any,
    sources: Sequence[str],
    into: str,
    settings: Settings,
    key_file: str | None,
    forgotten: str | None = None,
) -> IngestReport:
    """Read sources into a lake; see `agentlens.distribute.spark.ingest`."""
    if not sources:
        raise InputError("no source is given; accepted: files, folders or patterns")
    if "-" in sources:
        raise InputError(
            "-: standard input has no path that workers could read; accepted: files, folders, patterns"
        )
    own = private(session)
    files = Files(own, into)
    with ExitStack() as held:
        if files.scheme == "file":
            held.enter_context(opened(Path(_path(files.root))))  # the same lock as on one machine
        before = files.read(MANIFEST)
        manifest = Manifest() if before is None else Manifest.from_json(before, f"{into}/{MANIFEST}")
        if before is None and files.scheme != "file":
            refuse_foreign(files, into)
        if forgotten is not None:
            manifest = heir(manifest, _marks(own, forgotten), into)
        if before is not None:
            own = SparkLake.open(own, into).session  # checks that it is whole
        work = Ingest(
            session=own,
            files=files,
            manifest=manifest,
            before=before,
            settings=settings,
            key_file=key_file,
            local=is_local(own, sources),
        )
        return work.run(sources)
