"""The report of an ingest from what was planned and read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agentlens.errors import InputError
from agentlens.lake.report import IngestReport, SourceReport
from agentlens.plural import plural
from agentlens.readers import registry
from agentlens.readers.sql import mapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentlens.lake.manifest import Manifest
    from agentlens.lake.plan import Planned, Settings
    from agentlens.lake.reading import PieceRead

FAULTS_SHOWN = 20


def report_of(
    planned: list[Planned],
    reads: dict[str, PieceRead],
    manifest: Manifest,
    settings: Settings,
    *,
    changed: bool = False,
    dry_run: bool = False,
) -> IngestReport:
    """Build the report of what was planned, with what was read of it, over the manifest as it now is."""
    mine = {one.source_id for one in planned}
    buckets = manifest.buckets.values()
    return IngestReport(
        sources=tuple(
            _foreseen(one, manifest, settings) if dry_run else _line(one, reads.get(one.source_id), manifest)
            for one in planned
        ),
        events=sum(bucket.events.rows for bucket in buckets),
        runs=sum(bucket.runs for bucket in buckets),
        dropped=_sum(mine, (bucket.dropped for bucket in buckets)),
        folded=_sum(mine, (bucket.folded for bucket in buckets)),
        elsewhere=_sum(mine, (bucket.elsewhere for bucket in buckets)),
        changed=changed,
        dry_run=dry_run,
        notes=tuple(_notes(mine, manifest, settings)),
    )


def _sum(mine: set[str], counts: Iterable[dict[str, int]]) -> int:
    return sum(n for count in counts for source, n in count.items() if source in mine)


def _foreseen(one: Planned, manifest: Manifest, settings: Settings) -> SourceReport:
    """Say what would be read as what: the first bytes of a source tell whether any format takes it."""
    line = _line(one, None, manifest)
    if not one.read:
        return line
    try:
        named = mapped(settings.sql).name if settings.sql is not None else settings.format
        return replace(line, format=named or registry.sniff(one.source.head()).name)
    except InputError as error:
        return replace(line, status="refused", reason=str(error))


def _line(one: Planned, read: PieceRead | None, manifest: Manifest) -> SourceReport:
    known = manifest.sources.get(one.source.name) if one.status == "unchanged" else None
    line = SourceReport(
        name=one.source.name,
        status=one.status,
        format="" if known is None else known.reader,
        bytes=one.size,
        reason=one.reason,
        found=one.source.found,
    )
    if read is None:
        return line
    faults = tuple(sorted(read.faults, key=lambda fault: fault.position)[:FAULTS_SHOWN])
    return replace(
        line,
        format=read.format,
        records=read.records,
        receipts=read.receipts,
        branches=read.branches,
        quarantined=read.quarantined,
        faults=faults,
        reason=one.reason
        or (f"{faults[0].unit} {faults[0].position:,}: {faults[0].reason}" if faults else ""),
        repaired=read.repaired,
        unknown=read.unknown,
    )


def _notes(mine: set[str], manifest: Manifest, settings: Settings) -> Iterator[str]:
    """Say what else in the lake does not go with what was just read."""
    told = [source for source in manifest.sources.values() if source.id in mine]
    counts = {
        one.id: _sum({one.id}, (bucket.disputed for bucket in manifest.buckets.values())) for one in told
    }
    if runs := max(counts.values(), default=0):
        named = sorted(one.name.rpartition("/")[2] for one in told if counts[one.id])
        yield (
            f"{plural(runs, 'run')} of one name told differently by several files became one run each "
            f"({', '.join(named[:4])}{', ...' if len(named) > 4 else ''}); if they are different runs, keep such files "
            "in lakes of their own"
        )
    others = [source for source in manifest.sources.values() if source.id not in mine]
    version, key = settings.normaliser.version, settings.normaliser.key.key_id
    old = sum(source.normaliser_version != version for source in others)
    if old:
        yield f"{plural(old, 'other source')} in the lake: normalised by another version; ingest them again to compare"
    foreign = sum(source.key_id != key for source in others)
    if foreign:
        yield f"{plural(foreign, 'other source')} in the lake: digested with another key; they are never compared"
