"""A lake under load, damage and interruption: never a wrong number, never a lost lake."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

import agentlens
from agentlens.cli import main
from agentlens.errors import LakeError
from agentlens.lake import Lake, forget, ingest, rewrite, store
from agentlens.lake.folder import is_cut
from agentlens.lake.lock import locked
from agentlens.lake.manifest import SCHEMA_VERSION
from agentlens.lake.reading import Piece, Task
from agentlens.lake.workers import Processes, _start, receive, send
from agentlens.readers.source import Source
from tests.lake.exports import NORMALISER, event, events, run_of, tree, write


def put(sources, lake, **more):
    return ingest(sources, lake, normaliser=NORMALISER, **more)


def test_second_writer_is_told_who_writes(tmp_path):
    """While one process writes, another gets one line with its number; afterwards it succeeds."""
    source = write(tmp_path / "a.ndjson", *run_of("r"))
    put(source, tmp_path / "lake")
    write(source, *run_of("r", 6))
    with locked(tmp_path / "lake"), pytest.raises(LakeError, match=f"process {os.getpid()} is writing"):
        put(source, tmp_path / "lake")
    assert events(tmp_path / "lake").height == 5
    put(source, tmp_path / "lake")
    assert events(tmp_path / "lake").height == 6


def test_reader_keeps_its_generation_during_an_ingest(tmp_path):
    """A lake that is open reads the rows it was opened with after the next ingest has finished."""
    source = write(tmp_path / "a.ndjson", *run_of("r"))
    put(source, tmp_path / "lake")
    reader = Lake.open(tmp_path / "lake")
    query = reader.events()
    write(source, *run_of("r", 9))
    put(source, tmp_path / "lake")
    assert query.collect().height == 5
    assert reader.sql("SELECT count(*) FROM events").item() == 5
    assert Lake.open(tmp_path / "lake").events().collect().height == 9


def test_old_files_go_with_the_ingest_after_the_next(tmp_path):
    """Two generations are on the disk at most."""
    source = tmp_path / "a.ndjson"
    for count in (3, 4, 5, 6):
        put(write(source, *run_of("r", count)), tmp_path / "lake")
    assert len(list((tmp_path / "lake" / "events").rglob("*.parquet"))) == 2


@pytest.mark.parametrize("nth", range(3))
def test_full_disk_leaves_the_lake_as_it_was(tmp_path, monkeypatch, nth):
    """Whichever file does not fit any more: one clear error, the lake of before, and the next try succeeds."""
    source = write(tmp_path / "a.ndjson", *run_of("r"))
    put(source, tmp_path / "lake")
    write(source, *run_of("r", 8), *run_of("s", 8), "{broken")
    calls = []

    def full(*args):
        calls.append(args)
        if len(calls) > nth:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return store.write(*args)

    monkeypatch.setattr(rewrite, "write", full)
    with pytest.raises(LakeError, match="No space left"):
        put(source, tmp_path / "lake")
    assert events(tmp_path / "lake").height == 5
    assert not list((tmp_path / "lake").glob(".aside-*"))
    monkeypatch.undo()
    put(source, tmp_path / "lake")
    assert events(tmp_path / "lake").height == 16


@pytest.mark.parametrize("cut", [None, 100], ids=["missing", "cut off"])
def test_lake_copied_in_half_names_the_file(tmp_path, cut):
    """A file that is missing or shorter than it was is named when the lake is opened, not read as fewer rows."""
    put(write(tmp_path / "a.ndjson", *run_of("r")), tmp_path / "lake")
    victim = next((tmp_path / "lake" / "events").rglob("*.parquet"))
    if cut is None:
        victim.unlink()
    else:
        victim.write_bytes(victim.read_bytes()[:cut])
    with pytest.raises(LakeError, match=victim.name):
        Lake.open(tmp_path / "lake")
    with pytest.raises(LakeError, match=victim.name):
        put(write(tmp_path / "b.ndjson", *run_of("s")), tmp_path / "lake")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (json.dumps({"schema_version": SCHEMA_VERSION + 1}), "schema version"),
        (json.dumps({"schema_version": 0}), "agentlens ingest SOURCE... --into"),
        ("{", "damaged"),
        ("[]", "damaged"),
        (
            json.dumps({"schema_version": SCHEMA_VERSION, "buckets": {"x": 1}, "tables": {}, "sources": []}),
            "damaged",
        ),
    ],
)
def test_other_schema_version_or_damage_is_refused(tmp_path, text, said):
    """A manifest that this release did not write is refused with what to do, for reading and for writing."""
    put(write(tmp_path / "a.ndjson", *run_of("r")), tmp_path / "lake")
    (tmp_path / "lake" / "manifest.json").write_text(text)
    with pytest.raises(LakeError, match=said):
        Lake.open(tmp_path / "lake")
    with pytest.raises(LakeError, match=said):
        put(tmp_path / "a.ndjson", tmp_path / "lake")
    assert (tmp_path / "lake" / "manifest.json").read_text() == text


def test_no_lake_is_said(tmp_path):
    """A folder without a manifest is no lake."""
    with pytest.raises(LakeError, match="no lake"):
        Lake.open(tmp_path)


def test_reading_process_that_dies_is_one_clear_error(tmp_path):
    """A child that is killed (out of memory) ends the ingest with a message and no change."""
    source = write(tmp_path / "a.ndjson", *run_of("r"))
    with Processes(2, NORMALISER) as processes:
        processes._children[0].kill()
        processes._children[0].wait()
        with pytest.raises(LakeError, match="ended early"):
            list(processes.run([Task(number=0, pieces=(), folder=source.parent)]))


def test_reading_process_tells_what_went_wrong(tmp_path):
    """A child that cannot write its part says so in one line; its own output stays silent."""
    source = Source.of(write(tmp_path / "a.ndjson", *run_of("r")))
    child = _start()
    with child:
        send(child.stdin, NORMALISER)
        piece = Piece(source=source, source_id="s")
        send(child.stdin, Task(number=0, pieces=(piece,), folder=tmp_path / "a.ndjson"))
        told = receive(child.stdout)
        child.stdin.close()
    assert isinstance(told, LakeError)
    assert "nothing was changed" in str(told)
    assert child.returncode == 0


def test_script_without_a_main_guard_may_use_processes(tmp_path):
    """A plain script that ingests with two workers at its top level runs once and ends well."""
    source = write(tmp_path / "a.ndjson", *run_of("r"))
    script = tmp_path / "script.py"
    script.write_text(
        "from agentlens.lake import ingest\nfrom tests.lake.exports import NORMALISER\n"
        f"print(ingest({str(source)!r}, {str(tmp_path / 'lake')!r}, normaliser=NORMALISER, workers=2).events)\n"
    )
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=_environment(),
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "5\n", "")


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}


_KILLED = """
import sys
from agentlens.lake import ingest
from tests.lake.exports import NORMALISER
print("ready", flush=True)
ingest(sys.argv[1], sys.argv[2], normaliser=NORMALISER, workers=int(sys.argv[3]))
print("done", flush=True)
"""


def _kill_at_random(tmp_path: Path, seed: int) -> None:
    """Kill an ingest that changes a lake, check what is left, run it again, and compare with a clean one."""
    draw = random.Random(seed)
    folder = tmp_path / "in"
    for number in range(12):
        write(
            folder / f"{number}.ndjson", *(row for run in range(8) for row in run_of(f"r{number}-{run}", 12))
        )
    lake = tmp_path / "lake"
    put(folder, lake)
    before = events(lake)
    for number in range(6):
        rows = [event(f"r{number}-{run}", seq, session=f"s{run}") for run in range(4) for seq in range(15)]
        write(folder / f"{number}.ndjson", *rows)
    write(folder / "new.ndjson", *run_of("r0-7", 4))
    put(folder, tmp_path / "clean")
    after = events(tmp_path / "clean")
    command = [sys.executable, "-c", _KILLED, str(folder), str(lake), str(draw.choice([1, 2]))]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child = subprocess.Popen(command, **pipes, env=_environment(), text=True)
    assert child.stdout is not None
    assert child.stderr is not None
    with child, child.stdout, child.stderr:
        assert child.stdout.readline() == "ready\n"
        time.sleep(draw.random() * 0.6)
        child.send_signal(signal.SIGKILL)
        child.stderr.read()  # a reading process outlives it by one task; it holds this pipe as long
    left = events(lake)
    assert left.equals(before) or left.equals(after)
    put(folder, lake)
    assert_frame_equal(events(lake), after)
    assert not list(lake.glob(".aside-*"))
    snapshot = tree(lake)
    put(folder, lake)
    assert tree(lake) == snapshot


@pytest.mark.parametrize("seed", range(5))
def test_killed_at_any_moment(tmp_path, seed):
    """After kill -9 the lake is the one before or the one after, and running again gives a clean ingest's rows."""
    _kill_at_random(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5, 55))
def test_killed_at_fifty_more_moments(tmp_path, seed):
    """The same at fifty other moments."""
    _kill_at_random(tmp_path, seed)


@pytest.mark.parametrize("generation", [1, 2])
def test_copy_without_its_manifest_is_neither_read_nor_written_over(tmp_path, generation):
    """What is left of a lake stays: an ingest would begin a new lake in its place."""
    lake = tmp_path / "lake"
    for number in range(generation):
        put(write(tmp_path / "a.ndjson", *run_of("r", 5 + number)), lake)
    (lake / "manifest.json").unlink()
    before = {name: digest for name, digest in tree(lake).items() if name != ".lock"}
    with pytest.raises(LakeError, match=r"no manifest\.json, as a copy that was cut off"):
        put(tmp_path / "a.ndjson", lake)
    with pytest.raises(LakeError, match=r"no manifest\.json"):
        put(tmp_path / "a.ndjson", lake, dry_run=True)
    with pytest.raises(LakeError, match=r"no manifest\.json"):
        Lake.open(lake)
    with pytest.raises(LakeError, match=r"no manifest\.json"):
        agentlens.loops(lake)
    assert {name: digest for name, digest in tree(lake).items() if name != ".lock"} == before


def test_first_ingest_that_was_killed_is_run_again(tmp_path):
    """It leaves files of the first generation beside a folder of parts, and no manifest."""
    source, lake = write(tmp_path / "a.ndjson", *run_of("r")), tmp_path / "lake"
    put(source, lake)
    (lake / "manifest.json").unlink()
    (lake / ".aside-x").mkdir()
    (lake / "events" / "bucket=0000").mkdir(exist_ok=True)
    (lake / "events" / "bucket=0000" / "g000001.parquet").write_bytes(b"half of")
    put(source, lake)
    assert events(lake).height == 5


def test_first_ingest_that_fails_leaves_an_empty_folder_empty(tmp_path, monkeypatch):
    """So that the next one may begin there."""
    source, lake = write(tmp_path / "a.ndjson", *run_of("r")), tmp_path / "lake"
    lake.mkdir()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("agentlens.lake.manifest.save", full)
        with pytest.raises(LakeError, match="No space"):
            put(source, lake)
    assert not list(lake.rglob("*.parquet"))
    put(source, lake)
    assert events(lake).height == 5


def test_own_files_called_like_a_lakes_are_no_lake(tmp_path):
    """Only names that a lake gives its files make a folder one that was cut off."""
    assert not is_cut(tmp_path)
    for name in ("events/games.parquet", "events/g000001.parquet.bak", "records/2026/g1.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert not is_cut(tmp_path)


@pytest.mark.parametrize("verb", ["loops", "handoffs", "health", "report"])
def test_zeros_inside_a_file_are_one_line(tmp_path, capsys, verb):
    """A copy in pieces has files of the right size: what cannot be decoded is named, with exit code 2."""
    lake = tmp_path / "lake"
    put(write(tmp_path / "a.ndjson", *[row for n in range(40) for row in run_of(f"r{n}", 20)]), lake)
    victim = min((lake / "events").rglob("*.parquet"))
    data = bytearray(victim.read_bytes())
    data[8 : len(data) // 2] = bytes(len(data) // 2 - 8)
    victim.write_bytes(data)
    more = ["--out", str(tmp_path / "out")] if verb == "report" else []
    assert main([verb, str(lake), *more]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"agentlens {verb}: {lake}: {victim.relative_to(lake).as_posix()} is damaged (")


def test_files_that_go_while_they_are_read_are_one_line(tmp_path, capsys, monkeypatch):
    """A deletion takes the files of the generation that a reader has open."""
    lake = tmp_path / "lake"
    put(write(tmp_path / "a.ndjson", *run_of("r"), *run_of("s")), lake)
    opened = Lake.open(lake)
    parts = Lake.parts

    def late(*given):
        yield from parts(*given)
        monkeypatch.undo()
        forget(lake, run_id="s")

    monkeypatch.setattr(Lake, "parts", late)
    assert main(["loops", str(lake)]) == 2
    assert f"agentlens loops: {lake}: files went while they were read" in capsys.readouterr().err
    with pytest.raises(LakeError, match="events cannot be read"):
        opened.sql("SELECT count(*) FROM events")
