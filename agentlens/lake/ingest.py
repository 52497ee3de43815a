"""From sources to a lake, all or nothing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from agentlens.errors import InputError, LakeError, SettingsError
from agentlens.lake import manifest as manifests
from agentlens.lake.folder import CUT, aside, is_cut, opened
from agentlens.lake.forgotten import heir, marks_of, without_lost_sources
from agentlens.lake.manifest import Manifest
from agentlens.lake.outcome import entry_of, faults_of, refuse_all, told_of
from agentlens.lake.plan import Planned, Settings, is_large, known_again, missed, plan, tasks, work
from agentlens.lake.reading import PieceRead
from agentlens.lake.report import IngestReport, Progress, Step
from agentlens.lake.rewrite import QUARANTINE, Change, rewrite
from agentlens.lake.store import part, put_aside, sweep
from agentlens.lake.summary import report_of
from agentlens.lake.titles import Titles
from agentlens.lake.workers import Here, Processes
from agentlens.readers import registry
from agentlens.readers.source import Source, expand
from agentlens.readers.sql import mapping_text

if TYPE_CHECKING:
    from agentlens.normalise.rows import Normaliser

Sources: TypeAlias = str | Path | Source | Sequence[str | Path | Source]

ALONE = 24 << 20
"""Up to so many bytes of text one process is faster than several that have to start first."""
MOST_WORKERS = 64
"""Each takes some 60 MB before it reads anything: a slip of the hand must not take the whole machine."""


def ingest(
    sources: Sources,
    into: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    sql: str | Path | None = None,
    normaliser: Normaliser,
    progress: Progress | None = None,
    workers: int | None = None,
    dry_run: bool = False,
    forgotten: str | Path | None = None,
) -> IngestReport:
    """Read trace exports into a lake: only what is new or changed, all of it or nothing.

    Parameters
    ----------
    sources
        Files, folders (read through), patterns, ``-`` for standard input, or `Source` objects.
    into
        The lake's folder; made if it is not there.
    format
        Read every source as this format instead of recognising each.
    sql
        A mapping to canonical columns: a file with one DuckDB SELECT, a shipped name, or the text itself.
    normaliser
        Key, tables, and definition of fingerprints to use.
    progress
        Told about every step.
    workers
        Processes to read with, 1 to 64; default: one a core where the work is worth their start, else none.
    dry_run
        Say what would be read and change nothing.
    forgotten
        A lake, of any schema version, that the new one is made in place of: what was deleted from it is left out.

    Returns
    -------
    IngestReport
        One line a source, and sums.

    Raises
    ------
    InputError
        No source can be read at all; the lake is as it was. Of several sources, those that are not there or
        cannot be read are ``refused`` in the report.
    LakeError
        The folder is no lake, is damaged, locked, of another schema version, or cannot be written.
    """
    lake = Path(into)
    if workers is not None and not 1 <= workers <= MOST_WORKERS:
        raise SettingsError.value("workers", workers, f"1 to {MOST_WORKERS}")
    if format is not None:
        registry.named(format)
    marks = [] if forgotten is None else marks_of(forgotten)
    mapping = None if sql is None else mapping_text(sql)
    settings = Settings(normaliser=normaliser, format=format, sql=mapping)
    found, missing = _expanded(sources, lake)
    if dry_run:
        held = manifests.load(lake)
        if held is None and is_cut(lake):
            raise LakeError(CUT.format(lake=lake))
        manifest = held or Manifest()
        planned = _planned(found, missing, manifest, settings)
        return report_of(planned, {}, manifest, settings, dry_run=True)
    with opened(lake) as held:
        manifest = heir(held or Manifest(), marks, lake)
        manifests.check_files(lake, manifest)
        work = _Ingest(lake, manifest, settings, progress or _silent)
        return work.run(found, missing, workers)


def _silent(step: Step) -> None:
    """Nobody wants to know."""


@dataclass
class _Ingest:
    """One ingest that holds the lake's lock."""

    lake: Path
    manifest: Manifest
    settings: Settings
    progress: Progress
    step: Step = field(default_factory=lambda: Step(stage="reading"))

    def run(self, found: list[Source], missing: list[Planned], workers: int | None) -> IngestReport:
        expected = sum(work(_size(source), source.name) for source in found)
        with _reading(workers, expected, self.settings.normaliser) as reading:
            planned = _planned(found, missing, self.manifest, self.settings)
            todo = [one for one in planned if one.read]
            refuse_all(planned)
            if not todo:
                return report_of(planned, {}, self.manifest, self.settings)
            sweep(self.lake, self.manifest)
            with aside(self.lake) as folder, ThreadPoolExecutor(1) as beside:
                digests = {one.source_id: _digest(one, beside) for one in todo if is_large(one)}
                reads, parts = self._read(reading, todo, folder)
                for one in todo:
                    if one.source_id in digests:
                        reads[one.source_id].digest = digests[one.source_id].result()
                return self._commit(planned, reads, parts, folder)

    def _read(
        self, reading: Here | Processes, todo: list[Planned], folder: Path
    ) -> tuple[dict[str, PieceRead], dict[str, list[Path]]]:
        reads = {one.source_id: PieceRead(source_id=one.source_id) for one in todo}
        names = {one.source_id: one for one in todo}
        left = {one.source_id: one.size for one in todo}
        parts: dict[str, list[Path]] = {}
        self._tell(files=len(todo), bytes=sum(left.values()))
        for done in reading.run(tasks(todo, self.settings, folder)):
            for piece in sorted(done.pieces, key=lambda piece: piece.source_id):
                one = names[piece.source_id]
                reads[piece.source_id].add(piece)
                left[one.source_id] -= piece.bytes
                self._tell(
                    files_done=self.step.files_done + int(left[one.source_id] <= 0),
                    bytes_done=self.step.bytes_done + piece.bytes,
                    events=self.step.events + piece.records,
                    quarantined=self.step.quarantined + piece.quarantined,
                )
            for table, paths in done.parts.items():
                parts.setdefault(table, []).extend(paths)
        return reads, {table: sorted(paths) for table, paths in parts.items()}

    def _commit(
        self,
        planned: list[Planned],
        reads: dict[str, PieceRead],
        parts: dict[str, list[Path]],
        folder: Path,
    ) -> IngestReport:
        planned = [told_of(one, reads, self.manifest.sources, self.settings) for one in planned]
        refuse_all(planned)
        kept = [one for one in planned if one.read]
        if not kept:
            return report_of(planned, reads, self.manifest, self.settings)
        refused = {one.source_id for one in planned if one.status == "refused"}
        change = Change(
            aside=folder,
            parts=_without(parts, refused),
            replaced=frozenset(one.source_id for one in kept),
            faults=faults_of(kept, reads),
        )
        before = replace(
            self.manifest, content=self.manifest.content or self.settings.normaliser.keep_content
        )
        made = rewrite(self.lake, before, change, lambda _done, _all: self._tell(stage="writing"))
        sources = dict(self.manifest.sources)
        sources |= {one.source.name: entry_of(one, reads[one.source_id], self.settings) for one in kept}
        made = replace(made, sources=sources)
        if made.forgotten:  # a source of nothing but deleted runs leaves no name behind
            made, _ = without_lost_sources(self.lake, made, QUARANTINE, {one.source_id for one in kept})
        manifests.save(self.lake, made)
        self._tell(stage="done")
        return report_of(planned, reads, made, self.settings, changed=True)

    def _tell(self, **changed: int | str) -> None:
        self.step = replace(self.step, **changed)  # type: ignore[arg-type]
        self.progress(self.step)


# -- sources


def _expanded(sources: Sources, lake: Path) -> tuple[list[Source], list[Planned]]:
    """Return the sources there are, and a refused one for each name that is none."""
    many = [sources] if isinstance(sources, str | Path | Source) else list(sources)
    if not many:
        raise InputError("no source is given; accepted: files, folders, patterns, or -")
    found = [one for one in many if isinstance(one, Source)]
    errors: dict[str, InputError] = {}
    outside = expand([one for one in many if not isinstance(one, Source)], missing=errors)
    if os.path.lexists(lake / manifests.MANIFEST):  # a folder that holds the lake too is read without it
        home = lake.resolve()
        outside = [one for one in outside if not one.path.resolve().is_relative_to(home)]
    found += outside
    if not found:
        raise next(
            iter(errors.values()),
            InputError(f"{many[0]}: holds no file; accepted: a folder with trace exports"),
        )
    return found, [missed(name, error) for name, error in errors.items()]


def _planned(
    found: list[Source], missing: list[Planned], manifest: Manifest, settings: Settings
) -> list[Planned]:
    """Decide about every source.

    Raises
    ------
    InputError
        Two files have one name.
    """
    once = Titles.of(manifest).give(known_again(found, manifest))
    twice = [name for name, count in Counter(one.name for one in once).items() if count > 1]
    if twice:
        raise InputError(f"two sources are called {twice[0]!r}; accepted: a name of its own for each")
    return [*(plan(source, manifest, settings) for source in once), *missing]


def _size(source: Source) -> int:
    try:
        return source.size()
    except InputError:
        return 0


def _digest(one: Planned, beside: ThreadPoolExecutor) -> Future[str]:
    if one.digest:
        known: Future[str] = Future()
        known.set_result(one.digest)
        return known
    return beside.submit(one.source.digest)


def _reading(workers: int | None, expected: int, normaliser: Normaliser) -> Here | Processes:
    if workers is None:
        workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        workers = workers if expected > ALONE else 1
    return Here(normaliser) if workers == 1 else Processes(workers, normaliser)


def _without(parts: dict[str, list[Path]], refused: set[str]) -> dict[str, list[Path]]:
    """Take rows of sources that were refused half-way out of the parts."""
    if not refused:
        return parts
    return {table: [_cleaned(path, refused) for path in paths] for table, paths in parts.items()}


def _cleaned(path: Path, refused: set[str]) -> Path:
    kept = path.with_suffix(".kept.arrow")  # another file: the part itself may be mapped into memory
    return put_aside(part(path).filter(~pl.col("source_id").is_in(list(refused))).collect(), kept)
