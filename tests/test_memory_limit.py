"""Too little memory: a clear end or none at all, never a wrong number, never a broken lake.

Native code that is refused memory or a thread may end the process by itself, or wait for that thread for ever;
then what counts is what it leaves behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import polars as pl
import pytest

import agentlens
from agentlens.cli import main
from agentlens.lake import Lake

if TYPE_CHECKING:
    from pathlib import Path

MORE_MB = (1, 60, 300, 64_000)
"""What the work may take beyond what the loaded program has."""
PATIENCE_S = 40
CHILD = """
import resource, sys
import duckdb, pyarrow.parquet, scipy.special
import agentlens.verbs.ingest, agentlens.verbs.loops, agentlens.lake.ingest, agentlens.lake.rewrite
from agentlens.cli import main
loaded = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = loaded + (int(sys.argv[1]) << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
raise SystemExit(main(sys.argv[2:]))
"""


def events(path: Path, runs: range) -> Path:
    """Write native events: every third run goes round in circles."""
    with path.open("w", encoding="utf-8") as sink:
        for run in runs:
            for seq in range(30):
                word = "same" if run % 3 == 0 else f"{run} {seq}"
                event = {"run_id": f"r{run:04}", "seq": seq, "tool": "read", "action_signature": word}
                sink.write(json.dumps({"kind": "tool", **event, "progress_fingerprint": word}) + "\n")
    return path


def limited(megabytes: int, *words: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run the command with so much address space beyond what its code takes; one that waits for ever is ended."""
    command = [sys.executable, "-c", CHILD, str(megabytes), *words]
    env = {**os.environ, "XDG_CONFIG_HOME": str(home), "POLARS_MAX_THREADS": "2"}
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        try:
            out, err = child.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
    return subprocess.CompletedProcess(command, child.returncode, out, err)


def ended_well(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether it succeeded; where it could still say that it did not, it said why in one line.

    Loading a library that finds no room raises whatever that library likes, so other codes are allowed.
    """
    if done.returncode == 2:
        assert "Traceback" not in done.stderr
        assert any(line.startswith("agentlens ") for line in done.stderr.splitlines())
    return done.returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="address space can be limited on Linux only")
def test_loops_with_too_little_memory_give_the_right_tables_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables written under any limit are the right ones; else those of before stay, and the lake is whole."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    lake, out = tmp_path / "lake", tmp_path / "out"
    assert main(["ingest", str(events(tmp_path / "events.jsonl", range(300))), "--into", str(lake)]) == 0
    right = agentlens.loops(lake)
    agentlens.loops(lake, rule="same_call", out=out)
    before = pl.read_parquet(out / "verdicts.parquet")
    assert not before.equals(right.verdicts)
    fine = []
    for megabytes in MORE_MB:
        fine.append(ended_well(limited(megabytes, "loops", str(lake), "--out", str(out), home=tmp_path)))
        found = pl.read_parquet(out / "verdicts.parquet")
        # one that was ended while it printed has written its tables
        assert found.equals(right.verdicts) or (found.equals(before) and not any(fine))
    assert not fine[0]
    assert fine[-1]
    assert Lake.open(lake).events().collect().height == 9_000
    assert not list(out.glob(".*"))


@pytest.mark.skipif(sys.platform != "linux", reason="address space can be limited on Linux only")
def test_ingest_with_too_little_memory_leaves_a_whole_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under any limit a lake has all of a file or nothing of it, and the next ingest brings the rest."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    lake = tmp_path / "lake"
    assert main(["ingest", str(events(tmp_path / "one.jsonl", range(20))), "--into", str(lake)]) == 0
    other = events(tmp_path / "other.jsonl", range(20, 420))
    fine = []
    for megabytes in MORE_MB:
        fine.append(ended_well(limited(megabytes, "ingest", str(other), "--into", str(lake), home=tmp_path)))
        held = Lake.open(lake).events().select("run_id", "seq").collect()
        assert held.height == 12_600 or (held.height == 600 and not any(fine))
        assert held.is_unique().all()
    assert not fine[0]
    assert fine[-1]


def test_a_stop_of_native_code_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine's panic is no `Exception` of Python; a verb ends with one line and code 2 all the same."""

    def panics(_args: object) -> int:
        raise pl.exceptions.PanicException("no room for a thread\n  at somewhere")

    monkeypatch.setattr("agentlens.verbs.loops.run", panics)
    assert main(["loops", "anything"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("agentlens loops: the engine stopped: no room for a thread; what was there")
    assert len(told.splitlines()) == 1


def test_a_library_that_finds_no_room_to_load_is_told_as_want_of_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Libraries wrap the loader's words in their own; any other failed import is a fault to be seen whole."""

    def lacks_room(_args: object) -> int:
        raise ImportError("this install seems to be broken") from ImportError(
            "x.so: failed to map segment from shared object"
        )

    def is_missing(_args: object) -> int:
        raise ImportError("no module named x")

    monkeypatch.setattr("agentlens.verbs.loops.run", lacks_room)
    assert main(["loops", "anything"]) == 2
    assert capsys.readouterr().err.startswith("agentlens loops: out of memory; what was there")
    monkeypatch.setattr("agentlens.verbs.loops.run", is_missing)
    with pytest.raises(ImportError, match="no module named x"):
        main(["loops", "anything"])
