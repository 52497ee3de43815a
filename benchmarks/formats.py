"""Readers, one by one: MB/s and events/s beside the plain decode of the same bytes.

The files are the shipped fleet, and the folder of real exports beside the checkout where it exists. A file is read
again and again until a format has taken long enough to be timed; small files flatter neither side.
"""

from __future__ import annotations

import gzip
import io
import sqlite3
import time
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import polars as pl

from agentlens.errors import AgentlensError
from agentlens.readers import registry
from agentlens.readers.base import Report
from agentlens.readers.source import Source, expand
from benchmarks._measure import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (ROOT / "data", ROOT.parent / "shared" / "samples", ROOT.parent / "shared" / "traces")
LONG_ENOUGH_S = 0.5
LARGEST = 2_000_000


def run(scale: float = 1.0) -> Iterator[Row]:
    """Time every format that some file here is recognised as, for ``scale`` x half a second each."""
    found: dict[str, list[Path]] = defaultdict(list)
    for folder in FOLDERS:
        for source in expand([str(folder)]) if folder.is_dir() else ():
            try:
                found[registry.sniff(source.head()).name].append(Path(source.path))
            except AgentlensError:
                continue
    for name, paths in sorted(found.items()):
        chosen = _few(paths)
        size = sum(len(_plain(path)) for path in chosen)
        reading, events = _timed(lambda chosen=chosen, name=name: _read(chosen, name), scale)
        decoding, _ = _timed(lambda chosen=chosen: sum(_decode(path) for path in chosen), scale)
        yield Row(
            part=name,
            seconds=reading,
            events=events,
            bytes=size,
            ratios={"time / plain decode": reading / decoding},
        )


def _few(paths: list[Path]) -> list[Path]:
    """Return files in order of name until there are enough bytes."""
    chosen, size = [], 0
    for path in sorted(paths):
        if size < LARGEST:
            chosen.append(path)
            size += path.stat().st_size
    return chosen


def _timed(work: Callable[[], int], scale: float) -> tuple[float, int]:
    """Seconds a round, and what one round counted; at least one round after a warm one."""
    counted = work()
    rounds, began = 0, time.process_time()
    while rounds == 0 or time.process_time() - began < LONG_ENOUGH_S * scale:
        work()
        rounds += 1
    return max((time.process_time() - began) / rounds, 1e-9), counted


def _read(paths: list[Path], name: str) -> int:
    form = registry.named(name)
    return sum(1 for path in paths for _ in form.read(Source.of(path), Report()))


def _plain(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def _decode(path: Path) -> int:
    """What any reader must do at least: decode the container."""
    data = _plain(path)
    if data[:4] == b"PAR1":
        return pl.read_parquet(io.BytesIO(data)).height
    if data[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return sum(_json(archive.read(name)) for name in archive.namelist())
    if data[:6] == b"SQLite":
        with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as database:
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            return sum(len(database.execute(f'SELECT * FROM "{t}"').fetchall()) for (t,) in tables)  # noqa: S608
    return _json(data)


def _json(data: bytes) -> int:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    else:
        return 1
    count = 0
    for line in data.splitlines():
        try:
            orjson.loads(line)
            count += 1
        except orjson.JSONDecodeError:
            continue
    return count
