"""Writing tables into a lake: fresh names, durable, the same rows giving the same bytes."""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import TYPE_CHECKING

import polars as pl

from agentlens.lake.manifest import SCHEMA_VERSION, FileEntry, Manifest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ROW_GROUP = 100_000
ASIDE = ".aside-"
"""Folders of parts that a killed ingest may leave; the next one clears them."""
FOLDERS = ("records", "events", "receipts", "branches", "quarantine", "sessions")


def bucket_of(run_id: str, buckets: int) -> int:
    """Return the bucket of a run: a digest of its id, the same on every machine.

    >>> bucket_of("run-1", 16)
    4
    """
    digest = blake2b(run_id.encode("utf-8", "surrogatepass"), digest_size=8, person=b"bucket").digest()
    return int.from_bytes(digest, "big") % buckets


def forgotten_mark(run_id: str) -> str:
    """Return what is kept of a deleted run's id, so that it stays deleted: a digest."""
    return blake2b(run_id.encode("utf-8", "surrogatepass"), digest_size=16, person=b"forgotten").hexdigest()


def write(lake: Path, path: str, frame: pl.DataFrame) -> FileEntry:
    """Write one table under a fresh name and wait until the disk has it."""
    target = lake / path
    target.parent.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(
        target,
        compression="zstd",
        row_group_size=ROW_GROUP,
        metadata={"agentlens_schema": str(SCHEMA_VERSION)},
    )
    handle = os.open(target, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    return FileEntry(path=path, rows=frame.height, bytes=target.stat().st_size)


def aligned(frame: pl.LazyFrame, schema: pl.Schema | dict[str, pl.DataType]) -> pl.LazyFrame:
    """Give a frame exactly these columns; one that it lacks is null."""
    have = frame.collect_schema()
    if list(have.items()) == list(schema.items()):
        return frame
    return frame.select(
        pl.col(name).cast(dtype) if name in have else pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in schema.items()
    )


def scan(lake: Path, entries: Iterable[FileEntry], schema: pl.Schema) -> pl.LazyFrame:
    """Return the rows of several files of one table, lazily; a column that a file lacks is null."""
    paths = [lake / entry.path for entry in entries]
    if not paths:
        return pl.LazyFrame(schema=schema)
    return pl.scan_parquet(
        paths,
        schema=schema,
        missing_columns="insert",
        extra_columns="ignore",
        hive_partitioning=False,
        glob=False,
    )


def put_aside(frame: pl.DataFrame, path: Path) -> Path:
    """Write rows as a part: quickly, and a tenth of their size, for what is read again in a moment."""
    frame.write_ipc(path, compression="lz4")
    return path


def part(path: Path) -> pl.LazyFrame:
    """Return the rows of one part, lazily; its path is taken literally."""
    return pl.scan_ipc(path, glob=False, hive_partitioning=False)


def sweep(lake: Path, keep: Manifest | None) -> None:
    """Delete files that no manifest needs: retired ones, and what a killed ingest left behind."""
    kept = set() if keep is None else set(keep.files())
    for name in FOLDERS:
        for path in sorted((lake / name).rglob("*.parquet")):
            if path.relative_to(lake).as_posix() not in kept:
                path.unlink(missing_ok=True)
