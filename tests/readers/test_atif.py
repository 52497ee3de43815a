"""ATIF trajectories."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.readers import registry
from agentlens.readers.source import Source
from tests.readers.merging import merged, of_kind
from tests.readers.reading import records

if TYPE_CHECKING:
    from pathlib import Path

ACTIONS = ("tool", "handoff", "wait", "approval")


def step(number: int, source: str = "agent", **more: Any) -> dict[str, Any]:
    return {
        "step_id": number,
        "source": source,
        "message": "",
        "timestamp": f"2026-01-01T00:00:{number:02}Z",
        **more,
    }


def called(call_id: str, name: str = "bash", **args: Any) -> dict[str, Any]:
    return {"tool_call_id": call_id, "function_name": name, "arguments": args}


def saw(*results: dict[str, Any]) -> dict[str, Any]:
    return {"results": list(results)}


def document(*steps: Any, **more: Any) -> dict[str, Any]:
    head = {
        "schema_version": "ATIF-v1.5",
        "session_id": "s-1",
        "agent": {"name": "agent-x", "version": "1", "model_name": "m-1"},
    }
    return {**head, "steps": list(steps), **more}


def trajectory(*steps: Any, **more: Any) -> list[dict[str, Any]]:
    return merged(records(json.dumps(document(*steps, **more)).encode(), "atif")[0])


def test_each_call_of_a_step_gets_the_result_that_names_it() -> None:
    """A repeated id is paired in order; times, model and tokens stand on their own events."""
    events = trajectory(
        step(1, "user", message="go"),
        step(
            2,
            tool_calls=[called("c", cmd="1"), called("c", cmd="2"), called("d", cmd="3")],
            observation=saw(
                {"source_call_id": "d", "content": "D"},
                {"source_call_id": "c", "content": "C1"},
                {"source_call_id": "c", "content": "C2"},
            ),
            metrics={"prompt_tokens": 7, "completion_tokens": 2, "cost_usd": 0.5},
        ),
    )
    assert [(event["args"]["cmd"], event["result"]) for event in of_kind(events, "tool")] == [
        ("1", "C1"),
        ("2", "C2"),
        ("3", "D"),
    ]
    (model,) = of_kind(events, "model")
    assert (model["model"], model["tokens_in"], model["tokens_out"], model["cost_usd"]) == ("m-1", 7, 2, 0.5)
    assert of_kind(events, "message")[0]["external_input"] is True


def test_call_ids_that_repeat_in_other_steps_are_other_actions() -> None:
    """Step, call id and place in the step name an action."""
    again = {
        "tool_calls": [called("functions.Bash:3")],
        "observation": saw({"source_call_id": "functions.Bash:3", "content": "x"}),
    }
    assert len(of_kind(trajectory(step(1, **again), step(2, **again)), "tool")) == 2


def test_results_without_a_call_id_go_to_the_calls_that_lack_one_if_they_fit() -> None:
    """One nameless result for one open call is its result; one for two calls is nobody's."""
    fits = trajectory(step(1, tool_calls=[called("a")], observation=saw({"content": "A"})))
    assert of_kind(fits, "tool")[0]["result"] == "A"
    loose = trajectory(step(1, tool_calls=[called("a"), called("b")], observation=saw({"content": "A"})))
    assert all("result" not in event and event["open"] for event in of_kind(loose, "tool"))
    assert len(of_kind(loose, "log")) == 1


def test_an_agent_that_writes_its_commands_acts_without_a_tool_call() -> None:
    """The commands in the message are the action; a message that cannot be read is an unknown one."""
    said = json.dumps({"analysis": "a", "commands": [{"keystrokes": "ls\n", "duration": 0.1}]})
    events = trajectory(
        step(1, message=said, observation=saw({"content": "x"})),
        step(2, message="ls, please", observation=saw({"content": "y"})),
    )
    first, second = of_kind(events, "tool")
    assert (first["tool"], first["args"], first["result"]) == (
        "terminal",
        {"commands": [{"keystrokes": "ls\n", "duration": 0.1}]},
        "x",
    )
    assert "args" not in second


def test_copied_context_is_not_read_again() -> None:
    """A continued trajectory repeats the end of the first part."""
    found, report = records(
        json.dumps(
            document(
                step(1, "user", is_copied_context=True),
                step(2, tool_calls=[called("a")], is_copied_context=True),
                step(3, tool_calls=[called("a")]),
            )
        ).encode(),
        "atif",
    )
    assert [event["identity"] for event in of_kind(merged(found), "tool")] == ["export/3/a/1"]
    assert report.repaired["step copied from an earlier trajectory"] == 2


def test_the_tools_own_words_are_taken_instead_of_the_printed_bookkeeping() -> None:
    """The converter adds durations to the text; what the tool said and whether it failed stand beside it."""
    raw = {"tool_use_id": "a", "type": "tool_result", "content": "Exit code 2\nno", "is_error": True}
    events = trajectory(
        step(
            1,
            tool_calls=[called("a")],
            observation=saw(
                {"source_call_id": "a", "content": 'Exit code 2\nno\n[metadata] {"durationMs": 7}'}
            ),
            extra={"metadata": {"raw_tool_result": raw}},
        )
    )
    (event,) = of_kind(events, "tool")
    assert (event["result"], event["error_class"]) == ("Exit code 2\nno", "exit_2")


def test_parallel_calls_stand_in_the_order_they_were_asked_in() -> None:
    """One step a call, written as results came: where ids count, neighbours of one time are sorted by them."""
    at = {"timestamp": "2026-01-01T00:00:00Z"}
    steps = [
        step(number, tool_calls=[called(f"functions.Read:{count}")], **at)
        for number, count in ((1, 10), (2, 9))
    ]
    assert [event["call_id"] for event in of_kind(trajectory(*steps), "tool")] == [
        "functions.Read:9",
        "functions.Read:10",
    ]
    other = [step(number, tool_calls=[called(name)], **at) for number, name in ((1, "z"), (2, "a"))]
    assert [event["call_id"] for event in of_kind(trajectory(*other), "tool")] == ["z", "a"]


@pytest.mark.parametrize(
    ("last", "claims"),
    [
        (step(2, message="All done."), 1),
        (step(2, message="All done.", extra={"stop_reason": "end_turn"}), 1),
        (step(2, message="and", extra={"stop_reason": "max_tokens"}), 0),
        (step(2, tool_calls=[called("b")]), 0),
        (step(2, tool_calls=[called("b", "finish", message="x")]), 1),
        (step(2, message='{"commands": [], "task_complete": true}', observation=saw({"content": ""})), 1),
        (step(2, message='{"commands": [], "task_complete": false}', observation=saw({"content": ""})), 0),
    ],
)
def test_an_agent_that_stops_of_its_own_accord_claims_success(last: dict[str, Any], claims: int) -> None:
    """A closing message, a finishing tool or a completion flag is a claim; a cut end is none."""
    found = of_kind(trajectory(step(1, tool_calls=[called("a")]), last), "claim")
    assert [event["target"] for event in found] == ["success"] * claims


def test_a_trajectory_that_goes_on_elsewhere_makes_no_claim_yet() -> None:
    """Its end is in the file it names."""
    assert of_kind(trajectory(step(1, message="bye"), continued_trajectory_ref="next.json"), "claim") == []


def test_a_sub_agents_trajectory_is_a_lane_and_its_call_a_handoff() -> None:
    """The result that refers to it makes the call a handoff to the agent it names."""
    inner = {
        "trajectory_id": "t-2",
        "agent": {"name": "helper"},
        "steps": [step(1, "user"), step(2, tool_calls=[called("x")])],
    }
    events = trajectory(
        step(
            1,
            tool_calls=[called("a", "delegate")],
            observation=saw(
                {
                    "source_call_id": "a",
                    "content": "ok",
                    "subagent_trajectory_ref": [{"trajectory_id": "t-2"}],
                }
            ),
        ),
        subagent_trajectories=[inner],
    )
    (handoff,), (accept,), (tool,) = (of_kind(events, kind) for kind in ("handoff", "accept", "tool"))
    assert (handoff["target"], handoff["call_id"], accept["call_id"]) == ("helper", "a", "a")
    assert (tool["agent"], tool["instance"], tool["parent_agent"]) == ("helper", "t-2", "")
    assert of_kind(events, "message") == []


def test_a_version_without_its_name_and_a_foreign_document_are_told_apart() -> None:
    """Some third-party files write "1.4"; a document with steps alone is not claimed."""
    bare = json.dumps(document(step(1), schema_version="1.4")).encode()
    assert len(records(bare)[0]) == 1
    from agentlens.readers.atif import claim
    from agentlens.readers.head import Head

    assert claim(Head(data=bare)) == 85
    assert claim(Head(data=b'{"schema_version": "3.0", "steps": []}')) == 0
    assert claim(Head(data=b'{"steps": []}')) == 0


def test_cut_anywhere_the_whole_steps_before_are_kept() -> None:
    """A document that ends inside a step gives the steps before it, and one fault."""
    steps = [step(number, tool_calls=[called(f"c{number}", cmd="x")]) for number in range(1, 6)]
    data = json.dumps(document(*steps)).encode()
    ends = [data.index(json.dumps(one).encode()) + len(json.dumps(one)) for one in steps]
    for cut in range(ends[0], len(data), 23):
        found, report = records(data[:cut], "atif")
        whole = sum(end <= cut for end in ends)
        assert [event["call_id"] for event in of_kind(merged(found), "tool")] == [
            f"c{n}" for n in range(1, whole + 1)
        ]
        assert len(report.faults) == (0 if cut in ends else 1)  # nothing is lost between two steps


@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, [None], [7], True])
def test_a_wrong_type_anywhere_is_never_an_exception(junk: Any) -> None:
    """Each field of a document and of its steps is replaced in turn."""
    base = document(
        step(
            1,
            tool_calls=[called("a")],
            observation=saw({"source_call_id": "a", "content": "x"}),
            metrics={},
            extra={"metadata": {"raw_tool_result": {}}},
        ),
        step(2, "system", extra={"context_management": {"type": "compaction"}}),
        subagent_trajectories=[{"steps": []}],
    )
    changed = [{**base, field: junk} for field in base]
    for place, one in enumerate(base["steps"]):
        changed += [
            {**base, "steps": [*base["steps"][:place], {**one, field: junk}, *base["steps"][place + 1 :]]}
            for field in one
        ]
        changed.append({**base, "steps": [*base["steps"][:place], junk, *base["steps"][place + 1 :]]})
    for value in changed:
        _, report = records(json.dumps(value).encode(), "atif")
        assert not any("reader stopped" in fault.reason for fault in report.faults)


def test_golden_files_of_three_versions(shared: Path) -> None:
    """Finish is a claim, a summary a compaction, commands in messages are actions."""
    folder = shared / "samples" / "atif"
    hands = merged(records(folder / "openhands_hello-world.trajectory.json")[0])
    assert [event["kind"] for event in of_kind(hands, "tool", "claim")] == ["tool", "claim"]
    first = merged(records(folder / "terminus_2_linear.trajectory.json")[0])
    assert len(of_kind(first, "tool")) == 3
    assert len(of_kind(first, "compaction")) == 1
    assert of_kind(first, "claim") == []
    second = merged(records(folder / "trajectory.cont-1.json")[0])
    assert (len(of_kind(second, "tool")), len(of_kind(second, "claim"))) == (4, 1)


def _actions(path: Path) -> list[tuple[Any, ...]]:
    events = [
        event
        for event in merged(records(path)[0])
        if event["kind"] in ACTIONS and not event["identity"].startswith("approval/")
    ]
    events.sort(key=lambda event: event.get("at", 0))  # a stream has no times: its order stands
    return [
        (
            event["agent"],
            event["kind"],
            event["tool"],
            event["args"],
            event.get("result"),
            event.get("error_class"),
        )
        for event in events
    ]


def test_trajectory_and_stream_of_one_trial_tell_the_same_actions(shared: Path) -> None:
    """In 46 trials: same lanes, tools, arguments, results, errors and order; but for one sub-agent's lane.

    The converter to ATIF reads the main file only, so the eight searches of the one sub-agent
    (`mteb-leaderboard`) are in the stream alone.
    """
    both = 0
    only_in_stream = []
    for path in sorted((shared / "traces" / "terminal-bench-kimi").glob("*/agent/trajectory.json*")):
        assert registry.sniff(Source.of(path).head()).name == "atif"
        both += 1
        told = _actions(path)
        streamed = _actions(next(path.parent.glob("claude-code.txt*")))
        assert told == [action for action in streamed if action[0] == ""]
        only_in_stream += [(path.parts[-3].split("__")[0], action[0]) for action in streamed if action[0]]
    assert both == 46
    assert only_in_stream == [("mteb-leaderboard", "general-purpose")] * 8
