"""Chat lists in the shapes people keep them in: every call paired or open, every reward a verdict."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers.chat import claim
from agentlens.readers.source import Source
from tests.readers.reading import events, records, said, tools

if TYPE_CHECKING:
    from pathlib import Path


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def call(call_id: str | None, name: str, arguments: Any) -> dict[str, Any]:
    made = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return made if call_id is None else {"id": call_id, **made}


ASKED = {"role": "user", "content": "find it"}
CALLED = {"role": "assistant", "content": None, "tool_calls": [call("c1", "search", '{"q": "a"}')]}
REPLIED = {"role": "tool", "tool_call_id": "c1", "content": "3 hits"}
ENDED = {"role": "assistant", "content": "Found."}
CHAT = [{"role": "system", "content": "s"}, ASKED, CALLED, REPLIED, ENDED]

RESPONSES = [
    {"role": "user", "content": [{"type": "input_text", "text": "find it"}]},
    {"type": "reasoning", "summary": []},
    {"type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"q": "a"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "3 hits"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Found."}]},
]
BLOCKS = [
    ASKED,
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "a"}}],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "3 hits"}]}
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "Found."}]},
]
SHAREGPT = [
    {"from": "system", "value": "s"},
    {"from": "human", "value": "find it"},
    {"from": "function_call", "value": '{"name": "search", "arguments": {"q": "a"}}'},
    {"from": "observation", "value": "3 hits"},
    {"from": "gpt", "value": "Found."},
]
LANGCHAIN = [
    {"type": "human", "content": "find it"},
    {"type": "ai", "content": "", "tool_calls": [{"id": "c1", "name": "search", "args": {"q": "a"}}]},
    {"type": "tool", "tool_call_id": "c1", "content": "3 hits"},
    {"type": "ai", "content": "Found."},
]
LEGACY = [
    ASKED,
    {"role": "assistant", "content": None, "function_call": {"name": "search", "arguments": '{"q": "a"}'}},
    {"role": "function", "name": "search", "content": "3 hits"},
    ENDED,
]


def told(found: list[RawEvent]) -> list[tuple[Any, ...]]:
    def decoded(args: Any) -> Any:
        return json.loads(args) if isinstance(args, str) else args

    return [
        (event.kind, event.tool, decoded(event.args), None if event.result is ABSENT else event.result)
        for event in found
    ]


EXPECTED = [
    ("message", "user", {"text": "find it"}, None),
    ("tool", "search", {"q": "a"}, "3 hits"),
    ("message", "assistant", {"text": "Found."}, None),
]


@pytest.mark.parametrize(
    "chat",
    [CHAT, RESPONSES, BLOCKS, SHAREGPT, LEGACY, LANGCHAIN],
    ids=["chat", "responses", "blocks", "sharegpt", "legacy", "langchain"],
)
@pytest.mark.parametrize(
    "wrapped",
    [
        pytest.param(lambda chat: lines({"messages": chat}), id="a line"),
        pytest.param(lambda chat: json.dumps(chat, indent=1).encode(), id="a bare list"),
        pytest.param(
            lambda chat: json.dumps([{"traj": chat, "id": "x"}], indent=1).encode(), id="a list of runs"
        ),
        pytest.param(lambda chat: lines(*chat), id="a message a line"),
        pytest.param(lambda chat: json.dumps({"conversations": chat}, indent=1).encode(), id="one document"),
    ],
)
def test_every_dialect_in_every_shape_tells_the_same(chat: list[Any], wrapped) -> None:
    """A human turn, one call with its result, and the last words."""
    assert told(events(wrapped(chat))) == EXPECTED


@pytest.mark.parametrize(
    "rows",
    [
        [{"trajectory_format": "x-1", "messages": CHAT}],
        [{"type": "start"}, {"messages": CHAT}, {"type": "step"}, {"type": "end"}],
        [{"messages": [{"text": "hello"}]}],
        [{"messages": 3}, {"role": "robot", "content": "x"}],
    ],
)
def test_message_lists_inside_other_formats_are_not_claimed(rows: list[Any], tmp_path: Path) -> None:
    """An unknown format is said to be unknown, not read as a chat without actions."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines(*rows))
    assert claim(Source.of(path).head()) == 0


def test_a_person_speaks_from_outside() -> None:
    """A turn is external input; a tool result inside a user message is none."""
    assert [event.external_input for event in events(lines({"messages": BLOCKS}))] == [True, None, None]


def test_a_request_and_its_response_are_one_conversation() -> None:
    """Each request repeats the history: calls are counted once, tokens for every request."""
    first = {
        "request": {"model": "m", "messages": CHAT[:2]},
        "response": {"choices": [{"message": CALLED}], "usage": {"prompt_tokens": 5, "completion_tokens": 1}},
    }
    second = {
        "request": {"model": "m", "messages": CHAT[:4]},
        "response": {"choices": [{"message": ENDED}], "usage": {"prompt_tokens": 9, "completion_tokens": 2}},
    }
    found = events(lines(first, second))
    assert told([event for event in found if event.kind != "model"]) == EXPECTED
    requests = [event for event in found if event.kind == "model"]
    assert [(event.tokens_in, event.tokens_out, event.model) for event in requests] == [
        (5, 1, "m"),
        (9, 2, "m"),
    ]
    assert len({event.run_id for event in found}) == 1


def test_other_conversations_between_requests_are_kept_apart() -> None:
    """Two runs may be written into one log at the same time."""
    other = [{"role": "user", "content": "else"}]

    def pair(messages: list[Any], answer: Any) -> dict[str, Any]:
        return {"request": {"messages": messages}, "response": {"choices": [{"message": answer}]}}

    found = events(lines(pair(CHAT[:2], CALLED), pair(other, ENDED), pair(CHAT[:4], ENDED)))
    runs = {event.run_id for event in found}
    assert sorted(sum(event.run_id == run for event in found) for run in runs) == [2, 3]


def test_a_batch_output_line_is_a_run_of_its_own() -> None:
    """Its call has no reply in the file and stays open."""
    row = {
        "custom_id": "job-1",
        "response": {"status_code": 200, "body": {"model": "m", "choices": [{"message": CALLED}]}},
    }
    (event,) = tools(lines(row))
    assert (event.run_id, event.open, event.model) == ("job-1", True, "m")


@pytest.mark.parametrize(
    ("beside", "outcomes"),
    [
        ({"reward": 1.0}, ["passed"]),
        ({"reward": 0}, ["failed"]),
        ({"score": 0.4}, ["unknown"]),
        ({"success": False}, ["failed"]),
        ({"resolved": True, "reward": 1}, ["passed", "passed"]),
        ({"reward": None}, []),
        ({"reward": "1"}, []),
    ],
)
def test_a_reward_is_a_verdict(beside: dict[str, Any], outcomes: list[str]) -> None:
    """It comes from whoever ran it, not from the agent's words; a part of a score is neither."""
    found = [event for event in events(lines({"messages": CHAT, **beside})) if event.kind == "verdict"]
    assert [event.outcome for event in found] == outcomes


def test_parallel_calls_are_paired_by_id_in_any_order() -> None:
    """And a reply without an id goes to the call of its tool, then to the oldest open one."""
    asked = {
        "role": "assistant",
        "tool_calls": [call("a", "f", "{}"), call("b", "g", "{}"), call("c", "h", "{}")],
    }
    replies = [
        {"role": "tool", "tool_call_id": "b", "content": "B"},
        {"role": "tool", "name": "h", "content": "C"},
        {"role": "tool", "content": "A"},
    ]
    assert [event.result for event in tools(lines({"messages": [asked, *replies]}))] == ["A", "B", "C"]


def test_a_call_id_may_be_used_again() -> None:
    """A reply answers the open call; two calls are two actions."""
    found = tools(lines({"messages": [CALLED, REPLIED, CALLED, {**REPLIED, "content": "none"}]}))
    assert [event.result for event in found] == ["3 hits", "none"]
    assert len({event.identity for event in found}) == 2


def test_a_call_without_a_reply_is_open() -> None:
    """The run was cut, or still runs."""
    (event,) = tools(lines({"messages": [ASKED, CALLED]}))
    assert (event.open, event.result) == (True, ABSENT)


def test_a_reply_without_its_call_is_counted() -> None:
    """It is no action, and it does not vanish."""
    found, report = records(lines({"messages": [ASKED, REPLIED]}))
    assert len(found) == 1
    assert report.unknown == {"reply without its call": 1}


@pytest.mark.parametrize(
    ("arguments", "args"),
    [('{"q": ', '{"q": '), ("", {}), ({"q": 1}, {"q": 1}), (None, ABSENT), ("ls -la", "ls -la")],
)
def test_arguments_are_kept_as_they_are(arguments: Any, args: Any) -> None:
    """Broken JSON is kept as text, an empty text is a call without arguments, null was not exported."""
    made = {"role": "assistant", "tool_calls": [call("c", "f", arguments)]}
    assert tools(lines({"messages": [made]}))[0].args == args


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("Error: no such user", "error"),
        ("ValueError: bad", "ValueError"),
        ("Error: KeyError('name')\n Please fix your mistakes.", "KeyError"),
        ("Error: Keys are missing", "error"),
        ("Traceback (most recent call last):\n  File x\nmod.MyError: bad", "MyError"),
        ("Errors were found in 3 files", None),
        ("No Error: fine", None),
    ],
)
def test_a_reply_that_opens_with_an_error_has_its_class(content: str, error: str | None) -> None:
    """Only where the reply begins with it."""
    assert tools(lines({"messages": [CALLED, {**REPLIED, "content": content}]}))[0].error_class == error


def test_a_handoff_tool_is_a_handoff_and_a_person_is_not_an_agent() -> None:
    """``transfer_to_refunds`` hands over; ``transfer_to_human_agents`` is an action like any other."""
    asked = {
        "role": "assistant",
        "tool_calls": [call("a", "transfer_to_refunds", "{}"), call("b", "transfer_to_human_agents", "{}")],
    }
    assert [(event.kind, event.target) for event in events(lines({"messages": [asked]}))] == [
        ("handoff", "refunds"),
        ("tool", None),
    ]


@pytest.mark.parametrize(
    "bad",
    [
        None,
        3,
        "x",
        [],
        {"role": 4},
        {"role": "assistant", "tool_calls": {"a": 1}},
        {"role": "assistant", "tool_calls": [None, {"function": 3}], "content": 7},
    ],
)
def test_a_message_of_the_wrong_type_costs_only_itself(bad: Any) -> None:
    """What stands around it is read."""
    found = events(lines({"messages": [CALLED, bad, REPLIED]}))
    assert ("tool", "search", {"q": "a"}, "3 hits") in told(found)


def test_a_list_that_is_cut_off_keeps_its_whole_messages() -> None:
    """And says what was set aside."""
    text = json.dumps([{"task_id": 1, "traj": CHAT}, {"task_id": 2, "traj": CHAT}], indent=1).encode()
    found, report = records(text[: text.rindex(b"3 hits")])
    assert [
        (event["run_id"], event.get("result")) for event in map(said, found) if event["kind"] == "tool"
    ] == [
        ("1", "3 hits"),
        ("2", None),
    ]
    assert report.faults


def test_the_airline_runs(shared: Path) -> None:
    """200 runs, 1,164 tool calls all answered, 73 of them errors, 84 solved."""
    found = events(shared / "traces/tau-airline-gpt4o/gpt-4o-airline.json.gz")
    calls = [event for event in found if event.kind == "tool"]
    assert (len({event.run_id for event in found}), len(calls), sum(bool(event.open) for event in calls)) == (
        200,
        1164,
        0,
    )
    assert sum(event.error_class is not None for event in calls) == 73
    outcomes = [event.outcome for event in found if event.kind == "verdict"]
    assert (outcomes.count("passed"), outcomes.count("failed")) == (84, 116)
    assert not [event for event in found if event.kind == "handoff"]


def test_two_shapes_of_the_same_runs_tell_the_same(shared: Path) -> None:
    """One object a line, and an array: equal but for the names of the runs."""
    folder = shared / "samples/openai-chat"
    one, other = (
        events(folder / name) for name in ("tau-bench-messages.jsonl", "tau-bench-airline-extract.json")
    )
    assert told(one) == told(other)


def test_tools_of_the_provider_are_paired_inside_one_message() -> None:
    """Searches and remote tools that the provider ran, with their own words for use and result."""
    content = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result"}]},
        {"type": "mcp_tool_use", "id": "m1", "name": "get", "server_name": "gh", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": True, "content": "bad"},
        {"type": "server_tool_use", "id": "s2", "name": "web_search", "input": {"query": "y"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s2",
            "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
        },
    ]
    found = tools(lines({"messages": [ASKED, {"role": "assistant", "content": content}]}))
    assert [(event.tool, event.call_id, event.error_class, event.open) for event in found] == [
        ("web_search", "s1", None, False),
        ("get", "m1", "tool_error", False),
        ("web_search", "s2", "max_uses_exceeded", False),
    ]


@pytest.mark.parametrize(
    "chat",
    [
        [
            {"from": "human", "value": "go"},
            {
                "from": "gpt",
                "value": "I look.\n<tool_call>\n"
                '{"name": "search", "arguments": {"q": "a"}}\n</tool_call>\n<tool_call>\n'
                '{"name": "search", "arguments": {"q": "b"}}\n</tool_call>',
            },
            {
                "from": "tool",
                "value": "<tool_response>\nA\n</tool_response>\n<tool_response>\nB\n</tool_response>",
            },
            {"from": "gpt", "value": "done"},
        ],
        [
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "content": 'I look.<tool_call>{"name": "search", "arguments": {"q": "a"}}</tool_call>'
                '<tool_call>{"name": "search", "arguments": {"q": "b"}}</tool_call>',
            },
            {
                "role": "user",
                "content": "<tool_response>A</tool_response><tool_response>B</tool_response>",
            },
            {"role": "assistant", "content": "done"},
        ],
    ],
)
def test_calls_written_between_tags_are_calls(chat: list[Any]) -> None:
    """Models without a field for calls write them into their words; the answers come back between tags too."""
    found = events(lines({"conversations": chat}))
    assert [(event.tool, event.args, event.result) for event in found if event.kind == "tool"] == [
        ("search", {"q": "a"}, "A"),
        ("search", {"q": "b"}, "B"),
    ]
    assert [event.args["text"].strip() for event in found if event.kind == "message"] == [
        "go",
        "I look.",
        "done",
    ]


def test_what_the_provider_ran_is_ended_and_what_it_only_asked_for_is_open() -> None:
    """``completed`` on a search is its end; on a call for a click it only says that the call was written whole."""
    output = [
        {"type": "file_search_call", "id": "f", "queries": ["x"], "status": "completed", "results": None},
        {"type": "computer_call", "id": "c", "call_id": "k", "action": {}, "status": "completed"},
        {"type": "web_search_call", "id": "w", "action": {"query": "x"}, "status": "failed"},
        {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}, "status": "completed"},
        {
            "type": "shell_call_output",
            "call_id": "s",
            "output": [{"stdout": "", "outcome": {"type": "exit", "exit_code": 1}}],
        },
        {"type": "apply_patch_call", "call_id": "p", "operation": {"path": "a"}, "status": "completed"},
        {"type": "apply_patch_call_output", "call_id": "p", "status": "failed", "output": "bad"},
    ]
    found = tools(lines({"object": "response", "output": output}))
    assert [(event.tool, event.open, event.error_class) for event in found] == [
        ("file_search", False, None),
        ("computer", True, None),
        ("web_search", False, "tool_error"),
        ("shell", False, "exit_1"),
        ("apply_patch", False, "tool_error"),
    ]
    assert found[4].args == {"path": "a"}


@pytest.mark.parametrize(("approve", "error"), [(True, None), (False, "rejected_by_user")])
def test_leave_to_call_is_an_approval_and_a_person_gives_it(approve: bool, error: str | None) -> None:
    """Asking for leave is no call; it is open until somebody answers."""
    asked = {"type": "mcp_approval_request", "id": "r", "name": "del", "server_label": "g", "arguments": "{}"}
    answer = {"type": "mcp_approval_response", "approval_request_id": "r", "approve": approve}
    (alone,) = events(lines({"object": "response", "output": [asked]}))
    assert (alone.kind, alone.target, alone.open) == ("approval", "mcp__g__del", True)
    (event,) = events(lines({"input": [asked, answer], "output": []}))
    assert (event.kind, event.open, event.external_input, event.error_class) == (
        "approval",
        False,
        True,
        error,
    )


def test_the_addressee_of_a_general_handoff_tool_stands_in_its_arguments() -> None:
    """``transfer_to_agent`` names nobody; ``agent_name`` does."""
    made = call("c", "transfer_to_agent", '{"agent_name": "writer"}')
    (event,) = events(lines({"messages": [{"role": "assistant", "tool_calls": [made]}]}))
    assert (event.kind, event.target) == ("handoff", "writer")


def test_a_request_stands_before_its_answer_and_a_refused_one_is_told() -> None:
    """Its tokens belong in front of what they paid for; a batch line without an answer still was a request."""
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    rows = [
        {
            "request": {"model": "m", "messages": [ASKED]},
            "response": {"choices": [{"message": CALLED}], "usage": usage},
        },
        {
            "request": {"model": "m", "messages": [ASKED, CALLED, REPLIED]},
            "response": {"choices": [{"message": ENDED}], "usage": usage},
        },
    ]
    assert [event.kind for event in events(lines(*rows))] == ["message", "model", "tool", "model", "message"]
    limit = {"error": {"message": "slow down", "type": "x"}}
    batch = [
        {"custom_id": "a", "response": {"status_code": 429, "body": limit}, "error": None},
        {"custom_id": "b", "response": None, "error": {"code": "batch_expired", "message": "late"}},
    ]
    found = events(lines(*batch), "openai-chat")
    assert [(event.run_id, event.kind, event.error_class) for event in found] == [
        ("a", "model", "rate_limit"),
        ("b", "model", "batch_expired"),
    ]
