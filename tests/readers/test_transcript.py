"""Transcripts of agent teams."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.readers import registry
from agentlens.readers.source import Head, Source
from tests.readers.merging import merged, of_kind
from tests.readers.reading import records

if TYPE_CHECKING:
    from pathlib import Path


def said(role: str, content: Any = "text", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def team(*history: Any) -> list[dict[str, Any]]:
    found, _ = records(json.dumps({"history": list(history)}).encode())
    return merged(found)


def test_a_dispatch_is_a_handoff_answered_by_the_addressees_next_message() -> None:
    """The reply is its evidence and accepts it; the reply itself is a message of the addressee's lane."""
    events = team(
        said("human", "find it"),
        said("Lead (thought)", "Updated Ledger: in a loop"),
        said("Lead (-> Web)", "open the page"),
        said("Lead (thought)", "Next speaker Web"),
        said("Web", "I clicked 'x'.\nPage text"),
        said("Lead (termination condition)", "No agent selected.\nFINAL ANSWER: 5"),
    )
    (handoff,), (accept,) = of_kind(events, "handoff"), of_kind(events, "accept")
    assert (handoff["agent"], handoff["target"], handoff["open"]) == ("Lead", "Web", False)
    assert handoff["args"] == {"to": "Web", "request": "open the page"}
    assert handoff["result"] == "I clicked 'x'.\nPage text"
    assert (accept["agent"], accept["call_id"], accept["parent_agent"]) == ("Web", handoff["call_id"], "Lead")
    turn, reply = of_kind(events, "message")
    assert (turn["agent"], turn["external_input"]) == ("Lead", True)
    assert (reply["agent"], reply["args"], "external_input" in reply) == (
        "Web",
        {"action": "I clicked 'x'."},
        False,
    )
    assert [event["target"] for event in of_kind(events, "claim")] == ["success"]


def test_nothing_that_a_thought_says_is_kept() -> None:
    """A ledger is the model's own word on its progress: only that there was one remains."""
    events = team(said("Lead (-> Web)"), said("Lead (thought)", "is_in_loop: true"))
    (thought,) = of_kind(events, "log")
    assert not {"args", "result", "target", "extra"} & thought.keys()


def test_a_dispatch_is_unanswered_when_the_next_one_comes_first_or_the_end_does() -> None:
    """Another agent's message, or a reply that comes too late, is no answer."""
    events = team(
        said("Lead (-> Web)", "1"),
        said("File", "not me"),
        said("Lead (-> File)", "2"),
        said("File", "yes"),
        said("Web", "late"),
        said("Lead (-> Web)", "3"),
    )
    assert [(event["args"]["request"], event["open"]) for event in of_kind(events, "handoff")] == [
        ("1", True),
        ("2", False),
        ("3", True),
    ]
    assert len(of_kind(events, "accept")) == 1


def test_a_team_that_was_stopped_made_no_claim() -> None:
    """Running out of rounds is not the team's own word."""
    events = team(
        said("Lead (-> Web)"),
        said("Lead (termination condition)", "Max rounds (30) reached.\nFINAL ANSWER: 5"),
    )
    assert of_kind(events, "claim") == []


def test_in_a_group_chat_code_that_a_terminal_ran_is_its_writers_action() -> None:
    """The code block of the message before is what ran; its exit code is the error."""
    events = team(
        said("assistant", "Let us see.\n```python\nprint(1)\n```", name="Expert"),
        said("user", "exitcode: 1 (execution failed)\nCode output: x", name="Computer_terminal"),
        said("assistant", "Done. TERMINATE", name="Checker"),
    )
    (action,) = of_kind(events, "tool")
    assert (action["agent"], action["tool"], action["args"]) == (
        "Expert",
        "Computer_terminal",
        {"code": "print(1)\n"},
    )
    assert action["error_class"] == "exit_1"
    assert [(event["agent"]) for event in of_kind(events, "message")] == ["Expert", "Checker"]
    assert [(event["agent"], event["target"]) for event in of_kind(events, "claim")] == [
        ("Checker", "success")
    ]


def test_a_terminal_without_code_only_speaks() -> None:
    """A turn given to the wrong agent is no action."""
    events = team(
        said("assistant", "Think.", name="Expert"),
        said("user", "There is no code to execute.", name="Computer_terminal"),
    )
    assert [event["kind"] for event in events] == ["message", "message"]


def test_runs_are_named_like_their_file_and_line(tmp_path: Path) -> None:
    """One document is a run; several, one a line, are several."""
    one = {"history": [said("Lead (-> Web)"), said("Web")]}
    path = tmp_path / "hc-7.json"
    path.write_text(json.dumps(one, indent=1))
    assert {event["run_id"] for event in merged(records(path)[0])} == {"hc-7"}
    several = tmp_path / "all.jsonl"
    several.write_text(f"{json.dumps(one)}\n{json.dumps(one)}\n")
    assert {event["run_id"] for event in merged(records(several)[0])} == {"all#1", "all#2"}


def test_cut_anywhere_the_whole_messages_before_are_kept() -> None:
    """A document that ends inside a message gives those before it."""
    history = [said("Lead (-> Web)", "a"), said("Web", "b"), said("Lead (-> Web)", "c")]
    data = json.dumps({"history": history}).encode()
    for cut in range(data.index(b"}") + 1, len(data), 7):
        found, report = records(data[:cut], "transcript")
        assert 1 <= len(of_kind(merged(found), "handoff")) <= 2
        assert len(report.faults) <= 1


@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, [None], True])
def test_a_wrong_type_anywhere_is_never_an_exception(junk: Any) -> None:
    """Each field of each message, and each message, is replaced in turn."""
    history = [said("human"), said("Lead (-> Web)"), said("Web"), said("assistant", name="A")]
    values: list[Any] = [junk]
    for place, message in enumerate(history):
        values += [[*history[:place], {**message, field: junk}, *history[place + 1 :]] for field in message]
        values.append([*history[:place], junk, *history[place + 1 :]])
    for value in values:
        _, report = records(json.dumps({"history": value}).encode(), "transcript")
        assert not any("reader stopped" in fault.reason for fault in report.faults)


def test_magentic_one(shared: Path) -> None:
    """25 runs, 277 dispatches; 15, in 8 runs, get no reply before the next dispatch or the end."""
    dispatches, unanswered = 0, []
    paths = sorted((shared / "traces" / "magentic-one" / "runs").glob("*.json"))
    for path in paths:
        assert registry.sniff(Source.of(path).head()).name == "transcript"
        handoffs = of_kind(merged(records(path)[0]), "handoff")
        dispatches += len(handoffs)
        unanswered += [path.stem for event in handoffs if event["open"]]
    assert (len(paths), dispatches, len(unanswered), len(set(unanswered))) == (25, 277, 15, 8)


def test_group_chats(shared: Path) -> None:
    """62 chats; each code block that ran is one action, each other message its speaker's."""
    kinds: dict[str, int] = {}
    for path in sorted((shared / "traces" / "whowhen-algo" / "runs").glob("*.json")):
        assert registry.sniff(Source.of(path).head()).name == "transcript"
        found, report = records(path)
        assert report.faults == []
        for event in merged(found):
            kinds[event["kind"]] = kinds.get(event["kind"], 0) + 1
    assert kinds["tool"] == 111
    assert kinds["tool"] + kinds["message"] == sum(
        len(json.loads(path.read_text())["history"])
        for path in (shared / "traces" / "whowhen-algo" / "runs").glob("*.json")
    )


ASKED = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"n": 1}'}}
MOVED = {"id": "d", "type": "function", "function": {"name": "transfer_to_coder", "arguments": "{}"}}
GROUP = [
    said("user", "Load it.", name="admin"),
    said("assistant", None, name="planner", tool_calls=[ASKED, MOVED]),
    said(
        "tool",
        "x",
        name="executor",
        tool_responses=[{"tool_call_id": "c", "role": "tool", "content": "Error: x"}],
    ),
    said("user", "```python\nload()\n```", name="coder"),
    said("user", "exitcode: 0 (execution succeeded)\nCode output: ok", name="executor"),
]


def test_a_group_chat_that_was_saved_bare_is_told_from_a_chat_with_a_model() -> None:
    """Several speakers under one role are no people; calls belong to whoever asked, not to whoever ran them."""
    for document in (GROUP, {"chat_history": GROUP}):
        events = merged(records(json.dumps(document).encode())[0])
        assert [
            (event["agent"], event["kind"], event.get("error_class"), event.get("open"), event.get("target"))
            for event in events
        ] == [
            ("admin", "message", None, None, None),
            ("planner", "tool", "error", False, None),
            ("planner", "handoff", None, True, "coder"),
            ("coder", "message", None, None, None),
            ("coder", "tool", None, False, None),
        ]
        assert not any(event.get("external_input") for event in events)
    plain = [said("user", "hi"), said("assistant", "hello")]
    path_claims = registry.named("transcript").claim
    with_model = json.dumps(plain).encode()
    assert path_claims(Head(data=with_model)) == 0


CHATTED = [
    {"content": "solve", "role": "assistant", "name": "user_proxy"},
    {
        "content": "",
        "role": "assistant",
        "name": "coder",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}],
    },
    {
        "content": "42",
        "role": "tool",
        "name": "executor",
        "tool_responses": [{"tool_call_id": "c1", "role": "tool", "content": "42"}],
    },
    {"content": "done", "role": "user", "name": "coder"},
]


@pytest.mark.parametrize("document", [{"chat_id": 1, "chat_history": CHATTED, "summary": "42"}, CHATTED])
def test_the_result_of_a_chat_of_agents_is_a_transcript_with_or_without_its_wrapping(document: Any) -> None:
    """The call is the coder's, whoever ran it, and has the answer of the one who did."""
    events = merged(records(json.dumps(document).encode())[0])
    (call,) = of_kind(events, "tool")
    assert (call["agent"], call["tool"], call["result"], call["open"]) == ("coder", "run", "42", False)


LITERALS = b"""[{'content': 'go', 'role': 'user', 'name': 'Admin'},
 {'content': "```py\\nprint('\xc3\xbc')\\n```", 'role': 'assistant', 'name': 'coder'},
 {'content': 'exitcode: 1\\nno', 'role': 'user', 'name': 'executor'},
 {'content': None, 'role': 'assistant', 'name': 'coder', 'tool_calls': [{'id': 'c1', 'function': {'name': 'look', 'arguments': '{}'}}]},
 {'content': '7', 'role': 'tool', 'name': 'executor', 'tool_responses': [{'tool_call_id': 'c1', 'content': '7'}]}]"""


def test_a_list_as_python_shows_it_is_the_list() -> None:
    """Literals are read, None and both kinds of quotes too; nothing is evaluated."""
    found, report = records(LITERALS)
    calls = [(one.agent, one.tool, one.error_class) for one in found if one.kind == "tool"]
    assert calls == [("coder", "executor", "exit_1"), ("coder", "look", None), ("coder", "look", None)]
    assert not report.faults
    assert report.repaired == {"Python literals read as JSON": 1}


def test_of_a_list_that_is_cut_the_whole_messages_are_kept() -> None:
    """What is lost is told, with its place."""
    for cut in range(120, len(LITERALS) - 1, 37):
        found, report = records(LITERALS[:cut], "transcript")
        assert len(report.faults) == 1
        assert found or "not a list" in report.faults[0].reason
    assert len([one for one in records(LITERALS[:-10])[0] if one.kind == "tool"]) == 2


@pytest.mark.parametrize(
    "code", [b"[{'role': __import__('os').getcwd()}]", b"[{'role': 'a'}] * 3", b"[{'role': " + b"[" * 5000]
)
def test_what_is_no_literal_is_never_run(code: bytes) -> None:
    """A call, an operation or a nest without end is a fault."""
    found, report = records(code, "transcript")
    assert not found
    assert len(report.faults) == 1
