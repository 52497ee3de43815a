"""What names a source: one file under many names, names that are no file, files of no known format."""

from __future__ import annotations

import os
import threading
from dataclasses import replace

import orjson
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from agentlens.cli import main
from agentlens.lake import Lake, ingest, read_file
from agentlens.lake.manifest import MANIFEST
from agentlens.readers.source import Source
from tests.lake.exports import NORMALISER, event, events, run_of, write


def put(sources, lake, **more):
    return ingest(sources, lake, normaliser=NORMALISER, **more)


def statuses(report):
    return [source.status for source in report.sources]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder ``in`` with one run without any identity, and the working folder beside it."""
    write(tmp_path / "in" / "a.ndjson", *(event("r", 0) for _ in range(3)))
    (tmp_path / "link.ndjson").symlink_to(tmp_path / "in" / "a.ndjson")
    (tmp_path / "linked").symlink_to(tmp_path / "in")
    (tmp_path / "beside").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("AGENTLENS_KEY", "a key for the tests, long enough")
    return tmp_path


def spellings(folder):
    """The one file, called in every way there is."""
    return [
        "in/a.ndjson",
        "./in/a.ndjson",
        str(folder / "in" / "a.ndjson"),
        "beside/../in/a.ndjson",
        "in/../in/a.ndjson",
        "link.ndjson",
        "linked/a.ndjson",
        "linked",
        "in",
        "in/*.ndjson",
        folder / "in",
    ]


def test_a_file_under_another_spelling_is_the_source_it_was(folder):
    """Relative, absolute, through links, by folder or pattern: nothing is read twice, and its first name stays."""
    assert statuses(put("in/a.ndjson", "lake")) == ["new"]
    before = events(folder / "lake")
    for spelling in spellings(folder):
        report = put(spelling, "lake")
        assert [(one.name, one.status) for one in report.sources] == [("in/a.ndjson", "unchanged")]
    assert_frame_equal(events(folder / "lake"), before)
    assert before.height == 3


def test_a_file_named_in_many_ways_at_once_is_read_once(folder):
    """Under the first of its names, also as a `Source`; without a lake too."""
    given = [*spellings(folder), Source.of(folder / "in" / "a.ndjson")]
    report = put(given, "lake")
    assert statuses(report) == ["new"]
    assert report.events == 3
    assert read_file("in", NORMALISER).events.collect().height == 3


def test_a_changed_file_under_another_spelling_replaces_its_rows(folder):
    """The rows are those of the file as it is now, and no path but the names given is stored."""
    put("in/a.ndjson", "lake")
    write(folder / "in" / "a.ndjson", *run_of("r", 4))
    report = put(folder / "in", "lake")
    assert [(one.name, one.status) for one in report.sources] == [("in/a.ndjson", "changed")]
    assert events(folder / "lake").height == 4
    assert str(folder) not in (folder / "lake" / MANIFEST).read_text()


def test_a_file_under_another_spelling_from_another_folder(folder, monkeypatch):
    """The place does not depend on where the command is run."""
    put("in/a.ndjson", "lake")
    monkeypatch.chdir(folder / "beside")
    assert statuses(put("../in/a.ndjson", "../lake")) == ["unchanged"]
    assert statuses(put("../in/a.ndjson", "../lake", dry_run=True)) == ["unchanged"]


def test_another_file_of_a_known_name_is_said(folder, monkeypatch):
    """Two working folders may hold a file of one name: the later one replaces the other, but not in silence."""
    put("in/a.ndjson", "lake")
    write(folder / "beside" / "in" / "a.ndjson", *run_of("other", 2))
    monkeypatch.chdir(folder / "beside")
    (source,) = put("in/a.ndjson", "../lake").sources
    assert source.status == "changed"
    assert "another file of this name" in source.reason


def test_a_moved_export_is_unchanged(folder):
    """A tree of exports that moved with its names and bytes is the one it was."""
    source = replace(Source.of(folder / "in" / "a.ndjson"), name="a")
    put(source, "lake")
    (folder / "in" / "a.ndjson").rename(folder / "beside" / "a.ndjson")
    moved = replace(source, path=folder / "beside" / "a.ndjson")
    assert statuses(put(moved, "lake")) == ["unchanged"]


def test_lakes_without_places_still_work(folder):
    """A manifest of an earlier release is read; its sources are known by name as they were."""
    put("in/a.ndjson", "lake")
    manifest = orjson.loads((folder / "lake" / MANIFEST).read_bytes())
    for source in manifest["sources"]:
        assert len(source.pop("place")) == 32
    (folder / "lake" / MANIFEST).write_bytes(orjson.dumps(manifest))
    assert statuses(put("in/a.ndjson", "lake")) == ["unchanged"]
    write(folder / "in" / "a.ndjson", *run_of("r", 2))
    assert [(one.status, one.reason) for one in put("in/a.ndjson", "lake").sources] == [("changed", "")]
    assert statuses(put("link.ndjson", "lake")) == ["unchanged"]


def test_a_named_pipe_has_no_place(folder):
    """What comes through two pipes of one name is two sources, named by what came."""
    for run, status in (("p", "new"), ("q", "new"), ("p", "unchanged")):
        rows = write(folder / "rows", *run_of(run, 2)).read_bytes()
        pipe = folder / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(rows,))
        writer.start()
        assert statuses(put(pipe, "lake")) == [status]
        writer.join()
        pipe.unlink()
    assert events(folder / "lake")["run_id"].unique().sort().to_list() == ["p", "q"]
    assert all(entry.place == "" for entry in Lake.open(folder / "lake").manifest.sources.values())


@pytest.mark.parametrize("wrong", ["nowhere.ndjson", "no*where", "beside", "dangling"])
def test_one_missing_name_does_not_stop_the_others(folder, capsys, wrong):
    """It is refused with its reason, in one line; with nothing beside it there is nothing to read."""
    (folder / "dangling").symlink_to(folder / "gone")
    assert main(["ingest", wrong, "in/a.ndjson", "--into", "lake"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"left out: {wrong}: ")
    assert events(folder / "lake").height == 3
    assert main(["ingest", wrong, "in/a.ndjson", "--into", "lake"]) == 0
    assert "nothing changed" in capsys.readouterr().out
    assert sorted(statuses(put([wrong, "in/a.ndjson"], "third"))) == ["new", "refused"]
    assert main(["ingest", wrong, "--into", "other"]) == 2
    assert not (folder / "other").exists()


def test_a_named_file_of_no_known_format_is_named(folder, capsys):
    """Files that a folder holds beside the exports are only counted, one that was asked for has its reason."""
    (folder / "in" / "notes.txt").write_text("nothing to see\n")
    (folder / "asked.csv").write_text("col1,col2\n1,2\n")
    assert main(["ingest", "in", "asked.csv", "--into", "lake"]) == 0
    said = capsys.readouterr()
    assert [line for line in said.err.splitlines() if "no known format" in line] == said.err.splitlines()
    assert said.err.startswith("left out: asked.csv: no known format")
    assert "asked.csv" in said.out
    assert "1 file of no known format left out: .txt (1)" in said.out
    assert "notes.txt" not in said.out
    assert main(["ingest", "in", "in/notes.txt", "--into", "lake"]) == 0
    assert capsys.readouterr().err.startswith("left out: in/notes.txt: no known format")


def test_the_first_fault_is_the_reason_of_its_source(folder):
    """The line of a source with records set aside says where the first stands and what is wrong with it."""
    source = write(folder / "b.ndjson", event("s", 0), "{broken", '{"run_id": "r", "tool"')
    frame = put([source, "in"], "lake").frame().sort("quarantined")
    assert frame["quarantined"].to_list() == [0, 2]
    assert frame["reason"][0] == ""
    assert frame["reason"][1].startswith("line 2: ")
    assert frame.filter(pl.col("status") != "new").is_empty()
