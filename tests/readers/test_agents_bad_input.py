"""Broken exports of coding agents, benchmarks and agent teams: a report, never an exception, never a lost record."""

from __future__ import annotations

import copy
import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.model.raw import RawEvent
from agentlens.readers import (
    a2a,
    autogen,
    codex,
    codex_exec,
    gemini_cli,
    gemini_stream,
    inspect_ai,
    mini_swe_agent,
    openclaw,
    openhands,
    openhands_v0,
    registry,
    swe_agent,
    swe_bench,
    transcript,
)
from agentlens.readers.base import Format, Report
from agentlens.readers.source import Source
from tests.normalise.norm import normaliser
from tests.readers import test_a2a as of_a2a
from tests.readers import test_autogen as of_autogen
from tests.readers import test_codex as of_codex
from tests.readers import test_gemini_cli as of_gemini
from tests.readers import test_inspect_ai as of_inspect
from tests.readers import test_mini_swe_agent as of_mini
from tests.readers import test_openclaw as of_openclaw
from tests.readers import test_openhands as of_openhands
from tests.readers import test_swe_agent as of_swe
from tests.readers import test_swe_bench as of_swe_bench
from tests.readers import test_transcript as of_transcript
from tests.readers.test_bad_input import WRONG

if TYPE_CHECKING:
    from pathlib import Path

GEMINI = of_gemini
CODEX = [
    *of_codex.spawn({"completed": "2 lines"}),
    of_codex.call("c", {"cmd": "x"}, 10),
    of_codex.ran("c", 2, "no", 11),
    of_codex.output("c", of_codex.printed("1", 2, "no"), 12),
    of_codex.call("d", {"cmd": "y"}, 13),
    of_codex.row(
        "event_msg",
        14,
        type="token_count",
        info={"last_token_usage": {"input_tokens": 1}, "total_token_usage": {}},
    ),
    of_codex.row("event_msg", 15, type="thread_rolled_back", num_turns=1),
    of_codex.row("event_msg", 16, type="task_complete", turn_id="t", last_agent_message="done"),
]
STREAM = [
    {"type": "thread.started", "thread_id": "t"},
    {"type": "turn.started"},
    *(
        {
            "type": f"item.{phase}",
            "item": {"id": own, "type": "command_execution", "command": "bash -lc ls", "exit_code": 1},
        }
        for own in ("a", "b")
        for phase in ("started", "completed")
    ),
    {
        "type": "item.completed",
        "item": {
            "id": "w",
            "type": "collab_tool_call",
            "tool": "wait",
            "agents_states": {"k": {"status": "running"}},
        },
    },
    {"type": "turn.completed", "usage": {"input_tokens": 5, "output_tokens": 1}},
]
SESSION = [
    GEMINI.HEADER,
    GEMINI.message("u", "user", content="go"),
    GEMINI.message(
        "m",
        tokens={"input": 1, "output": 2},
        toolCalls=[GEMINI.call("ls", GEMINI.printed(2, 5), agentId="k")],
    ),
    {"$set": {"messages": [GEMINI.message("s", "user", content="<session_context>")], "lastUpdated": "x"}},
    {"$rewindTo": "m"},
    GEMINI.message("n", toolCalls=[GEMINI.call("edit", {"error": "File not found"}, "error")]),
    GEMINI.message("e", content="Done."),
]
GEMINI_STREAM = [
    {"type": "init", "timestamp": "2026-10-05T08:00:00Z", "session_id": "s", "model": "m"},
    *(
        {"type": kind, "timestamp": "2026-10-05T08:00:01Z", "tool_id": own, **more}
        for own in ("a", "b")
        for kind, more in (
            ("tool_use", {"tool_name": "ls", "parameters": {"x": [1, {"y": None}]}}),
            ("tool_result", {"status": "error", "output": "no", "error": {"type": "t", "message": "m"}}),
        )
    ),
    {
        "type": "result",
        "timestamp": "2026-10-05T08:00:02Z",
        "status": "success",
        "stats": {"input_tokens": 3},
    },
]
TELEMETRY = [
    of_openclaw.row("agent.start", 1),
    of_openclaw.start(2, command="a"),
    of_openclaw.end(3),
    of_openclaw.start(4, "read", path="b"),
    of_openclaw.row(
        "agent.end",
        6,
        messages=[of_openclaw.asked(1, ("x", "exec", {"command": "a"})), of_openclaw.gave(3, "x", "1")],
    ),
]
OPENHANDS = [
    of_openhands.user(),
    of_openhands.action("a", 1, command="ls"),
    of_openhands.seen("a", 2, "x", exit_code=1),
    of_openhands.action("b", 3, "finish", "d", message="ok"),
]
LINES = [
    pytest.param(codex.FORMAT, CODEX, id="codex"),
    pytest.param(codex_exec.FORMAT, STREAM, id="codex-exec"),
    pytest.param(gemini_cli.FORMAT, SESSION, id="gemini-cli"),
    pytest.param(gemini_stream.FORMAT, GEMINI_STREAM, id="gemini-stream"),
    pytest.param(openhands.FORMAT, OPENHANDS, id="openhands"),
    pytest.param(autogen.FORMAT, of_autogen.TALK, id="autogen"),
    pytest.param(a2a.FORMAT, [*of_a2a.life(of_a2a.new), of_a2a.ARTIFACT, *of_a2a.life(of_a2a.old)], id="a2a"),
    pytest.param(openclaw.FORMAT, TELEMETRY, id="openclaw"),
]
WHOLE = [
    pytest.param(
        mini_swe_agent.FORMAT,
        of_mini.new(
            of_mini.called("ls", "c", 5.0),
            of_mini.answered("c", 1, "x", 6.0),
            of_mini.fenced("pwd"),
            of_mini.seen(0, "y"),
        ),
        id="mini-swe-agent",
    ),
    pytest.param(
        swe_agent.FORMAT,
        of_swe.traj(of_swe.step("ls"), of_swe.step("edit 1:2"), of_swe.step("submit")),
        id="swe-agent",
    ),
    pytest.param(openhands_v0.FORMAT, json.dumps(of_openhands.V0).encode(), id="openhands-v0"),
    pytest.param(
        inspect_ai.FORMAT,
        of_inspect.document(
            of_inspect.sample(
                of_inspect.tool(1), of_inspect.event("model", 3, output={}), scores={"a": {"value": 1}}
            )
        ),
        id="inspect",
    ),
]
NORMALISER = normaliser()


def read(found: Format, data: bytes, folder: Path) -> tuple[list[RawEvent], Report]:
    """Read without the net that turns a failing reader into a fault, and digest what comes out."""
    path = folder / "export"
    path.write_bytes(data)
    report = Report()
    assert 0 <= found.claim(Source.of(path).head()) <= 100
    events = [record for record in found.read(Source.of(path), report) if isinstance(record, RawEvent)]
    NORMALISER.frame(events, source="x", source_id="x", reader=found.name, reader_rank=found.rank)
    return events, report


def lines(rows: list[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def mutated(value: Any, rng: random.Random) -> Any:
    """Replace, drop or add one value somewhere inside."""
    places: list[tuple[Any, Any]] = []

    def walk(item: Any) -> None:
        for key in (
            list(item) if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
        ):
            places.append((item, key))
            walk(item[key])

    changed = copy.deepcopy(value)
    walk(changed)
    if not places:
        return rng.choice(WRONG)
    holder, key = rng.choice(places)
    how = rng.randrange(4)
    if how == 0 and isinstance(holder, dict):
        del holder[key]
    elif how == 1 and isinstance(holder, dict):
        holder[f"unknown_{rng.randrange(9)}"] = copy.deepcopy(rng.choice(WRONG))
    else:
        holder[key] = copy.deepcopy(rng.choice(WRONG))
    return changed


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Cut, flip bytes, or shuffle and repeat lines."""
    how = rng.randrange(3)
    if how == 0:
        return data[: rng.randrange(len(data))]
    if how == 1:
        flipped = bytearray(data)
        for _ in range(rng.randrange(1, 9)):
            flipped[rng.randrange(len(flipped))] = rng.randrange(256)
        return bytes(flipped)
    rows = data.splitlines(keepends=True)
    rng.shuffle(rows)
    return b"".join([*rows, *rng.choices(rows, k=3)])


def survives(found: Format, data: bytes, rng: random.Random, times: int, folder: Path) -> None:
    for _ in range(times):
        if rng.random() < 0.5:
            rows = [json.loads(line) for line in data.splitlines()]
            place = rng.randrange(len(rows))
            changed = lines([*rows[:place], mutated(rows[place], rng), *rows[place + 1 :]])
        else:
            changed = damaged(data, rng)
        events, report = read(found, changed, folder)
        assert all(isinstance(event.run_id, str) and isinstance(event.kind, str) for event in events)
        assert all(fault.reason for fault in report.faults)


EVERY = [
    pytest.param(
        swe_bench.FORMAT,
        json.dumps(
            {"a": of_swe_bench.judged(resolved=False), "resolved_ids": ["b"], "unresolved_ids": ["c"]}
        ).encode(),
        id="swe-bench",
    ),
    pytest.param(transcript.FORMAT, json.dumps(of_transcript.GROUP).encode(), id="transcript"),
    *(pytest.param(p.values[0], lines(p.values[1]), id=p.id) for p in LINES),
    *WHOLE,
]


@pytest.mark.parametrize(("found", "data"), EVERY)
def test_whatever_is_broken_there_is_an_answer(found: Format, data: bytes, tmp_path: Path) -> None:
    """200 seeded mutations: cut, flipped, shuffled, repeated, retyped, with unknown keys."""
    survives(found, data, random.Random(7), 200, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("found", "data"), EVERY)
def test_whatever_is_broken_there_is_an_answer_at_length(found: Format, data: bytes, tmp_path: Path) -> None:
    """2,000 seeded mutations."""
    survives(found, data, random.Random(11), 2_000, tmp_path)


@pytest.mark.parametrize(("found", "rows"), LINES)
def test_actions_of_other_lines_survive_a_broken_one(found: Format, rows: list[Any], tmp_path: Path) -> None:
    """An action of which no record stands on the broken line is still there. The first line names the run."""
    events, _ = read(found, lines(rows), tmp_path)
    places: dict[str, set[int]] = {}
    for event in events:
        if event.kind in {"tool", "handoff"} and event.identity:
            places.setdefault(event.identity, set()).add(event.position[0])
    assert places
    rng = random.Random(3)
    for _ in range(150):
        row = rng.randrange(1, len(rows))
        broken = [*rows[:row], mutated(rows[row], rng), *rows[row + 1 :]]
        left = {event.identity for event in read(found, lines(broken), tmp_path)[0]}
        for identity, standing in places.items():
            assert row + 1 in standing or identity in left, (identity, broken[row])


@pytest.mark.parametrize(("found", "rows"), LINES)
def test_every_cut_keeps_the_lines_before_it(found: Format, rows: list[Any], tmp_path: Path) -> None:
    """The last line of a live file is often half a line: one fault, and nothing else changes."""
    data = lines(rows)
    ends = [index for index, byte in enumerate(data) if byte == 10]
    for cut in range(ends[0] + 9, len(data), max(1, len(data) // 60)):
        whole = sum(end <= cut for end in ends)
        events, report = read(found, data[:cut], tmp_path)
        if data[cut - 1] != 10 and cut not in ends:
            assert len(report.faults) == 1
            assert report.faults[0].position == whole + 1 or report.faults[0].unit == "byte"
        kept = {event.identity for event in read(found, lines(rows[:whole]), tmp_path)[0]}
        assert kept <= {event.identity for event in events}


@pytest.mark.parametrize("found", [p.values[0] for p in EVERY], ids=lambda found: found.name)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n",
        b"words",
        b"{",
        b"[",
        b"\x00" * 99,
        b"\xef\xbb\xbf",
        b"[[]]",
        b"{}",
        b"PK\x03\x04",
        b"[" * 4000,
    ],
)
def test_a_forced_format_on_anything_is_a_report(found: Format, data: bytes, tmp_path: Path) -> None:
    """Whatever the user forces, there is an answer, and no event out of nothing but a line of text."""
    events, report = read(found, data, tmp_path)
    assert all(event.kind == "log" for event in events)
    assert report.faults or report.unknown or data in {b"{}", b"[[]]", b"\n\n", b"", b"\xef\xbb\xbf"}


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("mini-swe-agent", {"messages": [of_mini.ASK, of_mini.fenced("ls"), of_mini.seen(0, "x" * 70_000), of_mini.fenced(of_mini.SUBMIT)]}),
        ("swe-agent", {"trajectory": [of_swe.step("cat x", "y" * 90_000)], "history": [], "info": {}}),
        ("openhands", {"id": "7" * 32, "timestamp": "2026-10-05T08:00:00", "source": "agent", "tools": ["t" * 90_000], "kind": "SystemPromptEvent"}),
        ("openhands", [{"id": "7" * 32, "timestamp": "2026-10-05T08:00:00", "source": "agent", "tools": ["t" * 90_000], "kind": "SystemPromptEvent"}]),
        ("codex", of_codex.row("session_meta", 0, id="a", base_instructions={"text": "i" * 90_000}, cwd="/")),
    ],
)  # fmt: skip
def test_a_long_first_record_does_not_hide_the_format(name: str, document: Any, tmp_path: Path) -> None:
    """What tells the format may lie beyond the first 64 KiB, or behind them in the record itself."""
    text = json.dumps(document).replace("Fix it", "Fix it. " + of_mini.SUBMIT)
    path = tmp_path / "export"
    path.write_text(text)
    assert registry.sniff(Source.of(path).head()).name == name
