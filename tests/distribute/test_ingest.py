"""Ingest on Spark: the lake is that of a local ingest, and one machine goes on with it."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

import agentlens
from agentlens.distribute import ingest as steps
from agentlens.distribute import spark
from agentlens.distribute.keys import WorkerNormaliser
from agentlens.errors import AgentlensError, EngineError
from agentlens.lake import Lake, forget, ingest
from agentlens.normalise.digest import Key
from agentlens.normalise.rows import Normaliser
from agentlens.normalise.tables import Tables
from tests.distribute import exports
from tests.distribute.test_handoffs import receipts

TABLES = ("events", "records", "receipts", "branches", "quarantine", "sessions")


def same(found: Path, wanted: Path, *, places: bool = True) -> None:
    """Every table of two lakes is equal, row by row, and so is what their manifests know of sources.

    Places of files that Spark brought are digests of their addresses, which it spells in its own way.
    """
    ours, theirs = Lake.open(found), Lake.open(wanted)
    for name in TABLES:
        assert_frame_equal(getattr(ours, name)().collect(), getattr(theirs, name)().collect())
    known = theirs.manifest.sources
    if not places:
        known = {name: replace(one, place=ours.manifest.sources[name].place) for name, one in known.items()}
    assert ours.manifest.sources == known
    assert ours.manifest.bucket_count == theirs.manifest.bucket_count
    assert [path for path in found.rglob("*") if path.name.startswith(".") and path.name != ".lock"] == []


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three files of events with a line that is no JSON, one of receipts, and one that is nothing."""
    folder = exports.write(tmp_path / "source", exports.rows(huge=300))
    with (folder / "events-0.ndjson").open("a") as sink:
        sink.write("{broken\n")
    lines = "".join(json.dumps(row) + "\n" for row in receipts(5))
    (folder / "receipts.ndjson").write_text(lines)
    (folder / "notes.txt").write_text("nothing that is known")
    return folder


@pytest.mark.parametrize("local", [True, False], ids=["workers_open_files", "spark_brings_files"])
def test_the_lake_is_that_of_a_local_ingest(
    session: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, local: bool
) -> None:
    """New, again, changed: each ingest on Spark leaves the lake that a local one leaves, and tells the same."""
    if not local:
        monkeypatch.setattr(steps, "is_local", lambda *_: False)
    made, wanted = tmp_path / "made", tmp_path / "wanted"
    normaliser = exports.normaliser()

    def both() -> Any:
        told = spark.ingest(session, str(source), into=str(made), normaliser=normaliser)
        local_told = ingest([str(source)], wanted, normaliser=normaliser, workers=1)
        assert told == local_told
        same(made, wanted, places=local)
        return told

    assert both().changed
    assert not both().changed
    (source / "events-1.ndjson").write_text(
        "".join(json.dumps(row) + "\n" for row in exports.stuck("run-new", 30))
    )
    told = both()
    assert sorted({one.status for one in told.sources}) == ["changed", "refused", "unchanged"]
    assert_frame_equal(agentlens.loops(made).verdicts, agentlens.loops(wanted).verdicts)
    ingest([str(exports.write(tmp_path / "more", exports.stuck("later", 9), 1))], made, normaliser=normaliser)
    assert "later" in agentlens.loops(made).runs["run_id"].to_list()


@pytest.mark.parametrize("local", [True, False], ids=["workers_open_files", "spark_brings_files"])
def test_relative_paths_begin_where_the_command_is_typed(
    session: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, local: bool
) -> None:
    """Java and the workers stand in folders of their own: sources, lake, key file and tables are found all the same."""
    if not local:
        monkeypatch.setattr(steps, "is_local", lambda *_: False)
    monkeypatch.chdir(tmp_path)
    key = Path("folder", "key")
    key.parent.mkdir()
    key.write_text("a key that stands in a file of this test")
    key.chmod(0o400)
    normaliser = replace(exports.normaliser(), key=Key.load(file=key))
    told = spark.ingest(session, source.name, into="made", normaliser=normaliser, key_file=str(key))
    assert told == ingest([source.name], Path("wanted"), normaliser=normaliser, workers=1)
    same(tmp_path / "made", tmp_path / "wanted", places=local)
    with spark.loops(session, "made") as found:
        assert_frame_equal(found.fetch("episodes"), agentlens.loops("wanted").episodes)
        assert found.write("tables/loops")[0].startswith("tables/loops/")
    assert (tmp_path / "tables" / "loops" / "metadata.json").is_file()
    assert list((tmp_path / "tables" / "loops" / "verdicts.parquet").glob("*.parquet"))


def test_content_is_kept_where_asked(session: Any, source: Path, tmp_path: Path) -> None:
    """The columns of kept content go through Spark too."""
    normaliser = exports.normaliser(keep_content=True)
    spark.ingest(session, str(source), into=str(tmp_path / "made"), normaliser=normaliser)
    ingest([str(source)], tmp_path / "wanted", normaliser=normaliser, workers=1)
    assert "args_text" in Lake.open(tmp_path / "made").events().collect_schema()
    same(tmp_path / "made", tmp_path / "wanted")


def test_deleted_runs_stay_deleted(session: Any, tmp_path: Path) -> None:
    """Files of deleted runs that have grown: neither runs, receipts, branches, parents nor names of files come back."""
    folder = tmp_path / "source"
    folder.mkdir()

    def put(name: str, *facts: dict[str, Any]) -> None:
        (folder / name).write_text("".join(f"{json.dumps(fact)}\n" for fact in facts) + "{broken\n")

    branch = {"branch_id": "child", "parent_id": "zq7-run"}
    told = [{**one, "trace_id": "zq7-run"} for one in receipts(2)]
    child = [exports.event("child", seq, parent_run_id="zq7-run") for seq in range(3)]
    put("zq7-alone.ndjson", *exports.stuck("zq7-run", 9))
    put("zq7-told.ndjson", *told)
    put("shared.ndjson", *exports.stuck("zq7-run", 3), *child, branch, *receipts(4)[2:])
    made, wanted = tmp_path / "made", tmp_path / "wanted"
    normaliser = exports.normaliser()
    for lake in (made, wanted):
        ingest([str(folder)], lake, normaliser=normaliser, workers=1)
        forget(lake, run_id="zq7-run")
    put("zq7-alone.ndjson", *exports.stuck("zq7-run", 12))
    put("zq7-told.ndjson", *told, {**told[0], "event": "accepted"})
    put(
        "shared.ndjson",
        *exports.stuck("zq7-run", 4),
        *child,
        branch,
        *receipts(4)[2:],
        exports.event("new", 0),
    )
    spark.ingest(session, str(folder), into=str(made), normaliser=normaliser)
    ingest([str(folder)], wanted, normaliser=normaliser, workers=1)
    same(made, wanted)
    lake = Lake.open(made)
    for name in TABLES:
        assert "zq7" not in str(getattr(lake, name)().collect().to_dicts())
    assert [Path(name).name for name in lake.manifest.sources] == ["shared.ndjson"]
    assert sorted(lake.events().collect()["run_id"].unique()) == ["child", "new"]
    assert lake.receipts().collect().height
    assert lake.branches().collect().height == 1
    anew = tmp_path / "anew"
    spark.ingest(session, str(folder), into=str(anew), normaliser=normaliser, forgotten=str(wanted))
    assert Lake.open(anew).manifest.forgotten == Lake.open(wanted).manifest.forgotten
    assert_frame_equal(Lake.open(anew).events().collect(), lake.events().collect())


def test_a_worker_without_the_key_refuses(session: Any, source: Path, tmp_path: Path) -> None:
    """The key never travels: a worker that has none of this id ends the ingest, and no lake is left behind."""
    secret = Normaliser(key=Key(b"a key that no worker has"), tables=Tables.load())
    with pytest.raises(EngineError, match=f"no digest key {secret.key.key_id}"):
        spark.ingest(session, str(source), into=str(tmp_path / "made"), normaliser=secret)
    assert not (tmp_path / "made").exists()
    key = tmp_path / "key"
    key.write_bytes(b"a key that no worker has")
    assert WorkerNormaliser.of(secret, key).made().key.key_id == secret.key.key_id
    assert b"no worker has" not in pickle.dumps(WorkerNormaliser.of(secret, key))


def test_what_cannot_be_read_is_one_line(session: Any, tmp_path: Path) -> None:
    """A name that is no file, a folder that is no lake, and a lake that is cut off are refused in words."""
    normaliser = exports.normaliser()
    with pytest.raises(AgentlensError, match="no such file"):
        spark.ingest(session, str(tmp_path / "none"), into=str(tmp_path / "made"), normaliser=normaliser)
    with pytest.raises(AgentlensError, match="no lake here"):
        spark.loops(session, str(tmp_path))
    with pytest.raises(EngineError, match="nowhere"):
        spark.loops(session, "nowhere://bucket/lake")
    lake = exports.lake(tmp_path, exports.stuck("run", 9))
    next((lake / "events").rglob("*.parquet")).write_bytes(b"cut")
    with pytest.raises(AgentlensError, match="not whole"):
        spark.loops(session, str(lake))
