"""Sessions of the first Codex client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.readers.merging import merged, of_kind
from tests.readers.reading import records

ITEMS: list[Any] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "c"},
    {
        "type": "function_call_output",
        "call_id": "c",
        "output": '{"output": "a", "metadata": {"exit_code": 2}}',
    },
]
SESSION = {"session": {"id": "s-9", "timestamp": "2025-05-01T00:00:00Z"}, "items": ITEMS}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_session_in_one_document_is_a_thread(indent: int | None) -> None:
    """The run is named by its session; a call and its output are one action."""
    found, report = records(json.dumps(SESSION, indent=indent).encode())
    (call,) = of_kind(merged(found), "tool")
    assert (call["run_id"], call["tool"], call["result"], call["error_class"]) == (
        "s-9",
        "shell",
        "a",
        "exit_2",
    )
    assert [event["external_input"] for event in of_kind(merged(found), "message")] == [True]
    assert not report.faults


@pytest.mark.parametrize("bad", [7, "x", {}, {"type": "message", "content": 3}])
def test_an_item_that_is_none_costs_only_itself(bad: Any) -> None:
    """The call before it and its output behind it stay one action."""
    found, _ = records(json.dumps({**SESSION, "items": [*ITEMS[:2], bad, None, ITEMS[2]]}).encode())
    assert [event["result"] for event in of_kind(merged(found), "tool")] == ["a"]


def test_a_session_that_is_cut_off_keeps_its_whole_items() -> None:
    """Salvaged up to the cut, and the cut is told."""
    data = json.dumps(SESSION, indent=1).encode()
    found, report = records(data[: data.rindex(b'"function_call_output"')])
    assert [event["open"] for event in of_kind(merged(found), "tool")] == [True]
    assert report.faults


def test_a_header_of_id_and_time_alone() -> None:
    """Behind it stand items only: the first line names the thread."""
    rows = [{"id": "s-8", "timestamp": "2025-06-01T00:00:00Z"}, *ITEMS]
    data = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    (call,) = of_kind(merged(records(data, "codex")[0]), "tool")
    assert (call["run_id"], call["error_class"]) == ("s-8", "exit_2")
    assert records(data)[0]
