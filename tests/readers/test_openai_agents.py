"""Payloads of the OpenAI Agents SDK: what its spans leave out and what their errors mean."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers import openai_agents
from agentlens.readers.base import Report
from agentlens.readers.source import Source
from tests.readers.lanes_made import judged
from tests.readers.reading import events, records, said, tools

if TYPE_CHECKING:
    from pathlib import Path

TRACE = {
    "object": "trace",
    "id": "trace_1",
    "workflow_name": "support",
    "group_id": "thread_7",
    "metadata": None,
}
REDACTED = {
    "message": "Error running tool (non-fatal)",
    "data": {"tool_name": "f", "error": "Tool execution failed. Error details are redacted."},
}


def span(name: str, parent: str | None, second: int, data: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "object": "trace.span",
        "id": f"span_{name}",
        "trace_id": "trace_1",
        "parent_id": parent and f"span_{parent}",
        "started_at": f"2026-11-30T19:14:{second:02}.000001+00:00",
        "ended_at": f"2026-11-30T19:14:{second:02}.500000+00:00",
        "span_data": data,
        "error": None,
    } | more


def turn(name: str, agent: str, parent: str) -> dict[str, Any]:
    data = {
        "type": "custom",
        "name": "turn",
        "data": {"sdk_span_type": "turn", "turn": 1, "agent_name": agent},
    }
    return span(name, parent, 0, data)


def answer(name: str, parent: str, second: int, *calls: tuple[str, str, str], **more: Any) -> dict[str, Any]:
    """Return a model call that asks for calls of ``(id, tool, arguments)``."""
    items = [
        {"type": "function_call", "call_id": i, "name": tool, "arguments": args} for i, tool, args in calls
    ]
    data = {
        "type": "generation",
        "input": [{"role": "user", "content": "refund A-17"}],
        "output": items,
        "model": "m",
        "usage": {"input_tokens": 112, "output_tokens": 20},
    }
    return span(name, parent, second, data | more)


def call(
    name: str, parent: str, second: int, args: str = '{"id": 1}', output: Any = "ok", **more: Any
) -> dict[str, Any]:
    return span(
        name, parent, second, {"type": "function", "name": "f", "input": args, "output": output}, **more
    )


def agent(name: str, parent: str | None, who: str, **more: Any) -> dict[str, Any]:
    return span(name, parent, 0, {"type": "agent", "name": who, "handoffs": [], "tools": []}, **more)


ROWS = [
    TRACE,
    answer("g1", "t1", 1, ("call_1", "f", '{"id":1}'), ("call_2", "f", '{"id": 1}')),
    call("a", "t1", 2),
    call("b", "t1", 3),
    turn("t1", "Refunds", "ag"),
    agent("ag", None, "Refunds"),
]


def data(rows: list[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def told(found: list[RawEvent]) -> list[str]:
    return sorted(str(said(event)) for event in found)


def test_calls_get_the_ids_they_were_asked_for_under() -> None:
    """Two equal calls of one turn take theirs in order; spans themselves carry none."""
    found = tools(data(ROWS))
    assert [(event.span_id, event.call_id, event.result) for event in found] == [
        ("span_a", "call_1", "ok"),
        ("span_b", "call_2", "ok"),
    ]
    assert {(event.session, event.workflow, event.run_id) for event in found} == {
        ("thread_7", "support", "trace_1")
    }


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_spans_is_no_matter(seed: int) -> None:
    """Only which of two equal calls has which id follows the file, as nothing else tells them apart."""
    rows = ROWS[1:]
    random.Random(seed).shuffle(rows)
    shuffled = [event for event in events(data([TRACE, *rows])) if event.kind != "tool"]
    assert told(shuffled) == told([event for event in events(data(ROWS)) if event.kind != "tool"])
    assert {event.call_id for event in tools(data([TRACE, *rows]))} <= {"call_1", "call_2", None}
    assert len(tools(data([TRACE, *rows]))) == 2


def test_an_answer_that_comes_behind_its_call_still_names_it() -> None:
    """Batches may be sent in any order."""
    found = tools(data([TRACE, ROWS[2], ROWS[1]]))
    assert [event.call_id for event in found] == ["call_1"]


def test_responses_and_chat_messages_ask_for_calls_too() -> None:
    """Newer spans hold a response, others messages with tool calls."""
    response = {
        "type": "response",
        "output": None,
        "model": None,
        "response": {"model": "m2", "output": ROWS[1]["span_data"]["output"]},
    }
    chat = {
        "output": [
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '{"id": 1}'}}],
            }
        ]
    }
    for shape, call_id in ((response, "call_1"), (chat, "c")):
        found = events(data([TRACE, answer("g", "t1", 1, **shape), call("a", "t1", 2)]))
        assert [event.call_id for event in found if event.kind == "tool"] == [call_id]
    (model,) = [event for event in events(data([answer("g", "t1", 1, **response)])) if event.kind == "model"]
    assert (model.model, model.tokens_in, model.tokens_out) == ("m2", 112, 20)


def test_a_call_that_waits_for_an_approval_is_open() -> None:
    """It ended well, returned nothing and did not fail."""
    (event,) = tools(data([call("a", "t1", 2, output=None)]))
    assert (event.open, event.result, event.error_class) == (True, ABSENT, None)


def test_a_failure_without_details_is_no_evidence() -> None:
    """The SDK's fixed sentence is the same for every failure."""
    (event,) = tools(data([call("a", "t1", 2, output="An error occurred.", error=REDACTED)]))
    assert (event.error_class, event.result, event.open) == ("unknown", ABSENT, False)


def test_a_failure_with_details_keeps_its_result() -> None:
    """Then the sentence says what was wrong."""
    error = {"message": "Error running tool", "data": {"error": "no order A-404"}}
    (event,) = tools(data([call("a", "t1", 2, output="Error: no order A-404", error=error)]))
    assert (event.error_class, event.result) == ("unknown", "Error: no order A-404")


def test_a_handoff_is_one_even_where_it_was_asked_for_twice() -> None:
    """Its span then says that it failed, and it happened all the same."""
    plain = {"type": "handoff", "from_agent": "Triage", "to_agent": "Refunds"}
    error = {"message": "Multiple handoffs requested", "data": {"requested_agents": ["Refunds", "Sales"]}}
    for one in (span("h", "t1", 1, plain), span("h", "t1", 1, plain, error=error)):
        (event,) = events(data([one]))
        assert (event.kind, event.target, event.error_class, event.open) == (
            "handoff",
            "Refunds",
            None,
            False,
        )


def test_the_turn_limit_is_the_failure_of_the_agent() -> None:
    """Nothing above it says so."""
    error = {"message": "Max turns exceeded", "data": {"max_turns": 4}}
    (event,) = events(data([agent("ag", None, "Looper", error=error)]))
    assert (event.kind, event.tool, event.error_class) == ("agent", "Looper", "MaxTurnsExceeded")


def test_a_trace_begins_with_one_human_turn() -> None:
    """Questions to the models of agents that run as tools are not a person's."""
    rows = [TRACE, ROWS[1], answer("g2", "t2", 5), answer("g3", "t3", 6, input="text")]
    found = [event for event in events(data(rows)) if event.external_input]
    assert [(event.parent_span_id, event.at) for event in found] == [("span_t1", found[0].at)]
    reply = answer("g", "t", 1, input=[{"type": "function_call_output", "call_id": "c", "output": "x"}])
    assert not any(event.external_input for event in events(data([TRACE, reply])))


def test_spans_without_their_agent_get_it_from_the_turn() -> None:
    """A run that was killed never ended its agent span."""
    (turned,) = [event for event in events(data([ROWS[4]])) if event.kind == "log"]
    assert turned.agent == "Refunds"


@pytest.mark.parametrize(
    "write", [lambda rows: json.dumps({"data": rows}), lambda rows: json.dumps(rows, indent=1)]
)
def test_the_ingest_body_and_arrays_are_read_alike(write: Any) -> None:
    """The exporter sends its payloads in one object."""
    assert told(events(write(ROWS).encode())) == told(events(data(ROWS)))


def test_what_is_no_payload_is_reported() -> None:
    """Objects of other kinds are counted, others set aside."""
    _, report = records(
        data([*ROWS, {"object": "trace.usage"}, {"x": 1}, {"object": "trace.span"}, {"object": "trace"}])
    )
    assert report.unknown == {"object trace.usage": 1}
    assert [fault.position for fault in report.faults] == [8, 9, 10]


def test_wrong_types_never_raise(tmp_path: Path) -> None:
    """Any value of any payload may be anything."""
    rng = random.Random(3)
    path = tmp_path / "x.jsonl"
    wrong: list[Any] = [None, 0, -1, 2**70, 1.5, "", "x", True, [], [1], {}, {"a": 1}, [{}], [[]], [None]]
    for _ in range(300):
        rows = json.loads(json.dumps(ROWS))
        holder: Any = rows
        key: Any = rng.randrange(len(rows))
        while isinstance(holder[key], (dict, list)) and holder[key] and rng.random() < 0.8:
            holder = holder[key]
            key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
        holder[key] = rng.choice(wrong)
        path.write_bytes(data(rows))
        list(openai_agents.read(Source.of(path), Report()))


def test_the_real_payloads_are_judged_like_the_spans_of_another_tool(shared: Path) -> None:
    """The same three scripts ran under both: a handoff, a loop without evidence, a call that waits."""
    facts = [
        "agent",
        "kind",
        "tool",
        "action_signature",
        "progress_fingerprint",
        "error_class",
        "open",
        "verdict",
    ]
    native = judged(shared / "samples/openai-agents/support.jsonl").select(facts)
    spans = judged(shared / "samples/otlp-json/support-openinference.otlp.jsonl").select(facts)
    assert native.sort(facts).equals(spans.sort(facts))
    assert native.filter(agent="Looper")["verdict"].to_list() == ["working"] * 3 + ["uncertain"]
    ids = [event.call_id for event in tools(shared / "samples/openai-agents/support.jsonl")]
    assert len(set(ids)) == len(ids) == 9
    assert None not in ids


@pytest.mark.parametrize(
    ("said", "error"), [("http.TimeoutError: late", "TimeoutError"), ("Answer: no", "unknown")]
)
def test_what_a_tool_raised_is_its_class(said: str, error: str) -> None:
    """The words of the failure are the same for every tool; what it raised stands beside them."""
    failure = {"message": "Error running tool", "data": {"tool_name": "f", "error": said}}
    data = {"type": "function", "name": "f", "input": "{}", "output": None}
    rows = (TRACE, span("a", None, 1, data, error=failure))
    (tool,) = tools("\n".join(json.dumps(one) for one in rows).encode())
    assert tool.error_class == error


def test_a_call_that_a_person_let_go_on_is_the_one_that_waited() -> None:
    """The call is run by a span of its own that no answer asked for; one that is refused stays open."""
    call = {"type": "function", "name": "drop", "input": '{"t": "a"}', "output": None}
    rows = [
        TRACE,
        answer("m", "t1", 1, ("c7", "drop", '{"t":"a"}'), ("c8", "drop", '{"t":"b"}')),
        span("f1", "t1", 2, call),
        span("f2", "t1", 2, call | {"input": '{"t": "b"}'}),
        turn("t1", "Ops", "a1"),
        span("a1", None, 0, {"type": "agent", "name": "Ops"}),
        span("f3", "a2", 8, call | {"output": "gone"}),
        span("a2", None, 7, {"type": "agent", "name": "Ops"}),
    ]
    found = tools(data(rows))
    waited, refused, ran = (next(one for one in found if one.span_id == f"span_f{n}") for n in (1, 2, 3))
    assert (ran.identity, ran.call_id, ran.external_input) == (waited.identity, "c7", True)
    assert (waited.open, ran.open, refused.open) == (True, False, True)


def resumed(group: str | None, **conversation: Any) -> list[dict[str, Any]]:
    """Return two traces: a call waits in the first, is carried out in the second, whose next question repeats it."""
    other = {"trace_id": "trace_2"}
    asked = {"type": "function_call", "call_id": "c7", "name": "f", "arguments": '{"id":1}'} | conversation
    came = {"type": "function_call_output", "call_id": asked["call_id"], "output": "ok"}
    return [
        TRACE | {"group_id": group},
        answer("g1", "t1", 1, ("c7", "f", '{"id": 1}')),
        call("f1", "t1", 2, output=None),
        turn("t1", "Triage", "a1"),
        agent("a1", None, "Triage"),
        TRACE | {"id": "trace_2", "group_id": group},
        call("f2", "t2", 30) | other,
        turn("t2", "Triage", "a2") | other,
        answer("g2", "t3", 31, input=[{"role": "user", "content": "x"}, asked, came]) | other,
        turn("t3", "Triage", "a2") | other,
        agent("a2", None, "Triage") | other,
    ]


@pytest.mark.parametrize("group", ["thread_7", None])
@pytest.mark.parametrize("order", [1, -1])
def test_a_call_that_goes_on_in_another_trace_is_one(group: str | None, order: int, tmp_path: Path) -> None:
    """The conversation names the id of the call that waited: one action, in the lane and place where it began."""
    rows = resumed(group)
    rows = rows if order > 0 else [*rows[5:], *rows[:5]]
    path = tmp_path / "two.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    found = judged(path)
    run = group or "trace_1"
    assert found.select("run_id", "agent", "tool", "open").rows() == [(run, "Triage", "f", False)]


@pytest.mark.parametrize("other", [{"call_id": "c8"}, {"name": "g"}, {"arguments": "{}"}])
def test_without_its_id_a_call_in_another_trace_is_another(other: dict[str, Any], tmp_path: Path) -> None:
    """Equal names and arguments alone prove nothing."""
    path = tmp_path / "two.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in resumed("thread_7", **other)), "utf-8")
    assert judged(path)["open"].to_list() == [True, False]
