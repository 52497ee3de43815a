"""A run of very many events: what an ingest of it takes is bounded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EVENTS = 500_000
MOST_MB = 950
"""700 were measured; 1,290 where all columns of all rows are held at once."""
_INGEST = """
import resource, sys
from agentlens.lake import ingest
from tests.lake.exports import NORMALISER
print(ingest(sys.argv[1], sys.argv[2], normaliser=NORMALISER, workers=1).events)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is in other units elsewhere")
def test_a_run_of_half_a_million_events_takes_little_memory(tmp_path):
    """Every event is there, and memory stays below what a table of all columns would need."""
    source = tmp_path / "long.ndjson"
    with source.open("w", encoding="utf-8") as sink:
        for seq in range(EVENTS):
            event = {"run_id": "long", "agent": f"a{seq % 7}", "seq": seq // 7, "at": 1_790_000_000 + seq}
            event |= {"tool": "read", "args": {"path": f"f{seq % 400}"}, "result": f"found {seq}"}
            sink.write(json.dumps(event) + "\n")
    done = subprocess.run(
        [sys.executable, "-c", _INGEST, str(source), str(tmp_path / "lake")],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    events, megabytes = map(int, done.stdout.split())
    assert events == EVENTS
    assert megabytes < MOST_MB
