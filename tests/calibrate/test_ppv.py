"""What an alert is worth at a stated base rate."""

from __future__ import annotations

import pytest

from agentlens.calibrate.intervals import Rate, clopper_pearson
from agentlens.calibrate.ppv import PREDICTIVE, predictive_value, predictive_values
from agentlens.errors import SettingsError


def test_the_numbers_of_the_design_page() -> None:
    """TPR .8, FPR 1 %: .07 at one in a thousand, .62 at one in fifty."""
    table = predictive_values(Rate(80, 100, 0.7, 0.87), Rate(10, 1000, 0.005, 0.018), (0.02, 0.001))
    assert table.schema == PREDICTIVE
    assert [round(v, 2) for v in table["ppv"]] == [0.07, 0.62]
    assert table["base_rate"].is_sorted()


def test_limits_hold_the_value_and_turn_over_for_the_burden() -> None:
    """Between the worse and the better corner; alerts read for a true one is the inverse."""
    table = predictive_values(clopper_pearson(45, 50), clopper_pearson(3, 400))
    for row in table.iter_rows(named=True):
        assert row["ppv_low"] < row["ppv"] < row["ppv_high"]
        assert row["alerts_per_true_low"] < row["alerts_per_true"] < row["alerts_per_true_high"]
        assert row["alerts_per_true"] == pytest.approx(1 / row["ppv"])


def test_a_rule_that_never_alarms_has_no_value() -> None:
    """0 / 0 is not known; its worst case is worthless alerts."""
    assert predictive_value(0.0, 0.0, 0.01) is None
    table = predictive_values(clopper_pearson(0, 20), clopper_pearson(0, 20), (0.01,))
    assert table.row(0, named=True)["ppv"] is None
    assert table.row(0, named=True)["ppv_low"] == 0


def test_no_false_alarm_seen_is_not_no_false_alarm() -> None:
    """0 of 20 healthy: PPV 1 by count, and a low limit far below."""
    row = predictive_values(clopper_pearson(20, 20), clopper_pearson(0, 20), (0.01,)).row(0, named=True)
    assert row["ppv"] == 1.0
    assert row["ppv_low"] < 0.06


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_base_rate_of_nothing_or_everything_is_refused(rate: float) -> None:
    """There is nothing to predict."""
    with pytest.raises(SettingsError, match="base_rate"):
        predictive_values(clopper_pearson(1, 2), clopper_pearson(1, 2), (rate,))


def test_rates_without_runs_are_refused() -> None:
    """At least one labelled run of each kind."""
    with pytest.raises(SettingsError, match="at least one labelled run"):
        predictive_values(clopper_pearson(0, 0), clopper_pearson(1, 2))
