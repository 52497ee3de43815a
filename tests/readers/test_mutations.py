"""Files broken byte by byte, whatever their shape: a report, never an exception."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.readers import registry
from agentlens.readers.base import Report
from agentlens.readers.source import Source
from tests.readers import (
    claude,
    proto_made,
    test_ag2_runtime,
    test_atif,
    test_bad_input,
    test_flat_messages,
    test_inspect_ai,
    test_jaeger,
    test_langfuse,
    test_langgraph,
    test_langsmith,
    test_mlflow,
    test_openai_agents,
    test_otel_sdk,
    test_otlp_calls,
    test_phoenix,
    test_prompts,
    test_transcript,
)
from tests.readers.spans_made import SMALL, lines, request, respelled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def trajectory() -> dict[str, Any]:
    """Return an ATIF trajectory with two calls, one of them to a sub-agent, and what came back."""
    calls = [test_atif.called("c", cmd="1"), test_atif.called("d", "delegate", task="x")]
    seen = test_atif.saw(
        {"source_call_id": "c", "content": [{"type": "text", "text": "a"}]},
        {"source_call_id": "d", "content": "b", "subagent_trajectory_ref": [{"trajectory_id": "k"}]},
    )
    inner = test_atif.document(
        test_atif.step(1, tool_calls=[test_atif.called("e", cmd="2")]), trajectory_id="k"
    )
    metrics = {"prompt_tokens": 3, "completion_tokens": 1, "cost_usd": 0.5}
    return test_atif.document(
        test_atif.step(1, "user", message="go"),
        test_atif.step(2, tool_calls=calls, observation=seen, metrics=metrics),
        subagent_trajectories=[inner],
    )


def log_messages() -> list[bytes]:
    """Return requests of log records in protobuf."""
    told = test_otlp_calls.logs(*test_otlp_calls.ROWS).splitlines()
    return [proto_made.request(json.loads(line)) for line in told]


def flat_words() -> bytes:
    """Return model spans whose messages stand in their attributes, in both dialects."""
    turns = enumerate(test_prompts.talk(2), 2)
    writers = (test_flat_messages.openinference, test_flat_messages.openllmetry)
    return lines(request(*(test_flat_messages.model(n, writers[n % 2], *turn) for n, turn in turns)))


MAKERS: dict[str, tuple[str, Callable[[Path], bytes]]] = {
    "otlp-proto": ("otlp-proto", lambda _: proto_made.request(SMALL)),
    "otlp-proto prefixed": ("otlp-proto", lambda _: proto_made.prefixed(*[proto_made.request(SMALL)] * 2)),
    "otlp-logs in protobuf": ("otlp-logs", lambda _: b"".join(log_messages())),
    "otlp-logs prefixed": ("otlp-logs", lambda _: proto_made.prefixed(*log_messages())),
    "inspect archive": (
        "inspect",
        lambda _: test_inspect_ai.zipped(test_inspect_ai.sample(test_inspect_ai.tool(1))),
    ),
    "inspect document": (
        "inspect",
        lambda _: test_inspect_ai.document(test_inspect_ai.sample(test_inspect_ai.tool(1))),
    ),
    "flat messages": ("otlp-json", lambda _: flat_words()),
    "array of trajectories": ("atif", lambda _: json.dumps([trajectory()] * 2, indent=1).encode()),
    "array of lines": (
        "claude-code",
        lambda _: json.dumps(
            [json.loads(line) for line in claude.lines(*claude.everything()).splitlines()]
        ).encode(),
    ),
    "jaeger": ("jaeger", lambda _: json.dumps({"data": [test_jaeger.ONE]}, indent=1).encode()),
    "otel-sdk": (
        "otel-sdk",
        lambda _: b"\n".join(json.dumps(one, indent=4).encode() for one in test_otel_sdk.ROWS),
    ),
    "phoenix parquet": ("phoenix", test_phoenix.parquet),
    "phoenix csv": ("phoenix", lambda folder: test_phoenix.made("csv", folder)),
    "phoenix rest": ("phoenix", lambda folder: test_phoenix.made("rest", folder)),
    "phoenix otlpv1": ("phoenix", lambda folder: test_phoenix.made("otlpv1", folder)),
    "mlflow": ("mlflow", lambda _: json.dumps(test_mlflow.ONE).encode()),
    "mlflow frame": ("mlflow", test_mlflow.frame),
    "openai-agents": ("openai-agents", lambda _: test_openai_agents.data(test_openai_agents.ROWS)),
    "langfuse download": ("langfuse", lambda folder: test_langfuse.made("download", folder)),
    "langfuse parquet": ("langfuse", lambda folder: test_langfuse.made("parquet", folder)),
    "langfuse csv": ("langfuse", lambda folder: test_langfuse.made("csv", folder)),
    "otlp-json": ("otlp-json", lambda _: lines(SMALL, *test_bad_input.SPANS)),
    "otlp-json tempo": ("otlp-json", lambda _: json.dumps(respelled(SMALL, "tempo"), indent=1).encode()),
    "otlp-logs": ("otlp-logs", lambda _: test_otlp_calls.logs(*test_otlp_calls.ROWS)),
    "langsmith": ("langsmith", lambda _: test_langsmith.lines(*test_langsmith.RUNS)),
    "langsmith wire": ("langsmith", lambda _: test_langsmith.wire()),
    "langsmith parquet": (
        "langsmith",
        lambda folder: test_langsmith.parquet(folder / "runs.parquet").read_bytes(),
    ),
    "langgraph": ("langgraph", lambda _: test_langgraph.lines(*test_langgraph.HISTORY)),
    "langgraph document": ("langgraph", lambda _: json.dumps(test_langgraph.HISTORY, indent=1).encode()),
    "langgraph sqlite": (
        "langgraph",
        lambda folder: test_langgraph.database(folder / "x.sqlite", test_langgraph.WRITES).read_bytes(),
    ),
    "ag2-runtime": (
        "ag2-runtime",
        lambda folder: test_ag2_runtime.database(folder / "y.db", functions=True).read_bytes(),
    ),
    "transcript literals": ("transcript", lambda _: test_transcript.LITERALS),
    "claude-code": ("claude-code", lambda _: claude.lines(*claude.everything())),
    "claude-stream": (
        "claude-stream",
        lambda _: claude.lines(
            {"type": "system", "subtype": "init", "session_id": "s-1"},
            claude.said_in_stream("m1", claude.asked("c1", command="ls")),
            claude.answered_in_stream(claude.came("c1", "a")),
            {"type": "result", "subtype": "success", "session_id": "s-1", "is_error": False},
        ),
    ),
    "atif": ("atif", lambda _: json.dumps(trajectory(), indent=1).encode()),
    "openai-chat": ("openai-chat", lambda _: test_bad_input.lines(test_bad_input.CHATS)),
    "native": ("native", lambda _: test_bad_input.lines(test_bad_input.NATIVE)),
}


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Cut, flip, repeat, remove or move a part."""
    broken = bytearray(data)
    start = rng.randrange(len(data))
    stop = min(len(data), start + rng.randrange(1, 300))
    how = rng.randrange(5)
    if how == 0:
        return data[:start]
    if how == 1:
        for _ in range(rng.randrange(1, 12)):
            broken[rng.randrange(len(data))] = rng.randrange(256)
    elif how == 2:
        broken[start:start] = data[start:stop]
    elif how == 3:
        del broken[start:stop]
    else:
        moved = data[start:stop]
        del broken[start:stop]
        place = rng.randrange(len(broken) + 1)
        broken[place:place] = moved
    return bytes(broken)


def survive(shape: str, folder: Path, seeds: range) -> None:
    """Read each mutation without the net that turns a failing reader into a fault."""
    name, maker = MAKERS[shape]
    found = registry.named(name)
    data = maker(folder)
    path = folder / "broken"
    for seed in seeds:
        path.write_bytes(mutated(data, random.Random(seed)))
        found.claim(Source.of(path).head())
        report = Report()
        for _ in found.read(Source.of(path), report):
            pass
        assert all(fault.reason for fault in report.faults), seed


@pytest.mark.parametrize("shape", sorted(MAKERS))
def test_mutations_never_raise(shape: str, tmp_path: Path) -> None:
    """A tenth of the mutations that a release is tried with."""
    survive(shape, tmp_path, range(200))


@pytest.mark.slow
@pytest.mark.parametrize("shape", sorted(MAKERS))
def test_many_mutations_never_raise(shape: str, tmp_path: Path) -> None:
    """Two thousand a shape."""
    survive(shape, tmp_path, range(200, 2000))
