"""What stays of runs that were deleted on request: digests of their ids, so that they stay deleted; no name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from agentlens.errors import LakeError
from agentlens.lake.manifest import MANIFEST, forgotten_in
from agentlens.lake.store import forgotten_mark, scan, write

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from agentlens.lake.manifest import FileEntry, Manifest, SourceEntry

FORGOTTEN = "forgotten:"
"""Stands, with the digest of the id, where another run names a deleted one as its parent."""
OF_SOURCES = ("receipts", "branches")
"""Tables besides the records whose rows a source gives."""
OWN = {"receipts": ("run_id", "trace_id"), "branches": ("branch_id",), "labels": ("run_id",)}
"""Columns in which a row says whose it is: it goes with that run."""
_OF_HANDOFFS = ("receipts", "labels")
PARENT = {"records": "parent_run_id", "branches": "parent_id"}
"""The column in which a row names the run it came from."""


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


def operation_mark(operation_id: str) -> str:
    """Return what is kept of the id of a deleted handoff: no mark of any run."""
    return forgotten_mark(f"operation\0{operation_id}")


def honoured(rows: pl.DataFrame, table: str, marks: Collection[str]) -> pl.DataFrame:
    """Leave out new rows of runs and handoffs that were deleted before, and put digests for deleted parents.

    ``marks``: digests of what was deleted. Of records only the parents are looked at: a run of records is found
    by its place.
    """
    if not marks:
        return rows
    for column in OWN.get(table, ()):
        rows = _without(rows, column, marks, forgotten_mark)
    if table in _OF_HANDOFFS:
        rows = _without(rows, "operation_id", marks, operation_mark)
    return unnamed(rows, PARENT[table], (), marks) if table in PARENT else rows


def _without(
    rows: pl.DataFrame, column: str, marks: Collection[str], mark: Callable[[str], str]
) -> pl.DataFrame:
    if column not in rows.columns:
        return rows
    known = frozenset(marks)
    gone = [one for one in rows[column].drop_nulls().unique().to_list() if mark(one) in known]
    return rows.filter(~pl.col(column).is_in(gone).fill_null(False)) if gone else rows


def heir(made: Manifest, marks: Collection[str], lake: str | Path) -> Manifest:
    """Return a new lake's manifest that leaves out what was deleted from the lake it is made in place of.

    Raises
    ------
    LakeError
        The lake at ``lake`` has sources already that were read without these ``marks``.
    """
    if set(marks) <= set(made.forgotten):
        return made
    if made.generation:
        raise LakeError(
            f"{lake}: has runs that were read before; accepted: --forgotten with a new lake, or agentlens forget"
        )
    return replace(made, forgotten=sorted({*made.forgotten, *marks}))


def marks_of(lake: str | Path) -> list[str]:
    """Return the digests of what was deleted from a lake of any schema version; it need not be whole.

    Raises
    ------
    LakeError
        There is no lake, or its manifest cannot be read.
    """
    path = Path(lake) / MANIFEST
    try:
        return forgotten_in(path.read_bytes(), str(path))
    except OSError as error:
        raise LakeError(f"{path}: {error.strerror}; accepted: the folder of a lake") from None


def lost(
    sources: Iterable[SourceEntry], live: Collection[str], asked: Collection[str] | None
) -> list[SourceEntry]:
    """Return the sources that gave rows of which none is left; only those among the ids ``asked`` (None: all).

    ``live``: ids of sources that have a row somewhere in the lake.
    """
    return [
        one
        for one in sources
        if one.id not in live
        and (one.records or one.receipts or one.branches)
        and (asked is None or one.id in asked)
    ]


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
    gone = lost(made.sources.values(), _live(lake, made), asked)
    if not gone:
        return made, []
    ids = [one.id for one in gone]
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
    names = sorted(one.name for one in gone)
    sources = {name: one for name, one in made.sources.items() if name not in names}
    return replace(made, sources=sources, tables=tables), names


def _live(lake: Path, made: Manifest) -> set[str]:
    """Return the ids of sources that have a row somewhere in the lake."""
    live = {source for bucket in made.buckets.values() for source in bucket.sources}
    for name in OF_SOURCES:
        entry: FileEntry | None = made.tables.get(name)
        if entry is not None:
            found = pl.scan_parquet(lake / entry.path, glob=False, hive_partitioning=False)
            live |= set(found.select(pl.col("source_id").unique()).collect()["source_id"].to_list())
    return live
