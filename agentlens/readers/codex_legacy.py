"""Codex sessions of the first client: one document, ``{"session": {...}, "items": [...]}``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentlens.model.raw import ABSENT
from agentlens.readers.decode import loads
from agentlens.readers.line_objects import object_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.base import Report
    from agentlens.readers.source import Source


def session_of(value: Any) -> dict[str, Any] | None:
    """Return what such a document says of its session; None for anything else."""
    if not isinstance(value, dict) or not isinstance(value.get("items"), list):
        return None
    session = value.get("session")
    return session if isinstance(session, dict) and isinstance(session.get("id"), str) else None


def rows(source: Source, report: Report) -> Iterator[tuple[int, Any]]:
    """Yield the records of a thread with their places: the lines of a file, or header and items of a document."""
    values = source.head().values
    if session_of(values[0] if values else None) is None:
        for number, line in object_lines(source, report):
            value = loads(line, report, number)
            if value is not ABSENT:
                yield number, value
        return
    document = source.document(report, ("items",))
    session = session_of(document)
    if session is None:
        report.quarantine(0, "a session without its items", "record")
        return
    yield 0, {**session, "record_type": "session"}
    yield from ((number, item) for number, item in enumerate(document["items"], 1) if item is not None)
