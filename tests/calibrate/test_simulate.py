"""The certificate keeps its promise over repeated calibrations; what it replaces does not."""

from __future__ import annotations

import numpy as np
import pytest

from agentlens.calibrate.certificate import Status, groups_needed
from agentlens.calibrate.simulate import METHODS, PROMISE, World, calibrate_once, promise
from agentlens.errors import SettingsError

# the hardest world: after a strict rule that passes comes one whose true rate is just above the limit of 1 %
EDGE = World(groups=800, scales=(12 / np.log(0.5 / 0.0101),), reach=(14.0,), thresholds=(40, 14))
TASKS_ALIKE = World(
    groups=800, scales=EDGE.scales, reach=EDGE.reach, thresholds=(40, 14), alike=0.9, runs_per_group=6
)


def by_method(world: World, methods: tuple[str, ...], repetitions: int, **more) -> dict[str, dict]:
    table = promise(world, repetitions=repetitions, methods=methods, seed=11, **more)
    assert table.schema == PROMISE
    return {row["method"]: row for row in table.iter_rows(named=True)}


def test_the_edge_is_just_above_the_limit() -> None:
    """The second rule of the hardest world has a true rate of 1.01 %, and scores follow it."""
    assert EDGE.true_rate(0, 14) == pytest.approx(0.0101)
    scores = EDGE.scores(np.random.default_rng(3), 60_000)
    assert (scores >= 14).mean() == pytest.approx(0.0101, abs=0.001)


def test_500_calibrations_keep_the_promise_at_the_edge() -> None:
    """Both valid tests break the limit in at most 5 % of 500 calibrations, as far as 500 can tell."""
    found = by_method(EDGE, ("certificate", "one_run_a_group"), 500)
    allowed = 0.05 + 1.645 * (0.05 * 0.95 / 500) ** 0.5
    for row in found.values():
        assert row["broken_share"] <= allowed
        assert row["broken_share"] <= row["broken_high"] <= 0.08


def test_runs_of_a_task_are_not_independent() -> None:
    """Counting alike runs as independent breaks the promise; one run a group keeps it on the same draws."""
    found = by_method(TASKS_ALIKE, ("one_run_a_group", "runs_as_units"), 300)
    assert found["one_run_a_group"]["broken_share"] <= 0.09
    assert found["runs_as_units"]["broken_share"] > 0.10


def test_the_best_looking_rule_breaks_the_limit_often() -> None:
    """Choosing and reporting on the same runs fails about every third time or more; the certificate hardly ever."""
    found = by_method(World(runs_per_group=1), ("certificate", "empirical_best"), 120)
    assert found["empirical_best"]["broken_share"] > 0.25
    assert found["certificate"]["broken_share"] <= 0.05
    assert found["certificate"]["certified"] > 100


def test_short_data_are_refused_with_what_is_missing() -> None:
    """Below 299 certify groups nothing can be certified at 1 %, however good it looks."""
    world = World(groups=300, scales=(1.0,), reach=(14.0,))
    rng = np.random.default_rng(5)
    for _ in range(20):
        one = calibrate_once(world, rng)
        assert one.status is Status.PROVISIONAL
        assert one.threshold is None
        assert one.more_groups == groups_needed(0, 0.01, 0.05) - 225


def test_a_world_without_a_good_rule_is_infeasible() -> None:
    """Even the strictest rule alarms on a third of healthy runs."""
    world = World(groups=400, share=1.0, scales=(40.0,), reach=(14.0,))
    assert calibrate_once(world, np.random.default_rng(1)).status is Status.INFEASIBLE


def test_more_groups_certify_looser_rules() -> None:
    """True detection grows with the data, never past the truth's own limit."""
    detection = [
        promise(World(groups=n, runs_per_group=1), repetitions=40, seed=2)["detection"].item()
        for n in (450, 900, 3_000)
    ]
    assert detection == sorted(detection)


def test_hidden_incidents_make_the_certificate_strict_not_wrong() -> None:
    """With 2 % of "healthy" runs mislabelled no rule that detects can pass 1 %: it refuses or keeps to strict rules."""
    row = by_method(World(runs_per_group=1, mislabelled=0.02), ("certificate",), 100)["certificate"]
    assert row["broken_share"] <= 0.09
    assert row["detection"] < 0.1


def test_the_same_seed_gives_the_same_table() -> None:
    """And another seed another."""
    small = World(groups=400, runs_per_group=1)
    one, again = (promise(small, repetitions=30, seed=4) for _ in range(2))
    assert one.equals(again)
    assert not one.equals(promise(small, repetitions=30, seed=5))


@pytest.mark.parametrize(
    "wrong",
    [
        {"groups": 1},
        {"alike": 1.5},
        {"explore_share": 0.0},
        {"scales": (1.0, 2.0)},
        {"thresholds": (2, 3)},
    ],
)
def test_worlds_that_cannot_be_drawn_are_refused(wrong: dict) -> None:
    """Each number has its range."""
    with pytest.raises(SettingsError):
        World(**wrong)


def test_unknown_methods_and_limits_are_refused() -> None:
    """One clear line."""
    with pytest.raises(SettingsError, match="did you mean 'certificate'"):
        promise(World(), repetitions=1, methods=("certificat",))
    with pytest.raises(SettingsError, match="max_fpr"):
        promise(World(), repetitions=1, alpha=0)
    with pytest.raises(SettingsError, match="repetitions"):
        promise(World(), repetitions=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "world",
    [
        EDGE,
        TASKS_ALIKE,
        World(),
        World(runs_per_group=1),
        World(alike=0.8, runs_per_group=8),
        World(groups=2_000, runs_per_group=5, alike=0.6),
        World(groups=1_200, scales=(12 / np.log(0.5 / 0.0101),) * 8, reach=(14.0,) * 8, thresholds=(40, 14)),
    ],
    ids=[
        "edge",
        "tasks alike",
        "three chains",
        "one run",
        "eight alike runs",
        "many groups",
        "eight chains at the edge",
    ],
)
@pytest.mark.parametrize("delta", [0.05])
def test_a_thousand_calibrations_keep_the_promise(world: World, delta: float) -> None:
    """In every world the broken share stays within delta, within the error of a thousand repetitions."""
    found = by_method(world, METHODS[:2], 1_000, delta=delta)
    for row in found.values():
        assert row["broken_share"] <= delta + 2 * (delta * (1 - delta) / 1_000) ** 0.5
