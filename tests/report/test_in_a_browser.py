"""Pages in a real browser, offline: typed into, sorted, paged, saved, printed, in the dark, by keyboard alone."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path

import polars as pl
import pytest

from agentlens.comparing import compare
from agentlens.report.blinded import queue_page
from agentlens.report.decisions import read_decisions
from agentlens.report.pages import report_page
from tests.report.browser import Browser, chromium
from tests.report.drawings import handoffs
from tests.report.made import events, lane, material
from tests.report.test_labelled import fleet

SCRIPT = "<script>document.title='run'</script>"
QUOTE = """r"1' onmouseover='document.title="run"'"""
FORMULA = '=HYPERLINK("javascript:document.title=1")'
_SHOWN = "[...document.querySelectorAll('{}')].filter((one) => one.offsetParent !== null).length"
_ROWS = "#episodes tbody tr:not(.away)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def browser(folder: Path):
    with chromium(folder) as found:
        yield found


@pytest.fixture(scope="module")
def page(folder: Path) -> Path:
    """Thirty runs in loops of six lengths, with names that are scripts, quotes, formulas and addresses of scripts."""
    lanes = [
        lane(f"{FORMULA if i % 2 else QUOTE}{i:02d}", "A" * (5 + i % 6), "x" * (5 + i % 6), trace_id=f"t{i}")
        for i in range(30)
    ]
    frame = events(*lanes).with_columns(tool=pl.lit(SCRIPT), workflow=pl.lit("javascript:alert(1)"))
    made = material(frame, link="https://t.example/{trace_id}", boundaries={"handoffs": handoffs()})
    out = folder / "report.html"
    out.write_text(report_page(made).html, encoding="utf-8")
    return out


@pytest.fixture
def opened(browser: Browser, page: Path) -> Browser:
    """The page, freshly opened, at the size of a laptop."""
    browser.send("Emulation.setEmulatedMedia", media="", features=[])
    browser.wide(1280)
    browser.open(page)
    return browser


def saved(browser: Browser, folder: Path, name: str) -> str:
    """What the last click saved under a name."""
    path, end = folder / "downloads" / name, time.monotonic() + 20
    while not path.exists() and time.monotonic() < end:
        browser.run("1")
        time.sleep(0.05)
    text = path.read_text(encoding="utf-8")
    path.unlink()
    return text


def test_every_chart_draws_and_nothing_leaves_or_complains(opened: Browser) -> None:
    """No console message, no request but for the file itself, nothing of the trace ran."""
    assert opened.run("document.querySelectorAll('.chart svg').length") == 3
    assert "could not be drawn" not in opened.run(
        "[...document.querySelectorAll('.chart')].map((c) => c.textContent).join()"
    )
    assert opened.run("document.title") == "Loops, handoffs and resets in finished runs"
    assert opened.strangers() == []
    assert opened.said == []


def test_a_network_is_forbidden_and_not_only_unused(opened: Browser) -> None:
    """Were there a script that asked for something, the page's own policy would stop it; so would a script added."""
    asked = "fetch('https://t.example/x').then(() => 'asked', () => 'stopped')"
    assert opened.run(asked) == "stopped"
    added = "document.createElement('script')"
    assert (
        opened.run(
            f"(() => {{ const s = {added}; s.textContent = 'window.added = 1'; document.body.append(s); }})()"
        )
        is None
    )
    assert opened.run("window.added") is None
    assert len(opened.said) >= 2
    opened.said.clear()  # what the policy said of these two
    opened.asked.clear()


def test_typing_filters_rows(opened: Browser) -> None:
    """Rows that hold the text stay, the count says how many; an empty field brings all back."""
    assert opened.run(f"document.querySelectorAll('{_ROWS}').length") == 25
    opened.click("#episodes input[type=search]")
    opened.type("HYPERLINK")
    assert opened.run(f"document.querySelectorAll('{_ROWS}').length") == 15
    assert "rows 1 to 15 of 15" in opened.run("document.querySelector('#episodes .tools').textContent")
    opened.type("no such run")
    assert "no row" in opened.run("document.querySelector('#episodes .tools').textContent")


def test_paging_and_sorting(opened: Browser) -> None:
    """The rest is on the next page; a heading sorts all rows, by number, down and then up."""
    opened.click("#episodes .on")
    assert opened.run(f"document.querySelectorAll('{_ROWS}').length") == 5
    heading = "[...document.querySelectorAll('#episodes th')].findIndex((h) => h.textContent === 'actions')"
    at = opened.run(heading)
    cells = f"[...document.querySelectorAll('{_ROWS}')].map((row) => Number(row.cells[{at}].textContent))"
    opened.click(f"#episodes th:nth-child({at + 1}) .sort")
    down = opened.run(cells)
    assert len(down) == 25
    assert down == sorted(down, reverse=True)
    assert down[0] == 10
    opened.click(f"#episodes th:nth-child({at + 1}) .sort")
    up = opened.run(cells)
    assert up == sorted(up)
    assert up[0] == 5
    assert (
        opened.run(f"document.querySelectorAll('#episodes th')[{at}].getAttribute('aria-sort')")
        == "ascending"
    )


def test_a_saved_table_holds_every_row_and_no_formula(opened: Browser, folder: Path) -> None:
    """All thirty rows, numbers plain, and names that a spreadsheet would execute are text."""
    opened.click("#episodes .save")
    rows = list(csv.DictReader(io.StringIO(saved(opened, folder, "episodes-from-onset-to-end.csv"))))
    assert len(rows) == 30
    assert {row["run"][:4] for row in rows} == {"'=HY", "r\"1'"}
    assert {row["tools of one lap"] for row in rows} == {SCRIPT}
    assert sorted({int(row["actions"]) for row in rows}) == [5, 6, 7, 8, 9, 10]
    assert not [v for row in rows for v in row.values() if v.startswith(("=", "+", "@", "\t", "\r"))]


def test_cases_are_paged_and_an_address_opens_one(opened: Browser, page: Path) -> None:
    """Five at once; an address with its anchor turns to its page."""
    assert opened.run(_SHOWN.format(".case")) == 5
    opened.open(page, "#case-28")
    opened.until("document.querySelector('#case-28').offsetParent !== null")
    assert opened.run(_SHOWN.format(".case")) == 5


def test_tabs_show_one_part_at_a_time(opened: Browser) -> None:
    """A click opens a tab and closes the others; each is labelled for whoever does not see it."""
    assert opened.run(_SHOWN.format(".tab")) == 1
    opened.click("#handoffs-tab")
    assert opened.run("document.querySelector('#handoffs').offsetParent !== null") is True
    assert opened.run("document.querySelector('#loops').offsetParent === null") is True
    assert opened.run("document.querySelector('#handoffs').getAttribute('role')") == "tabpanel"
    assert opened.run("document.querySelector('#handoffs-tab').getAttribute('aria-selected')") == "true"


def test_by_keyboard_alone(opened: Browser) -> None:
    """Tab goes to the skip link first and to the tabs; arrows change tabs; Enter sorts; the focus can be seen."""
    focus = "document.activeElement"
    opened.key("Tab")
    assert opened.run(f"{focus}.className") == "skip"
    assert opened.run(f"{focus}.getBoundingClientRect().left >= 0") is True
    opened.key("Tab")
    assert opened.run(f"{focus}.id") == "loops-tab"
    assert opened.run(f"getComputedStyle({focus}).outlineStyle") == "solid"
    opened.key("ArrowRight")
    assert opened.run(f"{focus}.id") == "handoffs-tab"
    assert opened.run(_SHOWN.format(".tab")) == 1
    opened.key("ArrowLeft")
    for _ in range(60):
        opened.key("Tab")
        if opened.run(f"{focus}.className") == "sort":
            break
    before = opened.run(f"{focus}.textContent")
    opened.key("Enter")
    assert opened.run(f"{focus}.closest('th').getAttribute('aria-sort')") == "descending"
    assert opened.run(f"{focus}.textContent") == before
    for _ in range(60):
        opened.key("Tab")
        if opened.run(f"{focus}.tagName === 'INPUT'"):
            break
    opened.type("HYPERLINK")
    assert opened.run(f"{focus}.closest('.tools').textContent.includes('of 15')") is True


def test_a_chart_has_words_and_a_strip_too(opened: Browser) -> None:
    """Each chart has a name, of a document for screen readers once it is drawn; each action of a strip says what it is."""
    names = opened.run(
        "[...document.querySelectorAll('[data-spec]')].map((one) => one.getAttribute('aria-label'))"
    )
    assert names
    assert all(len(name) > 20 for name in names)
    assert opened.run(
        "[...document.querySelectorAll('.strip li')].every((one) => one.querySelector('.said').textContent)"
    )
    assert opened.run("document.querySelectorAll('h1').length") == 1


def test_links_lead_to_the_viewer_and_nowhere_else(opened: Browser) -> None:
    """No address of a script, and no referrer."""
    found = opened.run("[...document.querySelectorAll('a')].map((a) => [a.getAttribute('href'), a.rel])")
    outside = [(href, rel) for href, rel in found if not href.startswith("#")]
    assert outside
    assert all(href.startswith("https://t.example/t") and "noreferrer" in rel for href, rel in outside)
    assert (
        opened.run(
            "[...document.querySelectorAll('*')].some((e) => [...e.attributes].some((a) => /^on/.test(a.name)))"
        )
        is False
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_read(opened: Browser, dark: bool) -> None:
    """At least 4.5 to 1 between words and what is behind them, in text, tables, charts and badges."""
    if dark:
        opened.dark()
    script = """(() => {
      const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
      const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
        .reduce((sum, v, at) => sum + v * [.2126, .7152, .0722][at], 0);
      const behind = (one) => { for (; one; one = one.parentElement) {
        const c = rgb(getComputedStyle(one).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
      const poor = [];
      for (const one of document.querySelectorAll("p, td, th, dt, dd, caption, .badge, .strip b, .strip span:not(.said), h2, h3, button:not(:disabled), .chart text")) {
        if (!one.textContent.trim() || one.offsetParent === null && !one.ownerSVGElement) continue;
        if (one.ownerSVGElement && (!one.getBoundingClientRect().width || one.style.opacity === "0" )) continue;
        const style = getComputedStyle(one), ink = rgb(one.ownerSVGElement ? style.fill : style.color);
        const [a, b] = [light(ink), light(behind(one.ownerSVGElement ? one.ownerSVGElement.parentElement : one))].sort((x, y) => y - x);
        if ((a + .05) / (b + .05) < 4.5) poor.push([one.tagName, one.textContent.slice(0, 30), style.fill, style.color]);
      }
      return poor; })()"""
    assert opened.run(script) == []


def test_a_narrow_window_does_not_scroll_sideways(opened: Browser) -> None:
    """Tables and charts scroll in their own box."""
    opened.wide(390)
    assert opened.run("document.documentElement.scrollWidth") <= 390


def test_paper_holds_all_tabs_and_all_rows(opened: Browser) -> None:
    """Nothing is hidden on paper but what one presses; the PDF has pages."""
    paper = opened.paper()
    assert paper.startswith(b"%PDF")
    assert paper.count(b"/Type /Page\n") + paper.count(b"/Type /Page ") + paper.count(b"/Type/Page/") >= 5
    opened.send("Emulation.setEmulatedMedia", media="print")
    assert opened.run(_SHOWN.format(".tab")) == 3
    assert opened.run(_SHOWN.format("#episodes tbody tr")) == 30
    assert opened.run(_SHOWN.format(".case")) == 30
    assert opened.run(_SHOWN.format(".tools, .save, nav")) == 0


def test_a_labelled_report_and_a_comparison_draw_too(browser: Browser, folder: Path) -> None:
    """Eleven charts in one, ten where no onset is known, one in the comparison; no complaint."""
    browser.send("Emulation.setEmulatedMedia", media="", features=[])
    frame, labels = fleet()
    hostile = frame.with_columns(tool=pl.lit(SCRIPT), run_id=pl.concat_str("run_id", pl.lit(QUOTE)))
    told = labels.with_columns(run_id=pl.concat_str("run_id", pl.lit(QUOTE)))
    blind = told.with_columns(onset_seq=None, scope=pl.lit("run"))  # nobody knows where the incidents began
    sides = compare(hostile, against="gemini_cli", labels=told).html()
    for name, html, charts in (
        ("labelled", report_page(material(hostile), labels=told).html, 11),
        ("blind", report_page(material(hostile), labels=blind).html, 10),
        ("sides", sides, 1),
    ):
        path = folder / f"{name}.html"
        path.write_text(html, encoding="utf-8")
        browser.wide(1280)
        browser.open(path)
        assert browser.run("document.querySelectorAll('.chart svg').length") == charts
        assert browser.run("document.title") != "run"
    assert browser.said == []
    assert browser.strangers() == []


def test_decisions_are_saved_by_the_page_and_read_back(browser: Browser, folder: Path) -> None:
    """Radio buttons and onsets, by mouse and keyboard; the CSV comes back as it was meant, run ids and all."""
    frame = events(lane(FORMULA, "A" * 6, "x" * 6), lane(QUOTE, "ABCDEF"))
    made = material(frame)
    queue = pl.DataFrame({"item": [1, 2], "run_id": [FORMULA, QUOTE], "agent": ["", ""], "around": [0, 0]})
    path = folder / "review.html"
    path.write_text(queue_page(made, queue, {}), encoding="utf-8")
    browser.send("Emulation.setEmulatedMedia", media="", features=[])
    browser.open(path)
    assert browser.run("document.querySelector('main').textContent.includes('stuck_loop')") is False
    browser.click(".tools button")
    assert "Say who reviews." in browser.run("document.querySelector('.tools').textContent")
    browser.type("ann")
    browser.click("[data-item='1'] [value=incident]")
    browser.click("[data-item='1'] [name=onset_seq]")
    browser.type("0")
    browser.click("[data-item='2'] [value=incident]")
    browser.key("ArrowRight")  # the next choice of the group
    assert "2 of 2 decided" in browser.run("document.querySelector('.tools').textContent")
    browser.click(".tools button")
    text = saved(browser, folder, "decisions.csv")
    back = folder / "back.csv"
    back.write_text(text, encoding="utf-8")
    rows = read_decisions(back).select("item", "run_id", "decision", "onset_seq", "reviewer").rows()
    assert rows == [(1, FORMULA, "incident", 0, "ann"), (2, QUOTE, "healthy", None, "ann")]
    assert "\"'=HYPERLINK" in text
    assert browser.said == []
    assert json.dumps(browser.strangers()) == "[]"
