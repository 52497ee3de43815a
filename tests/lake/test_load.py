"""Real processes at one lake, and real limits of disk and memory: never a wrong number, never a lost lake."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from agentlens.errors import LakeError
from agentlens.lake import Lake, ingest
from tests.lake.exports import NORMALISER, events, run_of, write

ROOT = Path(__file__).resolve().parents[2]
_INGEST = """
import sys
from agentlens.errors import AgentlensError
from agentlens.lake import ingest
from tests.lake.exports import NORMALISER
{before}
try:
    print(ingest(sys.argv[1], sys.argv[2], normaliser=NORMALISER, workers=int(sys.argv[3])).events)
except AgentlensError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
"""


def put(sources, lake):
    return ingest(sources, lake, normaliser=NORMALISER, workers=1)


def start(source, lake, *, before="", workers=1):
    """Start an ingest in a process of its own; ``before`` runs in it when everything is loaded."""
    return subprocess.Popen(
        [sys.executable, "-c", _INGEST.format(before=before), str(source), str(lake), str(workers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "POLARS_MAX_THREADS": "1"},
    )


def many(path, runs, length=40):
    """Write so many runs of one file, named after it."""
    return write(path, *(row for run in range(runs) for row in run_of(f"{path.stem}-{run}", length)))


def test_two_ingests_at_once_are_both_done_or_one_is_told_to_wait(tmp_path):
    """Whoever comes second is refused in one line while the first writes; nothing of either is lost or mixed."""
    files = [many(tmp_path / f"{name}.ndjson", 30) for name in "ab"]
    lake = tmp_path / "lake"
    waits = "sys.stdout.write('ready\\n'); sys.stdout.flush(); sys.stdin.readline()"
    both = [start(file, lake, before=waits) for file in files]
    done = 0
    for child in both:
        assert child.stdout.readline() == "ready\n"
    for child in both:
        out, err = child.communicate("go\n")
        if child.returncode:
            assert child.returncode == 2
            assert err.count("\n") == 1
            assert "is writing to this lake; try again" in err
        else:
            assert int(out) >= 1_200
            done += 1
    assert done >= 1
    put(files, lake)
    put(files, tmp_path / "clean")
    assert_frame_equal(events(lake), events(tmp_path / "clean"))


def test_reader_sees_whole_generations_while_ingests_follow_each_other(tmp_path):
    """Every count is that of one generation; a reader that fell two behind is told so, not given fewer rows."""
    source, lake = tmp_path / "a.ndjson", tmp_path / "lake"
    whole = {4 * length for length in range(3, 12)}
    write(source, *(row for run in range(4) for row in run_of(f"r{run}", 3)))
    put(source, lake)
    seen, late, ended = [], [], threading.Event()

    def read():
        while not ended.is_set():
            opened = None
            try:
                opened = Lake.open(lake)
                seen.append(
                    (opened.events().collect().height, opened.sql("SELECT count(*) FROM events").item())
                )
            except Exception as error:  # noqa: BLE001 - looked at below
                late.append((opened, error))

    reader = threading.Thread(target=read)
    reader.start()
    for length in range(4, 12):
        write(source, *(row for run in range(4) for row in run_of(f"r{run}", length)))
        put(source, lake)
    ended.set()
    reader.join()
    assert len(seen) > 3
    assert all(frame == query and frame in whole for frame, query in seen)
    for opened, _ in late:  # only where the files of its generation are gone
        now = Lake.open(lake).manifest.generation
        assert opened is None or opened.manifest.generation < now


@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_that_cannot_grow_leaves_the_lake_as_it_was(tmp_path, workers):
    """The system itself refuses to write on, in the middle of a part: one line, and the next try succeeds."""
    lake = tmp_path / "lake"
    put(many(tmp_path / "a.ndjson", 2), lake)
    before = events(lake)
    big = many(tmp_path / "b.ndjson", 400)

    limited = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))"
    )
    child = start(big, lake, before=limited, workers=workers)
    _, told = child.communicate()
    assert child.returncode == 2, told
    assert told.count("\n") == 1
    assert "File too large" in told
    assert_frame_equal(events(lake), before)
    put([tmp_path / "a.ndjson", big], lake)
    assert events(lake).height == before.height + 400 * 40


@pytest.mark.parametrize("room", [4, 24, 64], ids=lambda room: f"{room} MB")
def test_memory_that_ends_leaves_the_lake_as_it_was(tmp_path, room):
    """With so many more megabytes than are in use, an ingest ends or is done; the lake is the old or the new one.

    The engine may abort, or wait for ever for a thread that found no memory: then the process is killed.
    """
    lake = tmp_path / "lake"
    put(many(tmp_path / "a.ndjson", 2), lake)
    before = events(lake)
    big = many(tmp_path / "b.ndjson", 400)
    narrow = (
        f"ingest({str(tmp_path / 'a.ndjson')!r}, {str(tmp_path / 'warm')!r}, normaliser=NORMALISER, workers=1)\n"
        "import resource\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        f"resource.setrlimit(resource.RLIMIT_AS, (used + ({room} << 20),) * 2)"
    )
    child = start(big, lake, before=narrow)
    try:
        child.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
    if child.returncode == 0:
        assert events(lake).height == before.height + 400 * 40
    else:
        assert_frame_equal(events(lake), before)
    put(big, lake)
    assert events(lake).height == before.height + 400 * 40
    assert not list(lake.glob(".aside-*"))


def test_no_memory_is_said_in_one_line(tmp_path, monkeypatch):
    """Where Python itself is refused memory, the error says so and what to do."""
    source = many(tmp_path / "a.ndjson", 2)
    put(source, tmp_path / "lake")
    before = events(tmp_path / "lake")

    def none_left(*_):
        raise MemoryError

    monkeypatch.setattr("agentlens.lake.rewrite.write", none_left)
    with pytest.raises(LakeError, match="memory ran out, the lake is as it was"):
        put(many(tmp_path / "b.ndjson", 2), tmp_path / "lake")
    assert_frame_equal(events(tmp_path / "lake"), before)
