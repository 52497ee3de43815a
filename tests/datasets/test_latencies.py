"""Synthetic handoffs for simulations of acknowledgement limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from agentlens.datasets import Urgency, synthetic_handoffs
from agentlens.datasets.fleet import LABELS
from agentlens.detect.handoff_limits import HandoffLimits
from agentlens.detect.handoffs import handoffs as judge
from agentlens.errors import SettingsError
from agentlens.model.receipt import RECEIPTS

CLASSES = (
    Urgency(name="slow", median_s=60.0, lost=0.2),
    Urgency(name="fast", median_s=5.0, lost=0.0, weight=3.0),
)


def test_latencies_and_lost_shares_are_those_of_the_class() -> None:
    """Medians within a tenth, shares within two points, of 20,000 drawn."""
    truth = synthetic_handoffs(20_000, seed=1, classes=CLASSES).truth
    by_class = truth.group_by("urgency").agg(pl.col("lost").mean(), pl.col("latency_us").median(), pl.len())
    found = {row["urgency"]: row for row in by_class.iter_rows(named=True)}
    assert found["slow"]["latency_us"] == pytest.approx(60e6, rel=0.1)
    assert found["fast"]["latency_us"] == pytest.approx(5e6, rel=0.1)
    assert found["slow"]["lost"] == pytest.approx(0.2, abs=0.02)
    assert found["fast"]["lost"] == 0
    assert found["fast"]["len"] == pytest.approx(15_000, rel=0.05)


def test_receipts_say_what_was_seen_and_labels_what_was_true() -> None:
    """An acceptance after the end of observation is in the truth and not in the receipts."""
    drawn = synthetic_handoffs(2_000, seed=2, classes=(Urgency(median_s=300.0, lost=0.1),), watched_s=30.0)
    assert drawn.receipts.schema == RECEIPTS
    assert drawn.labels.schema == LABELS
    accepted = drawn.receipts.filter(pl.col("event") == "accepted").height
    assert accepted < drawn.truth["latency_us"].count()
    assert (drawn.labels["label"] == "incident").sum() == drawn.truth["lost"].sum()


def test_the_detector_measures_the_latency_that_was_drawn() -> None:
    """Acknowledgement latency of every accepted handoff, to the microsecond."""
    drawn = synthetic_handoffs(300, seed=3, watched_s=100_000.0)
    as_of = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=drawn.as_of_us)
    states = judge(drawn.receipts.lazy(), HandoffLimits(), as_of=as_of).collect()
    joined = states.join(drawn.truth, on="handoff_id")
    assert joined.height == 300
    assert joined["ack_latency_us"].cast(pl.Int64).equals(joined["latency_us"], null_equal=True)
    assert set(joined.filter(pl.col("lost"))["state"]) == {"orphaned"}


def test_the_same_seed_gives_the_same_receipts() -> None:
    """Equal seeds, equal frames."""
    assert synthetic_handoffs(50, seed=1).receipts.equals(synthetic_handoffs(50, seed=1).receipts)


@pytest.mark.parametrize(
    "settings",
    [
        {"count": 0},
        {"classes": ()},
        {"every_s": 0.0},
        {"watched_s": float("nan")},
        {"every_s": float("inf")},
        {"polled_s": float("nan")},
        {"seed": -1},
        {"seed": 1.5},
    ],
)
def test_plans_that_mean_nothing_are_refused(settings) -> None:
    """A setting out of range is named."""
    with pytest.raises(SettingsError, match="accepted"):
        synthetic_handoffs(**{"count": 5, "seed": 1, **settings})
    with pytest.raises(SettingsError, match="lost"):
        Urgency(lost=2.0)
