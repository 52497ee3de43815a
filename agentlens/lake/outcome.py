"""What became of the sources that were read: refusals, faults, and what the manifest keeps of each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from agentlens.errors import InputError
from agentlens.lake.manifest import SourceEntry
from agentlens.lake.rewrite import QUARANTINE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentlens.lake.plan import Planned, Settings
    from agentlens.lake.reading import PieceRead


def told_of(
    one: Planned, reads: Mapping[str, PieceRead], known: Mapping[str, SourceEntry], settings: Settings
) -> Planned:
    """Return a planned source as it stands after reading.

    It is refused where it turned out not to be readable, and where nothing at all came of a source that the lake
    ``known`` holds rows of: another format or mapping than its own must not empty a lake.
    """
    read = reads.get(one.source_id)
    if read is None:
        return one
    if read.refused:
        return replace(one, status="refused", reason=read.refused)
    if read.rows or not one.read:
        return one
    way = "through the mapping" if settings.sql is not None else f"as {read.format}"
    why = f": {read.faults[0].reason}" if read.faults else ""
    before = known.get(one.source.name)
    if before is not None and before.records + before.receipts + before.branches:
        stays = "what was read of it before stays; agentlens forget deletes runs"
        return replace(
            one, status="refused", reason=f"{one.source.name}: no record was read {way}{why}; {stays}"
        )
    return one if read.faults else replace(one, reason=one.reason or f"no record was read {way}")


def refuse_all(planned: Sequence[Planned]) -> None:
    """Raise `InputError` where there is not one source that can be read."""
    refused = [one for one in planned if one.status == "refused"]
    if len(refused) == len(planned):
        more = f" (and {len(refused) - 1} more sources)" if len(refused) > 1 else ""
        raise InputError(f"{refused[0].reason}{more}")


def faults_of(kept: Sequence[Planned], reads: Mapping[str, PieceRead]) -> pl.DataFrame:
    """Return the records that were set aside (schema `agentlens.lake.rewrite.QUARANTINE`)."""
    rows = [
        [one.source_id, one.source.name, fault.unit, fault.position, fault.reason]
        for one in kept
        for fault in sorted(reads[one.source_id].faults, key=lambda fault: (fault.position, fault.reason))
    ]
    return pl.DataFrame(rows, schema=QUARANTINE, orient="row")


def entry_of(one: Planned, read: PieceRead, settings: Settings, *, place: str | None = None) -> SourceEntry:
    """Return what the manifest keeps of a source; ``place`` where it is on no local path."""
    return SourceEntry(
        name=one.source.name,
        id=one.source_id,
        digest=read.digest,
        size=one.size,
        reader=read.format,
        reader_version=read.format_version,
        normaliser_version=settings.normaliser.version,
        key_id=settings.normaliser.key.key_id,
        settings=settings.digest,
        place=one.source.place() if place is None else place,
        beside=read.beside,
        title=one.source.title,
        records=read.records,
        receipts=read.receipts,
        branches=read.branches,
        quarantined=read.quarantined,
        repaired=dict(sorted(read.repaired.items())),
        unknown=dict(sorted(read.unknown.items())),
        first_at=read.first_at,
        last_at=read.last_at,
    )
