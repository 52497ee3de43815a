"""One piece of work: read some sources, normalise them, put their rows aside."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import polars as pl

from agentlens.errors import AgentlensError
from agentlens.model.branch import BRANCHES, branches_frame
from agentlens.model.raw import RawBranch, RawEvent, RawReceipt
from agentlens.model.receipt import RECEIPTS, receipts_frame
from agentlens.readers import registry
from agentlens.readers.base import Fault, Format, Report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentlens.model.native import Typed
    from agentlens.normalise.rows import Normaliser
    from agentlens.readers.source import Source

BATCH = 20_000
"""Events normalised at once."""
PART_ROWS = 150_000
"""Rows after which a part is closed, so that memory stays bounded whatever a source holds."""
FAULTS_KEPT = 1_000
"""Faults of one source that are kept one by one; all are counted."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A source, or a range of its lines. ``digest`` None: to be taken here; "": somebody else takes it."""

    source: Source
    source_id: str
    digest: str | None = None
    format: str | None = None
    sql: str | None = None


@dataclass(frozen=True, kw_only=True)
class Task:
    """Pieces that one process reads in one go; parts go into ``folder`` under names with ``number``."""

    number: int
    pieces: tuple[Piece, ...]
    folder: Path


@dataclass(kw_only=True)
class PieceRead:
    """What one piece gave. ``refused`` is why it could not be read at all, "" where it could."""

    source_id: str
    bytes: int = 0
    digest: str = ""
    format: str = ""
    format_version: int = 0
    records: int = 0
    receipts: int = 0
    branches: int = 0
    quarantined: int = 0
    faults: list[Fault] = field(default_factory=list)
    repaired: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    first_at: int | None = None
    last_at: int | None = None
    refused: str = ""

    def add(self, other: PieceRead) -> None:
        """Take in another piece of the same source."""
        self.format, self.format_version = other.format or self.format, other.format_version
        self.digest = other.digest or self.digest
        for name in ("bytes", "records", "receipts", "branches", "quarantined"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.faults = (self.faults + other.faults)[:FAULTS_KEPT]
        self.repaired += other.repaired
        self.unknown += other.unknown
        self.first_at = min((t for t in (self.first_at, other.first_at) if t is not None), default=None)
        self.last_at = max((t for t in (self.last_at, other.last_at) if t is not None), default=None)
        self.refused = self.refused or other.refused


@dataclass(kw_only=True)
class TaskRead:
    """What one task gave: its pieces, and the files with their rows."""

    number: int
    pieces: list[PieceRead]
    parts: dict[str, list[Path]]


@dataclass
class Frames:
    """Rows of one piece as they come: records batch by batch, receipts and branches at the end."""

    normaliser: Normaliser
    piece: Piece
    found: Format
    report: Report
    receipts: list[RawReceipt] = field(default_factory=list)
    branches: list[RawBranch] = field(default_factory=list)

    def records(self) -> Iterator[pl.DataFrame]:
        """Yield record frames."""
        events = self._events()
        while batch := list(islice(events, BATCH)):
            yield self.normaliser.frame(
                batch,
                source=self.piece.source.name,
                source_id=self.piece.source_id,
                reader=self.found.name,
                reader_rank=self.found.rank,
            )

    def _events(self) -> Iterator[RawEvent]:
        for record in registry.read(self.piece.source, self.found, self.report):
            if isinstance(record, RawEvent):
                yield record
            elif isinstance(record, RawReceipt):
                self.receipts.append(record)
            else:
                self.branches.append(record)

    def typed(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return receipts and branches (with ``source_id``); call when `records` is exhausted."""
        return (
            self._take(receipts_frame(self.receipts, source=self.piece.source.name)),
            self._take(branches_frame(self.branches, source=self.piece.source.name)),
        )

    def _take(self, typed: Typed) -> pl.DataFrame:
        for line, reason in typed.faults:
            self.report.quarantine(line, reason)
        self.report.unknown.update(typed.unknown)
        self.report.repaired.update(typed.warned)
        return typed.frame.with_columns(source_id=pl.lit(self.piece.source_id))


def format_of(piece: Piece) -> Format:
    """Return the format to read a piece as: as told, through a mapping, or recognised."""
    if piece.sql is not None:
        from agentlens.readers.sql import mapped

        return mapped(piece.sql)
    if piece.format is not None:
        return registry.named(piece.format)
    return registry.sniff(piece.source.head())


@dataclass
class _Parts:
    """Collects frames of one table and closes a part when it is large."""

    task: Task
    table: str
    frames: list[pl.DataFrame] = field(default_factory=list)
    rows: int = 0
    paths: list[Path] = field(default_factory=list)

    def add(self, frame: pl.DataFrame) -> None:
        if frame.is_empty():
            return
        self.frames.append(frame)
        self.rows += frame.height
        if self.rows >= PART_ROWS:
            self.close()

    def close(self) -> None:
        if self.frames:
            path = self.task.folder / f"{self.table}-{self.task.number:06}-{len(self.paths):03}.arrow"
            pl.concat(self.frames).write_ipc(path, compression="uncompressed")
            self.paths.append(path)
            self.frames, self.rows = [], 0


def perform(task: Task, normaliser: Normaliser) -> TaskRead:
    """Read every piece of a task; what cannot be read is said in its `PieceRead`, never raised."""
    tables = {name: _Parts(task, name) for name in ("records", "receipts", "branches")}
    pieces = [_piece(piece, normaliser, tables) for piece in task.pieces]
    for table in tables.values():
        table.close()
    return TaskRead(
        number=task.number, pieces=pieces, parts={name: table.paths for name, table in tables.items()}
    )


def _piece(piece: Piece, normaliser: Normaliser, tables: dict[str, _Parts]) -> PieceRead:
    read = PieceRead(source_id=piece.source_id)
    report = Report()
    try:
        read.bytes = piece.source.size()
        read.digest = piece.source.digest() if piece.digest is None else piece.digest
        found = format_of(piece)
        read.format, read.format_version = found.name, found.version
        frames = Frames(normaliser, piece, found, report)
        for frame in frames.records():
            tables["records"].add(frame)
            read.records += frame.height
            _span(read, frame)
        receipts, branches = frames.typed()
        tables["receipts"].add(receipts)
        tables["branches"].add(branches)
        read.receipts, read.branches = receipts.height, branches.height
    except AgentlensError as error:
        read.refused = str(error)
    read.quarantined, read.faults = len(report.faults), report.faults[:FAULTS_KEPT]
    read.repaired, read.unknown = report.repaired, report.unknown
    return read


def _span(read: PieceRead, frame: pl.DataFrame) -> None:
    ends = frame.select(
        pl.col("at").min().to_physical().alias("low"),
        pl.max_horizontal("at", "ended_at").max().to_physical().alias("high"),
    ).row(0)
    read.first_at = min((t for t in (read.first_at, ends[0]) if t is not None), default=None)
    read.last_at = max((t for t in (read.last_at, ends[1]) if t is not None), default=None)


def table_schemas() -> dict[str, pl.Schema]:
    """Return the stored schemas of the native tables: those of the model, with ``source_id``."""
    return {
        "receipts": pl.Schema({**RECEIPTS, "source_id": pl.String()}),
        "branches": pl.Schema({**BRANCHES, "source_id": pl.String()}),
    }
