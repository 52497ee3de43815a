"""The report without labels: what it says of runs written here, and that it is closed, inert and the same each time."""

from __future__ import annotations

import re
import shutil
import subprocess

import polars as pl
import pytest

from agentlens.errors import SettingsError
from agentlens.report.links import address, check_link
from agentlens.report.pages import report_page
from agentlens.report.sampling import draw
from tests.report.made import events, lane, material
from tests.report.test_page import words

HOSTILE = "</td></script><script>document.title='run'</script>'\"=1+1"


def fleet(name: str = "") -> pl.DataFrame:
    """A loop that ends in it, a loop that new evidence closes, missing evidence, a stalled run, a calm one."""
    return events(
        lane(f"{name}stuck", "PQ" + "AB" * 5, "pq" + "xy" * 5, trace_id="t-1", model="m-1"),
        lane(f"{name}left", "A" * 6 + "R", "xxxxxxr", model="m-2"),
        lane(f"{name}blind", "A" * 6, "??????"),
        lane(f"{name}stalled", "ABCDEFG", "xxxxxxx"),
        lane(f"{name}calm", "ABCDEFG"),
    )


def test_triage_says_what_was_found_and_what_is_not_known() -> None:
    """Episodes with their cost, uncertain and stalled runs, models, and a sample to label."""
    page = report_page(material(fleet()))
    said = words(page.html)
    assert "5 runs, 39 actions: 2 episodes of a loop in 2 runs, 1 run with uncertain actions." in said
    assert "S = 6 actions, at least T = 6, with the same evidence for 6" in said
    assert "it reached S = 10, 5 laps, from event 2 to 11" in said
    assert "new evidence closed it; 0 actions of the lane followed" in said
    assert page.tables["uncertain_runs"]["mostly"].to_list() == ["missing_fingerprint"]
    missing = page.tables["missing_evidence"]
    assert missing["run_id"].to_list() == page.tables["uncertain_runs"]["run_id"].to_list()
    assert missing["change"][0] in said
    assert page.tables["stalled_runs"]["run_id"].to_list() == ["stalled"]
    assert page.tables["by_model"].filter(pl.col("model") == "m-1")["tokens"].to_list() == [1000]


def test_each_case_says_which_factor_bound_and_what_would_clear_it() -> None:
    """Evidence that stood still before the actions repeated makes the action bind."""
    frame = events(lane("r", "PQAAAA", "xxxxxx"), lane("s", "AAAAAAAA", "pqxrxxxx"), lane("calm", "ABCABD"))
    said = words(report_page(material(frame)).html)
    assert "action: the actions had repeated for 4, the evidence for 6 already" in said
    assert "evidence: the actions had repeated for 8 already, the evidence for 4" in said
    assert "Cleared by: confirm 1 event longer clears 1 other episode too" in said
    assert "Cleared by: new evidence from one event on, any of 3 to 5" in said


def test_costs_that_are_not_exported_rank_last_and_are_dashes() -> None:
    """Unknown is neither free nor zero."""
    frame = events(lane("a", "A" * 8, "x" * 8, tokens_in=None), lane("b", "A" * 5, "x" * 5))
    frame = frame.with_columns(at=pl.lit(None, frame.schema["at"]))
    page = report_page(material(frame))
    assert page.tables["episodes"]["run_id"].to_list() == ["b", "a"]
    assert page.tables["episodes"]["tokens"].to_list() == [500, None]
    said = words(page.html)
    assert "Into them went 500 tokens (exported for 1). No cost or time is exported for any." in said


def test_the_page_is_the_same_whatever_the_order_of_rows() -> None:
    """No clock, no chance, everything sorted."""
    frame = fleet()
    assert report_page(material(frame)).html == report_page(material(frame.reverse())).html


def test_nothing_at_all_makes_a_page() -> None:
    """An empty set of runs is nothing wrong."""
    said = words(report_page(material(fleet().clear())).html)
    assert "0 runs, 0 actions" in said
    assert "No loop was found." in said


def test_a_link_is_filled_escaped_and_only_to_the_web() -> None:
    """A trace id cannot leave its place in the address."""
    assert address("https://t.example/{trace_id}?r={run_id}", "a b", '"/><x>') == (
        "https://t.example/%22%2F%3E%3Cx%3E?r=a%20b"
    )
    assert address("https://t.example/{trace_id}", "r", None) is None
    html = report_page(material(fleet(), link="https://t.example/t/{trace_id}")).html
    assert 'href="https://t.example/t/t-1" rel="noopener noreferrer"' in html
    for bad in (
        "javascript:{run_id}",
        "https://t.example/",
        "https://{run_id",
        "https:// x/{run_id}",
        "ftp://x/{run_id}",
    ):
        with pytest.raises(SettingsError, match="http"):
            check_link(bad)


def test_raw_content_is_marked() -> None:
    """Where it was asked for, the page says so before anything else, and the content is text."""
    made = material(fleet(), revealed={("stuck", "", 7): f"arguments:\n{HOSTILE}"})
    html = report_page(made).html
    assert "This file holds raw content of the traces" in words(html)
    assert "Raw content of event 7" in words(html)
    assert HOSTILE not in html
    assert "raw content of the traces" not in words(report_page(material(fleet())).html)


def test_a_sample_is_drawn_by_stratum_with_its_probability() -> None:
    """The same runs in any order, others with another seed, all of a small stratum."""
    runs = pl.DataFrame(
        {
            "run_id": [f"r{i:03d}" for i in range(100)],
            "alerts": [1] * 5 + [0] * 95,
            "uncertain_events": [0] * 10 + [1] * 30 + [0] * 60,
            "events": [3] * 99 + [0],
        }
    )
    drawn = draw(runs, size=10)
    assert drawn.equals(draw(runs.reverse(), size=10))
    assert not drawn.equals(draw(runs, size=10, seed=1))
    counted = {row["stratum"]: row for row in drawn.iter_rows(named=True)}
    assert {name: (row["taken"], row["of"]) for name, row in counted.items()} == {
        "flagged": (5, 5),
        "uncertain": (10, 30),
        "silent": (10, 64),
    }
    assert counted["silent"]["probability"] == 10 / 64
    assert drawn["run_id"].is_unique().all()


def in_a_browser(tmp_path, html: str, script: str = "") -> tuple[str, str]:
    """Open a page offline in headless Chromium; give the document without scripts, and what it complained about."""
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("needs Debian's chromium, which is not here")
    page = tmp_path / "page.html"
    page.write_text(html, encoding="utf-8")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
    quiet = [
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--enable-logging=stderr",
        f"--user-data-dir={tmp_path}/b",
    ]
    seen = subprocess.run(
        [browser, *flags, *quiet, page.as_uri() + script],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    dom = re.sub(r"<script.*?</script>", "", seen.stdout, flags=re.DOTALL)
    complaints = [line for line in seen.stderr.splitlines() if ":CONSOLE" in line]
    return dom, "\n".join(complaints)


def test_a_browser_shows_tabs_pages_of_cases_and_runs_nothing_of_the_trace(tmp_path) -> None:
    """Offline: every chart draws, tabs and paging are there, an address with # opens its tab, no complaint."""
    lanes = [lane(f"{HOSTILE}{i:02d}", "A" * 6, "x" * 6, workflow=HOSTILE, model=HOSTILE) for i in range(30)]
    frame = events(*lanes).with_columns(tool=pl.lit(HOSTILE))
    html = report_page(material(frame, link="https://t.example/{run_id}")).html
    dom, complaints = in_a_browser(tmp_path, html, "#resets")
    assert complaints == ""
    assert "<title>Loops, handoffs and resets in finished runs</title>" in dom
    assert dom.count('role="graphics-document"') == dom.count("data-spec=") == 2
    assert "could not be drawn" not in dom
    assert "cases 1 to 5 of 30" in dom
    assert "rows 1 to 25 of 30" in dom
    assert dom.count('class="case away"') == 25
    assert re.search(r'id="resets-tab"[^>]*aria-selected="true"', dom)
    assert re.search(r'class="tab shut" id="loops"', dom)
