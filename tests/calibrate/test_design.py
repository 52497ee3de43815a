"""How data are divided: counts alone decide, before any alarm is read."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from agentlens.calibrate.design import EVERYTHING, Counts, can_certify, default_shares, hoped_wealth
from agentlens.calibrate.recommend import Goal


def counts(groups: int, *, runs: int = 6, incidents: int = 3) -> Counts:
    """Groups of one size, each with as many incidents."""
    return Counts(
        healthy_groups=groups,
        sizes=np.full(groups, runs, dtype=np.int64),
        incidents=np.full(groups, incidents, dtype=np.int64),
    )


@pytest.mark.parametrize(
    ("groups", "shares"),
    [
        (748, (0.4, 0.4, 0.2)),
        (747, (0.0, 0.8, 0.2)),
        (374, (0.0, 0.8, 0.2)),
        (373, EVERYTHING),
        (100, EVERYTHING),
    ],
)
def test_a_split_is_kept_only_where_the_rest_can_certify(groups, shares):
    """299 groups certify 1 %: three parts where 40 % are as many, no exploring where 80 % are, else no test either."""
    assert default_shares(Goal(), counts(groups)) == shares


def test_given_rules_have_nothing_to_explore():
    """The groups that would choose certify instead."""
    assert default_shares(Goal(), counts(2_000), fixed=True) == (0.0, 0.8, 0.2)
    assert default_shares(Goal(objective="share"), counts(20_000), fixed=True) == EVERYTHING


def test_a_share_explores_where_the_rest_is_hoped_to_certify():
    """Half of the incidents found and a quarter of the limit false must be enough for the other four fifths."""
    goal = Goal(objective="share")
    per_group = hoped_wealth(goal, counts(1_000)) / 1_000
    enough = int(np.ceil(np.log(20) / 0.8 / per_group)) + 1
    assert default_shares(goal, counts(enough)) == (0.2, 0.8, 0.0)
    assert default_shares(goal, counts(enough - 2)) == EVERYTHING


def test_what_no_alarms_could_certify_is_known_from_counts():
    """298 healthy groups are too few at 1 % whatever they show, 299 are not; a share needs incidents to find."""
    assert [can_certify(Goal(), counts(n)) for n in (298, 299)] == [False, True]
    goal = Goal(objective="share")
    assert not can_certify(goal, counts(2_000, incidents=0))
    assert can_certify(goal, counts(2_000))


def test_counts_are_of_labelled_runs_by_task():
    """Healthy groups, sizes and incidents of two tasks."""
    rows = [("a", "healthy"), ("a", "incident"), ("b", "incident"), ("b", "partly"), ("b", "incident")]
    told = Counts.of(pl.DataFrame(rows, schema=["task_group", "state"], orient="row"))
    assert (told.healthy_groups, told.sizes.tolist(), told.incidents.tolist()) == (1, [2, 3], [1, 2])
