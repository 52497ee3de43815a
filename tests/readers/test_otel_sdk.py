"""Span dumps of OpenTelemetry's Python SDK, in hex and in whole numbers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.readers.lanes_made import judged
from tests.readers.reading import events, records, said
from tests.readers.spans_made import T0, TRACE, agent, lines, request, sid, tool

if TYPE_CHECKING:
    from pathlib import Path

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Finder"}
SEARCH = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "search",
    "gen_ai.tool.call.arguments": '{"q": "a"}',
    "gen_ai.tool.call.result": "3 hits",
}


def dumped(
    number: int, name: str, plain: dict[str, Any], parent: int | None = None, **more: Any
) -> dict[str, Any]:
    """Return a span as ``to_json`` writes it: hex with 0x, times as text."""
    seconds = f"2026-11-30T19:13:{20 + number:02}"
    return {
        "name": name,
        "context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{sid(number)}", "trace_state": "[]"},
        "kind": "SpanKind.INTERNAL",
        "parent_id": None if parent is None else f"0x{sid(parent)}",
        "start_time": f"{seconds}.123456Z",
        "end_time": f"{seconds}.623456Z",
        "status": {"status_code": "OK"},
        "attributes": plain,
        "events": [],
        "links": [],
        "resource": {"attributes": {"service.name": "bot"}, "schema_url": ""},
    } | more


def modelled(one: dict[str, Any], number: int, parent: int | None = None) -> dict[str, Any]:
    """Return a span as a model of the SDK's objects is dumped: whole numbers everywhere."""
    context = {"trace_id": int(TRACE, 16), "span_id": int(sid(number), 16), "is_remote": False}
    made = {name: value for name, value in one.items() if name != "parent_id"}
    start = T0 + number * 10**9 + 123_456_789
    return made | {
        "context": context,
        "parent": None if parent is None else context | {"span_id": int(sid(parent), 16)},
        "start_time": start,
        "end_time": start + 500_000_000,
        "status": {"status_code": "ok", "description": None},
    }


SPANS = [dumped(2, "execute_tool search", SEARCH, 1), dumped(1, "invoke_agent Finder", AGENT)]
MODELS = {"spans": [modelled(SPANS[0], 2, 1), modelled(SPANS[1], 1)], "final_output": "x"}

ROWS = [*SPANS, dumped(3, "execute_tool search", {**SEARCH}, 1), modelled(dumped(4, "x", {**SEARCH}), 4, 1)]


def told(data: bytes) -> list[dict[str, Any]]:
    return sorted(map(said, events(data)), key=lambda one: one["span_id"])


@pytest.mark.parametrize(
    "data",
    [
        b"\n".join(json.dumps(one, indent=4).encode() for one in SPANS) + b"\n",
        b"".join(json.dumps(one).encode() + b"\n" for one in SPANS),
        json.dumps(SPANS).encode(),
        json.dumps(MODELS, indent=2).encode(),
    ],
    ids=["console", "lines", "array", "model"],
)
def test_every_dump_is_the_same_run_as_its_otlp_form(data: bytes) -> None:
    """Console exporters write one document a span; whole numbers of 128 bits stay exact."""
    other = request(agent(1, "Finder"), tool(2, "search", '{"q": "a"}', "3 hits"))
    assert told(data) == told(lines(other))


def test_a_failure_has_the_class_of_its_exception() -> None:
    """Its message is what was seen."""
    exception = {
        "name": "exception",
        "timestamp": "2026-11-30T19:13:22.6Z",
        "attributes": {"exception.type": "KeyError", "exception.message": "A-404"},
    }
    failed = {"status_code": "ERROR", "description": "KeyError: A-404"}
    plain = {name: value for name, value in SEARCH.items() if not name.endswith("result")}
    (event,) = events(json.dumps(dumped(2, "x", plain, events=[exception], status=failed)).encode())
    assert (event.error_class, event.result) == ("KeyError", "A-404")


def test_a_span_without_an_end_is_open() -> None:
    """A live span was dumped: nothing is known of its outcome."""
    (event,) = events(json.dumps(dumped(2, "x", SEARCH, end_time=None)).encode())
    assert (event.ended_at, event.open) == (None, True)


def test_a_span_without_a_trace_is_set_aside() -> None:
    """The others stand."""
    found, report = records(
        json.dumps([SPANS[0], SPANS[1] | {"context": {"span_id": "0x1", "trace_id": 0}}]).encode()
    )
    assert len(found) == 1
    assert [fault.reason for fault in report.faults] == ["a span without a readable context.trace_id"]


@pytest.mark.parametrize("name", ["LANGCHAIN", "LLAMA_INDEX", "OPENAI", "TINYAGENT"])
def test_the_real_dumps_of_four_frameworks(name: str, shared: Path) -> None:
    """Each asked for the time, wrote a file, and some said they were done; ids of 39 digits are exact."""
    path = shared / f"traces/any-agent-otel/runs/{name}_trace.json"
    found = judged(path)
    assert found["tool"].to_list()[:2] == ["get_current_time", "write_file"]
    assert set(found["agent"]) == {"any_agent"}
    assert set(found["verdict"]) == {"working"}
    spans = json.loads(path.read_text())["spans"]
    assert {event.trace_id for event in events(path)} == {f"{spans[0]['context']['trace_id']:032x}"}


def test_the_span_that_is_linked_and_the_callers_side_are_kept() -> None:
    """An agent that was asked elsewhere links to the span that asked; a client span below another is a handoff."""
    far = {"trace_id": "0x" + "b" * 32, "span_id": "0x" + "c" * 16}
    plain = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Writer"}
    base = {
        "name": "invoke_agent Writer",
        "context": {"trace_id": "0x" + "a" * 32, "span_id": "0x" + "1" * 16},
        "start_time": "2026-03-01T10:00:00.000001Z",
        "end_time": "2026-03-01T10:00:01Z",
        "attributes": plain,
    }
    inside = base | {
        "kind": "SpanKind.INTERNAL",
        "parent_id": None,
        "links": [{"context": far, "attributes": {}}],
    }
    (found,) = [one for one in events(json.dumps(inside).encode()) if one.kind == "agent"]
    assert (found.parent_run_id, found.call_id) == ("b" * 32, "c" * 16)
    caller = base | {"kind": "SpanKind.CLIENT", "parent_id": "0x" + "2" * 16, "links": []}
    kinds = [(one.kind, one.target) for one in events(json.dumps(caller).encode())]
    assert ("handoff", "Writer") in kinds
