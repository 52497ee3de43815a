"""Gemini CLI: session lines, the old document, sub-agent files, the stream."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from agentlens.detect.inferred import inferred_branches, inferred_receipts
from agentlens.readers import registry
from agentlens.readers.gemini_results import shell
from agentlens.readers.source import Source
from tests.readers.merging import merged, of_kind
from tests.readers.reading import records
from tests.readers.test_real_loops import events as assembled

if TYPE_CHECKING:
    from pathlib import Path

SESSION = "e4478810-0000-4000-8000-000000000001"
HEADER = {"sessionId": SESSION, "projectHash": "h", "startTime": "2026-10-05T08:00:00.000Z", "kind": "main"}


def message(own: str, kind: str = "gemini", second: int = 1, **more: Any) -> dict[str, Any]:
    at = f"2026-10-05T08:00:{second:02}.000Z"
    return {"id": own, "timestamp": at, "type": kind, "content": more.pop("content", ""), **more}


def call(name: str, output: Any, status: str = "success", second: int = 2, **more: Any) -> dict[str, Any]:
    response = {"functionResponse": {"id": "x", "name": name, "response": output}}
    return {
        "id": f"{name}-1",
        "name": name,
        "args": {"a": 1},
        "status": status,
        "timestamp": f"2026-10-05T08:00:{second:02}.000Z",
        "result": [response],
        **more,
    }


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def told(*rows: Any) -> list[dict[str, Any]]:
    return merged(records(lines(HEADER, *rows))[0])


def printed(code: int, pid: int) -> dict[str, str]:
    text = f"Output: no\nExit Code: {code}\nProcess Group PGID: {pid}"
    return {"output": f"<untrusted_context>\n{text}\n</untrusted_context>"}


def test_a_message_written_again_is_one_and_the_last_stands() -> None:
    """First without its tool, then with its result; the next user record repeats the result."""
    tokens = {"input": 10, "output": 3, "thoughts": 2}
    ended = [call("read_file", {"output": "x"})]
    rows = [
        message("m", tokens=tokens),
        {"$set": {"lastUpdated": "2026-10-05T08:00:02.000Z"}},
        message("m", tokens=tokens, toolCalls=ended),
        message("u", "user", content=ended[0]["result"]),
    ]
    found = told(*rows)
    (tool,), (model,) = of_kind(found, "tool"), of_kind(found, "model")
    assert (tool["result"], tool["open"], tool["ended_at"] - tool["at"]) == ("x", False, 1_000_000)
    assert (model["tokens_in"], model["tokens_out"]) == (10, 5)
    assert not of_kind(found, "message")


def test_a_failing_command_is_no_success_and_its_process_no_evidence() -> None:
    """The exit code stands in the text; two equal failures of other processes are equal."""
    rows = [message(str(n), toolCalls=[call("run_shell_command", printed(2, 100 + n))]) for n in range(2)]
    found = of_kind(told(*rows), "tool")
    assert {(event["result"], event["error_class"]) for event in found} == {("no", "exit_2")}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Command: ls\nDirectory: (root)\nOutput: a\nError: (none)\nExit Code: 0\nSignal: (none)\nBackground PIDs: (none)\nProcess Group PGID: 7", ("a", None)),
        ("Command: ls\nDirectory: x\nStdout: a\nStderr: b\nError: (none)\nExit Code: 1\nSignal: (none)\nBackground PIDs: (none)\nProcess Group PGID: 7", ("a\nb", "exit_1")),
        ("Output: (empty)\nExit Code: (none)\nSignal: 9\nProcess Group PGID: 7", ("", "signal")),
        ("Output: a\nProcess Group PGID: 7", ("a", None)),
        ("<tool_output_masked>gone</tool_output_masked>", (None, None)),
        ("just text", ("just text", None)),
    ],
)  # fmt: skip
def test_the_wordings_of_a_shell_result(text: str, found: Any) -> None:
    """Old and new; a masked output is no evidence."""
    assert shell(text) == found


def test_a_rewind_is_a_reset_and_what_was_done_stays_done() -> None:
    """Messages go, files are not shown to come back."""
    rows = [
        message("u", "user", content="go"),
        message("m", toolCalls=[call("write_file", {"output": "ok"})]),
    ]
    found = told(*rows, {"$rewindTo": "m"}, message("n", second=9))
    assert len(of_kind(found, "tool")) == 1
    assert [event["target"] for event in of_kind(found, "reset")] == ["m"]


def test_replaced_messages_are_a_compaction_that_overwrites_nothing() -> None:
    """A result that was masked later was seen whole at the time."""
    whole = message("m", toolCalls=[call("read_file", {"output": "all of it"})])
    masked = message("m", toolCalls=[call("read_file", {"output": "<tool_output_masked>"})])
    found = told(whole, {"$set": {"messages": [masked, message("s", "user", content="<session_context>")]}})
    assert [event["result"] for event in of_kind(found, "tool")] == ["all of it"]
    assert len(of_kind(found, "compaction")) == 1


def test_an_open_call_waits_and_a_cancelled_one_was_decided() -> None:
    """Neither is a success."""
    waiting, stopped = call("edit", {}, "awaiting_approval"), call("edit", {}, "cancelled")
    waiting.pop("result")
    found = told(message("m", toolCalls=[waiting]), message("n", toolCalls=[stopped]))
    assert [(e["open"], e.get("error_class")) for e in of_kind(found, "tool")] == [
        (True, None),
        (False, "cancelled"),
    ]
    assert [(e["open"], e.get("error_class")) for e in of_kind(found, "approval")] == [
        (True, None),
        (False, "rejected_by_user"),
    ]


def test_the_document_of_old_versions_reads_alike(tmp_path: Path) -> None:
    """One JSON object with messages, on one line or several."""
    messages = [
        message("u", "user", content="go"),
        message("m", toolCalls=[call("ls", {"error": "File not found"}, "error")]),
        message("e", content="Done."),
    ]
    document = {**HEADER, "lastUpdated": "x", "messages": messages}
    old = [merged(records(json.dumps(document, indent=indent).encode())[0]) for indent in (None, 2)]
    assert old[0] == old[1] == told(*messages)
    assert [event["error_class"] for event in of_kind(old[0], "tool")] == ["file_not_found"]
    assert [event["target"] for event in of_kind(old[0], "claim")] == ["success"]


def test_a_sub_agents_file_is_a_lane_of_its_parents_run(tmp_path: Path) -> None:
    """It stands in a folder named like the parent's session, and the parent's call names it."""
    main = tmp_path / "chats" / f"session-2026-10-05T08-00-{SESSION[:8]}.jsonl"
    child = tmp_path / "chats" / SESSION / "kid-1.jsonl"
    child.parent.mkdir(parents=True)
    asked = call("codebase_investigator", {"output": "found"}, agentId="kid-1", second=9)
    main.write_bytes(lines(HEADER, message("m", toolCalls=[asked])))
    head = {**HEADER, "sessionId": "kid-1", "kind": "subagent", "startTime": "2026-10-05T08:00:03.000Z"}
    child.write_bytes(
        lines(
            head,
            message("u", "user", 3, content="look"),
            message("k", second=4, toolCalls=[call("grep", {"output": "x"}, second=5)]),
        )
    )
    frame = assembled([main, child])
    assert frame["run_id"].unique().to_list() == [SESSION]
    inside = frame.filter(pl.col("agent") == "codebase_investigator")
    assert inside["kind"].sort().to_list() == ["accept", "agent", "tool"]
    receipts = inferred_receipts(frame.lazy()).collect()
    assert receipts["event"].to_list() == ["delegated", "accepted", "progress", "completed"]


def test_a_rewind_is_an_inferred_branch(tmp_path: Path) -> None:
    """A source that cannot prove what was restored says so by saying nothing."""
    path = tmp_path / "session-x.jsonl"
    path.write_bytes(lines(HEADER, message("m", toolCalls=[call("ls", {"output": "x"})]), {"$rewindTo": "m"}))
    (branch,) = inferred_branches(assembled([path]).lazy()).collect().to_dicts()
    assert (branch["rule"], branch["fork_point"], branch["inferred"]) == ("gemini-cli.reset", "m", True)


@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, [None], True])
@pytest.mark.parametrize("name", ["gemini-cli", "gemini-stream"])
def test_a_wrong_type_anywhere_is_never_an_exception(junk: Any, name: str) -> None:
    """Each field of the records is replaced in turn."""
    whole = [
        message("m", tokens={"input": 1}, toolCalls=[call("ls", {"output": "x"})]),
        {"$set": {"messages": []}},
        {"$rewindTo": "m"},
    ]
    stream = [{"type": "tool_use", "timestamp": "x", "tool_name": "a", "tool_id": "b", "parameters": {}},
              {"type": "tool_result", "timestamp": "x", "tool_id": "b", "status": "error", "output": "x", "error": {}},
              {"type": "result", "status": "success", "stats": {}, "error": None}]  # fmt: skip
    for row in whole + stream + [HEADER]:
        for key in row:
            records(lines(HEADER, {**row, key: junk}), name)
    for key in call("ls", {}):
        records(lines(HEADER, message("m", toolCalls=[{**call("ls", {}), key: junk}])), name)
    records(lines(junk, HEADER, junk), name)


def test_samples_session_and_stream_of_one_run(shared: Path) -> None:
    """The same actions; only the session tells the exit code of the command that failed twice."""
    folder = shared / "samples" / "gemini-cli"
    session, stream = next(folder.glob("session-*.jsonl")), folder / "stream.jsonl"
    assert [registry.sniff(Source.of(path).head()).name for path in (session, stream)] == [
        "gemini-cli",
        "gemini-stream",
    ]
    one, two = (assembled([path]).filter(pl.col("kind") == "tool") for path in (session, stream))
    assert one.select("run_id", "tool", "action_signature", "open").equals(
        two.select("run_id", "tool", "action_signature", "open")
    )
    assert one["error_class"].to_list() == ["file_not_found", "exit_2", "exit_2"]
    assert two["error_class"].to_list() == ["file_not_found", None, None]
    assert one["progress_fingerprint"][0] == two["progress_fingerprint"][0]
    assert one["progress_fingerprint"][1] == one["progress_fingerprint"][2]
    both = assembled([session, stream])
    assert both.filter(pl.col("kind") == "tool").height == 3


@pytest.mark.parametrize("how", ["array", "lines"])
def test_several_old_documents_in_one_file_are_as_many_sessions(how: str, tmp_path: Path) -> None:
    """One a line, or in an array; a log of today in an array is its lines."""
    call = {"id": "c", "name": "glob", "args": {}, "status": "success"}
    said = {
        "id": "2",
        "type": "gemini",
        "content": "",
        "toolCalls": [call],
        "timestamp": "2026-01-01T00:00:02.000Z",
    }
    heads = [{"sessionId": own, "projectHash": "p", "startTime": "2026-01-01T00:00:00.000Z"} for own in "ab"]
    olds = [head | {"messages": [said]} for head in heads]
    logs = [heads[0], said]
    path = tmp_path / "session.json"
    for rows, runs in ((olds, ["a", "b"]), (logs, ["a"])):
        text = (
            json.dumps(rows, indent=1) if how == "array" else "".join(f"{json.dumps(row)}\n" for row in rows)
        )
        path.write_text(text)
        assert registry.sniff(Source.of(path).head()).name == "gemini-cli"
        found = assembled([path]).filter(pl.col("kind") == "tool")
        assert found["run_id"].to_list() == runs
