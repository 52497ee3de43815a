"""Killed at any moment: what a command changes is the old or the new, and the same command again finishes it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from agentlens.calibrate.label_store import LabelStore
from agentlens.calibrate.profile import load_profile
from agentlens.cli import main
from agentlens.lake import Lake
from tests.lake.exports import event, run_of, write

ROOT = Path(__file__).resolve().parents[1]
RUNS = 12
KILLED = """
import sys
import agentlens.verbs.forget, agentlens.verbs.label, agentlens.verbs.calibrate, agentlens.lake.rewrite
from agentlens.cli import main
print("ready", flush=True)
raise SystemExit(main(sys.argv[1:]))
"""
COMMANDS = {
    "forget": ("forget", "lake", "--run", "r3"),
    "label": ("label", "import", "lake", "more.ndjson"),
    "calibrate": ("calibrate", "lake", "--labels", "labels.ndjson", "--out", "out"),
}


def labels(path: Path, reviewer: str) -> Path:
    """Write one label a run: those that do one thing all along are incidents."""
    plain = {"scope": "run", "source": "human", "reviewer": reviewer}
    rows = [
        {"run_id": f"r{run}", "label": "healthy" if run % 4 else "incident"} | plain for run in range(RUNS)
    ]
    return write(path, *rows)


def made(home: Path) -> None:
    """Make a lake with labels, and a profile of it."""
    stuck = [event(f"r{run}", seq, args={}, result="same") for run in range(0, RUNS, 4) for seq in range(20)]
    rows = [row for run in range(RUNS) if run % 4 for row in run_of(f"r{run}", 20)]
    write(home / "in.ndjson", *stuck, *rows)
    labels(home / "labels.ndjson", "a")
    labels(home / "more.ndjson", "b")
    assert main(["ingest", "in.ndjson", "--into", "lake"]) == 0
    assert main(["label", "import", "lake", "labels.ndjson"]) == 0


def told(home: Path) -> str:
    """Say what lake, labels and profile hold; each must be whole to be read."""
    lake = Lake.open(home / "lake")
    tables = [lake.events().collect(), lake.records().collect(), LabelStore.of(lake).read()]
    profile = home / "out" / "profile.toml"
    tables += [pl.read_parquet(path) for path in sorted((home / "out").glob("*.parquet"))]
    return json.dumps(
        [[table.to_dicts() for table in tables[:3]], load_profile(profile) if profile.exists() else None],
        default=str,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_killed_and_run_again(
    command: str,
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A lake, its labels, and a profile beside it, each as before or as after; nothing else is left in the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    made(tmp_path)
    before = told(tmp_path)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", KILLED, *COMMANDS[command]]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(random.Random(seed).random() * 0.8)
        child.send_signal(signal.SIGKILL)
        child.communicate()
    left = told(tmp_path)
    assert main([*COMMANDS[command]]) == 0
    after = told(tmp_path)
    assert left in {before, after}
    hidden = [path.name for path in tmp_path.rglob("*") if path.name.startswith(".") and path.name != ".lock"]
    assert not hidden
    capsys.readouterr()
