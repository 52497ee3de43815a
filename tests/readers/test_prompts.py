"""Traces of model spans alone: what was asked for and what came back is in their words, each thing once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from agentlens.lake.direct import read_file
from tests.readers.lanes_made import NORMALISER, judged
from tests.readers.spans_made import agent, lines, request, span, tool
from tests.readers.test_langsmith import lines as runs
from tests.readers.test_langsmith import run

if TYPE_CHECKING:
    from pathlib import Path

USER = {"role": "user", "content": "größe?"}


def asks(n: int, name: str = "search") -> dict[str, Any]:
    call = {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": '{"q": "größe"}'}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def came(n: int) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"c{n}", "content": "no rows"}


def parts(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message as the GenAI conventions write it."""
    if message["role"] == "tool":
        part = {"type": "tool_call_response", "id": message["tool_call_id"], "response": message["content"]}
    elif message.get("tool_calls"):
        call = message["tool_calls"][0]
        told = json.loads(call["function"]["arguments"])
        part = {"type": "tool_call", "id": call["id"], "name": call["function"]["name"], "arguments": told}
    else:
        part = {"type": "text", "content": message["content"]}
    return {"role": message["role"], "parts": [part]}


def talk(turns: int) -> list[tuple[list[dict[str, Any]], dict[str, Any]]]:
    """Return prompts and answers; every prompt repeats all before it."""
    prompt: list[dict[str, Any]] = [USER]
    found = []
    for n in range(turns):
        found.append((list(prompt), asks(n)))
        prompt += [asks(n), came(n)]
    found.append((prompt, {"role": "assistant", "content": "nothing"}))
    return found


def genai(n: int, prompt: list[dict[str, Any]], answer: dict[str, Any]) -> dict[str, Any]:
    plain = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps([parts(one) for one in prompt]),
        "gen_ai.output.messages": [parts(answer)],
    }
    return span(n, "chat m", plain, parent=1)


def openinference(n: int, prompt: list[dict[str, Any]], answer: dict[str, Any]) -> dict[str, Any]:
    plain = {
        "openinference.span.kind": "LLM",
        "input.value": json.dumps({"model": "m", "messages": prompt}),
        "output.value": json.dumps({"id": "r", "choices": [{"index": 0, "message": answer}]}),
    }
    return span(n, "ChatCompletion", plain, parent=1)


def told(data: bytes, folder: Path) -> pl.DataFrame:
    path = folder / "export"
    path.write_bytes(data)
    return judged(path)


@pytest.mark.parametrize("write", [genai, openinference])
def test_a_loop_is_seen_in_the_words_of_models(write: Any, tmp_path: Path) -> None:
    """Each call once, with the result that the next prompt ends with; the lane is that of the spans around."""
    spans = [write(n, *turn) for n, turn in enumerate(talk(5), 2)]
    for order in (1, -1):
        found = told(lines(request(agent(1, "Finder"), *spans[::order])), tmp_path)
        assert found["tool"].to_list() == ["search"] * 5
        assert found["agent"].unique().to_list() == ["Finder"]
        assert (found["action_signature"].n_unique(), found["progress_fingerprint"].n_unique()) == (1, 1)
        assert found["progress_fingerprint"].null_count() == 0
        assert found["verdict"].to_list()[-1] == "stuck_loop"


@pytest.mark.parametrize("write", [genai, openinference])
def test_where_tools_have_spans_these_are_the_actions(write: Any, tmp_path: Path) -> None:
    """Nothing is counted twice, whichever comes first, and nothing that was asked for is left beside it."""
    spans = [write(n, *turn) for n, turn in enumerate(talk(1), 2)]
    ran = tool(9, "search", '{"q": "größe"}', "no rows")
    for order in (1, -1):
        path = tmp_path / "export"
        path.write_bytes(lines(request(agent(1, "Finder"), *[*spans, ran][::order])))
        events = read_file(path, NORMALISER).events.collect()
        assert events.filter(pl.col("tool") == "search").height == 1


def test_an_answer_that_nobody_came_back_to_is_open(tmp_path: Path) -> None:
    """The program ended there; a handoff that was asked for is one."""
    last = [genai(2, [USER], asks(1)), genai(3, [USER, asks(1), came(1)], asks(2, "transfer_to_writer"))]
    found = told(lines(request(agent(1, "Finder"), *last)), tmp_path)
    assert found.select("kind", "tool", "target", "open").rows() == [
        ("tool", "search", None, False),
        ("handoff", "transfer_to_writer", "writer", True),
    ]


def test_runs_of_langsmith_and_answers_of_other_providers(tmp_path: Path) -> None:
    """Messages of LangChain as they are serialised, blocks of content, parts of Gemini."""
    serial = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"]}
    called = {"content": "", "type": "ai", "tool_calls": [{"name": "look", "args": {"c": 1}, "id": "k1"}]}
    block = {"type": "tool_use", "id": "k2", "name": "look", "input": {"c": 1}}
    google = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"c": 1}}}]}
    answers = [
        {"generations": [[{"message": {**serial, "kwargs": called}}]]},
        {"role": "assistant", "type": "message", "content": [{"type": "text", "text": "hm"}, block]},
        {"candidates": [{"content": google}]},
        {"output": [{"type": "function_call", "call_id": "k4", "name": "look", "arguments": '{"c": 1}'}]},
    ]
    for n, answer in enumerate(answers, 1):
        found = told(runs(run(n, "llm", "Chat", outputs=answer, inputs={"messages": [USER]})), tmp_path)
        assert found.select("kind", "tool").rows() == [("tool", "look")], answer
        assert found["action_signature"].null_count() == 0


@pytest.mark.parametrize(
    "junk",
    [
        3,
        "tool_call",
        [],
        [[[[[[[[[[[3]]]]]]]]]]],
        {"choices": 3},
        {"parts": [3, {"functionCall": 4}]},
        [{"role": "tool"}],
        '{"tool_calls": [',
    ],
)
def test_words_of_any_shape_never_raise(junk: Any, tmp_path: Path) -> None:
    """What cannot be understood asks for nothing."""
    plain = {
        "openinference.span.kind": "LLM",
        "input.value": json.dumps(junk),
        "output.value": json.dumps(junk),
    }
    assert told(lines(request(span(2, "x", plain))), tmp_path).is_empty()


def test_model_spans_of_the_ai_sdk(tmp_path: Path) -> None:
    """Calls that the client itself carries out have no spans: parts of messages, in both of its versions."""
    said: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    spans = []
    for n in range(3):
        args = "input" if n else "args"
        asked = {"toolCallId": f"k{n}", "toolName": "getWeather", args: json.dumps({"location": "Ulm"})}
        came = {"output": {"type": "error-text", "value": "late"}} if n else {"result": "rain"}
        spans.append(
            span(
                n + 2,
                "ai.generateText.doGenerate",
                {
                    "ai.operationId": "ai.generateText.doGenerate",
                    "ai.prompt.messages": json.dumps(said),
                    "ai.response.toolCalls": json.dumps([asked]),
                },
            )
        )
        part = {"type": "tool-call", **asked, args: json.loads(asked[args])}
        result = {"type": "tool-result", "toolCallId": f"k{n}", "toolName": "getWeather", **came}
        said = [*said, {"role": "assistant", "content": [part]}, {"role": "tool", "content": [result]}]
    found = told(lines(request(*spans)), tmp_path)
    assert found.select("tool", "error_class", "open").rows() == [
        ("getWeather", None, False),
        ("getWeather", "tool_error", False),
        ("getWeather", None, True),
    ]
    assert found["action_signature"].n_unique() == 1


def test_what_came_back_is_told_to_whoever_goes_on(tmp_path: Path) -> None:
    """A handoff stays in the lane of who asked for it; a person may speak behind a result, or beside it."""
    handed = asks(2, "transfer_to_writer")
    mixed = {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "c3", "content": "late"}, {"type": "text", "text": "go on"},
    ]}  # fmt: skip
    first = [USER, asks(1), came(1), USER]
    spans = [
        agent(1, "Finder"),
        agent(9, "Writer"),
        openinference(2, [USER], asks(1)),
        openinference(3, first, handed),
        openinference(4, [*first, handed, came(2)], asks(3)) | {"parentSpanId": f"{9:016x}"},
        openinference(5, [*first, handed, came(2), asks(3), mixed], USER) | {"parentSpanId": f"{9:016x}"},
    ]
    found = told(lines(request(*spans)), tmp_path)
    assert found.select("agent", "kind", "tool", "open").rows() == [
        ("Finder", "tool", "search", False),
        ("Finder", "handoff", "transfer_to_writer", False),
        ("Writer", "tool", "search", False),
    ]
