"""`agentlens lab`: the copy of the notebooks, what they work on, and what is said where something is missing."""

from __future__ import annotations

import os
import sys
from types import ModuleType

import polars as pl
import pytest

from agentlens import lab
from agentlens.calibrate.labels import read_labels
from agentlens.cli import main
from agentlens.errors import InputError, SettingsError

VARIABLES = (lab.LAKE, lab.LABELS, lab.POLICIES, lab.ROOT)


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "before")  # so that what a verb sets is undone
        monkeypatch.delenv(name)


@pytest.fixture
def jupyter(monkeypatch: pytest.MonkeyPatch) -> list:
    """A JupyterLab that only notes how it was started."""
    started: list = []

    class LabApp:
        @classmethod
        def launch_instance(cls, argv: list[str]) -> None:
            started.append((argv, {name: os.environ.get(name) for name in VARIABLES}))

    package, module = ModuleType("jupyterlab"), ModuleType("jupyterlab.labapp")
    module.LabApp = LabApp
    monkeypatch.setitem(sys.modules, "jupyterlab", package)
    monkeypatch.setitem(sys.modules, "jupyterlab.labapp", module)
    return started


def test_six_notebooks_are_copied_without_outputs(tmp_path) -> None:
    """The copies are `.ipynb`, ready to open."""
    written, kept = lab.copy_notebooks(tmp_path / "here")
    assert [path.name[0] for path in written] == list("123456")
    assert kept == []
    assert all('"output_type"' not in path.read_text(encoding="utf-8") for path in written)


def test_work_in_a_copy_is_never_written_over(tmp_path) -> None:
    """A second call leaves what is there alone and adds what is missing."""
    first, *_ = lab.copy_notebooks(tmp_path)[0]
    first.write_text("mine", encoding="utf-8")
    (tmp_path / "5_resets.ipynb").unlink()
    written, kept = lab.copy_notebooks(tmp_path)
    assert [path.name for path in written] == ["5_resets.ipynb"]
    assert len(kept) == 5
    assert first.read_text(encoding="utf-8") == "mine"


def test_the_lab_opens_on_the_copy_with_the_lake(tmp_path, jupyter, capsys) -> None:
    """Paths are made absolute, because the notebooks run in another folder."""
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "manifest.json").write_text("{}")
    labels = tmp_path / "labels.csv"
    labels.write_text("run_id,scope,label\n")
    into = tmp_path / "work"
    assert main(["lab", str(lake), "--labels", str(labels), "--into", str(into)]) == 0
    ((argv, environment),) = jupyter
    assert argv == [str(into)]
    assert environment[lab.LAKE] == str(lake)
    assert environment[lab.LABELS] == str(labels)
    assert environment[lab.POLICIES] is None
    assert "6 notebooks written" in capsys.readouterr().err


def test_copy_only_starts_nothing(tmp_path, jupyter) -> None:
    """For other editors."""
    assert main(["lab", "--into", str(tmp_path / "work"), "--copy-only"]) == 0
    assert jupyter == []
    assert (tmp_path / "work" / "1_look_at_your_traces.ipynb").is_file()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["lab", "no-such-lake"], "no lake"),
        (["lab", "--labels", "no-such-file.csv"], "no such file"),
        (["lab", "--policies", __file__], "belong to a lake"),
        (["lab", "--into", __file__], "cannot be written"),
    ],
)
def test_what_is_wrong_is_one_line(argv, said, tmp_path, monkeypatch, capsys, jupyter) -> None:
    """What, where, and what would do; nothing is started."""
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert jupyter == []


def test_without_the_extra_the_message_names_it(tmp_path, monkeypatch) -> None:
    """Neither the converter nor JupyterLab is needed to use the rest."""
    monkeypatch.setitem(sys.modules, "jupytext", None)
    with pytest.raises(SettingsError, match=r"agentlens-toolkit\[lab\]"):
        lab.copy_notebooks(tmp_path)
    monkeypatch.setitem(sys.modules, "jupyterlab", None)
    monkeypatch.setitem(sys.modules, "jupyterlab.labapp", None)
    with pytest.raises(SettingsError, match=r"agentlens-toolkit\[lab\]"):
        lab.start(tmp_path)


def test_an_installation_without_notebooks_says_so(tmp_path, monkeypatch) -> None:
    """One line, no empty folder opened."""
    monkeypatch.setattr(lab, "PLACES", (tmp_path / "nowhere",))
    with pytest.raises(InputError, match="not installed"):
        lab.notebooks_folder()


def test_the_workbench_is_the_fleet_or_the_users_lake(tmp_path, monkeypatch) -> None:
    """The fleet comes with labels and exports; a lake of the user's has what was given."""
    shipped = lab.workbench(tmp_path / "demo")
    assert shipped.labels_file().is_file()
    assert [path.name for path in shipped.sources()] == ["claude-code", "otlp", "native"]
    monkeypatch.setenv(lab.LAKE, str(shipped.lake))
    monkeypatch.setenv("AGENTLENS_KEY", "a key for the tests, long enough")
    mine = lab.workbench(tmp_path / "other")
    assert mine.lake == shipped.lake
    assert len(mine.sources()) > 40
    assert mine.normaliser().key.key_id != shipped.normaliser().key.key_id
    assert not (tmp_path / "other").exists()
    with pytest.raises(InputError, match="--labels FILE"):
        mine.labels_file()


def test_labels_that_the_lake_keeps_will_do(tmp_path, monkeypatch) -> None:
    """Whoever reviewed runs need not name a file."""
    shipped = lab.workbench(tmp_path / "demo")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(lab.LAKE, str(shipped.lake))
    run = pl.read_csv(shipped.labels_file(), infer_schema=False).filter(scope="run")["run_id"][0]
    argv = ["label", "add", str(shipped.lake), "--run-id", run, "--scope", "run", "--label", "healthy"]
    assert main(argv) == 0
    assert read_labels(lab.workbench().labels_file())["run_id"].to_list() == [run]


def test_a_file_in_the_way_of_the_fleet_is_one_line(tmp_path) -> None:
    """A notebook that can not write its lake says where."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        lab.workbench(tmp_path / "taken")
