"""The interface of a reader: one format a file, one `FORMAT` in it.

A reader turns one `Source` into `RawEvent` (and native receipts and branches). It keeps to the record in
hand, tells the `Report` about everything it could not read, and never raises for bad input.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from agentlens.model.raw import RawBranch, RawEvent, RawReceipt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from agentlens.readers.source import Head, Source

Record: TypeAlias = RawEvent | RawReceipt | RawBranch


@dataclass(slots=True)
class Fault:
    """One record that could not be read: where it stands and why."""

    position: int  # line (lines formats) or byte offset
    unit: Literal["line", "byte", "row", "record"]
    reason: str


@dataclass(slots=True)
class Report:
    """What happened while one source was read. Nothing is lost in silence."""

    records: int = 0
    faults: list[Fault] = field(default_factory=list)
    repaired: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)

    def quarantine(
        self, position: int, reason: str, unit: Literal["line", "byte", "row", "record"] = "line"
    ) -> None:
        """Set one record aside."""
        self.faults.append(Fault(position, unit, reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One export format.

    ``claim(head)`` gives 0 (not mine) to 100 (certain); the highest wins, an equal claim is an error that
    names both. ``read(source, report)`` yields records in file order. ``lines`` means that the file is one
    record a line and may be read in chunks, in parallel. ``timed`` formats carry times and are preferred
    when one run arrives through two formats (``rank``: the larger wins). ``companions(source)`` names the
    files beside a source that ``read`` looks into: when one of them changes, the source is read again.
    """

    name: str
    version: int
    title: str
    recognised_by: str
    proved_on: str
    claim: Callable[[Head], int]
    read: Callable[[Source, Report], Iterator[Record]]
    lines: bool = False
    rank: int = 50
    companions: Callable[[Source], Iterable[Path]] | None = None
