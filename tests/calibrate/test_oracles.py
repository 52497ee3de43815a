"""Other libraries as oracles: where they compute what this package computes, the numbers are equal.

They are not needed at run time nor for the other tests: ``pip install 'agentlens-toolkit[oracle]'``.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest

from agentlens.calibrate.agreement import agreement
from agentlens.calibrate.certificate import p_binomial, walk_chain
from agentlens.calibrate.intervals import clopper_pearson, garwood, holm, mcnemar
from agentlens.calibrate.quantile import remaining_variance
from agentlens.calibrate.survival import Ended, Waits, incidence, silent_band


def oracle(name: str) -> Any:
    """The module, or a skip that says what is missing; what it warns of on import is its own affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"needs {name.partition('.')[0]} (extra oracle)")


def waits(seed: int, *, size: int = 60, longest: int = 25, share: float = 0.3) -> Waits:
    """Integer waits with ties, some of them censored."""
    rng = np.random.default_rng(seed)
    ended = np.where(rng.random(size) < share, Ended.UNSEEN, Ended.EVENT).astype(np.int64)
    return Waits(rng.integers(1, longest, size), ended, np.arange(size))


@pytest.mark.parametrize("seed", range(6))
def test_the_share_still_silent_is_lifelines_kaplan_meier(seed):
    """At every time, ties and censoring included."""
    lifelines, told = oracle("lifelines"), waits(seed)
    curve = incidence(told)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = lifelines.KaplanMeierFitter().fit(told.time, told.ended == Ended.EVENT)
    assert curve.silent == pytest.approx(fitted.survival_function_at_times(curve.at).to_numpy(), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_the_band_of_the_silent_share_is_lifelines_log_log_band(seed):
    """Where something has ended and something is left."""
    lifelines, told = oracle("lifelines"), waits(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = lifelines.KaplanMeierFitter(alpha=0.05).fit(told.time, told.ended == Ended.EVENT)
    band = fitted.confidence_interval_survival_function_.loc[incidence(told).at].to_numpy()
    low, high = silent_band(told, 0.95)
    inside = ~np.isnan(band).any(axis=1) & (incidence(told).silent > 0)
    assert inside.sum() > 10
    assert low[inside] == pytest.approx(band[inside, 0], abs=1e-9)
    assert high[inside] == pytest.approx(band[inside, 1], abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_competing_ends_are_lifelines_aalen_johansen(seed):
    """The share that has had the event, where something else may rule it out; times apart, since it breaks ties by chance."""
    lifelines = oracle("lifelines")
    rng = np.random.default_rng(seed)
    time = rng.permutation(np.arange(1, 61))
    ended = rng.integers(0, 3, 60)
    curve = incidence(Waits(time, ended, np.arange(60)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = lifelines.AalenJohansenFitter(calculate_variance=False).fit(time, ended, event_of_interest=1)
    theirs = fitted.cumulative_density_.loc[curve.at].to_numpy()[:, 0]
    assert curve.reached == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_kaplan_meier_and_its_variance_are_those_of_statsmodels(seed):
    """Greenwood's standard error of the silent share."""
    duration = oracle("statsmodels.duration.survfunc")
    told = waits(seed)
    theirs = duration.SurvfuncRight(told.time, (told.ended == Ended.EVENT).astype(int))
    curve = incidence(told)
    seen = curve.events > 0
    assert curve.at[seen].tolist() == theirs.surv_times.tolist()
    assert curve.silent[seen] == pytest.approx(theirs.surv_prob)
    inside = theirs.surv_prob > 0
    ours = (curve.silent**2 * curve.greenwood)[seen]
    assert np.sqrt(ours[inside]) == pytest.approx(theirs.surv_prob_se[inside])
    assert remaining_variance(curve).shape == curve.at.shape


@pytest.mark.parametrize(("count", "total"), [(0, 40), (1, 40), (17, 40), (39, 40), (40, 40), (3, 299)])
def test_exact_intervals_are_those_of_statsmodels(count, total):
    """Clopper-Pearson, there the method ``beta``."""
    proportion = oracle("statsmodels.stats.proportion")
    low, high = proportion.proportion_confint(count, total, method="beta")
    mine = clopper_pearson(count, total)
    assert (mine.low, mine.high) == pytest.approx((low, high))


@pytest.mark.parametrize("count", [0, 1, 5, 9])
def test_poisson_intervals_are_those_of_statsmodels(count):
    """Garwood's, there ``exact-c``."""
    rates = oracle("statsmodels.stats.rates")
    low, high = rates.confint_poisson(count, 250.0, method="exact-c")
    mine = garwood(count, 250.0)
    assert (mine.low, mine.high) == pytest.approx((0.0 if np.isnan(low) else low, high))


@pytest.mark.parametrize("seed", range(4))
def test_holm_is_that_of_statsmodels(seed):
    """Adjusted p-values, in the order given."""
    multi = oracle("statsmodels.stats.multitest")
    p_values = np.round(np.random.default_rng(seed).random(12) ** 3, 3).tolist()
    assert holm(p_values) == pytest.approx(multi.multipletests(p_values, method="holm")[1].tolist())


@pytest.mark.parametrize(("first", "second"), [(0, 6), (3, 9), (5, 5), (1, 20), (0, 0)])
def test_mcnemar_is_the_exact_one_of_statsmodels(first, second):
    """Two-sided, on the discordant pairs; without any, 1."""
    tables = oracle("statsmodels.stats.contingency_tables")
    if not first + second:
        assert mcnemar(0, 0) == 1.0
        return
    theirs = tables.mcnemar([[30, first], [second, 40]], exact=True).pvalue
    assert mcnemar(first, second) == pytest.approx(float(theirs))


@pytest.mark.parametrize("seed", range(5))
def test_kappa_is_that_of_scikit_learn(seed):
    """Cohen's, of two reviewers and three words."""
    metrics = oracle("sklearn.metrics")
    rng = np.random.default_rng(seed)
    words = np.array(["healthy", "incident", "unsure"])
    one = words[rng.integers(0, 3, 80)]
    other = np.where(rng.random(80) < 0.6, one, words[rng.integers(0, 3, 80)])
    rows = [(i, who, said) for who, all_said in (("a", one), ("b", other)) for i, said in enumerate(all_said)]
    frame = pl.DataFrame(rows, schema=["item", "reviewer", "decision"], orient="row").with_columns(
        onset_seq=pl.lit(None, pl.Int64), onset_hi_seq=pl.lit(None, pl.Int64)
    )
    found = agreement(frame)
    assert found["kappa"][0] == pytest.approx(metrics.cohen_kappa_score(one, other))


@pytest.mark.parametrize("seed", range(8))
def test_the_chain_stops_where_mapies_fixed_sequence_stops(seed):
    """The same rules are certified; it names their places, sorted."""
    control = oracle("mapie.risk_control.fwer_control")
    p_values = np.round(np.random.default_rng(seed).random(9) ** 4, 4)
    mine = [step.index for step in walk_chain(p_values.tolist(), 0.1) if step.certified]
    assert mine == control.control_fwer(p_values, 0.1, fwer_method="fixed_sequence").tolist()


def test_the_binomial_p_value_is_mapies_where_that_does_not_round_up():
    """Binary losses: the smaller of the exact binomial tail and Hoeffding's bound, which is never smaller."""
    methods = oracle("mapie.risk_control.methods")
    for alarms, groups in ((0, 299), (1, 473), (3, 800), (8, 800)):
        risk = np.array([np.nextafter(alarms / groups, 0)])  # a hair less: it rounds alarms up to a whole one
        theirs = methods.compute_hoeffding_bentkus_p_value(risk, groups, 0.01, binary=True)
        assert p_binomial(alarms, groups, 0.01) == pytest.approx(float(theirs[0, 0]))
