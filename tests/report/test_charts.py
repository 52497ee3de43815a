"""Charts as specifications: what they show, and that they stay as they are."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from agentlens.errors import InputError
from agentlens.report import charts
from agentlens.report.palette import COLOURS, INK
from tests.report.drawings import drawings
from tests.report.lanes import tables

SPECS = Path(__file__).parent / "specs"


@cache
def drawn_once() -> dict[str, dict]:
    """The same, made once: tests only read it."""
    return drawn()


def drawn() -> dict[str, dict]:
    """Every public chart on the literal tables, without what belongs to the Altair version."""
    have = tables()
    made = {
        "verdicts": charts.verdicts(have["runs"]),
        "episodes": charts.episodes(have["episodes"]),
        "timeline": charts.timeline(have["events"], have["verdicts"], have["episodes"], run_id="r-1"),
        **drawings(),
    }
    specs = {name: chart.to_dict() for name, chart in made.items()}
    return {n: {k: v for k, v in s.items() if k not in {"$schema", "config"}} for n, s in specs.items()}


@pytest.mark.parametrize("name", charts.__all__)
def test_each_chart_is_the_specification_it_was(name) -> None:
    """A changed picture is changed on purpose: AGENTLENS_REDRAW=1 writes the specifications anew."""
    path = SPECS / f"{name}.json"
    spec = drawn_once()[name]
    if os.environ.get("AGENTLENS_REDRAW"):
        SPECS.mkdir(exist_ok=True)
        path.write_text(
            json.dumps(spec, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    assert spec == json.loads(path.read_text(encoding="utf-8"))


def test_drawing_twice_gives_the_same_text() -> None:
    """No counter, clock or chance goes into a chart."""
    assert json.dumps(drawn()) == json.dumps(drawn())


@pytest.mark.parametrize("name", charts.__all__)
def test_each_chart_can_be_drawn(name) -> None:
    """The Vega libraries accept the specification and draw its marks."""
    import vl_convert

    svg = vl_convert.vegalite_to_svg(drawn_once()[name])
    assert svg.count("<path") > 3


def test_a_timeline_shows_action_evidence_verdict_and_episode() -> None:
    """One row an action, equal letters for equal actions, evidence new, seen before or unknown, and the bracket."""
    rows = drawn_once()["timeline"]["datasets"]
    assert "".join(row["letter"] for row in rows["steps"]) == "ABCDEDEDE"
    assert [row["evidence"] for row in rows["steps"]] == [
        "new",
        "unknown",
        *["new"] * 3,
        *["seen before"] * 4,
    ]
    assert rows["steps"][8]["verdict"] == "stuck_loop"
    (bracket,) = rows["episodes"]
    assert (bracket["from"], bracket["alerted"], bracket["to"]) == (3, 8, 8)


def test_an_unknown_action_is_a_question_mark() -> None:
    """What is not known is not given a letter of its own."""
    have = tables()
    events = have["events"].with_columns(action_signature=pl.lit(None, pl.String))
    rows = charts.timeline(events, have["verdicts"], run_id="r-1").to_dict()["datasets"]["steps"]
    assert {row["letter"] for row in rows} == {"?"}


def test_a_long_lane_is_cut_to_a_window_around_its_first_onset() -> None:
    """The subtitle says which actions are shown, of how many."""
    have = tables()
    chart = charts.timeline(have["events"], have["verdicts"], have["episodes"], run_id="r-1", max_events=4)
    spec = chart.to_dict()
    assert [row["seq"] for row in spec["datasets"]["steps"]] == [0, 1, 2, 3]
    assert spec["title"]["subtitle"] == "actions 1 to 4 of 9, 1 episode"
    assert spec["datasets"]["episodes"][0]["to"] == 3
    assert spec["datasets"]["episodes"][0]["alerted"] is None


def test_the_lane_with_most_stuck_events_is_drawn_where_none_is_named() -> None:
    """A run of several agents shows the one that matters."""
    have = tables()
    calm = have["events"].with_columns(agent=pl.lit("calm"))
    judged = have["verdicts"].with_columns(agent=pl.lit("calm"), verdict=pl.lit("working"))
    chart = charts.timeline(
        pl.concat([calm, have["events"]]), pl.concat([judged, have["verdicts"]]), run_id="r-1"
    )
    assert "stuck_loop" in {row["verdict"] for row in chart.to_dict()["datasets"]["steps"]}
    named = charts.timeline(pl.concat([calm, have["events"]]), judged, run_id="r-1", agent="calm").to_dict()
    assert named["title"]["text"] == "Run r-1, calm"


def test_a_run_that_was_not_judged_is_an_error_that_names_it() -> None:
    """One line: which run, and what would do."""
    have = tables()
    with pytest.raises(InputError, match="r-9"):
        charts.timeline(have["events"], have["verdicts"], run_id="r-9")
    with pytest.raises(InputError, match="lane of the verdicts"):
        charts.timeline(have["events"], have["verdicts"], run_id="r-1", agent="nobody")


def test_rare_rounds_share_one_bar() -> None:
    """However many kinds of loop there are, twelve are named and the rest counted together."""
    frame = pl.DataFrame({"tools": [[f"t{i:02d}"] for i in range(30)], "period": [1] * 30})
    rows = charts.episodes(frame).to_dict()["datasets"]["episodes"]
    assert len(rows) == 13
    assert sum(row["episodes"] for row in rows) == 30
    assert [row["episodes"] for row in rows if row["round"] == "18 other rounds"] == [18]


def test_a_hundred_thousand_runs_make_six_bars() -> None:
    """Charts hold sums, not rows."""
    runs = pl.DataFrame({"verdict": ["working", "stuck_loop"] * 50_000})
    assert len(json.dumps(charts.verdicts(runs).to_dict())) < 10_000


def test_runs_without_an_action_are_counted_apart() -> None:
    """Nothing judged is no verdict, and is not left out of the total."""
    spec = charts.verdicts(pl.DataFrame({"verdict": ["working", None]})).to_dict()
    assert spec["title"]["subtitle"] == "2 runs"
    assert spec["datasets"]["verdicts"][-1] == {"verdict": "no action", "runs": 1, "share": "1 of 2"}


def test_text_on_every_verdict_colour_can_be_read() -> None:
    """Contrast of ink on fill is at least 4.5 to 1 (WCAG 2.2, 1.4.3)."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    for name, fill in COLOURS.items():
        light, dark = sorted((luminance(fill), luminance(INK[name])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, name
