"""Why one event has the signature and fingerprint it has, read again through its source pointer."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens.errors import InputError
from agentlens.model.raw import ABSENT, RawEvent

if TYPE_CHECKING:
    from agentlens.lake import Lake
    from agentlens.normalise.rows import Normaliser


def explain(
    lake: Lake | str | Path,
    run: str,
    seq: int,
    *,
    agent: str | None = None,
    normaliser: Normaliser | None = None,
    root: str | Path | None = None,
    sql: str | Path | None = None,
) -> dict[str, Any]:
    """Say what was dropped, masked and kept for one event, and by which rule.

    Parameters
    ----------
    lake, run, seq
        Which event; the beginning of a run's id will do where no other run begins so. ``agent`` names the lane where a
        run has several with that number.
    normaliser
        With the key and tables of the ingest; by default the user's.
    sql
        The mapping, for a source that was read through one.
    root
        Folder that the names of sources are relative to; by default as they were given at ingest.

    Returns
    -------
    dict
        ``event``: the row of the lake; ``same_key``: whether the key is the one of the ingest; ``tool``, ``action``,
        ``evidence``, ``facts``, ``versions`` as in `agentlens.normalise.explain.explain`.

    Raises
    ------
    InputError
        If there is no such event, several lanes have one, or its source is gone or has changed.
    """
    from agentlens.data import default_normaliser
    from agentlens.lake import Lake as LakeClass
    from agentlens.normalise.digest import Key
    from agentlens.normalise.explain import explain as judge

    opened = lake if isinstance(lake, LakeClass) else LakeClass.open(Path(lake))
    row = _event(opened, run, seq, agent)
    made = normaliser or default_normaliser()
    if made.key.key_id != row["key_id"] == Key.public_demo().key_id:
        made = replace(made, key=Key.public_demo())  # a lake of the demo explains itself
    raw = _raw(opened, row, Path(root) if root else None, sql)
    told = judge(raw, made)
    return {"event": row, "same_key": made.key.key_id == row["key_id"], **told}


def _event(lake: Lake, run: str, seq: int, agent: str | None) -> dict[str, Any]:
    run = _whole(lake, run)
    found = lake.events().filter((pl.col("run_id") == run) & (pl.col("seq") == seq))
    if agent is not None:
        found = found.filter(pl.col("agent") == agent)
    rows = found.collect().to_dicts()
    if not rows:
        near = (
            lake.events()
            .filter(pl.col("run_id") == run)
            .select(pl.col("seq").min(), top=pl.col("seq").max())
            .collect()
        )
        low, high = near.row(0)
        accepted = (
            f"a seq from {low} to {high}"
            if low is not None
            else "a run id of this lake (agentlens sql LAKE 'FROM events')"
        )
        raise InputError.at(f"{run} {seq}", "no such event", accepted=accepted)
    if len(rows) > 1:
        lanes = ", ".join(repr(row["agent"]) for row in rows)
        raise InputError.at(f"{run} {seq}", "several lanes have it", accepted=f"--agent with one of {lanes}")
    return rows[0]


def _whole(lake: Lake, run: str) -> str:
    """Return the run's id where only its beginning was given, as tables that are cut show it, and one run has it."""
    text = run.removesuffix("…")
    ids = (
        lake.events().filter(pl.col("run_id").str.starts_with(text)).select(pl.col("run_id").unique().sort())
    )
    found = ids.collect()["run_id"].to_list()
    if run in found or not text or not found:
        return run
    if len(found) > 1:
        listed = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
        raise InputError.at(
            run, f"{len(found):,} runs begin like this", accepted=f"more of it, as in {listed}"
        )
    return str(found[0])


def _raw(lake: Lake, row: dict[str, Any], root: Path | None, sql: str | Path | None) -> RawEvent:
    """Read the source again and put together the records of this event, the later non-null value winning."""
    from agentlens.readers import registry
    from agentlens.readers.base import Report
    from agentlens.readers.source import Source
    from agentlens.readers.sql import mapped, mapping_text

    known = {entry.name: entry.reader for entry in lake.manifest.sources.values()}
    name, place = _pointer(row["source"], known)
    path = (root / name) if root else Path(name)
    if not path.exists():
        raise InputError.at(
            name, "the source is not there any more", accepted="--root with the folder it lies in"
        )
    source = Source(name=name, path=path)
    if known[name] == "sql" and sql is None:
        raise InputError.at(name, "it was read through a mapping", accepted="--sql with that mapping")
    form = mapped(mapping_text(sql)) if sql is not None else registry.named(known[name])
    found = [
        event
        for event in registry.read(source, form, Report())
        if isinstance(event, RawEvent) and event.kind == row["kind"]
    ]
    own = next((event for event in found if event.shown == place), None)
    if own is None:
        raise InputError.at(
            name, f"no such record at {place[0]}", accepted="the file as it was when it was ingested"
        )
    if own.identity is None:
        return own
    same = [event for event in found if (event.run_id, event.identity) == (own.run_id, own.identity)]
    return _merged(same)


def _pointer(pointer: str, known: dict[str, str]) -> tuple[str, tuple[int, int]]:
    """Split ``name:position`` or ``name:position.inner``; the name may hold colons itself."""
    name, _, place = pointer.rpartition(":")
    position, _, inner = place.partition(".")
    if name not in known or not position.isdigit() or not (inner or "0").isdigit():
        raise InputError.at(
            pointer, "the source is not in the manifest", accepted="an event of a source of this lake"
        )
    return name, (int(position), int(inner or 0))


def _merged(events: list[RawEvent]) -> RawEvent:
    merged = events[0]
    for later in events[1:]:
        changed = {
            f.name: value
            for f in fields(RawEvent)
            if (value := getattr(later, f.name)) is not None
            and value is not ABSENT
            and value is not False
            and value != ""
        }
        merged = replace(merged, **changed)
    return merged
