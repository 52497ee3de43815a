"""The notebooks: text that teaches, no outputs, and every one of them runs from top to bottom."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

jupytext = pytest.importorskip("jupytext", reason="needs jupytext (extra test)")
nbclient = pytest.importorskip("nbclient", reason="needs nbclient (extra test)")

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]_*.py"))
LIMIT_S = 120  # a cell; a whole notebook takes a third of that on a machine of its own
STUDY = "6_intercode"
CHARTS = {
    "1_look_at_your_traces": 5,
    "2_calibrate_the_loop_rule": 10,
    "3_acknowledgement_limits": 5,
    "4_false_positives": 4,
    "5_resets": 4,
    STUDY: 5,
}
"""The least number of pictures that each notebook draws on the shipped data."""

pytestmark = pytest.mark.filterwarnings("default")  # the warnings of the notebook runner are not ours


def name(path: Path) -> str:
    return path.stem


def cells(path: Path) -> list:
    return jupytext.read(path).cells


def run(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, **environment: str):
    """Execute one notebook in a folder of its own, on the shipped data unless told otherwise."""
    for variable in (
        "AGENTLENS_LAKE",
        "AGENTLENS_LABELS",
        "AGENTLENS_POLICIES",
        "AGENTLENS_ROOT",
        "AGENTLENS_TRACES",
    ):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.setenv("AGENTLENS_KEY", "a key for the tests, long enough")
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    book = jupytext.read(path)
    client = nbclient.NotebookClient(
        book, timeout=LIMIT_S, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    return book


def outputs(book) -> list[dict]:
    return [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]


def pictures(book) -> int:
    return sum("image/svg+xml" in output.get("data", {}) for output in outputs(book))


def test_all_six_are_there() -> None:
    """A notebook that is added or renamed is added here, with the pictures it must draw."""
    assert [name(path) for path in NOTEBOOKS] == list(CHARTS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_a_notebook_teaches(path: Path) -> None:
    """It states the question, says how to read a picture and what not to conclude, and has text between its code."""
    text = "\n".join(cell.source for cell in cells(path) if cell.cell_type == "markdown")
    assert re.match(r"# \d\. ", text)
    for part in ("**The question.**", "**How to read it.**", "**What not to conclude.**"):
        assert part in text, part
    kinds = [cell.cell_type for cell in cells(path)]
    assert kinds[0] == "markdown"
    assert kinds.count("markdown") >= kinds.count("code") / 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_sources_are_plain_and_carry_no_output(path: Path) -> None:
    """Percent format; the generated `.ipynb` are not kept."""
    assert path.read_text(encoding="utf-8").startswith("# ---\n# jupyter:")
    assert not path.with_suffix(".ipynb").exists()
    assert all(not cell.get("outputs") for cell in cells(path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_it_runs_from_top_to_bottom(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the shipped data: no error, its pictures drawn without a network, nothing written but below its folder."""
    before = sorted((ROOT / "notebooks").iterdir())
    book = run(path, tmp_path, monkeypatch)
    assert (tmp_path / "demo" / "lake" / "manifest.json").is_file()
    assert sorted((ROOT / "notebooks").iterdir()) == before
    assert not [output for output in outputs(book) if output.output_type == "error"]
    assert pictures(book) >= CHARTS[name(path)]


@pytest.mark.slow
def test_the_study_on_the_public_runs(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """7,201 runs: the baselines are reproduced, and the calibrated rule is certified and finds more than each."""
    book = run(NOTEBOOKS[5], tmp_path, monkeypatch, AGENTLENS_TRACES=str(shared / "traces"))
    told = "\n".join(str(output.get("data", {}).get("text/plain", "")) for output in outputs(book))
    assert "'runs': 7201" in told
    assert "'status': 'CERTIFIED'" in told
    for alarms in ("2514", "2399", "2377"):
        assert alarms in told
