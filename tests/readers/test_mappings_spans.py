"""Shipped mappings of trace platforms: Logfire, Braintrust, Datadog, Weave. The rows are made up by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.model.raw import ABSENT
from tests.readers.test_sql import kept, through

if TYPE_CHECKING:
    from pathlib import Path

    from agentlens.model.raw import RawEvent


def read(name: str, folder: Path, rows: Any) -> list[RawEvent]:
    """Read rows, one a line, through a shipped mapping; nothing may be set aside."""
    data = "\n".join(map(json.dumps, rows)) if isinstance(rows, list) else json.dumps(rows)
    found, report = through(name, kept(folder, data.encode()))
    assert (report.faults, report.unknown) == ([], {})
    return found


def facts(found: list[RawEvent]) -> list[tuple[Any, ...]]:
    return [
        (event.kind, event.tool, event.agent, event.args, event.result, event.error_class, event.open)
        for event in found
    ]


AT = "2026-03-01T10:00:0{}.000001Z"


def logfire(n: int, parent: int | None, name: str, attributes: Any, **more: Any) -> dict[str, Any]:
    return {
        "trace_id": "t1",
        "span_id": f"s{n}",
        "parent_span_id": None if parent is None else f"s{parent}",
        "kind": "span",
        "span_name": name,
        "start_timestamp": AT.format(n),
        "end_timestamp": AT.format(n + 1),
        "attributes": attributes,
        **more,
    }


def test_logfire_rows(tmp_path: Path) -> None:
    """Tools, models and agents are told by their attributes; a pending row is the call that never ended."""
    found = read(
        "logfire",
        tmp_path,
        [
            logfire(1, None, "agent run", {"agent_name": "Ann", "gen_ai.conversation.id": "c"}),
            logfire(
                2,
                1,
                "running tool",
                {"gen_ai.tool.name": "f", "tool_arguments": '{"q":1}', "tool_response": ""},
            ),
            logfire(
                3, 1, "chat m", json.dumps({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 3})
            ),
            logfire(
                4,
                1,
                "running tool",
                {"gen_ai.tool.name": "g"},
                otel_status_code="ERROR",
                exception_type="KeyError",
            ),
            logfire(9, 2, "running tool", {"gen_ai.tool.name": "f"}, kind="pending_span"),
            logfire(
                8,
                5,
                "running tool",
                {"gen_ai.tool.name": "transfer_to_bob", "logfire.pending_parent_id": "s1"},
                kind="pending_span",
            ),
        ],
    )
    assert facts(found) == [
        ("agent", "Ann", "Ann", ABSENT, ABSENT, None, False),
        ("tool", "f", "Ann", '{"q":1}', "", None, False),
        ("model", "", "Ann", ABSENT, ABSENT, None, False),
        ("tool", "g", "Ann", ABSENT, ABSENT, "KeyError", False),
        ("handoff", "transfer_to_bob", "Ann", ABSENT, ABSENT, None, True),
    ]
    assert (found[1].at, found[1].span_id, found[1].parent_span_id) == (1_772_359_202_000_001, "s2", "s1")
    assert (found[4].span_id, found[4].parent_span_id, found[4].target) == ("s5", "s1", "bob")
    assert (found[0].session, found[2].tokens_in) == ("c", 3)


def braintrust(n: int, kind: str, name: str, *parents: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"r{n}",
        "_xact_id": "1000",
        "span_id": f"s{n}",
        "root_span_id": "s1",
        "span_parents": [f"s{parent}" for parent in parents],
        "span_attributes": {"name": name, "type": kind},
        "metrics": {"start": 1772359200.25 + n, "end": 1772359201.25 + n},
        **more,
    }


def test_braintrust_rows(tmp_path: Path) -> None:
    """The newest state of a row stands; scores are verdicts of three values; seconds keep their fractions."""
    found = read(
        "braintrust",
        tmp_path,
        [
            braintrust(
                1,
                "task",
                "run",
                scores={"exact": 1, "style": 0.5, "skipped": None},
                metadata={"agent_name": "Ann"},
            ),
            braintrust(2, "tool", "f", 1, input={"q": 1}, output="old", _xact_id="999"),
            braintrust(2, "tool", "f", 1, input={"q": 1}, output=["new"], _xact_id="1001"),
            braintrust(
                3, "tool", "f", 1, 2, input="x", error="ValueError: no", metrics={"start": 1772359204}
            ),
            braintrust(
                4, "llm", "Chat", 1, metrics={"start": 1772359205, "end": 1772359206, "prompt_tokens": 7}
            ),
        ],
    )
    assert facts(found) == [
        ("log", "", "Ann", ABSENT, ABSENT, None, False),
        ("tool", "f", "Ann", '{"q":1}', '["new"]', None, False),
        ("tool", "f", "Ann", "x", "ValueError: no", "ValueError", True),
        ("model", "", "Ann", ABSENT, ABSENT, None, False),
        ("verdict", "", "Ann", ABSENT, ABSENT, None, False),
        ("verdict", "", "Ann", ABSENT, ABSENT, None, False),
    ]
    assert [(event.target, event.outcome) for event in found[4:]] == [
        ("exact", "passed"),
        ("style", "unknown"),
    ]
    assert (found[1].at, found[1].ended_at, found[3].tokens_in) == (
        1_772_359_202_250_000,
        1_772_359_203_250_000,
        7,
    )


def datadog(n: int, parent: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    meta = more.pop("meta", {})
    return {
        "trace_id": "123456789012345678901234567890",
        "span_id": f"1844674407370955161{n}",
        "parent_id": parent,
        "name": name,
        "start_ns": 1_772_359_200_000_000_000 + n * 1_000_000_123,
        "duration": 500_000_000,
        "status": "ok",
        "meta": {"span.kind": kind, **meta},
        **more,
    }


DATADOG = [
    datadog(
        1,
        "undefined",
        "agent",
        "Ann",
        evaluation={"right": {"value": 1, "assessment": "pass"}, "odd": {"value": 3}},
    ),
    datadog(
        2,
        "18446744073709551611",
        "tool",
        "f",
        meta={"input": {"value": '{"q": 1}'}, "output": {"value": "ok"}},
    ),
    datadog(
        3,
        "18446744073709551611",
        "tool",
        "f",
        status="error",
        meta={"input": {"value": "{}"}, "error": {"type": "TimeoutError", "message": "late"}},
    ),
    datadog(4, "18446744073709551611", "llm", "chat", metrics={"input_tokens": 5.0, "output_tokens": 2.0}),
]


@pytest.mark.parametrize(
    "shape",
    [
        DATADOG,
        {"data": {"type": "span", "attributes": {"ml_app": "app", "spans": DATADOG}}},
        {"data": [{"type": "span", "id": "x", "attributes": span} for span in DATADOG]},
    ],
    ids=["lines", "ingest", "export"],
)
def test_datadog_spans(shape: Any, tmp_path: Path) -> None:
    """Lines, ingest bodies and answers of the export say the same; ids keep every digit."""
    found = read("datadog", tmp_path, shape)
    assert facts(found) == [
        ("agent", "Ann", "Ann", ABSENT, ABSENT, None, False),
        ("tool", "f", "Ann", '{"q": 1}', "ok", None, False),
        ("tool", "f", "Ann", "{}", "late", "TimeoutError", False),
        ("model", "", "Ann", ABSENT, ABSENT, None, False),
        ("verdict", "", "Ann", ABSENT, ABSENT, None, False),
        ("verdict", "", "Ann", ABSENT, ABSENT, None, False),
    ]
    assert (found[1].span_id, found[1].parent_span_id) == ("18446744073709551612", "18446744073709551611")
    assert (found[1].at, found[1].ended_at) == (1_772_359_202_000_000, 1_772_359_202_500_000)
    assert [(event.target, event.outcome) for event in found[4:]] == [("odd", "unknown"), ("right", "passed")]


def weave(n: int, parent: int | None, name: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"c{n}",
        "trace_id": "t1",
        "parent_id": None if parent is None else f"c{parent}",
        "op_name": f"weave:///me/proj/op/{name}:abc",
        "inputs": {},
        "output": None,
        "started_at": AT.format(n),
        "ended_at": AT.format(n + 1),
        **more,
    }


def test_weave_calls(tmp_path: Path) -> None:
    """A call without calls inside is an action; an op that declares its kind is taken at its word."""
    found = read(
        "weave",
        tmp_path,
        [
            weave(
                1,
                None,
                "Ann.run",
                attributes={"weave": {"kind": "agent"}},
                display_name="Ann",
                thread_id="th",
            ),
            weave(2, 1, "search", inputs={"q": 1}, output={"hits": 0}),
            weave(
                3,
                1,
                "search",
                inputs={"q": 1},
                exception="Traceback (most recent call last):\n  x\nhttp.TimeoutError: late",
            ),
            weave(
                4,
                1,
                "complete",
                summary={"usage": {"m": {"prompt_tokens": 4, "completion_tokens": 1}}},
                ended_at=None,
            ),
            weave(5, 1, "gone", deleted_at=AT.format(6)),
        ],
    )
    assert facts(found) == [
        ("agent", "Ann", "Ann", ABSENT, ABSENT, None, False),
        ("tool", "search", "Ann", '{"q":1}', '{"hits":0}', None, False),
        ("tool", "search", "Ann", '{"q":1}', ABSENT, "TimeoutError", False),
        ("model", "", "Ann", ABSENT, ABSENT, None, True),
    ]
    assert (found[3].model, found[3].tokens_in, found[3].tokens_out, found[0].session) == ("m", 4, 1, "th")


TRACEBACK = "Traceback (most recent call last):\n  File x, line 1\n    f()\n"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (f"{TRACEBACK}ValueError: bad\n", "ValueError"),
        (
            f"{TRACEBACK}KeyError: 1\n\nDuring handling\n\n{TRACEBACK}m.ValueError: bad\nmore: Of it",
            "ValueError",
        ),
        ("TimeoutError\r\n", "TimeoutError"),
        ("it went wrong\n", "unknown"),
    ],
)
def test_a_failure_is_named_by_the_line_behind_the_frames(tmp_path: Path, said: str, error: str) -> None:
    """Tracebacks end with a line end, and what an exception says may have several lines."""
    (call,) = read("weave", tmp_path, [weave(1, None, "f", exception=said)])
    assert call.error_class == error
    (call,) = read("braintrust", tmp_path, [braintrust(1, "tool", "f", error=said)])
    assert call.error_class == error


def test_weave_calls_in_dotted_columns(tmp_path: Path) -> None:
    """As the download of the calls page writes them: the same calls as nested ones."""
    nested = [
        weave(1, None, "Ann.run", attributes={"weave": {"kind": "agent"}}, display_name="Ann"),
        weave(2, 1, "search", inputs={"q": 1, 'a"/~b': [1]}, output={"hits": 0}),
        weave(3, 1, "complete", summary={"usage": {"m-4.1": {"prompt_tokens": 4, "completion_tokens": 1}}}),
    ]
    dotted = [
        weave(1, None, "Ann.run", display_name="Ann") | {"attributes.weave.kind": "agent"},
        weave(2, 1, "search") | {"inputs.q": 1, 'inputs.a"/~b': [1], "output.hits": 0},
        weave(3, 1, "complete")
        | {"summary.usage.m-4.1.prompt_tokens": 4, "summary.usage.m-4.1.completion_tokens": 1},
    ]
    for row in dotted:
        for name in ("inputs", "output", "parent_id"):
            if not row[name]:
                del row[name]
    found = [read("weave", tmp_path, rows) for rows in (nested, dotted)]
    shown = [[(*fact[:3], str(fact[3]), str(fact[4]), *fact[5:]) for fact in facts(one)] for one in found]
    assert [json.loads(one[1][3]) for one in shown] == [{"q": 1, 'a"/~b': [1]}] * 2
    assert [row[:3] + row[4:] for row in shown[0]] == [row[:3] + row[4:] for row in shown[1]]
    assert [(one[2].model, one[2].tokens_in, one[2].tokens_out) for one in found] == [("m-4.1", 4, 1)] * 2
