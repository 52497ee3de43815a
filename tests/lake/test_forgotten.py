"""No name of a deleted run is left: not its id, not the name of its file, not where another run calls it parent."""

from __future__ import annotations

import errno
import json
import os
import shlex

import polars as pl
import pytest

from agentlens.calibrate.label_store import LabelStore
from agentlens.calibrate.labels import conform_labels
from agentlens.cli import main
from agentlens.errors import LakeError
from agentlens.lake import Lake, forget, ingest, manifest
from agentlens.lake.forgotten import FORGOTTEN
from agentlens.lake.labelled import LabelPart
from agentlens.lake.store import forgotten_mark
from tests.lake.exports import NORMALISER, event, receipt, run_of, write


def put(sources, lake):
    return ingest(sources, lake, normaliser=NORMALISER)


def everything_in(lake):
    """Every name and byte of the folder, and every value of its tables as text (Parquet is compressed)."""
    told = []
    for path in sorted(lake.rglob("*")):
        told.append(str(path.relative_to(lake)))
        if path.is_file():
            told.append(path.read_bytes().decode("latin-1"))
        if path.suffix == ".parquet":
            rows = pl.read_parquet(path, hive_partitioning=False)
            told.extend(json.dumps(rows.to_dicts(), default=str, ensure_ascii=False).splitlines())
    return "\n".join(told)


def test_name_of_a_source_goes_with_its_last_run(tmp_path):
    """Also what was set aside of that file; a file that another run is in keeps its name."""
    write(tmp_path / "in" / "zq7-alone.ndjson", *run_of("zq7-run"), "{broken zq7")
    write(tmp_path / "in" / "shared.ndjson", *run_of("zq7-run"), *run_of("keep"), "{broken too")
    write(tmp_path / "in" / "other.ndjson", *run_of("keep"))
    lake = tmp_path / "lake"
    put(tmp_path / "in", lake)
    assert "zq7-alone" in everything_in(lake)
    report = forget(lake, run_id="zq7-run")
    assert report.rows["source_names"] == 1
    assert "zq7" not in everything_in(lake)
    names = [name.rsplit("/", 1)[-1] for name in Lake.open(lake).sources()["source"]]
    assert names == ["other.ndjson", "shared.ndjson"]
    assert Lake.open(lake).quarantine().collect().height == 1


def test_ingesting_the_folder_again_brings_no_name_back(tmp_path):
    """The file is read again, because nothing of it is known any more; nothing of it is written."""
    write(tmp_path / "in" / "zq7-alone.ndjson", *run_of("zq7-run"), "{broken zq7")
    write(tmp_path / "in" / "other.ndjson", *run_of("keep"), "{broken too")
    lake = tmp_path / "lake"
    put(tmp_path / "in", lake)
    forget(lake, run_id="zq7-run")
    for events in (5, 7):
        write(tmp_path / "in" / "zq7-alone.ndjson", *run_of("zq7-run", events), "{broken zq7")
        put(tmp_path / "in", lake)
        assert "zq7" not in everything_in(lake)
    assert Lake.open(lake).quarantine().collect().height == 1
    write(tmp_path / "in" / "zq7-alone.ndjson", *run_of("zq7-run"), *run_of("new"))
    put(tmp_path / "in", lake)
    assert sorted(Lake.open(lake).events().collect()["run_id"].unique()) == ["keep", "new"]


def test_a_child_keeps_that_it_had_a_parent_and_not_its_name(tmp_path):
    """In events, records and branch receipts a digest takes the place of the id, now and when they are read again."""
    source = write(
        tmp_path / "a.ndjson",
        *run_of("zq7-run"),
        *run_of("child", 2, parent_run_id="zq7-run"),
        event("free", 0, parent_run_id="elsewhere"),
        {"branch_id": "child", "parent_id": "zq7-run"},
    )
    lake = tmp_path / "lake"
    put(source, lake)
    digest = f"{FORGOTTEN}{forgotten_mark('zq7-run')}"
    before = Lake.open(lake).events().filter(pl.col("parent_run_id") == "zq7-run").collect().height
    assert before == 2
    forget(lake, run_id="zq7-run")
    for _ in range(2):
        assert "zq7" not in everything_in(lake)
        events = Lake.open(lake).events().collect()
        assert events.filter(pl.col("parent_run_id") == digest).height == before
        assert Lake.open(lake).branches().collect()["parent_id"].to_list() == [digest]
        with source.open("a") as more:
            more.write(json.dumps(event("child", 9, parent_run_id="zq7-run")) + "\n")
        before += 1
        put(source, lake)


def test_a_source_that_never_gave_a_row_keeps_its_name(tmp_path):
    """It is no trace of the run that is deleted."""
    files = [write(tmp_path / "a.ndjson", *run_of("gone"))]
    files.append(write(tmp_path / "b.ndjson", '{"run_id": "x"}', *run_of("stays", 1)))
    lake = tmp_path / "lake"
    put(files, lake)
    assert forget(lake, run_id="gone").rows["source_names"] == 1
    assert Lake.open(lake).sources()["records"].to_list() == [1]


def test_receipts_and_branches_of_a_deleted_run_do_not_come_back(tmp_path):
    """Its file is read again when it has grown; what other runs say in it is taken in."""
    rows = [
        *run_of("zq7-run"),
        receipt("op-1", trace_id="zq7-run"),
        receipt("op-2"),
        receipt("op-3", trace_id="keep"),
        {"branch_id": "zq7-run", "parent_id": "keep"},
        {"branch_id": "keep"},
    ]
    lake = tmp_path / "lake"
    put(write(tmp_path / "a.ndjson", *rows), lake)
    assert Lake.open(lake).receipts().collect().height == 3
    forget(lake, run_id="zq7-run")
    put(write(tmp_path / "a.ndjson", *rows, *run_of("new"), receipt("op-4", trace_id="zq7-run")), lake)
    assert "zq7" not in everything_in(lake)
    assert Lake.open(lake).receipts().collect()["operation_id"].to_list() == ["op-2", "op-3"]
    assert Lake.open(lake).branches().collect()["branch_id"].to_list() == ["keep"]
    assert sorted(Lake.open(lake).events().collect()["run_id"].unique()) == ["new"]


def of_another_version(lake):
    """Make the manifest one that a release with another schema wrote."""
    path = lake / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 0, "buckets": "elsewhere"}))


def test_a_lake_made_anew_leaves_out_what_was_deleted(tmp_path, capsys, monkeypatch):
    """The command that a lake of another version is refused with takes its list of deleted runs along."""
    write(tmp_path / "in" / "zq7-alone.ndjson", *run_of("zq7-run"))
    write(
        tmp_path / "in" / "both.ndjson",
        *run_of("zq7-run"),
        *run_of("keep"),
        receipt("op", trace_id="zq7-run"),
    )
    put(tmp_path / "in", tmp_path / "lake")
    forget(tmp_path / "lake", run_id="zq7-run")
    put(tmp_path / "in", tmp_path / "lake")
    kept = Lake.open(tmp_path / "lake").events().collect()
    of_another_version(tmp_path / "lake")
    with pytest.raises(LakeError, match="schema version 0") as refused:
        Lake.open(tmp_path / "lake")
    command = str(refused.value).partition("run: agentlens ")[2].partition(" and copy")[0]
    assert command.endswith(f" --forgotten {tmp_path / 'lake'}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    sources = shlex.split(command)[:2]
    assert main([*sources, str(tmp_path / "in"), *shlex.split(command)[2:]]) == 0
    capsys.readouterr()
    made = tmp_path / "lake-v1"
    assert "zq7" not in everything_in(made)
    assert Lake.open(made).events().collect().select("run_id", "seq").equals(kept.select("run_id", "seq"))
    put(write(tmp_path / "in" / "zq7-alone.ndjson", *run_of("zq7-run", 9)), made)
    assert "zq7" not in everything_in(made)


def test_only_a_new_lake_takes_a_list_of_deleted_runs_along(tmp_path):
    """A lake that was read without it would keep the runs; the same command again is no change."""
    source = write(tmp_path / "a.ndjson", *run_of("zq7-run"), *run_of("keep"))
    for name in ("old", "other"):
        put(source, tmp_path / name)
    forget(tmp_path / "old", run_id="zq7-run")
    with pytest.raises(LakeError, match="runs that were read before; accepted: --forgotten with a new lake"):
        ingest(source, tmp_path / "other", normaliser=NORMALISER, forgotten=tmp_path / "old")
    for _ in range(2):
        ingest(source, tmp_path / "new", normaliser=NORMALISER, forgotten=tmp_path / "old")
        assert Lake.open(tmp_path / "new").events().collect()["run_id"].unique().to_list() == ["keep"]


@pytest.mark.parametrize("text", [None, "[]", "{", '{"forgotten": [1]}', '{"forgotten": "zq7"}'])
def test_a_list_that_cannot_be_read_is_refused(tmp_path, text):
    """Reading on without it would bring deleted runs back."""
    (tmp_path / "old").mkdir()
    if text is not None:
        (tmp_path / "old" / "manifest.json").write_text(text)
    source = write(tmp_path / "a.ndjson", *run_of("r"))
    with pytest.raises(LakeError, match=r"manifest\.json"):
        ingest(source, tmp_path / "new", normaliser=NORMALISER, forgotten=tmp_path / "old")
    assert not (tmp_path / "new").exists()


def test_handoffs_deleted_by_date_do_not_come_back(tmp_path):
    """A file of receipts grows at its end; what was deleted from its beginning stays deleted, with what follows of it."""
    old = [receipt("zq7-op"), receipt("zq7-op", "accepted", at="2026-10-05T08:05:00Z")]
    new = [receipt("op-2", at="2026-10-07T08:00:00Z")]
    lake = tmp_path / "lake"
    put(write(tmp_path / "a.ndjson", *old, *new), lake)
    assert forget(lake, before="2026-10-06").rows["receipts"] == 2
    late = [
        receipt("zq7-op", "completed", at="2026-10-08T08:00:00Z"),
        receipt("op-3", at="2026-10-08T08:00:00Z"),
    ]
    put(write(tmp_path / "a.ndjson", *old, *new, *late), lake)
    assert Lake.open(lake).receipts().collect()["operation_id"].to_list() == ["op-2", "op-3"]
    assert "zq7" not in everything_in(lake)


def labelled(*runs, **more):
    """Rows of the label table."""
    return conform_labels(
        pl.DataFrame([{"run_id": run, "scope": "run", "label": "healthy"} | more for run in runs])
    )


def test_labels_that_are_left_can_be_read(tmp_path):
    """A part of the store is named by what it says: without a deleted run it has another name."""
    lake = tmp_path / "lake"
    put(write(tmp_path / "a.ndjson", *run_of("zq7-run"), *run_of("keep")), lake)
    store = LabelStore.of(Lake.open(lake))
    store.add(labelled("zq7-run", "keep"))
    store.add(labelled("zq7-run", source="weak"))
    assert forget(lake, run_id="zq7-run").rows["labels"] == 2
    assert store.read()["run_id"].to_list() == ["keep"]
    assert "zq7" not in everything_in(lake)
    assert store.add(labelled("keep")) is None


def test_labels_of_a_handoff_go_with_it(tmp_path):
    """Deleted by date, a handoff leaves no label behind."""
    lake = tmp_path / "lake"
    rows = [receipt("zq7-op"), receipt("op-2", at="2026-10-07T08:00:00Z")]
    put(write(tmp_path / "a.ndjson", *rows), lake)
    store = LabelStore.of(Lake.open(lake))
    store.add(pl.concat([labelled(None, scope="handoff", operation_id=one) for one in ("zq7-op", "op-2")]))
    assert forget(lake, before="2026-10-06").rows["labels"] == 1
    assert store.read()["operation_id"].to_list() == ["op-2"]


@pytest.mark.parametrize("again", [{"run_id": "zq7-run"}, {"run_id": "other"}, {"before": "2026-10-01"}])
def test_a_deletion_that_was_killed_is_finished_by_the_next(tmp_path, monkeypatch, again):
    """Between the lake and its labels: the labels go with whatever is deleted next, or with the same command."""
    lake = tmp_path / "lake"
    put(
        write(tmp_path / "a.ndjson", *run_of("zq7-run"), *run_of("other"), *run_of("keep", at=1_800_000_000)),
        lake,
    )
    store = LabelStore.of(Lake.open(lake))
    store.add(labelled("zq7-run", "keep"))

    class KilledError(BaseException):
        pass

    def killed(_):
        raise KilledError

    monkeypatch.setattr(LabelPart, "put_in_place", killed)
    with pytest.raises(KilledError):
        forget(lake, run_id="zq7-run")
    monkeypatch.undo()
    assert store.read()["run_id"].to_list() == ["keep", "zq7-run"]
    forget(lake, **again)
    assert store.read()["run_id"].to_list() == ["keep"]
    assert "zq7" not in everything_in(lake)


def test_labels_that_cannot_be_put_in_place_are_told(tmp_path, monkeypatch):
    """The lake is not as it was by then, and the message does not say so."""
    lake = tmp_path / "lake"
    put(write(tmp_path / "a.ndjson", *run_of("zq7-run"), *run_of("keep")), lake)
    LabelStore.of(Lake.open(lake)).add(labelled("zq7-run", "keep"))

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(LabelPart, "put_in_place", full)
    with pytest.raises(LakeError, match="deleted, but not all of its labels yet: No space left"):
        forget(lake, run_id="zq7-run")
    monkeypatch.undo()
    assert forget(lake, run_id="zq7-run").rows["labels"] == 1
    assert "zq7" not in everything_in(lake)


def test_a_disk_that_does_not_confirm_is_no_lake_as_it_was(tmp_path, monkeypatch):
    """The manifest is in place when its folder is made durable: whoever is told of a fault is told of that too."""
    lake = tmp_path / "lake"
    put(write(tmp_path / "a.ndjson", *run_of("zq7-run"), *run_of("keep")), lake)

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(manifest, "sync_folder", full)
    with pytest.raises(
        LakeError, match="the lake is written, but the disk did not confirm it: No space left"
    ):
        forget(lake, run_id="zq7-run")
    monkeypatch.undo()
    assert Lake.open(lake).events().collect()["run_id"].unique().to_list() == ["keep"]
    forget(lake, run_id="zq7-run")
    assert "zq7" not in everything_in(lake)
