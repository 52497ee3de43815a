"""Files of results and labels: the old one or the new one, never a part."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import polars as pl
import pytest

from agentlens.calibrate.label_store import LabelStore
from agentlens.calibrate.labels import conform_labels
from agentlens.errors import LakeError
from agentlens.in_place import in_place, write_text
from agentlens.results import write_table

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
