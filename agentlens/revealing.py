"""Raw content of single events, read again through their source pointers; nothing of it is stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agentlens.errors import InputError
from agentlens.explaining import _merged, _pointer
from agentlens.model.raw import ABSENT, RawEvent

if TYPE_CHECKING:
    import polars as pl

    from agentlens.lake import Lake

LONGEST: Final = 1_200
"""Characters of arguments, and of a result, that are shown of one event."""


def raw_content(
    lake: Lake, rows: pl.DataFrame, root: Path | None = None, sql: str | Path | None = None
) -> dict[tuple[str, str, int], str]:
    """Return arguments and results as text, by run, lane and seq; each source is read once.

    Parameters
    ----------
    rows
        ``run_id, agent, seq, kind, source`` of the events wanted.
    root
        Folder that the names of sources are relative to.
    sql
        The mapping, for sources that were read through one; without it those say so instead.

    Raises
    ------
    InputError
        When a source is not there any more.
    """
    known = {entry.name: entry.reader for entry in lake.manifest.sources.values()}
    wanted: dict[str, list[tuple[tuple[int, int], dict[str, Any]]]] = {}
    for row in rows.iter_rows(named=True):
        name, place = _pointer(row["source"], known)
        wanted.setdefault(name, []).append((place, row))
    found: dict[tuple[str, str, int], str] = {}
    for name, places in sorted(wanted.items()):
        events = _read(name, known[name], root, sql)
        for place, row in places:
            found[row["run_id"], row["agent"], row["seq"]] = _told(events, place, row["kind"])
    return found


def _read(name: str, reader: str, root: Path | None, sql: str | Path | None) -> list[RawEvent]:
    from agentlens.readers import registry
    from agentlens.readers.base import Report
    from agentlens.readers.source import Source
    from agentlens.readers.sql import mapped, mapping_text

    path = (root / name) if root else Path(name)
    if not path.exists():
        raise InputError.at(
            name, "the source is not there any more", accepted="--root with the folder it lies in"
        )
    if reader == "sql" and sql is None:
        return []
    form = mapped(mapping_text(sql)) if reader == "sql" and sql is not None else registry.named(reader)
    source = Source(name=name, path=path)
    return [event for event in registry.read(source, form, Report()) if isinstance(event, RawEvent)]


def _told(events: list[RawEvent], place: tuple[int, int], kind: str) -> str:
    own = next((event for event in events if event.shown == place and event.kind == kind), None)
    if own is None:
        return "The record is not where it was: the source has changed since it was ingested."
    same = [
        event
        for event in events
        if own.identity is not None and (event.run_id, event.identity) == (own.run_id, own.identity)
    ]
    raw = _merged([event for event in same if event.kind == kind] or [own])
    return f"arguments:\n{_text(raw.args)}\n\nresult:\n{_text(raw.result)}"


def _text(value: Any) -> str:
    if value is ABSENT:
        return "(not exported)"
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    )
    more = len(text) - LONGEST
    return text[:LONGEST] + (f" … ({more:,} more characters)" if more > 0 else "")
