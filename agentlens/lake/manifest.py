"""The manifest: which files are the lake, and where each row came from.

The lake is exactly what ``manifest.json`` names. Files are written aside under fresh names first; replacing
the manifest is the one step that makes them part of the lake.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import orjson

from agentlens.errors import LakeError

MANIFEST = "manifest.json"
SCHEMA_VERSION = 1
PIPED = "stdin-"
"""How names of sources begin that came through a pipe."""
NAMED = 6
"""So many sources are named one by one in a command to type; of more, the folder they are in."""
TABLES = ("receipts", "branches", "quarantine", "sessions")
"""Tables of one file each; records and events have one file a bucket."""

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """One Parquet file: its path inside the lake, rows, and size in bytes."""

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class BucketEntry:
    """The two files of a bucket, whose rows are in it, and what of each source is not an event of its own.

    ``dropped``: said twice. ``folded``: part of another's event. ``elsewhere``: told by a better export.
    ``disputed``: runs that another source tells otherwise.
    """

    records: FileEntry
    events: FileEntry
    runs: int = 0
    sources: list[str] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    folded: dict[str, int] = field(default_factory=dict)
    elsewhere: dict[str, int] = field(default_factory=dict)
    disputed: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SourceEntry:
    """What is known of one source that was read.

    ``id``: digest of its name, on each of its rows. ``place``: digest of the real path, by which the file is
    known again under another spelling; "" for a pipe, and in lakes of earlier releases. ``beside``: digest of
    the files beside it that its reader looks into; "" where there are none, None where an earlier release did
    not note it. ``title``: what its run is called where it has no id and another source has the same file name.
    ``settings``: digest of what else shapes the rows (definition of fingerprints, content kept,
    mapping). Times are microseconds since 1970 UTC.
    """

    name: str
    id: str
    digest: str
    size: int
    reader: str
    reader_version: int
    normaliser_version: str
    key_id: str
    settings: str
    place: str = ""
    beside: str | None = None
    title: str = ""
    records: int = 0
    receipts: int = 0
    branches: int = 0
    quarantined: int = 0
    repaired: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    first_at: int | None = None
    last_at: int | None = None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """All of it. ``retired``: files of the generation before, kept for readers that began with them.

    ``forgotten``: digests of run ids that were deleted on request; their rows are left out of later ingests.
    ``content``: whether some rows carry the canonical text beside the digests.
    """

    schema_version: int = SCHEMA_VERSION
    generation: int = 0
    bucket_count: int = 0
    content: bool = False
    buckets: dict[int, BucketEntry] = field(default_factory=dict)
    tables: dict[str, FileEntry] = field(default_factory=dict)
    sources: dict[str, SourceEntry] = field(default_factory=dict)
    retired: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)

    def files(self) -> dict[str, FileEntry]:
        """Return every file of the lake by its path."""
        pairs = [entry for bucket in self.buckets.values() for entry in (bucket.records, bucket.events)]
        return {entry.path: entry for entry in (*pairs, *self.tables.values())}

    def to_json(self) -> bytes:
        """Return the stored form: sorted keys, so that equal manifests have equal bytes."""
        plain = asdict(self)
        plain["sources"] = sorted(plain["sources"].values(), key=lambda source: str(source["name"]))
        plain["buckets"] = {str(number): bucket for number, bucket in plain["buckets"].items()}
        return orjson.dumps(plain, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"

    @classmethod
    def from_json(cls, data: bytes, where: str) -> Self:
        """Read the stored form.

        Raises
        ------
        LakeError
            It is damaged, or of a schema version that this release does not know.
        """
        try:
            plain = orjson.loads(data)
            version = plain["schema_version"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise LakeError(f"{where}: damaged; accepted: the manifest that ingest wrote") from None
        if version != SCHEMA_VERSION:
            raise LakeError(
                f"{where}: schema version {version} is not the {SCHEMA_VERSION} of this release; "
                f"accepted: a lake made by it; to make one, run: {_made_again(plain, Path(where).parent)} "
                "and copy the folder labels, if there is one"
            )
        try:
            plain["buckets"] = {int(number): _bucket(bucket) for number, bucket in plain["buckets"].items()}
            plain["tables"] = {name: _made(FileEntry, entry) for name, entry in plain["tables"].items()}
            sources = (_made(SourceEntry, source) for source in plain["sources"])
            plain["sources"] = {source.name: source for source in sources}
            return _made(cls, plain)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise LakeError(f"{where}: damaged; accepted: the manifest that ingest wrote") from None


def _made_again(plain: dict[str, Any], lake: Path) -> str:
    """Return the command that ingests the sources of a lake, as far as it names them, into a new one beside it."""
    listed = plain.get("sources")
    listed = listed if isinstance(listed, list) else []
    names = [one["name"] for one in listed if isinstance(one, dict) and isinstance(one.get("name"), str)]
    names = [name for name in names if not name.startswith(PIPED)]
    if len(names) > NAMED:
        names = [shared] if (shared := _folder_of(names)) else names
    what = " ".join(map(shlex.quote, names)) or "SOURCE..."
    again = f"agentlens ingest {what} --into {shlex.quote(f'{lake}-v{SCHEMA_VERSION}')}"
    return f"{again} --forgotten {shlex.quote(str(lake))}" if plain.get("forgotten") else again


def forgotten_in(data: bytes, where: str) -> list[str]:
    """Return the digests of deleted runs that a manifest of any schema version names.

    Raises
    ------
    LakeError
        It is no manifest, or damaged.
    """
    try:
        marks = orjson.loads(data).get("forgotten", [])
        if isinstance(marks, list) and all(isinstance(mark, str) for mark in marks):
            return sorted(marks)
    except (orjson.JSONDecodeError, AttributeError):
        pass
    raise LakeError(f"{where}: damaged; accepted: the manifest of a lake")


def _folder_of(names: list[str]) -> str:
    """Return the folder that all files are in, "" where there is none."""
    try:
        return os.path.commonpath([os.path.dirname(name) for name in names])  # noqa: PTH120 - stays as it was given
    except ValueError:  # absolute and relative names
        return ""


def _made(kind: type[_T], plain: dict[str, Any]) -> _T:
    """Build a dataclass; a member that a later release added is passed over."""
    known = {member.name for member in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in plain.items() if name in known})


def _bucket(plain: dict[str, Any]) -> BucketEntry:
    made = _made(BucketEntry, plain)
    return replace(
        made,
        records=_made(FileEntry, plain["records"]),
        events=_made(FileEntry, plain["events"]),
    )


def load(lake: Path) -> Manifest | None:
    """Return the manifest of a folder; None where it has none yet."""
    try:
        data = (lake / MANIFEST).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LakeError(f"{lake / MANIFEST}: {error.strerror}; accepted: a readable lake") from None
    return Manifest.from_json(data, str(lake / MANIFEST))


def save(lake: Path, manifest: Manifest) -> None:
    """Put the manifest in place in one step; every file it names must be on the disk already."""
    fresh = lake / f".{MANIFEST}.new"
    try:
        with fresh.open("wb") as sink:
            sink.write(manifest.to_json())
            sink.flush()
            os.fsync(sink.fileno())
        fresh.replace(lake / MANIFEST)
    finally:
        fresh.unlink(missing_ok=True)
    try:
        sync_folder(lake)
    except OSError as error:
        raise LakeError(
            f"{lake}: the lake is written, but the disk did not confirm it: {error.strerror}; "
            "accepted: the same command again"
        ) from None


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_files(lake: Path, manifest: Manifest) -> None:
    """Raise `LakeError` naming the first file that is missing or has another size than the manifest says."""
    for path, entry in sorted(manifest.files().items()):
        try:
            size = (lake / path).stat().st_size
        except OSError:
            raise LakeError(
                f"{lake}: the lake is not whole: {path} is missing; accepted: a lake copied with all its files"
            ) from None
        if size != entry.bytes:
            raise LakeError(
                f"{lake}: the lake is not whole: {path} has {size} bytes, not {entry.bytes}; "
                "accepted: a lake copied with all its files"
            )
