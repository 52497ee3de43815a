"""What has to be read: each source is new, changed, to be read again, or as it was."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from agentlens.errors import AgentlensError, InputError, SettingsError
from agentlens.lake.reading import Piece, Task
from agentlens.readers import registry
from agentlens.readers.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentlens.lake.manifest import Manifest, SourceEntry
    from agentlens.normalise.rows import Normaliser

CHUNK = 16 << 20
"""Bytes of one range of lines; also the bytes of small files that are read in one task."""
FILES_PER_TASK = 256
COMPRESSED = (".gz", ".zst", ".zip", ".parquet", ".eval")
INFLATES = 8
"""How much larger compressed exports usually are; only used to guess the work ahead."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How sources are to be read, and a digest of what of it shapes their rows."""

    normaliser: Normaliser
    format: str | None = None
    sql: str | None = None

    def __post_init__(self) -> None:
        only_one(self.format, self.sql)

    @property
    def digest(self) -> str:
        """Digest of the settings that are not told by versions."""
        shape = f"{self.normaliser.fingerprint}\n{self.normaliser.keep_content}\n{self.sql or ''}"
        return blake2b(shape.encode(), digest_size=8).hexdigest()


def only_one(format: str | None, sql: str | None) -> None:  # noqa: A002 - the word users know
    """Refuse a format beside a mapping: a source is read as the one or through the other.

    Raises
    ------
    SettingsError
        Both are given.
    """
    if format is not None and sql is not None:
        raise SettingsError(f"format {format!r} beside a mapping (--sql); accepted: one of the two")


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One source with what is to become of it; the states are those of `SourceReport`."""

    source: Source
    source_id: str
    status: str
    size: int = 0
    digest: str = ""
    reason: str = ""

    @property
    def read(self) -> bool:
        """Whether it has to be read."""
        return self.status in {"new", "changed", "reread"}


def source_id(name: str) -> str:
    """Return the id of a source: a digest of its name, so that a changed file replaces its own rows."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, person=b"source").hexdigest()


def known_again(sources: Sequence[Source], manifest: Manifest) -> list[Source]:
    """Return each file once, by the name under which the lake knows it.

    A file may be called by several names: relative, absolute, through a link of either kind. It is one source,
    and its first name stays.
    """
    names = {entry.place: entry.name for entry in manifest.sources.values() if entry.place}
    once: dict[str, Source] = {}
    first: dict[tuple[int, int], str] = {}  # files with several names on the disk -> the place of the first
    for source in sources:
        place = source.place()
        if place and (node := _node(source)) is not None:
            place = first.setdefault(node, place)
        if place in names:
            source = replace(source, name=names[place])  # noqa: PLW2901 - the same source
        once.setdefault(place or f"{source.path}\0{source.start}", source)
    return list(once.values())


def _node(source: Source) -> tuple[int, int] | None:
    """Return device and number of a file that has several names on the disk; None for any other."""
    try:
        found = source.path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found.st_nlink > 1 and found.st_ino else None


def missed(name: str, error: InputError) -> Planned:
    """Return the line of a name that is no source at all."""
    source = Source(name=name, path=Path(name))
    return Planned(source=source, source_id=source_id(name), status="refused", reason=str(error))


def plan(source: Source, manifest: Manifest, settings: Settings) -> Planned:
    """Decide about one source by its bytes, never by its time stamp."""
    try:
        size = source.size()
        if source.piped or source.name == "stdin":  # what comes through pipes has no name of its own
            source = replace(source, name=f"{source.name}-{source.digest()[:12]}")
        found = Planned(source=source, source_id=source_id(source.name), status="new", size=size)
        known = manifest.sources.get(source.name)
        if known is None:
            return found
        digest = source.digest() if size == known.size else ""
        if digest != known.digest:
            return replace(found, status="changed", reason=_elsewhere(source, known))
        if known.beside is not None and _beside(source, known) != known.beside:
            return replace(found, status="changed", digest=digest, reason="a file beside it changed")
        why = stale(known, settings)
        return replace(found, status="reread" if why else "unchanged", digest=digest, reason=why)
    except InputError as error:
        return Planned(source=source, source_id=source_id(source.name), status="refused", reason=str(error))


def _beside(source: Source, known: SourceEntry) -> str:
    reader = next((found for found in registry.FORMATS if found.name == known.reader), None)
    return "" if reader is None else registry.beside(source, reader)


def _elsewhere(source: Source, known: SourceEntry) -> str:
    """Say that a changed source is another file than the one read under this name; "" where it is not."""
    other = known.place and source.place() != known.place
    return "another file of this name; it takes the place of the one read before" if other else ""


def stale(known: SourceEntry, settings: Settings) -> str:
    """Say why rows read earlier are not those that would be read now; "" where they are."""
    wanted = settings.format
    if wanted is not None and known.reader != wanted:
        return f"format {wanted} instead of {known.reader}"
    current = {found.name: found.version for found in registry.FORMATS}.get(known.reader)
    if settings.sql is None and current != known.reader_version:
        return f"reader {known.reader} version {current or 'none'} instead of {known.reader_version}"
    versions = (
        ("normaliser", known.normaliser_version, settings.normaliser.version),
        ("key", known.key_id, settings.normaliser.key.key_id),
        ("settings", known.settings, settings.digest),
    )
    return ", ".join(f"{name} {new} instead of {old}" for name, old, new in versions if old != new)


def is_large(one: Planned) -> bool:
    """Whether a source is read in ranges where its format allows; its digest is then taken beside."""
    return one.size > CHUNK


def work(size: int, name: str) -> int:
    """Guess the bytes of text behind a stored size."""
    return size * INFLATES if name.lower().endswith(COMPRESSED) else size


def tasks(planned: Sequence[Planned], settings: Settings, folder: Path) -> Iterator[Task]:
    """Cut the work: ranges of large files of lines, single documents, small files by the handful.

    A generator: ranges of a huge file are read while the rest is still being cut.
    """
    number = 0
    batch: list[Piece] = []
    held = 0
    for one in planned:
        for piece in _pieces(one, settings):
            size = _size(piece)
            if batch and (held + size > CHUNK or len(batch) >= FILES_PER_TASK):
                yield Task(number=number, pieces=tuple(batch), folder=folder)
                number, batch, held = number + 1, [], 0
            batch.append(piece)
            held += size
    if batch:
        yield Task(number=number, pieces=tuple(batch), folder=folder)


def _size(piece: Piece) -> int:
    try:
        return work(piece.source.size(), piece.source.name)
    except InputError:
        return 0


def _pieces(one: Planned, settings: Settings) -> Iterator[Piece]:
    whole = Piece(
        source=one.source,
        source_id=one.source_id,
        digest=one.digest or ("" if is_large(one) else None),
        format=settings.format,
        sql=settings.sql,
    )
    if not is_large(one) or settings.sql is not None:
        yield whole
        return
    try:
        found = registry.named(settings.format) if settings.format else registry.sniff(one.source.head())
        whole = replace(whole, format=found.name, home=getattr(found.read, "__module__", ""))
        if not found.lines:
            yield whole
            return
        for part in one.source.split(CHUNK):
            yield replace(whole, source=part)
    except AgentlensError:
        yield whole  # refused with its reason where it is read
