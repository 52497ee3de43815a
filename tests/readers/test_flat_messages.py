"""Messages of model spans that were flattened into attributes: OpenInference, OpenLLMetry, frames of Phoenix."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.readers import proto_made
from tests.readers.lanes_made import judged
from tests.readers.spans_made import agent, lines, request, span, tool
from tests.readers.test_prompts import talk, told

if TYPE_CHECKING:
    from pathlib import Path


def openinference(messages: list[dict[str, Any]], side: str) -> dict[str, Any]:
    """Return messages as the attributes of an OpenInference span."""
    made: dict[str, Any] = {}
    for n, message in enumerate(messages):
        lead = f"llm.{side}_messages.{n}.message."
        made[f"{lead}role"] = message["role"]
        for name in ("content", "tool_call_id"):
            if message.get(name):
                made[lead + name] = message[name]
        for m, call in enumerate(message.get("tool_calls", [])):
            inner = f"{lead}tool_calls.{m}.tool_call."
            made[f"{inner}id"] = call["id"]
            made[f"{inner}function.name"] = call["function"]["name"]
            made[f"{inner}function.arguments"] = call["function"]["arguments"]
    return made


def openllmetry(messages: list[dict[str, Any]], side: str) -> dict[str, Any]:
    """Return messages as the attributes of an OpenLLMetry span."""
    made: dict[str, Any] = {}
    for n, message in enumerate(messages):
        lead = f"gen_ai.{'prompt' if side == 'input' else 'completion'}.{n}."
        made[f"{lead}role"] = message["role"]
        for name in ("content", "tool_call_id"):
            if message.get(name):
                made[lead + name] = message[name]
        for m, call in enumerate(message.get("tool_calls", [])):
            made[f"{lead}tool_calls.{m}.id"] = call["id"]
            made[f"{lead}tool_calls.{m}.name"] = call["function"]["name"]
            made[f"{lead}tool_calls.{m}.arguments"] = call["function"]["arguments"]
    return made


def model(n: int, write: Any, prompt: list[Any], answer: Any) -> dict[str, Any]:
    kind = (
        {"openinference.span.kind": "LLM", "output.value": "words"}
        if write is openinference
        else {"llm.request.type": "chat", "gen_ai.system": "x"}
    )
    return span(n, "model", {**kind, **write([answer], "output"), **write(prompt, "input")}, parent=1)


WRITERS = pytest.mark.parametrize("write", [openinference, openllmetry])


@WRITERS
@pytest.mark.parametrize("how", ["json", "protobuf"])
def test_a_loop_is_seen_in_flattened_messages(write: Any, how: str, tmp_path: Path) -> None:
    """Each call once with its result, in JSON and in protobuf, whatever order the spans stand in."""
    spans = [model(n, write, *turn) for n, turn in enumerate(talk(12), 2)]
    for order in (1, -1):
        one = request(agent(1, "Finder"), *spans[::order])
        found = told(lines(one) if how == "json" else proto_made.request(one), tmp_path)
        assert found["tool"].to_list() == ["search"] * 12
        assert found["agent"].unique().to_list() == ["Finder"]
        assert (found["action_signature"].n_unique(), found["progress_fingerprint"].n_unique()) == (1, 1)
        assert found["progress_fingerprint"].null_count() == 0
        assert found["open"].any() is False
        assert found["verdict"].to_list()[-1] == "stuck_loop"


@WRITERS
def test_where_tools_have_spans_flattened_messages_count_nothing(write: Any, tmp_path: Path) -> None:
    """The one call has a span of its own."""
    spans = [model(n, write, *turn) for n, turn in enumerate(talk(1), 2)]
    ran = tool(9, "search", '{"q": "größe"}', "no rows")
    for order in (1, -1):
        found = told(lines(request(agent(1, "Finder"), *[*spans, ran][::order])), tmp_path)
        assert found["tool"].to_list() == ["search"]


def test_a_frame_of_phoenix_holds_the_same_messages_as_lists(tmp_path: Path) -> None:
    """Members are dotted names in a list of objects; the calls are those of the OTLP export."""

    def dotted(message: dict[str, Any]) -> dict[str, Any]:
        calls = [
            {f"tool_call.{name}": inner for name, inner in {
                "id": call["id"], "function.name": call["function"]["name"],
                "function.arguments": call["function"]["arguments"],
            }.items()}
            for call in message.get("tool_calls", [])
        ]  # fmt: skip
        return {
            "message.role": message["role"],
            "message.content": message.get("content"),
            "message.tool_call_id": message.get("tool_call_id"),
            "message.tool_calls": calls or None,
        }

    rows = [
        {
            "name": "model",
            "span_kind": "LLM",
            "parent_id": None,
            "context.span_id": f"{n:016x}",
            "context.trace_id": "5b8aa5a2d2c872e8321cf37308d69df2",
            "start_time": f"2026-11-30T10:00:{n:02}.000000+00:00",
            "end_time": f"2026-11-30T10:00:{n:02}.500000+00:00",
            "status_code": "OK",
            "attributes.llm.input_messages": [dotted(message) for message in prompt],
            "attributes.llm.output_messages": [dotted(answer)],
        }
        for n, (prompt, answer) in enumerate(talk(3))
    ]
    path = tmp_path / "frame.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    frame = judged(path)
    spans = [model(n, openinference, *turn) for n, turn in enumerate(talk(3), 2)]
    path.write_bytes(lines(request(*spans)))
    assert frame["tool"].to_list() == ["search"] * 3
    columns = ("action_signature", "progress_fingerprint", "open")
    assert frame.select(columns).equals(judged(path).select(columns))


def test_blocks_old_spellings_and_parts_of_content(tmp_path: Path) -> None:
    """Results as blocks in the text of a person's turn; a function call of the old kind; content in parts."""
    asked = {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.tool_calls.0.id": "t1",
             "gen_ai.completion.0.tool_calls.0.name": "look", "gen_ai.completion.0.tool_calls.0.arguments": "{}"}  # fmt: skip
    block = [{"type": "tool_result", "tool_use_id": "t1", "content": "Error: no such row", "is_error": True}]
    came = {"gen_ai.prompt.2.role": "user", "gen_ai.prompt.2.content": json.dumps(block)}
    parts = {"llm.input_messages.3.message.role": "tool", "llm.input_messages.3.message.tool_call_id": "t2",
             "llm.input_messages.3.message.contents.0.message_content.type": "text",
             "llm.input_messages.3.message.contents.0.message_content.text": "seven"}  # fmt: skip
    again = {"llm.output_messages.0.message.tool_calls.0.tool_call.id": "t2",
             "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "look"}  # fmt: skip
    old = {"llm.output_messages.0.message.role": "assistant",
           "llm.output_messages.0.message.function_call_name": "transfer_to_writer",
           "llm.output_messages.0.message.function_call_arguments_json": "{}"}  # fmt: skip
    chat, llm = {"llm.request.type": "chat"}, {"openinference.span.kind": "LLM"}
    spans = [
        span(2, "a", chat | asked, parent=1),
        span(3, "b", {**chat, **came, **again}, parent=1),
        span(4, "c", {**llm, **parts, **old}, parent=1),
    ]
    found = told(lines(request(agent(1, "Finder"), *spans)), tmp_path)
    assert found.select("kind", "tool", "target", "error_class", "open").rows() == [
        ("tool", "look", None, "error", False),
        ("tool", "look", None, None, False),
        ("handoff", "transfer_to_writer", "writer", None, True),
    ]
