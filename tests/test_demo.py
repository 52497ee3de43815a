"""The demo, as it is run after installation."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.datasets import fleet_files
from agentlens.demo import demo, fleet_folder
from agentlens.errors import InputError
from agentlens.model.verdict import EPISODES, RUNS, VERDICTS
from agentlens.verbs.console import console


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    echo = console()
    with echo.capture() as captured:
        code = demo(out, echo)
    return out, code, captured.get()


def test_it_prints_verdicts_episodes_and_what_to_type_next(ran) -> None:
    """The first output fits 100 columns and holds counts, evidence and the next commands."""
    _, code, said = ran
    assert code == 0
    tables = said.split("Written:")[0]
    assert max(map(len, tables.splitlines())) <= 100
    for part in (
        "120 finished runs",
        "Runs by final verdict",
        "stuck_loop",
        "Against the labels",
        "agentlens loops",
    ):
        assert part in said


def test_it_writes_tables_and_one_page(ran) -> None:
    """Parquet with the documented columns, and a page that names the rule."""
    out, _, _ = ran
    for name, schema in (("verdicts", VERDICTS), ("episodes", EPISODES), ("runs", RUNS)):
        assert pl.read_parquet(out / "tables" / f"{name}.parquet").schema == schema
    page = (out / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "rule_digest" in page


def test_a_second_run_gives_the_same_bytes(ran) -> None:
    """Nothing of the first run is lost or doubled."""
    out, _, said = ran
    kept = {p: p.read_bytes() for p in [out / "page.html", *(out / "tables").iterdir()]}
    echo = console()
    with echo.capture() as captured:
        demo(out, echo)
    assert captured.get() == said
    assert {p: p.read_bytes() for p in kept} == kept


def test_without_the_checkout_the_same_fleet_is_made(tmp_path) -> None:
    """An installed package has no data/: the seed gives the same files."""
    folder = fleet_folder(tmp_path, shipped=tmp_path / "nowhere")
    assert folder == tmp_path / "fleet"
    made = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert made == fleet_files()


def test_a_file_in_the_way_is_one_line(tmp_path) -> None:
    """The error says where, what and what would do."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        demo(tmp_path / "taken", console())
