"""``agentlens calibrate --out``: the same inputs and seed give the same bytes, whatever the process is like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_cli_calibrate_bad import HEAD

STUCK = tuple(range(2, 40, 5))
GROUPS = 40


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Forty tasks of two runs, one of them stuck in every fifth task; receipts of a handoff; and the labels."""
    folder = tmp_path_factory.mktemp("bytes")
    events, told = folder / "events.ndjson", folder / "labels.csv"
    rows, lines = [], [HEAD]
    for n in range(2 * GROUPS):
        task, stuck = n // 2, n // 2 in STUCK and n % 2
        for i in range(9):
            same = stuck and i > 0
            rows.append(
                {
                    "run_id": f"r{n:03d}",
                    "seq": i,
                    "at": 1_790_000_000 + 1_000 * n + 10 * i,
                    "tool": f"tool{i % 3}" if not same else "search",
                    "args": {"q": "same" if same else f"q{n * 7 % 11} {i}"},
                    "result": "nothing" if same else f"{n} {i}",
                }
            )
        lines.append(f"r{n:03d}," + (f"interval,incident,1,8,t{task}" if stuck else f"run,healthy,,,t{task}"))
    events.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    told.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return events, told


def written(inputs: tuple[Path, Path], out: Path, more: list[str], **environment: str) -> dict[str, bytes]:
    """Files of one calibration in a process of its own."""
    given = {
        **os.environ,
        "AGENTLENS_KEY": "a key for the tests, long enough",
        "XDG_CONFIG_HOME": str(out.parent / "config"),
        **environment,
    }
    command = [sys.executable, "-m", "agentlens", "calibrate", str(inputs[0]), "--labels", str(inputs[1])]
    done = subprocess.run(
        [*command, "--out", str(out), *more], env=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())} | {"screen": done.stdout.encode()}


@pytest.mark.parametrize(
    "more",
    [
        ["--max-fpr", "0.1", "--max-alerts-per-hour", "20"],
        ["--max-fpr", "0.1", "--objective", "share"],
        ["--max-fpr", "0.1", "--only", "laps(4, 2, 2)", "--largest", "1", "--objective", "share"],
    ],
    ids=["rate", "share, by folds", "given rule"],
)
def test_two_processes_write_the_same_bytes(inputs, tmp_path, more):
    """Another hash seed and another number of threads change no byte of the profile, the tables or the screen."""
    one = written(inputs, tmp_path / "one", more, PYTHONHASHSEED="1", POLARS_MAX_THREADS="1")
    two = written(inputs, tmp_path / "two", more, PYTHONHASHSEED="4711", POLARS_MAX_THREADS="4")
    assert "profile.toml" in one
    assert len(one) > 20
    assert [name for name in one if one[name] != two.get(name)] == []
    assert one.keys() == two.keys()
