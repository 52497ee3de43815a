"""Claude Code stream-json."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.readers import registry
from agentlens.readers.source import Source
from tests.readers.claude import answered_in_stream, asked, came, lines, said_in_stream
from tests.readers.merging import merged, of_kind
from tests.readers.reading import records

if TYPE_CHECKING:
    from pathlib import Path

ACTIONS = ("tool", "handoff", "wait")
INIT = {
    "type": "system",
    "subtype": "init",
    "session_id": "s-1",
    "claude_code_version": "2.0.29",
    "uuid": "i",
}


def stream(*values: Any) -> list[dict[str, Any]]:
    found, _ = records(lines(INIT, *values), "claude-stream")
    return merged(found)


def result(**more: Any) -> dict[str, Any]:
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "session_id": "s-1",
        "uuid": "r",
        **more,
    }


def test_a_call_id_that_repeats_after_its_result_is_another_action() -> None:
    """Message id and call id together name an action: some models number calls from zero again."""
    events = stream(
        said_in_stream("m1", asked("functions.Bash:3", command="a")),
        answered_in_stream(came("functions.Bash:3", "A")),
        said_in_stream("m2", asked("functions.Bash:3", command="b")),
        answered_in_stream(came("functions.Bash:3", "B")),
    )
    assert [(event["args"]["command"], event["result"]) for event in of_kind(events, "tool")] == [
        ("a", "A"),
        ("b", "B"),
    ]


def test_a_call_asked_for_again_before_any_result_was_a_draft() -> None:
    """A response that was thrown away and asked for again never ran: kept as a fact, no action."""
    events = stream(
        said_in_stream("m0", asked("c1", command="draft")),
        said_in_stream("m1", asked("c1", command="real")),
        answered_in_stream(came("c1", "ok")),
    )
    assert [event["args"]["command"] for event in of_kind(events, "tool")] == ["real"]
    (draft,) = of_kind(events, "log")
    assert (draft["identity"], draft["open"], draft["tool"]) == ("m0/c1", True, "Bash")
    assert "result" not in draft


def test_a_call_id_used_again_after_other_results_was_no_draft() -> None:
    """The lane went on in between: the first call was made, its result is not known."""
    events = stream(
        said_in_stream("m1", asked("c1", command="lost")),
        said_in_stream("m2", asked("c2", command="x")),
        answered_in_stream(came("c2", "X")),
        said_in_stream("m3", asked("c1", command="again")),
        answered_in_stream(came("c1", "ok")),
    )
    told = [(event["args"]["command"], event["open"]) for event in of_kind(events, "tool")]
    assert told == [("lost", True), ("x", False), ("again", False)]


def test_a_call_without_a_result_stays_open() -> None:
    """Nothing came back: neither success nor failure."""
    (event,) = of_kind(stream(said_in_stream("m1", asked("c1"))), "tool")
    assert event["open"] is True
    assert "result" not in event


def test_lines_under_a_call_are_the_lane_of_the_agent_it_started() -> None:
    """The prompt to the sub-agent is no person's turn; its first line accepts the handoff."""
    events = stream(
        said_in_stream("m1", asked("t1", "Task", subagent_type="Explore", prompt="p")),
        answered_in_stream({"type": "text", "text": "p"}, parent="t1"),
        said_in_stream("m2", asked("c1", command="ls"), parent="t1"),
        answered_in_stream(came("c1", "x"), parent="t1"),
        answered_in_stream(came("t1", "found")),
    )
    (call,), (accept,) = of_kind(events, "tool"), of_kind(events, "accept")
    assert (call["agent"], call["instance"], call["parent_agent"]) == ("Explore", "t1", "")
    assert (accept["agent"], accept["call_id"]) == ("Explore", "t1")
    assert of_kind(events, "handoff")[0]["target"] == "Explore"
    assert of_kind(events, "message") == []


def test_the_result_line_is_a_claim_and_tells_what_was_spent() -> None:
    """Success is the client's word; a session that goes on tells its whole cost again."""
    events = stream(
        result(total_cost_usd=0.25, num_turns=3),
        result(total_cost_usd=0.75, num_turns=5, uuid="r2"),
        result(subtype="error_max_turns", uuid="r3"),
        result(is_error=True, uuid="r4"),
    )
    assert [event["target"] for event in events] == ["success", "success", "failure", "failure"]
    assert [event.get("cost_usd") for event in events] == [0.25, 0.5, None, None]
    assert events[2]["error_class"] == "error_max_turns"


def test_a_denied_permission_is_told_once_however_often_it_is_said() -> None:
    """The refusal stands in the call's result and again in the list at the end."""
    events = stream(
        said_in_stream("m1", asked("c1", "Write")),
        answered_in_stream(came("c1", "Claude requested permissions to write to x", error=True)),
        result(permission_denials=[{"tool_name": "Write", "tool_use_id": "c1"}]),
    )
    assert [(event["target"], event["error_class"]) for event in of_kind(events, "approval")] == [
        ("Write", "permission_denied")
    ]


def test_a_usage_of_zeros_was_not_measured() -> None:
    """Proxies write zeros where they know nothing: that is null, not nought."""
    body = {"id": "m1", "content": [], "usage": {"input_tokens": 0, "output_tokens": 0}}
    (event,) = stream({"type": "assistant", "session_id": "s-1", "message": body, "parent_tool_use_id": None})
    assert event["kind"] == "model"
    assert not {"tokens_in", "tokens_out"} & event.keys()


def test_a_result_whose_call_is_missing_is_counted() -> None:
    """The start of the file is gone: the fact is kept, no action is invented."""
    found, report = records(lines(INIT, answered_in_stream(came("c9", "x"))), "claude-stream")
    assert [record.kind for record in found] == ["log"]  # type: ignore[union-attr]
    assert report.unknown["tool result without its call"] == 1


def test_warnings_between_the_lines_are_set_aside() -> None:
    """Redirected output carries plain text and cut lines."""
    found, report = records(
        lines(INIT, "npm warn deprecated x", said_in_stream("m1", asked("c1")), '{"type":"assist'),
        "claude-stream",
    )
    assert [fault.position for fault in report.faults] == [2, 4]
    assert [record.kind for record in found] == ["model", "tool"]  # type: ignore[union-attr]


@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, [None], True])
def test_a_wrong_type_anywhere_is_never_an_exception(junk: Any) -> None:
    """Each field of each line is replaced in turn."""
    values = [
        said_in_stream("m1", asked("c1")),
        answered_in_stream(came("c1", "x")),
        result(permission_denials=[{}]),
    ]
    for place, line in enumerate(values):
        for field in line:
            changed = [*values[:place], {**line, field: junk}, *values[place + 1 :]]
            _, report = records(lines(INIT, *changed), "claude-stream")
            assert not any("reader stopped" in fault.reason for fault in report.faults)


def test_the_kimi_trials_keep_every_call(shared: Path) -> None:
    """1,228 calls were asked for, 1,102 ran; 126 were drafts that the next response replaced."""
    kinds: dict[str, int] = {}
    for path in sorted((shared / "traces" / "terminal-bench-kimi").glob("*/agent/claude-code.txt*")):
        assert registry.sniff(Source.of(path).head()).name == "claude-stream"
        found, report = records(path)
        assert (report.faults, report.unknown) == ([], {})
        for event in merged(found):
            drafted = event["kind"] == "log" and "/" in event.get("identity", "")
            kind = "draft" if drafted else event["kind"]
            kinds[kind] = kinds.get(kind, 0) + 1
    actions = sum(kinds[kind] for kind in ACTIONS)
    assert (actions + kinds["draft"], actions, kinds["draft"]) == (1_228, 1_102, 126)
    assert (kinds["wait"], kinds["handoff"], kinds["retry"]) == (2, 1, 4)


def test_the_claude_code_trials_claim_what_their_labels_say(shared: Path) -> None:
    """46 of 49 streams end in a claim of success; the other three have no closing line."""
    claimed, silent = [], []
    for path in sorted((shared / "traces" / "terminal-bench-claude-code" / "runs").glob("*.stream.jsonl*")):
        events = merged(records(path)[0])
        targets = [event["target"] for event in of_kind(events, "claim")]
        (claimed if targets == ["success"] else silent).append(path.name.split(".stream")[0])
        if not targets:
            assert len(of_kind(events, "tool", "handoff")) > 0
    assert len(claimed) == 46
    assert silent == ["c4--get-bitcoin-nodes", "c4--play-zork", "coder--hf-model-inference"]


def test_a_stream_that_was_collected_in_an_array_tells_the_same() -> None:
    """Programs that gather the messages before they write them make one document of it."""
    rows = [INIT, said_in_stream("m", asked("c", command="ls")), answered_in_stream(came("c", "a")), result()]
    rows = json.loads(b"[" + b",".join(lines(*rows).splitlines()) + b"]")
    found = merged(records(json.dumps(rows, indent=1).encode())[0])
    (call,) = of_kind(found, "tool")
    assert (call["run_id"], call["tool"], call["result"], call["open"]) == ("s-1", "Bash", "a", False)
    assert [event["target"] for event in of_kind(found, "claim")] == ["success"]
    _, report = records(json.dumps([*rows, 7]).encode())
    assert [(fault.position, fault.unit) for fault in report.faults] == [(4, "record")]
