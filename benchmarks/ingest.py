"""Ingest of OTLP lines, end to end into Parquet, beside `orjson.loads` alone walking the same lines.

The file is made once a call: model spans that carry the conversation so far (as JSON text, as instrumentations
write it) and tool spans with arguments and results, ten spans a line.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import orjson

FULL_BYTES = 250_000_000
SPANS_A_LINE = 10
_CHILD = """
import os, sys, time
from agentlens.lake import ingest
from agentlens.normalise.digest import Key
from agentlens.normalise.rows import Normaliser
from agentlens.normalise.tables import Tables
normaliser = Normaliser(key=Key.public_demo(), tables=Tables.load())
began, worked = time.perf_counter(), sum(os.times()[:4])
report = ingest(sys.argv[1], sys.argv[2], normaliser=normaliser, workers=int(sys.argv[3]) or None)
print(time.perf_counter() - began, sum(os.times()[:4]) - worked, report.events, report.runs, report.quarantined)
"""


def run(scale: float = 1.0) -> dict[str, Any]:
    """Measure one ingest of ``scale`` x 250 MB with the default number of processes."""
    with tempfile.TemporaryDirectory(prefix="agentlens-bench-") as folder:
        source = Path(folder, "spans.jsonl")
        spans = write_spans(source, int(FULL_BYTES * scale))
        size = source.stat().st_size
        plain, plain_cpu = min(walk(source) for _ in range(3))
        tries = [ingest_once(source, Path(folder, f"lake{n}")) for n in range(3)]
    seconds, cpu, events, peak = min(tries)
    return {
        "file MB": size / 1e6,
        "spans": spans,
        "events": events,
        "orjson.loads s": plain,
        "orjson.loads CPU s": plain_cpu,
        "orjson.loads MB/s": size / 1e6 / plain,
        "ingest s": seconds,
        "ingest CPU s, all processes": cpu,
        "ingest MB/s": size / 1e6 / seconds,
        "ingest events/s": events / seconds,
        "speed of ingest / orjson.loads (target 0.4)": plain / seconds,
        "peak memory of all processes MB (limit 1000)": peak / 1e6,
    }


def walk(source: Path) -> tuple[float, float]:
    """Decode every line, keep nothing; return seconds and CPU seconds."""
    began, worked = time.perf_counter(), time.process_time()
    with source.open("rb") as lines:
        for line in lines:
            orjson.loads(line)
    return time.perf_counter() - began, time.process_time() - worked


def ingest_once(source: Path, lake: Path, workers: int = 0) -> tuple[float, float, int, int]:
    """Ingest in a process of its own; return seconds, CPU seconds, events, and the peak of memory."""
    command = [sys.executable, "-c", _CHILD, str(source), str(lake), str(workers)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = Peak(child.pid)
    out, _ = child.communicate()
    memory = peak.stop()
    if child.returncode:
        raise RuntimeError(f"ingest ended with {child.returncode}")
    seconds, cpu, events = out.split()[:3]
    return float(seconds), float(cpu), int(events), memory


class Peak:
    """Watches the resident memory of a process and its children, summed (shared pages count in each)."""

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self.bytes = max(self.bytes, sum(map(resident, family(self._pid))))

    def stop(self) -> int:
        """Return the peak in bytes."""
        self._stop.set()
        self._thread.join()
        return self.bytes


def family(pid: int) -> list[int]:
    """Return a process and everything it started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(one for child in children for one in family(int(child)))]


def resident(pid: int) -> int:
    """Return the resident bytes of a process, 0 where it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    except (OSError, IndexError):
        return 0


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
