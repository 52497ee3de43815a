"""Jaeger JSON: microseconds, references, tags and processes become the spans of any other export."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.readers.lanes_made import judged
from tests.readers.reading import events, records, said
from tests.readers.spans_made import T0, TRACE, agent, lines, request, sid, tool

if TYPE_CHECKING:
    from pathlib import Path


def tags(plain: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "type": "string", "value": value} for name, value in plain.items()]


def span(
    number: int, name: str, plain: dict[str, Any], *, parent: int | None = None, **more: Any
) -> dict[str, Any]:
    made = {
        "traceID": TRACE,
        "spanID": sid(number),
        "operationName": name,
        "references": [],
        "startTime": (T0 + number * 10**9 + 123_456_789) // 1000,
        "duration": 500_000,
        "tags": tags(plain),
        "logs": [],
        "processID": "p1",
    }
    if parent is not None:
        made["references"] = [{"refType": "CHILD_OF", "traceID": TRACE, "spanID": sid(parent)}]
    return made | more


AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Finder", "otel.status_code": "OK"}
SEARCH = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "search",
    "gen_ai.tool.call.arguments": '{"q": "a"}',
    "gen_ai.tool.call.result": "3 hits",
    "otel.status_code": "OK",
}
SPANS = [span(1, "invoke_agent Finder", AGENT), span(2, "execute_tool search", SEARCH, parent=1)]
ONE = {"traceID": TRACE, "spans": SPANS, "processes": {"p1": {"serviceName": "bot", "tags": []}}}


def told(data: bytes) -> list[dict[str, Any]]:
    return sorted(map(said, events(data)), key=lambda one: one["span_id"])


@pytest.mark.parametrize(
    "data",
    [
        json.dumps({"data": [ONE], "total": 0, "errors": None}).encode(),
        json.dumps(ONE, indent=1).encode(),
        b"".join(json.dumps({**one, "process": ONE["processes"]["p1"]}).encode() + b"\n" for one in SPANS),
    ],
    ids=["api", "one trace", "stored spans"],
)
def test_every_shape_is_the_same_run_as_its_otlp_form(data: bytes) -> None:
    """A download, one trace, or the spans a store keeps one a line."""
    other = request(agent(1, "Finder"), tool(2, "search", '{"q": "a"}', "3 hits"))
    assert told(data) == told(lines(other))


@pytest.mark.parametrize("tags_", [{"error": True}, {"error": "true"}, {"otel.status_code": "ERROR"}])
def test_a_failed_span_is_told_by_its_tags(tags_: dict[str, Any]) -> None:
    """The class of its exception stands in a log; a class of HTTP alone would be none."""
    log = {"timestamp": T0 // 1000, "fields": tags({"event": "exception", "exception.type": "KeyError"})}
    (event,) = events(
        json.dumps(span(2, "x", SEARCH | {"otel.status_code": ""} | tags_, logs=[log])).encode()
    )
    assert event.error_class == "KeyError"


def test_ids_without_leading_zeros_are_the_same_ids() -> None:
    """Jaeger writes numbers, not digits."""
    short = span(2, "x", SEARCH, traceID="ab", parentSpanID="1")
    (event,) = events(json.dumps(short).encode())
    assert (event.trace_id, event.span_id, event.parent_span_id) == ("ab".rjust(32, "0"), sid(2), sid(1))


def test_what_a_span_follows_from_is_no_parent() -> None:
    """A reference into another trace names the run this one came from."""
    other = [{"refType": "FOLLOWS_FROM", "traceID": "f" * 32, "spanID": sid(9)}]
    (event,) = events(json.dumps(span(1, "x", AGENT, references=other)).encode())
    assert (event.parent_span_id, event.parent_run_id) == (None, "f" * 32)


def test_what_a_span_follows_from_in_its_own_trace_is_where_it_belongs() -> None:
    """A handoff that only follows from its agent's span stands in that agent's lane; a real parent comes first."""
    after = [{"refType": "FOLLOWS_FROM", "traceID": TRACE, "spanID": sid(1)}]
    below = [*after, {"refType": "CHILD_OF", "traceID": TRACE, "spanID": sid(2)}]
    handoff = {"traceloop.span.kind": "handoff", "gen_ai.handoff.to_agent": "B"}
    for references, parent in ((after, sid(1)), (below, sid(2))):
        (event,) = events(json.dumps(span(3, "handoff", handoff, references=references)).encode())
        assert (event.kind, event.target, event.parent_span_id, event.agent) == ("handoff", "B", parent, None)


def test_times_that_are_none_are_left_out_and_counted() -> None:
    """No duration leaves a span open, no start leaves it without a time."""
    (event,), report = records(json.dumps(span(2, "x", SEARCH, startTime=1.5, duration=None)).encode())
    assert (event.at, event.ended_at, event.open) == (None, None, True)
    assert report.repaired == {"unreadable time left out": 1}


def test_the_real_kagent_run(shared: Path) -> None:
    """One tool call among 96 spans of noise, in the lane of its agent, under its conversation."""
    (row,) = judged(shared / "traces/kagent-otlp/helm.json").to_dicts()
    assert (row["agent"], row["tool"], row["verdict"]) == ("helm_agent", "helm_list_releases", "working")
    assert row["run_id"].startswith("ctx-")


def test_a_reference_to_another_trace_and_the_callers_side_are_read() -> None:
    """A started agent keeps the span of the other trace it follows from; a client's span of an agent is a handoff."""
    other = {"refType": "FOLLOWS_FROM", "traceID": "b" * 32, "spanID": sid(9)}
    spans = [
        span(1, "invoke_agent Finder", AGENT, references=[other]),
        span(2, "invoke_agent Finder", {**AGENT, "span.kind": "client"}, parent=1),
    ]
    found = events(json.dumps({"data": [{**ONE, "spans": spans}]}).encode())
    (began,) = (event for event in found if event.kind == "agent")
    (hand,) = (event for event in found if event.kind == "handoff")
    assert (began.parent_run_id, began.call_id) == ("b" * 32, sid(9))
    assert (hand.target, hand.call_id) == ("Finder", sid(2))
