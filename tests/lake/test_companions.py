"""Files beside a source that its reader looks into: when one changes, the source is read again."""

from __future__ import annotations

import json
import shutil

import orjson
import polars as pl
import pytest

from agentlens.lake import ingest
from agentlens.lake.manifest import MANIFEST
from agentlens.readers import openhands
from agentlens.readers.gemini_cli import companions
from agentlens.readers.source import Source
from tests.lake.exports import NORMALISER, event, events, write
from tests.readers import claude


def put(sources, lake):
    report = ingest(sources, lake, normaliser=NORMALISER)
    return [(source.status, source.reason) for source in report.sources]


@pytest.fixture
def trial(tmp_path):
    """A trial that failed, by the harness's word alone."""
    document = {"task_name": "t", "trial_name": "t__x", "verifier_result": {"rewards": {"reward": 0.0}}}
    (tmp_path / "t" / "verifier").mkdir(parents=True)
    path = tmp_path / "t" / "result.json"
    path.write_text(json.dumps(document))
    return path


def outcome(lake):
    return events(lake).filter(pl.col("kind") == "verdict").select("run_id", "outcome").row(0)


BESIDE = ("changed", "a file beside it changed")


def test_a_file_that_appears_changes_or_goes_is_noticed(trial, tmp_path):
    """The verdict is what a clean ingest of the same files gives; the outcome file itself never changed."""
    lake = tmp_path / "lake"
    assert put(trial, lake) == [("new", "")]
    assert outcome(lake) == ("t__x", "failed")
    output = trial.parent / "verifier" / "test-stdout.txt"
    for text, said in (("uvx: not found", "unknown"), ("== 1 failed in 0.1s ==", "failed"), (None, "failed")):
        output.unlink() if text is None else output.write_text(text)
        assert put(trial, lake) == [BESIDE]
        assert outcome(lake) == ("t__x", said)
        assert put(trial, lake) == [("unchanged", "")]


def test_the_session_of_a_trace_that_came_later(trial, tmp_path):
    """A trace beside the outcome names the run that the verdict belongs to."""
    put(trial, tmp_path / "lake")
    write(trial.parent / "trajectory.json", '{"session_id": "s-1"}')
    assert put(trial, tmp_path / "lake") == [BESIDE]
    assert outcome(tmp_path / "lake") == ("s-1", "failed")


def test_other_files_and_moved_trees_do_not_count(trial, tmp_path):
    """A file that the reader never opens changes nothing; a tree that moved is the one it was."""
    (trial.parent / "verifier" / "test-stdout.txt").write_text("== 1 failed in 0.1s ==")
    one = Source(name="trial", path=trial)
    put(one, tmp_path / "lake")
    (trial.parent / "notes.md").write_text("x")
    assert put(one, tmp_path / "lake") == [("unchanged", "")]
    shutil.move(trial.parent, tmp_path / "elsewhere")
    moved = Source(name="trial", path=tmp_path / "elsewhere" / "result.json")
    assert put(moved, tmp_path / "lake") == [("unchanged", "")]


def test_lakes_that_never_noted_them(trial, tmp_path):
    """A manifest of an earlier release is taken at its word, and notes them when the source is read again."""
    put(trial, tmp_path / "lake")
    path = tmp_path / "lake" / MANIFEST
    manifest = orjson.loads(path.read_bytes())
    assert [source.pop("beside") for source in manifest["sources"]] == [""]
    path.write_bytes(orjson.dumps(manifest))
    (trial.parent / "verifier" / "test-stdout.txt").write_text("uvx: not found")
    assert put(trial, tmp_path / "lake") == [("unchanged", "")]


def test_a_sub_agents_file_has_its_parents(tmp_path):
    """Only in a folder that is named like a session beside it."""
    parent = write(tmp_path / "chats" / "session-1-abcdefgh.jsonl", event("r", 0))
    child = write(tmp_path / "chats" / "abcdefgh-ijkl" / "kid.jsonl", event("r", 0))
    assert companions(Source.of(child)) == [parent]
    assert companions(Source.of(parent)) == []


def test_the_session_of_a_sub_agents_file_that_went_on(tmp_path):
    """The result in the session's file says which call began the sub-agent, and of which type it is."""
    own = [
        claude.user("u1", None, "look", agentId="a1", isSidechain=True),
        claude.assistant("u2", "u1", "m9", claude.asked("c9", command="ls"), agentId="a1", isSidechain=True),
    ]
    begun = [
        claude.user("u3", None, "go"),
        claude.assistant(
            "u4", "u3", "m1", claude.asked("t1", "Task", subagent_type="Explore", prompt="look")
        ),
    ]
    ended = claude.user("u5", "u4", claude.came("t1", "done"), toolUseResult={"agentId": "a1"})
    child = write(tmp_path / "s-1" / "subagents" / "agent-a1.jsonl", *own)
    write(tmp_path / "s-1.jsonl", *begun)
    lanes = []
    for more in ([], [ended]):
        write(tmp_path / "s-1.jsonl", *begun, *more)
        lanes.append(put(child, tmp_path / "lake"))
        lanes.append(events(tmp_path / "lake").filter(pl.col("kind") == "tool")["agent"].to_list())
    assert lanes == [[("new", "")], ["subagent"], [BESIDE], ["Explore"]]


def test_an_error_of_openhands_has_the_files_before_it(tmp_path):
    """One that names only its call is tied to the action in an older file; other events need no other file."""
    base = {"id": "x", "timestamp": "2026-01-01T00:00:00", "source": "agent"}
    action = write(tmp_path / "events" / "event-00001-a.json", {**base, "kind": "ActionEvent"})
    error = write(tmp_path / "events" / "event-00002-b.json", {**base, "kind": "AgentErrorEvent"})
    assert openhands.companions(Source.of(error)) == [action]
    assert openhands.companions(Source.of(action)) == []
