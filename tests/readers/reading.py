"""How the tests of the readers read."""

from __future__ import annotations

import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers import registry
from agentlens.readers.base import Record, Report
from agentlens.readers.source import Source


def records(data: Path | str | bytes, format: str | None = None) -> tuple[list[Record], Report]:  # noqa: A002
    """Read a file, or bytes as if they were one, in the named or the sniffed format."""
    if isinstance(data, bytes):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "export")
            path.write_bytes(data)
            return records(path, format)
    report = Report()
    found = registry.named(format) if format else None
    return list(registry.read(Source.of(data), found, report)), report


def events(data: Path | str | bytes, format: str | None = None) -> list[RawEvent]:  # noqa: A002
    """Return only the events."""
    return [record for record in records(data, format)[0] if isinstance(record, RawEvent)]


def tools(data: Path | str | bytes, format: str | None = None) -> list[RawEvent]:  # noqa: A002
    """Return only the tool calls."""
    return [event for event in events(data, format) if event.kind == "tool"]


def said(record: Record) -> dict[str, Any]:
    """Return what a record says, without what is not said and without its place."""
    values = {
        part.name: getattr(record, part.name)
        for part in fields(record)
        if part.name not in {"position", "line"}
    }
    return {name: value for name, value in values.items() if value is not None and value is not ABSENT}
