"""Curves of silence: equal to SciPy's, and to counting where nothing is censored."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from agentlens.calibrate.survival import Ended, Sorted, Waits, incidence, silent_band


def waits(*pairs: tuple[int, int]) -> Waits:
    time, ended = zip(*pairs, strict=True)
    return Waits(np.array(time), np.array(ended), np.arange(len(pairs)))


def drawn(seed: int, n: int = 60, *, competing: bool = False) -> Waits:
    rng = np.random.default_rng(seed)
    return Waits(rng.integers(0, 15, n), rng.integers(0, 3 if competing else 2, n), rng.integers(0, 9, n))


@pytest.mark.parametrize("seed", range(8))
def test_the_silent_share_is_scipys(seed: int) -> None:
    """Kaplan-Meier with ties, at the same times, equals `scipy.stats.ecdf`."""
    some = drawn(seed)
    gone = some.ended == Ended.EVENT
    theirs = stats.ecdf(stats.CensoredData(uncensored=some.time[gone], right=some.time[~gone])).sf
    ours = incidence(some)
    assert (ours.at == theirs.quantiles).all()
    np.testing.assert_allclose(ours.silent, theirs.probabilities, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_band_holds_the_estimate(seed: int) -> None:
    """Limits are at the same times as the curve and on both sides of it."""
    some = drawn(seed)
    low, high = silent_band(some)
    ours = incidence(some).silent
    assert (low <= ours + 1e-12).all()
    assert (ours <= high + 1e-12).all()


def test_competing_ends_are_not_censoring() -> None:
    """Of four, one cancelled before the others answered: half and not two thirds answered by 2."""
    curve = incidence(waits((1, Ended.COMPETING), (2, Ended.EVENT), (2, Ended.EVENT), (3, Ended.UNSEEN)))
    assert curve.reached_at(2) == pytest.approx(0.5)
    assert curve.never == pytest.approx(0.25)


def test_without_censoring_shares_are_counts() -> None:
    """Reached and silent are plain fractions when every end was seen."""
    some = drawn(3, competing=True)
    seen = Waits(some.time, np.where(some.ended == 0, 2, some.ended), some.group)
    curve = incidence(seen)
    for t in range(15):
        assert curve.reached_at(t) == pytest.approx(((seen.ended == 1) & (seen.time <= t)).mean())
        assert curve.silent_at(t) == pytest.approx((seen.time > t).mean())


def test_the_three_shares_add_to_one() -> None:
    """Silent, reached and the competing share are all there is."""
    some = drawn(5, competing=True)
    flipped = Waits(some.time, np.where(some.ended == 0, 0, 3 - some.ended), some.group)
    one, other = incidence(some), incidence(flipped)
    np.testing.assert_allclose(one.silent + one.reached + other.reached, 1, atol=1e-12)


def test_a_weight_is_a_number_of_copies() -> None:
    """A curve under whole weights equals the curve of the repeated waits."""
    some = drawn(2, 20, competing=True)
    weight = np.random.default_rng(0).integers(0, 4, 20).astype(float)
    copies = np.repeat(np.arange(20), weight.astype(int))
    repeated = incidence(Waits(some.time[copies], some.ended[copies], some.group[copies]))
    order = np.argsort(some.time, kind="stable")
    weighted = Sorted(some).incidence(weight[order])
    for t in range(15):
        assert weighted.reached_at(t) == pytest.approx(repeated.reached_at(t))


def test_s0_forgets_the_lost() -> None:
    """Of five, one is never answered: after the first answer, three of four good ones remain."""
    curve = incidence(waits((1, 1), (2, 1), (3, 1), (4, 1), (100, 0)))
    assert curve.remaining_at(1) == pytest.approx(0.75)
    assert curve.never == pytest.approx(0.2)


def test_nothing_at_all_has_an_empty_curve() -> None:
    """No waits: everybody is silent, nobody answered."""
    none = np.zeros(0, dtype=np.int64)
    curve = incidence(Waits(none, none, none))
    assert (curve.never, curve.ever, curve.silent_at(5)) == (1.0, 0.0, 1.0)
