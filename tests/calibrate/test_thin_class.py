"""A class with a few dozen acknowledgements gets a limit by the model, where the model fits."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from agentlens.calibrate.ack_times import ack_times
from agentlens.calibrate.latency import ack_limits
from agentlens.calibrate.survival import Waits
from agentlens.calibrate.thin_class import lognormal_limits, shrink
from agentlens.datasets import Urgency, synthetic_handoffs
from agentlens.detect.handoffs import handoffs


def lognormal(rng: np.random.Generator, n: int, median_s: float, lost: int = 0) -> Waits:
    time = (median_s * 1e6 * np.exp(0.8 * rng.standard_normal(n))).astype(np.int64) + 1
    time = np.concatenate([time, np.full(lost, 10**12)])
    return Waits(time, (time < 10**12).astype(np.int64), np.arange(n + lost))


def test_the_model_covers_a_thin_class_in_nineteen_of_twenty() -> None:
    """Thirty answers beside three hundred of other classes: the limit lies too low in about 5 % of 300 samples."""
    rng = np.random.default_rng(4)
    truth = 40e6 * np.exp(0.8 * stats.norm.ppf(0.95))
    low = given = 0
    for _ in range(300):
        classes = {
            "thin": lognormal(rng, 30, 40, 2),
            "a": lognormal(rng, 300, 20, 9),
            "b": lognormal(rng, 300, 5),
        }
        last = max(waits.last_event or 0 for waits in classes.values())
        found = lognormal_limits(classes, last, beta=0.05, delta=0.05)
        if found:
            given += 1
            low += (found["thin"].limit or 0) < truth
    assert given > 270
    assert low / given <= 0.05 + 3 * (0.05 * 0.95 / given) ** 0.5


def test_latencies_of_another_shape_are_refused() -> None:
    """Two clumps are no log-normal: no limit by the model."""
    time = np.concatenate([np.full(60, 1_000_000), np.full(60, 90_000_000)]) + np.arange(120)
    waits = Waits(time, np.ones(120, dtype=np.int64), np.arange(120))
    assert lognormal_limits({"x": waits}, int(time.max()), beta=0.05, delta=0.05) == {}


def test_equal_latencies_have_no_spread() -> None:
    """Nothing to model."""
    waits = Waits(np.full(30, 5_000_000), np.ones(30, dtype=np.int64), np.arange(30))
    assert lognormal_limits({"x": waits}, 5_000_000, beta=0.05, delta=0.05) == {}


def test_centres_are_drawn_together_by_their_sampling_error_only() -> None:
    """Differences within the error vanish; differences far beyond it stay."""
    error = dict.fromkeys("abc", 0.1)
    near = shrink({"a": 1.0, "b": 1.1, "c": 0.9}, error)
    assert len({round(v, 9) for v in near.values()}) == 1
    far = shrink({"a": 0.0, "b": 50.0, "c": 100.0}, error)
    assert far["c"] == pytest.approx(100, abs=0.1)


def test_a_thin_class_is_told_how_it_got_its_limit() -> None:
    """Some forty slow handoffs among two thousand: neither its own order statistic nor the pooled limit."""
    classes = (Urgency(), Urgency(name="slow", median_s=80, weight=0.02))
    drawn = synthetic_handoffs(2_000, seed=6, classes=classes)
    limits = ack_limits(ack_times(handoffs(drawn.receipts.lazy())).collect()).limits
    slow = limits.row(by_predicate=pl.col("urgency") == "slow", named=True)
    assert 20 <= slow["acknowledged"] < 59
    assert (slow["method"], slow["pooled"], slow["own_limit_us"]) == ("lognormal", False, None)
    assert slow["limit_us"] / 1e6 > 80 * np.exp(0.8 * stats.norm.ppf(0.95))
    assert "log-normal model" in slow["note"]
