"""OTLP JSON in every spelling: what each span becomes."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers.spans import ASKED
from tests.readers.reading import events, records, said, tools
from tests.readers.spans_made import (
    SMALL,
    T0,
    TRACE,
    agent,
    attributes,
    document,
    lines,
    request,
    respelled,
    sid,
    span,
    tool,
)

if TYPE_CHECKING:
    from pathlib import Path


def only(data: bytes, kind: str) -> RawEvent:
    (found,) = [event for event in events(data) if event.kind == kind]
    return found


def sorted_said(found: list[Any]) -> list[dict[str, Any]]:
    return sorted(
        (said(event) for event in found), key=lambda values: (values.get("span_id", ""), values["kind"])
    )


def test_a_tool_span_is_one_event() -> None:
    """Ids, times to the microsecond, arguments, result and call id come from one span."""
    made = tool(2, "search", '{"q": "a"}', "3 hits")
    made["attributes"] += attributes({"gen_ai.tool.call.id": "call_9"})
    event = only(lines(request(made)), "tool")
    assert said(event) == {
        "run_id": TRACE,
        "trace_id": TRACE,
        "span_id": sid(2),
        "parent_span_id": sid(1),
        "identity": f"span:{sid(2)}",
        "kind": "tool",
        "tool": "search",
        "args": '{"q": "a"}',
        "result": "3 hits",
        "call_id": "call_9",
        "at": (T0 + 2_123_456_789) // 1000,
        "ended_at": (T0 + 2_623_456_789) // 1000,
        "open": False,
        "has_fingerprint": False,
    }
    assert event.agent is None


@pytest.mark.parametrize(
    "how", ["tempo", "newer tempo", "array", "upper case", "base64", "whole numbers", "snake_case"]
)
@pytest.mark.parametrize("write", [document, lines])
def test_every_spelling_gives_the_same_events(how: str, write) -> None:
    """Lines or document, camelCase or snake_case, hex, base64 or bare numbers: one table."""
    assert sorted_said(events(write(respelled(SMALL, how)))) == sorted_said(events(lines(SMALL)))


def test_model_and_agent_spans_are_no_actions() -> None:
    """A model call carries tokens and model, an agent span its name; an agent's own tokens are sums and left out."""
    wrapped = agent(1, "Finder")
    wrapped["attributes"] += attributes({"gen_ai.usage.input_tokens": 99, "gen_ai.agent.version": "7"})
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 7}
    data = lines(request(wrapped, span(2, "chat m", chat, parent=1)))
    model, agent_ = only(data, "model"), only(data, "agent")
    assert (model.model, model.tokens_in, model.tokens_out, model.tool) == ("m", 7, None, "")
    assert (agent_.tool, agent_.agent, agent_.tokens_in, agent_.agent_version) == (
        "Finder",
        "Finder",
        None,
        "7",
    )


@pytest.mark.parametrize(
    ("name", "plain", "target"),
    [
        ("handoff to Refunds", {"openinference.span.kind": "TOOL", "input.value": "Triage"}, "Refunds"),
        ("Triage → Refunds.handoff", {"traceloop.span.kind": "handoff"}, "Refunds"),
        ("Triage → unknown.handoff", {"gen_ai.operation.name": "handoff"}, None),
        ("x", {"traceloop.span.kind": "handoff", "gen_ai.handoff.to_agent": "Refunds"}, "Refunds"),
        ("execute_tool transfer_to_refunds", {"gen_ai.operation.name": "execute_tool"}, "refunds"),
        (
            "execute_tool transfer_to_agent",
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.args": '{"agent_name": "Refunds"}'},
            "Refunds",
        ),
    ],
)
def test_a_handoff_is_no_tool_call(name: str, plain: dict[str, Any], target: str | None) -> None:
    """Each dialect's handoff span names whom it hands to, where it says so."""
    event = only(lines(request(span(2, name, plain, parent=1))), "handoff")
    assert event.target == target
    assert event.result is ABSENT


def test_going_to_a_person_is_a_tool_call() -> None:
    """Nobody could accept such a handoff in the trace."""
    assert only(lines(request(tool(2, "transfer_to_human_agents", "{}", "ok"))), "tool").target is None


@pytest.mark.parametrize("end", [{"endTimeUnixNano": "0"}, {"endTimeUnixNano": 0}, {"endTimeUnixNano": None}])
def test_a_span_without_an_end_is_open(end: dict[str, Any]) -> None:
    """Started and never seen to end is neither success nor failure."""
    event = only(lines(request(tool(2, "search", "{}", **end))), "tool")
    assert (event.ended_at, event.open, event.error_class, event.result) == (None, True, None, ABSENT)


def test_ok_without_output_is_open_and_no_success() -> None:
    """A tool that waits for an approval ends well and says nothing; without arguments nothing is exported at all."""
    waiting = only(lines(request(tool(2, "delete", '{"id": 1}'))), "tool")
    assert (waiting.open, waiting.result, waiting.outcome) == (True, ABSENT, None)
    unexported = only(lines(request(tool(2, "delete", None))), "tool")
    assert (unexported.open, unexported.args, unexported.result) == (False, ABSENT, ABSENT)


def test_what_a_callback_wrapped_is_unwrapped() -> None:
    """Tags, metadata and ids of the run stand beside the arguments and change with every call."""
    told = {
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": "search",
        "traceloop.entity.input": '{"input_str": "x", "metadata": {"run": "9"}, "inputs": {"q": "a"}, "kwargs": {"id": 1}}',
        "traceloop.entity.output": '{"output": "3 hits", "kwargs": {"run_id": "9"}}',
    }
    event = only(lines(request(span(2, "search.tool", told, parent=1))), "tool")
    assert (event.tool, event.args, event.result) == ("search", {"q": "a"}, "3 hits")


def test_an_empty_result_is_a_result() -> None:
    """An empty text was exported; that is not "not exported"."""
    event = only(lines(request(tool(2, "touch", "{}", ""))), "tool")
    assert (event.result, event.open) == ("", False)


FAILED = {"status": {"code": 2, "message": "no such order"}}
RAISED = [
    {
        "name": "exception",
        "attributes": attributes({"exception.type": "KeyError", "exception.message": "A-1"}),
    }
]


@pytest.mark.parametrize(
    ("more", "error", "result"),
    [
        ({**FAILED}, "unknown", "no such order"),
        ({**FAILED, "events": RAISED}, "KeyError", "A-1"),
        ({"status": {"code": "STATUS_CODE_ERROR"}}, "unknown", ABSENT),
        ({"status": {"code": 2, "message": "Error details are redacted."}}, "unknown", ABSENT),
        ({"status": {"code": 1}, "events": RAISED}, None, ABSENT),
        ({"status": {}, "events": RAISED}, None, ABSENT),
    ],
)
def test_a_failure_has_a_class_and_its_words(more: dict[str, Any], error: str | None, result: Any) -> None:
    """From the exception, else unknown; redacted words are no evidence; OK is no failure whatever was caught."""
    event = only(lines(request(tool(2, "get", "{}", **more))), "tool")
    assert (event.error_class, event.result) == (error, result)


def test_redacted_details_make_the_fixed_sentence_unknown() -> None:
    """The same words for every failure prove nothing about the next one."""
    more = {"status": {"code": 2, "message": "tool failed. Error details are redacted."}}
    event = only(lines(request(tool(2, "get", "{}", "An error occurred.", **more))), "tool")
    assert event.result is ABSENT


def test_the_session_is_kept_beside_the_trace() -> None:
    """It may stand on only some spans; which run that makes is decided for the whole trace."""
    inside = tool(2, "a", "{}", "1")
    inside["attributes"] += attributes({"session.id": "s", "gen_ai.conversation.id": "c"})
    data = lines(request(inside, agent(1, "A")))
    assert {event.kind: (event.run_id, event.session) for event in events(data)} == {
        "tool": (TRACE, "c"),
        "agent": (TRACE, None),
    }


def test_the_outermost_span_names_the_lane_that_nothing_else_names() -> None:
    """The service is the last resort, and an unknown one is none."""
    chain = span(1, "work", {"openinference.span.kind": "CHAIN"})
    assert only(lines(request(chain)), "log").agent == "bot"
    assert (
        only(lines(request(chain, resource={"service.name": "unknown_service:python"})), "log").agent is None
    )


def test_other_spans_are_kept_for_their_place() -> None:
    """A tool inherits its agent through chains and HTTP calls, so their ids are kept and their names are not."""
    event = only(lines(request(span(2, "GET /users/9", {"http.method": "GET"}, parent=1))), "log")
    assert (event.tool, event.span_id, event.parent_span_id) == ("", sid(2), sid(1))


@pytest.mark.parametrize("order", [1, -1])
def test_a_call_told_by_two_instrumentations_has_one_identity(order: int) -> None:
    """A span right inside one of the same tool and arguments is the same call, whichever comes first."""
    outer = span(
        2,
        "search",
        {"openinference.span.kind": "TOOL", "tool.name": "search", "input.value": '{"q":1,"k":2}'},
        parent=1,
    )
    inner = tool(3, "search", '{"k": 2, "q": 1}', "3 hits", parent=2)
    found = events(lines(*[request(one) for one in [outer, inner][::order]]))
    assert len({event.identity for event in found if event.kind == "tool"}) == 1
    assert {event.span_id for event in found if event.kind == "log"} <= {sid(2), sid(3)}


def test_attempts_inside_one_call_stay_attempts() -> None:
    """Only the first of several spans right inside one is the same call told again."""
    outer = tool(2, "fetch", '{"u": 1}', "ok")
    attempts = [tool(number, "fetch", '{"u": 1}', "x", parent=2) for number in (3, 4, 5)]
    found = tools(lines(request(outer, *attempts)))
    assert len({event.identity for event in found}) == 3


def test_nested_calls_of_other_arguments_are_calls() -> None:
    """A tool that calls itself deeper down did two things."""
    found = tools(
        lines(request(tool(2, "walk", '{"d": 1}', "x"), tool(3, "walk", '{"d": 2}', "y", parent=2)))
    )
    assert len({event.identity for event in found}) == 2


@pytest.mark.parametrize(
    ("plain", "turn"),
    [
        ({"input.value": "refund please"}, True),
        ({"gen_ai.input.messages": '[{"role": "user", "parts": []}]'}, True),
        ({"gen_ai.input.messages": '[{"role": "user"}, {"role": "tool"}]'}, False),
        ({"input.value": '{"messages": [{"type": "human", "content": "x"}]}'}, True),
        ({"input.value": '{"job": 7}'}, False),
        ({}, False),
    ],
)
def test_a_human_turn_is_read_from_the_outermost_span_alone(plain: dict[str, Any], turn: bool) -> None:
    """Its input must be a person's; prompts inside model calls repeat the history and are not read."""
    root = span(1, "run", {"openinference.span.kind": "AGENT", "agent.name": "A", **plain})
    chat = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": '[{"role": "user"}]'}
    turns = [
        event
        for event in events(lines(request(root, span(2, "chat", chat, parent=1))))
        if event.kind == "message"
    ]
    assert [(event.external_input, event.parent_span_id) for event in turns] == [(True, sid(1))] * turn


@pytest.mark.parametrize("time", [1.7e18, "soon", True, -5, 10**30, [1]])
def test_an_unreadable_time_is_left_out_and_counted(time: Any) -> None:
    """A floating number cannot hold nanoseconds; the event stays."""
    found, report = records(lines(request(tool(2, "a", "{}", "x", startTimeUnixNano=time))))
    assert [event.at for event in found if isinstance(event, RawEvent)] == [None]
    assert report.repaired == {"unreadable time left out": 1}


@pytest.mark.parametrize("bad", [None, 7, "text", [], [{}], {"traceId": 3.5}, {"traceId": "0" * 32}])
def test_a_span_of_the_wrong_type_is_set_aside_and_the_next_is_read(bad: Any) -> None:
    """With line and reason; null stands for a record that was set aside before."""
    one = request(tool(2, "a", "{}", "x"))
    one["resourceSpans"][0]["scopeSpans"][0]["spans"].insert(0, bad)
    found, report = records(lines(one))
    assert [event.tool for event in found if isinstance(event, RawEvent)] == ["a"]
    assert [fault.position for fault in report.faults] == ([] if bad is None else [1])


def many() -> list[dict[str, Any]]:
    rng = random.Random(7)
    made = [
        tool(number, rng.choice(["a", "b"]), f'{{"q": {rng.randrange(3)}}}', f"r{rng.randrange(4)}")
        for number in range(2, 40)
    ]
    return [request(*made[start : start + 3]) for start in range(0, len(made), 3)] + [request(agent(1, "A"))]


def test_shuffled_lines_give_the_same_events() -> None:
    """OTLP promises no order, and the reader needs none."""
    one = many()
    other = one[:]
    random.Random(3).shuffle(other)
    assert sorted_said(events(lines(*one))) == sorted_said(events(lines(*other)))


def test_duplicated_lines_have_the_same_identities() -> None:
    """So that assembling them drops them."""
    once, twice = events(lines(*many())), events(lines(*many(), *many()))
    assert {event.identity for event in twice} == {event.identity for event in once}
    assert len(twice) == 2 * len(once)


def test_unknown_keys_change_nothing() -> None:
    """At every level."""

    def more(item: Any) -> Any:
        if isinstance(item, dict):
            return {"x_new": {"a": [1]}, **{key: more(inner) for key, inner in item.items()}}
        return [more(inner) for inner in item] if isinstance(item, list) else item

    noisy = [json.loads(json.dumps(one)) for one in many()]
    for one in noisy:
        for group in one["resourceSpans"]:
            group["x"] = 1
            for scope in group["scopeSpans"]:
                scope["spans"] = [{**item, "x_new": more(item["attributes"])} for item in scope["spans"]]
    assert sorted_said(events(lines(*noisy))) == sorted_said(events(lines(*many())))


def counts(found: list[RawEvent]) -> dict[str, int]:
    kinds = [event.kind for event in found]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


def test_the_openinference_export(shared: Path) -> None:
    """Three traces: a handoff and a failing tool, a loop to the turn limit, a tool that waits for approval."""
    every = events(shared / "samples/otlp-json/support-openinference.otlp.jsonl")
    found = [event for event in every if not (event.identity or "").startswith(ASKED)]
    assert counts(found) == {"agent": 7, "handoff": 1, "log": 13, "model": 10, "tool": 9}
    assert len({event.run_id for event in found}) == 3
    assert [event.target for event in found if event.kind == "handoff"] == ["Refunds"]
    waiting = [event for event in found if event.kind == "tool" and event.open]
    assert [(event.tool, event.error_class) for event in waiting] == [("delete_order", None)]


def test_the_traceloop_export_tells_the_same_calls(shared: Path) -> None:
    """The same three runs through another instrumentation: equal tools, arguments, results and failures."""

    def told(name: str) -> list[tuple[Any, ...]]:
        return [
            (event.tool, json.loads(event.args), event.result, event.error_class, event.open)
            for event in tools(shared / "samples" / name)
        ]

    assert told("traceloop/support-traceloop.otlp.jsonl") == told(
        "otlp-json/support-openinference.otlp.jsonl"
    )


def test_the_official_example_keeps_its_nanoseconds(shared: Path) -> None:
    """Upper-case ids and nanoseconds as numbers beyond 2**53."""
    (event,) = events(shared / "samples/otlp-json/opentelemetry-proto-trace.json")
    assert (event.trace_id, event.span_id) == ("5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174")
    assert event.at == 1_544_712_660_000_000


def test_the_tempo_download_holds_one_tool_call(shared: Path) -> None:
    """86 spans of which most are HTTP noise; model calls told twice are counted once."""
    found = events(shared / "traces/kagent-otlp/tempo_export_with_batches.json")
    assert len({event.span_id for event in found} - {None}) == 86
    (call,) = [event for event in found if event.kind == "tool"]
    assert (call.tool, call.args) == ("helm_list_releases", "{}")
    models = {event.identity: (event.tokens_in, event.tokens_out) for event in found if event.kind == "model"}
    assert sorted(models.values()) == [(2256, 13), (2392, 116)]


FRAMEWORKS = {
    "vercel": {
        "ai.operationId": "ai.toolCall",
        "ai.toolCall.name": "search",
        "ai.toolCall.id": "call_1",
        "ai.toolCall.args": '{"q": "a"}',
        "ai.toolCall.result": '"3 hits"',
    },
    "livekit": {
        "lk.function_tool.name": "search",
        "lk.function_tool.id": "call_1",
        "lk.function_tool.arguments": '{"q": "a"}',
        "lk.function_tool.output": '"3 hits"',
        "lk.function_tool.is_error": False,
    },
    "strands": {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.call.id": "call_1",
    },
}


@pytest.mark.parametrize("dialect", sorted(FRAMEWORKS))
def test_calls_of_frameworks_with_names_of_their_own(dialect: str) -> None:
    """One keeps its arguments and result in events of the span, as older conventions had it."""
    notes = [
        {"name": "gen_ai.tool.message", "attributes": attributes({"role": "tool", "content": '{"q": "a"}'})},
        {"name": "gen_ai.choice", "attributes": attributes({"message": '"3 hits"', "id": "call_1"})},
    ]
    more = {"events": notes} if dialect == "strands" else {}
    event = only(lines(request(span(2, "x", FRAMEWORKS[dialect], parent=1, **more))), "tool")
    assert (event.tool, event.call_id, event.args, event.result) == (
        "search",
        "call_1",
        '{"q": "a"}',
        '"3 hits"',
    )
    assert (event.error_class, event.open) == (None, False)


@pytest.mark.parametrize("told", [{"gen_ai.tool.status": "error"}, {"lk.function_tool.is_error": True}])
def test_a_tool_may_fail_in_a_span_that_went_well(told: dict[str, Any]) -> None:
    """What it returned is the words of its failure."""
    event = only(lines(request(span(2, "x", FRAMEWORKS["vercel"] | told, parent=1))), "tool")
    assert (event.error_class, event.result) == ("unknown", '"3 hits"')


def test_what_sums_up_model_calls_is_no_model_call() -> None:
    """Its tokens are those of the calls inside."""
    outer = {
        "ai.operationId": "ai.generateText",
        "ai.telemetry.functionId": "helper",
        "ai.usage.inputTokens": 9,
    }
    inner = outer | {"ai.operationId": "ai.generateText.doGenerate", "ai.response.model": "m"}
    data = lines(
        request(span(1, "ai.generateText", outer), span(2, "ai.generateText.doGenerate", inner, parent=1))
    )
    event = only(data, "model")
    assert (event.model, event.tokens_in, event.agent) == ("m", 9, "helper")
    assert only(data, "log").tokens_in is None


def test_a_question_a_graph_raises_is_a_wait_and_no_failure() -> None:
    """The tool it was raised in is open; the spans around it tell of the same question."""
    raised = {
        "name": "exception",
        "attributes": attributes(
            {
                "exception.type": "langgraph.errors.GraphInterrupt",
                "exception.message": "(Interrupt(value='ok?', id='7c1'),)",
            }
        ),
    }
    more = {"status": {"code": 2}, "events": [raised]}
    found = events(lines(request(tool(2, "ask", '{"q": 1}', **more), agent(1, "A", **more))))
    (asked,) = [event for event in found if event.kind == "tool"]
    assert (asked.error_class, asked.open, asked.result) == (None, True, ABSENT)
    assert [(e.target, e.identity, e.open) for e in found if e.kind == "wait"] == [
        ("execute_tool ask", "interrupt:7c1", True),
        ("invoke_agent A", "interrupt:7c1", True),
    ]


@pytest.mark.parametrize("name", ["trace", "traces", "data", "result"])
def test_requests_may_be_wrapped(name: str) -> None:
    """Interfaces of stores put them under a name of their own."""
    assert sorted_said(events(json.dumps({name: SMALL}).encode())) == sorted_said(events(lines(SMALL)))


OTHER = "b" * 32


def test_the_span_that_an_agent_links_to_is_kept() -> None:
    """An agent started from another trace keeps that trace and the span; of several links no span is chosen."""
    link = {"traceId": OTHER, "spanId": sid(7)}
    found = only(document(request(agent(1, "Writer", links=[link]))), "agent")
    assert (found.parent_run_id, found.call_id) == (OTHER, sid(7))
    two = [link, {"traceId": OTHER, "spanId": sid(8)}]
    found = only(document(request(agent(1, "Writer", links=two))), "agent")
    assert (found.parent_run_id, found.call_id) == (OTHER, None)


@pytest.mark.parametrize("kind", [3, "SPAN_KIND_CLIENT"])
def test_the_callers_side_of_an_agent_is_a_handoff(kind: Any) -> None:
    """An agent span of the kind client below another hands over; only the internal one is an agent's own."""
    spans = (agent(1, "Lead"), agent(2, "Writer", parent=1, kind=kind), agent(3, "Writer", parent=2))
    found = events(document(request(*spans)))
    hand = next(event for event in found if event.kind == "handoff")
    assert (hand.agent, hand.target, hand.parent_span_id, hand.call_id) == (None, "Writer", sid(1), sid(2))
    assert [e.span_id for e in found if e.kind == "agent"] == [sid(1), sid(3)]
    assert [(e.kind, e.agent) for e in found if e.span_id == sid(2)] == [("log", "Writer")]


def test_an_outermost_client_span_is_the_agent() -> None:
    """Where nobody stands around it, a client's span of an agent is all there is of that agent."""
    assert only(document(request(agent(1, "Lead", kind=3))), "agent").agent == "Lead"
