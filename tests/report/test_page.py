"""The page of loops: what it says of literal tables."""

from __future__ import annotations

import re
import shutil
import subprocess

import polars as pl
import pytest

from agentlens.model.verdict import RUNS
from agentlens.report.page import loops_page
from tests.report.lanes import tables

HOSTILE = "</td><script>document.title='run'</script>"


def words(html: str) -> str:
    """What a person reads: the body without scripts and tags."""
    body = re.sub(r"<script.*?</script>", " ", html.split("<body>")[1], flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def test_the_page_states_runs_episodes_and_evidence() -> None:
    """Counts, the tools of the lap, its events, what it saw, tokens and cost."""
    said = words(loops_page(**tables(), stamp={"rule": "laps", "key id": "k1"}))
    assert "1 run, 9 actions: 1 episode of a real loop in 1 run." in said
    assert "went round in 2 steps (search → read), 3 laps" in said
    assert "2 results (f3, …)" in said
    assert "1,200 tokens and $0.50" in said
    assert "rule laps key id k1" in said


def test_no_loops_is_said_in_words() -> None:
    """A page without episodes draws no lanes and breaks nowhere."""
    have = tables()
    have["episodes"] = have["episodes"].clear()
    said = words(loops_page(**have))
    assert "No loop was found." in said
    assert "There is no loop to draw." in said


def test_what_no_export_says_is_a_dash_and_not_a_zero() -> None:
    """Cost and tokens in loops that are not known are not 0."""
    have = tables()
    unknown = {name: pl.lit(None, RUNS[name]) for name in ("loop_tokens", "loop_cost_usd", "verdict")}
    have["runs"] = have["runs"].with_columns(**unknown)
    have["episodes"] = have["episodes"].with_columns(
        tokens=pl.lit(None, pl.Int64), cost_usd=pl.lit(None, pl.Float64)
    )
    said = words(loops_page(**have))
    assert "– 1 1 1 0 s 1 – –" in said
    assert "The episode took" not in said


def test_empty_tables_make_a_page() -> None:
    """Nothing at all is nothing wrong."""
    have = {name: frame.clear() for name, frame in tables().items()}
    assert "0 runs, 0 actions" in words(loops_page(**have))


def test_equal_tables_in_any_row_order_give_equal_bytes() -> None:
    """The page sorts what it shows."""
    first, second = tables(run="r-1"), tables(run="r-2")
    both = {name: pl.concat([first[name], second[name]]) for name in first}
    turned = {name: frame.reverse() for name, frame in both.items()}
    assert loops_page(**both) == loops_page(**turned)


def test_lazy_tables_will_do() -> None:
    """Frames may be lazy."""
    have = tables()
    assert loops_page(**{name: frame.lazy() for name, frame in have.items()}) == loops_page(**have)


def test_a_browser_draws_every_chart_and_runs_nothing_of_the_trace(tmp_path) -> None:
    """Offline in headless Chromium: all charts are there, paging works, no script of the trace ran, no complaint."""
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("needs Debian's chromium, which is not here")
    have = tables(run=HOSTILE, tool=HOSTILE)
    have["runs"] = pl.concat([have["runs"].with_columns(run_id=pl.lit(f"r-{i:02d}")) for i in range(40)])
    page = tmp_path / "page.html"
    page.write_text(loops_page(**have), encoding="utf-8")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
    quiet = [
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--enable-logging=stderr",
        f"--user-data-dir={tmp_path}/b",
    ]
    seen = subprocess.run(
        [browser, *flags, *quiet, page.as_uri()], capture_output=True, text=True, timeout=120, check=False
    )
    dom = re.sub(r"<script.*?</script>", "", seen.stdout, flags=re.DOTALL)
    assert dom.count('role="graphics-document"') == dom.count("data-spec=") == 3
    assert "could not be drawn" not in dom
    assert "<title>Loops in finished runs</title>" in dom
    assert "rows 1 to 25 of 40" in dom
    assert [line for line in seen.stderr.splitlines() if ":CONSOLE" in line] == []
