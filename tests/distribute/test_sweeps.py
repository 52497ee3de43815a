"""The sweep on Spark: to the row what one machine sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from agentlens.calibrate.grid import baselines, classes, full_windows
from agentlens.calibrate.sweep import sweep
from agentlens.distribute import spark, whole
from agentlens.distribute.sweeps import sweep_tables
from agentlens.lake import Lake


def test_the_tables_are_those_of_the_local_sweep(
    session: Any, small_lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alerts, doubts and totals of every class, over chunks of 100 rows with one huge run among them."""
    monkeypatch.setattr(whole, "CHUNK_ROWS", 100)
    cells = classes([*baselines(), *full_windows(windows=(4, 8), periods=(1, 2, 3), confirms=(1, 2))])
    wanted = sweep_tables(sweep(Lake.open(small_lake).buckets(), cells))
    assert wanted["alerts"].height > len(cells)
    with spark.sweep(session, str(small_lake), cells) as found:
        for name, frame in wanted.items():
            assert_frame_equal(found.fetch(name), frame)


def test_only_the_runs_asked_for(session: Any, small_lake: Path) -> None:
    """Labelled runs alone are swept, and fetched, as the local lake has them."""
    import polars as pl

    runs = ["run-00", "run-04"]
    cells = classes(baselines())
    mine = Lake.open(small_lake).events().filter(pl.col("run_id").is_in(runs)).sort("run_id", "agent", "seq")
    wanted = sweep_tables(sweep([mine], cells))
    with spark.sweep(session, str(small_lake), cells, runs=runs) as found:
        for name, frame in wanted.items():
            assert_frame_equal(found.fetch(name), frame)
    assert_frame_equal(spark.events(session, str(small_lake), runs), mine.collect())
