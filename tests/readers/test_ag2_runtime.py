"""AG2 runtime logs: functions once, messages once however many received them, sessions apart."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from agentlens.lake.direct import read_file
from tests.readers.lanes_made import NORMALISER
from tests.readers.reading import records

if TYPE_CHECKING:
    from pathlib import Path

AT = "2026-07-01 10:00:0{}.000001"
ASK = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": '{"q": "ü"}'}}]}}], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}  # fmt: skip
CODE = "```python\nprint(1/0)\n```"


def heard(n: int, agent: int, receiver: str, sender: str, message: Any) -> tuple[Any, ...]:
    state = json.dumps({"message": message, "sender": sender, "valid": True})
    return ("received_message", agent, receiver, "autogen", "ConversableAgent", n, state, AT.format(n))


def database(path: Path, *, functions: bool) -> Path:
    """Write the tables of two sessions, the second with nothing but a word."""
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE chat_completions(id INTEGER PRIMARY KEY, invocation_id TEXT, client_id INTEGER, wrapper_id INTEGER, session_id TEXT, source_name TEXT, request TEXT, response TEXT, is_cached INTEGER, cost REAL, start_time DATETIME, end_time DATETIME)")  # fmt: skip
        made.execute("CREATE TABLE agents (id INTEGER PRIMARY KEY, agent_id INTEGER, wrapper_id INTEGER, session_id TEXT, name TEXT, class TEXT, init_args TEXT, timestamp DATETIME)")  # fmt: skip
        made.execute("CREATE TABLE events (event_name TEXT, source_id INTEGER, source_name TEXT, agent_module TEXT, agent_class_name TEXT, id INTEGER PRIMARY KEY, json_state TEXT, timestamp DATETIME)")  # fmt: skip
        made.execute("CREATE TABLE function_calls (source_id INTEGER, source_name TEXT, function_name TEXT, args TEXT, returns TEXT, timestamp DATETIME)")  # fmt: skip
        for agent, session in ((11, "s1"), (12, "s1"), (21, "s2")):
            made.execute(
                "INSERT INTO agents VALUES (NULL, ?, 0, ?, 'a', 'X', '{}', ?)", (agent, session, AT.format(0))
            )
        request = json.dumps({"model": "m", "messages": [{"role": "user", "content": "go"}]})
        made.execute("INSERT INTO chat_completions VALUES (NULL, 'i1', 1, 1, 's1', 'coder', ?, ?, 0, 0.5, ?, ?)", (request, json.dumps(ASK), AT.format(1), AT.format(2)))  # fmt: skip
        if functions:
            made.execute("INSERT INTO function_calls VALUES (12, 'runner', 'look', ?, ?, ?)", ('{"q": "ü"}', '"7"', AT.format(3)))  # fmt: skip
        rows = [
            heard(4, 12, "runner", "coder", {"content": CODE, "role": "assistant"}),
            heard(5, 11, "manager", "coder", {"content": CODE, "role": "assistant"}),
            heard(6, 11, "coder", "runner", "exitcode: 1 (execution failed)\nCode output: ZeroDivisionError"),
            heard(7, 21, "other", "boss", "hello"),
        ]
        made.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    made.close()
    return path


@pytest.mark.parametrize("functions", [True, False])
def test_tables(functions: bool, tmp_path: Path) -> None:
    """A function that ran is an action; where none is recorded, what the model asked for is one, and open."""
    events = read_file(database(tmp_path / "logs.db", functions=functions), NORMALISER).events.collect()
    acts = (
        events.filter(pl.col("kind") == "tool")
        .sort("tool")
        .select("run_id", "agent", "tool", "error_class", "open")
        .rows()
    )
    look = ("s1", "runner", "look", None, False) if functions else ("s1", "coder", "look", None, True)
    if functions:
        assert acts == [look, ("s1", "coder", "runner", "exit_1", False)]
    else:  # an action is there already: the code that ran
        assert acts == [("s1", "coder", "runner", "exit_1", False)]
    (model,) = (
        events.filter(pl.col("kind") == "model").select("agent", "model", "tokens_in", "cost_usd").rows()
    )
    assert model == ("coder", "m", 5, 0.5)
    said = events.filter((pl.col("kind") == "message") & (pl.col("run_id") == "s2"))
    assert said["agent"].to_list() == ["boss"]
    assert events.filter(pl.col("kind") == "message").height == 2


def test_lines_of_the_file_logger() -> None:
    """Words between the lines name the session; a function is recorded without its name."""
    session = "01234567-89ab-cdef-0123-456789abcdef"
    rows = [
        {"id": 11, "agent_name": "coder", "wrapper_id": 1, "session_id": session, "current_time": AT.format(0), "agent_type": "X", "args": {}},
        {"source_id": 11, "source_name": "coder", "agent_module": "m", "agent_class": "c", "timestamp": AT.format(1), "input_args": '{"q": 1}', "returns": '"Error: no"'},
        {"source_id": 11, "source_name": "coder", "event_name": "received_message", "json_state": json.dumps({"message": "hi", "sender": "boss"}), "timestamp": AT.format(2)},
        {"invocation_id": "i", "client_id": 1, "wrapper_id": 1, "request": {"model": "m"}, "response": "ChatCompletion(id='x')", "is_cached": 1, "cost": 0.1, "start_time": AT.format(3), "end_time": AT.format(4), "source_name": "coder"},
    ]  # fmt: skip
    data = f"Started new session with Session ID: {session}\n".encode() + b"".join(json.dumps(row).encode() + b"\n" for row in rows)  # fmt: skip
    found, report = records(data)
    assert [(one.run_id, one.kind, one.agent, one.error_class) for one in found] == [
        (session, "tool", "coder", "error"),
        (session, "model", "coder", None),
        (session, "message", "boss", None),
    ]
    assert not report.faults


def test_damage_is_a_report(tmp_path: Path) -> None:
    """Bytes that are flipped or cut, and junk in every member."""
    whole = database(tmp_path / "logs.db", functions=True).read_bytes()
    for place in range(4000, len(whole), 1500):
        broken = bytearray(whole)
        broken[place : place + 40] = b"\xff" * 40
        records(bytes(broken), "ag2-runtime")
        records(whole[:place], "ag2-runtime")
    for junk in (3, "x", [1], {"a": 1}, None):
        row = {"event_name": "received_message", "json_state": junk, "source_id": junk, "request": junk, "invocation_id": junk, "wrapper_id": 1, "timestamp": junk}  # fmt: skip
        records(json.dumps(row).encode() + b"\n", "ag2-runtime")
        state = json.dumps({"message": junk, "sender": junk})
        records(json.dumps(row | {"json_state": state}).encode() + b"\n", "ag2-runtime")
