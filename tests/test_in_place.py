"""Files of results and labels: the old one or the new one, never a part."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
import pytest

from agentlens.calibrate.label_store import LabelStore
from agentlens.calibrate.labels import conform_labels
from agentlens.errors import InputError, LakeError
from agentlens.in_place import in_place, write_text
from agentlens.reporting import Report
from agentlens.results import Tables, write_table

if TYPE_CHECKING:
    from pathlib import Path


def full_disk(*_: object, **__: object) -> None:
    """Fail as Polars does where no more can be written."""
    raise pl.exceptions.ComputeError("Invalid thrift: transport error")


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After half of it was written: the old file, and nothing beside it."""
    path = tmp_path / "profile.toml"
    write_text(path, "old")

    def half() -> None:
        with in_place(path) as fresh:
            fresh.write_text("ne")
            raise OSError(28, "full")

    with pytest.raises(OSError, match="full"):
        half()
    write_table(pl.DataFrame({"a": [1]}), tmp_path / "t.parquet", {})
    monkeypatch.setattr(pl.DataFrame, "write_parquet", full_disk)
    with pytest.raises(OSError, match=r"writing failed: .*transport error"):
        write_table(pl.DataFrame({"a": [2]}), tmp_path / "t.parquet", {})
    assert path.read_text() == "old"
    assert pl.read_parquet(tmp_path / "t.parquet")["a"].to_list() == [1]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["profile.toml", "t.parquet"]


@dataclass(frozen=True, kw_only=True)
class Pair(Tables):
    """Two tables of one result."""

    first: pl.DataFrame
    second: pl.DataFrame


def test_tables_that_belong_together_are_replaced_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full at the second: both old ones stay, and nothing beside them."""
    old, new = (Pair(first=pl.DataFrame({"a": [n]}), second=pl.DataFrame({"a": [n]})) for n in (1, 2))
    old.write(tmp_path)
    real, calls = pl.DataFrame.write_parquet, iter([False, True])

    def second_fails(self: pl.DataFrame, *given: object, **more: object) -> None:
        full_disk() if next(calls) else real(self, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(pl.DataFrame, "write_parquet", second_fails)
        with pytest.raises(OSError, match="transport error"):
            new.write(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["first.parquet", "second.parquet"]
    assert {pl.read_parquet(file)["a"].item() for file in tmp_path.iterdir()} == {1}
    new.write(tmp_path)
    assert {pl.read_parquet(file)["a"].item() for file in tmp_path.iterdir()} == {2}


def test_a_report_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page, tables and those that only the report before had; a folder that was made for it goes again."""
    page, folder = tmp_path / "r.html", tmp_path / "r_tables"

    def report(html: str, *names: str) -> Report:
        return Report(
            html=html, tables=dict.fromkeys(names, pl.DataFrame({"a": [html]})), metadata={"agentlens": "0"}
        )

    with monkeypatch.context() as patch:
        patch.setattr(pl.DataFrame, "write_parquet", full_disk)
        with pytest.raises(InputError, match="can not be written"):
            report("new", "one").write(page)
    assert list(tmp_path.iterdir()) == []
    report("old", "one", "two").write(page)
    before = {path: path.read_bytes() for path in (page, *folder.iterdir())}
    with monkeypatch.context() as patch:
        patch.setattr(pl.DataFrame, "write_parquet", full_disk)
        with pytest.raises(InputError, match="can not be written"):
            report("new", "one").write(page)
    assert {path: path.read_bytes() for path in (page, *folder.iterdir())} == before
    report("new", "one").write(page)
    assert page.read_text() == "new"
    assert [path.name for path in folder.iterdir()] == ["one.parquet"]


def test_links_and_pipes_stay_what_they_are(tmp_path: Path) -> None:
    """The file behind a link is replaced; what is no file is written into."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    write_text(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    os.mkfifo(pipe := tmp_path / "pipe")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "through")
    assert os.read(reader, 20) == b"through"
    os.close(reader)
    assert pipe.is_fifo()


def test_labels_that_do_not_fit_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is as it was, and says so in one line, whatever the library below calls it."""
    store = LabelStore(tmp_path / "labels")
    store.add(conform_labels(pl.DataFrame([{"run_id": "r", "scope": "run", "label": "healthy"}])))
    before = store.read()
    monkeypatch.setattr(pl.DataFrame, "write_parquet", full_disk)
    with pytest.raises(LakeError, match="labels cannot be written: writing failed"):
        store.add(conform_labels(pl.DataFrame([{"run_id": "s", "scope": "run", "label": "healthy"}])))
    assert store.read().equals(before)
    assert len(list(store.folder.iterdir())) == 1
