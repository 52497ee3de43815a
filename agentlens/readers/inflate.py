"""Streams that are no plain UTF-8: gzip, zstd (also of several parts), UTF-16; told by their first bytes."""

from __future__ import annotations

import codecs
import io
import zlib
from typing import TYPE_CHECKING, Any, Final

import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_UTF16: Final = {b"\xff\xfe", b"\xfe\xff"}  # what a redirection in PowerShell 5 writes
_GZIP_BITE: Final = 1 << 14
_ZSTD_BITE: Final = 1 << 10
"""Compressed bytes taken at a time: either may grow to 32 MiB at most."""
FREE_BYTES = 256 << 20
RATIO_LIMIT: Final = 1000
"""Behind the first 256 MiB, data may be at most this many times as long as its compressed form."""


class Damage(Exception):  # noqa: N818 - told to the report, never raised at a user
    """Compressed data that breaks off, is not what it says, or grows beyond reason."""


class _Inflated(io.RawIOBase):
    """The content of the members or frames of a compressed file, one after the other.

    What can be decompressed before a break is given before the break is told.
    """

    def __init__(self, raw: io.BufferedReader, new: Callable[[], Any], bite: int) -> None:
        self._raw = raw
        self._new = new
        self._bite = bite
        self._part = new()
        self._begun = False
        self._fed = b""
        self._left = memoryview(b"")
        self._out = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._left:
            block = self._fed or self._raw.read(self._bite)
            if not self._begun:
                block = block.lstrip(b"\0")  # padding between parts
                if not block and not self._fed:
                    return 0
            if not block and not self._fed:
                raise Damage("cut off: the compressed data ends early")
            self._fed = b""
            if block:
                self._grow(block)
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def _grow(self, block: bytes) -> None:
        try:
            data = self._part.decompress(block)
        except (zlib.error, zstandard.ZstdError) as error:
            raise Damage(f"the compressed data is damaged: {error}") from None
        self._begun = True
        if self._part.eof:
            self._fed = self._part.unused_data
            self._part = self._new()
            self._begun = False
        self._left = memoryview(data)
        self._out += len(data)
        if self._out > FREE_BYTES and self._out > RATIO_LIMIT * max(self._raw.tell(), 1):
            raise Damage(f"the data grows more than {RATIO_LIMIT} times when decompressed")


class _Recoded(io.RawIOBase):
    """UTF-16 text as UTF-8 bytes."""

    def __init__(self, raw: io.BufferedReader) -> None:
        self._raw = raw
        self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._left:
            block = self._raw.read(len(buffer))
            self._left = self._decoder.decode(block, final=not block).encode("utf-8", "replace")
            if not block:
                break
        data, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def is_plain(magic: bytes) -> bool:
    """Say whether bytes that begin so can be read as they are (and cut anywhere between lines)."""
    return magic[:2] != _GZIP and magic[:4] != _ZSTD and magic[:2] not in _UTF16


def opened(raw: io.BufferedReader) -> io.BufferedReader:
    """Return the stream to read: ``raw`` itself, or its content in plain form."""
    magic = raw.read(4)
    raw.seek(0)
    if magic[:2] == _GZIP:
        return io.BufferedReader(_Inflated(raw, lambda: zlib.decompressobj(31), _GZIP_BITE), 1 << 18)
    if magic == _ZSTD:
        frames = _Inflated(raw, lambda: zstandard.ZstdDecompressor().decompressobj(), _ZSTD_BITE)
        return io.BufferedReader(frames, 1 << 18)
    if magic[:2] in _UTF16:
        return io.BufferedReader(_Recoded(raw), 1 << 18)
    return raw
