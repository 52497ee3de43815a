"""SWE-agent trajectories."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.readers import registry
from agentlens.readers.source import Source
from tests.readers.reading import events, records, tools
from tests.readers.test_real_loops import alerts
from tests.readers.test_real_loops import events as assembled

if TYPE_CHECKING:
    from pathlib import Path


def step(action: str, observation: Any = "ok", **more: Any) -> dict[str, Any]:
    return {
        "action": action,
        "observation": observation,
        "response": "r",
        "thought": "t",
        "state": "{}",
        **more,
    }


def traj(*steps: Any, status: str = "submitted", **more: Any) -> bytes:
    document = {"environment": "e", "trajectory": list(steps), "history": [], "info": {"exit_status": status}}
    return json.dumps({**document, **more}).encode()


def test_interface_commands_keep_their_name_and_the_rest_is_shell() -> None:
    """So that a shell line is compared as words, and a reset in it is seen."""
    found = tools(traj(step("edit 1:2\r\nx\r\nend_of_edit\r\n"), step("rm -rf x\n")))
    assert [(event.tool, event.args) for event in found] == [
        ("edit", "edit 1:2\r\nx\r\nend_of_edit"),
        ("bash", {"command": "rm -rf x"}),
    ]
    assert [event.seq for event in found] == [0, 1]
    assert all(event.at is None for event in found)


def test_submitted_is_a_claim_only_where_the_agent_did_it() -> None:
    """Work handed in because the money ran out is nobody's word."""
    kinds = [
        [e.kind for e in events(traj(step("ls"), status=s))] for s in ("submitted", "submitted (exit_cost)")
    ]
    assert kinds == [["tool", "claim"], ["tool", "log"]]


def test_steps_keep_their_numbers_and_the_end_of_the_budget_is_no_call() -> None:
    """A step without an action holds its place; what stopped the agent was not asked for by it."""
    found = events(traj(step("ls"), step(""), step("exit_cost", ""), status="submitted (exit_cost)"))
    assert [(event.kind, event.tool, event.seq) for event in found] == [
        ("tool", "bash", 0),
        ("log", "no_action", 1),
        ("log", "exit_cost", 2),
        ("log", "exit", None),
    ]


def test_failures_are_lifted_from_the_text() -> None:
    """There is no exit code: a timeout, a refused command and a traceback are told by their words."""
    said = [
        "The command 'x' was cancelled because it took more than 30 seconds.",
        "Operation 'vim' is not supported by this environment.",
        "Traceback (most recent call last):\n  File\nValueError: bad",
        "Error",
        "fine",
    ]
    assert [event.error_class for event in tools(traj(*(step("x", text) for text in said)))] == [
        "timeout",
        "not_supported",
        "ValueError",
        "error",
        None,
    ]


def test_a_step_without_observation_is_open() -> None:
    """Null is no result; an empty text is one."""
    found = tools(traj(step("a", None), step("b", "")))
    assert [(event.open, event.result) for event in found] == [(True, None), (False, "")]


def test_demonstrations_in_the_history_are_not_read() -> None:
    """Only the trajectory happened."""
    demo = {"role": "assistant", "content": "x", "action": "ls", "is_demo": True, "agent": "primary"}
    assert len(tools(traj(step("pwd"), history=[demo, demo]))) == 1


def test_attempts_of_one_run_are_lanes() -> None:
    """Each began with a fresh world; the copy of the best one at the top is not counted again."""
    attempts = [
        {"trajectory": [step("ls")], "info": {"exit_status": "exit_cost"}},
        {"trajectory": [step("ls")]},
    ]
    assert [event.agent for event in tools(traj(step("ls"), attempts=attempts))] == ["attempt-1", "attempt-2"]


def test_a_cut_file_gives_its_whole_steps() -> None:
    """And says that it was cut."""
    data = traj(step("one"), step("two"), step("three"))
    found, report = records(data[: data.index(b"three")], "swe-agent")
    assert [event.args["command"] for event in found if event.kind == "tool"] == ["one", "two"]
    assert len(report.faults) == 1


@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, [None], True])
def test_a_wrong_type_anywhere_is_never_an_exception(junk: Any) -> None:
    """Each field of a step and of the document is replaced in turn."""
    for name in step("x"):
        records(traj({**step("x"), name: junk}), "swe-agent")
    for name in ("trajectory", "history", "info", "attempts", "replay_config"):
        records(traj(step("x"), **{name: junk}), "swe-agent")


def test_samples(shared: Path) -> None:
    """Two shapes: the state as text and as an object."""
    folder = shared / "samples" / "swe-agent"
    assert {registry.sniff(Source.of(path).head()).name for path in folder.glob("*.traj")} == {"swe-agent"}
    assert [event.tool for event in tools(folder / "eps.traj")][8:] == ["submit"] * 6
    assert len(tools(folder / "marshmallow-1867-function_calling_replace.traj")) == 11


def test_one_flag_submitted_four_times_is_the_only_loop(shared: Path) -> None:
    """`eps--270eca`, steps 9 to 12, period 1."""
    frame = assembled(sorted((shared / "traces" / "swe-agent-traj" / "runs").glob("*.traj")))
    assert frame["run_id"].n_unique() == 12
    found = alerts(frame)
    assert found.select("run_id", "seq", "period", "laps").rows() == [("eps--270eca", 12, 1, 4)]
