"""The start of a source: what its format is told from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agentlens.model.raw import ABSENT
from agentlens.readers import decode
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
    """

    data: bytes
    name: str = ""
    whole: bool = True
    path: Path | None = None

    @property
    def magic(self) -> str:
        """Kind of the file by its first bytes; "" for text."""
        return next((name for mark, name in _MAGIC if self.data.startswith(mark)), "")

    @cached_property
    def _sniffed(self) -> tuple[bool, tuple[Any, ...]]:
        if self.magic:
            return False, ()
        return _first_values(self.data.removeprefix(BOM), whole=self.whole)

    @property
    def values(self) -> tuple[Any, ...]:
        """The first few JSON values."""
        return self._sniffed[1]

    @property
    def lines(self) -> bool:
        """Whether the values stand one a line."""
        return self._sniffed[0]


def _first_values(data: bytes, *, whole: bool) -> tuple[bool, tuple[Any, ...]]:
    """Return whether the text is one value a line, and its first values."""
    document = decode.attempt(data) if whole else ABSENT
    if document is not ABSENT:
        return b"\n" not in data.strip() and isinstance(document, dict), (document,)
    lines = [line for raw in data.split(b"\n")[: _FEW * 4] if (line := raw.strip())]
    first = decode.attempt(lines[0]) if lines else ABSENT
    if first is ABSENT and data.lstrip()[:1] in {b"{", b"["}:
        saved = salvage(data).value
        if saved is not ABSENT and not _stands_alone(lines):
            return False, (saved,)
    values = [value for line in lines if isinstance(value := decode.attempt(line), (dict, list))]
    return bool(values), tuple(values[:_FEW])


def _stands_alone(lines: list[bytes]) -> bool:
    """Say whether lines behind a broken first one are objects of their own: then it is just a bad line.

    An array written one element a line has such a line too, its last, which lacks the comma.
    """
    needed = 2 if lines[0][:1] == b"[" else 1
    return sum(line[:1] == b"{" and isinstance(decode.attempt(line), dict) for line in lines[1:]) >= needed
