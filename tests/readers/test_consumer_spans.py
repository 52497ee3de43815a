"""A queue's consumer that links to what was sent is a start; any other span stays what it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.readers.reading import events
from tests.readers.spans_made import agent, document, request, sid, span

OTHER = "b" * 32
LINK = [{"traceId": OTHER, "spanId": sid(7)}]


def kinds(*spans: dict[str, Any]) -> list[tuple[str, str | None, str | None]]:
    """Kind, linked trace and linked span of each event."""
    return [(e.kind, e.parent_run_id, e.call_id) for e in events(document(request(*spans)))]


@pytest.mark.parametrize("kind", [5, "SPAN_KIND_CONSUMER"])
def test_a_consumer_with_a_link_is_a_start(kind: Any) -> None:
    """It keeps the span that it links to, and the trace that span is in."""
    assert kinds(span(1, "process jobs", {}, kind=kind, links=LINK)) == [("accept", OTHER, sid(7))]


@pytest.mark.parametrize("more", [{"kind": 5}, {"kind": 4, "links": LINK}, {"links": LINK}])
def test_without_a_link_or_as_a_producer_it_is_a_fact(more: dict[str, Any]) -> None:
    """Only what took a message and says which is a start."""
    ((kind, _, call),) = kinds(span(1, "process jobs", {}, **more))
    assert (kind, call) == ("log", None)


def test_an_agent_span_of_a_consumer_stays_an_agent() -> None:
    """Its own link counts, as before."""
    assert kinds(agent(1, "Writer", kind=5, links=LINK)) == [("agent", OTHER, sid(7))]


def test_a_span_of_phoenix_with_a_link_is_a_start_too() -> None:
    """Where an answer of its interface has kept kind and links; most have lost both."""
    link = {"context": {"trace_id": OTHER, "span_id": sid(7)}, "attributes": {}}
    row = {
        "name": "process jobs", "span_kind": "UNKNOWN", "parent_id": None, "kind": "SpanKind.CONSUMER", "links": [link],
        "context": {"trace_id": "a" * 32, "span_id": sid(1)}, "start_time": "2026-11-30T10:00:00Z",
    }  # fmt: skip
    (event,) = events(json.dumps([row]).encode())
    assert (event.kind, event.parent_run_id, event.call_id) == ("accept", OTHER, sid(7))
