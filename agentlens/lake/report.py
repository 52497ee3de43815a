"""What an ingest did: one line a source, and the sums."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import polars as pl

if TYPE_CHECKING:
    from agentlens.readers.base import Fault

SOURCES = pl.Schema(
    {
        "source": pl.String(),
        "status": pl.String(),
        "format": pl.String(),
        "bytes": pl.Int64(),
        "records": pl.Int64(),
        "receipts": pl.Int64(),
        "branches": pl.Int64(),
        "quarantined": pl.Int64(),
        "reason": pl.String(),
    }
)


@dataclass(frozen=True, kw_only=True)
class SourceReport:
    """What became of one source.

    ``status``: ``new``, ``changed``, ``reread`` (same bytes, other reader, tables or key; ``reason`` says
    which), ``unchanged``, or ``refused`` (``reason`` says why; what was read of it before stays).
    A record set aside gives the ``reason`` too where nothing else does. ``found``: it was found in a folder
    or by a pattern, not named.
    ``faults``: the first records that were set aside; ``quarantined``: how many in all.
    """

    name: str
    status: str
    format: str = ""
    bytes: int = 0
    records: int = 0
    receipts: int = 0
    branches: int = 0
    quarantined: int = 0
    faults: tuple[Fault, ...] = ()
    repaired: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    reason: str = ""
    found: bool = False


@dataclass(frozen=True, kw_only=True)
class IngestReport:
    """Result of `ingest`.

    ``dropped``: records that said what another had said; ``folded``: records that became part of another's
    event (the end of a call); ``elsewhere``: records left out because a better export of their run tells
    them. ``events`` and ``runs`` count the whole lake; with ``dry_run`` they are those
    it has now. ``notes``: what else should be known, a sentence each.
    """

    sources: tuple[SourceReport, ...]
    events: int = 0
    runs: int = 0
    dropped: int = 0
    folded: int = 0
    elsewhere: int = 0
    changed: bool = False
    dry_run: bool = False
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """Show what a notebook displays: sources by format and status, then what the lake holds."""
        from html import escape

        counts: dict[tuple[str, str], list[int]] = {}
        for source in self.sources:
            row = counts.setdefault((source.format or "–", str(source.status)), [0, 0, 0])
            row[0] += 1
            row[1] += source.records
            row[2] += source.quarantined
        body = "".join(
            f"<tr><td>{escape(reader)}</td><td>{escape(status)}</td>"
            + "".join(f"<td>{number:,}</td>" for number in row)
            + "</tr>"
            for (reader, status), row in sorted(counts.items())
        )
        heads = "".join(
            f"<th>{name}</th>" for name in ("format", "status", "sources", "records", "set aside")
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        lake = f"<p>The lake holds {self.runs:,} runs, {self.events:,} events.</p>"
        return f"<table><tr>{heads}</tr>{body}</table>{lake}{notes}"

    def count(self, *status: str) -> int:
        """Return how many sources have one of these statuses."""
        return sum(source.status in status for source in self.sources)

    @property
    def records(self) -> int:
        """Records read by this ingest."""
        return sum(source.records for source in self.sources)

    @property
    def quarantined(self) -> int:
        """Records that could not be read."""
        return sum(source.quarantined for source in self.sources)

    @property
    def nothing_read(self) -> bool:
        """Whether no source gave anything: all refused, or every record set aside; without reading, all refused."""
        if self.dry_run:
            return all(source.status == "refused" for source in self.sources)
        return not any(
            source.status == "unchanged" or source.records or source.receipts or source.branches
            for source in self.sources
        )

    def frame(self) -> pl.DataFrame:
        """Return one row a source (schema `SOURCES`), in the order given."""
        rows = [
            [s.name, s.status, s.format, s.bytes, s.records, s.receipts, s.branches, s.quarantined, s.reason]
            for s in self.sources
        ]
        return pl.DataFrame(rows, schema=SOURCES, orient="row")


@dataclass(frozen=True, kw_only=True)
class Step:
    """How far an ingest is. ``stage``: ``reading``, ``writing`` or ``done``."""

    stage: str
    files_done: int = 0
    files: int = 0
    bytes_done: int = 0
    bytes: int = 0
    events: int = 0
    quarantined: int = 0


class Progress(Protocol):
    """Who wants to know how far an ingest is; called from the thread that ingests."""

    def __call__(self, step: Step) -> None:
        """Take note of a step."""
