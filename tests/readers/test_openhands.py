"""OpenHands: V1 event folders and lists, V0 trajectories."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.readers import registry
from agentlens.readers.source import Source, expand
from tests.readers.merging import merged, of_kind
from tests.readers.reading import records
from tests.readers.test_real_loops import events as assembled

if TYPE_CHECKING:
    from pathlib import Path


def at(second: int) -> str:
    return f"2026-10-05T08:00:{second:02}.000001"


def action(own: str, second: int, tool: str = "terminal", call_id: str = "c", **args: Any) -> dict[str, Any]:
    remarks = {"security_risk": "LOW", "summary": "so"}
    return {
        "kind": "ActionEvent",
        "id": own,
        "timestamp": at(second),
        "source": "agent",
        "tool_name": tool,
        "tool_call_id": call_id,
        "tool_call": {"id": call_id, "name": tool, "arguments": json.dumps({**args, **remarks})},
        "action": {"kind": "TerminalAction", **args},
        **remarks,
    }


def seen(cause: str, second: int, text: str, call_id: str = "c", **more: Any) -> dict[str, Any]:
    return {
        "kind": "ObservationEvent",
        "id": f"o-{cause}",
        "timestamp": at(second),
        "source": "environment",
        "tool_name": "terminal",
        "tool_call_id": call_id,
        "action_id": cause,
        "observation": {"kind": "TerminalObservation", "content": [{"type": "text", "text": text}], **more},
    }


def user(second: int = 0) -> dict[str, Any]:
    return {"kind": "MessageEvent", "id": "u", "timestamp": at(second), "source": "user", "llm_message": {}}


def told(*events: Any) -> list[dict[str, Any]]:
    return merged(records(json.dumps(list(events)).encode())[0])


def folder_of(tmp_path: Path, *events: Any) -> list[Path]:
    folder = tmp_path / "conv-1" / "events"
    folder.mkdir(parents=True)
    for number, event in enumerate(events):
        (folder / f"event-{number:05}-{event['id']}.json").write_text(json.dumps(event))
    return sorted(folder.iterdir())


def test_one_event_a_file_is_one_run_of_the_folder(tmp_path: Path) -> None:
    """Action and observation meet by the action's id; the client's remarks are no part of the arguments."""
    paths = folder_of(tmp_path, user(), action("a", 1, command="ls"), seen("a", 3, "x", exit_code=1))
    frame = assembled(paths)
    assert frame["run_id"].unique().to_list() == ["conv-1"]
    (tool,) = frame.filter(frame["kind"] == "tool").to_dicts()
    assert (tool["error_class"], tool["open"], tool["external_input"]) == ("exit_1", False, True)
    assert (tool["ended_at"] - tool["at"]).total_seconds() == 2
    (record, *_), _ = records(paths[1])
    assert record.args == {"command": "ls"}


@pytest.mark.parametrize(
    ("standing", "given"),
    [(".", "conv-1"), ("conv-1", "events"), ("conv-1/events", "."), ("conv-1/events", "../..")],
)
def test_the_run_is_named_alike_from_wherever_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, standing: str, given: str
) -> None:
    folder_of(tmp_path, user(), action("a", 1, command="ls"), seen("a", 3, "x"))
    state = {"id": "x", "agent": {}, "workspace": {}, "execution_status": "finished"}
    (tmp_path / "conv-1" / "base_state.json").write_text(json.dumps(state))
    monkeypatch.chdir(tmp_path / standing)
    frame = assembled([source.path for source in expand([given])])
    assert frame["run_id"].unique().to_list() == ["conv-1"]


def test_files_lists_and_lines_give_the_same(tmp_path: Path) -> None:
    """Only the run's name differs."""
    events = [
        user(),
        action("a", 1, command="ls"),
        seen("a", 3, "x"),
        action("b", 4, "finish", "d", message="done"),
    ]
    facts = ["kind", "tool", "action_signature", "progress_fingerprint", "open", "target"]
    whole, lines = tmp_path / "x.json", tmp_path / "y.jsonl"
    whole.write_text(json.dumps({"events": events}, indent=1))
    lines.write_text("".join(json.dumps(event) + "\n" for event in events))
    one, two, three = (
        assembled(paths).select(facts) for paths in (folder_of(tmp_path, *events), [whole], [lines])
    )
    assert one.equals(two)
    assert one.equals(three)
    assert assembled([lines])["run_id"].unique().to_list() == ["y"]


def test_finish_is_a_claim_and_a_thought_no_action() -> None:
    """The model's own word."""
    found = told(action("a", 1, "think", thought="x"), action("b", 2, "finish", message="ok"))
    assert [(event["kind"], event.get("target")) for event in found] == [("log", None), ("claim", "success")]


def test_a_command_that_goes_on_is_open() -> None:
    """Exit code -1 is what the shell says while the command runs."""
    for more in ({"exit_code": -1}, {"timeout": True}, {"metadata": {"exit_code": -1}}):
        (tool,) = of_kind(told(action("a", 1, command="x"), seen("a", 2, "...", **more)), "tool")
        assert (tool["open"], "error_class" in tool) == (True, False)


def test_an_error_that_names_only_its_call_finds_the_action(tmp_path: Path) -> None:
    """In a list the newest with that id; among files the newest older one."""
    error = {
        "kind": "AgentErrorEvent", "id": "e", "timestamp": at(5), "source": "agent", "tool_name": "terminal",
        "tool_call_id": "c", "error": "no such tool", "classification": {"kind": "tool_not_found", "retryable": True},
    }  # fmt: skip
    rows = [action("a", 1, command="x"), seen("a", 2, "ok"), action("b", 3, command="y"), error]
    for frame in (assembled(folder_of(tmp_path, *rows)),):
        tools = frame.filter(frame["kind"] == "tool")
        assert tools["error_class"].to_list() == [None, "tool_not_found"]
        assert tools["open"].to_list() == [False, False]
    assert [event.get("error_class") for event in of_kind(told(*rows), "tool")] == [None, "tool_not_found"]


def test_an_error_without_an_action_stands_where_it_was_told() -> None:
    """A call that never became an action has no other time; one that goes on has no end yet."""
    error = {
        "kind": "AgentErrorEvent", "id": "e", "timestamp": at(5), "source": "agent", "tool_name": "foo",
        "tool_call_id": "c4", "error": "no such tool",
    }  # fmt: skip
    going = seen("a", 2, "...", exit_code=-1)
    first, second = of_kind(told(action("a", 1, command="x"), going, error), "tool")
    assert (first["open"], first.get("ended_at")) == (True, None)
    assert (second["tool"], second["at"]) == ("foo", second["ended_at"])


def test_a_rejection_is_a_decision_of_a_person() -> None:
    """The call is closed with it, and the next action follows on a decision."""
    no = {"kind": "UserRejectObservation", "id": "r", "timestamp": at(2), "source": "user", "tool_name": "terminal",
          "tool_call_id": "c", "action_id": "a", "rejection_reason": "no"}  # fmt: skip
    found = told(action("a", 1, command="rm"), no)
    assert [event["error_class"] for event in of_kind(found, "tool")] == ["rejected_by_user"]
    assert [event["external_input"] for event in of_kind(found, "approval")] == [True]


def test_states_wait_and_its_own_detector_speaks_in_a_log() -> None:
    """`stuck` is a label to compare with, not a verdict."""

    def state(own: str, value: str) -> dict[str, Any]:
        return {"kind": "ConversationStateUpdateEvent", "id": own, "timestamp": at(1), "source": "environment",
                "key": "execution_status", "value": value}  # fmt: skip

    found = told(user(), state("1", "waiting_for_confirmation"), state("2", "stuck"), state("3", "running"))
    assert [(e["kind"], e.get("target"), e.get("error_class")) for e in found[1:]] == [
        ("approval", "waiting_for_confirmation", None),
        ("log", "stuck", "stuck"),
    ]


def test_the_state_beside_the_events_tells_the_end_and_the_cost(tmp_path: Path) -> None:
    """Same run, by the folder."""
    usage = {"accumulated_cost": 0.5, "accumulated_token_usage": {"prompt_tokens": 9, "completion_tokens": 2}}
    state = {"id": "x", "agent": {"llm": {"model": "m"}}, "workspace": {}, "execution_status": "stuck",
             "stats": {"usage_to_metrics": {"agent": usage}}}  # fmt: skip
    path = tmp_path / "conv-1" / "base_state.json"
    path.parent.mkdir()
    path.write_text(json.dumps(state))
    found = merged(records(path)[0])
    assert {event["run_id"] for event in found} == {"conv-1"}
    assert [
        (e["tokens_in"], e["tokens_out"], e["cost_usd"], e["model"]) for e in of_kind(found, "model")
    ] == [(9, 2, 0.5, "m")]
    assert [event["target"] for event in of_kind(found, "log")] == ["stuck"]


def test_condensation_pauses_and_delegation() -> None:
    """Compaction, a person's pause, a handoff with its addressee."""
    rows = [
        user(),
        {
            "kind": "Condensation",
            "id": "k",
            "timestamp": at(1),
            "source": "environment",
            "forgotten_event_ids": ["a"],
        },
        {"kind": "PauseEvent", "id": "p", "timestamp": at(2), "source": "user"},
        action("d", 3, "delegate", agent_type="scout", command="delegate"),
    ]
    assert [(e["kind"], e.get("target"), e.get("external_input")) for e in told(*rows)[1:]] == [
        ("compaction", None, None),
        ("log", None, True),
        ("handoff", "scout", None),
    ]


V0 = [
    {"id": 0, "timestamp": at(0), "source": "user", "action": "message", "args": {"content": "go"}},
    {"id": 1, "timestamp": at(1), "source": "agent", "action": "run", "args": {"command": "ls", "thought": "x", "hidden": False},
     "tool_call_metadata": {"function_name": "execute_bash", "tool_call_id": "c"},
     "llm_metrics": {"accumulated_cost": 0.1, "accumulated_token_usage": {"prompt_tokens": 5, "completion_tokens": 1}}},
    {"id": 2, "timestamp": at(2), "source": "agent", "cause": 1, "observation": "run", "content": "no",
     "extras": {"command": "ls", "metadata": {"exit_code": 2}}},
    {"id": 3, "timestamp": at(3), "source": "environment", "observation": "agent_state_changed", "content": "",
     "extras": {"agent_state": "awaiting_user_confirmation"}},
    {"id": 4, "timestamp": at(4), "source": "agent", "action": "delegate", "args": {"agent": "BrowsingAgent", "inputs": {}}},
    {"id": 5, "timestamp": at(5), "source": "agent", "action": "finish", "args": {"outputs": {}, "task_completed": "true"},
     "llm_metrics": {"accumulated_cost": 0.3, "accumulated_token_usage": {"prompt_tokens": 12, "completion_tokens": 3}}},
]  # fmt: skip


def test_a_v0_trajectory_is_tied_by_cause_and_its_metrics_are_running_totals() -> None:
    """Number of the action, exit code in the metadata, no word of thoughts."""
    found = told(*V0)
    (tool,) = of_kind(found, "tool")
    assert (tool["tool"], tool["args"], tool["error_class"], tool["open"]) == (
        "execute_bash",
        {"command": "ls"},
        "exit_2",
        False,
    )
    assert [event["target"] for event in of_kind(found, "handoff", "approval", "claim")] == [
        "user",
        "BrowsingAgent",
        "success",
    ]
    assert [(e["tokens_in"], e["tokens_out"], e["cost_usd"]) for e in of_kind(found, "model")] == [
        (5, 1, 0.1),
        (7, 2, 0.2),
    ]
    lines = b"".join(json.dumps({"instance_id": f"i-{n}", "history": V0}).encode() + b"\n" for n in range(2))
    assert {event["run_id"] for event in merged(records(lines)[0])} == {"i-0", "i-1"}
    pairs = [V0[0], [V0[1], V0[2]]]
    assert len(of_kind(merged(records(json.dumps(pairs).encode(), "openhands-v0")[0]), "tool")) == 1


def test_what_an_evaluation_says_of_a_v0_run_stands_beside_its_history() -> None:
    """Tests that broke off say nothing."""
    ends = [
        ({"report": {"resolved": True}}, ("verdict", "passed")),
        ({"report": {"resolved": False}}, ("verdict", "failed")),
        ({"test_result": {"report": {"resolved": False, "error_eval": True}}}, ("verdict", "unknown")),
        ({"error": "RuntimeError: x"}, ("log", "RuntimeError")),
        ({"report": {"resolved": None}, "error": None}, ("claim", None)),
    ]
    for more, wanted in ends:
        data = json.dumps({"instance_id": "i", "history": V0, **more}).encode()
        last = merged(records(data)[0])[-1]
        assert (last["kind"], last.get("outcome", last.get("error_class"))) == wanted


def test_an_answer_of_a_v0_model_is_counted_once_where_no_totals_are_told() -> None:
    """Every call of one answer carries it."""
    response = {"id": "r1", "model": "m", "usage": {"prompt_tokens": 10, "completion_tokens": 2}}
    rows = [
        {"id": n, "timestamp": at(n), "source": "agent", "action": "run", "args": {"command": "ls"},
         "tool_call_metadata": {"function_name": "execute_bash", "tool_call_id": f"c{n}", "model_response": response}}
        for n in (1, 2)
    ]  # fmt: skip
    seen_ = {"id": 3, "timestamp": at(3), "source": "agent", "cause": 1, "observation": "error",
             "content": "File not found: /a", "extras": {"error_id": ""}}  # fmt: skip
    found = told(*rows, seen_)
    models = [(e["model"], e["tokens_in"], e["tokens_out"]) for e in of_kind(found, "model")]
    assert models == [("m", 10, 2)]
    assert [e.get("error_class") for e in of_kind(found, "tool")] == ["file_not_found", None]
    rows[1]["llm_metrics"] = {"accumulated_token_usage": {"prompt_tokens": 12, "completion_tokens": 3}}
    assert [e["tokens_in"] for e in of_kind(told(*rows), "model")] == [12]


@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, [None], True])
def test_a_wrong_type_anywhere_is_never_an_exception(junk: Any) -> None:
    """Each field of each event is replaced in turn, in both versions."""
    new = [action("a", 1, command="x"), seen("a", 2, "x"), user()]
    for rows, name in ((new, "openhands"), (V0, "openhands-v0")):
        for place, row in enumerate(rows):
            for key in row:
                changed = [*rows[:place], {**row, key: junk}, *rows[place + 1 :]]
                records(json.dumps(changed).encode(), name)
        records(json.dumps([junk, *rows]).encode(), name)


def test_samples(shared: Path) -> None:
    """Each conversation is a run; its action and observation are one event."""
    folder = shared / "samples" / "openhands"
    paths = sorted(folder.glob("*/events/*.json"))
    assert {registry.sniff(Source.of(path).head()).name for path in paths} == {"openhands"}
    frame = assembled(paths)
    assert frame.select("run_id", "kind", "tool", "open", "error_class").rows() == [
        ("conversation-a", "message", "user", None, None),
        ("conversation-a", "claim", "finish", False, None),
        ("conversation-b", "tool", "terminal", False, None),
    ]


def test_an_output_without_its_middle_is_no_evidence_and_later_kinds_are_known_by_their_shape() -> None:
    """Both versions mark what they left out; an event of a kind that came later is a fact, not an unknown file."""
    (new,) = of_kind(told(action("a", 1, command="x"), seen("a", 2, "head<response clipped>tail")), "tool")
    old = {**V0[2], "content": "a[... Observation truncated due to length ...]b"}
    (before,) = of_kind(told(V0[1], old), "tool")
    assert "result" not in new
    assert "result" not in before
    later = {"kind": "QuiteNewEvent", "id": "q", "timestamp": at(1), "source": "agent"}
    found, report = records(json.dumps(later).encode())
    assert [event["kind"] for event in merged(found)] == ["log"]
    assert report.unknown == {"kind 'QuiteNewEvent'": 1}


def test_one_action_may_hand_a_task_to_each_of_several_agents() -> None:
    """To make agents ready hands nothing over; every task that is given out is a handoff."""
    rows = [
        action("s", 1, "delegate", "c1", command="spawn", ids=["a", "b"]),
        action("d", 2, "delegate", "c2", command="delegate", tasks={"a": "x", "b": "y"}),
    ]
    found = told(*rows)
    assert [(e["kind"], e.get("target")) for e in found] == [
        ("tool", None),
        ("handoff", "a"),
        ("handoff", "b"),
    ]


def test_settings_of_the_client_say_how_a_model_is_tried_again() -> None:
    """The first attempt counts towards the most there may be."""
    llm = {"model": "m", "num_retries": 4, "retry_min_wait": 8, "retry_max_wait": 64, "retry_multiplier": 8.0}
    state = {
        "id": "x",
        "agent": {"llm": llm},
        "execution_status": "finished",
        "max_iterations": 5,
        "stats": {"usage_to_metrics": {"agent": {"accumulated_cost": 0.5}}},
    }
    (model,) = of_kind(merged(records(json.dumps(state).encode())[0]), "model")
    assert model["retry_policy"] == {
        "errors": ["*"],
        "interval_s": 8.0,
        "max_attempts": 5,
        "backoff_rate": 8.0,
        "max_delay_s": 64.0,
        "jitter": None,
    }


V0_DELEGATE = [
    {"id": 0, "timestamp": at(0), "source": "user", "action": "message", "args": {"content": "go"}},
    {"id": 1, "timestamp": at(1), "source": "agent", "action": "delegate", "args": {"agent": "BrowsingAgent", "inputs": {}}},
    {"id": 2, "timestamp": at(2), "source": "agent", "action": "run", "args": {"command": "ls"}},
    {"id": 3, "timestamp": at(3), "source": "agent", "cause": 2, "observation": "run", "content": "a", "extras": {"metadata": {"exit_code": 0}}},
    {"id": 4, "timestamp": at(4), "source": "agent", "observation": "delegate", "content": "found", "extras": {"outputs": {}}},
    {"id": 5, "timestamp": at(5), "source": "agent", "action": "run", "args": {"command": "pwd", "confirmation_state": "rejected"}},
    {"id": 6, "timestamp": at(6), "source": "user", "cause": 5, "observation": "user_rejected", "content": "no", "extras": {}},
]  # fmt: skip


@pytest.mark.parametrize("turn", [1, -1])
def test_what_a_v0_delegate_did_stands_in_its_lane_whatever_the_order(turn: int) -> None:
    """From the action that began it to the observation that ends it, which names no cause; a refused call ended."""
    found = told(*V0_DELEGATE[::turn])
    assert [
        (e["agent"], e["args"]["command"], e["open"], e.get("error_class")) for e in of_kind(found, "tool")
    ] == [
        ("BrowsingAgent", "ls", False, None),
        ("", "pwd", False, "rejected_by_user"),
    ]
    (handoff,) = of_kind(found, "handoff")
    assert (handoff["agent"], handoff["target"], handoff["result"], handoff["open"]) == (
        "",
        "BrowsingAgent",
        "found",
        False,
    )
    (alone,) = of_kind(told(*V0_DELEGATE[:1], V0_DELEGATE[5]), "tool")
    assert alone["open"] is False


@pytest.mark.parametrize(
    ("reason", "error"),
    [("AgentStuckInLoopError: Agent got stuck in a loop", "stuck"), ("AuthError: x", "error")],
)
def test_the_detector_of_v0_names_itself_in_the_reason_of_a_state(reason: str, error: str) -> None:
    """The state says only that there was an error."""
    rows = [
        {"id": 0, "timestamp": at(0), "source": "user", "action": "message", "args": {"content": "x"}},
        {"id": 1, "timestamp": at(1), "source": "environment", "observation": "agent_state_changed", "content": "",
         "extras": {"agent_state": "error", "reason": reason}},
    ]  # fmt: skip
    (log,) = of_kind(merged(records(json.dumps(rows).encode(), "openhands-v0")[0]), "log")
    assert log["error_class"] == error
