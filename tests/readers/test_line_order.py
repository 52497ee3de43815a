"""Claude Code lines out of order: the same events, lanes and numbers as in order."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from agentlens.detect.loops import loops
from agentlens.detect.rules import laps
from agentlens.explaining import explain
from agentlens.lake import Lake, ingest
from agentlens.normalise.assemble import assemble
from agentlens.normalise.digest import Key
from agentlens.normalise.rows import Normaliser
from agentlens.normalise.tables import Tables
from agentlens.readers.source import expand
from tests.readers.claude import asked, assistant, came, everything, lines, user
from tests.readers.merging import merged, of_kind
from tests.readers.reading import records

if TYPE_CHECKING:
    from pathlib import Path


def session(*values: Any) -> list[dict[str, Any]]:
    return merged(records(lines(*values), "claude-code")[0])


def _assembled(*values: Any) -> pl.DataFrame:
    normaliser = Normaliser(key=Key.public_demo(), tables=Tables.load())
    found, _ = records(lines(*values), "claude-code")
    rows = normaliser.frame(found, source="s", source_id="s", reader="claude-code", reader_rank=1)  # type: ignore[arg-type]
    return assemble(rows.lazy()).collect()


def _side_chain(count: int) -> list[dict[str, Any]]:
    """A sub-agent that asks for the same thing again and again and always gets the same answer."""
    chain = [user("u0", None, "look", isSidechain=True)]
    for number in range(1, 2 * count, 2):
        chain += [
            assistant(f"u{number}", f"u{number - 1}", f"m{number}", asked(f"c{number}", command="ls")),
            user(f"u{number + 1}", f"u{number}", came(f"c{number}", "same")),
        ]
    return [{**line, "isSidechain": True} for line in chain]


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_side_chain_is_one_lane_whatever_the_order_of_its_lines(seed: int) -> None:
    """Lines are linked over the whole file before any is read: the lane, and the loop in it, stay whole."""
    values = _side_chain(6)
    expected = _assembled(*values)
    random.Random(seed).shuffle(values)
    found = _assembled(*values)
    assert found.drop("source").equals(expected.drop("source"))
    assert found["agent"].unique().to_list() == ["subagent"]
    rule = laps()
    verdicts = [loops(events.lazy(), rule).collect() for events in (expected, found)]
    assert [table["verdict"].to_list() for table in verdicts] == [["working"] * 3 + ["stuck_loop"] * 3] * 2


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_equal_times_are_told_apart_by_what_the_lines_hang_on(seed: int) -> None:
    """With one time on all lines, and with none on some, every event keeps its number in its lane."""
    same = [{**line, "timestamp": "2026-01-01T00:00:00Z"} for line in everything()]
    some = [
        {name: part for name, part in line.items() if name != "timestamp" or number % 3}
        for number, line in enumerate(everything())
    ]
    for values in (same, some):
        expected = _assembled(*values)
        main = expected.filter(pl.col("agent") == "")["seq"]
        assert main.to_list() == list(range(len(expected) - 1))  # and the start of the sub-agent
        shuffled = random.Random(seed).sample(values, len(values))
        assert _assembled(*shuffled).drop("source").equals(expected.drop("source"))


def test_a_line_read_in_another_place_is_still_pointed_at_where_it_stands() -> None:
    """The pointer names the line of the file, not the place in the order of reading."""
    first, second = (
        assistant("u1", None, "m1", asked("c1", command="a")),
        assistant("u2", "u1", "m2", asked("c2", command="b")),
    )
    calls = _assembled(second, first).filter(pl.col("kind") == "tool")
    assert calls["source"].to_list() == ["s:2.1", "s:1.1"]
    _, report = records(lines(second, {**first, "message": None}), "claude-code")
    assert [fault.position for fault in report.faults] == [2]


def test_sub_agents_know_their_call_whatever_the_order_of_lines() -> None:
    """A prompt finds the call that gave it anywhere in the file, at the same time even."""
    values = [
        assistant("u1", None, "m1", asked("t1", "Task", subagent_type="Explore", prompt="one")),
        user("a1", None, "one", isSidechain=True),
        assistant("u3", "a1", "m2", asked("c1", command="ls"), isSidechain=True),
    ]
    for order in itertools.permutations(values):
        (call,) = of_kind(session(*order), "tool")
        assert (call["agent"], call["instance"]) == ("Explore", "t1")


def test_sub_agents_with_ids_in_a_main_file_do_not_make_it_theirs() -> None:
    """A file is a sub-agent's own only if all its lines are, whichever of them stands first."""
    values = [
        user("v1", None, "p", isSidechain=True, agentId="abc"),
        assistant("v2", None, "m1", asked("c1", command="ls")),
    ]
    for order in itertools.permutations(values):
        assert of_kind(session(*order), "tool")[0]["agent"] == ""


def test_a_line_that_nothing_places_stays_where_the_file_is_in_order() -> None:
    """Without time and link only the place in the file is left; out of order that is no evidence."""
    lost = {"type": "odd", "sessionId": "s-1"}
    first, second = user("u1", None, "go"), user("u2", "u1", "on")
    assert [event["kind"] for event in session(first, lost, second)] == ["message", "log", "message"]
    assert [event["kind"] for event in session(second, lost, first)] == ["log", "message", "message"]
    bare = [{**line, "timestamp": None, "parentUuid": None} for line in (second, first)]
    assert [event["identity"] for event in session(*bare)] == ["u2", "u1"]


def test_lines_that_hang_on_each_other_in_a_circle_are_all_read() -> None:
    """A circle is cut at one place, the same whatever the order."""
    values = [
        user("u1", "u3", "a"),
        assistant("u2", "u1", "m", asked("c1")),
        user("u3", "u2", came("c1", "x")),
        user("u4", "u4", "b"),
    ]
    expected = session(*values)
    assert len(expected) == 4
    for order in itertools.permutations(values):
        assert session(*order) == expected


@pytest.mark.parametrize("seed", [0, 1])
def test_public_sessions_are_the_same_events_with_their_lines_shuffled(shared: Path, seed: int) -> None:
    """Events, lanes and numbers of every sample, fixtures with broken lines included."""
    for path in sorted((shared / "samples" / "claude-code").glob("*.jsonl")):
        values = path.read_text("utf-8", "replace").splitlines()
        shuffled = random.Random(seed).sample(values, len(values))
        assert _assembled(*shuffled).drop("source").equals(_assembled(*values).drop("source"))


def test_an_event_read_in_another_place_is_explained_from_its_own_line(tmp_path: Path) -> None:
    """The record is found again by the line it stands on."""
    first = assistant("u1", None, "m1", asked("c1", command="a"))
    second = assistant("u2", "u1", "m2", asked("c2", command="b"))
    path = tmp_path / "session.jsonl"
    path.write_bytes(lines(second, first))
    into = tmp_path / "lake"
    made = Normaliser(key=Key.public_demo(), tables=Tables.load())
    ingest(expand([str(path)]), into, normaliser=made)
    calls = Lake.open(into).events().filter(pl.col("kind") == "tool").sort("seq").collect()
    assert [row.rpartition(":")[2] for row in calls["source"]] == ["2.1", "1.1"]
    for row, command in zip(calls.to_dicts(), ("a", "b"), strict=True):
        told = explain(into, "s-1", row["seq"], normaliser=made)
        assert told["action"]["signature"] == row["action_signature"]
        assert command in told["action"]["text"]
