"""OpenClaw telemetry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from agentlens.readers import registry
from agentlens.readers.source import Source
from tests.readers.merging import merged, of_kind
from tests.readers.reading import records
from tests.readers.test_real_loops import events as assembled

if TYPE_CHECKING:
    from pathlib import Path

MAIN, CHILD = "agent:main:main", "agent:main:subagent:k1"


def row(kind: str, second: int, session: str = MAIN, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "sessionKey": session,
        "agentId": "main",
        "seq": second,
        "ts": 1772830700000 + second * 1000,
        **more,
    }


def start(second: int, name: str = "exec", session: str = MAIN, **params: Any) -> dict[str, Any]:
    return row("tool.start", second, session, toolName=name, params=params)


def end(second: int, name: str = "exec", session: str = MAIN, **more: Any) -> dict[str, Any]:
    return row("tool.end", second, session, toolName=name, **{"success": True, "durationMs": 9, **more})


def asked(second: int, *calls: tuple[str, str, Any]) -> dict[str, Any]:
    blocks = [{"type": "toolCall", "id": i, "name": name, "arguments": args} for i, name, args in calls]
    usage = {"input": 1, "output": 2, "cacheRead": 3, "cost": {"total": 0.5}}
    return {
        "role": "assistant",
        "content": blocks,
        "model": "m",
        "usage": usage,
        "timestamp": 1772830700000 + second * 1000,
    }


def gave(second: int, call: str, text: str, **details: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"role": "toolResult", "toolCallId": call, "content": content, "details": details, "isError": False,
            "timestamp": 1772830700000 + second * 1000}  # fmt: skip


def told(*rows: Any) -> list[dict[str, Any]]:
    return merged(records(b"".join(json.dumps(one).encode() + b"\n" for one in rows))[0])


def test_the_conversation_at_the_end_gives_calls_their_ids_and_results() -> None:
    """While they ran they had neither; an end without a result is no success."""
    ran = [row("agent.start", 1), start(2, command="a"), end(3), start(4, command="a"), end(5)]
    talk = [
        asked(1, ("x", "exec", {"command": "a"})),
        gave(3, "x", "one", exitCode=2),
        asked(4, ("y", "exec", {"command": "a"})),
    ]
    before = of_kind(told(*ran), "tool")
    assert [("result" in event, event["open"]) for event in before] == [(False, False)] * 2
    after = of_kind(told(*ran, row("agent.end", 6, messages=talk, success=True)), "tool")
    assert [(e["call_id"], e.get("result"), e.get("error_class")) for e in after] == [
        ("x", "one", "exit_2"),
        ("y", None, None),
    ]


def test_a_conversation_told_again_is_not_counted_again() -> None:
    """The next turn's end repeats the whole history."""
    talk = [asked(1, ("x", "exec", {"command": "a"}))]
    rows = [row("agent.start", 1), row("agent.end", 2, messages=talk), row("agent.start", 3),
            row("agent.end", 4, messages=[*talk, asked(3, ("y", "read", {}))])]  # fmt: skip
    found = told(*rows)
    assert [event["call_id"] for event in of_kind(found, "tool")] == ["x", "y"]
    assert [(e["tokens_in"], e["tokens_out"], e["cost_usd"]) for e in of_kind(found, "model")] == [
        (4, 2, 0.5)
    ] * 2


def test_a_sub_agent_is_a_lane_of_the_main_run_and_answers_its_handoff() -> None:
    """Its start may be told twice."""
    begun = json.dumps({"status": "accepted", "childSessionKey": CHILD})
    talk = [asked(1, ("s", "sessions_spawn", {"task": "look"})), gave(2, "s", begun)]
    rows = [row("agent.start", 1), row("agent.start", 2, CHILD), row("agent.start", 3, CHILD), start(4, session=CHILD, command="b"),
            row("agent.end", 5, CHILD, messages=[], success=True), row("agent.end", 6, messages=talk, success=True)]  # fmt: skip
    found = told(*rows)
    assert {event["run_id"] for event in found} == {MAIN}
    (handoff,), (child,) = of_kind(found, "handoff"), of_kind(found, "agent")
    assert (handoff["agent"], handoff["target"], handoff["open"]) == ("", "subagent", True)
    assert (child["agent"], child["parent_span_id"], child["open"]) == ("subagent", handoff["span_id"], False)
    assert len(of_kind(found, "accept")) == 1


def test_a_person_is_heard_by_the_next_main_session() -> None:
    """A channel does not say to whom it speaks; nobody's turn is lost."""
    rows = [
        {"type": "message.in", "channel": "t", "seq": 1, "ts": 1772830700000},
        row("agent.start", 2, CHILD),
        row("agent.start", 3),
    ]
    turns = [event for event in told(*rows) if event.get("external_input")]
    assert [(event["run_id"], event["agent"]) for event in turns] == [(MAIN, "")]
    assert len(told(*rows[:1])) == 1


@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, [None], True])
def test_a_wrong_type_anywhere_is_never_an_exception(junk: Any) -> None:
    """Each field of each line, and of the conversation, is replaced in turn."""
    talk = [asked(1, ("x", "exec", {})), gave(3, "x", "{}")]
    rows = [
        row("agent.start", 1),
        start(2),
        end(3),
        row("llm.usage", 4, usage={}),
        row("agent.end", 5, messages=talk),
    ]
    for place, one in enumerate(rows):
        for key in one:
            data = [*rows[:place], {**one, key: junk}, junk, *rows[place + 1 :]]
            records(b"".join(json.dumps(each).encode() + b"\n" for each in data), "openclaw")
    for place, one in enumerate(talk):
        for key in one:
            changed = [*talk[:place], {**one, key: junk}, junk, *talk[place + 1 :]]
            records(json.dumps(row("agent.end", 5, messages=changed)).encode(), "openclaw")


def test_samples(shared: Path) -> None:
    """Seven lines: one command of a sub-agent, three of the main agent, three handoffs."""
    (path,) = (shared / "samples" / "openclaw").glob("*.jsonl")
    assert registry.sniff(Source.of(path).head()).name == "openclaw"
    frame = assembled([path])
    assert frame.filter(pl.col("run_id") == MAIN).group_by("agent", "kind").len().filter(
        pl.col("kind").is_in(["tool", "handoff"])
    ).sort("agent", "kind").rows() == [("", "handoff", 3), ("", "tool", 3), ("subagent", "tool", 1)]
    (command,) = frame.filter((pl.col("agent") == "subagent") & (pl.col("kind") == "tool")).to_dicts()
    assert command["progress_fingerprint"] is not None


def test_usage_is_read_in_the_words_of_telemetry() -> None:
    """A record of its own spells the counts out, and the cost is a number."""
    usage = {"inputTokens": 10, "outputTokens": 5, "cacheTokens": 2, "costUsd": 0.25}
    (model,) = of_kind(told(row("llm.usage", 1, model="m", **usage)), "model")
    assert (model["tokens_in"], model["tokens_out"], model["cost_usd"]) == (12, 5, 0.25)


@pytest.mark.parametrize("named", [True, False])
def test_of_calls_side_by_side_each_end_finds_its_own(named: bool) -> None:
    """By the id that it names, else by when the call must have begun."""

    def row(kind: str, seq: int, call: str, **more: Any) -> dict[str, Any]:
        own = {"toolCallId": call} if named else {}
        return {
            "type": f"tool.{kind}",
            "seq": seq,
            "ts": 1_782_900_000_000 + seq * 1000,
            "sessionKey": "k",
            "toolName": "exec",
            **own,
            **more,
        }

    rows = [
        row("start", 1, "a", params={"command": "sleep 5"}),
        row("start", 2, "b", params={"command": "false"}),
        row("end", 3, "b", success=False, error="exit 1", durationMs=1000),
        row("end", 6, "a", success=True, durationMs=5000, result="ok"),
    ]
    found = merged(records(b"".join(json.dumps(one).encode() + b"\n" for one in rows), "openclaw")[0])
    assert [(e["args"]["command"], e.get("error_class"), e["open"]) for e in of_kind(found, "tool")] == [
        ("sleep 5", None, False),
        ("false", "tool_error", False),
    ]


def bare(kind: str, session: str = MAIN, **more: Any) -> dict[str, Any]:
    """Return a line of the older telemetry: no counter, no clock."""
    return {"type": kind, "sessionKey": session, "agentId": "main", **more}


def test_telemetry_without_a_clock(tmp_path: Path) -> None:
    """Tools name the channel they are heard on; turns end without a word; the next one's start brings the talk."""
    heard = "agent:main:telegram:default:direct:x"
    said = {"type": "message.in", "channel": "telegram", "content": "go"}
    tool = {"toolName": "exec", "params": {"command": "a"}}
    talk = [asked(1, ("c1", "exec", {"command": "a"})), gave(3, "c1", "one")]
    rows = [
        said | {"timestamp": 1772830700000},
        bare("agent.start", prompt="go"),
        bare("agent.start", prompt="go", messages=[]),
        bare("tool.start", heard, **tool),
        bare("tool.end", heard, toolName="exec", durationMs=5, success=True),
        said | {"timestamp": 1772830709000},
        bare("agent.start", prompt="again"),
        bare("agent.start", prompt="again", messages=talk),
        bare("tool.start", heard, **tool),
        bare("agent.start", "agent:main:subagent:k2", prompt="b"),
        bare("agent.start", "agent:main:subagent:k1", prompt="a"),
        bare("tool.start", "agent:main:subagent:k1", **tool),
    ]
    path = tmp_path / "telemetry.jsonl"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in rows))
    assert registry.sniff(Source.of(path).head()).name == "openclaw"
    found = assembled([path]).filter(pl.col("kind").is_in(["tool", "message"]))
    assert found.select("run_id", "agent", "kind", "call_id", "open").rows() == [
        (MAIN, "", "message", None, None),
        (MAIN, "", "tool", "c1", False),
        (MAIN, "", "message", None, None),
        (MAIN, "", "tool", None, True),
        (MAIN, "subagent#2", "tool", None, True),
    ]
    assert found["at"].null_count() == 2


def test_two_files_of_one_main_session(tmp_path: Path) -> None:
    """The counter begins anew with the program: calls of equal number are not the same; a copy tells nothing more."""
    for name, second in (("a.jsonl", 0), ("b.jsonl", 500), ("copy.jsonl", 0)):
        rows = [row("agent.start", 1), start(2, command="a"), end(3)]
        moved = [one | {"ts": one["ts"] + second * 1000} for one in rows]
        (tmp_path / name).write_text("".join(f"{json.dumps(one)}\n" for one in moved))
    bare_rows = [
        bare("agent.start", prompt="x"),
        bare("tool.start", toolName="exec", params={"command": "b"}),
    ]
    (tmp_path / "c.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in bare_rows))
    found = assembled(sorted(tmp_path.glob("*.jsonl"))).filter(pl.col("kind") == "tool")
    assert found.height == 3
