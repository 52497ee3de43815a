"""A lake opened for reading: the tables of one generation, as lazy frames."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import polars as pl

from agentlens.errors import LakeError
from agentlens.lake import manifest as manifests
from agentlens.lake.folder import CUT, LABELS, is_cut
from agentlens.lake.names import SESSIONS
from agentlens.lake.reading import table_schemas
from agentlens.lake.rewrite import QUARANTINE
from agentlens.lake.store import scan
from agentlens.model.event import CONTENT, EVENTS
from agentlens.model.record import RECORDS
from agentlens.model.select import Selection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from agentlens.lake.forget import ForgetReport
    from agentlens.lake.manifest import FileEntry, Manifest

SOURCES = pl.Schema(
    {
        "source_id": pl.String(),
        "source": pl.String(),
        "digest": pl.String(),
        "bytes": pl.Int64(),
        "reader": pl.String(),
        "reader_version": pl.Int64(),
        "normaliser_version": pl.String(),
        "key_id": pl.String(),
        "records": pl.Int64(),
        "receipts": pl.Int64(),
        "branches": pl.Int64(),
        "quarantined": pl.Int64(),
        "dropped": pl.Int64(),
        "folded": pl.Int64(),
        "elsewhere": pl.Int64(),
        "first_at": pl.Datetime("us", "UTC"),
        "last_at": pl.Datetime("us", "UTC"),
    }
)
"""One row a source, sorted by name."""


SEVERAL = 4
"""Buckets with so many times the rows that a part should have are read last."""


@dataclass(frozen=True)
class Lake:
    """One generation of a lake. It stays readable while the next one is written.

    Every frame is sorted: events by ``run_id, agent, seq`` inside a bucket, buckets one after the other.
    """

    path: Path
    manifest: Manifest

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a lake at its newest generation.

        Raises
        ------
        LakeError
            There is none, its schema version is another, or a file that belongs to it is missing or cut off.
        """
        lake = Path(path)
        manifest = manifests.load(lake)
        if manifest is None:
            if is_cut(lake):
                raise LakeError(CUT.format(lake=lake))
            raise LakeError(f"{lake}: no lake here; accepted: a folder that agentlens ingest wrote")
        manifests.check_files(lake, manifest)
        return cls(lake, manifest)

    @property
    def event_schema(self) -> pl.Schema:
        """`EVENTS`, with the `CONTENT` columns where some source was ingested with its content."""
        return pl.Schema({**EVENTS, **(CONTENT if self.manifest.content else {})})

    @property
    def labels_folder(self) -> Path:
        """Where labels of this lake are kept; ingest leaves it alone."""
        return self.path / LABELS

    def events(
        self,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        workflow: str | None = None,
        agent: str | None = None,
    ) -> pl.LazyFrame:
        """Return all events, or those selected (see `Selection`)."""
        chosen = Selection.parse(since, until, workflow, agent)
        entries = [bucket.events for _, bucket in sorted(self.manifest.buckets.items())]
        return chosen.apply(scan(self.path, entries, self.event_schema))

    def buckets(
        self,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        workflow: str | None = None,
        agent: str | None = None,
    ) -> Iterator[pl.LazyFrame]:
        """Yield the events bucket by bucket; each holds whole runs."""
        chosen = Selection.parse(since, until, workflow, agent)
        for _, bucket in sorted(self.manifest.buckets.items()):
            yield chosen.apply(scan(self.path, [bucket.events], self.event_schema))

    def parts(self, rows: int) -> Iterator[tuple[int, pl.LazyFrame]]:
        """Yield the events in parts of whole runs, each with its number of rows.

        A part is as many buckets, one after the other, as hold ``rows`` events together: small ones cost a query
        each. It is larger only where one bucket alone is; parts that are several times as large come last, because what
        they take of the memory is scattered when it is free again, and slows what comes after.
        """
        entries: list[FileEntry] = []
        numbered = self.manifest.buckets.items()
        huge = SEVERAL * rows
        for _, bucket in sorted(numbered, key=lambda one: (one[1].events.rows > huge, one[0])):
            held = sum(entry.rows for entry in entries)
            if entries and held + bucket.events.rows > rows:
                yield held, scan(self.path, entries, self.event_schema)
                entries = []
            entries.append(bucket.events)
        if entries:
            yield sum(entry.rows for entry in entries), scan(self.path, entries, self.event_schema)

    def records(self) -> pl.LazyFrame:
        """Return what each source said, before it was merged (schema `RECORDS`)."""
        schema = pl.Schema({**RECORDS, **(CONTENT if self.manifest.content else {})})
        entries = [bucket.records for _, bucket in sorted(self.manifest.buckets.items())]
        return scan(self.path, entries, schema)

    def receipts(self) -> pl.LazyFrame:
        """Return native handoff receipts (schema `agentlens.model.receipt.RECEIPTS`)."""
        return self._table("receipts").drop("source_id")

    def branches(self) -> pl.LazyFrame:
        """Return native branch receipts (schema `agentlens.model.branch.BRANCHES`)."""
        return self._table("branches").drop("source_id")

    def quarantine(self) -> pl.LazyFrame:
        """Return the records that were set aside: ``source_id, source, unit, position, reason``."""
        return self._table("quarantine")

    def sessions(self) -> pl.LazyFrame:
        """Return which sources name which session for which trace: ``run_id, session, source_id``."""
        return self._table("sessions")

    def sources(self) -> pl.DataFrame:
        """Return one row a source (schema `SOURCES`)."""
        buckets = self.manifest.buckets.values()
        rows = [
            [
                *(one.id, one.name, one.digest, one.size, one.reader, one.reader_version),
                *(
                    one.normaliser_version,
                    one.key_id,
                    one.records,
                    one.receipts,
                    one.branches,
                    one.quarantined,
                ),
                sum(bucket.dropped.get(one.id, 0) for bucket in buckets),
                sum(bucket.folded.get(one.id, 0) for bucket in buckets),
                sum(bucket.elsewhere.get(one.id, 0) for bucket in buckets),
                *(one.first_at, one.last_at),
            ]
            for _, one in sorted(self.manifest.sources.items())
        ]
        plain = {name: pl.Int64() if name.endswith("_at") else dtype for name, dtype in SOURCES.items()}
        return pl.DataFrame(rows, schema=plain, orient="row").cast(SOURCES)

    def sql(self, query: str) -> pl.DataFrame:
        """Run one SELECT over the views ``events, records, receipts, branches, quarantine, sources``.

        Read-only: nothing can be written, installed or attached, and no other file and no network is seen.

        Raises
        ------
        InputError
            The query is not one SELECT, or DuckDB refuses it.
        """
        from agentlens.lake.query import select

        manifest = self.manifest
        found = {
            "events": [bucket.events for _, bucket in sorted(manifest.buckets.items())],
            "records": [bucket.records for _, bucket in sorted(manifest.buckets.items())],
        }
        found |= {name: [entry] for name, entry in manifest.tables.items()}
        files = {
            name: [str(self._path(entry)) for entry in entries] for name, entries in found.items() if entries
        }
        empty = {"events": self.event_schema, "records": RECORDS, **_table_schemas()}
        frames = {name: pl.DataFrame(schema=schema) for name, schema in empty.items() if name not in files}
        return select(query, files, frames | {"sources": self.sources()})

    def forget(
        self, *, run_id: str | Sequence[str] | None = None, before: str | datetime | None = None
    ) -> ForgetReport:
        """Delete runs from this lake for good; see `agentlens.lake.forget`. Open the lake again afterwards."""
        from agentlens.lake.forget import forget

        return forget(self.path, run_id=run_id, before=before)

    def _path(self, entry: FileEntry) -> Path:
        return (self.path / entry.path).resolve()

    def _table(self, name: str) -> pl.LazyFrame:
        entry = self.manifest.tables.get(name)
        return scan(self.path, [entry] if entry else [], _table_schemas()[name])


def _table_schemas() -> dict[str, pl.Schema]:
    return {**table_schemas(), "quarantine": QUARANTINE, "sessions": SESSIONS}
