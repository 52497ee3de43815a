"""Forked Codex threads: what a fork copied from its parent happened there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentlens.readers import registry
from agentlens.readers.codex_forks import parents
from agentlens.readers.source import Source
from tests.readers.merging import merged, of_kind
from tests.readers.reading import records
from tests.readers.test_codex import call, lines, output, said

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW = "01a-old-00001", "01a-new-00002"


def at(stamp: str, kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-10-{stamp}Z", "type": kind, "payload": payload}


def moved(record: dict[str, Any], stamp: str) -> dict[str, Any]:
    return {**record, "timestamp": f"2026-10-{stamp}Z"}


PARENT = [
    at("05T08:00:00.000", "session_meta", id=OLD, timestamp="2026-10-05T08:00:00Z"),
    at("05T08:00:00.100", "event_msg", type="task_started", turn_id="t-old"),
    said("go"),
    call("c1", {"cmd": "a"}),
    output("c1", "x"),
]
COPY = [moved(record, "06T09:00:00.002") for record in PARENT]
OWN = [
    at("06T09:00:05.000", "event_msg", type="task_started", turn_id="t-new"),
    moved(said("and now this"), "06T09:00:05.001"),
    moved(call("c2", {"cmd": "b"}), "06T09:00:07.000"),
]


def fork(**more: Any) -> dict[str, Any]:
    began = {"id": NEW, "timestamp": "2026-10-06T09:00:00Z", **more}
    return at("06T09:00:00.001", "session_meta", **began)


def read(path: Path, *rows: Any) -> tuple[list[dict[str, Any]], dict[str, int]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lines(*rows))
    found, report = records(path)
    return merged(found), dict(report.repaired)


def test_without_the_parents_file_its_own_first_line_marks_the_copies(tmp_path: Path) -> None:
    """The copies were written in one go; the fork's own turn comes later."""
    events, repaired = read(tmp_path / f"rollout-{NEW}.jsonl", fork(forked_from_id=OLD), *COPY, *OWN)
    assert [event["call_id"] for event in of_kind(events, "tool")] == ["c2"]
    assert len(of_kind(events, "message")) == 1
    (branch,) = of_kind(events, "fork")
    assert (branch["parent_run_id"], branch["target"]) == (OLD, "c1")
    assert repaired == {"line copied from the thread that was forked": 4}


def test_a_fork_that_only_its_copy_gives_away_names_its_parent(tmp_path: Path) -> None:
    """Older versions do not say that a thread is a fork."""
    events, _ = read(tmp_path / f"rollout-{NEW}.jsonl", fork(), *COPY, *OWN)
    (branch,) = of_kind(events, "fork")
    assert (branch["run_id"], branch["parent_run_id"], branch["target"]) == (NEW, OLD, "c1")
    assert [event["call_id"] for event in of_kind(events, "tool")] == ["c2"]


def test_a_parent_of_another_day_is_found(tmp_path: Path) -> None:
    """Sessions stand in folders of year, month and day; ids tell the copies, however soon the fork acts."""
    sessions = tmp_path / "sessions"
    parent = sessions / "2025" / "12" / "31" / f"rollout-2025-12-31T08-00-00-{OLD}.jsonl"
    read(parent, *PARENT)
    path = sessions / "2026" / "10" / "06" / f"rollout-2026-10-06T09-00-00-{NEW}.jsonl"
    soon = [moved(record, "06T09:00:00.002") for record in OWN]
    events, _ = read(path, fork(forked_from_id=OLD), *COPY, *soon)
    assert parents(Source.of(path)) == [parent]
    assert [event["call_id"] for event in of_kind(events, "tool")] == ["c2"]
    assert len(of_kind(events, "message")) == 1
    before = registry.beside(Source.of(path), registry.named("codex"))
    parent.write_bytes(lines(*PARENT[:2]))
    assert registry.beside(Source.of(path), registry.named("codex")) != before


def test_a_forked_child_keeps_only_its_own_calls(tmp_path: Path) -> None:
    """A sub-agent may be started with all that its parent saw; that is no work of its own and no branch."""
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": OLD, "depth": 1, "agent_role": "worker"}}}
    events, _ = read(tmp_path / f"rollout-{NEW}.jsonl", fork(source=spawned), *COPY, *OWN)
    assert [(event["agent"], event["call_id"]) for event in of_kind(events, "tool")] == [("worker", "c2")]
    assert of_kind(events, "fork") == []
    assert {event["run_id"] for event in events} == {OLD}


def test_a_process_that_goes_on_has_no_end(tmp_path: Path) -> None:
    """The call has returned; what it started has not."""
    going = "Chunk ID: 1\nWall time: 1.0 seconds\nProcess running with session ID 7\nOutput:\nup"
    events, _ = read(
        tmp_path / "rollout-1.jsonl", *PARENT[:2], call("c", {"cmd": "serve"}), output("c", going)
    )
    (tool,) = of_kind(events, "tool")
    assert (tool["open"], tool.get("ended_at")) == (True, None)


def test_a_session_that_was_resumed_copies_nothing(tmp_path: Path) -> None:
    """The same first line again is no parent's."""
    soon = [moved(record, "06T09:00:00.002") for record in OWN]
    events, repaired = read(tmp_path / "rollout-1.jsonl", fork(), fork(), *soon)
    assert [event["call_id"] for event in of_kind(events, "tool")] == ["c2"]
    assert repaired == {}


def test_what_a_child_repeats_of_the_thread_that_started_it_is_no_act_of_its_own() -> None:
    """Lines older than the child; its start names the call that asked for it."""
    spawn = {"parent_thread_id": OLD, "spawn_call_id": "c9", "agent_role": "scout"}
    rows = [
        at("06T09:00:00.000", "session_meta", id=NEW, timestamp="2026-10-06T09:00:00Z",
           source={"subagent": {"thread_spawn": spawn}}),
        moved(call("c9", {"message": "look"}, name="spawn_agent"), "06T08:59:58.000"),
        moved(call("c1", {"cmd": "ls"}), "06T09:00:01.000"),
    ]  # fmt: skip
    found = merged(records(lines(*rows))[0])
    assert [(event["agent"], event["call_id"]) for event in of_kind(found, "tool", "handoff")] == [
        ("scout", "c1")
    ]
    assert [event["call_id"] for event in of_kind(found, "accept")] == ["c9"]
