"""Reading sources in the workers: the tasks of a local ingest, their parts as pieces.

Two ways in: a task that names files of a path the worker sees, or the bytes of files that Spark brought. Both end
in `agentlens.lake.reading.perform`, which normalises; after it there is no content in what moves on.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
import polars as pl

from agentlens.distribute.pieces import PIECES, batches_of, packed
from agentlens.lake.names import SESSIONS
from agentlens.lake.plan import CHUNK, FILES_PER_TASK, source_id
from agentlens.lake.reading import Piece, PieceRead, Task, perform
from agentlens.lake.store import part
from agentlens.readers.base import Fault
from agentlens.readers.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from agentlens.distribute.keys import WorkerNormaliser
    from agentlens.normalise.rows import Normaliser

READS: Final = pl.Schema({"json": pl.String()})
PLACES: Final = 10_000
"""Places of the pieces of one task, more than it can have."""
TABLES: Final = ("records", "receipts", "branches")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the workers read. ``known``: address to (digest to pass over, name) of files that are in the lake."""

    normaliser: WorkerNormaliser
    format: str | None = None
    sql: str | None = None
    prefixes: tuple[tuple[str, str], ...] = ()
    known: dict[str, tuple[str, str]] = field(default_factory=dict)

    def name(self, uri: str) -> str:
        """Return the name a file is known by."""
        if uri in self.known:
            return self.known[uri][1]
        at, name = max(
            (pair for pair in self.prefixes if uri.startswith(pair[0])), key=lambda pair: len(pair[0])
        )
        return name + uri[len(at) :]


def task_text(task: Task) -> str:
    """Write a task as text, so that nothing but data is sent.

    Paths are whole: every worker stands in a folder of its own.
    """
    pieces = [
        {
            **{name: getattr(piece, name) for name in ("source_id", "digest", "format", "sql")},
            "source": {**asdict(piece.source), "path": str(piece.source.path.absolute())},
        }
        for piece in task.pieces
    ]
    return orjson.dumps({"number": task.number, "pieces": pieces}).decode()


def _task(text: str, folder: Path) -> Task:
    told = orjson.loads(text)
    pieces = tuple(
        Piece(**{**one, "source": Source(**{**one["source"], "path": Path(one["source"]["path"])})})
        for one in told["pieces"]
    )
    return Task(number=told["number"], pieces=pieces, folder=folder)


def read_tasks(batches: Iterable[pa.RecordBatch], *, how: Reading) -> Iterator[pa.RecordBatch]:
    """Perform tasks whose files this worker sees; one task a row, in the column ``task``."""
    normaliser = how.normaliser.made()
    for batch in batches:
        for text in batch.column("task").to_pylist():
            with tempfile.TemporaryDirectory(prefix="agentlens-") as folder:
                yield from _performed(_task(text, Path(folder)), normaliser)


def read_contents(batches: Iterable[pa.RecordBatch], *, how: Reading) -> Iterator[pa.RecordBatch]:
    """Read files that Spark brought: columns ``path``, ``content``, ``number`` (of the file, unique)."""
    normaliser = how.normaliser.made()
    rows: list[tuple[str, bytes, int]] = []
    for batch in batches:
        for uri, content, number in zip(
            *(batch.column(name) for name in ("path", "content", "number")), strict=True
        ):
            rows.append((uri.as_py(), content.as_py(), number.as_py()))
            if len(rows) >= FILES_PER_TASK or sum(len(row[1]) for row in rows) >= CHUNK:
                yield from _brought(rows, how, normaliser)
                rows = []
    if rows:
        yield from _brought(rows, how, normaliser)


def _brought(
    rows: list[tuple[str, bytes, int]], how: Reading, normaliser: Normaliser
) -> Iterator[pa.RecordBatch]:
    """Put bytes where readers find a file, and read them."""
    with tempfile.TemporaryDirectory(prefix="agentlens-") as folder:
        pieces: list[Piece] = []
        same: list[PieceRead] = []
        for at, (uri, content, _) in enumerate(rows):
            name = how.name(uri)
            path = Path(folder, str(at), name.rpartition("/")[2])
            path.parent.mkdir()
            path.write_bytes(content)
            piece = Piece(
                source=Source(name=name, path=path, piped=True),
                source_id=source_id(name),
                digest=None,
                format=how.format,
                sql=how.sql,
            )
            passed = how.known.get(uri, ("", ""))[0]
            if passed and piece.source.digest() == passed:
                same.append(PieceRead(source_id=piece.source_id, bytes=len(content), digest=passed))
            else:
                pieces.append(piece)
        yield from _performed(
            Task(number=rows[0][2], pieces=tuple(pieces), folder=Path(folder)), normaliser, same
        )


def _performed(
    task: Task, normaliser: Normaliser, same: Iterable[PieceRead] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield what a task gave: its parts as they are, the sessions in them, and one line a piece that was read."""
    done = perform(task, normaliser)
    place = task.number * PLACES
    sessions = [pl.DataFrame(schema=SESSIONS)]
    for name in TABLES:
        for at, path in enumerate(done.parts[name]):
            rows = int(part(path).select(pl.len()).collect().item())
            whole = {"name": name, "key": 0, "place": place + at, "rows": rows, "data": path.read_bytes()}
            yield from batches_of([whole])
            if name == "records":
                named = part(path).filter(pl.col("session").is_not_null()).select(list(SESSIONS))
                sessions.append(named.unique().collect())
    yield from batches_of(packed("sessions", pl.concat(sessions).unique().sort(pl.all()), place=place))
    lines = [orjson.dumps(asdict(read)).decode() for read in (*done.pieces, *same)]
    yield from batches_of(packed("reads", pl.DataFrame({"json": lines}, schema=READS), place=place))


def reads_of(lines: pl.DataFrame) -> dict[str, PieceRead]:
    """Put together what was read of each source, by its id."""
    found: dict[str, PieceRead] = {}
    for text in lines["json"].to_list():
        plain: dict[str, Any] = orjson.loads(text)
        for name in ("repaired", "unknown"):
            plain[name] = Counter(plain[name])
        plain["faults"] = [Fault(**fault) for fault in plain["faults"]]
        read = PieceRead(**plain)
        found.setdefault(read.source_id, PieceRead(source_id=read.source_id)).add(read)
    return {key: replace(read) for key, read in sorted(found.items())}


def schema() -> pl.Schema:
    """Return the schema of what the workers yield."""
    return PIECES
