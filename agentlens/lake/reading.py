"""One piece of work: read some sources, normalise them, put their rows aside."""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from agentlens.errors import AgentlensError
from agentlens.lake.store import put_aside
from agentlens.model.branch import BRANCHES, branches_frame
from agentlens.model.raw import RawBranch, RawEvent, RawReceipt
from agentlens.model.receipt import RECEIPTS, receipts_frame
from agentlens.readers import registry
from agentlens.readers.base import Fault, Format, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from agentlens.model.native import Typed
    from agentlens.normalise.rows import Normaliser
    from agentlens.readers.source import Source

BATCH = 20_000
"""Events normalised at once."""
PART_ROWS = 60_000
"""Rows after which a part is closed, so that memory stays bounded whatever a source holds."""
FAULTS_KEPT = 1_000
"""Faults of one source that are kept one by one; all are counted."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A source, or a range of its lines. ``digest`` None: to be taken here; "": somebody else takes it.

    ``format``: read as this one, found in the module ``home`` where that is known; None: still to be recognised.
    """

    source: Source
    source_id: str
    digest: str | None = None
    format: str | None = None
    home: str = ""
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
    beside: str = ""
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

    @property
    def rows(self) -> int:
        """How many records, receipts and branches were read."""
        return self.records + self.receipts + self.branches

    def add(self, other: PieceRead) -> None:
        """Take in another piece of the same source."""
        self.format, self.format_version = other.format or self.format, other.format_version
        self.digest = other.digest or self.digest
        self.beside = other.beside or self.beside
        for name in ("bytes", "records", "receipts", "branches", "quarantined"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.faults = (self.faults + other.faults)[:FAULTS_KEPT]
        self.repaired += other.repaired
        self.unknown += other.unknown
        self.first_at = _bound(min, self.first_at, other.first_at)
        self.last_at = _bound(max, self.last_at, other.last_at)
        self.refused = self.refused or other.refused


@dataclass(kw_only=True)
class TaskRead:
    """What one task gave: its pieces, and the files with their rows."""

    number: int
    pieces: list[PieceRead]
    parts: dict[str, list[Path]]


@dataclass
class Gathered:
    """Events of several sources on their way to record frames, so that small files cost no frame each."""

    normaliser: Normaliser
    sink: Callable[[pl.DataFrame], None]
    reader: Format | None = None
    rows: list[RawEvent] = field(default_factory=list)
    shares: list[tuple[Piece, int]] = field(default_factory=list)

    def add(self, piece: Piece, reader: Format, rows: list[RawEvent]) -> None:
        """Take in events of one source; whatever is full, or of another reader, is passed on first."""
        if self.rows and (reader is not self.reader or len(self.rows) + len(rows) > BATCH):
            self.flush()
        self.reader = reader
        self.rows += rows
        self.shares.append((piece, len(rows)))

    def flush(self) -> None:
        """Normalise what is here and pass it on."""
        if not self.rows or self.reader is None:
            return
        frame = self.normaliser.frame(
            self.rows, source="", source_id="", reader=self.reader.name, reader_rank=self.reader.rank
        )
        self.sink(frame.with_columns(self._names(), self._ids()))
        self.rows, self.shares = [], []

    def _names(self) -> pl.Expr:
        return (self._repeated([piece.source.name for piece, _ in self.shares]) + pl.col("source")).alias(
            "source"
        )

    def _ids(self) -> pl.Expr:
        return self._repeated([piece.source_id for piece, _ in self.shares]).alias("source_id")

    def _repeated(self, values: list[str]) -> pl.Expr:
        if len(values) == 1:
            return pl.lit(values[0])
        counts = pl.Series([count for _, count in self.shares], dtype=pl.Int64)
        return pl.lit(pl.DataFrame({"v": values}).select(pl.col("v").repeat_by(counts).explode())["v"])


@dataclass
class Native:
    """Receipts and branch receipts of one source; ``as_written``: see `receipts_frame`."""

    as_written: bool = False
    receipts: list[RawReceipt] = field(default_factory=list)
    branches: list[RawBranch] = field(default_factory=list)

    def typed(self, piece: Piece, report: Report) -> Iterator[tuple[str, pl.DataFrame]]:
        """Yield the tables that have rows, by name, with ``source_id``; what does not fit is reported."""
        if self.receipts:
            typed = receipts_frame(self.receipts, source=piece.source.name, as_written=self.as_written)
            yield "receipts", _taken(typed, piece, report)
        if self.branches:
            yield "branches", _taken(branches_frame(self.branches, source=piece.source.name), piece, report)


def _taken(typed: Typed, piece: Piece, report: Report) -> pl.DataFrame:
    for line, reason in typed.faults:
        report.quarantine(line, reason)
    report.unknown.update(typed.unknown)
    report.repaired.update(typed.warned)
    return typed.frame.with_columns(source_id=pl.lit(piece.source_id))


def batches(piece: Piece, found: Format, report: Report, native: Native) -> Iterator[list[RawEvent]]:
    """Yield the events of a source in lists of at most `BATCH`; receipts and branches go to ``native``."""
    events: list[RawEvent] = []
    for record in registry.read(piece.source, found, report):
        if type(record) is RawEvent:
            events.append(record)
            if len(events) >= BATCH:
                yield events
                events = []
        elif type(record) is RawReceipt:
            native.receipts.append(record)
        elif type(record) is RawBranch:
            native.branches.append(record)
    if events:
        yield events


def format_of(piece: Piece) -> Format:
    """Return the format to read a piece as: as told, through a mapping, or recognised."""
    if piece.sql is not None:
        from agentlens.readers.sql import mapped

        return mapped(piece.sql)
    if piece.format is not None:
        return registry.named(piece.format, piece.home)
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
            self.paths.append(put_aside(pl.concat(self.frames), path))
            self.frames, self.rows = [], 0


def perform(task: Task, normaliser: Normaliser) -> TaskRead:
    """Read every piece of a task; what cannot be read is said in its `PieceRead`, never raised."""
    tables = {name: _Parts(task, name) for name in ("records", "receipts", "branches")}
    gathered = Gathered(normaliser, tables["records"].add)
    with _no_collector():
        pieces = [_piece(piece, gathered, tables) for piece in task.pieces]
        gathered.flush()
    for table in tables.values():
        table.close()
    return TaskRead(
        number=task.number, pieces=pieces, parts={name: table.paths for name, table in tables.items()}
    )


@contextmanager
def _no_collector() -> Iterator[None]:
    """Look for no circles of objects: records hold none, and looking for them costs a tenth of all the reading."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _piece(piece: Piece, gathered: Gathered, tables: dict[str, _Parts]) -> PieceRead:
    read = PieceRead(source_id=piece.source_id)
    report = Report()
    native = Native()
    try:
        read.bytes = piece.source.size()
        read.digest = piece.source.digest() if piece.digest is None else piece.digest
        found = format_of(piece)
        read.format, read.format_version = found.name, found.version
        read.beside = registry.beside(piece.source, found)
        for events in batches(piece, found, report, native):
            read.records += len(events)
            _span(read, events)
            gathered.add(piece, found, events)
        for name, frame in native.typed(piece, report):
            tables[name].add(frame)
            setattr(read, name, frame.height)
    except AgentlensError as error:
        read.refused = str(error)
    read.quarantined, read.faults = len(report.faults), report.faults[:FAULTS_KEPT]
    read.repaired, read.unknown = report.repaired, report.unknown
    return read


def _span(read: PieceRead, events: list[RawEvent]) -> None:
    starts = [event.at for event in events if type(event.at) is int]
    ends = [event.ended_at for event in events if type(event.ended_at) is int]
    for times in (starts, ends):
        if times:
            read.first_at = _bound(min, read.first_at, min(times))
            read.last_at = _bound(max, read.last_at, max(times))


def _bound(choose: Callable[[int, int], int], known: int | None, found: int | None) -> int | None:
    return found if known is None else known if found is None else choose(known, found)


def table_schemas() -> dict[str, pl.Schema]:
    """Return the stored schemas of the native tables: those of the model, with ``source_id``."""
    return {
        "receipts": pl.Schema({**RECEIPTS, "source_id": pl.String()}),
        "branches": pl.Schema({**BRANCHES, "source_id": pl.String()}),
    }
