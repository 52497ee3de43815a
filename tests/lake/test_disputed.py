"""Two files that name their runs alike, by task and trial, are not put together in silence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.lake.ingest import ingest
from agentlens.readers.source import expand
from tests.readers.lanes_made import NORMALISER

if TYPE_CHECKING:
    from pathlib import Path


def runs(tool: str, trials: int = 3) -> str:
    """Return a result file of one model: one conversation a trial, two calls each."""

    def asked(n: int, query: str) -> dict[str, Any]:
        call = {"id": f"c{n}", "function": {"name": tool, "arguments": json.dumps({"q": query})}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    def talk(trial: int) -> list[dict[str, Any]]:
        came = [{"role": "tool", "tool_call_id": f"c{n}", "content": "7"} for n in (0, 1)]
        return [
            {"role": "user", "content": "go"}, asked(0, f"{tool}{trial}"), came[0], asked(1, "b"), came[1],
        ]  # fmt: skip

    return json.dumps([{"task_id": 4, "trial": trial, "traj": talk(trial)} for trial in range(trials)])


def notes(folder: Path, **files: str) -> tuple[str, ...]:
    for name, text in files.items():
        (folder / f"{name}.json").write_text(text)
    report = ingest(expand([str(folder)]), folder.parent / "lake", normaliser=NORMALISER, workers=1)
    return report.notes


def test_two_models_on_one_benchmark_are_told(tmp_path: Path) -> None:
    """Task and trial are the same, the calls are not; the note names the files and how many runs."""
    folder = tmp_path / "in"
    folder.mkdir()
    assert not notes(folder, one=runs("look"))
    (note,) = notes(folder, two=runs("find", trials=2))
    assert note.startswith("2 runs of one name told differently by several files became one run each")
    assert "(one.json, two.json)" in note


@pytest.mark.parametrize("other", [{"copy": runs("look")}, {"more": runs("look", trials=5)}])
def test_files_that_agree_are_no_dispute(other: dict[str, str], tmp_path: Path) -> None:
    """A copy, and a file with more trials of the same experiment, tell the same runs."""
    folder = tmp_path / "in"
    folder.mkdir()
    assert not notes(folder, one=runs("look"), **other)
