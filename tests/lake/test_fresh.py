"""New rows on their way into buckets: in memory or through files, the lake is the same to the byte."""

from __future__ import annotations

import gc

import pytest

from agentlens.lake import Lake, fresh, gather, ingest, reading
from tests.lake.exports import NORMALISER, event, run_of, tree, write


def put(sources, lake):
    return ingest(sources, lake, normaliser=NORMALISER)


@pytest.fixture
def spread_into_files(monkeypatch):
    """Rows are held in no memory at all while they are spread."""

    def few():
        monkeypatch.setattr(fresh, "HELD_ROWS", 0)

    return few


def test_rows_spread_through_files_make_the_same_lake(tmp_path, spread_into_files):
    """Many rows go through a file a bucket, few do not; every file of the two lakes has the same bytes."""
    first = write(tmp_path / "a.ndjson", *(row for run in range(20) for row in run_of(f"r{run}", 6)))
    later = write(tmp_path / "b.ndjson", event("r3", 9, session="s"), *run_of("r4", 9))
    for source in (first, later):
        put(source, tmp_path / "held")
    spread_into_files()
    for source in (first, later):
        put(source, tmp_path / "filed")
    assert tree(tmp_path / "held") == tree(tmp_path / "filed")
    assert Lake.open(tmp_path / "filed").events().collect().height == 20 * 6 + 1 + 9


def test_a_bucket_read_a_few_columns_at_a_time_makes_the_same_lake(tmp_path, monkeypatch):
    """A large bucket is never read whole; rows out of order, of two files, old and new, have the same bytes."""
    rows = [row for run in range(6) for row in run_of(f"r{run}", 9)]
    first = write(tmp_path / "b.ndjson", *rows[::2])
    later = write(tmp_path / "a.ndjson", *rows[::-3], event("r3", 9, session="s"))
    for source in (first, later):
        put(source, tmp_path / "whole")
    monkeypatch.setattr(gather, "CELLS", 1)
    for source in (first, later):
        put(source, tmp_path / "narrow")
    assert tree(tmp_path / "whole") == tree(tmp_path / "narrow")


def test_collector_of_circles_is_as_it_was_after_reading(tmp_path, monkeypatch):
    """It rests while records are read, and works again afterwards, also where reading failed."""
    seen = []
    monkeypatch.setattr(reading, "_piece", lambda *_: seen.append(gc.isenabled()) or 1 / 0)
    task = reading.Task(number=0, pieces=(None,), folder=tmp_path)
    with pytest.raises(ZeroDivisionError):
        reading.perform(task, NORMALISER)
    assert seen == [False]
    assert gc.isenabled()
