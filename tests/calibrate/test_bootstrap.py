"""Intervals over groups: repeatable, never drawn from nothing, and about as wide as they should be."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from agentlens.calibrate.bootstrap import group_weights, percentile_interval, rate_interval, sign_flip
from agentlens.errors import SettingsError


def test_whole_groups_are_drawn_and_repeatable() -> None:
    """Each draw holds as many groups as there are; the same seed gives the same draws."""
    one, other = ([w.tolist() for w in group_weights(7, 5, seed=3)] for _ in range(2))
    assert one == other
    assert {sum(weight) for weight in one} == {7.0}


def test_a_bootstrap_is_never_asked_about_no_alerts() -> None:
    """Without alerts the upper limit is that of Garwood, not 0."""
    found = rate_interval([0] * 30, [100.0] * 30)
    assert (found.method, found.low) == ("poisson", 0.0)
    assert found.high == pytest.approx(3.689 / 3000, abs=1e-6)


def test_few_alerts_in_clusters_are_marked() -> None:
    """A Poisson interval is too narrow when one group has several alerts."""
    assert rate_interval([4, 0, 0], [10.0] * 3).thin
    assert not rate_interval([1, 1, 0], [10.0] * 3).thin


def test_clustered_alerts_widen_the_interval() -> None:
    """The same total in few groups is known less well."""
    even = rate_interval([1] * 40 + [0] * 40, [50.0] * 80)
    heaped = rate_interval([10] * 4 + [0] * 76, [50.0] * 80)
    assert even.value == heaped.value
    assert heaped.high - heaped.low > even.high - even.low


def test_the_interval_covers_a_clustered_rate() -> None:
    """Gamma-mixed Poisson counts: about 95 % of intervals hold the truth."""
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(120):
        counts = rng.poisson(rng.gamma(1.0, 0.5, 150))
        found = rate_interval(counts, np.ones(150), draws=200)
        hits += found.low <= 0.5 <= found.high
    assert hits / 120 > 0.88


def test_percentiles_are_values_that_were_drawn() -> None:
    """So that never (infinity) can be one of them."""
    assert percentile_interval(np.array([1.0, 2.0, np.inf])) == (1.0, np.inf)


def test_sign_flips_are_counted_in_full_for_few_groups() -> None:
    """Equal to writing out every flip."""
    values = [3.0, -1.0, 2.0, 0.0]
    kept = [v for v in values if v]
    flips = [
        abs(sum(s * v for s, v in zip(signs, kept, strict=True))) for signs in product((1, -1), repeat=3)
    ]
    assert sign_flip(values) == sum(f >= 4.0 for f in flips) / 8


def test_many_groups_are_flipped_at_random_and_seeded() -> None:
    """A clear difference is found, none is not, and the seed decides."""
    rng = np.random.default_rng(0)
    assert sign_flip(rng.normal(1, 1, 60), draws=999) == 0.001
    none = rng.normal(0, 1, 60)
    assert sign_flip(none, draws=999, seed=1) == sign_flip(none, draws=999, seed=1) > 0.01


def test_exposure_and_alerts_must_match() -> None:
    """One of each for each group."""
    with pytest.raises(SettingsError, match="one number"):
        rate_interval([1], [1.0, 2.0])
