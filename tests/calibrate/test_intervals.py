"""Exact intervals agree with SciPy's own and behave at the edges."""

from __future__ import annotations

import pytest
from scipy import stats

from agentlens.calibrate.intervals import clopper_pearson, garwood, holm, lower_bound, mcnemar, upper_bound
from agentlens.errors import SettingsError


@pytest.mark.parametrize(("k", "n"), [(0, 1), (0, 20), (3, 20), (20, 20), (45, 50), (5, 2514)])
def test_clopper_pearson_is_scipys(k: int, n: int) -> None:
    """The same limits as the library's exact interval."""
    ours, theirs = clopper_pearson(k, n), stats.binomtest(k, n).proportion_ci(method="exact")
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))


def test_one_sided_limits_are_the_ends_of_the_90_percent_interval() -> None:
    """A 95 % one-sided limit is an end of the 90 % two-sided interval."""
    both = clopper_pearson(3, 40, 0.9)
    assert (lower_bound(3, 40), upper_bound(3, 40)) == pytest.approx((both.low, both.high))


def test_no_trials_give_no_rate() -> None:
    """Undefined is null, not zero."""
    rate = clopper_pearson(0, 0)
    assert (rate.value, rate.low, rate.high, rate.thin) == (None, None, None, True)
    assert upper_bound(0, 0) is None


def test_zero_events_have_a_finite_upper_rate() -> None:
    """The rule of three, exactly."""
    assert garwood(0, 1.0, 0.9).high == pytest.approx(2.9957, abs=1e-4)
    assert garwood(0, 0).value is None


def test_holm_is_monotone_and_capped() -> None:
    """Adjusted values never fall along the sorted order and never exceed one."""
    assert holm([0.9, 0.001, 0.5]) == pytest.approx([1.0, 0.003, 1.0])
    assert holm([]) == []


def test_mcnemar_without_discordant_pairs_says_nothing() -> None:
    """Equal decisions are no evidence of a difference."""
    assert mcnemar(0, 0) == 1.0


def test_an_impossible_count_is_refused() -> None:
    """More successes than trials is a programming error said plainly."""
    with pytest.raises(SettingsError):
        clopper_pearson(3, 2)
