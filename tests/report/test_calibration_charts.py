"""Charts of a calibration: what their rows say."""

from __future__ import annotations

import json

import pytest

from agentlens.calibrate.chance import CHANCE
from agentlens.calibrate.rates import RATES
from agentlens.errors import SettingsError
from agentlens.report import charts
from tests.report.drawings import certificate, chance, curves, rates


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
        spec["title"]["subtitle"] == "95 % bands; in the end: full_window(8, 3, 2) 55%; laps((4, 3, 2)) 75%"
    )


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
