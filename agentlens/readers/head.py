"""The start of a source: what its format is told from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from agentlens.model.raw import ABSENT
from agentlens.readers import decode
from agentlens.readers.base import Report
from agentlens.readers.salvage import salvage

if TYPE_CHECKING:
    from pathlib import Path

HEAD_BYTES = 65_536
BOM = b"\xef\xbb\xbf"
_FEW = 8
_MAGIC = (
    (b"PK\x03\x04", "zip"),
    (b"PAR1", "parquet"),
    (b"SQLite format 3\x00", "sqlite"),
    (b"\x80\x02", "pickle"),
    (b"\x80\x03", "pickle"),
    (b"\x80\x04", "pickle"),
    (b"\x80\x05", "pickle"),
)


@dataclass(frozen=True)
class Head:
    """What a format is told from: the start of a source, decompressed.

    ``values``: the first few decoded JSON values, one a line, or the start of one document (its brackets
    closed behind the last whole member). ``lines``: whether it is one JSON value a line. ``magic``:
    ``zip``, ``parquet``, ``sqlite``, ``pickle`` or "" (text). ``name``: the file's own name, in lower case.
    ``damage``: why the data breaks off inside the head; "" where it does not.
    """

    data: bytes
    name: str = ""
    whole: bool = True
    path: Path | None = None
    damage: str = ""

    @property
    def magic(self) -> str:
        """Kind of the file by its first bytes; "" for text."""
        return next((name for mark, name in _MAGIC if self.data.startswith(mark)), "")

    @cached_property
    def _document(self) -> Any:
        """The whole of a short source as one value; `ABSENT` where it is longer, or is none."""
        return _decoded(self.data.removeprefix(BOM)) if self.whole and not self.magic else ABSENT

    @cached_property
    def _lines(self) -> list[bytes]:
        if self.magic:
            return []
        first = self.data.removeprefix(BOM).split(b"\n", _FEW * 4)[: _FEW * 4]
        return [line for raw in first if (line := raw.strip())]

    @cached_property
    def lines(self) -> bool:
        """Whether the values stand one a line."""
        if self._document is not ABSENT:
            return b"\n" not in self.data.strip() and isinstance(self._document, dict)
        if self._is_begun():
            return False
        return any(isinstance(_decoded(line), (dict, list)) for line in self._lines)

    @cached_property
    def values(self) -> tuple[Any, ...]:
        """The first few JSON values."""
        if self._document is not ABSENT:
            return (self._document,)
        if self._is_begun():
            saved = salvage(self.data.removeprefix(BOM)).value
            return () if saved is ABSENT else (saved,)
        found = (value for line in self._lines if isinstance(value := _decoded(line), (dict, list)))
        return tuple(islice(found, _FEW))

    @cached_property
    def records(self) -> tuple[Any, ...]:
        """The first values, or the first elements of the one array that they are."""
        only = self.values[0] if len(self.values) == 1 else None
        return tuple(only[:_FEW]) if isinstance(only, list) else self.values

    def _is_begun(self) -> bool:
        """Say whether this is the start of a document, not a line."""
        lines = self._lines
        if not lines or lines[0][:1] not in {b"{", b"["} or _decoded(lines[0]) is not ABSENT:
            return False
        return not _stands_alone(lines)


def _decoded(data: bytes) -> Any:
    """Decode as the records themselves will be: a ``NaN`` in its first line hides no format."""
    return decode.loads(data, Report(), 0)


def _stands_alone(lines: list[bytes]) -> bool:
    """Say whether lines behind a broken first one are objects of their own: then it is just a bad line.

    An array written one element a line has such a line too, its last, which lacks the comma.
    """
    needed = 2 if lines[0][:1] == b"[" else 1
    return sum(line[:1] == b"{" and isinstance(_decoded(line), dict) for line in lines[1:]) >= needed
