"""What is told beside the actions of a trace: requests, evaluators' outputs, log records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from agentlens.lake.direct import read_file
from tests.readers.lanes_made import NORMALISER
from tests.readers.reading import events, records
from tests.readers.spans_made import T0, TRACE, agent, attributes, lines, request, sid, span, tool
from tests.readers.test_otlp import only

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("plain", "error", "attempt"),
    [
        ({"http.response.status_code": 503, "http.request.resend_count": 2}, "server_error", 3),
        ({"http.response.status_code": "429"}, "rate_limit", None),
        ({"http.status_code": 200, "http.request.resend_count": "x"}, None, None),
        ({"http.response.status_code": 503, "error.type": "ConnectionError"}, "ConnectionError", None),
    ],
)
def test_a_request_below_an_action_says_which_try_it_was(
    plain: dict[str, Any], error: str | None, attempt: int | None
) -> None:
    """The first request was not sent again; a status from 400 on is a failure, unless the span names its own."""
    status = {"code": 2 if "error.type" in plain else 0}
    event = only(lines(request(span(4, "POST", plain, parent=2, status=status))), "log")
    assert (event.error_class, event.attempt) == (error, attempt)


@pytest.mark.parametrize(
    ("told", "outcome"),
    [
        ({"label": "incorrect", "score": 0}, "failed"),
        ({"label": "correct", "score": 0}, "passed"),
        ({"score": 1}, "passed"),
        ({"score": 0.0}, "failed"),
        ({"score": 0.4}, "unknown"),
        ({"label": "relevant", "score": 1}, "unknown"),
        ({"label": ["x"], "score": [1]}, "unknown"),
        ("incorrect", "unknown"),
    ],
)
def test_what_an_evaluator_put_out_is_its_verdict_where_it_names_no_label(told: Any, outcome: str) -> None:
    """Its label, else a score of 0 or 1; a part of a score is neither."""
    plain = {"openinference.span.kind": "EVALUATOR", "output.value": json.dumps(told)}
    assert only(lines(request(span(4, "judge", plain, parent=2))), "verdict").outcome == outcome


def logged(name: str, body: Any, plain: dict[str, Any], **more: Any) -> bytes:
    log = {"timeUnixNano": str(T0), "eventName": name, "body": body, "attributes": attributes(plain), **more}
    return lines({"resourceLogs": [{"scopeLogs": [{"logRecords": [log]}]}]})


def kvlist(**members: Any) -> dict[str, Any]:
    return {"kvlistValue": {"values": [{"key": key, "value": value} for key, value in members.items()]}}


def test_log_records_that_speak_of_calls_are_facts_and_no_actions() -> None:
    """Beside spans, that is: those tell the same calls, and from a log record they would count twice."""
    made = kvlist(id={"stringValue": "c9"}, function=kvlist(name={"stringValue": "f"}))
    message = kvlist(tool_calls={"arrayValue": {"values": [made]}})
    where = {"traceId": TRACE, "spanId": sid(2)}
    (asked,) = events(logged("gen_ai.choice", kvlist(message=message), {}, **where), "otlp-json")
    assert (asked.kind, asked.tool, asked.call_id) == ("log", "f", "c9")
    assert (asked.run_id, asked.parent_span_id, asked.at) == (TRACE, sid(2), T0 // 1000)
    (answer,) = events(
        logged("gen_ai.tool.message", kvlist(id={"stringValue": "c9"}), {}, **where), "otlp-json"
    )
    assert (answer.kind, answer.call_id) == ("log", "c9")
    plain = {"session.id": "s1", "tool_name": "Bash", "success": "false"}
    (result,) = events(logged("tool_result", {"stringValue": "x"}, plain), "otlp-json")
    assert (result.run_id, result.kind, result.tool, result.error_class) == (
        "s1",
        "log",
        "Bash",
        "tool_error",
    )


def test_a_log_record_of_no_run_is_counted_by_name() -> None:
    """Without a trace and a session it belongs to none."""
    found, report = records(logged("gen_ai.tool.message", {"stringValue": "x"}, {}))
    assert not found
    assert report.unknown == {"log record gen_ai.tool.message": 1}


@pytest.mark.parametrize(
    ("label", "outcome"), [("pass", "passed"), ("Failed", "failed"), ("relevant", "unknown")]
)
def test_an_evaluation_is_a_verdict(label: str, outcome: str) -> None:
    """As an event of a span or as a log record: passed, failed, or unknown."""
    plain = {"gen_ai.evaluation.name": "tests", "gen_ai.evaluation.score.label": label}
    note = {"name": "gen_ai.evaluation.result", "timeUnixNano": str(T0), "attributes": attributes(plain)}
    log = {"traceId": TRACE, "spanId": sid(2), "timeUnixNano": str(T0), "attributes": attributes(plain)}
    logs = {
        "resourceLogs": [{"scopeLogs": [{"logRecords": [log | {"eventName": "gen_ai.evaluation.result"}]}]}]
    }
    for data in (lines(request(tool(2, "a", "{}", "x", events=[note]))), lines(logs)):
        event = only(data, "verdict")
        assert (event.outcome, event.target, event.parent_span_id, event.at) == (
            outcome,
            "tests",
            sid(2),
            T0 // 1000,
        )


def test_other_log_records_are_counted_by_name() -> None:
    """They are no spans; nothing is dropped in silence."""
    log = {"traceId": TRACE, "eventName": "gen_ai.user.message", "body": {"stringValue": "hi"}}
    found, report = records(lines({"resourceLogs": [{"scopeLogs": [{"logRecords": [log]}]}]}))
    assert not found
    assert report.unknown == {"log record gen_ai.user.message": 1}


@pytest.mark.parametrize("args", ['{"__arg1": "red shoes"}', "{'__arg1': 'red shoes'}", "red shoes"])
def test_a_tool_of_one_argument_is_called_with_the_text(args: str) -> None:
    """LangChain names it ``__arg1`` where a model asks, and not where the tool runs: the same call."""
    plain = {"openinference.span.kind": "TOOL", "tool.name": "search", "input.value": args}
    assert only(lines(request(span(2, "search", plain))), "tool").args == "red shoes"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("openai.RateLimitError", "RateLimitError"),
        ("java.net.SocketTimeoutException", "SocketTimeoutException"),
        ("app.<locals>.MyError", "MyError"),
        ("timeout", "timeout"),
        ("500", "500"),
        ("server.error", "server.error"),
    ],
)
def test_a_class_is_named_without_its_module(said: str, error: str) -> None:
    """As other exports of the same failure name it; codes and words stay."""
    note = {"name": "exception", "attributes": attributes({"exception.type": said}), "timeUnixNano": "0"}
    failed = {"status": {"code": 2}}
    assert only(lines(request(tool(2, "f", "{}", events=[note], **failed))), "tool").error_class == error
    plain = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "error.type": said}
    assert only(lines(request(span(3, "f", plain, **failed))), "tool").error_class == error


def test_a_batch_that_was_sent_again_counts_nothing_twice(tmp_path: Path) -> None:
    """Exporters send again what was not acknowledged; a model call told by two nested spans stays one."""
    chat = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5}
    one = request(
        agent(1, "Finder"),
        span(2, "chat m", chat, parent=1),
        span(3, "chat m", chat, parent=2),
        tool(4, "f", "{}", "7"),
    )
    path = tmp_path / "spans.jsonl"
    found = []
    for batches in ((one,), (one, one), (one, one, one)):
        path.write_bytes(lines(*batches))
        found.append(
            read_file(path, NORMALISER).events.collect().select("kind", "agent", "seq", "tokens_in", "at")
        )
    assert found[0].filter(pl.col("kind") == "model").height == 1
    assert found[0].equals(found[1])
    assert found[0].equals(found[2])
