"""The page as a document: closed to the network, inert to hostile text, the same bytes each time."""

from __future__ import annotations

import base64
import json
import re
from hashlib import sha256

import pytest

from agentlens.report import charts
from agentlens.report.document import Badge, Column, Page, Picture, Section, Table, embedded, render
from tests.report.drawings import curves

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"`{{7*7}}"


def page(text: str = "plain") -> Page:
    spec = {"mark": "bar", "data": {"values": [{"tool": text}]}}
    table = Table(
        caption=text,
        columns=(Column(title=text), Column(title="n", numeric=True)),
        rows=((text, "1"), (Badge(word="stuck_loop"), "2")),
        note=text,
    )
    section = Section(
        anchor="one", title=text, text=(text,), picture=Picture(spec=spec, words=text), table=table
    )
    return Page(title=text, lead=text, sections=(section,), stamp=((text, text),))


def test_hostile_text_is_inert_everywhere() -> None:
    """No tag of the text survives, in the prose, the tables or the chart data."""
    html = render(page(HOSTILE))
    assert "alert(1)</script>" not in html
    assert "<img src=x" not in html
    assert "{{7*7}}" in html  # text is never taken for a template
    spec = re.search(r'<script type="application/json" id="spec-0">(.*?)</script>', html, re.DOTALL)
    assert spec is not None
    assert json.loads(spec[1])["data"]["values"] == [{"tool": HOSTILE}]


def test_only_the_two_scripts_of_the_page_may_run() -> None:
    """The policy names the digest of each executable script and allows no other source, evaluation or connection."""
    html = render(page())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    rules = policy[1].replace("&#39;", "'")
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        digest = base64.b64encode(sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in rules
    assert rules.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in rules
    assert "http" not in rules


def test_nothing_is_fetched() -> None:
    """Outside the libraries, which are not asked to, no address stands in the page."""
    html = render(page())
    library = max(re.findall(r"<script>(.*?)</script>", html, re.DOTALL), key=len)
    assert len(library) > 500_000
    rest = html.replace(library, "")
    assert not re.search(r"https?://|//cdn|@import|url\(", rest)
    assert "<link" not in rest


def test_the_libraries_stand_in_a_page_once_and_only_where_there_is_a_chart() -> None:
    """Two charts share them; a page of words has none."""
    one = page()
    two = Page(title="t", lead="", sections=(one.sections[0], one.sections[0]))
    assert len(render(two)) < 1.2 * len(render(one))
    assert len(render(Page(title="t", lead="", sections=()))) < 20_000


def test_the_same_page_gives_the_same_bytes() -> None:
    """No clock and no counter goes into it."""
    assert render(page()) == render(page())


def test_a_chart_has_words() -> None:
    """What a picture shows is there for whoever cannot see it."""
    html = render(page("three runs were stuck"))
    assert 'role="img" aria-label="three runs were stuck"' in html


@pytest.mark.parametrize("text", ["</script", "<!--", "\u2028", "&amp;"])
def test_json_in_a_page_cannot_end_its_element(text) -> None:
    """The characters that mean something to HTML are written as escapes, and read back as they were."""
    made = embedded({"x": text})
    assert not set("<>&\u2028") & set(made)
    assert json.loads(made) == {"x": text}


def test_of_an_empty_chart_only_the_words_are_left() -> None:
    """No axes around nothing, no complaint of a browser: a sentence."""
    empty = Picture.of(charts.detection(curves().clear()))
    html = render(Page(title="t", lead="", sections=(Section(anchor="a", title="How soon", picture=empty),)))
    assert "Nothing to draw: no incident with an onset." in html
    assert "<figure" not in html
    assert len(html) < 50_000  # no libraries where there is nothing to draw
    assert Picture.of(charts.detection(curves())).spec
