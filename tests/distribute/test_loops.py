"""Loops on Spark: to the row what one machine says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import agentlens
from agentlens.detect.rules import laps
from agentlens.distribute import engine, lakes, spark, whole


def same(found: Any, wanted: Any) -> None:
    for name, frame in wanted.tables().items():
        assert_frame_equal(found.fetch(name), frame)
    assert found.metadata == wanted.metadata


def test_the_tables_are_those_of_the_local_call(session: Any, small_lake: Path) -> None:
    """Verdicts, episodes, runs and metadata are equal, with leases, retries, nulls and odd names among them."""
    wanted = agentlens.loops(small_lake)
    assert wanted.episodes.height > 3
    with spark.loops(session, str(small_lake)) as found:
        same(found, wanted)


@pytest.mark.parametrize("largest", [lakes.LARGEST, 0], ids=["files", "rows"])
def test_a_run_split_over_batches_is_one_run(
    session: Any, small_lake: Path, monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    """A run of 3,000 events in batches of 50 rows, judged in chunks of 100 rows beside short ones, is judged whole.

    So it is where Spark brings files as they are, and where it brings rows.
    """
    monkeypatch.setattr(lakes, "LARGEST", largest)
    monkeypatch.setattr(engine, "BATCH_ROWS", 50)
    monkeypatch.setattr(whole, "CHUNK_ROWS", 100)
    with spark.loops(session, str(small_lake), rule=laps((3, 3))) as found:
        same(found, agentlens.loops(small_lake, rule=laps((3, 3))))


def test_a_selection_selects_the_same(session: Any, small_lake: Path) -> None:
    """A workflow leaves some buckets empty, which gives no rows and no error."""
    wanted = agentlens.loops(small_lake, workflow="code", agent="worker", since="2026-09-21")
    with spark.loops(session, str(small_lake), workflow="code", agent="worker", since="2026-09-21") as found:
        same(found, wanted)
    with spark.loops(session, str(small_lake), workflow="nobody's") as found:
        same(found, agentlens.loops(small_lake, workflow="nobody's"))


def test_written_tables_are_read_by_polars(session: Any, small_lake: Path, tmp_path: Path) -> None:
    """What is written is Parquet with the types of the local tables; the callers' own settings stay as they were."""
    wanted = agentlens.loops(small_lake)
    with spark.loops(session, str(small_lake)) as found:
        found.write(str(tmp_path / "out"))
        assert found["runs"].count() == wanted.runs.height
    for name, frame in wanted.tables().items():
        read = pl.read_parquet(tmp_path / "out" / f"{name}.parquet" / "*.parquet")
        assert_frame_equal(read, frame, check_row_order=False)
    assert session.conf.get("spark.sql.session.timeZone") == "America/New_York"
