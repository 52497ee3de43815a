"""Readers, one by one: MB/s and events/s beside the plain decode of the same bytes, and how both grow.

The files are the shipped fleet, and the folder of real exports beside the checkout where it exists. 4x and 16x are a
file of so many times the lines, where a format is one of lines, else the same files so many times over.
"""

from __future__ import annotations

import gzip
import io
import sqlite3
import tempfile
import time
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

from agentlens.errors import AgentlensError
from agentlens.readers import registry
from agentlens.readers.base import Report
from agentlens.readers.source import Source, expand
from benchmarks._measure import GROWTH, Row, alone, growing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (ROOT / "data", ROOT.parent / "shared" / "samples", ROOT.parent / "shared" / "traces")
LONG_ENOUGH_S = 0.3
LARGEST = 500_000
"""Bytes of files after which there are enough for the smallest size."""


def run(scale: float = 1.0) -> Iterator[Row]:
    """Time every format that some file here is recognised as, for ``scale`` x 0.3 s or one round each."""
    found: dict[str, list[Path]] = defaultdict(list)
    for folder in FOLDERS:
        for source in expand([str(folder)]) if folder.is_dir() else ():
            try:
                found[registry.sniff(source.head()).name].append(Path(source.path))
            except AgentlensError:
                continue
    for name, paths in sorted(found.items()):
        few = _few(paths)
        with tempfile.TemporaryDirectory(prefix="agentlens-bench-") as folder:
            yield from growing(
                lambda times, least_s, name=name, paths=few, folder=folder: _at(
                    name, _grown(name, paths, times, Path(folder)), times, least_s
                ),
                LONG_ENOUGH_S * scale * GROWTH[-1],
            )


def _at(name: str, paths: dict[str, int], times: int, least_s: float) -> Row:
    reading = alone("benchmarks.formats:reading", name, paths, least_s)
    decoding = alone("benchmarks.formats:decoding", paths, least_s)
    seconds, cpu_s = reading.told["seconds"], reading.told["cpu_s"]
    return Row(
        part=name,
        growth=times,
        seconds=seconds,
        cpu_s=cpu_s,
        peak_bytes=reading.peak_bytes,
        events=reading.told["counted"],
        bytes=sum(len(_plain(Path(path))) * often for path, often in paths.items()),
        ratios={"processor time / plain decode": cpu_s / decoding.told["cpu_s"]},
        told={"files": sum(paths.values())},
    )


def _few(paths: list[Path]) -> list[Path]:
    """Return files in order of name until there are enough bytes."""
    chosen, size = [], 0
    for path in sorted(paths):
        if size < LARGEST:
            chosen.append(path)
            size += path.stat().st_size
    return chosen


def _grown(name: str, paths: list[Path], times: int, folder: Path) -> dict[str, int]:
    """Return files of so many times the size, and how often to read each: longer ones of lines, else as often."""
    lines = registry.named(name).lines
    grown: dict[str, int] = {}
    for number, path in enumerate(paths):
        if times == 1 or not lines or not Source.of(path).is_lines():
            grown[str(path)] = times
            continue
        longer = folder / f"{number:04}-{times}-{path.name.removesuffix('.gz')}"
        text = _plain(path)
        longer.write_bytes((text if text.endswith(b"\n") else text + b"\n") * times)
        grown[str(longer)] = 1
    return grown


def reading(name: str, paths: dict[str, int], least_s: float) -> Callable[[], dict[str, Any]]:
    """Read files as one format, nothing kept; says what one round took."""
    form = registry.named(name)
    return lambda: _timed(
        lambda: sum(1 for path in _each(paths) for _ in form.read(Source.of(path), Report())), least_s
    )


def decoding(paths: dict[str, int], least_s: float) -> Callable[[], dict[str, Any]]:
    """Decode the containers of the same files."""
    return lambda: _timed(lambda: sum(_decode(Path(path)) for path in _each(paths)), least_s)


def _each(paths: dict[str, int]) -> Iterator[str]:
    for path, often in paths.items():
        yield from [path] * often


def _timed(work: Callable[[], int], least_s: float) -> dict[str, Any]:
    """Seconds a round, and what one round counted; at least one round after a warm one."""
    counted = work()
    rounds, began, worked = 0, time.perf_counter(), time.process_time()
    while rounds == 0 or time.process_time() - worked < least_s:
        work()
        rounds += 1
    return {
        "counted": counted,
        "seconds": max((time.perf_counter() - began) / rounds, 1e-9),
        "cpu_s": max((time.process_time() - worked) / rounds, 1e-9),
    }


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
