"""MLflow: base64 ids, JSON inside attribute texts, two schema versions."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from agentlens.model.raw import ABSENT
from tests.readers.lanes_made import judged
from tests.readers.reading import events, records, said, tools
from tests.readers.spans_made import T0, TRACE, sid

if TYPE_CHECKING:
    from pathlib import Path

OK = {"code": "STATUS_CODE_OK", "message": ""}


def b64(digits: str) -> str:
    return base64.b64encode(bytes.fromhex(digits)).decode()


def span(number: int, name: str, kind: str, *, parent: int | None = 1, **more: Any) -> dict[str, Any]:
    """Return a span of schema 3; ``inputs`` and ``outputs`` as they were traced."""
    plain = {"mlflow.traceRequestId": f"tr-{TRACE}", "mlflow.spanType": kind}
    for key, attribute in (("inputs", "mlflow.spanInputs"), ("outputs", "mlflow.spanOutputs")):
        if key in more:
            plain[attribute] = more.pop(key)
    plain |= more.pop("told", {})
    start = T0 + number * 10**9 + 123_456_789
    return {
        "trace_id": b64(TRACE),
        "span_id": b64(sid(number)),
        "parent_span_id": None if parent is None else b64(sid(parent)),
        "name": name,
        "start_time_unix_nano": start,
        "end_time_unix_nano": start + 500_000_000,
        "events": [],
        "status": OK,
        "attributes": {key: json.dumps(value) for key, value in plain.items()},
        "links": [],
    } | more


def trace(*spans: dict[str, Any], **info: Any) -> dict[str, Any]:
    about = {
        "trace_id": f"tr-{TRACE}",
        "state": "OK",
        "trace_metadata": {"mlflow.trace.session": "thread_7"},
        "tags": {"mlflow.traceName": "support"},
    }
    return {"info": about | info, "data": {"spans": list(spans)}}


def second(one: dict[str, Any], name: str | None = None) -> dict[str, Any]:
    """Return a span as schema 2 wrote it."""
    parent = one["parent_span_id"]
    return {
        "name": name or one["name"],
        "context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{base64.b64decode(one['span_id']).hex()}"},
        "parent_id": parent and f"0x{base64.b64decode(parent).hex()}",
        "start_time": one["start_time_unix_nano"],
        "end_time": one["end_time_unix_nano"],
        "status_code": "OK",
        "status_message": "",
        "attributes": one["attributes"],
        "events": [],
    }


SEARCHES = [
    span(1, "Finder", "AGENT", parent=None, inputs="find it", outputs="done"),
    span(2, "search", "TOOL", inputs={"q": "a"}, outputs="3 hits"),
    span(3, "search", "TOOL", inputs={"q": "a"}, outputs={"n": 3}),
]
ONE = trace(*SEARCHES)
LATER = [span(n, "get", "TOOL", inputs={}, outputs="x") for n in (5, 6)]
TRACES = [ONE, {"spans": LATER}, {"data": {"spans": [second(span(7, "get", "TOOL", inputs={}, outputs=1))]}}]


def told(data: bytes) -> list[dict[str, Any]]:
    return sorted(map(said, events(data)), key=lambda one: (one.get("span_id", ""), one["kind"]))


def test_a_tool_span_has_hex_ids_and_opened_values() -> None:
    """What MLflow wrote as JSON inside a text is read as what it was."""
    one, two = tools(json.dumps(ONE).encode())
    assert (one.trace_id, one.span_id, one.parent_span_id) == (TRACE, sid(2), sid(1))
    assert (one.tool, one.args, one.result, two.result) == ("search", {"q": "a"}, "3 hits", {"n": 3})
    assert (one.at, one.session, one.workflow) == ((T0 + 2_123_456_789) // 1000, "thread_7", "support")


def test_the_question_to_the_outermost_agent_is_a_human_turn() -> None:
    """Plain text; what a function was called with would be none."""
    found = events(json.dumps(ONE).encode())
    assert [event.parent_span_id for event in found if event.external_input] == [sid(1)]
    called = trace(span(1, "Finder", "AGENT", parent=None, inputs={"q": "find it"}))
    assert not any(event.external_input for event in events(json.dumps(called).encode()))


def frame(folder: Path) -> bytes:
    row = {"trace_id": f"tr-{TRACE}", "trace": json.dumps(ONE), "state": "OK", "spans": "[]"}
    pl.DataFrame([row]).write_parquet(folder / "f")
    return (folder / "f").read_bytes()


@pytest.mark.parametrize("shape", ["lines", "array", "parquet", "csv"])
def test_many_traces_come_in_lines_arrays_and_frames(shape: str, tmp_path: Path) -> None:
    """Each is the trace of the single file."""
    data = {
        "lines": lambda: json.dumps(ONE).encode() + b"\n" + json.dumps(trace(span(9, "x", "TOOL"))).encode(),
        "array": lambda: json.dumps([ONE]).encode(),
        "parquet": lambda: frame(tmp_path),
        "csv": lambda: pl.read_parquet(frame(tmp_path)).write_csv().encode(),
    }[shape]()
    assert [one for one in told(data) if one.get("span_id") != sid(9)] == told(json.dumps(ONE).encode())


def test_stored_spans_have_no_session_and_are_the_same_otherwise() -> None:
    """``traces.json`` holds the spans alone."""
    stored = told(json.dumps({"spans": SEARCHES}).encode())
    whole = told(json.dumps(ONE).encode())
    assert stored == [{k: v for k, v in one.items() if k not in {"session", "workflow"}} for one in whole]


def test_schema_2_is_the_same_run_with_the_names_its_tools_had() -> None:
    """It numbered spans of one name: the second search is no other tool."""
    names = ["Finder", "search_1", "search_2"]
    old = {"info": {"request_id": "a" * 32, "request_metadata": {"mlflow.trace.session": "thread_7"}}}
    old["info"]["tags"] = {"mlflow.traceName": "support"}  # type: ignore[assignment]
    old["data"] = {"spans": [second(one, name) for one, name in zip(SEARCHES, names, strict=True)]}  # type: ignore[dict-item]
    assert told(json.dumps(old).encode()) == told(json.dumps(ONE).encode())


def test_a_name_that_ends_in_a_number_stays_where_it_is_alone() -> None:
    """Only a whole row of numbers was made by the exporter."""
    data = {"spans": [second(span(2, "step_1", "TOOL", inputs={}), None)]}
    assert [event.tool for event in tools(json.dumps(data).encode())] == ["step_1"]


def test_a_failure_has_the_class_of_its_exception_while_the_trace_is_ok() -> None:
    """The state of a trace says nothing of its spans."""
    exception = {
        "name": "exception",
        "time_unix_nano": T0,
        "attributes": {"exception.type": "ValueError", "exception.message": "no A-404"},
    }
    failed = {
        "status": {"code": "STATUS_CODE_ERROR", "message": "ValueError: no A-404"},
        "events": [exception],
    }
    (event,) = tools(json.dumps(trace(span(2, "get", "TOOL", inputs={}, **failed))).encode())
    assert (event.error_class, event.result) == ("ValueError", "no A-404")


def test_redacted_details_are_no_evidence() -> None:
    """An agents SDK that hides them gives every failure the same words."""
    exception = {
        "name": "exception",
        "attributes": {
            "exception.type": "",
            "exception.message": "Error running tool (non-fatal)",
            "exception.stacktrace": '{"error": "Error details are redacted."}',
        },
    }
    failed = {"status": {"code": "STATUS_CODE_ERROR", "message": ""}, "events": [exception]}
    (event,) = tools(
        json.dumps(trace(span(2, "get", "TOOL", inputs={}, outputs="try again", **failed))).encode()
    )
    assert (event.error_class, event.result) == ("unknown", ABSENT)


def test_a_handoff_and_a_guardrail_are_no_tool_calls() -> None:
    """The one names both agents, the other whether it was triggered."""
    data = trace(
        span(2, "Handoff", "CHAIN", inputs={"from_agent": "A"}, outputs={"to_agent": "B"}),
        span(3, "no_secrets", "TOOL", outputs={"triggered": False}),
    )
    found = events(json.dumps(data).encode())
    assert [(event.kind, event.target) for event in found] == [("handoff", "B"), ("log", None)]


def test_a_model_call_has_model_tokens_and_cost() -> None:
    """From MLflow's own attributes."""
    plain = {
        "mlflow.llm.model": "m",
        "mlflow.chat.tokenUsage": {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9},
        "mlflow.llm.cost": {"total_cost": 0.25},
    }
    (event,) = events(json.dumps(trace(span(2, "Completions", "CHAT_MODEL", told=plain))).encode())
    assert (event.kind, event.model, event.tokens_in, event.tokens_out, event.cost_usd) == (
        "model",
        "m",
        7,
        2,
        0.25,
    )


def test_assessments_are_verdicts() -> None:
    """Yes and no decide, a number does not; an expectation is none."""
    given = [
        {"assessment_name": "solved", "feedback": {"value": True}, "create_time": "2026-11-30T19:20:00Z"},
        {"assessment_name": "safe", "feedback": {"value": "no"}, "span_id": sid(2)},
        {"assessment_name": "tone", "feedback": {"value": 0.5}},
        {"assessment_name": "wanted", "expectation": {"value": "x"}},
        {"assessment_name": "old", "feedback": {"value": "yes"}, "valid": False},
    ]
    found = [
        event for event in events(json.dumps(trace(*SEARCHES, assessments=given)).encode()) if event.outcome
    ]
    assert [(event.target, event.outcome, event.parent_span_id) for event in found] == [
        ("solved", "passed", None),
        ("safe", "failed", sid(2)),
        ("tone", "unknown", None),
    ]


@pytest.mark.parametrize("metadata", [True, False])
def test_columns_say_what_the_trace_itself_lacks(metadata: bool, tmp_path: Path) -> None:
    """A frame may keep the session, the tags and the judgements beside the trace."""
    bare = {"info": {"trace_id": f"tr-{TRACE}"}, "data": {"spans": SEARCHES}}
    judged_ = [{"assessment_name": "solved", "feedback": {"value": True}}]
    row = {"trace_id": f"tr-{TRACE}", "trace": json.dumps(bare), "assessments": json.dumps(judged_)}
    if metadata:
        row["trace_metadata"] = json.dumps({"mlflow.trace.session": "thread_7"})
    pl.DataFrame([row]).write_parquet(tmp_path / "f")
    found = events(tmp_path / "f")
    assert {event.session for event in found} == {"thread_7" if metadata else None}
    assert [(event.target, event.outcome) for event in found if event.outcome] == [("solved", "passed")]


def test_a_trace_without_spans_is_reported() -> None:
    """A frame that was made without them holds no run."""
    found, report = records(json.dumps(ONE).encode() + b"\n" + json.dumps({"info": ONE["info"]}).encode())
    assert len(found) == 4
    assert [fault.reason for fault in report.faults] == ["a trace without spans"]


def test_the_real_trace(shared: Path) -> None:
    """Three lookups that failed alike, one that did not, in one lane of one conversation."""
    found = judged(shared / "samples/mlflow/trace.json")
    assert found["run_id"].unique().to_list() == ["thread_7"]
    assert found["error_class"].to_list() == ["ValueError"] * 3 + [None]
    assert found["action_signature"].n_unique() == found["progress_fingerprint"].n_unique() == 2
