"""AutoGen: streams, logger lines, saved teams."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from agentlens.detect.inferred import inferred_receipts
from agentlens.readers import registry
from agentlens.readers.source import Source
from tests.readers.merging import merged, of_kind
from tests.readers.reading import events, records
from tests.readers.test_real_loops import events as assembled

if TYPE_CHECKING:
    from pathlib import Path

RUN = "48342567-ba46-411c-bd59-b89549343419"


def message(own: str, kind: str, source: str, content: Any = "", **more: Any) -> dict[str, Any]:
    at = f"2026-10-05T08:00:{int(own):02}.000000Z"
    return {"id": f"m{own}", "type": kind, "source": source, "created_at": at, "content": content, **more}


def asks(own: str, source: str, name: str, args: str = "{}", **more: Any) -> dict[str, Any]:
    return message(
        own, "ToolCallRequestEvent", source, [{"id": f"c{own}", "name": name, "arguments": args}], **more
    )


def gets(own: str, source: str, of: str, name: str, content: str, *, failed: bool = False) -> dict[str, Any]:
    result = {"call_id": f"c{of}", "name": name, "content": content, "is_error": failed}
    return message(own, "ToolCallExecutionEvent", source, [result])


TALK = [
    message("1", "TextMessage", "user", "refund"),
    asks("2", "triage", "transfer_to_refunds", models_usage={"prompt_tokens": 5, "completion_tokens": 2}),
    gets("3", "triage", "2", "transfer_to_refunds", "Transferred to refunds."),
    message("4", "HandoffMessage", "triage", "Transferred to refunds.", target="refunds"),
    asks("5", "refunds", "lookup", '{"id": 1}'),
    gets("6", "refunds", "5", "lookup", "not found", failed=True),
    message("7", "TextMessage", "refunds", "Done. TERMINATE"),
]


def lines(*rows: Any) -> bytes:
    return b"".join((row if isinstance(row, str) else json.dumps(row)).encode() + b"\n" for row in rows)


def told(*rows: Any) -> list[dict[str, Any]]:
    return merged(records(lines(*rows), "autogen")[0])


def logged(one: dict[str, Any], stage: str = "SEND", **payload: Any) -> dict[str, Any]:
    agent = f"{one['source']}_{RUN}/{RUN}"
    text = json.dumps(payload or {"message": one})
    return {
        "type": "Message",
        "payload": text,
        "sender": agent,
        "receiver": None,
        "delivery_stage": f"DeliveryStage.{stage}",
    }


def test_three_records_of_a_transfer_are_one_handoff() -> None:
    """The call, the fixed sentence, the word of it; the sentence says nothing of what came of it."""
    (handoff,) = of_kind(told(*TALK), "handoff")
    assert (handoff["agent"], handoff["target"], handoff["open"], "result" in handoff) == (
        "triage",
        "refunds",
        False,
        False,
    )
    (alone,) = of_kind(told(message("4", "HandoffMessage", "a", "over to you", target="b")), "handoff")
    assert (alone["target"], alone["args"]) == ("b", {"message": "over to you"})


def test_a_call_has_its_result_and_error_and_the_lanes_are_the_speakers() -> None:
    """A person's turn goes to the agent that takes it."""
    found = told(*TALK)
    (tool,) = of_kind(found, "tool")
    assert (tool["agent"], tool["result"], tool["error_class"], tool["open"]) == (
        "refunds",
        "not found",
        "tool_error",
        False,
    )
    turn = next(event for event in found if event.get("external_input"))
    assert (turn["agent"], turn["tool"]) == ("triage", "user")
    assert [(event["tokens_in"], event["tokens_out"]) for event in of_kind(found, "model")] == [(5, 2)]


def test_a_log_that_tells_each_message_six_times_tells_it_once() -> None:
    """With words between the lines, results again at the end, and the logger's own line on the call."""
    call = {
        "type": "ToolCall",
        "tool_name": "lookup",
        "arguments": {"id": 1},
        "result": "not found",
        "agent_id": f"refunds_{RUN}/{RUN}",
    }
    rows: list[Any] = []
    for one in TALK:
        rows += [logged(one), "Token count has been done", logged(one, "DELIVER")]
        rows += [call] if one["id"] == "m5" else []
    rows.append(logged(TALK[6], response={"chat_message": TALK[6], "inner_messages": TALK[4:6]}))
    found, report = records(lines(*rows))
    events = [event for event in merged(found) if event["tool"] != "text"]
    assert {event["run_id"] for event in events} == {RUN}
    plain = told(*TALK)
    assert [{**event, "run_id": 0} for event in events] == [{**event, "run_id": 0} for event in plain]
    assert report.unknown == {"line of plain text": 7}


def test_a_log_without_messages_is_read_from_its_call_lines() -> None:
    """Then nothing else tells of the calls."""
    rows = [
        {
            "type": "LLMCall",
            "agent_id": "a/default",
            "prompt_tokens": 3,
            "completion_tokens": 1,
            "messages": [],
        },
        {"type": "ToolCall", "tool_name": "f", "arguments": {"x": 1}, "result": "y", "agent_id": "a/default"},
        {
            "type": "ToolCall",
            "tool_name": "transfer_to_b",
            "arguments": {},
            "result": "ok",
            "agent_id": "a/default",
        },
        {
            "type": "MessageHandlerException",
            "payload": "x",
            "handling_agent": "b/default",
            "exception": "ValueError: no",
        },
    ]
    found = merged(records(lines(*rows))[0])
    assert [(e["agent"], e["kind"], e.get("target"), e.get("error_class")) for e in found] == [
        ("a", "model", None, None),
        ("a", "tool", None, None),
        ("a", "handoff", "b", None),
        ("b", "log", None, "ValueError"),
    ]


def test_a_result_repeats_its_messages_and_says_why_it_stopped() -> None:
    """A limit that was reached is no word of success."""
    whole = {"messages": TALK, "stop_reason": "Text 'TERMINATE' mentioned"}
    assert told(*TALK, whole) == told(*TALK)
    one, two = (
        told({"messages": TALK[:6], "stop_reason": reason})
        for reason in ("Text 'DONE' mentioned", "Maximum number of messages 5 reached")
    )
    assert [e["kind"] for e in (one[-1], two[-1])] == ["claim", "log"]
    document = json.dumps(whole, indent=1).encode()
    kinds = [[e["kind"] for e in merged(records(data)[0])] for data in (document, lines(*TALK))]
    assert kinds[0] == kinds[1]


def test_code_that_ran_has_its_exit_code_and_attempt() -> None:
    """Attempts are counted from one."""
    rows = [
        message(
            "1", "CodeGenerationEvent", "coder", "x", code_blocks=[{"code": "print(1)"}], retry_attempt=0
        ),
        message("2", "CodeExecutionEvent", "coder", retry_attempt=1, result={"exit_code": 2, "output": "no"}),
        message("3", "UserInputRequestedEvent", "coder", request_id="r"),
    ]
    found = told(*rows)
    (ran,) = of_kind(found, "tool")
    assert (ran["args"], ran["result"], ran["error_class"], ran["attempt"]) == (
        [{"code": "print(1)"}],
        "no",
        "exit_2",
        2,
    )
    assert [(event["target"], event["open"]) for event in of_kind(found, "wait")] == [("user", True)]


@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, [None], True])
def test_a_wrong_type_anywhere_is_never_an_exception(junk: Any) -> None:
    """Each field of each message is replaced in turn, plain and logged."""
    for place, row in enumerate(TALK):
        for key in row:
            changed = [*TALK[:place], {**row, key: junk}, *TALK[place + 1 :]]
            records(lines(*changed), "autogen")
            records(
                lines(
                    *(
                        {**logged(one), "payload": json.dumps({"message": one})}
                        for one in changed
                        if one.get("source")
                    )
                ),
                "autogen",
            )
    for key in ("payload", "sender", "type", "agent_id"):
        records(lines({**logged(TALK[0]), key: junk}, junk), "autogen")
    for key in ("agent_states", "type"):
        records(
            json.dumps(
                {"type": "TeamState", "agent_states": {"a": {"message_thread": [junk]}}, key: junk}
            ).encode(),
            "autogen",
        )


def test_samples_three_shapes_of_one_run_agree(shared: Path) -> None:
    """One handoff, taken up by the next turn; two equal failing look-ups; one claim."""
    folder = shared / "samples" / "autogen"
    paths = [folder / name for name in ("messages.jsonl", "events.log.jsonl", "team_state.json")]
    assert {registry.sniff(Source.of(path).head()).name for path in paths} == {"autogen"}
    facts = [
        "agent",
        "kind",
        "tool",
        "target",
        "action_signature",
        "progress_fingerprint",
        "error_class",
        "at",
        "open",
    ]
    frames = [assembled([path]).filter(~pl.col("kind").is_in(["log", "checkpoint"])) for path in paths]
    assert frames[0].select(facts).equals(frames[1].select(facts))
    assert frames[0].select(facts).equals(frames[2].select(facts))
    assert frames[0].filter(pl.col("kind").is_in(["tool", "handoff"]))["tool"].sort().to_list() == [
        "lookup_order", "lookup_order", "transfer_to_refunds",
    ]  # fmt: skip
    receipts = inferred_receipts(frames[0].lazy()).collect()
    assert receipts.filter(pl.col("event") == "accepted")["rule"].to_list() == ["turn.next"]


def test_a_log_whose_lines_begin_with_what_the_logging_format_put_there() -> None:
    """Time, logger and level before each record; the local time names no zone and is no time."""
    calls = [
        {"type": "ToolCall", "tool_name": "search", "arguments": {"q": n}, "result": "r", "agent_id": "a_1/k"}
        for n in (1, 2)
    ]
    lines = [
        f"2026-01-01 10:00:0{n},123 - autogen_core.events - INFO - {json.dumps(one)}"
        for n, one in enumerate(calls)
    ]
    found, report = records(
        "\n".join([lines[0], "2026-01-01 10:00:00,5 - x - INFO - ready", lines[1]]).encode()
    )
    assert [(event["tool"], event["args"], event.get("at")) for event in of_kind(merged(found), "tool")] == [
        ("search", {"q": 1}, None),
        ("search", {"q": 2}, None),
    ]
    assert report.unknown == {"line of plain text": 1}


def test_a_persons_word_that_hands_over_is_a_persons_turn() -> None:
    """A team that stopped for a person goes on with a handoff of his: nobody of the team handed over."""
    rows = [
        {"type": "HandoffMessage", "id": "a", "source": "user", "target": "writer", "content": "yes"},
        {
            "type": "ToolCallRequestEvent",
            "id": "b",
            "source": "writer",
            "content": [{"id": "1", "name": "save", "arguments": "{}"}],
        },
    ]
    found = events(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    assert [(one.kind, one.agent, one.external_input) for one in found if one.kind != "model"] == [
        ("message", "writer", True),
        ("tool", "writer", None),
    ]
