"""Charts of a calibration: what their rows say."""

from __future__ import annotations

import json

import altair as alt
import polars as pl
import pytest

from agentlens.calibrate.chance import CHANCE
from agentlens.calibrate.rates import RATES
from agentlens.errors import SettingsError
from agentlens.report import charts
from agentlens.report.grid_charts import certified_tiles
from tests.report.drawings import amoc, certificate, chance, curves, fixes, rates, stability


def data(chart) -> dict:
    return chart.to_dict()["datasets"]


def test_a_tile_shows_the_worst_of_the_rules_that_share_it() -> None:
    """Two rules have T = 6 and periods up to 3: the higher false-positive rate, the lower detection."""
    tile = {"threshold": 6, "period": 3}
    (false,) = [row for row in data(charts.sweep(rates()))["sweep"] if tile.items() <= row.items()]
    (found,) = [
        row for row in data(charts.sweep(rates(), metric="detection"))["sweep"] if tile.items() <= row.items()
    ]
    assert (false["rate"], false["rules"]) == (0.025, 2)
    assert found["rate"] == 0.65
    # laps((4, 3, 2)) has no one threshold and is not drawn
    assert sum(row["rules"] for row in data(charts.sweep(rates()))["sweep"]) == 5


def test_a_tile_is_certified_where_it_can_alarm_only_where_a_certified_rule_does() -> None:
    """No longer period, no shorter stretch; under a limit on a share only the rule itself."""
    tiles = [(q, t) for q in (1, 2, 3, 4) for t in (4, 6, 8) if t >= 2 * q]
    held = certified_tiles(tiles, [(4, 6, 6)])
    assert held == [(1, 4), (1, 6), (1, 8), (2, 6), (2, 8), (3, 6), (3, 8)]
    assert certified_tiles(tiles, [(6, 6, 6), (4, 6)], nested=False) == [(3, 6)]
    assert certified_tiles(tiles, []) == []


def test_the_certified_region_is_outlined_where_it_ends() -> None:
    """Two tiles side by side share no line; a tile that is not in the grid is not outlined."""
    chart = charts.sweep(rates(), certified=[(3, 6), (3, 8), (2, 9)])
    edges = {(row["threshold"], row["side"]) for row in data(chart)["edges"]}
    assert edges == {(t, side) for t in (6, 8) for side in ("left", "right", "above", "below")}
    beside = charts.sweep(rates(), certified=[(1, 3)])
    assert [row["side"] for row in data(beside)["edges"]] == ["left", "right", "below", "above"]
    assert "outlined: 1 certified tile" in beside.to_dict()["title"]["subtitle"]
    assert "edges" not in data(charts.sweep(rates()))


def test_rules_lie_on_the_grid_with_one_point_a_period() -> None:
    """A rule with other thresholds by period is no tile, and has its place all the same."""
    chart = charts.sweep(rates(), named=[0, 99])
    assert [(row["period"], row["threshold"]) for row in data(chart)["points"]] == [(1, 4), (2, 6), (3, 6)]
    assert "laps((4, 3, 2)): T 4, 6, 6" in chart.to_dict()["description"]


def test_delay_stands_against_false_alerts_and_the_rest_is_grey() -> None:
    """Named rules are coloured; the words name what nothing beats."""
    chart = charts.amoc(amoc(), named=["laps((4, 3, 2))", "not there"])
    assert [row["rule"] for row in data(chart)["amoc"] if row["shown"]] == ["laps((4, 3, 2))"]
    assert chart.to_dict()["description"].endswith("beaten by none: laps((4, 3, 2)), openhands")
    assert data(charts.amoc(amoc().clear()))["amoc"] == []


def test_the_draws_in_which_no_rule_keeps_the_limit_have_a_bar() -> None:
    """Shares are of all draws, and add up."""
    rows = data(charts.stability(stability()))["stability"]
    assert [(row["rule"], row["wins"], row["what"]) for row in rows] == [
        ("laps((4, 3, 2))", 94, "the choice"),
        ("openhands", 1, "another"),
        ("none keeps the limit", 5, "another"),
    ]
    assert data(charts.stability(stability().clear()))["stability"] == []


def test_changes_of_any_kind_are_drawn_of_both_tables() -> None:
    """Changes at one point are one point; a kind that nobody foresaw gets a colour of its own."""
    chart = charts.fixes(fixes())
    assert [(r["kind"], r["cleared"], r["lost"], r["changes"]) for r in data(chart)["fixes"]] == [
        ("exemption", 3, 0, 1),
        ("handoff", 2, 0, 1),
        ("threshold", 1, 1, 2),
    ]
    scale = chart.to_dict()["encoding"]["color"]["scale"]
    assert scale["domain"] == ["threshold", "exemption", "handoff"]
    assert len(set(scale["range"])) == 3
    priced = fixes().select(
        fix="change", false_alerts_cleared="false_cleared", incidents_lost="incidents_lost"
    )
    assert {row["kind"] for row in data(charts.fixes(priced))["fixes"]} == {"threshold"}


def test_an_unknown_metric_lists_the_known_ones() -> None:
    """One line."""
    with pytest.raises(SettingsError, match="detection"):
        charts.sweep(rates(), metric="recall")
    with pytest.raises(SettingsError, match="false_share"):
        charts.pareto(rates(), false="precision")


def test_a_chain_keeps_its_order_and_its_counts() -> None:
    """Strict to loose, with how many runs each rate stands on."""
    spec = charts.chain(certificate(), rates(), limit=0.05).to_dict()
    rows = spec["datasets"]["chain"]
    assert [(row["rule"], row["certified"], row["false"], row["found"]) for row in rows] == [
        ("T 8", "certified", "0 of 40", "11 of 20"),
        ("T 6, late starts", "certified", "0 of 40", "13 of 20"),
        ("T 6", "not certified", "1 of 40", "14 of 20"),
    ]
    assert "2 certified" in spec["title"]["subtitle"]
    assert "5.00%" in spec["title"]["subtitle"]
    with pytest.raises(SettingsError, match="false_share"):
        charts.chain(certificate(), rates(), false="precision")
    assert "dashed" not in charts.chain(certificate(), rates()).to_dict()["title"]["subtitle"]


def test_the_front_holds_what_nothing_beats() -> None:
    """Fewer false alarms or more detection than every other point."""
    found = data(charts.pareto(rates(), named=[1, 0]))
    assert [(row["false"], row["detection"]) for row in found["rules"] if row["front"]] == [
        (0.0, 0.65),
        (0.025, 0.7),
        (0.05, 0.75),
    ]
    assert [row["name"] for row in found["named"]] == ["same_call(3)", "laps((4, 3, 2))"]


def test_thousands_of_rules_at_one_point_are_one_point() -> None:
    """The size of the chart is that of its distinct points."""
    many = rates().sample(5_000, with_replacement=True, seed=1)
    spec = charts.pareto(many).to_dict()
    assert sum(row["rules"] for row in spec["datasets"]["rules"]) == 5_000
    assert len(json.dumps(spec)) < 10_000


def test_a_detection_curve_starts_at_nothing_and_runs_to_the_end() -> None:
    """Misses are never: the curve stays below 1, and every rule is drawn to the same delay."""
    spec = charts.detection(curves(), within=8).to_dict()
    rows = spec["datasets"]["detection"]
    for rule in {row["rule"] for row in rows}:
        mine = [row for row in rows if row["rule"] == rule]
        assert (mine[0]["after"], mine[0]["share"], mine[-1]["after"]) == (0, 0.0, 12)
    assert (
        spec["title"]["subtitle"] == "95 % bands; in the end: laps((4, 3, 2)) 75%; full_window(8, 3, 2) 55%"
    )


def colours(chart: alt.LayerChart) -> dict[str, str]:
    """Colour of each rule, the same in every layer that has one."""
    encodings = [layer["encoding"] for layer in chart.to_dict()["layer"]]
    scales = [one["color"]["scale"] for one in encodings if "color" in one]
    assert all(scale == scales[0] for scale in scales)
    return dict(zip(scales[0]["domain"], scales[0]["range"], strict=True))


def test_a_rule_has_one_colour_in_both_charts_that_name_it() -> None:
    """Colours go by the order in which rules are given, not by their names."""
    names = ["z", "a"]
    few = rates().unique("rule", maintain_order=True).head(2).with_columns(rule=pl.Series(names))
    steps = curves().filter(pl.col("rule") == "laps((4, 3, 2))")
    both = pl.concat([steps.with_columns(rule=pl.lit(name)) for name in names])
    told = colours(charts.detection(both))
    assert list(told) == names
    assert told == colours(charts.pareto(few, named=few["cell"].to_list()))


def test_no_observed_alarm_stands_at_the_left_end() -> None:
    """A logarithm of 0 is not drawn; the subtitle counts the rules far above chance."""
    spec = charts.chance(chance()).to_dict()
    (none,) = [r for r in spec["datasets"]["chance"] if r["rule"] == "openhands" and r["what"] == "observed"]
    assert none["rate"] == 1e-6
    assert spec["title"]["subtitle"] == "2 rules; 1 alarms far more often than chance explains"


def test_empty_tables_draw_empty_charts() -> None:
    """Nothing to show is no error."""
    for chart in (
        charts.sweep(RATES.to_frame()),
        charts.pareto(RATES.to_frame()),
        charts.chance(CHANCE.to_frame()),
    ):
        assert json.dumps(chart.to_dict())
