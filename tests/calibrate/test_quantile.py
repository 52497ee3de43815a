"""Upper limits of a quantile of latencies keep their confidence, or are refused with what is missing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from agentlens.calibrate.quantile import (
    follow_up,
    log_log_upper,
    lost_share,
    needed_events,
    remaining_variance,
    upper_limit,
)
from agentlens.calibrate.survival import Waits, incidence
from agentlens.errors import SettingsError

TRUTH = 20 * np.exp(0.8 * stats.norm.ppf(0.95)) * 1e6


def drawn(
    rng: np.random.Generator, n: int, *, span_s: float, extra_s: float, lost: float = 0.06, size: int = 1
) -> tuple[Waits, np.ndarray]:
    """Log-normal latencies of median 20 s (sigma .8), some lost; clusters of ``size`` share half of the variance."""
    group = np.arange(n) // size
    shared = np.sqrt(0.5) if size > 1 else 0.0
    z = np.sqrt(1 - shared**2) * rng.standard_normal(n) + shared * rng.standard_normal(n)[group]
    latency = (20 * np.exp(0.8 * z) * 1e6).astype(np.int64) + 1
    latency[rng.random(n) < lost] = np.iinfo(np.int64).max
    watched = ((span_s + extra_s - rng.uniform(0, span_s, n)) * 1e6).astype(np.int64)
    return Waits(np.minimum(latency, watched), (latency <= watched).astype(np.int64), group), watched


def misses(n: int, repetitions: int, **kind: float) -> tuple[float, set[str]]:
    """Share of samples whose limit lies below the truth, and the methods used."""
    rng = np.random.default_rng(5)
    low, methods = 0, set()
    for _ in range(repetitions):
        waits, watched = drawn(rng, n, **kind)
        found = upper_limit(waits, follow_up(waits, watched), draws=100)
        methods.add(found.method)
        low += found.limit is not None and found.limit < TRUTH
    return low / repetitions, methods


@pytest.mark.parametrize(("n", "k"), [(59, 59), (93, 92), (124, 122), (208, 203)])
def test_complete_data_use_the_order_statistic(n: int, k: int) -> None:
    """The k-th of n, from the table of groups and alarms: n - k may lie above it."""
    waits = Waits(np.arange(1, n + 1), np.ones(n, dtype=np.int64), np.arange(n))
    found = upper_limit(waits, "complete")
    assert (found.limit, found.method) == (k, "order_statistic")


def test_58_acknowledgements_are_too_few_for_five_percent() -> None:
    """One fewer than 59 gives no limit, and says how many it takes."""
    waits = Waits(np.arange(1, 59), np.ones(58, dtype=np.int64), np.arange(58))
    found = upper_limit(waits, "complete")
    assert found.limit is None
    assert found.why == "needs 59 independent acknowledgements for beta = 0.05, has 58"
    assert found.point == 56


def test_needed_events_are_the_smallest() -> None:
    """(1 - beta)^n <= delta first holds there."""
    for beta in (0.01, 0.05, 0.2):
        n = needed_events(beta, 0.05)
        assert (1 - beta) ** n <= 0.05 < (1 - beta) ** (n - 1)


def test_the_variance_of_s0_is_binomial_without_censoring() -> None:
    """With the lost all watched past the last answer, S0 has the variance S0 (1 - S0) / answers."""
    rng = np.random.default_rng(1)
    time = np.concatenate([rng.permutation(40) + 1, np.full(10, 1000)])
    waits = Waits(time, (time < 1000).astype(np.int64), np.arange(50))
    curve = incidence(waits)
    s0 = curve.remaining
    np.testing.assert_allclose(remaining_variance(curve)[:-1], (s0 * (1 - s0) / 40)[:-1], atol=1e-9)


def test_the_upper_limit_of_a_share_is_never_below_the_share() -> None:
    """From 1 down to 0, where the exact limit for none left remains."""
    share = np.array([1.0, 0.6, 0.1, 0.0])
    high = log_log_upper(share, np.array([0, 0.01, 0.001, 0]), 59)
    assert (high >= share).all()
    assert high[-1] == pytest.approx(1 - 0.05 ** (1 / 59))


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ({"n": 300, "span_s": 15_000, "extra_s": 600}, "order_statistic"),
        ({"n": 400, "span_s": 2_000, "extra_s": 50}, "band"),
        ({"n": 500, "span_s": 15_000, "extra_s": 600, "size": 5}, "cluster_bootstrap"),
    ],
)
def test_a_limit_lies_too_low_about_as_seldom_as_promised(kind: dict, method: str) -> None:
    """At delta 5 % at most about 5 % of limits lie below the true quantile (sampling error of 150 allowed for)."""
    low, methods = misses(repetitions=150, **kind)
    assert method in methods
    assert low <= 0.05 + 3 * (0.05 * 0.95 / 150) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        {"n": 150, "span_s": 1_500, "extra_s": 300},
        {"n": 300, "span_s": 15_000, "extra_s": 600},
        {"n": 400, "span_s": 2_000, "extra_s": 50},
        {"n": 1_000, "span_s": 15_000, "extra_s": 600, "size": 5},
    ],
)
def test_a_limit_keeps_its_promise_over_400_samples(kind: dict) -> None:
    """Misses stay at 5 %, within two points for the approximate methods and two for 400 samples."""
    low, _ = misses(repetitions=400, **kind)
    assert low <= 0.09


def test_short_observation_makes_the_lost_share_unknown() -> None:
    """Watched barely longer than the slowest answer, silence may still be slowness: bounds only."""
    time = np.concatenate([np.arange(1, 101), np.full(10, 105)])
    waits = Waits(time, (time <= 100).astype(np.int64), np.arange(110))
    assert follow_up(waits, np.full(110, 105)) == "short"
    found = upper_limit(waits, "short")
    assert (found.limit, found.method) == (None, "bound")
    assert "too short" in (found.why or "")


def test_the_bound_is_longer_than_the_limit() -> None:
    """Taking the silent for slow can only lengthen the limit."""
    time = np.concatenate([np.arange(1, 401), np.full(3, 10_000)])
    waits = Waits(time, (time <= 400).astype(np.int64), np.arange(403))
    assert (upper_limit(waits, "short").limit or 0) > (upper_limit(waits, "adequate").limit or 0)


def test_long_observation_tells_lost_from_slow() -> None:
    """Ten silent for a hundred times the slowest answer are lost."""
    time = np.concatenate([np.arange(1, 101), np.full(10, 10_000)])
    waits = Waits(time, (time <= 100).astype(np.int64), np.arange(110))
    assert follow_up(waits, np.full(110, 10_000)) == "adequate"
    share, low, high = lost_share(waits)
    assert share == pytest.approx(10 / 110)
    assert low < share < high


def test_few_clusters_give_no_limit() -> None:
    """A hundred answers in five runs are five independent observations."""
    waits = Waits(np.arange(1, 101), np.ones(100, dtype=np.int64), np.arange(100) % 5)
    found = upper_limit(waits, "complete")
    assert found.limit is None
    assert "20 independent clusters" in (found.why or "")


def test_the_same_seed_gives_the_same_limit() -> None:
    """A bootstrap is part of the result: it is drawn from a seed."""
    waits, watched = drawn(np.random.default_rng(1), 300, span_s=15_000, extra_s=600, size=3)
    found = [upper_limit(waits, follow_up(waits, watched), draws=50, seed=9) for _ in range(2)]
    assert found[0] == found[1]


def test_without_acknowledgements_there_is_nothing_to_say() -> None:
    """All silent: no limit and no lost share."""
    waits = Waits(np.array([5, 6]), np.zeros(2, dtype=np.int64), np.arange(2))
    assert follow_up(waits, np.array([5, 6])) == "none"
    assert upper_limit(waits, "none").why == "nothing was acknowledged"


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_a_share_of_nothing_or_everything_is_refused(beta: float) -> None:
    """0 and 1 are no shares to leave."""
    waits = Waits(np.array([5]), np.ones(1, dtype=np.int64), np.arange(1))
    with pytest.raises(SettingsError, match="beta"):
        upper_limit(waits, "complete", beta=beta)
