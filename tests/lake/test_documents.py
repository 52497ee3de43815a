"""One document of hundreds of megabytes is decoded whole: its memory is bounded by its size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LARGEST, ALLOWED = 300 << 20, 4 << 30
"""A document of so many bytes may take so much memory; smaller ones their share."""
ENGINE = 64 << 20
"""What buffers and threads of the engine take once, however large the document."""
SMALL, RUN = 1_000, 20
_INGEST = """
import resource, sys
from agentlens.lake import ingest
from tests.lake.exports import NORMALISER
report = ingest(sys.argv[1], sys.argv[2], normaliser=NORMALISER, workers=1)
print(report.events, report.quarantined, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def _span(number):
    facts = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.call.id": f"c{number}",
        "gen_ai.tool.call.arguments": json.dumps({"q": f"words and more words {number % 97}"}),
        "gen_ai.tool.call.result": f"found {number} of many things",
    }
    at = 1_790_000_000_000_000_000 + number * 1_000_000_000
    return {
        "traceId": f"{number // RUN + 1:032x}",
        "spanId": f"{number + 1:016x}",
        "name": "execute_tool search",
        "startTimeUnixNano": str(at),
        "endTimeUnixNano": str(at + 500_000_000),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in facts.items()],
    }


def _written(path, size, *, cut=False):
    """Write one OTLP document of about ``size`` bytes; return how many spans are in it."""
    count = written = 0
    with path.open("w") as sink:
        sink.write('{"resourceSpans": [{"scopeSpans": [{"spans": [')
        while written < size:
            written += sink.write((", " if count else "") + json.dumps(_span(count)))
            count += 1
        sink.write(', {"traceId": "' if cut else "]}]}]}")
    return count


def _ingested(source, lake):
    """Ingest in a process of its own; return events, records set aside, and the peak of memory."""
    done = subprocess.run(
        [sys.executable, "-c", _INGEST, str(source), str(lake)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    return tuple(map(int, done.stdout.split()))


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut off"])
@pytest.mark.parametrize(
    "size", [12 << 20, pytest.param(LARGEST, marks=pytest.mark.slow)], ids=["small", "large"]
)
def test_a_document_takes_no_more_memory_than_its_share(tmp_path, size, cut):
    """Every record of it is read, also of one that breaks off, in memory that grows with it as was promised."""
    _written(tmp_path / "tiny.json", SMALL)
    *_, before = _ingested(tmp_path / "tiny.json", tmp_path / "tiny")
    spans = _written(tmp_path / "a.json", size, cut=cut)
    events, aside, peak = _ingested(tmp_path / "a.json", tmp_path / "lake")
    assert (events, aside) == (spans, int(cut))
    assert peak - before < size * ALLOWED // LARGEST + ENGINE * (size < LARGEST)
    assert peak < ALLOWED
