"""Members of a zip archive, read one at a time and never written: with checks of path, size and growth."""

from __future__ import annotations

import zipfile
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import zstandard

from agentlens.readers.inflate import FREE_BYTES, RATIO_LIMIT
from agentlens.readers.torn_archive import mended

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.base import Report
    from agentlens.readers.source import Source

MEMBER_LIMIT: Final = 2 << 30
MEMBERS_LIMIT: Final = 1_000_000
_ZSTD: Final = 93
_UNREADABLE: Final = (OSError, ValueError, NotImplementedError, zipfile.BadZipFile, RecursionError)
_HEADER: Final = 30  # fixed part of the header before a member's bytes


@contextmanager
def archive(source: Source, report: Report) -> Iterator[zipfile.ZipFile | None]:
    """Open the archive; None, and a fault, where it is none.

    Of one without its list of members, those that are whole are read, and where they end is a fault.
    """
    try:
        opened = zipfile.ZipFile(source.path)
    except _UNREADABLE as error:
        yield from _torn(source, report, error)
        return
    with opened:
        yield opened


def _torn(source: Source, report: Report, why: Exception) -> Iterator[zipfile.ZipFile | None]:
    try:
        with source.path.open("rb") as raw:
            file, count, stop = mended(raw)
            with zipfile.ZipFile(file) as opened:
                if count:
                    report.quarantine(
                        stop, f"the archive is cut off or damaged: {count} members are whole", "byte"
                    )
                    yield opened
                    return
    except _UNREADABLE as error:
        why = error
    report.quarantine(0, f"the archive cannot be read: {why}", "byte")
    yield None


def members(opened: zipfile.ZipFile, report: Report) -> list[zipfile.ZipInfo]:
    """Return the members that may be read, in order of their names; the newest of equal names."""
    found: dict[str, zipfile.ZipInfo] = {}
    for info in opened.infolist()[:MEMBERS_LIMIT]:
        reason = _refused(info)
        if reason is not None:
            report.quarantine(info.header_offset, f"member {info.filename[:120]!r}: {reason}", "byte")
        elif not info.is_dir():
            found[info.filename] = info
    return [found[name] for name in sorted(found)]


def _refused(info: zipfile.ZipInfo) -> str | None:
    if not info.filename:  # a name that begins with a zero byte
        return "it has no name"
    parts = info.filename.replace("\\", "/").split("/")
    if info.filename.startswith(("/", "\\")) or ".." in parts or ":" in parts[0]:
        return "a path that leads out of the archive"
    if info.flag_bits & 1:
        return "it is encrypted"
    if info.file_size > MEMBER_LIMIT:
        return f"it is longer than {MEMBER_LIMIT >> 30} GiB"
    if info.file_size > FREE_BYTES and info.file_size > RATIO_LIMIT * max(info.compress_size, 1):
        return f"it grows more than {RATIO_LIMIT} times"
    return None


def content(opened: zipfile.ZipFile, info: zipfile.ZipInfo, report: Report) -> bytes | None:
    """Return the bytes of one member, at most as many as it declares; None, and a fault, where it is damaged."""
    try:
        if info.compress_type == _ZSTD:
            return _zstd(opened, info)
        with opened.open(info) as stream:
            return stream.read(info.file_size)
    except (OSError, ValueError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        reason = str(error) or "it is damaged"
    except (RuntimeError, zstandard.ZstdError) as error:
        reason = str(error)
    report.quarantine(info.header_offset, f"member {info.filename[:120]!r}: {reason}", "byte")
    return None


def _zstd(opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Zstandard members, which the standard library does not open."""
    raw = opened.fp
    if raw is None:
        raise zipfile.BadZipFile("the archive is closed")
    raw.seek(info.header_offset)
    header = raw.read(_HEADER)
    if len(header) < _HEADER or header[:4] != b"PK\x03\x04":
        raise zipfile.BadZipFile("its header is damaged")
    raw.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1)
    packed = raw.read(info.compress_size)
    data = zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
        raise zipfile.BadZipFile("its checksum is wrong")
    return data
