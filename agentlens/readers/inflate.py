"""Streams that are no plain UTF-8: gzip, zstd (also of several parts), UTF-16; told by their first bytes."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from typing import TYPE_CHECKING, cast

import zstandard

if TYPE_CHECKING:
    from typing import BinaryIO

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_UTF16 = {b"\xff\xfe", b"\xfe\xff"}  # what a redirection in PowerShell 5 writes
FREE_BYTES = 256 << 20
RATIO_LIMIT = 1000
"""Behind the first 256 MiB, data may be at most this many times as long as its compressed form."""


class Damage(Exception):  # noqa: N818 - told to the report, never raised at a user
    """Compressed data that breaks off, is not what it says, or grows beyond reason."""


class _Inflated(io.RawIOBase):
    """The decompressed bytes of a file, with every way it can fail turned into `Damage`."""

    def __init__(self, raw: BinaryIO, stream: BinaryIO) -> None:
        self._raw = raw
        self._stream = stream
        self._out = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        try:
            data = self._stream.read(len(buffer))
        except EOFError:
            raise Damage("cut off: the compressed data ends early") from None
        except (gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
            raise Damage(f"the compressed data is damaged: {error}") from None
        self._out += len(data)
        if self._out > FREE_BYTES and self._out > RATIO_LIMIT * max(self._raw.tell(), 1):
            raise Damage(f"the data grows more than {RATIO_LIMIT} times when decompressed")
        buffer[: len(data)] = data
        return len(data)


class _Recoded(io.RawIOBase):
    """UTF-16 text as UTF-8 bytes."""

    def __init__(self, raw: BinaryIO) -> None:
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


def opened(raw: BinaryIO) -> BinaryIO:
    """Return the stream to read: ``raw`` itself, or its content in plain form."""
    magic = raw.read(4)
    raw.seek(0)
    if magic[:2] == _GZIP:
        return _buffered(raw, cast("BinaryIO", gzip.GzipFile(fileobj=raw, mode="rb")))
    if magic == _ZSTD:
        reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=False)
        return _buffered(raw, cast("BinaryIO", reader))
    if magic[:2] in _UTF16:
        return cast("BinaryIO", io.BufferedReader(_Recoded(raw), 1 << 18))
    return raw


def _buffered(raw: BinaryIO, stream: BinaryIO) -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(_Inflated(raw, stream), 1 << 18))
