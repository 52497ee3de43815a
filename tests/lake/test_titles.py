"""Runs without an id of their own are called by their files: two files of one name are two runs, a copy is one."""

from __future__ import annotations

import json
import shutil

import polars as pl
import pytest

from agentlens.lake import ingest
from agentlens.lake.direct import read_file
from tests.lake.exports import NORMALISER, events


def trajectory(*actions):
    steps = [
        {"action": f"{one}\n", "observation": f"saw {one}", "thought": "", "response": ""} for one in actions
    ]
    return json.dumps({"trajectory": steps, "history": [], "info": {"exit_status": "submitted"}})


def calls(frame):
    tools = frame.filter(pl.col("kind") == "tool")
    return tools.group_by("run_id").len().sort("run_id").rows()


@pytest.fixture
def trials(tmp_path, monkeypatch):
    """Two experiments that ran one task, each in a file of the task's name."""
    monkeypatch.chdir(tmp_path)
    for number, actions in enumerate((("ls", "cat a"), ("ls", "cat b", "pwd")), 1):
        folder = tmp_path / f"exp{number}" / "task"
        folder.mkdir(parents=True)
        (folder / "task.traj").write_text(trajectory(*actions))
    return tmp_path


@pytest.mark.parametrize("together", [True, False])
def test_two_files_of_one_name_are_two_runs(trials, together):
    """In one ingest or in two, and the same when a changed one is read again."""
    names = ["exp1", "exp2"]
    for sources in [names] if together else [[name] for name in names]:
        ingest(sources, "lake", normaliser=NORMALISER)
    assert calls(events("lake")) == [("exp2/task", 3), ("task", 2)]
    (trials / "exp2" / "task" / "task.traj").write_text(trajectory("ls"))
    (trials / "exp1" / "task" / "task.traj").write_text(trajectory("ls", "pwd", "pwd", "pwd"))
    ingest(["exp2"], "lake", normaliser=NORMALISER)
    ingest(["exp1"], "lake", normaliser=NORMALISER)
    assert calls(events("lake")) == [("exp2/task", 1), ("task", 4)]


@pytest.mark.parametrize("together", [True, False])
def test_a_copy_tells_the_same_run(trials, together):
    """Byte by byte the same under the same name, wherever it lies: nothing is counted twice."""
    shutil.copytree(trials / "exp2", trials / "exp3")
    for sources in [["."]] if together else [["exp1"], ["exp2"], ["exp3"]]:
        ingest(sources, "lake", normaliser=NORMALISER)
    assert calls(events("lake")) == [("exp2/task", 3), ("task", 2)]


def test_a_hard_link_is_the_file_it_was(trials):
    """A file with two names on the disk is read once."""
    (trials / "exp1" / "other.traj").hardlink_to(trials / "exp1" / "task" / "task.traj")
    report = ingest(["exp1"], "lake", normaliser=NORMALISER)
    assert [source.status for source in report.sources] == ["new"]


def test_without_a_lake_it_is_the_same(trials):
    """A folder read at once has the same runs."""
    frame = read_file(".", NORMALISER).events.collect()
    assert calls(frame) == [("exp2/task", 3), ("task", 2)]
