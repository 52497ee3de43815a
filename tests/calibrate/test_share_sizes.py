"""The bet on a share with groups of unequal size: what a large group may count for, and what that buys."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlens.calibrate.certificate import walk_chain
from agentlens.calibrate.intervals import upper_bound
from agentlens.calibrate.ratio import kept_size, log_wealth, p_share, stake, weighed_share
from agentlens.errors import SettingsError

SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=40)


@given(SIZES)
def test_the_default_keeps_all_but_a_twentieth_of_the_runs(sizes):
    """It is the smallest number that does."""
    array = np.array(sizes)
    found = kept_size(array)

    def kept(size: int) -> float:
        return np.minimum(array, size).sum() / array.sum()

    assert kept(found) >= 0.95
    assert found == 1 or kept(found - 1) < 0.95


def test_equal_groups_and_no_groups_have_their_size():
    """Nothing is weighed where all groups are alike."""
    assert kept_size(np.full(200, 6)) == 6
    assert kept_size(np.empty(0, dtype=np.int64)) == 1


@pytest.mark.parametrize("largest", [1, 2, 3, 5])
def test_a_larger_group_counts_as_the_mean_over_all_draws_from_it(largest):
    """Wealth is the product of the mean wealth over every draw of M runs: weighing is drawing, without the luck."""
    runs = ["t t f . .", "f .", "t t t t t", ". . . f"]  # true, false or no alarm, a group each
    groups = [group.split() for group in runs]
    means = []
    for group in groups:
        draws = list(combinations(group, min(largest, len(group))))
        gains = [0.05 * sum(one != "." for one in draw) - draw.count("f") for draw in draws]
        means.append(1 + stake(0.05, largest) * np.mean(gains) / largest)
    alarms = np.array([sum(one != "." for one in group) for group in groups])
    false = np.array([group.count("f") for group in groups])
    sizes = np.array([len(group) for group in groups])
    assert log_wealth(alarms, false, 0.05, largest, sizes) == pytest.approx(np.log(means).sum())


def test_with_the_largest_group_as_bound_the_share_is_the_plain_one():
    """Weights are one, and the limited share is false alarms over alarms."""
    alarms, false, sizes = np.array([3, 1, 6]), np.array([0, 1, 1]), np.array([5, 4, 6])
    assert weighed_share(alarms, false, 6, sizes) == 0.2
    assert p_share(alarms, false, 0.1, 6, sizes) == p_share(alarms, false, 0.1, 6)


def test_a_group_counted_as_three_weighs_three():
    """Six alarms of six runs count as three; a false one in two of them as one."""
    assert weighed_share(np.array([6, 3]), np.array([2, 0]), 3, np.array([6, 3])) == 1 / 6


def test_more_alarms_than_runs_are_refused():
    """The bound of a group is its size."""
    with pytest.raises(SettingsError, match="alarms <= runs of every group"):
        log_wealth(np.array([3]), np.array([0]), 0.1, 5, np.array([2]))


def world(rng: np.random.Generator, groups: int, share: float, *, clustered: bool, large: int):
    """Groups of six runs, ``large`` of sixty; a third of the runs alarm, so many of them falsely."""
    sizes = np.where(np.arange(groups) < large, 60, 6)
    alarms = rng.binomial(sizes, rng.beta(0.5, 1.0, groups))
    false = alarms * (rng.random(groups) < share) if clustered else rng.binomial(alarms, share)
    return alarms, false, sizes


@pytest.mark.parametrize("clustered", [False, True])
def test_the_promise_holds_with_a_few_very_large_groups(clustered):
    """At a true share just at the limit, p falls to 5 % in at most about 5 % of samples, however false alarms lie."""
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(400):
        alarms, false, sizes = world(rng, 500, 0.05, clustered=clustered, large=3)
        hits += p_share(alarms, false, 0.05, kept_size(sizes), sizes) <= 0.05
    assert hits / 400 <= 0.05 + 2 * (0.05 * 0.95 / 400) ** 0.5


def test_500_walks_of_a_chain_of_shares_keep_the_promise():
    """A rule that passes, then one whose true share is just above the limit: certified in at most 5 % of 500 walks."""
    rng = np.random.default_rng(8)
    broken = passed = 0
    for _ in range(500):
        p_values = []
        for share in (0.005, 0.0505):
            alarms, false, sizes = world(rng, 400, share, clustered=True, large=2)
            p_values.append(p_share(alarms, false, 0.05, kept_size(sizes), sizes))
        first, second = walk_chain(p_values, 0.05)
        passed += first.certified
        broken += second.certified
    assert passed > 400
    assert upper_bound(broken, 500) <= 0.05


def test_one_large_task_no_longer_costs_everybody_the_certificate():
    """A true share of a quarter of the limit, 1,300 tasks of six runs and one of sixty: certified mostly, before hardly ever."""
    rng = np.random.default_rng(6)
    hits = np.zeros(2)
    for _ in range(100):
        alarms, false, sizes = world(rng, 1_301, 0.0025, clustered=False, large=1)
        bounds = kept_size(sizes), int(sizes.max())
        hits += [p_share(alarms, false, 0.01, bound, sizes) <= 0.05 for bound in bounds]
    assert hits[0] > 50
    assert hits[1] == 0
