"""LangGraph: three exports of a thread, questions, forks, and values that are never built."""

from __future__ import annotations

import copy
import gzip
import json
import random
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.model.raw import ABSENT
from agentlens.readers import langgraph
from agentlens.readers.message_pack import PackedError, unpack
from agentlens.readers.source import expand
from tests.readers.reading import events, records, said, tools
from tests.readers.test_bad_input import _mutated, read

if TYPE_CHECKING:
    from pathlib import Path

    from agentlens.model.raw import RawEvent

NOW = "2026-03-01T10:00:0{}+00:00"


def config(key: str | None, ns: str = "") -> dict[str, Any] | None:
    found = {"thread_id": "t", "checkpoint_ns": ns, "checkpoint_id": key}
    return None if key is None else {"configurable": found}


def snapshot(
    n: int, key: str, parent: str | None, values: dict[str, Any], *tasks: dict[str, Any], source: str = "loop"
) -> dict[str, Any]:
    return {
        "config": config(key),
        "parent_config": config(parent),
        "metadata": {"source": source, "step": n},
        "created_at": NOW.format(n),
        "next": [task["name"] for task in tasks],
        "values": values,
        "tasks": list(tasks),
    }


def task(key: str, name: str, result: Any = None, **more: Any) -> dict[str, Any]:
    return {"id": key, "name": name, "error": None, "interrupts": [], "result": result, **more}


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


HISTORY = [
    snapshot(0, "c0", None, {}, task("a", "__start__", {"n": 1}), source="input"),
    snapshot(1, "c1", "c0", {"n": 1}, task("b", "ask", {"ok": True}, interrupts=[{"value": "?", "id": "i"}])),
    snapshot(2, "c2", "c1", {"n": 1, "ok": True}, task("c", "act", None, error="ValueError('no')")),
    snapshot(
        3,
        "c3",
        "c1",
        {"n": 2},
        task("d", "ask", None, interrupts=[{"value": "?", "id": "j"}]),
        source="update",
    ),
]


def told(found: list[RawEvent], *kinds: str) -> list[tuple[Any, ...]]:
    return [
        (event.kind, event.agent, event.target, event.error_class, event.open)
        for event in found
        if event.kind in kinds
    ]


def test_a_history_is_told_oldest_first_with_its_questions_and_its_fork() -> None:
    """A node is a lane; a question is a wait until it is answered; a second child of a state is a fork."""
    found = events(lines(*reversed(HISTORY)))
    assert told(found, "tool", "wait", "resume", "fork", "message") == [
        ("message", "", None, None, None),
        ("tool", "ask", None, None, False),
        ("wait", "ask", "ask", None, False),
        ("resume", "ask", "ask", None, None),
        ("tool", "act", None, "ValueError", False),
        ("fork", "", "c1", None, None),
        ("message", "", None, None, None),
        ("tool", "ask", None, None, True),
        ("wait", "ask", "ask", None, True),
    ]
    assert [event.external_input for event in found if event.kind == "tool"] == [True, True, True]
    assert {event.run_id for event in found} == {"t"}


@pytest.mark.parametrize("shape", ["array", "document", "tuples"])
def test_other_ways_to_dump_a_history_say_the_same(shape: str) -> None:
    """One array, an object around it, and named tuples dumped as arrays."""
    names = ("values", "next", "config", "metadata", "created_at", "parent_config", "tasks")
    rows: Any = [[row[name] for name in names] for row in HISTORY] if shape == "tuples" else HISTORY
    data = (
        lines(*rows)
        if shape == "tuples"
        else json.dumps(rows if shape == "array" else {"history": rows}).encode()
    )
    assert [said(event) for event in events(data)] == [said(event) for event in events(lines(*HISTORY))]


def chunk(n: int, kind: str, **payload: Any) -> dict[str, Any]:
    return {"type": kind, "step": n, "timestamp": NOW.format(n), "payload": payload}


STREAM = [
    chunk(0, "checkpoint", config=config("c0"), metadata={"source": "input"}, values={}, tasks=[]),
    chunk(
        1,
        "checkpoint",
        config=config("c1"),
        parent_config=config("c0"),
        metadata={},
        values={"n": 1},
        tasks=[],
    ),
    chunk(2, "task", id="b", name="ask", input={"n": 1}, triggers=["branch:to:ask"]),
    chunk(
        3, "task_result", id="b", name="ask", result={}, error=None, interrupts=[{"value": "?", "id": "i"}]
    ),
    chunk(6, "task", id="b", name="ask", input={"n": 1}, triggers=["branch:to:ask"]),
    chunk(7, "task_result", id="b", name="ask", result=[["ok", True]], error=None, interrupts=[]),
    chunk(8, "task", id="e", name="act", input={"n": 1}, triggers=[]),
]


@pytest.mark.parametrize("around", [lambda row: row, lambda row: [[], row], lambda row: [[], "debug", row]])
def test_a_node_that_goes_on_after_a_question_is_one_action(around: Any) -> None:
    """It begins once, waits from the question to the answer, ends once; what never ends is open."""
    found = events(lines(*map(around, STREAM)))
    (asked,) = [event for event in found if event.kind == "wait"]
    (resumed,) = [event for event in found if event.kind == "resume"]
    first, second = (event for event in found if event.kind == "tool")
    assert first.at is not None
    assert asked.at is not None
    assert [((event.at or 0) - first.at) // 1_000_000 for event in (asked, resumed)] == [1, 4]
    assert ((first.ended_at or 0) - first.at) // 1_000_000 == 5
    assert (first.args, first.result) == ({"n": 1}, {"ok": True})
    assert (second.tool, second.open, second.ended_at) == ("act", True, None)


def test_of_a_list_that_grows_the_newest_item_stands_for_all() -> None:
    """Else no step of a graph with a history would repeat; other lists count as a whole."""
    rows = [
        snapshot(
            n,
            f"c{n}",
            f"c{n - 1}" if n else None,
            {"log": ["x"] * (n + 1), "todo": [1, 2]},
            task(f"k{n}", "poll", {"log": ["x"]}),
        )
        for n in range(4)
    ]
    assert [event.args for event in tools(lines(*rows))][1:] == [{"log": "x", "todo": [1, 2]}] * 3


MESSAGES = [
    {
        "type": "ai",
        "id": "m1",
        "content": "",
        "tool_calls": [
            {"name": "search", "args": {"q": 1}, "id": "k1"},
            {"name": "transfer_to_bob", "args": {}, "id": "k2"},
        ],
        "usage_metadata": {"input_tokens": 5, "output_tokens": 2},
        "response_metadata": {"model_name": "m"},
    },
    {"type": "tool", "content": "boom", "tool_call_id": "k1", "status": "error"},
    {"type": "tool", "content": "done", "tool_call_id": "k2"},
]


def test_chat_messages_tell_the_actions_in_the_lane_of_the_node_that_asked() -> None:
    """The node that runs the tools adds no action of its own; a transfer is a handoff."""
    rows = [
        snapshot(1, "c1", None, {}, task("a", "model", {"messages": MESSAGES[:1]})),
        snapshot(2, "c2", "c1", {}, task("b", "tools", {"messages": MESSAGES[1:]})),
    ]
    found = events(lines(*rows))
    acts = [event for event in found if event.kind in {"tool", "handoff"}]
    assert [
        (event.kind, event.tool, event.agent, event.result, event.error_class, event.open) for event in acts
    ] == [
        ("tool", "search", "model", ABSENT, None, True),
        ("handoff", "transfer_to_bob", "model", ABSENT, None, True),
        ("tool", "search", "model", "boom", "tool_error", False),
        ("handoff", "transfer_to_bob", "model", "done", None, False),
    ]
    assert len({event.identity for event in acts}) == 2
    assert acts[1].target == "bob"
    (model,) = [event for event in found if event.kind == "model"]
    assert (model.model, model.tokens_in, model.tokens_out) == ("m", 5, 2)


def database(path: Path, writes: list[tuple[Any, ...]], *, view: bool = False) -> Path:
    with sqlite3.connect(path) as made:
        made.execute(
            "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT,"
            " parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB)"
        )
        name = "told" if view else "writes"
        made.execute(
            f"CREATE TABLE {name} (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, task_id TEXT,"
            " task_path TEXT, idx INTEGER, channel TEXT, type TEXT, value BLOB)"
        )
        if view:
            made.execute("CREATE VIEW writes AS SELECT * FROM told")
        state = {
            "ts": NOW.format(1),
            "channel_values": {"n": 1, "__pregel_tasks": [{"node": "work", "arg": 7}]},
        }
        made.execute(
            "INSERT INTO checkpoints VALUES ('t', 'sub:01234567-89ab-cdef-0123-456789abcdef', 'c1', NULL, 'json', ?, ?)",
            (json.dumps(state), b'{"source": "input"}'),
        )
        rows = [("t", "sub:01234567-89ab-cdef-0123-456789abcdef", "c1", *row) for row in writes]
        made.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    made.close()
    return path


WRITES = [
    ("k1", "~__pregel_pull, plan", 0, "n", "json", b"2"),
    ("k1", "~__pregel_pull, plan", 1, "secret", "pickle", b"\x80\x04."),
    ("k2", "~__pregel_push, 0", 0, "__error__", "json", b"\"TimeoutError('slow')\""),
]


def test_messages_dumped_as_python_shows_them_are_read_back() -> None:
    """``json.dumps(default=str)`` writes a message field by field; the actions are in it all the same."""
    asked = "content='it\\'s id=1' additional_kwargs={} id='m1' tool_calls=[{'name': 'f', 'args': {'q': 1}, 'id': 'k'}] invalid_tool_calls=[]"
    got = "content='a name=b' name='f' id='x9' tool_call_id='k'"
    rows = [
        snapshot(1, "c1", None, {}, task("a", "model", {"messages": [asked]})),
        snapshot(2, "c2", "c1", {}, task("b", "tools", {"messages": [got]})),
    ]
    acts = tools(lines(*rows))
    assert [(event.tool, event.args, event.result) for event in acts] == [
        ("f", {"q": 1}, ABSENT),
        ("f", ABSENT, "a name=b"),
    ]
    assert [event.args for event in events(lines(*rows)) if event.kind == "message"] == [
        {"text": "it's id=1"}
    ]


def test_tasks_dumped_as_arrays_are_tasks() -> None:
    """A snapshot's tasks are named tuples, which JSON has no word for."""
    names = ("id", "name", "path", "error", "interrupts", "state", "result")
    rows = [{**row, "tasks": [[one.get(name) for name in names] for one in row["tasks"]]} for row in HISTORY]
    assert [said(event) for event in events(lines(*rows))] == [
        said(event) for event in events(lines(*HISTORY))
    ]


def test_a_node_that_runs_a_graph_of_its_own_only_encloses_it() -> None:
    """The nodes inside tell what was done and what is waited for; a task told again does not run again."""
    uid = "01234567-89ab-cdef-0123-456789abcdef"
    inner, asked = f"sub:{uid}", [{"value": "?", "id": "i"}]
    rows = [
        chunk(1, "task", id=uid, name="sub", input={}, triggers=[]),
        [
            [inner],
            chunk(1, "checkpoint", config=config("s1", inner), metadata={}, values={}, tasks=[{"id": "n"}]),
        ],
        [[inner], chunk(2, "task", id="n", name="ask", input={}, triggers=[])],
        [[inner], chunk(3, "task_result", id="n", name="ask", result={}, error=None, interrupts=asked)],
        chunk(3, "task_result", id=uid, name="sub", result={}, error=None, interrupts=asked),
        chunk(4, "task", id=uid, name="sub", input={}, triggers=[]),
        [[inner], chunk(4, "task", id="n", name="ask", input={}, triggers=[])],
        [[inner], chunk(5, "task_result", id="n", name="ask", result={"ok": 1}, error=None, interrupts=[])],
        chunk(6, "task_result", id=uid, name="sub", result={"ok": 1}, error=None, interrupts=[]),
        chunk(7, "task", id=uid, name="sub", input={}, triggers=[]),
    ]
    found = [event for event in events(lines(*rows)) if event.kind != "checkpoint"]
    assert [(event.kind, event.agent, event.open) for event in found] == [
        ("tool", "sub/ask", False),
        ("wait", "sub/ask", False),
        ("resume", "sub/ask", None),
        ("agent", "sub", False),
    ]


def test_a_database_is_read_with_sub_graphs_as_lanes(tmp_path: Path) -> None:
    """A graph inside a graph is a lane below its node; what was sent is the argument; a pickle stays shut."""
    found, report = records(database(tmp_path / "a.sqlite", WRITES))
    acts = [event for event in found if event.kind == "tool"]  # type: ignore[union-attr]
    assert [(e.agent, e.args, e.result, e.error_class) for e in acts] == [  # type: ignore[union-attr]
        ("sub/plan", {"n": 1}, {"n": 2, "secret": None}, None),
        ("sub/work", 7, ABSENT, "TimeoutError"),
    ]
    assert report.unknown == {"value stored as pickle, not opened": 1}


def test_a_compressed_database_gives_the_same(tmp_path: Path) -> None:
    """It is unpacked into memory, not beside the file."""
    path = database(tmp_path / "a.sqlite", WRITES)
    packed = tmp_path / "b.sqlite.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert list(map(said, records(packed, "langgraph")[0])) == list(map(said, records(path)[0]))


def test_what_sqlite_keeps_beside_a_database_is_no_source(tmp_path: Path) -> None:
    """Log and index are passed over in a folder; a log that holds something is told of."""
    path = database(tmp_path / "a.sqlite", WRITES[:1])
    for name in ("a.sqlite-wal", "a.sqlite-shm", "other-wal"):
        (tmp_path / name).write_bytes(b"x")
    assert [source.path.name for source in expand([tmp_path])] == ["a.sqlite", "other-wal"]
    _, report = records(path)
    assert list(report.repaired) == ["write-ahead log beside the database left unread: checkpoint it first"]


def test_without_a_path_a_task_is_the_node_that_saw_more_afterwards(tmp_path: Path) -> None:
    """Older databases do not name the node of a task; the next checkpoint tells which one ran."""
    path = tmp_path / "a.sqlite"
    seen: dict[str, Any] = {"__input__": {}, "__start__": {"__start__": 1}}
    with sqlite3.connect(path) as made:
        made.execute(
            "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT,"
            " parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB)"
        )
        made.execute(
            "CREATE TABLE writes (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, task_id TEXT,"
            " idx INTEGER, channel TEXT, type TEXT, value BLOB)"
        )
        for key, parent, more in (("c1", None, {}), ("c2", "c1", {"plan": {"n": 2}}), ("c3", "c2", {})):
            seen = {**seen, **more}
            state = json.dumps({"ts": NOW.format(1), "channel_values": {"n": 1}, "versions_seen": seen})
            made.execute(
                "INSERT INTO checkpoints VALUES ('t', '', ?, ?, 'json', ?, '{}')",
                (key, parent, state.encode()),
            )
        for key in ("c1", "c2"):
            made.execute(
                "INSERT INTO writes VALUES ('t', '', ?, ?, 0, 'n', 'json', ?)", (key, f"k{key}", b"2")
            )
    made.close()
    found = events(path)
    assert [event.tool for event in found if event.kind == "tool"] == ["plan", "node"]


def test_a_database_is_never_written_and_views_are_not_run(tmp_path: Path) -> None:
    """A view in place of a table could run anything; the file and its folder stay as they were."""
    path = database(tmp_path / "a.sqlite", WRITES[:1], view=True)
    before = path.read_bytes()
    _, report = records(path, "langgraph")
    assert "table writes lacks" in report.faults[0].reason
    assert (path.read_bytes(), [entry.name for entry in tmp_path.iterdir()]) == (before, ["a.sqlite"])


def test_bytes_that_are_flipped_or_cut_are_a_report(tmp_path: Path) -> None:
    """Whatever happens to a database, nothing is raised and something is said."""
    whole = database(tmp_path / "a.sqlite", WRITES).read_bytes()
    rng = random.Random(5)
    for _ in range(60):
        data = bytearray(whole[: rng.choice([len(whole), rng.randrange(100, len(whole))])])
        for _ in range(rng.randrange(1, 40)):
            data[rng.randrange(16, len(data))] = rng.randrange(256)
        path = tmp_path / "b.sqlite"
        path.write_bytes(bytes(data))
        records(path, "langgraph")


@pytest.mark.parametrize("rows", [HISTORY, STREAM], ids=["history", "stream"])
def test_wrong_types_anywhere_never_stop_the_reader(rows: list[Any], tmp_path: Path) -> None:
    """A value of any other type costs at most what hangs on it: the rest of the thread is told."""
    rng = random.Random(3)
    for _ in range(300):
        row = rng.randrange(len(rows))
        broken = copy.deepcopy(rows)
        broken[row] = _mutated(broken[row], rng)
        found, _ = read(langgraph.FORMAT, lines(*broken), tmp_path)
        assert len(found) >= len(rows) // 2, broken[row]


def test_objects_are_taken_apart_not_built() -> None:
    """An extension names a class and a function; neither is looked up."""
    evil = bytes.fromhex("93a26f73a673797374656d") + b"\xa9echo oops"
    packed = b"\xc7" + bytes([len(evil), 0]) + evil
    assert unpack(packed) == "echo oops"
    send = bytes.fromhex("93a16da453656e6492a46e6f646507")
    assert unpack(b"\xc7" + bytes([len(send), 1]) + send) == {"class": "Send", "node": "node", "arg": 7}


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x92\x01", b"\x91" * 500, b"\x01\x02", b"\xdd\xff\xff\xff\xff"]
)
def test_bytes_that_are_no_value_are_an_error_of_one_kind(data: bytes) -> None:
    """Cut off, too deep, too many, unknown: never another exception, never a large allocation."""
    with pytest.raises(PackedError):
        unpack(data)


def test_three_exports_of_one_thread_say_the_same(shared: Path) -> None:
    """Database, history and stream: the same lanes, arguments, results, waits and fork."""
    folder = shared / "samples" / "langgraph"
    exports = [
        events(folder / name) for name in ("checkpoints.sqlite", "state_history.jsonl", "debug_stream.jsonl")
    ]
    facts = [
        [
            (e.agent, e.kind, e.tool, e.args, e.result, e.target, e.open, e.external_input, e.identity)
            for e in found
        ]
        for found in exports
    ]
    assert facts[0] == facts[1] == facts[2]
    kinds = [event.kind for event in exports[0]]
    assert {kind: kinds.count(kind) for kind in ("tool", "wait", "resume", "fork")} == {
        "tool": 5,
        "wait": 1,
        "resume": 1,
        "fork": 1,
    }


def chat(kind: str, key: str, content: str = "", **more: Any) -> dict[str, Any]:
    return {"type": kind, "id": key, "content": content, **more}


ASKS = chat("ai", "m1", tool_calls=[{"name": "look", "args": {"c": "Bern"}, "id": "c1"}])
SAYS = chat("tool", "m2", "7°", tool_call_id="c1", name="look")


def test_a_node_that_gives_back_the_conversation_says_nothing_anew() -> None:
    """A graph that runs as a node returns every message it was given; only the last is its own."""
    person, own = (
        chat("human", "h1", "go"),
        chat("ai", "m3", tool_calls=[{"name": "mail", "args": {}, "id": "c2"}]),
    )
    history = [
        snapshot(0, "c0", None, {}, task("a", "__start__", {"messages": [person]}), source="input"),
        snapshot(1, "c1", "c0", {"messages": [person]}, task("b", "agent", {"messages": [ASKS]})),
        snapshot(2, "c2", "c1", {"messages": [person, ASKS]}, task("c", "tools", {"messages": [SAYS]})),
        snapshot(
            3,
            "c3",
            "c2",
            {"messages": [person, ASKS, SAYS]},
            task("d", "worker", {"messages": [person, ASKS, SAYS, own]}),
        ),
    ]  # fmt: skip
    for rows in (history, history[::-1]):
        found = events(lines(*rows))
        assert {(one.agent, one.tool, one.call_id) for one in found if one.kind == "tool"} == {
            ("agent", "look", "c1"),
            ("worker", "mail", "c2"),
        }
        assert [one.agent for one in found if one.kind == "message" and one.tool != "user"] == []
        assert {one.tool for one in found if one.kind == "agent"} == {"agent", "tools", "worker"}


def test_an_edited_message_is_told_again_in_the_lane_of_who_said_it() -> None:
    """A person changes the arguments of a call before it runs: the later arguments are what was done."""
    edited = ASKS | {"tool_calls": [{"name": "look", "args": {"c": "Basel"}, "id": "c1"}]}
    history = [
        snapshot(1, "c1", None, {"n": 1}, task("b", "agent", {"messages": [ASKS]})),
        snapshot(2, "c2", "c1", {"messages": [ASKS]}, task("c", "review", {"messages": [edited]})),
    ]
    found = tools(lines(*history))
    assert [(one.agent, one.args) for one in found] == [
        ("agent", {"c": "Bern"}),
        ("agent", {"c": "Basel"}),
    ]
    assert len({one.identity for one in found}) == 1
