"""A2A task streams."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from agentlens.detect.inferred import inferred_receipts
from agentlens.lake.direct import read_file
from agentlens.readers import registry
from agentlens.readers.source import Source
from tests.readers.lanes_made import NORMALISER
from tests.readers.merging import merged, of_kind
from tests.readers.reading import records
from tests.readers.test_real_loops import events as assembled

if TYPE_CHECKING:
    from pathlib import Path


def status(state: str, second: int, said: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {"state": state, "timestamp": f"2026-10-01T10:00:{second:02}.5Z"}
    return {**found, "message": {"role": "ROLE_AGENT", "parts": [{"text": said}]}} if said else found


def new(state: str, second: int, said: str = "", task: str = "t") -> dict[str, Any]:
    word = f"TASK_STATE_{state.upper()}"
    if state == "submitted":
        return {"task": {"id": task, "contextId": "c", "status": status(word, second, said)}}
    return {"statusUpdate": {"taskId": task, "contextId": "c", "status": status(word, second, said)}}


def old(state: str, second: int, said: str = "", task: str = "t") -> dict[str, Any]:
    word = state.replace("_", "-")
    if state == "submitted":
        return {"kind": "task", "id": task, "contextId": "c", "status": status(word, second, said)}
    final = word in {"completed", "input-required"}
    return {
        "kind": "status-update",
        "taskId": task,
        "contextId": "c",
        "final": final,
        "status": status(word, second, said),
    }


ARTIFACT = {
    "artifactUpdate": {
        "taskId": "t",
        "contextId": "c",
        "artifact": {"artifactId": "a", "parts": [{"text": "done"}]},
    }
}


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def told(*rows: Any) -> list[dict[str, Any]]:
    return merged(records(lines(*rows))[0])


def life(of: Any) -> list[dict[str, Any]]:
    return [
        of("submitted", 0),
        of("working", 1),
        of("input_required", 2),
        of("working", 5),
        of("completed", 9),
    ]


def test_both_versions_and_the_envelope_tell_the_same() -> None:
    """States are spelled differently; `final` also ends a stream that waits."""
    wrapped = [{"jsonrpc": "2.0", "id": 1, "result": row} for row in life(old)]
    events = b"".join(b"event: message\ndata: " + json.dumps(row).encode() + b"\n\n" for row in wrapped)
    found = [told(*life(new)), told(*life(old)), told(*wrapped), merged(records(events, "a2a")[0])]
    assert found[0] == found[1] == found[2] == found[3]


def test_a_task_is_delegated_accepted_waits_and_is_claimed_complete(tmp_path: Path) -> None:
    """An artifact is what the other agent gave, and no proof that it is right."""
    path = tmp_path / "stream.jsonl"
    path.write_bytes(lines(*life(new)[:4], ARTIFACT, life(new)[4]))
    (handoff,) = of_kind(merged(records(path)[0]), "handoff")
    assert (handoff["result"], handoff["open"], handoff["run_id"]) == ("done", False, "c")
    receipts = inferred_receipts(assembled([path]).lazy()).collect()
    assert receipts["event"].to_list() == ["delegated", "accepted", "waiting", "completed"]
    assert not receipts["outcome"].drop_nulls().len()


def test_a_task_that_nobody_takes_up_stays_open_and_a_refused_one_says_why(tmp_path: Path) -> None:
    """Neither was accepted."""
    rejected = {
        "task": {"id": "r", "contextId": "c", "status": status("TASK_STATE_REJECTED", 3, "not my domain")}
    }
    path = tmp_path / "stream.jsonl"
    path.write_bytes(lines(new("submitted", 0), rejected))
    found = of_kind(merged(records(path)[0]), "handoff")
    assert [(e["call_id"], e["open"], e.get("error_class")) for e in found] == [
        ("t", True, None),
        ("r", False, "rejected"),
    ]
    receipts = inferred_receipts(assembled([path]).lazy()).collect()
    assert receipts["event"].to_list() == ["delegated", "delegated", "rejected"]


def test_what_was_asked_is_the_action() -> None:
    """From the request in the stream, or from the task's own history; else it is not known."""
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "message/stream",
        "params": {"message": {"role": "user", "parts": [{"text": "count"}]}},
    }
    (one,) = of_kind(told(request, old("submitted", 0)), "handoff")
    task = {**old("submitted", 0), "history": [request["params"]["message"]]}
    (two,) = of_kind(told(task), "handoff")
    (three,) = of_kind(told(old("submitted", 0)), "handoff")
    assert one["args"] == two["args"] == {"message": "count"}
    assert "args" not in three


def test_a_state_told_twice_changes_nothing() -> None:
    """A wait told again is one wait."""
    rows = life(new)
    assert told(*rows) == told(*(row for row in rows for _ in range(2)))


@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, [None], True])
def test_a_wrong_type_anywhere_is_never_an_exception(junk: Any) -> None:
    """Each field of each update is replaced in turn."""
    for rows in (life(new), life(old), [ARTIFACT]):
        for place, row in enumerate(rows):
            for key in row:
                inner = row[key]
                changes = [{**row, key: junk}]
                if isinstance(inner, dict):
                    changes += [{**row, key: {**inner, name: junk}} for name in inner]
                for changed in changes:
                    records(lines(*rows[:place], changed, junk, *rows[place + 1 :]), "a2a")


def test_samples(shared: Path) -> None:
    """Accepted after waiting, never picked up, refused."""
    folder = shared / "samples" / "a2a"
    paths = sorted(folder.glob("*.jsonl"))
    assert {registry.sniff(Source.of(path).head()).name for path in paths} == {"a2a"}
    receipts = inferred_receipts(assembled([folder / "v1-stream.jsonl"]).lazy()).collect()
    by_task = receipts.group_by("operation_id", maintain_order=True).agg("event")["event"].to_list()
    assert by_task == [
        ["delegated", "accepted", "waiting", "completed"],
        ["delegated"],
        ["delegated", "rejected"],
    ]
    old_ = inferred_receipts(assembled([folder / "v0.3-stream.jsonl"]).lazy()).collect()
    assert old_["event"].to_list() == ["delegated", "accepted", "waiting", "completed"]


TASK = {
    "id": "t",
    "contextId": "c",
    "status": status("TASK_STATE_CANCELED", 9),
    "history": [{"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "do it"}]}],
}


@pytest.mark.parametrize("document", [TASK, [TASK], {"jsonrpc": "2.0", "id": "1", "result": TASK}])
def test_a_task_by_itself_is_a_handoff(document: Any) -> None:
    """As a server returns one that is asked for, with or without the envelope."""
    (handoff,) = of_kind(merged(records(json.dumps(document).encode())[0]), "handoff")
    assert (handoff["call_id"], handoff["error_class"], handoff["open"]) == ("t", "canceled", False)
    assert handoff["args"] == {"message": "do it"}


def test_a_saved_stream_of_server_sent_events_is_told_by_its_data() -> None:
    """No line of it is JSON alone."""
    sent = [
        {"jsonrpc": "2.0", "id": "r", "result": made} for made in (new("submitted", 1), new("working", 2))
    ]
    found = merged(records(b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in sent))[0])
    assert [event["call_id"] for event in of_kind(found, "handoff")] == ["t"]
    assert len(of_kind(found, "accept")) == 1


ASKED = {"method": "SendMessage", "params": {"message": {"role": "ROLE_USER", "parts": [{"text": "x"}]}}}
ANSWER = {"messageId": "m2", "contextId": "c", "role": "ROLE_AGENT", "parts": [{"text": "hello"}]}


@pytest.mark.parametrize("result", [{"message": ANSWER}, {"kind": "message", **ANSWER, "role": "agent"}])
def test_a_message_instead_of_a_task_answers_what_was_sent(result: dict[str, Any]) -> None:
    """It takes the handoff up and ends it; that it went well nobody says."""
    rows = [{"jsonrpc": "2.0", "id": 1, **ASKED}, {"jsonrpc": "2.0", "id": 1, "result": result}]
    found = merged(records("\n".join(map(json.dumps, rows)).encode())[0])
    (handoff,), (accept,) = of_kind(found, "handoff"), of_kind(found, "accept")
    assert (handoff["run_id"], handoff["result"], handoff["open"]) == ("c", "hello", False)
    assert accept["call_id"] == handoff["call_id"]
    assert not of_kind(found, "claim")


def test_a_message_that_nothing_answers_is_an_open_handoff() -> None:
    """Handed over and never taken up; what goes on with a known task hands nothing over."""
    more = {"method": "SendMessage", "params": {"message": {"taskId": "t", "parts": [{"text": "yes"}]}}}
    rows = [new("submitted", 1), more, {"jsonrpc": "2.0", "id": 1, **ASKED}]
    found = merged(records("\n".join(map(json.dumps, rows)).encode())[0])
    assert [(event.get("args"), event["open"]) for event in of_kind(found, "handoff")] == [
        (None, True),
        ({"message": "x"}, True),
    ]


def call(number: int, words: str) -> dict[str, Any]:
    message = {"role": "user", "parts": [{"kind": "text", "text": words}], "messageId": f"m{number}"}
    return {"jsonrpc": "2.0", "id": f"{number}", "method": "message/stream", "params": {"message": message}}


def answer(number: int, state: str, second: int) -> dict[str, Any]:
    status = {"state": state, "timestamp": f"2026-01-01T00:00:{second:02}Z"}
    kind = (
        {"id": f"t{number}", "kind": "task"}
        if state == "submitted"
        else {"taskId": f"t{number}", "kind": "status-update"}
    )
    return {"jsonrpc": "2.0", "id": f"{number}", "result": {**kind, "contextId": "c", "status": status}}


def test_answers_belong_to_the_requests_of_their_calls(tmp_path: Path) -> None:
    """Side by side, told twice or in another order: two tasks, each with the words it was sent."""
    rows = [
        call(1, "one"), call(2, "two"), answer(2, "submitted", 1), answer(1, "submitted", 2),
        answer(2, "completed", 3), answer(1, "failed", 4),
    ]  # fmt: skip
    path = tmp_path / "stream.jsonl"
    found = []
    for order in (rows, [one for row in rows for one in (row, row)], [*rows, *rows], [*rows[2:], *rows[:2]]):
        path.write_text("".join(f"{json.dumps(row)}\n" for row in order))
        events = read_file(path, NORMALISER).events.filter(pl.col("kind") == "handoff").collect()
        found.append(events.sort("call_id").select("call_id", "action_signature", "error_class", "open"))
    assert found[0].select("call_id", "error_class", "open").rows() == [
        ("t1", "failed", False),
        ("t2", None, False),
    ]
    assert found[0]["action_signature"].n_unique() == 2
    assert all(one.equals(found[0]) for one in found)
