"""mini-swe-agent trajectories, in the shapes of its versions."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from agentlens.detect.claims import claims
from agentlens.detect.loops import loops
from agentlens.detect.rules import laps
from agentlens.readers import registry
from agentlens.readers.source import Source
from tests.readers.reading import events, records, tools
from tests.readers.test_real_loops import events as assembled

if TYPE_CHECKING:
    from pathlib import Path

ASK = {"role": "user", "content": "Fix it"}
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def fenced(command: str, fence: str = "bash", **extra: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": f"THOUGHT: so\n\n```{fence}\n{command}\n```",
        **({"extra": extra} if extra else {}),
    }


def seen(code: int, output: str) -> dict[str, Any]:
    return {"role": "user", "content": f"<returncode>{code}</returncode>\n<output>\n{output}</output>"}


def called(command: str, call_id: str, at: float) -> dict[str, Any]:
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
        "extra": {
            "actions": [{"command": command, "tool_call_id": call_id}],
            "cost": 0.5,
            "timestamp": at,
        },
    }


def answered(call_id: str, code: int, output: str, at: float) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_call_id": call_id,
        "content": f"<returncode>{code}</returncode>\n<output>\n{output}</output>",
        "extra": {"returncode": code, "raw_output": output, "timestamp": at, "exception_info": ""},
    }


def old(*messages: Any) -> bytes:
    return json.dumps([{"role": "system", "content": "One command. " + SUBMIT}, ASK, *messages]).encode()


def new(*messages: Any, **info: Any) -> bytes:
    document = {
        "info": {"mini_version": "2.4.6", **info},
        "messages": [{"role": "system", "content": "x"}, ASK, *messages],
        "trajectory_format": "mini-swe-agent-1.1",
    }
    return json.dumps(document).encode()


def test_the_fenced_block_of_a_bare_list_is_a_command_and_the_next_turn_its_output() -> None:
    """Version 0: no ids, no times; the exit code stands in the text; the submit is a claim besides."""
    data = old(
        fenced("ls"), seen(2, "no\n"), fenced(SUBMIT, "mswea_bash_command"), {"role": "user", "content": ""}
    )
    first, last = tools(data)
    assert (first.args, first.result, first.error_class, first.at) == (
        {"command": "ls"},
        "no\n",
        "exit_2",
        None,
    )
    assert (last.result, last.open) == ("", False)
    assert [event.target for event in events(data) if event.kind == "claim"] == ["success"]


def test_three_shapes_of_one_command_are_one_action_and_one_result() -> None:
    """Fenced text, the agent's own parse, and a tool call differ in bookkeeping only."""
    (one,) = tools(old(fenced("ls"), seen(1, "x\n")))
    (two,) = tools(new(fenced("ls", actions=[{"command": "ls"}]), seen(1, "x\n")))
    (three,) = tools(new(called("ls", "c", 5.0), answered("c", 1, "x\n", 6.5)))
    assert len({json.dumps([e.tool, e.args, e.result, e.error_class]) for e in (one, two, three)}) == 1
    assert (three.at, three.ended_at, three.call_id) == (5_000_000, 6_500_000, "c")


def test_parallel_calls_are_answered_by_their_ids() -> None:
    """Two calls of one answer, the second answered first."""
    both = called("a", "1", 1.0)
    both["extra"]["actions"].append({"command": "b", "tool_call_id": "2"})
    found = tools(new(both, answered("2", 0, "B", 2.0), answered("1", 0, "A", 3.0)))
    assert {(e.args["command"], e.result) for e in found} == {("a", "A"), ("b", "B")}


def test_a_command_without_an_answer_is_open_and_claims_nothing() -> None:
    """The run was stopped by a limit: no success, no claim."""
    data = new(
        called("ls", "c", 5.0),
        {"role": "exit", "content": "LimitsExceeded", "extra": {"exit_status": "LimitsExceeded"}},
    )
    found = events(data)
    assert [event.open for event in found if event.kind == "tool"] == [True]
    assert [event.error_class for event in found if event.kind == "log"] == ["limits_exceeded"]
    assert not [event for event in found if event.kind == "claim"]


def test_the_command_that_submits_gets_the_submission_as_its_result() -> None:
    """Version 2 has no message for it, only the exit."""
    exit_ = {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted", "submission": "diff"}}
    (submit,) = tools(new(called(SUBMIT, "c", 5.0), exit_, exit_status="Submitted"))
    assert (submit.result, submit.open) == ("diff", False)


def test_an_output_without_its_middle_is_no_evidence() -> None:
    """Head and tail say nothing of what lies between; where the whole stands beside it, it counts."""
    cut = "<returncode>0</returncode>\n<output_head>a</output_head>\n<elided_chars>\n9 characters elided\n</elided_chars>"
    (one,) = tools(new(fenced("cat x"), {"role": "user", "content": cut}))
    (two,) = tools(new(fenced("cat x"), {"role": "user", "content": cut, "extra": {"raw_output": "abc"}}))
    assert (one.result, two.result) == (None, "abc")


def test_a_timeout_a_malformed_answer_and_a_rejection_are_told_apart() -> None:
    """A timeout ends a command; an answer without one command is none; a person's no is a decision."""
    stopped = (
        "The last command <command>sleep 9</command> timed out and has been killed.\n<output>\nz\n</output>"
    )
    wrong = "Please always provide EXACTLY ONE action in triple backticks, found 2 actions."
    refused = "Command not executed. The user rejected your command with the following message:\nno"
    two = {"role": "assistant", "content": "```bash\na\n```\n```bash\nb\n```"}
    data = new(
        fenced("sleep 9"),
        {"role": "user", "content": stopped},
        two,
        {"role": "user", "content": wrong},
        fenced("rm x"),
        {"role": "user", "content": refused},
    )
    found = events(data)
    assert [(e.args["command"], e.error_class) for e in found if e.kind == "tool"] == [
        ("sleep 9", "timeout"),
        ("rm x", "rejected_by_user"),
    ]
    assert [e.error_class for e in found if e.kind == "log"] == ["format_error"]
    assert Counter(e.kind for e in found if e.external_input) == {"message": 2}
    assert [e.error_class for e in found if e.kind == "approval"] == ["rejected_by_user"]


def test_cost_is_counted_once() -> None:
    """By message where it stands there, else as the sum of the run."""
    each = new(called("ls", "c", 1.0), model_stats={"instance_cost": 0.5})
    total = new(fenced("ls"), model_stats={"instance_cost": 0.25})
    assert [sum(e.cost_usd or 0 for e in events(data)) for data in (each, total)] == [0.5, 0.25]


def test_another_chat_list_is_not_claimed() -> None:
    """A list of messages without the agent's words is a chat."""
    data = json.dumps([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]).encode()
    assert {event.tool for event in events(data)} == {"user", "assistant"}


@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, [None], True, 1e300])
def test_a_wrong_type_anywhere_is_never_an_exception(junk: Any) -> None:
    """Each message, and each of its fields, is replaced in turn."""
    messages = [called("ls", "c", 5.0), answered("c", 0, "x", 6.0), fenced("ls"), seen(0, "x")]
    for place, message in enumerate(messages):
        for changed in (junk, *({**message, name: junk} for name in message)):
            records(new(*messages[:place], changed, *messages[place + 1 :]), "mini-swe-agent")
    for name in ("info", "messages", "instance_id"):
        records(json.dumps({"info": {}, "messages": [ASK], name: junk}).encode(), "mini-swe-agent")


def test_samples(shared: Path) -> None:
    """The bare list is told from a chat; the failing check of the current shape is tried three times."""
    folder = shared / "samples" / "mini-swe-agent"
    for path in sorted(folder.glob("*.json")):
        assert registry.sniff(Source.of(path).head()).name == "mini-swe-agent"
    found = tools(folder / "run.traj.json")
    assert [(e.args["command"], e.error_class) for e in found] == [("python3 check.py", "exit_2")] * 3
    assert next(e.args["command"] for e in tools(folder / "local.traj.json")) == "echo 'hello world'"


def test_72_runs_submit_and_none_loops(shared: Path) -> None:
    """All claim success, 19 of them falsely by the hidden tests; repetition without a check is no signal here.

    7 runs throw edits away with ``git checkout <file>``.
    """
    folder = shared / "traces" / "mini-swe-gemini3"
    frame = assembled(sorted((folder / "runs").glob("*.traj.json.gz")))
    told = claims(frame.lazy()).collect()
    labels = pl.read_csv(folder / "labels.csv", infer_schema=False).filter(pl.col("label") == "resolved")
    assert (told.height, told["claimed"].to_list().count("success")) == (72, 72)
    joined = told.join(labels, on="run_id")
    assert joined.filter(pl.col("value") == "false").height == 19
    verdicts = loops(frame.lazy(), laps()).collect()
    assert verdicts.filter(pl.col("verdict") == "stuck_loop").is_empty()
    reverts = frame.filter(pl.col("reset").is_in(["git_checkout_path", "git_reset_hard"]))
    assert reverts["run_id"].n_unique() == 7
    assert frame.filter(pl.col("open").eq(other=True)).is_empty()


def test_times_of_versions_that_write_them_beside_the_role() -> None:
    """A version in between has the time on the message itself."""
    rows = [
        ASK | {"timestamp": 1760000000.0},
        fenced("ls") | {"timestamp": 1760000001.5},
        seen(2, "no\n") | {"timestamp": 1760000002.25},
    ]
    (call,) = tools(
        json.dumps({"info": {}, "messages": rows, "trajectory_format": "mini-swe-agent-1"}).encode()
    )
    assert (call.at, call.ended_at) == (1760000001_500000, 1760000002_250000)
