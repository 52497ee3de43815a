"""A second run of each coding agent and benchmark, in ways that the first one did not have.

Refused, unknown and cut off calls, parallel ones that end in another order, calls without an end, empty results,
letters of all kinds, records of kinds that nobody knows yet.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens.lake.direct import read_file
from tests.readers.lanes_made import NORMALISER

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("tool", "handoff", "wait", "resume", "approval", "reset", "compaction", "claim", "accept", "message")


def told(rows: Any, folder: Path, name: str = "export.jsonl") -> list[tuple[Any, ...]]:
    """Return lane, kind, tool, target, error class and openness of what was done; ``rows``: lines or a document."""
    path = folder / name
    text = (
        "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        if isinstance(rows, list)
        else json.dumps(rows)
    )
    path.write_text(f"{text}\n", "utf-8")
    found = read_file(path, NORMALISER).events.filter(pl.col("kind").is_in(KINDS)).collect()
    order = found.sort("run_id", "agent", "seq")
    return [
        (agent, kind, tool, target, error, bool(going))
        for agent, kind, tool, target, error, going in order.select(
            "agent", "kind", "tool", "target", "error_class", "open"
        ).rows()
    ]


def codex(second: int, kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-12-01T10:00:{second:02}.000Z", "type": kind, "payload": payload}


def called(second: int, call: str, name: str, args: str) -> dict[str, Any]:
    return codex(second, "response_item", type="function_call", call_id=call, name=name, arguments=args)


def put_out(second: int, call: str, output: Any) -> dict[str, Any]:
    return codex(second, "response_item", type="function_call_output", call_id=call, output=output)


def test_a_codex_session_of_refusals(tmp_path: Path) -> None:
    """What was refused stands in texts alone; what ran on gets its end behind the end of the turn; one never does."""
    running = "Chunk ID: 1ab\nWall time: 1.0 seconds\nProcess running with session ID 7\nOutput:\n"
    end = {
        "type": "CommandExecution",
        "id": "c2",
        "status": "failed",
        "exit_code": -1,
        "aggregated_output": "",
    }
    mcp = {"Ok": {"content": [{"type": "text", "text": "bad"}], "isError": True}}
    rows = [
        codex(0, "session_meta", id="s", timestamp="2026-12-01T10:00:00Z", cwd="/x", cli_version="9"),
        codex(1, "response_item", type="message", role="user", content=[{"type": "input_text", "text": "<environment_context>x"}]),
        codex(2, "response_item", type="message", role="user", id="u", content=[{"type": "input_text", "text": "mach ü"}]),
        codex(3, "response_item", type="custom_tool_call", call_id="c1", name="apply_patch", input="*** Begin"),
        codex(4, "response_item", type="custom_tool_call_output", call_id="c1", output="unsupported custom tool call: apply_patch"),
        called(5, "c2", "exec_command", '{"cmd": "sleep 99"}'),
        put_out(6, "c2", running),
        called(7, "c3", "exec_command", "not json {"),
        put_out(8, "c3", {"content": "failed to parse function arguments: x", "success": False}),
        called(9, "c4", "mcp__srv__look", '{"a": 1}'),
        codex(10, "event_msg", type="mcp_tool_call_end", call_id="c4", invocation={"server": "srv", "tool": "look"}, result=mcp),
        put_out(11, "c4", "bad"),
        called(12, "c5", "exec_command", '{"cmd": "rm -rf x"}'),
        put_out(13, "c5", "exec command rejected by user"),
        called(14, "c6", "never", "{}"),
        codex(15, "a_kind_of_tomorrow", type="x"),
        codex(16, "event_msg", type="task_complete", turn_id="t1", last_agent_message="fertig"),
        codex(17, "event_msg", type="item_completed", turn_id="t1", item=end),
    ]  # fmt: skip
    assert told(rows, tmp_path) == [
        ("", "message", "user", None, None, False),
        ("", "tool", "apply_patch", None, "unsupported_call", False),
        ("", "tool", "exec_command", None, "exit_-1", False),
        ("", "tool", "exec_command", None, "bad_arguments", False),
        ("", "tool", "mcp__srv__look", None, "tool_error", False),
        ("", "tool", "exec_command", None, "rejected_by_user", False),
        ("", "approval", "exec_command", "exec_command", "rejected_by_user", False),
        ("", "tool", "never", None, None, True),
        ("", "claim", "task_complete", "success", None, False),
    ]


def test_a_codex_stream_that_fails(tmp_path: Path) -> None:
    """A command that never ended, one that was declined, a turn that failed."""

    def item(own: str, phase: str = "completed", **facts: Any) -> dict[str, Any]:
        return {"type": f"item.{phase}", "item": {"id": own, **facts}}

    shell = {"type": "command_execution", "command": "bash -lc 'ls'", "aggregated_output": ""}
    rows = [
        {"type": "thread.started", "thread_id": "th"},
        {"type": "turn.started"},
        item("i0", "started", **shell, exit_code=None, status="in_progress"),
        item("i1", type="mcp_tool_call", server="s", tool="look", arguments={"a": 1}, result=None, error={"message": "x"}, status="failed"),
        item("i2", **shell, exit_code=0, status="completed"),
        item("i3", **shell, exit_code=None, status="declined"),
        item("i4", type="thing_of_tomorrow"),
        {"type": "turn.failed", "error": {"message": "x"}},
    ]  # fmt: skip
    assert [row for row in told(rows, tmp_path) if row[1] != "message"] == [
        ("", "tool", "exec_command", None, None, True),
        ("", "tool", "mcp__s__look", None, "tool_error", False),
        ("", "tool", "exec_command", None, None, False),
        ("", "tool", "exec_command", None, "rejected_by_user", False),
        ("", "claim", "turn.failed", "failure", "turn_failed", False),
    ]


def gemini(call: str, name: str, status: str, response: Any) -> dict[str, Any]:
    told = (
        {"result": [{"functionResponse": {"id": call, "name": name, "response": response}}]}
        if response
        else {}
    )
    return {"id": call, "name": name, "args": {"x": "ü"}, "status": status, **told}


def test_a_gemini_session_that_is_rewound(tmp_path: Path) -> None:
    """The last record of a message stands; every end there is; a rewind and a replaced history."""
    at = "2026-07-01T10:00:0{}.000Z"
    shell = "Output: (empty)\nExit Code: 3\nProcess Group PGID: 77"
    calls = [
        gemini("a", "run_shell_command", "success", {"output": shell}),
        gemini("b", "read_file", "error", {"error": "File not found: ü"}),
        gemini("c", "write_file", "cancelled", {"error": "[Operation Cancelled]"}),
        gemini("d", "edit", "awaiting_approval", None),
    ]
    answer = {"id": "g1", "timestamp": at.format(2), "type": "gemini", "content": "", "model": "m"}
    rows = [
        {"sessionId": "S", "projectHash": "p", "startTime": at.format(0), "kind": "main"},
        {"id": "u1", "timestamp": at.format(1), "type": "user", "content": [{"text": "los"}]},
        answer | {"toolCalls": [gemini("a", "run_shell_command", "executing", None)]},
        answer | {"toolCalls": calls},
        {"$rewindTo": "u1"},
        {"id": "i1", "timestamp": at.format(3), "type": "error", "content": "quota"},
        {"$set": {"messages": [{"id": "u1", "timestamp": at.format(1), "type": "user", "content": "los"}]}},
    ]
    found = told(rows, tmp_path)
    assert [row for row in found if row[1] == "tool"] == [
        ("", "tool", "run_shell_command", None, "exit_3", False),
        ("", "tool", "read_file", None, "file_not_found", False),
        ("", "tool", "write_file", None, "cancelled", False),
        ("", "tool", "edit", None, None, True),
    ]
    assert [row[1:3] for row in found if row[1] in {"reset", "compaction"}] == [
        ("reset", "rewind"),
        ("compaction", "messages_replaced"),
    ]
    assert sum(row[1] == "message" for row in found) == 1


def test_a2a_tasks_that_end_badly(tmp_path: Path) -> None:
    """Asked to sign in, then failed; cancelled before anyone took it; answered without a task."""

    def state(task: str, name: str, second: int) -> dict[str, Any]:
        status = {"state": f"TASK_STATE_{name}", "timestamp": f"2026-07-01T10:00:{second:02}Z"}
        return {"statusUpdate": {"taskId": task, "contextId": "ctx", "status": status}}

    rows = [
        {"task": {"id": "t1", "contextId": "ctx", "status": {"state": "TASK_STATE_SUBMITTED", "timestamp": "2026-07-01T10:00:00Z"}}},
        state("t1", "WORKING", 1),
        state("t1", "AUTH_REQUIRED", 2),
        state("t1", "WORKING", 5),
        state("t1", "FAILED", 6),
        state("t2", "CANCELED", 9),
        {"message": {"messageId": "m9", "contextId": "zzz", "role": "ROLE_AGENT", "parts": [{"text": "ü"}]}},
    ]  # fmt: skip
    assert told(rows, tmp_path) == [
        ("", "handoff", "a2a", "remote", "failed", False),
        ("", "handoff", "a2a", "remote", "canceled", False),
        ("remote", "accept", "", None, None, False),
        ("remote", "wait", "auth_required", "authorization", None, False),
        ("remote", "resume", "working", None, None, False),
        ("remote", "claim", "failed", "failure", None, False),
        ("", "handoff", "a2a", "remote", None, False),
        ("remote", "accept", "", None, None, False),
    ]


def test_a_trajectory_with_repeated_ids_and_a_sub_agent(tmp_path: Path) -> None:
    """One id twice in a step, a result of nothing, a call of a sub-agent that never came back."""
    kid = {
        "trajectory_id": "k",
        "agent": {"name": "kid", "version": "1"},
        "steps": [{"step_id": 1, "source": "agent", "message": "", "tool_calls": [{"tool_call_id": "e", "function_name": "grep", "arguments": {"q": "ü"}}]}],
    }  # fmt: skip
    twice = [
        {"tool_call_id": "c", "function_name": "bash", "arguments": {"cmd": cmd}} for cmd in ("ls", "false")
    ]
    document = {
        "schema_version": "ATIF-v1.8",
        "session_id": "s",
        "agent": {"name": "terminus-2", "version": "2"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "go"},
            {"step_id": 2, "source": "agent", "message": "", "tool_calls": twice, "observation": {"results": [{"source_call_id": "c", "content": "a"}, {"source_call_id": "c", "content": None}]}},
            {"step_id": 3, "source": "agent", "message": "", "tool_calls": [{"tool_call_id": "d", "function_name": "delegate", "arguments": {}}], "observation": {"results": [{"source_call_id": "d", "content": "sub", "subagent_trajectory_ref": [{"trajectory_id": "k"}]}]}},
            {"step_id": 4, "source": "agent", "message": "again", "is_copied_context": True, "tool_calls": twice},
        ],
        "subagent_trajectories": [kid],
    }  # fmt: skip
    assert told(document, tmp_path, "trajectory.json") == [
        ("", "message", "user", None, None, False),
        ("", "tool", "bash", None, None, False),
        ("", "tool", "bash", None, None, False),
        ("", "handoff", "delegate", "kid", None, False),
        ("kid", "accept", "", None, None, False),
        ("kid", "tool", "grep", None, None, True),
    ]


def test_two_generations_of_mini_swe_agent(tmp_path: Path) -> None:
    """Commands in fences with their codes in tags; calls with their codes beside; one limit, one submission."""
    fenced = {
        "info": {"exit_status": "Submitted", "submission": "", "mini_version": "1.9"},
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "do ü"},
            {"role": "assistant", "content": "THOUGHT\n\n```bash\nls\n```"},
            {"role": "user", "content": "<returncode>0</returncode>\n<output>\na\n</output>"},
            {"role": "assistant", "content": "no fence"},
            {
                "role": "user",
                "content": "Please always provide EXACTLY ONE action in triple backticks, found 0 actions.",
            },
            {"role": "assistant", "content": "```bash\nfalse\n```"},
            {"role": "user", "content": "<returncode>1</returncode>\n<output>\n</output>"},
            {"role": "assistant", "content": "```bash\nsleep 99\n```"},
            {
                "role": "user",
                "content": "The last command <command>sleep 99</command> timed out and has been killed.",
            },
        ],
        "trajectory_format": "mini-swe-agent-1",
    }
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": cmd})}} for n, cmd in enumerate(("ls", "false"))]  # fmt: skip
    modern = {
        "info": {"exit_status": "LimitsExceeded", "submission": "", "mini_version": "2.4"},
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "do"},
            {"role": "assistant", "content": None, "tool_calls": calls, "extra": {"actions": [{"command": "ls", "tool_call_id": "c0"}, {"command": "false", "tool_call_id": "c1"}], "timestamp": 1_782_900_000.5}},
            {"role": "tool", "tool_call_id": "c0", "content": "x", "extra": {"raw_output": "a\n", "returncode": 0}},
            {"role": "tool", "tool_call_id": "c1", "content": "x", "extra": {"raw_output": "", "returncode": 1}},
            {"role": "exit", "content": "limits", "extra": {"exit_status": "LimitsExceeded", "submission": ""}},
        ],
        "trajectory_format": "mini-swe-agent-1.1",
    }  # fmt: skip
    errors = [
        [row[4] for row in told(one, tmp_path, "run.traj.json") if row[1] == "tool"]
        for one in (fenced, modern)
    ]
    assert errors == [[None, "exit_1", "timeout"], [None, "exit_1"]]
    assert [row[1] for row in told(fenced, tmp_path, "run.traj.json")].count("claim") == 1
    assert [row[1] for row in told(modern, tmp_path, "run.traj.json")].count("claim") == 0


def test_a_swe_agent_run_with_states_of_both_kinds(tmp_path: Path) -> None:
    """State as text and as object, an error in the output, a step without an action, an end by cost."""
    steps = [
        {"action": "ls -la\n", "observation": "a\r\n", "state": {"open_file": "n/a"}},
        {"action": "str_replace_editor view /ü", "observation": "", "state": '{"open_file": "n/a"}'},
        {
            "action": "python x.py",
            "observation": "Traceback (most recent call last):\nKeyError: 'ü'\n",
            "state": {},
        },
        {"action": "", "observation": "Your command ran successfully", "state": {}},
    ]
    document = {"trajectory": steps, "history": [], "info": {"exit_status": "exit_cost", "submission": None}}
    assert told(document, tmp_path, "x.traj") == [
        ("", "tool", "bash", None, None, False),
        ("", "tool", "str_replace_editor", None, None, False),
        ("", "tool", "bash", None, "KeyError", False),
    ]


def test_a_codex_thread_that_is_resumed_into_another_file(tmp_path: Path) -> None:
    """Items are counted anew in each stream; a copy of one tells nothing more."""

    def stream(name: str, command: str, *, early: bool = False) -> None:
        kind = "item_type" if early else "type"
        item = {
            "id": "item_0",
            kind: "command_execution",
            "command": command,
            "aggregated_output": "",
            "exit_code": 0,
        }
        begun = (
            {"type": "session.created", "session_id": "th"}
            if early
            else {"type": "thread.started", "thread_id": "th"}
        )
        said = {"id": "item_1", kind: "assistant_message" if early else "agent_message", "text": command}
        rows = [
            begun,
            *({"type": "item.completed", "item": one} for one in (item, said)),
            {"type": "turn.completed"},
        ]
        (tmp_path / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    stream("one.jsonl", "ls")
    stream("two.jsonl", "pwd")
    stream("copy.jsonl", "ls")
    stream("early.jsonl", "id", early=True)
    found = read_file(tmp_path, NORMALISER).events.filter(pl.col("kind").is_in(["tool", "claim"])).collect()
    assert (
        found.filter(pl.col("kind") == "tool").select("run_id", "tool", "open").rows()
        == [("th", "exec_command", False)] * 3
    )
    assert found.filter(pl.col("kind") == "tool")["action_signature"].n_unique() == 3
