"""What the runs of chat lists are called."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.readers.reading import events
from tests.readers.test_chat import CHAT, lines

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("beside", "run_id"),
    [
        ({"task_id": 4, "trial": 0}, "4/0"),
        ({"task_id": 4}, "4"),
        ({"id": "abc"}, "abc"),
        ({"run_id": "r", "task_id": 4}, "r"),
    ],
)
def test_a_run_is_named_by_what_stands_beside_it(beside: dict[str, Any], run_id: str) -> None:
    """By its own id, else by task and trial."""
    assert {event.run_id for event in events(lines({"messages": CHAT, **beside}))} == {run_id}


def test_runs_without_a_name_or_with_the_same_are_told_apart_by_their_place() -> None:
    """Two conversations are never merged into one."""
    found = events(
        lines(
            {"messages": CHAT},
            {"messages": CHAT},
            {"messages": CHAT, "task_id": 1},
            {"messages": CHAT, "task_id": 1},
        )
    )
    runs = list(dict.fromkeys(event.run_id for event in found))
    assert len(runs) == 4
    assert [run.rsplit(":", 1)[-1] for run in runs] == ["1", "2", "1", "4"]


@pytest.mark.parametrize("value", [CHAT, {"messages": CHAT}])
def test_a_file_of_one_conversation_is_called_like_it(value: Any, tmp_path: Path) -> None:
    """A document by its name alone, a line by its name and number; no folder is part of it."""
    path = tmp_path / "some.task.json"
    path.write_text(json.dumps(value, indent=1))
    assert {event.run_id for event in events(path)} == {"some.task"}
    path = tmp_path / "some.jsonl"
    path.write_bytes(lines(*[{"messages": CHAT}] * 2))
    assert {event.run_id for event in events(path)} == {"some:1", "some:2"}
