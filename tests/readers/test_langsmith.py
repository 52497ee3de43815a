"""LangSmith: runs however they were exported, in an order and below parents that one text tells."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

import polars as pl
import pytest

from agentlens.model.raw import ABSENT, RawEvent
from tests.readers.reading import events, records, said, tools

if TYPE_CHECKING:
    from pathlib import Path

DAY = "20260301T10000"


def uid(n: int) -> str:
    return f"{n:08d}-0000-4000-8000-000000000000"


def order(*ns: int) -> str:
    return ".".join(f"{DAY}{n}{n:06d}Z{uid(n)}" for n in ns)


def run(n: int, kind: str, name: str, *above: int, **more: Any) -> dict[str, Any]:
    return {
        "id": uid(n),
        "name": name,
        "run_type": kind,
        "dotted_order": order(*above, n),
        "trace_id": uid((*above, n)[0]),
        "parent_run_id": uid(above[-1]) if above else None,
        "start_time": f"2026-03-01T10:00:0{n}.{n:06d}",
        "end_time": f"2026-03-01T10:00:0{n}.500000",
        "inputs": {},
        "outputs": {},
        "error": None,
        "extra": {"metadata": {"thread_id": "th", "langgraph_node": "agent"}},
        "status": "success",
        **more,
    }


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


TRACE = "ToolException('x')Traceback (most recent call last):\n\n  File \"/a/b.py\", line 1, in f\n\nValueError: no\n\nDuring task with name 'agent' and id '1'"
RUNS = [
    run(1, "chain", "graph", inputs={"messages": [{"role": "user", "content": "go"}]}),
    run(2, "chain", "agent", 1),
    run(3, "llm", "Chat", 1, 2, prompt_tokens=5, completion_tokens=2, total_cost="0.5"),
    run(4, "tool", "search", 1, 2, inputs={"input": "{'q': 1}"}, outputs={"output": "found"}),
    run(5, "tool", "search", 1, 2, inputs={"input": "{'q': 1}"}, outputs=None, error=TRACE, status="error"),
    run(6, "tool", "transfer_to_bob", 1, 2, outputs={"output": "ok"}),
    run(
        7,
        "tool",
        "pay",
        1,
        2,
        inputs={"n": 2},
        error="GraphInterrupt((Interrupt(value='ok?', id='i1'),))",
        outputs=None,
    ),
]


def test_a_trace_becomes_calls_lanes_and_a_turn() -> None:
    """Tools are actions, wrapper chains are not; the class of a failure is that of the last traceback line."""
    found = events(lines(*RUNS))
    assert [event.kind for event in found] == [
        "log",
        "message",
        "agent",
        "model",
        "tool",
        "tool",
        "handoff",
        "tool",
        "wait",
    ]
    one, two, pay = tools(lines(*RUNS))
    assert (one.args, one.result, one.open, one.agent) == ("{'q': 1}", "found", False, "agent")
    assert (two.error_class, two.result) == ("ValueError", "ValueError: no")
    assert (pay.error_class, pay.result, pay.open) == (None, ABSENT, True)
    assert found[-1].identity == f"interrupt:{uid(1)}:i1"
    assert found[6].target == "bob"
    assert (found[3].tokens_in, found[3].tokens_out, found[3].cost_usd) == (5, 2, 0.5)
    assert {event.session for event in found} == {"th"}


def test_order_and_parents_are_in_the_dotted_order_alone() -> None:
    """Without times, trace and parent the chunks of one text tell all three."""
    bare = [
        {
            name: value
            for name, value in row.items()
            if name not in {"start_time", "trace_id", "parent_run_id", "id"}
        }
        for row in RUNS
    ]
    facts = [
        [(event.run_id, event.at, event.span_id, event.parent_span_id) for event in events(lines(*rows))]
        for rows in (RUNS, bare)
    ]
    assert facts[0] == facts[1]


def halves(row: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    late = {"end_time", "outputs", "error", "status"}
    return (
        {name: value for name, value in row.items() if name not in late},
        {name: value for name, value in row.items() if name in late or name == "dotted_order"},
    )


def wire() -> bytes:
    pairs = [halves(row) for row in RUNS]
    return json.dumps(
        {"post": [pair[0] for pair in pairs], "patch": [pair[1] for pair in pairs[::-1]]}
    ).encode()


def patched_first() -> bytes:
    pairs = [halves(row) for row in RUNS]
    return lines({"patch": [pair[1] for pair in pairs]}, {"post": [pair[0] for pair in pairs]})


def parquet(path: Path) -> Path:
    texts = ("inputs", "outputs", "extra")
    rows = [{**row, **{name: json.dumps(row[name]) for name in texts}} for row in RUNS]
    names = sorted({name for row in rows for name in row})
    frame = pl.DataFrame({name: [row.get(name) for row in rows] for name in names})
    frame.with_columns(pl.col("start_time", "end_time").str.to_datetime(time_unit="us")).write_parquet(path)
    return path


def test_every_shape_says_the_same(tmp_path: Path) -> None:
    """Lines, shuffled lines, a query's answer, both halves in either order, and the bulk export's Parquet."""
    shapes: list[Any] = [
        lines(*RUNS[::-1]),
        json.dumps({"runs": RUNS}, indent=1).encode(),
        json.dumps(RUNS).encode(),
        wire(),
        patched_first(),
        parquet(tmp_path / "a.parquet"),
    ]

    def facts(data: Any) -> list[str]:
        return sorted(str(sorted(said(event).items(), key=str)) for event in events(data))

    wanted = facts(lines(*RUNS))
    for shape in shapes:
        assert facts(shape) == wanted


def test_ids_that_are_bytes_are_the_same_ids(tmp_path: Path) -> None:
    """Some writers keep an id as its sixteen bytes."""
    path = parquet(tmp_path / "a.parquet")
    wanted = [event.span_id for event in events(path)]
    packed = pl.read_parquet(path).with_columns(
        pl.Series("id", [UUID(uid(n)).bytes for n in range(1, len(RUNS) + 1)], dtype=pl.Binary)
    )
    packed.write_parquet(tmp_path / "b.parquet")
    assert [event.span_id for event in events(tmp_path / "b.parquet")] == wanted


def test_a_half_that_stays_alone_is_open() -> None:
    """A pending run has not ended; an end without its beginning is kept as a bare fact."""
    begun, ended = halves(RUNS[3])
    (call,) = tools(lines(begun))
    assert (call.open, call.ended_at, call.result) == (True, None, ABSENT)
    found = events(lines({"post": [RUNS[0]], "patch": [ended]}))
    assert [event.kind for event in found] == ["log", "message", "log"]


@pytest.mark.parametrize(
    ("outputs", "result", "error"),
    [
        ({"output": {"type": "tool", "content": "c", "tool_call_id": "k", "status": "success"}}, "c", None),
        (
            {"output": {"type": "tool", "content": "c", "tool_call_id": "k", "status": "error"}},
            "c",
            "unknown",
        ),
        ({"output": "content='c' name='f' tool_call_id='k'"}, "c", None),
        (
            {
                "output": {
                    "lc": 1,
                    "type": "constructor",
                    "id": ["x", "ToolMessage"],
                    "kwargs": {"content": "c", "tool_call_id": "k"},
                }
            },
            "c",
            None,
        ),
    ],
)
def test_the_message_of_a_tool_is_taken_apart(outputs: Any, result: str, error: str | None) -> None:
    """Its content is the result; its call id, which is new every time, is no part of it."""
    (call,) = tools(lines(run(4, "tool", "f", inputs={"q": 1}, outputs=outputs)))
    assert (call.result, call.call_id, call.error_class) == (result, "k", error)


def test_retries_and_judgements_are_told_beside_the_run() -> None:
    """A model call's attempts come as retries; an average of one is passed, between the two is unknown."""
    row = run(
        3,
        "llm",
        "Chat",
        events=[
            {"name": "start"},
            {
                "name": "retry",
                "time": "2026-03-01T10:00:03Z",
                "kwargs": {"attempt": 2, "exception_type": "RateLimitError"},
            },
        ],
        feedback_stats={"right": {"n": 1, "avg": 1.0}, "style": {"n": 2, "avg": 0.5}, "safe": {"avg": 0}},
    )
    found = events(lines(row))
    (retry,) = [event for event in found if event.kind == "retry"]
    assert (retry.attempt, retry.error_class) == (2, "RateLimitError")
    assert [(e.target, e.outcome) for e in found if e.kind == "verdict"] == [
        ("right", "passed"),
        ("safe", "failed"),
        ("style", "unknown"),
    ]


def test_a_command_to_the_parent_is_a_handoff_and_a_resumed_graph_is_a_decision() -> None:
    """The exception that carries a goto fails nothing; a root that is given an answer goes on after a person."""
    error = "ParentCommand(Command(graph='__parent__', update={}, goto='bob'))"
    found = events(
        lines(
            run(1, "chain", "graph", inputs={"input": "Command(resume=True)"}),
            run(2, "tool", "go", 1, error=error),
        )
    )
    assert [(event.kind, event.target, event.error_class) for event in found] == [
        ("log", None, None),
        ("resume", None, None),
        ("tool", None, None),
        ("handoff", "bob", None),
    ]
    assert found[1].external_input is True


@pytest.mark.parametrize("turned", [False, True])
def test_a_handoff_is_told_once_however_many_runs_it_passes(turned: bool) -> None:
    """A tool that hands over is the handoff itself; a second one to the same agent is another."""
    error = "ParentCommand(Command(goto='bob'))Traceback (most recent call last):\n  File x"
    rows = [
        run(1, "chain", "graph"),
        run(2, "chain", "tools", 1, error=error),
        run(3, "tool", "transfer_to_bob", 1, 2, error=error),
        run(4, "chain", "tools", 1, error=error),
        run(5, "tool", "transfer_to_bob", 1, 4, error=error),
        run(6, "chain", "route", 1, error=error),
    ]
    found = events(lines(*(rows[::-1] if turned else rows)))
    handoffs = [(event.tool, event.target, event.at) for event in found if event.kind == "handoff"]
    assert sorted(tool for tool, _, _ in handoffs) == ["handoff", "transfer_to_bob", "transfer_to_bob"]
    assert {target for _, target, _ in handoffs} == {"bob"}


@pytest.mark.parametrize(
    ("content", "error"),
    [("Error: http.TimeoutError()\n Please fix your mistakes.", "TimeoutError"), ("no such tool", "unknown")],
)
def test_what_a_tool_raised_is_named_in_its_message(content: str, error: str) -> None:
    """The graph wraps the exception in words for the model."""
    message = {"type": "tool", "tool_call_id": "c", "status": "error", "content": content}
    (tool,) = tools(lines(run(1, "tool", "f", outputs={"output": message})))
    assert tool.error_class == error


@pytest.mark.parametrize("turned", [False, True])
def test_a_question_belongs_to_the_innermost_run_that_failed_with_it(turned: bool) -> None:
    """All runs above fail with the same words, whichever comes first in the file."""
    error = "GraphInterrupt((Interrupt(value='ok?', id='i1'),))"
    outer = run(1, "chain", "work", error=error, extra={"metadata": {"langgraph_node": "work"}})
    inner = run(2, "chain", "ask", 1, error=error, extra={"metadata": {"langgraph_node": "ask"}})
    waits = [
        event
        for event in events(lines(*([inner, outer] if turned else [outer, inner])))
        if event.kind == "wait"
    ]
    assert [(event.agent, event.parent_span_id) for event in waits] == [("ask", uid(2))]


def test_a_graph_called_with_a_command_goes_on_after_a_person() -> None:
    """The command may be logged as an object."""
    found = events(
        lines(run(1, "chain", "graph", inputs={"input": {"graph": None, "resume": False, "goto": []}}))
    )
    assert [event.kind for event in found] == ["log", "resume"]


def test_an_empty_result_is_a_result() -> None:
    """It is not the same as none: the call came back."""
    (call,) = tools(lines(run(4, "tool", "f", inputs={"q": 1}, outputs={"output": ""})))
    assert (call.result, call.open) == ("", False)


def test_the_wire_batch_of_the_javascript_sdk(shared: Path) -> None:
    """Begin and end of one model run, in epoch milliseconds, are one event with its tokens."""
    (event,), report = records(shared / "samples" / "langsmith" / "wrap_openai_wire.json")
    assert isinstance(event, RawEvent)
    assert (event.kind, event.model, event.tokens_in, event.tokens_out, event.open) == (
        "model",
        "gpt-4o-mini",
        9,
        9,
        False,
    )
    assert (event.at, event.ended_at) == (1_728_803_137_170_001, 1_728_803_138_285_000)
    assert not report.faults


TASK = "4af9a5f7-074b-8aa5-9a35-fb4ece7e30f7"


def inside(*names: str) -> dict[str, Any]:
    place = "|".join(f"{name}:{TASK}" for name in names)
    return {"metadata": {"thread_id": "th", "langgraph_node": names[-1], "langgraph_checkpoint_ns": place}}


@pytest.mark.parametrize("turn", [1, -1])
def test_a_tool_that_leaves_for_another_agent_is_one_handoff(turn: int) -> None:
    """The tool gives back a command, the node around it fails with one; both tell of the same going."""
    command = {"graph": "__parent__", "update": None, "resume": None, "goto": "writer"}
    error = "ParentCommand(Command(graph='__parent__', goto='writer'))Traceback (most recent call last):\n"
    rows = [
        run(1, "chain", "team"),
        run(2, "chain", "planner", 1, error=error, outputs=None, extra=inside("planner")),
        run(3, "chain", "tools", 1, 2, error=error, outputs=None, extra=inside("planner", "tools")),
        run(
            4,
            "tool",
            "transfer_to_writer",
            1,
            2,
            3,
            outputs={"output": command},
            extra=inside("planner", "tools"),
        ),
        run(
            5,
            "tool",
            "look",
            1,
            2,
            3,
            inputs={"c": "Zürich"},
            outputs={"output": None},
            extra=inside("planner", "tools"),
        ),
    ]
    found = events(lines(*rows[::turn]))
    assert [(one.agent, one.tool, one.target) for one in found if one.kind == "handoff"] == [
        ("planner", "transfer_to_writer", "writer")
    ]
    assert [one.agent for one in found if one.kind == "tool"] == ["planner"]


def test_a_node_that_says_where_to_go_on_hands_over() -> None:
    """A command that a node gives back; the end of the graph is no addressee."""
    found = [
        events(
            lines(
                run(
                    1,
                    "chain",
                    "route",
                    9,
                    outputs={"output": {"goto": to, "resume": None}},
                    extra=inside("route"),
                )
            )
        )
        for to in ("planner", "__end__")
    ]
    assert [[one.target for one in told if one.kind == "handoff"] for told in found] == [["planner"], []]
