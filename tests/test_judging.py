"""Lakes of any size: judged part after part, written as they are made, the same as in one piece."""

from __future__ import annotations

import json
import threading
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import polars as pl
import pytest

import agentlens
from agentlens import judging
from agentlens.api import loop_parts, rule_book
from agentlens.cli import main
from agentlens.data import Opened, open_data
from agentlens.lake import manifest as manifests
from agentlens.lake.manifest import BucketEntry, Manifest
from agentlens.lake.store import write
from agentlens.model.event import EVENTS
from agentlens.model.record import RECORDS
from agentlens.model.select import Selection
from agentlens.model.verdict import VERDICTS
from agentlens.results import RowWriter
from tests.oracle import generate
from tests.oracle.frames import frame

if TYPE_CHECKING:
    from pathlib import Path

BUCKETS = 6


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a lake of six buckets of random lanes, one run with most of the events."""
    path = tmp_path_factory.mktemp("judging") / "lake"
    path.mkdir()
    empty = write(path, "records/empty.parquet", RECORDS.to_frame())
    entries = {}
    for number in range(BUCKETS):
        lanes = [
            generate.lane(f"{number} {k}", run_id=f"r{(7 * k + number) % 40:02}{number}") for k in range(9)
        ]
        if number == 2:
            lanes += [generate.lane(f"long {k}", run_id="r-long", agent=f"a{k:02}") for k in range(60)]
        told = frame([event for lane in lanes for event in lane]).sort("run_id", "agent", "seq")
        entry = write(path, f"events/bucket={number}/part.parquet", told.select(list(EVENTS)))
        entries[number] = BucketEntry(records=empty, events=entry)
    manifests.save(path, Manifest(generation=1, bucket_count=BUCKETS, buckets=entries))
    return path


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a part be no more than a bucket."""
    monkeypatch.setattr("agentlens.data.PART_ROWS", 1)


@pytest.mark.usefixtures("small_parts")
def test_parts_give_what_one_piece_gives(lake: Path) -> None:
    """Verdicts, episodes and runs of a lake judged bucket by bucket are those of all its events judged together."""
    whole = agentlens.loops(agentlens.Lake.open(lake).events().collect())
    apart = agentlens.loops(lake)
    assert len(open_data(lake, Selection()).parts) == BUCKETS
    for name, table in whole.tables().items():
        assert apart.tables()[name].equals(table), name
    assert whole.episodes.height > 20


@pytest.mark.usefixtures("small_parts")
def test_written_tables_are_the_same_rows_and_the_same_bytes_every_time(lake: Path, tmp_path: Path) -> None:
    """With ``out`` the verdicts are on the disk, part after part; a second time gives the same bytes."""
    held = agentlens.loops(lake)
    first, second = agentlens.loops(lake, out=tmp_path / "a"), agentlens.loops(lake, out=tmp_path / "b")
    keys = ["run_id", "agent", "seq"]
    assert first.verdicts().sort(keys).collect().equals(held.verdicts)
    assert first.verdicts().collect_schema() == VERDICTS
    assert first.episodes.equals(held.episodes)
    assert first.runs.equals(held.runs)
    assert first.tally.equals(held.tally())
    assert first.metadata == second.metadata == held.metadata
    for name in ("verdicts", "episodes", "runs"):
        one, other = (tmp_path / folder / f"{name}.parquet" for folder in "ab")
        assert one.read_bytes() == other.read_bytes(), name
        assert held.metadata.items() <= pl.read_parquet_metadata(one).items()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        "episodes.parquet",
        "runs.parquet",
        "verdicts.parquet",
    ]


@pytest.mark.usefixtures("small_parts")
def test_the_screen_says_the_same_whatever_the_parts(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Screen, JSON, the page and the exit code do not depend on how a lake is cut."""
    asked = [
        ["--fail-on", "stuck_loop"],
        ["--json"],
        ["--json", "--table", "runs"],
        ["--html", str(tmp_path / "page.html"), "--fail-on", "failed_outcome,uncertain"],
    ]
    said = []
    for rows in (1, 10**9):
        monkeypatch.setattr("agentlens.data.PART_ROWS", rows)
        for more in asked:
            code = main(["loops", str(lake), *more])
            lines = capsys.readouterr().out.splitlines()
            said.append((code, sorted(lines)))
        said.append((0, [(tmp_path / "page.html").read_text(encoding="utf-8")]))
    assert said[: len(asked) + 1] == said[len(asked) + 1 :]
    assert said[0][0] == 1
    assert {json.loads(line)["verdict"] for line in said[1][1]} > {"stuck_loop", "uncertain"}


def test_only_the_columns_of_the_detector_are_read(lake: Path) -> None:
    """The rest of a wide event table does not reach memory."""
    read = judging._read(agentlens.Lake.open(lake).events())
    assert "source" not in read.columns
    assert "span_id" not in read.columns
    assert {"run_id", "seq", "tool", "action_signature", "progress_fingerprint"} <= set(read.columns)


def test_a_column_that_says_one_thing_judges_as_before() -> None:
    """Constant and absent columns are kept as one value, and no verdict changes for it."""
    lane = generate.lane("one", run_id="r")
    events = frame(lane).with_columns(pl.lit("v1").alias("normaliser_version"))
    (found,) = loop_parts(Opened(parts=(events.lazy(),)), rule_book(None))
    (empty,) = loop_parts(Opened(parts=(events.head(0).lazy(),)), rule_book(None))
    from agentlens.detect.loops import loops

    assert found.verdicts.equals(loops(events.lazy(), rule_book(None)).collect())
    assert found.metadata["normaliser_version"] == "v1"
    assert empty.verdicts.schema == VERDICTS


def test_parts_come_in_order_and_large_ones_are_judged_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at a time, never more rows at once than allowed unless one part alone has them, always in order."""
    monkeypatch.setattr("agentlens.judging.os.cpu_count", lambda: 4)
    lock, now, most = threading.Lock(), [], []
    draw = Random(3)
    rows = [draw.choice((10, 400_000, 700_000, 3_000_000)) for _ in range(40)]

    def work(number: int) -> int:
        with lock:
            now.append(rows[number])
            most.append(list(now))
        threading.Event().wait(0.002)
        with lock:
            now.remove(rows[number])
        return number

    assert list(judging.in_order(work, range(40), rows)) == list(range(40))
    assert max(map(len, most)) == judging.AT_ONCE
    assert all(len(held) == 1 or sum(held) <= judging.ROWS_AT_ONCE for held in most)
    assert list(judging.in_order(lambda x: x, range(3))) == [0, 1, 2]
    assert all(one < other for one, other in pairwise(judging.in_order(work, range(40), rows)))


def test_a_fault_in_a_part_leaves_the_old_file(lake: Path, tmp_path: Path) -> None:
    """What was written before stays until the new file is whole, and nothing half-made is left."""
    agentlens.loops(lake, out=tmp_path)
    before = (tmp_path / "verdicts.parquet").read_bytes()

    def stopped() -> None:
        with RowWriter(tmp_path / "verdicts.parquet", VERDICTS) as writer:
            writer.add(VERDICTS.to_frame())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stopped()
    assert (tmp_path / "verdicts.parquet").read_bytes() == before
    assert not list(tmp_path.glob(".*"))
