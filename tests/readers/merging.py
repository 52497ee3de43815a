"""The literal rule by which records of one action become one: for tests of readers that yield halves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentlens.model.raw import RawEvent
from tests.readers.reading import said

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentlens.readers.base import Record


def merged(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Merge events by run and identity, the later value winning; in order of first appearance."""
    found: dict[Any, dict[str, Any]] = {}
    for number, record in enumerate(records):
        assert isinstance(record, RawEvent)
        key = number if record.identity is None else (record.run_id, record.identity)
        found.setdefault(key, {}).update(said(record))
    return list(found.values())


def of_kind(events: Iterable[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    """Return the events of these kinds."""
    return [event for event in events if event["kind"] in kinds]
