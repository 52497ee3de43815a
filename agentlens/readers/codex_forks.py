"""Forked Codex threads: which lines at the head of a file repeat those of the thread it was forked from.

A fork begins with its own ``session_meta``; then comes the parent's, and what the parent had said and done so far.
The copies carry the time at which they were copied, or the one they had.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agentlens.errors import InputError
from agentlens.readers.blocks import text_of
from agentlens.readers.decode import attempt
from agentlens.readers.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_COPY_GAP_US: Final = 100_000
"""Copies are written in one go; a pause longer than this ends them. No model answers as fast."""
_THREAD: Final = re.compile(r"[\w-]{8,64}")
_DATED: Final = re.compile(r"\d{2}|\d{4}")
_MARKERS: Final = frozenset({"task_started", "turn_started"})


@dataclass(slots=True)
class Copies:
    """Tells the copies at the head of a thread from the lines behind them, in file order.

    ``began``: when the thread was made. ``known``: ids that stand in the parent's file, where it is at hand.
    ``marked``: the parent's own first line was seen in this file, so that what follows is a copy.
    ``forked``: the parent is known. ``spawned``: it is a child that another thread started.
    """

    began: int | None = None
    known: frozenset[str] = frozenset()
    marked: bool = False
    last: int | None = None
    over: bool = False
    forked: bool = False
    spawned: bool = False

    def mark(self, at: int | None) -> None:
        """Take note of the parent's first line."""
        self.marked, self.last = True, at

    def holds(self, payload: dict[str, Any], at: int | None) -> bool:
        """Say whether a line is a copy; behind the first that is none, none is."""
        if self.over:
            return False
        if self.spawned and at is not None and self.began is not None and at < self.began:
            return True  # a child thread may begin with the words of the one that started it
        if not (self.marked or self.known):
            return False
        written_then = self._is_written_then(at)
        own = ids(payload)
        if own and self.known and (_is_item(payload) or text_of(payload.get("type")) in _MARKERS):
            copied = bool(own & self.known)
        else:
            copied = written_then or not (self.marked or payload.get("role") == "user")
        self.over = not copied
        return copied

    def _is_written_then(self, at: int | None) -> bool:
        """Say whether a line is older than the thread, or was written in one go with the line before."""
        if at is None or (self.began is not None and at < self.began):
            return True
        close = self.last is not None and at - self.last <= _COPY_GAP_US
        self.last = at if self.last is None else max(self.last, at)
        return close


def _is_item(payload: dict[str, Any]) -> bool:
    kind = text_of(payload.get("type"))
    return kind in {"message", "reasoning"} or kind.endswith(("_call", "_call_output"))


def ids(payload: dict[str, Any]) -> frozenset[str]:
    """Return every id that a record goes by."""
    item = payload.get("item")
    inner = item.get("id") if isinstance(item, dict) else None
    found = (payload.get("call_id"), payload.get("id"), payload.get("turn_id"), inner)
    return frozenset(text for value in found if (text := text_of(value)))


def ids_in(source: Source, thread: str) -> frozenset[str]:
    """Return the ids of the thread that was forked, where its file is at hand."""
    found: set[str] = set()
    for path in files_of(source, thread):
        try:
            for _, line in Source.of(path).lines():
                value = attempt(line)
                payload = value.get("payload") if isinstance(value, dict) else None
                if isinstance(payload, dict):
                    found |= ids(payload)
        except InputError:
            continue
    return frozenset(found)


def files_of(source: Source, thread: str) -> list[Path]:
    """Return the files of a thread: beside this one, or under another day of the same sessions, in order."""
    folder = source.siblings()
    if folder is None or not _THREAD.fullmatch(thread):
        return []
    name = f"rollout-*{thread}.jsonl*"
    return sorted(folder.glob(name)) or sorted(_other_days(folder.resolve(), name))


def _other_days(folder: Path, name: str) -> Iterator[Path]:
    """Sessions stand in folders of year, month and day."""
    levels = 0
    while levels < 3 and _DATED.fullmatch(folder.name):
        folder, levels = folder.parent, levels + 1
    if levels:
        yield from folder.glob("/".join(["[0-9]*"] * levels + [name]))


def parents(source: Source) -> list[Path]:
    """Return the files that reading this one looks into: those of the thread that it was forked from."""
    for value in source.head().values:
        payload = value.get("payload") if isinstance(value, dict) else None
        if isinstance(payload, dict) and (forked := text_of(payload.get("forked_from_id"))):
            return files_of(source, forked)
    return []
