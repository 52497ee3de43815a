"""Writing the next generation: the buckets that a change touches, whole, beside the old ones."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from agentlens.lake.forgotten import OWN, honoured, unnamed
from agentlens.lake.fresh import Fresh
from agentlens.lake.gather import gathered
from agentlens.lake.manifest import BucketEntry, FileEntry, Manifest
from agentlens.lake.names import SESSIONS, Names
from agentlens.lake.reading import table_schemas
from agentlens.lake.store import aligned, bucket_of, forgotten_mark, part, put_aside, scan, write
from agentlens.model.event import CONTENT
from agentlens.model.record import RECORDS
from agentlens.normalise.assemble import assembled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QUARANTINE = pl.Schema(
    {
        "source_id": pl.String(),
        "source": pl.String(),
        "unit": pl.String(),
        "position": pl.Int64(),
        "reason": pl.String(),
    }
)
"""One row a record that was set aside (the first thousand of a source)."""

BUCKET_ROWS = 100_000
"""Records behind one bucket of a new lake, so that a bucket is assembled in bounded memory."""
FEWEST, MOST = 4, 4096
OUTGROWN = 4
"""A lake gets more buckets when it should have so many times as many."""
SIDE_BY_SIDE = 2
"""Buckets assembled at once, which takes two thirds of the time: many of the steps use one core each."""

IN_SOURCE = ("source_id", "position", "position_in", "identity", "span_id", "kind")
"""Order of the records of a bucket."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """What is different: parts with new rows, and the ids of sources whose old rows go.

    ``dropped_runs``: runs to delete. ``dropped_operations``: handoffs to delete.
    ``faults``: new rows of the quarantine table. ``aside``: a folder of this change alone, on the lake's disk.
    """

    aside: Path
    parts: dict[str, list[Path]] = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()
    dropped_runs: frozenset[str] = frozenset()
    dropped_operations: frozenset[str] = frozenset()
    faults: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=QUARANTINE))


def rewrite(
    lake: Path,
    manifest: Manifest,
    change: Change,
    told: Callable[[int, int], None] = lambda _done, _all: None,
) -> Manifest:
    """Write every file that the change touches, and return the manifest that names them.

    Nothing of the lake changes before that manifest is saved. ``told`` is called with the number of buckets
    written and to write.
    """
    work = _Rewrite(lake, manifest, change)
    return work.run(told)


class _Rewrite:
    """The state of one rewriting."""

    def __init__(self, lake: Path, manifest: Manifest, change: Change) -> None:
        self.lake = lake
        self.old = manifest
        self.change = change
        self.kept = manifest.buckets
        self.count = manifest.bucket_count
        self.generation = manifest.generation + 1
        self.marks = frozenset(manifest.forgotten)
        self.schema = pl.Schema({**RECORDS, **(CONTENT if manifest.content else {})})
        self.fresh = Fresh(list(change.parts.get("records", [])), self.schema, change.aside / "buckets")
        self.names = Names(before=self._sessions(), after=self._new_sessions())

    def run(self, told: Callable[[int, int], None]) -> Manifest:
        self.count = buckets_for(self.old, self.fresh.rows())
        moved = self._take_moved() if self.count == self.old.bucket_count else self._take_all()
        places = self.names.places(self.fresh.names()["run_id"], self.count, self.old.forgotten)
        touched = sorted(self._touched(places, moved))
        self.fresh.spread(places, self.count)
        buckets = dict(self.kept)
        with ThreadPoolExecutor(self._at_once(touched, places)) as pool:
            entries = pool.map(lambda number: self._bucket(number, moved), touched)
            for done, (number, entry) in enumerate(zip(touched, entries, strict=True)):
                told(done, len(touched))
                if entry is None:
                    buckets.pop(number, None)
                else:
                    buckets[number] = entry
        told(len(touched), len(touched))
        made = replace(
            self.old,
            generation=self.generation,
            bucket_count=self.count,
            buckets=buckets,
            tables=self._tables(),
        )
        gone = sorted(set(self.old.files()) - set(made.files()))
        return replace(made, retired=gone)

    # -- sessions

    def _sessions(self) -> pl.DataFrame:
        entry = self.old.tables.get("sessions")
        return scan(self.lake, [entry] if entry else [], SESSIONS).collect()

    def _new_sessions(self) -> pl.DataFrame:
        kept = self._sessions().filter(~pl.col("source_id").is_in(list(self.change.replaced)))
        found = self.fresh.names().filter(pl.col("session").is_not_null()).select(SESSIONS.names())
        every = pl.concat([kept, found]).unique().sort(pl.all())
        names = pl.concat([every["run_id"], every["session"]]).unique().to_list()
        marks = set(self.old.forgotten)
        gone = [name for name in names if name in self.change.dropped_runs or forgotten_mark(name) in marks]
        return every.filter(~(pl.col("run_id").is_in(gone) | pl.col("session").is_in(gone)))

    # -- rows that change their bucket

    def _take_all(self) -> pl.DataFrame:
        """Put every row of the lake among the new parts: all buckets are made anew."""
        for number, entry in sorted(self.old.buckets.items()):
            path = self.change.aside / f"records-all-{number:06}.arrow"
            rows = self._stays(entry).collect()
            self.fresh.add(put_aside(rows, path))
        self.kept = {}
        return self.names.moved()

    def _take_moved(self) -> pl.DataFrame:
        """Put rows of runs that have another name now among the new parts."""
        moved = self.names.moved()
        homes = sorted({bucket_of(run, self.old.bucket_count) for run in moved["run"].to_list()})
        for number in homes:
            entry = self.old.buckets.get(number)
            if entry is not None:
                rows = self._stays(entry).join(moved.lazy(), on="run_id", how="semi").collect()
                path = self.change.aside / f"records-moved-{number:06}.arrow"
                self.fresh.add(put_aside(rows, path))
        return moved

    def _stays(self, entry: BucketEntry) -> pl.LazyFrame:
        """Return the old rows of a bucket but those of replaced sources and deleted runs."""
        rows = scan(self.lake, [entry.records], self.schema)
        rows = rows.filter(~pl.col("source_id").is_in(list(self.change.replaced)))
        if self.change.dropped_runs:
            rows = rows.filter(~self._is_dropped(rows))
        return rows

    def _is_dropped(self, rows: pl.LazyFrame) -> pl.Expr:
        gone = list(self.change.dropped_runs)
        ids = rows.select(pl.col("run_id").unique()).collect()["run_id"]
        named = Names(before=self.names.before, after=self.names.before)
        places = named.places(ids, self.old.bucket_count, ())
        read = places.filter(pl.col("run").is_in(gone) | pl.col("run_id").is_in(gone))["run_id"].to_list()
        return pl.col("run_id").is_in(read)

    def _touched(self, places: pl.DataFrame, moved: pl.DataFrame) -> set[int]:
        touched = set(places["bucket"].to_list())
        touched |= {
            bucket_of(run, self.count) for run in [*moved["run"].to_list(), *self.change.dropped_runs]
        }
        for number, entry in self.kept.items():
            if not self.change.replaced.isdisjoint(entry.sources) or self._names_dropped(entry):
                touched.add(number)
        return touched

    def _names_dropped(self, entry: BucketEntry) -> bool:
        """Say whether a run of this bucket names one that is being deleted as its parent."""
        if not self.change.dropped_runs:
            return False
        rows = scan(self.lake, [entry.records], self.schema)
        named = pl.col("parent_run_id").is_in(list(self.change.dropped_runs)).any()
        return bool(rows.select(named).collect().item())

    # -- bucket by bucket

    def _at_once(self, touched: list[int], places: pl.DataFrame) -> int:
        """Say how many buckets may be in memory: one, where any is larger than buckets are meant to be."""
        new = self.fresh.names().join(places.select("run_id", "bucket"), on="run_id", how="inner")
        rows = Counter(dict(new.group_by("bucket").agg(pl.col("rows").sum()).iter_rows()))
        rows.update({number: self.kept[number].records.rows for number in touched if number in self.kept})
        return SIDE_BY_SIDE if max(rows.values(), default=0) <= SIDE_BY_SIDE * BUCKET_ROWS else 1

    def _bucket(self, number: int, moved: pl.DataFrame) -> BucketEntry | None:
        """Write both files of one bucket; None where no row is left."""
        frames = self.fresh.of(number)
        old = self.kept.get(number)
        if old is not None:
            stays = self._stays(old)
            if not moved.is_empty():
                stays = stays.filter(~pl.col("run_id").is_in(moved["run_id"].to_list(), nulls_equal=True))
            frames.append(stays)
        if not frames:
            return None
        rows = gathered(frames, self.schema, IN_SOURCE)
        if rows.is_empty():
            return None
        rows = self._unnamed(rows, "parent_run_id")
        name = f"bucket={number:04}/g{self.generation:06}.parquet"
        records = write(self.lake, f"records/{name}", rows)
        sources = rows.select(pl.col("source_id").unique().sort())["source_id"].to_list()
        handed = [rows]
        del rows
        made = assembled(handed.pop())  # nothing here holds on to what assembling is done with
        return BucketEntry(
            records=records,
            events=write(self.lake, f"events/{name}", made.events),
            runs=made.events.select(pl.col("run_id").n_unique()).item(),
            sources=sources,
            dropped=nonzero(made.counts, "dropped"),
            folded=nonzero(made.counts, "folded"),
            elsewhere=nonzero(made.elsewhere, "elsewhere"),
            disputed=nonzero(made.disputed, "disputed"),
        )

    def _unnamed(self, rows: pl.DataFrame, column: str) -> pl.DataFrame:
        return unnamed(rows, column, self.change.dropped_runs, self.marks)

    # -- tables of one file

    def _tables(self) -> dict[str, FileEntry]:
        tables = dict(self.old.tables)
        for name, schema in table_schemas().items():
            new = [part(path).collect() for path in self.change.parts.get(name, [])]
            self._table(tables, name, schema, new)
        self._table(tables, "quarantine", QUARANTINE, [self.change.faults])
        if not self.names.after.equals(self.names.before):
            self._put(tables, "sessions", self.names.after)
        return tables

    def _table(
        self, tables: dict[str, FileEntry], name: str, schema: pl.Schema, new: list[pl.DataFrame]
    ) -> None:
        entry = self.old.tables.get(name)
        new = [aligned(frame.lazy(), schema).collect() for frame in new if not frame.is_empty()]
        if entry is None and not new:
            return
        old = scan(self.lake, [entry] if entry else [], schema).collect()
        kept = old.filter(~pl.col("source_id").is_in(list(self.change.replaced)))
        for column in OWN.get(name, ()):
            gone = pl.col(column).is_in(list(self.change.dropped_runs))
            kept = kept.filter(~gone.fill_null(False))
        if name == "receipts" and self.change.dropped_operations:
            kept = kept.filter(~pl.col("operation_id").is_in(list(self.change.dropped_operations)))
        new = [honoured(frame, name, self.marks) for frame in new]
        made = _sorted(pl.concat([kept, *new]))
        if "parent_id" in schema:
            made = self._unnamed(made, "parent_id")
        if new or not made.equals(old):
            self._put(tables, name, made)

    def _put(self, tables: dict[str, FileEntry], name: str, frame: pl.DataFrame) -> None:
        if frame.is_empty():
            tables.pop(name, None)
        else:
            tables[name] = write(self.lake, f"{name}/g{self.generation:06}.parquet", frame)


def _sorted(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort by source; rows of one source keep the order of their file."""
    return frame.sort("source_id", maintain_order=True)


def buckets_for(old: Manifest, new_rows: int) -> int:
    """Choose the number of buckets: a new lake's by its rows, an old one's only when it has outgrown it."""
    rows = new_rows + sum(entry.records.rows for entry in old.buckets.values())
    wanted = FEWEST
    while wanted < MOST and wanted * BUCKET_ROWS < rows:
        wanted *= 2
    outgrown = wanted >= old.bucket_count * OUTGROWN
    return wanted if not old.buckets or outgrown else old.bucket_count


def nonzero(counts: pl.DataFrame, name: str) -> dict[str, int]:
    """Return a count by ``source_id``, where there is any."""
    return dict(Counter(dict(counts.filter(pl.col(name) > 0).select("source_id", name).iter_rows())))
