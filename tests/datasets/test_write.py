"""The shipped data: bytes, and what our own readers make of them."""

from __future__ import annotations

import csv
import io

import polars as pl
import pytest

from agentlens.datasets import fleet, fleet_files, write_fleet
from agentlens.detect.loops import loops
from agentlens.detect.rules import laps
from agentlens.lake import read_file
from agentlens.normalise.digest import Key
from agentlens.normalise.rows import Normaliser
from agentlens.normalise.tables import Tables
from tests.conftest import ROOT

DATA = ROOT / "data"


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return fleet_files()


@pytest.fixture(scope="module")
def events(files, tmp_path_factory) -> pl.DataFrame:
    folder = tmp_path_factory.mktemp("fleet")
    write_fleet(folder)
    normaliser = Normaliser(key=Key.public_demo(), tables=Tables.load())
    parts = [read_file(folder / name, normaliser)[0].collect() for name in ("claude-code", "otlp", "native")]
    return pl.concat(parts)


def test_the_shipped_data_are_what_the_seed_gives(files) -> None:
    """Not one byte of data/ was written by hand, and none is missing."""
    if not DATA.is_dir():
        pytest.skip("not a checkout: data/ is not in the installed package")
    shipped = {str(p.relative_to(DATA)): p.read_bytes() for p in sorted(DATA.rglob("*")) if p.is_file()}
    assert sorted(shipped) == sorted(files)
    assert [name for name in files if shipped[name] != files[name]] == []


def test_files_are_small(files) -> None:
    """Under 1 MB each and 3 MB in all."""
    assert max(map(len, files.values())) < 1_000_000
    assert sum(map(len, files.values())) < 3_000_000


def test_every_format_carries_its_runs_to_the_verdicts_of_the_truth(events) -> None:
    """Written as sessions, spans and records, read back, each run alerts exactly where the truth says."""
    judged = loops(events.lazy(), laps()).collect()
    stuck = judged.group_by("run_id").agg((pl.col("verdict") == "stuck_loop").any().alias("stuck"))
    joined = fleet().truth.join(stuck, on="run_id", how="full", coalesce=True)
    assert joined.null_count().sum_horizontal().item() == 0
    wrong = joined.filter(pl.col("stuck") != pl.col("alerts"))
    assert wrong.select("run_id", "world", "scenario", "stuck").rows() == []


def test_as_many_actions_as_were_planted(events) -> None:
    """No reader loses a call of the fleet or counts one twice."""
    planted = {run.run_id: sum(step.call is not None for step in run.steps) for run in fleet().runs}
    read = events.filter(pl.col("kind").is_in(["tool", "handoff"])).group_by("run_id").len()
    assert dict(read.iter_rows()) == planted


def test_labels_point_at_events_that_are_there(events, files) -> None:
    """Each onset time is the start of an action of its run; positions stand only where the export has them."""
    rows = list(csv.DictReader(io.StringIO(files["labels.csv"].decode())))
    starts = set(events.select("run_id", pl.col("at").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ")).iter_rows())
    located = [row for row in rows if row["onset_at"]]
    assert len(located) > 40
    assert [row["run_id"] for row in located if (row["run_id"], row["onset_at"]) not in starts] == []
    assert {row["run_id"].startswith("weekly-brief") for row in rows if row["onset_seq"]} == {True}


def test_names_of_the_formats_are_recognised(files) -> None:
    """Sniffing needs no help: every file of a folder is of that folder's format."""
    from agentlens.readers.registry import sniff
    from agentlens.readers.source import expand

    if not DATA.is_dir():
        pytest.skip("not a checkout: data/ is not in the installed package")
    wanted = {"claude-code": "claude-code", "otlp": "otlp-json", "native": "native"}
    found = {name: {sniff(source.head()).name for source in expand([str(DATA / name)])} for name in wanted}
    assert found == {name: {fmt} for name, fmt in wanted.items()}
