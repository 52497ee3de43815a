"""The numbers of a certificate on data so small that each was worked out by hand, beside its working."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from agentlens.calibrate.agreement import agreement
from agentlens.calibrate.certificate import p_bet, p_binomial, p_ratio, walk_chain
from agentlens.calibrate.intervals import clopper_pearson, garwood, lower_bound, mcnemar, upper_bound
from agentlens.calibrate.quantile import (
    follow_up,
    log_log_upper,
    lost_share,
    remaining_variance,
    upper_limit,
)
from agentlens.calibrate.survival import Ended, Waits, incidence

NEAR = 1e-6


def waits(*times: int) -> Waits:
    """One delegation a time, each of its own cluster; a negative time is silence until then."""
    ended = [Ended.EVENT if t > 0 else Ended.UNSEEN for t in times]
    return Waits(np.abs(np.array(times)), np.array(ended, dtype=np.int64), np.arange(len(times)))


def test_the_p_value_of_one_alarm_in_five_groups() -> None:
    """Limit 1/5: P(none) + P(one) = (4/5)^5 + 5 (1/5) (4/5)^4 = (1024 + 1280) / 3125 = 0.73728.

    None in two groups at 1/2: 1/4. A chain at delta 0.3 with p 0.25, 0.4, 0.1 stops at the second.
    """
    assert p_binomial(1, 5, 0.2) == pytest.approx(2304 / 3125)
    assert p_binomial(0, 2, 0.5) == pytest.approx(0.25)
    assert [step.certified for step in walk_chain([0.25, 0.4, 0.1], 0.3)] == [True, False, False]


def test_a_bet_on_what_is_exactly_at_the_limit_wins_nothing() -> None:
    """Every factor is 1 + stake (alpha - loss) with loss = alpha, so wealth stays 1 and p is 1.

    The same for a share: two groups with 2 and 4 alarms, half of them false, at alpha 1/2: (alpha A - F) / M = 0.
    """
    assert p_bet([0.25, 0.25, 0.25], 0.25) == 1.0
    assert p_ratio([2, 4], [1, 2], 0.5, 4) == 1.0


def test_intervals_of_one_in_two_and_none_in_three() -> None:
    """One in two: low where 1 - (1-p)^2 = 0.025, p = 1 - sqrt(0.975); high where 1 - p^2 = 0.025, p = sqrt(0.975).

    One-sided at 5 %: sqrt(0.95), 1 - sqrt(0.95). None in three: high where (1-p)^3 = 0.025, p = 1 - 0.025^(1/3).
    No alert in 2 hours: high where exp(-2 r) = 0.025, r = ln(40) / 2 = 3.688879 / 2.
    """
    both = clopper_pearson(1, 2)
    assert (both.low, both.high) == (pytest.approx(0.0125791, abs=NEAR), pytest.approx(0.9874209, abs=NEAR))
    assert upper_bound(1, 2) == pytest.approx(0.9746794, abs=NEAR)
    assert lower_bound(1, 2) == pytest.approx(0.0253206, abs=NEAR)
    assert clopper_pearson(0, 3).high == pytest.approx(0.7075982, abs=NEAR)
    assert garwood(0, 2.0).high == pytest.approx(1.8444397, abs=NEAR)


def test_kaplan_meier_its_quantile_and_upper_limit() -> None:
    """Acknowledged after 1, 2, 4 and 5; one silent when watching ended at 3.

    Silent share: 4/5, then 4/5 * 3/4 = 3/5, then (two left) 3/5 * 1/2 = 3/10, then 0; none is lost, so it is S0.
    Greenwood: 1/(5*4) = 1/20; + 1/(4*3) = 2/15; + 1/(2*1) = 19/30. S0's variance is S0^2 times that: 0.032, 0.048, 0.057.
    Upper limits at delta 1/4, z = 0.674490: S^exp(-z sqrt(v) / |ln S|)
    0.8: sqrt(0.05) / 0.223144 = 1.002075, exp(-0.675890) = 0.508703, 0.8^0.508703 = 0.892692
    0.6: 0.365148 / 0.510826 = 0.714820, exp(-0.482139) = 0.617462, 0.6^0.617462 = 0.729485
    0.3: 0.795822 / 1.203973 = 0.660997, exp(-0.445836) = 0.640289, 0.3^0.640289 = 0.462600
    For beta 0.62 the estimate is 2 (0.6 is below); 0.729 is not below, 0.463 is: the limit is 4.
    """
    told = waits(1, 2, -3, 4, 5)
    curve = incidence(told)
    acknowledged = curve.events > 0
    assert curve.silent[acknowledged] == pytest.approx([0.8, 0.6, 0.3, 0.0])
    assert curve.greenwood[acknowledged][:3] == pytest.approx([1 / 20, 2 / 15, 19 / 30])
    variance = remaining_variance(curve)
    assert variance[acknowledged][:3] == pytest.approx([0.032, 0.048, 0.057])
    high = log_log_upper(curve.remaining, variance, told.events, delta=0.25)
    assert high[acknowledged][:3] == pytest.approx([0.892692, 0.729485, 0.462600], abs=2e-6)
    found = upper_limit(told, "adequate", beta=0.62, delta=0.25)
    assert (found.point, found.limit, found.method) == (2, 4, "band")


def test_the_order_statistic_is_the_limit_of_complete_data() -> None:
    """Five latencies, beta 2/5, delta 2/5: the k-th is at least A(beta) as often as fewer than k of five are below it.

    Binomial(5, 3/5): P(<3) = (32 + 240 + 720) / 3125 = 0.31744; P(<4) = 0.31744 + 1080/3125 = 0.66304, the first that
    is at least 3/5: the fourth. The estimate is the third: two of five, 2/5, are longer.
    """
    told = waits(10, 20, 30, 40, 50)
    found = upper_limit(told, "complete", beta=0.4, delta=0.4)
    assert (found.point, found.limit, found.method) == (30, 40, "order_statistic")


def test_lost_is_the_plateau_and_the_rest_is_scaled_by_it() -> None:
    """Acknowledged after 1 and 2, two silent for 100: S = 3/4, 1/2; lost 1/2; S0 = (3/4 - 1/2) / (1/2) = 1/2, then 0.

    Silent after 1, of 3/4, two thirds are lost.
    """
    told = waits(1, 2, -100, -100)
    curve = incidence(told)
    assert curve.silent_at(1) == pytest.approx(0.75)
    assert curve.never == pytest.approx(0.5)
    assert lost_share(told)[0] == pytest.approx(0.5)
    assert (curve.remaining_at(1), curve.remaining_at(2)) == (pytest.approx(0.5), pytest.approx(0.0))
    assert curve.never / curve.silent_at(1) == pytest.approx(2 / 3)
    assert follow_up(waits(1, 2), np.array([100, 100])) == "complete"


def test_mcnemar_of_one_against_five() -> None:
    """Two-sided: 2 (C(6,0) + C(6,1)) / 2^6 = 14/64."""
    assert mcnemar(1, 5) == pytest.approx(14 / 64)
    assert mcnemar(5, 1) == pytest.approx(14 / 64)


def test_kappa_and_ac1_of_ten_items() -> None:
    """Two both incident, six both healthy, one each way: observed 8/10, each says incident in 3/10.

    Kappa: chance 0.3^2 + 0.7^2 = 0.58, (0.8 - 0.58) / 0.42 = 11/21.
    AC1: chance 0.3 * 0.7 + 0.7 * 0.3 = 0.42, (0.8 - 0.42) / 0.58 = 19/29.
    Onsets of the two: 3 and 5, 10 and 11: apart 2 and 1, median 1.5; 3..5 touches 5, 10 does not touch 11.
    """
    said = [("incident", "incident")] * 2 + [("healthy", "healthy")] * 6
    said += [("incident", "healthy"), ("healthy", "incident")]
    onsets = {(0, "a"): (3, 5), (0, "b"): (5, None), (1, "a"): (10, None), (1, "b"): (11, None)}
    rows = [
        (item, who, word, *onsets.get((item, who), (None, None)))
        for item, words in enumerate(said)
        for who, word in zip("ab", words, strict=True)
    ]
    names = {"item": pl.Int64, "reviewer": pl.String, "decision": pl.String}
    frame = pl.DataFrame(
        rows, schema={**names, "onset_seq": pl.Int64, "onset_hi_seq": pl.Int64}, orient="row"
    )
    row = agreement(frame).row(0, named=True)
    assert (row["items"], row["agreed"], row["observed"]) == (10, 8, 0.8)
    assert (row["kappa"], row["ac1"]) == (pytest.approx(11 / 21), pytest.approx(19 / 29))
    assert (row["onsets"], row["onset_median"], row["onset_overlap"]) == (2, 1.5, 1)
