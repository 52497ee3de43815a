"""The certificate's arithmetic: exact counts, valid bets, stop at the first failure."""

from __future__ import annotations

import numpy as np
import pytest

from agentlens.calibrate.certificate import (
    allowed_alarms,
    groups_for_bet,
    groups_needed,
    p_bet,
    p_binomial,
    p_ratio,
    stakes,
    walk_chain,
    weights,
)
from agentlens.errors import SettingsError


@pytest.mark.parametrize(
    ("alpha", "needed"),
    [
        (0.005, [598, 947, 1258, 2100, 3389]),
        (0.01, [299, 473, 628, 1049, 1693]),
        (0.02, [149, 236, 313, 523, 845]),
        (0.05, [59, 93, 124, 208, 336]),
    ],
)
def test_groups_needed_for_0_1_2_5_10_alarms(alpha: float, needed: list[int]) -> None:
    """The table of the design page, at delta 5 %."""
    assert [groups_needed(k, alpha, 0.05) for k in (0, 1, 2, 5, 10)] == needed


@pytest.mark.parametrize("n", [1, 58, 59, 60, 299, 300, 473, 1000, 5000])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.3])
def test_certified_exactly_up_to_the_neyman_pearson_order_statistic(n: int, alpha: float) -> None:
    """A count of k alarms is certified iff k is at most the allowed number."""
    most = allowed_alarms(n, alpha, 0.05)
    for k in range(min(n, 80)):
        assert (p_binomial(k, n, alpha) <= 0.05) == (most is not None and k <= most)


def test_the_bet_is_valid_at_the_limit() -> None:
    """At a true mean exactly at the limit, p <= 5 % happens in at most about 5 % of samples."""
    rng = np.random.default_rng(7)
    hits = sum(
        p_bet(rng.binomial(1, 0.05, 300) * rng.uniform(0, 2, 300).clip(0, 1), 0.0375) <= 0.05
        for _ in range(800)
    )
    assert hits / 800 <= 0.05 + 3 * (0.05 * 0.95 / 800) ** 0.5


def test_the_ratio_bet_is_valid_at_the_limit() -> None:
    """A share of false alarms exactly at the limit is certified in at most about delta of samples."""
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(600):
        alarms = rng.integers(0, 11, 200)
        hits += p_ratio(alarms, rng.binomial(alarms, 0.05), 0.05, 10) <= 0.05
    assert hits / 600 <= 0.05 + 3 * (0.05 * 0.95 / 600) ** 0.5


def test_the_bet_has_power_where_the_design_says() -> None:
    """True mean 0.4 % against a limit of 2 % with 400 groups of four runs is certified nearly always."""
    rng = np.random.default_rng(3)
    hits = sum(p_bet(rng.binomial(4, 0.004, 400) / 4, 0.02) <= 0.05 for _ in range(300))
    assert hits / 300 > 0.9


def test_weights_that_rise_with_the_stake_certify_more_rules_worth_having() -> None:
    """600 groups of three alike runs at a quarter of 1 %: certified in most of 300 samples, with even weights in a third.

    At a mean of exactly 1 % neither is certified more often than in 5 %.
    """
    rng = np.random.default_rng(11)

    def powers(mean: float) -> tuple[float, float]:
        rising = even = 0
        for _ in range(300):
            losses = (
                rng.binomial(3, rng.beta(3 * mean, 3 * (1 - mean), 600)) / 3
            )  # intra-task correlation 1/4
            growth = np.log1p(np.outer(stakes(0.01), 0.01 - losses)).sum(axis=1)
            even += np.exp(growth).mean() >= 20
            rising += p_bet(losses, 0.01) <= 0.05
        return rising / 300, even / 300

    good, at_the_limit = powers(0.0025), powers(0.01)
    assert good[0] > 0.55
    assert good[0] > good[1] + 0.15
    assert max(at_the_limit) <= 0.05


@pytest.mark.parametrize(("false", "of"), [(0, 30), (1, 60), (2, 50)])
def test_so_many_groups_like_these_certify_and_one_less_does_not(false: int, of: int) -> None:
    """Asked with the same groups over and over, where their number comes out even."""
    losses = [1.0] * false + [0.0] * (of - false)
    wanted = groups_for_bet(losses, 0.1, 0.05)
    whole = -(-wanted // of)
    assert p_bet(losses * whole, 0.1) <= 0.05
    assert whole == 1 or p_bet(losses * (whole - 1), 0.1) > 0.05


def test_no_number_of_groups_helps_a_rate_over_the_limit() -> None:
    """Nor is anything said without groups."""
    assert groups_for_bet([1.0] * 2 + [0.0] * 10, 0.1, 0.05) is None
    assert groups_for_bet([], 0.1, 0.05) is None


def test_weights_add_up_to_one() -> None:
    """So the mixture of fair bets is a fair bet."""
    assert weights().sum() == pytest.approx(1)
    assert (weights() > 0).all()
    assert weights().size == stakes(0.01).size


def test_the_order_of_groups_changes_nothing() -> None:
    """Equal to the last bit for any order."""
    losses = np.random.default_rng(1).uniform(0, 0.1, 500)
    assert p_bet(losses, 0.05) == p_bet(losses[::-1], 0.05)


def test_every_stake_keeps_wealth_positive() -> None:
    """The worst gain -(1 - alpha) never ruins a bet."""
    for alpha in (0.001, 0.01, 0.5, 0.99):
        assert (1 - stakes(alpha) * (1 - alpha) > 0).all()


def test_the_chain_stops_at_its_first_failure() -> None:
    """A later small p-value is not looked at."""
    steps = walk_chain([0.01, 0.2, 0.001], 0.05)
    assert [(s.certified, s.tested) for s in steps] == [(True, True), (False, True), (False, False)]


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 2])
def test_a_limit_of_nothing_or_everything_is_refused(alpha: float) -> None:
    """0 and 1 are no limits."""
    with pytest.raises(SettingsError, match="above 0 and below 1"):
        groups_needed(0, alpha, 0.05)


def test_without_groups_nothing_is_certified() -> None:
    """No data is no evidence."""
    assert p_binomial(0, 0, 0.01) == p_bet([], 0.01) == p_ratio([], [], 0.01, 1) == 1.0
