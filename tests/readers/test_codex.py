"""Codex: rollouts, the bare items of 2025, and the event stream."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from agentlens.detect.inferred import inferred_branches, inferred_receipts
from agentlens.detect.resets import resets
from agentlens.readers import registry
from agentlens.readers.codex_items import output_of
from agentlens.readers.source import Source
from tests.normalise.norm import signature
from tests.readers.merging import merged, of_kind
from tests.readers.reading import records
from tests.readers.test_real_loops import events as assembled

if TYPE_CHECKING:
    from pathlib import Path

MAIN, CHILD = "01a-main-0001", "01a-child-0002"


def row(kind: str, second: int, **payload: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-10-05T08:00:{second:02}.000Z", "type": kind, "payload": payload}


def meta(thread: str = MAIN, **more: Any) -> dict[str, Any]:
    return row("session_meta", 0, id=thread, session_id=MAIN, cli_version="0.171.0", **more)


def call(call_id: str, args: Any, second: int = 1, name: str = "exec_command", **more: Any) -> dict[str, Any]:
    text = args if isinstance(args, str) else json.dumps(args)
    return row(
        "response_item", second, type="function_call", name=name, call_id=call_id, arguments=text, **more
    )


def output(call_id: str, text: Any, second: int = 3) -> dict[str, Any]:
    return row("response_item", second, type="function_call_output", call_id=call_id, output=text)


def ran(call_id: str, code: int, text: str, second: int = 2, **more: Any) -> dict[str, Any]:
    item = {"type": "CommandExecution", "id": call_id, "exit_code": code, "aggregated_output": text, **more}
    return row("event_msg", second, type="item_completed", item=item)


def said(text: str, role: str = "user", second: int = 0) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return row("response_item", second, type="message", role=role, content=content, id=text[:9])


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in rows)


def told(*rows: Any) -> list[dict[str, Any]]:
    return merged(records(lines(*rows))[0])


def printed(chunk: str, code: int, text: str) -> str:
    return (
        f"Chunk ID: {chunk}\nWall time: 0.{code}1 seconds\nProcess exited with code {code}\n"
        f"Original token count: 3\nOutput:\n{text}"
    )


def test_a_call_written_three_times_is_one_action() -> None:
    """What was asked, what ran, what the model saw: one event, with its exit code and times."""
    (one,) = of_kind(
        told(meta(), call("c", {"cmd": "x"}), ran("c", 2, "no\n"), output("c", printed("a1", 2, "no\n"))),
        "tool",
    )
    assert (one["error_class"], one["result"], one["open"]) == ("exit_2", "no\n", False)
    assert one["ended_at"] - one["at"] == 2_000_000
    assert one["tool"] == "exec_command"


def test_equal_failures_have_equal_evidence_although_their_headers_differ() -> None:
    """Chunk ids and wall times are no part of what was seen."""
    found = {output_of(printed(chunk, 2, "no\n")) for chunk in ("910dda", "0373b4", "865d9b")}
    assert len(found) == 1


@pytest.mark.parametrize(
    ("text", "result", "error", "running"),
    [
        ("Exit code: 1\nWall time: 0.2 seconds\nOutput:\nx", "x", "exit_1", False),
        ('{"output":"x","metadata":{"exit_code":3,"duration_seconds":0.1}}', "x", "exit_3", False),
        ("Chunk ID: 1\nWall time: 1 seconds\nProcess running with session ID 7\nOutput:\nx", "x", None, True),
        ("Exit code: 0\nWall time: 0 seconds\nTotal output lines: 900\nOutput:\nx", None, None, False),
        ("Exit code: 0\nWall time: 0 seconds\nOutput:\na…12 tokens truncated…b", None, None, False),
        ("unsupported custom tool call: foo", "unsupported custom tool call: foo", "unsupported_call", False),
        ("exec command rejected by user", "exec command rejected by user", "rejected_by_user", False),
        ("aborted by user after 1.2s", "aborted by user after 1.2s", "interrupted", False),
        ([{"type": "input_text", "text": "x"}], "x", None, False),
        ({"content": "x", "success": False}, "x", "tool_error", False),
        ("plain", "plain", None, False),
    ],
)
def test_outputs_of_all_versions(text: Any, result: Any, error: str | None, running: bool) -> None:
    """Exit codes and refusals are lifted from text; a text without its middle is no evidence."""
    found = output_of(text)
    assert (found.result, found.error, found.running) == (result, error, running)


def test_a_command_that_goes_on_is_open_until_its_end_which_may_be_a_kill() -> None:
    """It ended after the task was called complete, or never: no success either way."""
    begin = [
        meta(),
        call("c", {"cmd": "sleep 99"}),
        output("c", "Chunk ID: 1\nWall time: 1 seconds\nProcess running with session ID 7\nOutput:\n"),
        row("event_msg", 4, type="task_complete", turn_id="t", last_agent_message="done"),
    ]
    (never,) = of_kind(told(*begin), "tool")
    (late,) = of_kind(told(*begin, ran("c", -1, "", 5)), "tool")
    assert (never["open"], "error_class" in never) == (True, False)
    assert (late["open"], late["error_class"]) == (False, "exit_-1")


def test_a_person_speaks_where_the_program_does_not() -> None:
    """Environment, instructions and notices of children are put in a person's mouth."""
    rows = [
        said("<environment_context>\n"),
        said("# AGENTS.md instructions for x"),
        said("tidy up"),
        said("dev", "developer"),
    ]
    assert len(of_kind(told(meta(), *rows), "message")) == 1


def test_tokens_that_two_records_tell_of_are_counted_once() -> None:
    """Both carry the running total."""
    usage = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}
    rows = [
        row("token_usage_record", 1, usage=usage, thread_token_usage=usage),
        row("event_msg", 2, type="token_count", info={"last_token_usage": usage, "total_token_usage": usage}),
        row("event_msg", 3, type="token_count", info=None),
    ]
    (model,) = of_kind(told(meta(), *rows), "model")
    assert (model["tokens_in"], model["tokens_out"]) == (9, 1)


def spawn(states: Any) -> list[dict[str, Any]]:
    item = {
        "type": "CollabAgentToolCall",
        "id": "s",
        "tool": "spawn_agent",
        "receiver_thread_ids": [CHILD],
        "receiver_agents": [{"thread_id": CHILD, "agent_role": "worker"}],
        "agents_states": {CHILD: "pending_init"},
    }
    rows = [
        meta(),
        call("s", {"message": "count", "agent_type": "worker"}, 1, "spawn_agent", namespace="multi_agent_v1"),
        row("event_msg", 2, type="item_completed", item=item),
        output("s", json.dumps({"agent_id": CHILD, "nickname": "Hegel"}), 2),
    ]
    if states is not None:
        rows += [
            call("w", {"targets": [CHILD], "timeout_ms": 15000}, 3, "wait_agent"),
            output("w", json.dumps({"status": {CHILD: states}, "timed_out": False}), 9),
        ]
    return rows


CHILD_ROWS = [
    row(
        "session_meta",
        2,
        id=CHILD,
        session_id=MAIN,
        parent_thread_id=MAIN,
        source={"subagent": {"thread_spawn": {"parent_thread_id": MAIN, "depth": 1, "agent_role": "worker"}}},
        agent_role="worker",
        timestamp="2026-10-05T08:00:02.000Z",
    ),
    said("count"),
    call("c", {"cmd": "wc"}, 4),
    row("event_msg", 8, type="task_complete", turn_id="u", last_agent_message="2 lines"),
]


def test_a_child_that_was_only_made_has_accepted_nothing() -> None:
    """The call returns when the child is made: the handoff stays open."""
    found = told(*spawn(None))
    (handoff,) = of_kind(found, "handoff")
    assert (handoff["target"], handoff["open"], "result" in handoff) == ("worker", True, False)
    assert not of_kind(found, "agent", "accept")


def test_waiting_for_a_child_is_a_lease_and_its_end_closes_the_handoff() -> None:
    """The child's last words are what the handoff gave."""
    found = told(*spawn({"completed": "2 lines"}))
    (handoff,), (wait,), (agent,) = (of_kind(found, kind) for kind in ("handoff", "wait", "agent"))
    assert (handoff["open"], handoff["result"]) == (False, "2 lines")
    assert wait["lease"]["deadline"] - wait["at"] == 15_000_000
    assert (agent["agent"], agent["open"], agent["parent_span_id"]) == ("worker", False, handoff["span_id"])


def test_a_child_thread_is_a_lane_of_its_parents_run(tmp_path: Path) -> None:
    """Two files, one run; the handoff is delegated, accepted and claimed complete, by inference only."""
    parent, child = tmp_path / f"rollout-{MAIN}.jsonl", tmp_path / f"rollout-{CHILD}.jsonl"
    parent.write_bytes(lines(*spawn({"completed": "2 lines"})))
    child.write_bytes(lines(*CHILD_ROWS))
    frame = assembled([parent, child])
    assert frame["run_id"].unique().to_list() == [MAIN]
    assert frame.filter(pl.col("kind") == "agent").height == 1
    assert frame.filter((pl.col("agent") == "worker") & (pl.col("kind") == "tool")).height == 1
    assert not frame.filter((pl.col("agent") == "worker") & pl.col("external_input")).height
    receipts = inferred_receipts(frame.lazy()).collect()
    assert receipts["event"].to_list() == ["delegated", "accepted", "progress", "completed"]
    assert set(receipts["recipient"].drop_nulls()) == {"worker"}


def test_a_fork_names_its_parent_and_its_copies_are_not_counted_again(tmp_path: Path) -> None:
    """Lines that stand in the parent's file happened there."""
    old = [meta("01a-old-00001"), said("go"), call("c1", {"cmd": "a"}), output("c1", "x")]
    (tmp_path / "rollout-1-01a-old-00001.jsonl").write_bytes(lines(*old))
    fork = tmp_path / "rollout-2-01a-new-00002.jsonl"
    head = row("session_meta", 5, id="01a-new-00002", forked_from_id="01a-old-00001")
    fork.write_bytes(lines(head, *old, call("c2", {"cmd": "b"}, 6)))
    found, report = records(fork)
    events = merged(found)
    assert [event["call_id"] for event in of_kind(events, "tool")] == ["c2"]
    (branch,) = of_kind(events, "fork")
    assert (branch["run_id"], branch["parent_run_id"]) == ("01a-new-00002", "01a-old-00001")
    assert branch["target"] == "c1"  # the last record that both have
    branches = inferred_branches(assembled([fork]).lazy())
    assert resets(branches).collect()["state"].to_list() == ["restore_uncertain"]
    assert sum(report.repaired.values()) == 3


def test_rollbacks_compaction_and_interruptions_are_facts() -> None:
    """A rollback gives up turns, not files; who interrupts has decided something."""
    rows = [
        row("event_msg", 1, type="thread_rolled_back", num_turns=2),
        row("compacted", 2, message="sum", replacement_history=[]),
        row("event_msg", 3, type="turn_aborted", reason="interrupted"),
        row("event_msg", 4, type="stream_error", message="Reconnecting... 2/5"),
    ]
    found = told(meta(), *rows)
    assert [(event["kind"], event.get("target")) for event in found] == [
        ("reset", "2 turns"),
        ("compaction", None),
        ("log", None),
        ("retry", None),
    ]
    assert (found[2]["external_input"], found[3]["attempt"]) == (True, 2)


def test_an_id_used_again_after_its_answer_is_another_action() -> None:
    """Nothing is merged by an id alone."""
    rows = [call("c", {"cmd": "a"}), output("c", "1"), call("c", {"cmd": "b"}, 5), output("c", "2", 6)]
    assert [event["result"] for event in of_kind(told(meta(), *rows), "tool")] == ["1", "2"]


def test_the_bare_items_of_2025() -> None:
    """A header, then items without times; `shell` takes a list of words."""
    rows = [
        {"id": "old-1", "timestamp": "2025-05-01T00:00:00Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "function_call", "name": "shell", "call_id": "c", "arguments": '{"command":["ls"]}'},
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": '{"output":"x","metadata":{"exit_code":0}}',
        },
        {
            "type": "local_shell_call",
            "call_id": "d",
            "status": "completed",
            "action": {"command": ["pwd"], "env": {}},
        },
    ]
    found = told(*rows)
    assert {event["run_id"] for event in found} == {"old-1"}
    one, two = of_kind(found, "tool")
    assert (one["result"], "at" in one, two["args"]) == ("x", False, {"command": ["pwd"]})


def test_a_patch_that_was_declined_is_an_approval() -> None:
    """A person's no is a decision, and the patch failed."""
    rows = [
        row(
            "response_item",
            1,
            type="custom_tool_call",
            name="apply_patch",
            call_id="p",
            input="*** Begin Patch",
        ),
        row("response_item", 2, type="custom_tool_call_output", call_id="p", output="patch rejected by user"),
    ]
    found = told(meta(), *rows)
    assert [event["error_class"] for event in of_kind(found, "tool", "approval")] == ["rejected_by_user"] * 2


def test_a_stream_tells_changed_files_but_not_the_change() -> None:
    """So the action is unknown, not equal to the next one on the same file."""
    change = {
        "id": "i",
        "type": "file_change",
        "changes": [{"path": "a", "kind": "update"}],
        "status": "completed",
    }
    rows = [{"type": "thread.started", "thread_id": "t"}, {"type": "item.completed", "item": change}]
    (one,) = of_kind(told(*rows), "tool")
    assert "args" not in one
    assert "result" not in one


def test_a_stream_item_that_never_completes_is_open_and_usage_is_a_running_total() -> None:
    """The second turn spent what its total adds."""
    item = {"id": "i", "type": "command_execution", "command": "bash -lc 'sleep 9'", "status": "in_progress"}
    usage = [{"input_tokens": 10, "output_tokens": 1}, {"input_tokens": 25, "output_tokens": 4}]
    rows = [
        {"type": "thread.started", "thread_id": "t"},
        {"type": "item.started", "item": item},
        {"type": "turn.completed", "usage": usage[0]},
        {"type": "turn.completed", "usage": usage[1]},
        {"type": "turn.failed", "error": {"message": "x"}},
    ]
    found = told(*rows)
    assert [(e["args"], e["open"]) for e in of_kind(found, "tool")] == [({"cmd": "sleep 9"}, True)]
    assert [(e["tokens_in"], e["tokens_out"]) for e in of_kind(found, "model")] == [(10, 1), (15, 3)]
    assert [e["target"] for e in of_kind(found, "claim")] == ["failure"]


def test_samples_rollout_and_stream_of_one_session_agree(shared: Path) -> None:
    """Same commands, results, errors, fingerprints; the child's file adds its lane."""
    folder = shared / "samples" / "codex"
    rollouts, stream = sorted(folder.glob("rollout-*.jsonl")), folder / "exec-stream.jsonl"
    assert {registry.sniff(Source.of(path).head()).name for path in rollouts} == {"codex"}
    one, two = assembled(rollouts), assembled([stream])
    facts = ["run_id", "tool", "action_signature", "progress_fingerprint", "error_class", "open"]
    mine, theirs = (
        frame.filter((pl.col("agent") == "") & (pl.col("kind") == "tool")).select(facts)
        for frame in (one, two)
    )
    assert mine.equals(theirs)
    assert mine["error_class"].to_list() == ["exit_2"] * 3 + [None]
    assert mine["progress_fingerprint"][:3].n_unique() == 1
    assert one["agent"].unique().sort().to_list() == ["", "worker"]
    both = assembled([*rollouts, stream])
    assert both.filter(pl.col("kind").is_in(["tool", "handoff", "wait"])).height == 7
    receipts = inferred_receipts(one.lazy()).collect()
    assert receipts["event"].to_list() == ["delegated", "accepted", "progress", "completed"]
    assert receipts["inferred"].all()
    assert one.filter(pl.col("kind") == "model")["tokens_in"].sum() == 5600 + 1810
    assert two["tokens_in"].sum() == 5600


def test_how_long_a_command_may_take_to_answer_is_no_part_of_the_action() -> None:
    """Pacing goes, the permission that was asked for stays."""
    plain, paced = {"cmd": "ls"}, {"cmd": "ls", "yield_time_ms": 9, "max_output_tokens": 5}
    asked = {**plain, "sandbox_permissions": "require_escalated"}
    one, two, three = (signature("exec_command", args) for args in (plain, paced, asked))
    assert one == two != three


def test_how_long_the_tests_took_is_no_evidence() -> None:
    """Masks go by tool, so the half that carries a result names it."""
    found = told(meta(), call("c", {"cmd": "pytest"}), output("c", printed("1", 0, "= 2 passed in 0.11s =")))
    (record,) = [
        event for event in records(lines(meta(), call("c", {}), output("c", "x")))[0] if event.result == "x"
    ]
    assert record.tool == "exec_command"
    assert [event["tool"] for event in of_kind(found, "tool")] == ["exec_command"]


def test_the_end_records_of_older_versions_tell_the_same() -> None:
    """One kind a tool, all by the call's id; a tool of a server keeps its own failure."""
    ends = [
        row(
            "event_msg",
            2,
            type="exec_command_end",
            call_id="a",
            exit_code=1,
            stdout="x",
            stderr="y",
            duration={},
        ),
        row("event_msg", 2, type="patch_apply_end", call_id="b", success=False, stdout="", stderr="no"),
        row(
            "event_msg",
            2,
            type="mcp_tool_call_end",
            call_id="c",
            result={"Ok": {"content": [], "is_error": True}},
        ),
        row("event_msg", 2, type="mcp_tool_call_end", call_id="d", result={"Err": "gone"}),
    ]
    names = {"a": "shell", "b": "apply_patch", "c": "fetch", "d": "fetch"}
    found = of_kind(told(meta(), *(call(own, {}, 1, name) for own, name in names.items()), *ends), "tool")
    assert [(e.get("result"), e["error_class"], e["open"]) for e in found] == [
        ("xy", "exit_1", False),
        (None, "patch_failed", False),
        ([], "tool_error", False),
        ("gone", "tool_error", False),
    ]


def test_what_ran_without_its_call_is_read_and_a_persons_own_command_is_none() -> None:
    """The start of the file may be missing; a person may type a command too."""
    command = ["/bin/bash", "-lc", "ls -1"]
    found = told(
        meta(), ran("z", 0, "x", command=command), ran("u", 0, "x", command=command, source="user_shell")
    )
    assert [(e["kind"], e["tool"], e.get("args"), e.get("external_input")) for e in found] == [
        ("tool", "exec_command", {"cmd": "ls -1"}, None),
        ("log", "user_shell", None, True),
    ]


def test_a_fork_is_a_branch_that_proves_nothing(tmp_path: Path) -> None:
    """Its parent is named; without the parent's file the point is not, and never what was restored."""
    path = tmp_path / "rollout-x.jsonl"
    path.write_bytes(
        lines(row("session_meta", 5, id="new", forked_from_id="old"), said("go"), call("c", {"cmd": "b"}, 6))
    )
    branches = inferred_branches(assembled([path]).lazy())
    (branch,) = branches.collect().to_dicts()
    assert (branch["branch_id"], branch["parent_id"], branch["rule"]) == ("new", "old", "codex.fork")
    assert branch["state"] is None
    (judged,) = resets(branches).collect().to_dicts()
    assert (judged["gate_1"], judged["reason_1"], judged["gate_2"]) == ("unknown", "no_fork_point", "unknown")
