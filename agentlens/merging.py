"""Which actions of one signature differ in their arguments, read again through their source pointers."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from agentlens.errors import AgentlensError, InputError
from agentlens.explaining import _merged, _pointer
from agentlens.revealing import _read

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from agentlens.lake import Lake
    from agentlens.model.raw import RawEvent
    from agentlens.normalise.tables import Tables


def distinct_arguments(
    lake: Lake, rows: pl.DataFrame, root: Path | None = None, sql: str | Path | None = None
) -> dict[tuple[str, str, int], str]:
    """Return a digest of each event's arguments by the shipped tables alone, by run, lane and seq.

    Two events of one signature whose digests differ were made one by the user's tables, or by whoever wrote
    signatures into the export. What the shipped tables leave out (ids, wording for people) makes no difference here.

    Parameters
    ----------
    rows
        ``run_id, agent, seq, kind, source`` of the events wanted.
    root
        Folder that the names of sources are relative to.
    sql
        The mapping, for sources that were read through one.

    Returns
    -------
    dict
        Without the events whose source is not at hand, has changed, or says nothing of arguments.
    """
    from agentlens.normalise.tables import Tables as TablesClass

    known = {entry.name: entry.reader for entry in lake.manifest.sources.values()}
    shipped = TablesClass.load()
    wanted: dict[str, list[tuple[tuple[int, int], dict[str, Any]]]] = {}
    for row in rows.iter_rows(named=True):
        try:
            name, place = _pointer(row["source"] or "", known)
        except InputError:
            continue
        wanted.setdefault(name, []).append((place, row))
    found: dict[tuple[str, str, int], str] = {}
    for name, places in sorted(wanted.items()):
        try:
            events = _read(name, known[name], root, sql)
        except AgentlensError:  # not there any more, or not as it was
            continue
        for place, row in places:
            digest = _arguments(events, place, row["kind"], shipped)
            if digest is not None:
                found[row["run_id"], row["agent"], row["seq"]] = digest
    return found


def _arguments(events: list[RawEvent], place: tuple[int, int], kind: str, tables: Tables) -> str | None:
    from agentlens.normalise.signature import action

    own = next((event for event in events if event.shown == place and event.kind == kind), None)
    if own is None:
        return None
    same = [
        event
        for event in events
        if own.identity is not None
        and event.kind == kind
        and (event.run_id, event.identity) == (own.run_id, own.identity)
    ]
    raw = _merged(same or [own])
    material = action(tables.tool(str(raw.tool)), raw.args, raw.scope, tables).material
    return None if material is None else blake2b(material, digest_size=16).hexdigest()
