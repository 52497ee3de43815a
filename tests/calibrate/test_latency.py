"""Acknowledgement limits per class, from synthetic handoffs whose truth is known and from literal ones."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from agentlens.calibrate.ack_times import ack_times
from agentlens.calibrate.latency import ACK_CURVE, ACK_LIMITS, AckSettings, ack_limits, cost_limit
from agentlens.datasets import Urgency, synthetic_handoffs
from agentlens.detect.handoffs import handoffs
from agentlens.errors import SettingsError

from .told import silences


@pytest.fixture(scope="module")
def times() -> pl.DataFrame:
    """Three classes: normal, four times as fast, and one of a dozen handoffs."""
    classes = (Urgency(), Urgency(name="page", median_s=5, weight=0.4), Urgency(name="rare", weight=0.004))
    drawn = synthetic_handoffs(3_000, seed=2, classes=classes)
    return ack_times(handoffs(drawn.receipts.lazy())).collect()


def row(frame: pl.DataFrame, name: str) -> dict:
    return frame.row(by_predicate=pl.col("urgency") == name, named=True)


def test_the_limit_lies_just_above_the_true_quantile(times: pl.DataFrame) -> None:
    """95 % of good deliveries: 74.6 s by construction; the limit is above it and within a quarter."""
    found = ack_limits(times)
    assert found.limits.schema == ACK_LIMITS
    assert found.curves.schema == ACK_CURVE
    normal = row(found.limits, "normal")
    truth = 20 * np.exp(0.8 * stats.norm.ppf(0.95))
    assert truth < normal["limit_us"] / 1e6 < 1.25 * truth
    assert normal["lost_low"] < 0.05 < normal["lost_high"]
    assert not normal["pooled"]


def test_classes_have_limits_of_their_own(times: pl.DataFrame) -> None:
    """A class four times as fast gets about a quarter of the time."""
    limits = ack_limits(times).limits
    ratio = row(limits, "normal")["limit_us"] / row(limits, "page")["limit_us"]
    assert 3 < ratio < 5


def test_a_thin_class_gets_the_pooled_limit_and_says_so(times: pl.DataFrame) -> None:
    """Fewer than twenty acknowledgements: the limit of all together, marked."""
    limits = ack_limits(times).limits
    rare, pooled = row(limits, "rare"), row(limits, "*")
    assert rare["acknowledged"] < 20
    assert rare["pooled"]
    assert rare["limit_us"] == pooled["limit_us"]
    assert "the pooled limit stands in" in rare["note"]


def test_without_a_pooled_limit_none_stands_in() -> None:
    """Five acknowledgements in all: no class has a limit, and none is said to be borrowed."""
    drawn = synthetic_handoffs(5, seed=2, classes=(Urgency(),))
    limits = ack_limits(ack_times(handoffs(drawn.receipts.lazy())).collect()).limits
    normal = row(limits, "normal")
    assert (normal["limit_us"], row(limits, "*")["limit_us"], normal["pooled"]) == (None, None, False)
    assert "no limit of all together either" in normal["note"]
    assert "stands in" not in normal["note"]


def test_a_cap_below_the_limit_is_a_conflict_not_a_choice(times: pl.DataFrame) -> None:
    """At a cap of 40 s some 19 % of good deliveries are still silent; the limit stays what it was."""
    free, capped = (ack_limits(times, AckSettings(caps_s=caps)).limits for caps in ({}, {"normal": 40.0}))
    normal = row(capped, "normal")
    assert normal["cap_conflict"] is True
    assert normal["limit_us"] == row(free, "normal")["limit_us"]
    assert normal["silent_at_cap"] == pytest.approx(1 - stats.norm.cdf(np.log(2) / 0.8), abs=0.03)
    assert normal["silent_at_cap"] < normal["silent_at_cap_high"]
    assert "conflict: at the cap" in normal["note"]


def test_silence_at_the_limit_is_lost_with_the_probability_of_the_mixture(times: pl.DataFrame) -> None:
    """P(lost | silent at A) = pi / (pi + (1 - pi) S0(A))."""
    normal = row(ack_limits(times).limits, "normal")
    pi, s0 = normal["lost_share"], normal["silent_at_limit"]
    assert normal["lost_given_silent"] == pytest.approx(pi / (pi + (1 - pi) * s0), rel=0.02)


def test_limits_become_settings_of_the_judgement(times: pl.DataFrame) -> None:
    """The pooled limit is the default, classes are named, other settings stay."""
    found = ack_limits(times)
    limits = found.handoff_limits()
    assert limits.ack_limits_us["page"] == row(found.limits, "page")["limit_us"]
    assert limits.evidence_window_s == 900
    judged = set(found.settings()["ack_limits"])
    assert judged == {"normal", "page", "rare"}


def test_a_short_log_gives_bounds_only() -> None:
    """Ten quick answers and ten delegations just made: no lost share, no limit, and it is said why."""
    rows = [row for k in range(10) for row in ((f"o{k}", "delegated", 0.0), (f"o{k}", "accepted", 10.0 + k))]
    found = ack_limits(silences(*rows, *((f"p{k}", "delegated", 1.0) for k in range(10))))
    pooled = row(found.limits, "*")
    assert (pooled["follow_up"], pooled["lost_share"], pooled["limit_us"]) == ("short", None, None)
    assert "lost share not known" in pooled["note"]
    assert found.settings() == {}


def test_a_slow_thin_class_is_warned_about() -> None:
    """Ten answers ten times as slow as the pooled limit: it stands in, and the note says what that means."""
    many = [(f"o{k:03d}", 10.0 + k % 7, None) for k in range(200)]
    slow = [(f"s{k}", 600.0, "slow") for k in range(10)]
    rows = [
        row for name, late, _ in many + slow for row in ((name, "delegated", 0.0), (name, "accepted", late))
    ]
    times = silences(*rows).with_columns(
        urgency=pl.when(pl.col("operation_id").str.starts_with("s")).then(pl.lit("slow"))
    )
    limits = ack_limits(times, AckSettings(beta=0.1)).limits
    assert "shorter than the class's own estimate" in row(limits, "slow")["note"]


def test_curves_stay_small_enough_to_draw(times: pl.DataFrame) -> None:
    """At most a thousand steps a class, and the ends are kept."""
    curve = ack_limits(times).curves.filter(pl.col("urgency") == "*")
    assert curve.height <= 1_002
    seen = times.filter(pl.col("ended") == "acknowledged")["silent_us"]
    assert (curve["after_us"].min(), curve["after_us"].max()) == (seen.min(), seen.max())


def test_an_unknown_class_in_the_caps_is_refused(times: pl.DataFrame) -> None:
    """A cap for a class that no delegation has would never be looked at."""
    with pytest.raises(SettingsError, match="did you mean 'page'"):
        ack_limits(times, AckSettings(caps_s={"pages": 5}))


@pytest.mark.parametrize("wrong", [{"beta": 0.0}, {"delta": 1.0}, {"caps_s": {"x": 0.0}}, {"draws": 1}])
def test_settings_out_of_range_are_refused(wrong: dict) -> None:
    """Each number has its range."""
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        AckSettings(**wrong)


def test_no_handoffs_give_rows_without_limits() -> None:
    """An empty table is answered with counts of zero."""
    found = ack_limits(silences(("a", "delegated", 1.0)).clear())
    assert found.limits.select("urgency", "handoffs", "limit_us").rows() == [("*", 0, None)]


def test_the_order_of_rows_changes_nothing(times: pl.DataFrame) -> None:
    """Shuffled rows give equal frames."""
    one, other = ack_limits(times), ack_limits(times.sample(fraction=1, shuffle=True, seed=4))
    assert one.limits.equals(other.limits)
    assert one.curves.equals(other.curves)


def test_the_dearer_a_false_alarm_the_longer_the_cheapest_limit(times: pl.DataFrame) -> None:
    """Costs move the optimum the right way; by hand on a handful it is the answer that ends the false alarms."""
    cheap, dear = (cost_limit(times, false_alarm=c, delay_per_s=0.01) for c in (0.5, 5.0))
    assert cheap is not None
    assert dear is not None
    assert cheap < dear
