"""Ingest of OTLP lines, end to end into Parquet, beside `orjson.loads` alone walking the same lines.

The file is made once a call: model spans that carry the conversation so far (as JSON text, as instrumentations
write it) and tool spans with arguments and results, ten spans a line.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from benchmarks._measure import Row, alone, growing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FULL_BYTES = 250_000_000
SPANS_A_LINE = 10


def run(scale: float = 1.0) -> Iterator[Row]:
    """Measure ingest of up to ``scale`` x 250 MB with the default number of processes."""
    yield from growing(_at, FULL_BYTES * scale)


def _at(times: int, size: float) -> Row:
    with tempfile.TemporaryDirectory(prefix="agentlens-bench-") as folder:
        source = Path(folder, "spans.jsonl")
        spans = write_spans(source, int(size))
        written = source.stat().st_size
        plain = alone("benchmarks.ingest:walk", str(source), repeats=3)
        tries = [
            alone("benchmarks.ingest:ingest", str(source), str(Path(folder, f"lake{n}")), family=True)
            for n in range(3)
        ]
    middle = sorted(tries, key=lambda one: one.seconds)[1]
    return middle.row(
        "OTLP lines into a lake",
        growth=times,
        events=middle.told,
        bytes=written,
        ratios={
            "speed of ingest / orjson.loads (at least 0.5)": plain.seconds / middle.seconds,
            "processor time, ingest / orjson.loads": middle.cpu_s / plain.cpu_s,
        },
        told={"spans": spans, "orjson.loads MB/s": written / 1e6 / plain.seconds},
    )


def walk(source: str) -> Callable[[], None]:
    """Decode every line, keep nothing."""

    def work() -> None:
        with Path(source).open("rb") as lines:
            for line in lines:
                orjson.loads(line)

    return work


def ingest(source: str, lake: str, workers: int = 0) -> Callable[[], int]:
    """Ingest one file into a new lake; gives the number of events."""
    from agentlens.lake import ingest
    from agentlens.normalise.digest import Key
    from agentlens.normalise.rows import Normaliser
    from agentlens.normalise.tables import Tables
    from agentlens.readers import registry

    registry.formats()  # loading modules is no part of reading
    normaliser = Normaliser(key=Key.public_demo(), tables=Tables.load())
    return lambda: ingest(source, lake, normaliser=normaliser, workers=workers or None).events


# -- the file

_WORDS = (  # noqa: SIM905 - a sentence reads better than a list
    "the order was shipped to a different address than requested and support asked for another look at "
    'payload {"status": 200} retry later because rate limits apply /srv/app/main.py line 42 in handle '
    "customer report shows seven open items café résumé naïve \\n \\t tab quote"
).split()


def write_spans(path: Path, size: int, seed: int = 7) -> int:
    """Write about ``size`` bytes of OTLP lines; return the number of spans."""
    draw = random.Random(seed)
    texts = ["\n".join(_line(draw) for _ in range(draw.randrange(2, 36))) for _ in range(600)]
    written = count = run_number = 0
    with path.open("wb") as sink:
        while written < size:
            spans = list(_run_spans(draw, texts, run_number))
            run_number += 1
            count += len(spans)
            for low in range(0, len(spans), SPANS_A_LINE):
                written += sink.write(orjson.dumps(_request(spans[low : low + SPANS_A_LINE])) + b"\n")
    return count


def _line(draw: random.Random) -> str:
    """Return one line of a result or a message, as long as lines of code and logs are."""
    return " " * draw.choice((0, 0, 4, 8)) + " ".join(draw.choices(_WORDS, k=draw.randrange(3, 16)))


def _run_spans(draw: random.Random, texts: list[str], number: int):
    trace = f"{draw.getrandbits(128):032x}"
    root = f"{draw.getrandbits(64):016x}"
    at = 1_790_000_000_000_000_000 + number * 60_000_000_000
    talk = [_said("user", draw.choice(texts))]
    for step in range(draw.randrange(4, 24)):
        tool, path = (
            draw.choice(("read_file", "search", "run_tests", "edit")),
            f"src/module_{draw.randrange(40)}.py",
        )
        arguments = json.dumps({"path": path, "query": draw.choice(texts)[:120], "limit": step % 5})
        result = draw.choice(texts) * draw.choice((1, 1, 1, 4))
        began, chat = at + step * 2_000_000_000, f"{draw.getrandbits(64):016x}"
        yield _span(
            (trace, chat, root), "chat model-x", (began, began + 900_000_000), kind=3,
            facts={
                "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "model-x",
                "gen_ai.response.model": "model-x-2026", "gen_ai.response.finish_reasons": "tool_calls",
                "gen_ai.usage.input_tokens": 900 + 150 * step, "gen_ai.usage.output_tokens": 80,
                "gen_ai.input.messages": json.dumps(talk[-12:]),
                "gen_ai.output.messages": json.dumps([_said("assistant", draw.choice(texts))]),
            },
        )  # fmt: skip
        yield _span(
            (trace, f"{draw.getrandbits(64):016x}", root), f"execute_tool {tool}",
            (began + 900_000_000, began + 1_900_000_000),
            facts={
                "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.type": "function",
                "gen_ai.tool.call.id": f"call_{draw.getrandbits(64):016x}",
                "gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": result,
            },
        )  # fmt: skip
        talk += [_said("assistant", draw.choice(texts)), _said("tool", result)]
    yield _span(
        (trace, root, ""), "invoke_agent worker", (at, at + 60_000_000_000),
        facts={
            "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "worker",
            "gen_ai.conversation.id": f"c{number}",
        },
    )  # fmt: skip


def _said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _span(
    ids: tuple[str, str, str], name: str, times: tuple[int, int], *, facts: dict[str, Any], kind: int = 1
):
    attributes = [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in facts.items()
    ]
    span = {"traceId": ids[0], "spanId": ids[1], "parentSpanId": ids[2], "name": name, "kind": kind}
    span |= {"startTimeUnixNano": str(times[0]), "endTimeUnixNano": str(times[1])}
    return span | {"attributes": attributes, "status": {}}


def _request(spans: list[dict[str, Any]]) -> dict[str, Any]:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "bench"}}]}
    return {
        "resourceSpans": [
            {"resource": resource, "scopeSpans": [{"scope": {"name": "agent"}, "spans": spans}]}
        ]
    }
