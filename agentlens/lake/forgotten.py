"""What stays of runs that were deleted on request: digests of their ids, so that they stay deleted; no name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from agentlens.lake.store import forgotten_mark, scan, write

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from agentlens.lake.manifest import FileEntry, Manifest, SourceEntry

FORGOTTEN = "forgotten:"
"""Stands, with the digest of the id, where another run names a deleted one as its parent."""
_OF_SOURCES = ("receipts", "branches")


def unnamed(rows: pl.DataFrame, column: str, gone: Collection[str], marks: Collection[str]) -> pl.DataFrame:
    """Put digests for the ids of deleted runs that ``column`` names.

    ``gone``: ids that are being deleted. ``marks``: digests of those deleted before.
    """
    if not gone and not marks:
        return rows
    named = rows[column].drop_nulls().unique().to_list()
    found = {one: forgotten_mark(one) for one in named}
    lost = [one for one, mark in found.items() if one in gone or mark in marks]
    if not lost:
        return rows
    return rows.with_columns(pl.col(column).replace(lost, [f"{FORGOTTEN}{found[one]}" for one in lost]))


def without_lost_sources(
    lake: Path, made: Manifest, quarantine: pl.Schema, asked: Collection[str] | None = None
) -> tuple[Manifest, list[str]]:
    """Take sources out of a manifest that gave rows of which none is left, with what was set aside of them.

    The name of a file is as much a trace of a run as its id. A source that gave nothing ever stays; so does
    one that is not among the ids ``asked`` (None: all).

    Returns
    -------
    manifest, names
        The new manifest (not saved yet; a quarantine table without those rows is written), and the names.
    """
    live = _live(lake, made)
    lost = [
        one
        for one in made.sources.values()
        if one.id not in live and _gave_rows(one) and (asked is None or one.id in asked)
    ]
    if not lost:
        return made, []
    ids = [one.id for one in lost]
    tables = dict(made.tables)
    entry = tables.get("quarantine")
    if entry is not None:
        rows = scan(lake, [entry], quarantine).collect()
        kept = rows.filter(~pl.col("source_id").is_in(ids))
        if kept.is_empty():
            del tables["quarantine"]
        elif kept.height < rows.height:
            tables["quarantine"] = write(lake, f"quarantine/g{made.generation:06}-kept.parquet", kept)
        if entry.path.startswith(f"quarantine/g{made.generation:06}"):
            (lake / entry.path).unlink()  # written a moment ago: no manifest has named it yet
    names = sorted(one.name for one in lost)
    sources = {name: one for name, one in made.sources.items() if name not in names}
    return replace(made, sources=sources, tables=tables), names


def _gave_rows(one: SourceEntry) -> bool:
    return bool(one.records or one.receipts or one.branches)


def _live(lake: Path, made: Manifest) -> set[str]:
    """Return the ids of sources that have a row somewhere in the lake."""
    live = {source for bucket in made.buckets.values() for source in bucket.sources}
    for name in _OF_SOURCES:
        entry: FileEntry | None = made.tables.get(name)
        if entry is not None:
            found = pl.scan_parquet(lake / entry.path, glob=False, hive_partitioning=False)
            live |= set(found.select(pl.col("source_id").unique()).collect()["source_id"].to_list())
    return live
