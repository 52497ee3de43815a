"""Deleting runs from a lake."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.cli import main
from agentlens.errors import LakeError, SettingsError
from agentlens.lake import Lake, forget, ingest
from tests.lake.exports import NORMALISER, event, events, receipt, run_of, write

DAY = 86_400


def put(sources, lake):
    return ingest(sources, lake, normaliser=NORMALISER)


def names_in_files(folder, name):
    return [path for path in folder.rglob("*") if path.is_file() and name.encode() in path.read_bytes()]


def test_run_is_gone_from_every_table_and_file(tmp_path):
    """Events, records, sessions, receipts, branches and labels of the run are gone; others are as before."""
    rows = [*run_of("keep", 3), event("zq7-trace", 0, session="zq7-run"), event("zq7-trace", 1)]
    more = [
        receipt("op-1", trace_id="zq7-trace"),
        receipt("op-2"),
        {"branch_id": "zq7-run", "parent_id": "p"},
    ]
    put(write(tmp_path / "a.ndjson", *rows, *more), tmp_path / "lake")
    lake = Lake.open(tmp_path / "lake")
    lake.labels_folder.mkdir()
    labels = pl.DataFrame({"run_id": ["zq7-run", "keep", None], "label": ["incident", "healthy", "healthy"]})
    labels.write_parquet(lake.labels_folder / "part.parquet")
    report = forget(tmp_path / "lake", run_id="zq7-run")
    assert report.runs == ("zq7-run",)
    assert report.rows == {
        "events": 2,
        "records": 2,
        "receipts": 1,
        "branches": 1,
        "source_names": 0,
        "labels": 1,
    }
    lake = Lake.open(tmp_path / "lake")
    assert lake.events().collect()["run_id"].to_list() == ["keep"] * 3
    assert lake.receipts().collect()["operation_id"].to_list() == ["op-2"]
    assert pl.read_parquet(lake.labels_folder / "part.parquet")["run_id"].to_list() == ["keep", None]
    assert names_in_files(tmp_path / "lake", "zq7") == []
    assert report.checked == len(list((tmp_path / "lake").rglob("*.parquet")))


def test_forgotten_run_does_not_come_back(tmp_path):
    """Ingesting the same or a longer source again brings the other runs, not the deleted one."""
    source = write(tmp_path / "a.ndjson", *run_of("zq7-run"), *run_of("keep"))
    put(source, tmp_path / "lake")
    forget(tmp_path / "lake", run_id="zq7-run")
    write(source, *run_of("zq7-run", 9), *run_of("keep", 6), event("zq7-run", 20, session="other"))
    put(source, tmp_path / "lake")
    assert events(tmp_path / "lake")["run_id"].to_list() == ["keep"] * 6
    assert names_in_files(tmp_path / "lake", "zq7") == []


def test_runs_before_a_time(tmp_path):
    """Runs whose last event is earlier go, with handoffs that ended earlier; runs without a time stay."""
    old = [event("old", seq, at=1_780_000_000 + seq) for seq in range(3)]
    both = [event("both", 0, at=1_780_000_000), event("both", 1, at=1_780_000_000 + 40 * DAY)]
    untimed = [{"run_id": "untimed", "tool": "x", "args": {}}]
    handoffs = [receipt("op-old", at=1_780_000_000), receipt("op-new", at=1_780_000_000 + 40 * DAY)]
    put(write(tmp_path / "a.ndjson", *old, *both, *untimed, *handoffs), tmp_path / "lake")
    report = forget(tmp_path / "lake", before="2026-06-15")
    assert report.runs == ("old",)
    assert sorted(set(events(tmp_path / "lake")["run_id"])) == ["both", "untimed"]
    assert Lake.open(tmp_path / "lake").receipts().collect()["operation_id"].to_list() == ["op-new"]


def test_nothing_is_deleted_by_mistake(tmp_path):
    """An unknown run, both settings or none, and no lake are errors; the lake is as it was."""
    put(write(tmp_path / "a.ndjson", *run_of("r")), tmp_path / "lake")
    with pytest.raises(LakeError, match="no run 'x'"):
        forget(tmp_path / "lake", run_id="x")
    with pytest.raises(SettingsError, match="exactly one"):
        forget(tmp_path / "lake")
    with pytest.raises(SettingsError, match="before"):
        forget(tmp_path / "lake", before="yesterday")
    with pytest.raises(LakeError, match="no lake"):
        forget(tmp_path / "nothing", run_id="r")
    assert not (tmp_path / "nothing").exists()
    assert events(tmp_path / "lake").height == 5


def test_last_run_may_go(tmp_path):
    """A lake without any run left still opens and takes new sources."""
    put(write(tmp_path / "a.ndjson", *run_of("r")), tmp_path / "lake")
    forget(tmp_path / "lake", run_id="r")
    assert events(tmp_path / "lake").is_empty()
    put(write(tmp_path / "b.ndjson", *run_of("s")), tmp_path / "lake")
    assert events(tmp_path / "lake")["run_id"].unique().to_list() == ["s"]


def test_several_runs_go_together_or_none_does(tmp_path, capsys):
    """A name that is not there stops the deletion before it begins; one that was deleted before is said."""
    lake = tmp_path / "lake"
    put(write(tmp_path / "a.ndjson", *(row for run in "abcd" for row in run_of(run, 2))), lake)
    with pytest.raises(LakeError, match="no run 'x'"):
        forget(lake, run_id=["a", "x"])
    assert Lake.open(lake).events().collect().height == 8
    assert forget(lake, run_id=("a", "b")).rows["events"] == 4
    report = forget(lake, run_id=["b", "c"])
    assert (report.runs, report.again, report.rows["events"]) == (("c",), ("b",), 2)
    with pytest.raises(SettingsError, match="exactly one"):
        forget(lake, run_id=[])
    assert main(["forget", str(lake), "--run", "d", "--run", "a"]) == 0
    assert {"runs: 1 deleted", "events: 2 deleted", "1 run deleted before"} <= set(
        capsys.readouterr().out.splitlines()
    )
    assert Lake.open(lake).events().collect().is_empty()
