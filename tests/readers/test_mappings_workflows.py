"""Shipped mappings of agent sessions and workflow engines: ADK, Step Functions, Temporal, Cline. Made up by hand."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.model.raw import ABSENT
from tests.readers.test_mappings_spans import read

if TYPE_CHECKING:
    from pathlib import Path


def adk(n: int, author: str, *parts: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": f"e{n}",
        "author": author,
        "timestamp": 1772359200.5 + n,
        "content": {"parts": list(parts)},
        **more,
    }


def call(key: str | None, name: str, **args: Any) -> dict[str, Any]:
    return {"function_call": {"id": key, "name": name, "args": args}}


def answer(key: str | None, name: str, **response: Any) -> dict[str, Any]:
    return {"function_response": {"id": key, "name": name, "response": response}}


ADK = [
    adk(0, "user", {"text": "go"}),
    adk(
        1,
        "Ann",
        call("a", "search", q=1),
        call(None, "look"),
        usage_metadata={"prompt_token_count": 5, "candidates_token_count": 2},
    ),
    adk(2, "Ann", answer("a", "search", result="x"), answer(None, "look", error="none")),
    adk(3, "Ann", call("b", "transfer_to_agent", agent_name="Bob")),
    adk(4, "Ann", answer("b", "transfer_to_agent", result=None), actions={"transfer_to_agent": "Bob"}),
    adk(
        5,
        "Bob",
        call("c", "adk_request_confirmation", originalFunctionCall={"name": "pay"}),
        branch="Ann.Bob",
    ),
    adk(6, "user", answer("c", "adk_request_confirmation", confirmed=True)),
    adk(7, "Bob", call("d", "build"), long_running_tool_ids=["d"]),
    adk(8, "Bob", answer("d", "build", status="pending"), actions={"end_of_agent": True}),
    adk(9, "user", actions={"rewind_before_invocation_id": "i1"}),
]


def camel(value: Any) -> Any:
    """Return the event as the interface writes it."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    names = {
        name: name.split("_")[0] + "".join(part.title() for part in name.split("_")[1:]) for name in value
    }
    return {name if name == "agent_name" else names[name]: camel(item) for name, item in value.items()}


@pytest.mark.parametrize("spelling", [lambda value: value, camel], ids=["snake", "camel"])
def test_adk_sessions(spelling: Any, tmp_path: Path) -> None:
    """Calls are paired with their responses; transfers, confirmations and long runs are what they are."""
    found = read("adk", tmp_path, {"id": "s1", "app_name": "app", "events": spelling(ADK)})
    assert [(e.kind, e.tool, e.agent, e.target, e.result, e.open) for e in found] == [
        ("message", "user", "Ann", None, ABSENT, None),
        ("model", "", "Ann", None, ABSENT, None),
        ("tool", "search", "Ann", None, '{"result":"x"}', False),
        ("tool", "look", "Ann", None, '{"error":"none"}', False),
        ("handoff", "transfer_to_agent", "Ann", "Bob", '{"result":null}', False),
        ("approval", "adk_request_confirmation", "Bob", "pay", '{"confirmed":true}', False),
        ("tool", "build", "Bob", None, ABSENT, True),
        ("wait", "build", "Bob", "build", ABSENT, True),
        ("claim", "end_of_agent", "Bob", "success", ABSENT, None),
        ("reset", "rewind", "Bob", "i1", ABSENT, None),
    ]
    assert {(event.run_id, event.workflow) for event in found} == {("s1", "app")}
    assert (found[3].error_class, found[5].external_input, found[5].parent_agent) == (
        "tool_error",
        True,
        "Ann",
    )
    assert (found[2].at, found[2].ended_at, found[1].tokens_in) == (
        1_772_359_201_500_000,
        1_772_359_202_500_000,
        5,
    )
    assert len({event.identity for event in found if event.identity}) == sum(
        event.identity is not None for event in found
    )


def test_adk_events_one_a_line(tmp_path: Path) -> None:
    """Without a session around them the file names the run."""
    found = read("adk", tmp_path, ADK[:3])
    assert {(event.run_id, event.workflow) for event in found} == {("log", None)}
    assert [event.kind for event in found] == ["message", "model", "tool", "tool"]


def step(n: int, kind: str, above: int, **about: Any) -> dict[str, Any]:
    name = kind[0].lower() + kind[1:] + "EventDetails"
    if kind.endswith("StateEntered"):
        name = "stateEnteredEventDetails"
    return {
        "timestamp": f"2026-03-01T10:00:{n:02}+00:00",
        "type": kind,
        "id": n,
        "previousEventId": above,
        name: about,
    }


CHILD = {
    "resource": "startExecution.sync",
    "parameters": '{"StateMachineArn": "arn:aws:states:x:1:stateMachine:child"}',
}
STEPS = [
    step(1, "ExecutionStarted", 0),
    step(2, "TaskStateEntered", 1, name="Fetch"),
    step(3, "TaskScheduled", 2, resource="invoke", parameters='{"n": 1}'),
    step(4, "TaskStarted", 3),
    step(5, "TaskFailed", 4, error="Busy", cause="no"),
    step(6, "TaskScheduled", 5, resource="invoke", parameters='{"n": 1}'),
    step(7, "TaskStarted", 6),
    step(8, "TaskSucceeded", 7, output='{"ok": true}'),
    step(9, "TaskStateExited", 8),
    step(10, "WaitStateEntered", 9, name="Pause"),
    step(11, "WaitStateExited", 10),
    step(12, "TaskStateEntered", 11, name="Delegate"),
    step(13, "TaskScheduled", 12, **CHILD),
    step(14, "TaskSubmitted", 13),
    step(15, "TaskTimedOut", 14),
    step(16, "ExecutionFailed", 15, error="States.Timeout"),
]


def logged(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event as the log group has it."""
    about = next((value for name, value in event.items() if name.endswith("Details")), {})
    return {
        "id": str(event["id"]),
        "type": event["type"],
        "details": about,
        "previous_event_id": str(event["previousEventId"]),
        "event_timestamp": str(1772359200000 + event["id"] * 1000),
        "execution_arn": "log",
    }


@pytest.mark.parametrize(
    "shape", [{"events": STEPS}, [logged(event) for event in STEPS]], ids=["history", "log"]
)
def test_step_functions_histories(shape: Any, tmp_path: Path) -> None:
    """Each scheduled task is a call; repetitions of one entry are attempts; a started execution is a handoff."""
    found = read("step_functions", tmp_path, shape)
    assert [(e.kind, e.tool, e.target, e.attempt, e.error_class, e.open) for e in found] == [
        ("tool", "Fetch", None, 1, "Busy", False),
        ("tool", "Fetch", None, 2, None, False),
        ("wait", "Pause", "timer", None, None, False),
        ("handoff", "Delegate", "child", 1, "States.Timeout", False),
        ("accept", "Delegate", None, None, None, None),
        ("claim", "execution", "failure", None, "States.Timeout", None),
    ]
    assert [(e.args, e.result) for e in found[:2]] == [('{"n": 1}', ABSENT), ('{"n": 1}', '{"ok": true}')]
    seconds = [
        ((e.at or 0) // 1_000_000 - 1_772_359_200, (e.ended_at or 0) // 1_000_000 - 1_772_359_200)
        for e in found[:4]
    ]
    assert seconds == [(3, 5), (6, 8), (10, 11), (13, 15)]
    assert (found[3].identity, found[4].identity, found[4].agent) == ("call:13", "accept:call:13", "child")
    assert {event.run_id for event in found} == {"log"}


def payload(*values: Any) -> dict[str, Any]:
    return {"payloads": [{"data": base64.b64encode(json.dumps(value).encode()).decode()} for value in values]}


def flow(n: int, kind: str, **about: Any) -> dict[str, Any]:
    words = [part.title() for part in kind.split("_")]
    name = words[0].lower() + "".join(words[1:]) + "EventAttributes"
    return {
        "eventId": str(n),
        "eventTime": f"2026-03-01T10:00:{n:02}.5Z",
        "eventType": f"EVENT_TYPE_{kind}",
        name: about,
    }


POLICY = {
    "initialInterval": "1s",
    "backoffCoefficient": 2,
    "maximumInterval": "100s",
    "nonRetryableErrorTypes": ["Bad"],
}
FLOW = [
    flow(1, "WORKFLOW_EXECUTION_STARTED", workflowType={"name": "Job"}, originalExecutionRunId="r1"),
    flow(
        2,
        "ACTIVITY_TASK_SCHEDULED",
        activityType={"name": "fetch"},
        input=payload({"n": 1}),
        retryPolicy=POLICY,
    ),
    flow(
        3,
        "ACTIVITY_TASK_STARTED",
        scheduledEventId="2",
        attempt=3,
        lastFailure={"applicationFailureInfo": {"type": "Busy"}},
    ),
    flow(4, "ACTIVITY_TASK_COMPLETED", scheduledEventId="2", result=payload("ok")),
    flow(5, "ACTIVITY_TASK_SCHEDULED", activityType={"name": "fetch"}, retryPolicy=POLICY),
    flow(6, "ACTIVITY_TASK_STARTED", scheduledEventId="5", attempt=1),
    flow(
        7,
        "ACTIVITY_TASK_FAILED",
        scheduledEventId="5",
        failure={"message": "no", "applicationFailureInfo": {"type": "Bad"}},
    ),
    flow(8, "START_CHILD_WORKFLOW_EXECUTION_INITIATED", workflowType={"name": "Child"}),
    flow(9, "CHILD_WORKFLOW_EXECUTION_STARTED", initiatedEventId="8"),
    flow(10, "TIMER_STARTED", timerId="1"),
    flow(11, "TIMER_FIRED", startedEventId="10"),
    flow(12, "WORKFLOW_EXECUTION_SIGNALED", signalName="go"),
    flow(13, "WORKFLOW_TASK_FAILED", baseRunId="r0", newRunId="r1"),
    flow(14, "WORKFLOW_EXECUTION_COMPLETED"),
]


def older(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event with its type spelt as older servers do."""
    words = event["eventType"].removeprefix("EVENT_TYPE_").split("_")
    return {**event, "eventType": "".join(word.title() for word in words)}


@pytest.mark.parametrize("spelling", [lambda event: event, older], ids=["current", "older"])
def test_temporal_histories(spelling: Any, tmp_path: Path) -> None:
    """Activities carry attempt and policy; earlier attempts are retries; children are handoffs, not yet done."""
    found = read("temporal", tmp_path, {"events": [spelling(event) for event in FLOW]})
    assert [(e.kind, e.tool, e.target, e.attempt, e.error_class, e.open) for e in found] == [
        ("retry", "fetch", None, 2, "Busy", None),
        ("tool", "fetch", None, 3, None, False),
        ("tool", "fetch", None, 1, "Bad", False),
        ("accept", "child_workflow", None, None, None, None),
        ("handoff", "child_workflow", "Child", None, None, True),
        ("wait", "timer", "timer", None, None, False),
        ("message", "signal", None, None, None, None),
        ("reset", "reset", "13", None, None, None),
        ("claim", "workflow", "success", None, None, None),
    ]
    assert (found[1].args, found[1].result, found[2].result) == ('["{\\"n\\": 1}"]', '["\\"ok\\""]', "no")
    assert {(event.run_id, event.workflow) for event in found} == {("r1", "Job")}
    one, two = found[1].retry_policy, found[2].retry_policy
    assert one is not None
    assert two is not None
    assert (one["errors"], one["interval_s"], one["max_attempts"], one["max_delay_s"], two["errors"]) == (
        ["*"],
        1.0,
        2_147_483_647,
        100.0,
        [],
    )
    assert found[7].parent_run_id == "r0"


def ui(n: int, sort: str, text: Any = "", *, ask: bool = False, **more: Any) -> dict[str, Any]:
    said = text if isinstance(text, str) else json.dumps(text)
    return {
        "ts": 1772359200000 + n,
        "type": "ask" if ask else "say",
        "ask" if ask else "say": sort,
        "text": said,
        **more,
    }


def test_cline_messages(tmp_path: Path) -> None:
    """Commands carry their output, other tools show none; drafts are left out; a checkout is a reset."""
    found = read(
        "cline",
        tmp_path,
        [
            ui(0, "text", "do it"),
            ui(1, "api_req_started", {"tokensIn": 5, "tokensOut": 2, "cost": 0.25}),
            ui(2, "tool", {"tool": "readFile", "path": "a.py"}, ask=True),
            ui(3, "command", "ls", ask=True, partial=True),
            ui(4, "command", "ls", ask=True),
            ui(5, "command_output", "a"),
            ui(6, "command_output", "b"),
            ui(7, "checkpoint_created", lastCheckpointHash="h1", isCheckpointCheckedOut=True),
            ui(8, "followup", "which?", ask=True),
            ui(9, "user_feedback", "that one"),
            ui(10, "command", "sleep 9", ask=True),
            ui(11, "completion_result", "done"),
        ],
    )
    assert [(e.kind, e.tool, e.args, e.result, e.open, e.target) for e in found] == [
        ("message", "user", ABSENT, ABSENT, None, None),
        ("model", "", ABSENT, ABSENT, None, None),
        ("tool", "readFile", '{"tool": "readFile", "path": "a.py"}', ABSENT, None, None),
        ("tool", "execute_command", "ls", "a\nb", False, None),
        ("checkpoint", "", ABSENT, ABSENT, None, "h1"),
        ("reset", "checkpoint", ABSENT, ABSENT, None, "h1"),
        ("wait", "followup", ABSENT, ABSENT, None, "user"),
        ("message", "user", ABSENT, ABSENT, None, None),
        ("tool", "execute_command", "sleep 9", ABSENT, True, None),
        ("claim", "attempt_completion", ABSENT, ABSENT, None, "success"),
    ]
    assert {event.run_id for event in found} == {"task-1772359200000"}
    assert (found[3].at, found[3].ended_at, found[1].cost_usd) == (
        1_772_359_200_004_000,
        1_772_359_200_006_000,
        0.25,
    )


def test_the_last_words_of_an_adk_agent_are_a_claim(tmp_path: Path) -> None:
    """Only where nothing follows and nothing is asked for; a thought or an unfinished piece is none."""
    for said, more, claims in (
        ({"text": "done"}, {}, ["final_message"]),
        ({"text": "done"}, {"actions": {"end_of_agent": True}}, ["end_of_agent"]),
        ({"text": "hm", "thought": True}, {}, []),
        ({"text": "do"}, {"partial": True}, []),
    ):
        rows = [adk(0, "user", {"text": "go"}), adk(1, "Ann", {"text": "first"}), adk(2, "Ann", said, **more)]
        found = read("adk", tmp_path, {"id": "s1", "events": rows})
        assert [(event.tool, event.target) for event in found if event.kind == "claim"] == [
            (claim, "success") for claim in claims
        ]
