"""Langfuse: downloads, interface answers and blob exports of one trace are one table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agentlens.model.raw import ABSENT
from tests.readers.lanes_made import judged
from tests.readers.reading import events, records, said, tools
from tests.readers.spans_made import TRACE, sid

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ("input", "output", "metadata", "usage_details")
CAMEL = {
    "trace_id": "traceId",
    "parent_observation_id": "parentObservationId",
    "start_time": "startTime",
    "end_time": "endTime",
    "status_message": "statusMessage",
    "provided_model_name": "model",
    "usage_details": "usageDetails",
    "total_cost": "totalCost",
    "updated_at": "updatedAt",
}


def row(number: int, kind: str, name: str, *, parent: int | None = 1, **more: Any) -> dict[str, Any]:
    """Return an observation under its names in exports, its values as objects."""
    return {
        "id": sid(number),
        "trace_id": TRACE,
        "type": kind,
        "name": name,
        "parent_observation_id": None if parent is None else sid(parent),
        "start_time": f"2026-11-30T19:14:{number:02}.123Z",
        "end_time": f"2026-11-30T19:14:{number:02}.623Z",
        "level": "DEFAULT",
        "status_message": None,
        "provided_model_name": None,
        "usage_details": {},
        "total_cost": None,
        "input": None,
        "output": None,
        "metadata": {},
        "updated_at": "2026-11-30T19:20:00.000Z",
    } | more


ROWS = [
    row(
        4,
        "GENERATION",
        "chat",
        provided_model_name="m",
        usage_details={"input": 7, "output": 2},
        total_cost=0.25,
    ),
    row(2, "TOOL", "search", input={"q": "a"}, output={"n": 3}),
    row(3, "TOOL", "handoff to Refunds", input="Triage", output="Refunds"),
    row(
        5,
        "SPAN",
        "running",
        metadata={"attributes": {"gen_ai.tool.name": "f", "gen_ai.tool.call.id": "c"}},
        input={},
    ),
    row(1, "AGENT", "Triage", parent=None, input="find it"),
]


def camel(one: dict[str, Any]) -> dict[str, Any]:
    return {CAMEL.get(name, name): value for name, value in one.items()}


def exported(one: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a blob export: values as text, no zone, an empty text for null."""
    made = one | {"session_id": "thread_7", "trace_name": "support"}
    for name in TEXTS:
        if isinstance(made[name], (dict, list)):
            made[name] = json.dumps(made[name])
    for name in ("start_time", "end_time", "updated_at"):
        made[name] = made[name].replace("T", " ").replace("Z", "000")
    return {name: "" if value is None else value for name, value in made.items()}


def made(shape: str, folder: Path) -> bytes:
    about = {"id": TRACE, "name": "support", "sessionId": "thread_7", "timestamp": "2026-11-30T19:14:00Z"}
    whole = {"trace": about, "observations": [camel(one) for one in ROWS]}
    flat = [exported(one) for one in ROWS]
    if shape == "download":
        return json.dumps(whole, indent=1).encode()
    if shape == "interface":
        return json.dumps(about | {"observations": whole["observations"], "scores": []}).encode()
    if shape == "lines":
        return b"".join(json.dumps(one).encode() + b"\n" for one in flat)
    if shape == "array":
        return json.dumps(flat).encode()
    frame = pl.DataFrame([one | {"total_cost": one["total_cost"] or None} for one in flat])
    if shape == "csv":
        return frame.write_csv().encode()
    times = pl.col("start_time", "end_time", "updated_at").str.to_datetime(time_unit="us")
    frame.with_columns(times).write_parquet(folder / "f")
    return (folder / "f").read_bytes()


def told(data: bytes) -> list[dict[str, Any]]:
    return sorted(map(said, events(data)), key=lambda one: (one.get("span_id", ""), one["kind"]))


@pytest.mark.parametrize("shape", ["interface", "lines", "array", "csv", "parquet"])
def test_every_shape_is_the_run_of_the_download(shape: str, tmp_path: Path) -> None:
    """Objects or texts, null or nothing, with a zone or in UTC without one."""
    assert told(made(shape, tmp_path)) == told(made("download", tmp_path))


def test_a_download_says_everything_once(tmp_path: Path) -> None:
    """Kinds, lanes, session, workflow, tokens and cost."""
    found = {(event.kind, event.tool): event for event in events(made("download", tmp_path))}
    assert set(found) == {
        ("model", ""),
        ("tool", "search"),
        ("handoff", "handoff"),
        ("tool", "f"),
        ("agent", "Triage"),
        ("message", "user"),
    }
    model, search = found["model", ""], found["tool", "search"]
    assert (model.model, model.tokens_in, model.tokens_out, model.cost_usd) == ("m", 7, 2, 0.25)
    assert (search.args, search.result, search.open) == ({"q": "a"}, {"n": 3}, False)
    assert {event.session for event in found.values()} == {"thread_7"}
    assert found["handoff", "handoff"].target == "Refunds"
    assert (found["tool", "f"].call_id, found["tool", "f"].open) == ("c", True)


def test_the_attributes_a_span_came_with_stand_over_what_was_made_of_them() -> None:
    """Kind, name, arguments and call id of the original, whatever the row is called."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.call.arguments": '{"q": "b"}',
        "gen_ai.tool.call.id": "call_1",
    }
    for metadata in (
        {"attributes": attributes},
        {"attributes": json.dumps(attributes)},
        json.dumps({"attributes": attributes}),
    ):
        (event,) = tools(json.dumps(camel(row(2, "SPAN", "x", input="other", metadata=metadata))).encode())
        assert (event.tool, event.args, event.call_id) == ("search", '{"q": "b"}', "call_1")


MESSAGE = {
    "content": "3 hits",
    "type": "tool",
    "name": "Web-Search",
    "tool_call_id": "call_1",
    "status": "success",
}


@pytest.mark.parametrize(
    "output",
    [
        MESSAGE,
        json.dumps(MESSAGE),
        {"output": MESSAGE},
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain_core", "messages", "ToolMessage"],
            "kwargs": MESSAGE,
        },
        "content='3 hits' name='Web-Search' tool_call_id='call_1'",
    ],
    ids=["object", "text", "wrapped", "serialised", "repr"],
)
def test_a_wrapper_around_a_tool_message_is_the_call(output: Any) -> None:
    """Where the framework's tools arrive as plain spans, the message they return names them."""
    one = row(2, "SPAN", "Web-Search", input="{'query': 'x'}", output=output)
    (event,) = tools(json.dumps(camel(one)).encode())
    assert (event.tool, event.args, event.result) == ("Web-Search", "{'query': 'x'}", "3 hits")
    assert (event.call_id, event.error_class, event.open) == ("call_1", None, False)


@pytest.mark.parametrize(
    "output", [MESSAGE | {"status": "error"}, "content='3 hits' tool_call_id='c' status='error'"]
)
def test_a_tool_message_may_tell_of_a_failure(output: Any) -> None:
    """The span went well."""
    (event,) = tools(json.dumps(camel(row(2, "TOOL", "search", input={}, output=output))).encode())
    assert (event.error_class, event.result) == ("unknown", "3 hits")


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("ValueError: no A-404", "ValueError"),
        ("requests.exceptions.ReadTimeout(x)", "ReadTimeout"),
        ("no order", "unknown"),
    ],
)
def test_the_class_of_a_failure_is_read_from_its_message(message: str, error: str) -> None:
    """Where it begins with one."""
    one = row(2, "TOOL", "get", input={}, level="ERROR", status_message=message)
    (event,) = tools(json.dumps(camel(one)).encode())
    assert (event.error_class, event.result) == (error, message)


def test_a_question_to_a_person_is_a_wait_and_no_failure() -> None:
    """A graph that is interrupted raises in every span around the question; it waits once, and nothing failed."""
    message = "GraphInterrupt((Interrupt(value='ok?', id='7c1'),))"
    rows = [
        row(2, "TOOL", "ask", input={}, level="ERROR", status_message=message),
        row(1, "SPAN", "graph", parent=None, level="ERROR", status_message=message),
    ]
    found = events(json.dumps([camel(one) for one in rows]).encode())
    (tool,) = [event for event in found if event.kind == "tool"]
    assert (tool.error_class, tool.result, tool.open) == (None, ABSENT, True)
    assert {(e.target, e.open, e.identity) for e in found if e.kind == "wait"} == {
        ("ask", True, "interrupt:7c1"),
        ("graph", True, "interrupt:7c1"),
    }
    assert all(event.error_class is None for event in found)


def test_of_several_states_of_an_observation_the_newest_stands() -> None:
    """Windows of an export overlap; an older state behind a newer one is left out and counted."""
    old = row(2, "TOOL", "get", input={"id": 1}, end_time=None, updated_at="2026-11-30T19:14:03.000Z")
    new = row(2, "TOOL", "get", input={"id": 1}, output="x")
    data = b"".join(json.dumps(one).encode() + b"\n" for one in (old, new, old))
    found, report = records(data)
    assert [(event.open, event.identity) for event in found] == [
        (True, f"span:{sid(2)}"),
        (False, f"span:{sid(2)}"),
    ]  # type: ignore[union-attr]
    assert report.repaired == {"an older state of an observation left out": 1}


def test_scores_are_verdicts_where_they_decide() -> None:
    """A truth value or a word decides, a number does not; each is about its observation."""
    scores = [
        {
            "id": "1",
            "name": "tests",
            "value": 1,
            "dataType": "BOOLEAN",
            "source": "API",
            "observationId": sid(2),
        },
        {
            "id": "2",
            "name": "review",
            "value": None,
            "stringValue": "fail",
            "dataType": "CATEGORICAL",
            "source": "ANNOTATION",
        },
        {"id": "3", "name": "toxicity", "value": 0.8, "dataType": "NUMERIC", "source": "EVAL"},
    ]
    about = {"id": TRACE, "name": "s", "timestamp": "2026-11-30T19:14:00Z", "scores": scores}
    found = events(json.dumps({"trace": about, "observations": [camel(ROWS[1])]}).encode())
    expected = [("tests", "passed", sid(2)), ("review", "failed", None), ("toxicity", "unknown", None)]
    assert [(e.target, e.outcome, e.parent_span_id) for e in found if e.kind == "verdict"] == expected
    flat = [{"trace_id": TRACE, "name": s["name"], "value": s["value"], "string_value": s.get("stringValue") or "",
             "data_type": s["dataType"], "source": s["source"], "id": s["id"], "observation_id": s.get("observationId") or "",
             "timestamp": "2026-11-30 19:14:09.000000"} for s in scores]  # fmt: skip
    found = events(b"".join(json.dumps(one).encode() + b"\n" for one in flat))
    assert [(e.target, e.outcome, e.parent_span_id) for e in found] == expected


def test_exported_traces_carry_the_session_of_their_observations() -> None:
    """The older export keeps the two apart."""
    one = {
        "id": TRACE,
        "timestamp": "2026-11-30 19:14:00.000000",
        "name": "support",
        "user_id": "",
        "session_id": "thread_7",
        "public": False,
    }
    (event,) = events(json.dumps(one).encode() + b"\n")
    assert (event.kind, event.session, event.workflow, event.trace_id) == (
        "log",
        "thread_7",
        "support",
        TRACE,
    )


def test_what_is_no_row_of_an_export_is_set_aside() -> None:
    """By its line."""
    found, report = records(
        json.dumps(ROWS[1]).encode() + b'\n{"a": 1}\n' + json.dumps(ROWS[1] | {"trace_id": 0}).encode()
    )
    assert len(found) == 1
    assert [fault.position for fault in report.faults] == [2, 3]


REAL = {
    "crewai-2025-07-11": [],
    "google-adk-2025-08-28": [("hello_agent", "say_hello")],
    "google-gemini-2025-08-01": [],
    "langgraph-python-2025-08-22": [("", "Web-Search")],
    "openai-agents-2025-09-30": [("Hello world", "get_weather")],
    "vertex-ai-2025-08-01": [],
}


@pytest.mark.parametrize("name", sorted(REAL))
def test_the_real_downloads_of_six_frameworks(name: str, shared: Path) -> None:
    """Every call is found in its lane, however the framework names its spans."""
    found = judged(shared / f"traces/langfuse-frameworks/runs/{name}.trace.json")
    assert list(found.select("agent", "tool").iter_rows()) == REAL[name]


def test_the_real_parallel_calls(shared: Path) -> None:
    """Three calls of one answer in one lane; two tools of a framework that writes only their attributes in another."""
    folder = shared / "traces/langfuse-frameworks/runs"
    found = judged(folder / "pydantic-ai-tools-2025-12-04.trace.json")
    assert sorted(found["tool"]) == [
        "get_dad_joke_suggestion",
        "get_one_liner_suggestion",
        "get_pun_suggestion",
    ]
    assert set(found["agent"]) == {"joke_agent"}
    assert sorted(judged(folder / "koog-2025-08-26.trace.json")["tool"]) == ["ByeTool", "HelloTool"]


def test_maps_of_a_parquet_export_are_objects(tmp_path: Path) -> None:
    """Its store keeps metadata and usage as maps of names to values."""
    one = {name: value for name, value in exported(ROWS[0]).items() if value != "" and name not in TEXTS}
    attributes = json.dumps({"gen_ai.agent.name": "Finder"})
    table = pa.table(
        {name: [value] for name, value in one.items()}
        | {
            "metadata": pa.array([[("attributes", attributes)]], pa.map_(pa.string(), pa.string())),
            "usage_details": pa.array([[("input", 7), ("output", 2)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    pq.write_table(table, tmp_path / "f")
    (event,) = events(tmp_path / "f")
    assert (event.kind, event.agent, event.tokens_in, event.tokens_out) == ("model", "Finder", 7, 2)


@pytest.mark.parametrize("shape", ["lines", "csv"])
def test_a_score_without_a_number_is_a_score(shape: str, tmp_path: Path) -> None:
    """Exports leave empty what a score does not have: a category has no value, a number no words."""
    rows = [
        {"id": "s1", "trace_id": "t1", "name": "works", "value": "1", "string_value": "", "data_type": "BOOLEAN", "source": "API", "timestamp": "2026-07-01 10:05:00.000000"},
        {"id": "s2", "trace_id": "t1", "name": "judged", "value": "", "string_value": "fail", "data_type": "CATEGORICAL", "source": "API", "timestamp": "2026-07-01 10:05:01.000000"},
        {"id": "s3", "trace_id": "t1", "name": "much", "value": "0.4", "string_value": "", "data_type": "NUMERIC", "source": "API", "timestamp": "2026-07-01 10:05:02.000000"},
    ]  # fmt: skip
    if shape == "csv":
        path = tmp_path / "scores.csv"
        text = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
        path.write_text("\n".join(text) + "\n", "utf-8")
    else:
        path = tmp_path / "scores.jsonl"
        path.write_text("\n".join(json.dumps(row) for row in rows), "utf-8")
    assert [(one.kind, one.target, one.outcome) for one in events(path)] == [
        ("verdict", "works", "passed"),
        ("verdict", "judged", "failed"),
        ("verdict", "much", "unknown"),
    ]


def test_a_plain_span_that_is_called_like_a_handoff_is_one() -> None:
    """Frameworks without a type of their own write plain spans."""
    row = {"id": "o6", "traceId": "t1", "type": "SPAN", "name": "transfer_to_writer", "startTime": "2026-07-01T10:00:06.000Z", "endTime": "2026-07-01T10:00:06.100Z", "level": "DEFAULT", "parentObservationId": "o1"}  # fmt: skip
    (found,) = events(json.dumps({"trace": {"id": "t1"}, "observations": [row]}).encode())
    assert (found.kind, found.target) == ("handoff", "writer")


@pytest.mark.parametrize("as_text", [True, False])
def test_calls_that_only_the_columns_of_a_generation_tell(as_text: bool, tmp_path: Path) -> None:
    """Where no tool has an observation, what models asked for was done; with one, that alone counts."""
    call = {"id": "c1", "arguments": '{"city": "Ulm"}', "type": "tool_use", "index": 0}
    asked: dict[str, Any] = {"tool_calls": [json.dumps(call)], "tool_call_names": ["look"]}
    if as_text:
        asked = {name: json.dumps(value) for name, value in asked.items()}
    came = [{"role": "tool", "tool_call_id": "c1", "content": "rain"}]
    rows = [
        row(1, "AGENT", "Finder", parent=None),
        row(2, "GENERATION", "turn", output={"role": "assistant", "content": "so"}, **asked),
        row(3, "GENERATION", "turn", input=came, tool_calls=[], tool_call_names=[]),
    ]
    path = tmp_path / "observations.jsonl"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in rows))
    assert judged(path).select("agent", "tool", "open").rows() == [("Finder", "look", False)]
    ran = row(4, "TOOL", "look", input={"city": "Ulm"}, output="rain")
    path.write_text("".join(f"{json.dumps(one)}\n" for one in [*rows, ran]))
    assert judged(path)["tool"].to_list() == ["look"]
