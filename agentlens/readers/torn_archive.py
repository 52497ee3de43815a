"""Zip archives without their list of members, as a cut copy or a killed writer leaves them.

The list stands at the end of the file; before each member stands a header that says the same. From these a list is
made, and the file is read as if it ended with it. Nothing is written.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, Final

from agentlens.readers.inflate import FREE_BYTES, RATIO_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCAL: Final = b"PK\x03\x04"
_HEADER: Final = struct.Struct("<4s5H3L2H")
_ENTRY: Final = struct.Struct("<4s6H3L5H2L")
_END: Final = struct.Struct("<4s4H2LH")
_WIDE_END: Final = struct.Struct("<4sQ2H2L4Q")
_WIDE_PLACE: Final = struct.Struct("<4sLQL")
_TOLD_BEHIND: Final = 8
"""The flag of a member whose sizes follow its bytes."""
_DEFLATED: Final = 8
_FULL: Final = 0xFFFFFFFF
_WIDE: Final = 1
_BITE: Final = 1 << 16
MOST: Final = 1_000_000
IN_VAIN: Final = 2 << 30
"""How many bytes are looked at or inflated, at most, for members that turn out not to be whole."""


@dataclass(frozen=True, slots=True)
class _Found:
    """One whole member: what its header says, and where its bytes end."""

    header: tuple[int, ...]  # version, flags, method, time, date
    name: bytes
    start: int
    end: int
    crc: int
    packed: int
    size: int

    def entry(self) -> bytes:
        """Return what the list says of it."""
        wide = struct.pack("<2H3Q", _WIDE, 24, self.size, self.packed, self.start)
        flags = self.header[1] & ~_TOLD_BEHIND
        version = max(self.header[0], 45)
        known = (version, version, flags, *self.header[2:], self.crc, _FULL, _FULL)
        return (
            _ENTRY.pack(b"PK\x01\x02", *known, len(self.name), len(wide), 0, 0, 0, 0, _FULL)
            + self.name
            + wide
        )


class _Mended(io.RawIOBase):
    """A file and, behind its last whole member, other bytes."""

    def __init__(self, raw: BinaryIO, stop: int, tail: bytes) -> None:
        self._raw = raw
        self._stop = stop
        self._tail = tail
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._stop + len(self._tail)}[whence]
        if base + offset < 0:
            raise OSError("a place before the file")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        wanted = len(buffer)
        if self._at < self._stop:
            self._raw.seek(self._at)
            data = self._raw.read(min(wanted, self._stop - self._at))
        else:
            behind = self._at - self._stop
            data = self._tail[behind : behind + wanted]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        self._raw.close()
        super().close()


def mended(raw: BinaryIO) -> tuple[BinaryIO, int, int]:
    """Return the file with a list of the members that are whole, their number, and the place behind the last.

    ``raw`` is closed with what is returned. A member whose header is damaged is passed over up to the next header.
    """
    found = list(islice(_Scan(raw).members(), MOST))
    stop = max((one.end for one in found), default=0)
    listed = b"".join(one.entry() for one in found)
    where = stop + len(listed)
    count = len(found)
    tail = b"".join(
        (
            listed,
            _WIDE_END.pack(b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, len(listed), stop),
            _WIDE_PLACE.pack(b"PK\x06\x07", 0, where, 1),
            _END.pack(b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, _FULL, _FULL, 0),
        )
    )
    return io.BufferedReader(_Mended(raw, stop, tail)), count, stop


@dataclass(slots=True)
class _Scan:
    """Looks for members from the start of a file on."""

    raw: BinaryIO
    in_vain: int = 0

    def members(self) -> Iterator[_Found]:
        """Yield the members that are whole, in order of their place."""
        length = self.raw.seek(0, os.SEEK_END)
        at = self._next(0)
        while at is not None:
            found = self._member(at, length)
            if found is not None:
                yield found
            elif self.in_vain > IN_VAIN:
                return
            else:
                self.in_vain += _BITE
            at = self._next(at + 4 if found is None else found.end)

    def _next(self, start: int) -> int | None:
        """Find the next header at or behind a place; mostly it is there."""
        self.raw.seek(start)
        kept = b""
        while data := self.raw.read(_BITE):
            block = kept + data
            if (place := block.find(_LOCAL)) >= 0:
                return start - len(kept) + place
            start += len(data)
            kept = block[-3:]
        return None

    def _member(self, start: int, length: int) -> _Found | None:
        """Read the header at a place; None where the member is not whole or its length is not known."""
        self.raw.seek(start)
        fixed = self.raw.read(_HEADER.size)
        if len(fixed) < _HEADER.size:
            return None
        _, *told, crc, packed, size, named, extended = _HEADER.unpack(fixed)
        rest = self.raw.read(named + extended)
        begun = start + _HEADER.size + named + extended
        if len(rest) < named + extended or not named:
            return None
        name, extra = rest[:named], rest[named:]
        if told[1] & _TOLD_BEHIND:
            measured = self._measured(begun) if told[2] == _DEFLATED else None
            if measured is None:
                return None
            packed, size, crc = measured
        elif _FULL in {packed, size}:
            wide = _wide(extra)
            if wide is None:
                return None
            size, packed = wide
        end = begun + packed
        return _Found(tuple(told), name, start, end, crc, packed, size) if end <= length else None

    def _measured(self, begun: int) -> tuple[int, int, int] | None:
        """Inflate a member to find out how long it is; None where it breaks off or grows beyond reason."""
        self.raw.seek(begun)
        part = zlib.decompressobj(-zlib.MAX_WBITS)
        taken = size = crc = 0
        data = b""
        while not part.eof:
            if not data:
                data = self.raw.read(_BITE)
                taken += len(data)
            try:
                made = part.decompress(data, _BITE * 16)
            except zlib.error:
                made, data = b"", b""
            endless = size > FREE_BYTES and size > RATIO_LIMIT * taken
            if not data or endless or self.in_vain + size > IN_VAIN:
                self.in_vain += max(size, taken)
                return None
            data = part.unconsumed_tail
            size, crc = size + len(made), zlib.crc32(made, crc)
        return taken - len(part.unused_data), size, crc


def _wide(extra: bytes) -> tuple[int, int] | None:
    """Return size and packed size of a member that may be longer than 4 GiB."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        if kind == _WIDE and size >= 16 and at + 20 <= len(extra):
            full, packed = struct.unpack_from("<2Q", extra, at + 4)
            return full, packed
        at += 4 + size
    return None
