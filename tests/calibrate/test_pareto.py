"""The front, the choice and how stable it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlens.calibrate.delay import NEVER, detection
from agentlens.calibrate.pareto import (
    AMOC,
    STABILITY,
    Sample,
    amoc,
    choose,
    pareto_front,
    selection_stability,
)
from agentlens.errors import SettingsError

POINTS = st.lists(st.tuples(*[st.integers(0, 4)] * 2), min_size=1, max_size=12)


def sample(seed: int = 0, healthy: int = 60, incident: int = 30) -> Sample:
    """Three rules, each looser than the one before: more alarms, more found, sooner."""
    rng = np.random.default_rng(seed)
    score, seen = rng.random(healthy), rng.random(incident)
    losses = np.column_stack([score < cut for cut in (0.0, 0.02, 0.3)]).astype(float)
    found = np.column_stack([seen < cut for cut in (0.4, 0.8, 0.95)])
    return Sample(
        rules=("strict", "middle", "loose"),
        losses=losses,
        alerts=losses * 2,
        exposure=np.full(healthy, 100.0),
        waits=np.where(found, 5, NEVER),
        found=found,
        group=np.arange(incident),
        within=20,
    )


@given(POINTS)
def test_the_front_is_what_nothing_dominates(points: list[tuple[int, int]]) -> None:
    """Equal to asking every pair."""
    literal = [
        not any(all(a <= b for a, b in zip(q, p, strict=True)) and q != p for q in points) for p in points
    ]
    assert pareto_front(np.array(points, dtype=float)).tolist() == literal


def test_not_known_is_worse_than_anything() -> None:
    """A rule without a delay is on the front only by its other column."""
    values = np.array([[1.0, np.nan], [1.0, 9.0], [0.5, np.nan]])
    assert pareto_front(values).tolist() == [False, True, True]


def test_the_choice_is_the_most_detecting_rule_within_the_limit() -> None:
    """Then the soonest, then the strictest; none where none is allowed."""
    losses = np.array([0.0, 0.01, 0.01, 0.2])
    assert choose(losses, np.array([0.5, 0.8, 0.8, 0.99]), np.array([9.0, 5.0, 4.0, 1.0]), 0.01) == 2
    assert choose(losses, np.array([0.5, 0.8, 0.8, 0.99]), np.array([9.0, 5.0, 5.0, 1.0]), 0.01) == 1
    assert choose(losses + 1, losses, losses, 0.01) is None


def test_shares_of_wins_add_up_with_the_refusals() -> None:
    """Each draw has one winner or none."""
    table, none = selection_stability(sample(), 0.05, draws=200, seed=3)
    assert table.schema == STABILITY
    assert table["wins"].sum() + none == 200
    assert table["chosen"].sum() == 1


def test_a_clear_winner_wins_always() -> None:
    """Without false alarms anywhere the most detecting rule wins each draw."""
    one = sample()
    found = np.zeros_like(one.found)
    found[:, 2] = True
    clear = replace(
        one, losses=one.losses * 0, alerts=one.alerts * 0, found=found, waits=np.where(found, 5, NEVER)
    )
    table, none = selection_stability(clear, 0.05, draws=100)
    assert (table["wins"].to_list(), none) == ([0, 0, 100], 0)


def test_a_rule_at_the_limit_is_no_stable_choice() -> None:
    """At a limit that the middle rule just meets, draws disagree."""
    one = sample(1, healthy=100)
    limit = float(one.losses[:, 1].mean()) + 1e-9
    table, _ = selection_stability(one, limit, draws=300)
    wins = table["share"].to_list()
    assert 0.2 < max(wins) < 0.95


def test_the_operating_picture_is_sorted_and_banded() -> None:
    """From the fewest false alerts up; each with limits; all three are on the front."""
    table = amoc(sample(), draws=200)
    assert table.schema == AMOC
    assert table["rule"].to_list() == ["strict", "middle", "loose"]
    assert table["on_front"].all()
    assert table["false_method"].to_list()[0] == "poisson"
    for row in table.iter_rows(named=True):
        assert row["false_low"] <= row["false_per_1000"] <= row["false_high"]
        assert row["delay_low"] <= row["delay"] <= row["delay_high"]


def test_tables_of_different_rules_are_refused() -> None:
    """One column a rule, one row a group, and at least one group of each kind."""
    one = sample()
    with pytest.raises(SettingsError, match="one column for each of 2 rules"):
        replace(one, rules=("a", "b"))
    with pytest.raises(SettingsError, match="at least one rule"):
        replace(one, waits=one.waits[:0], found=one.found[:0], group=one.group[:0])


def censored(waits: list[int], found: list[bool], group: list[int]) -> Sample:
    """One rule; as many incidents as given, one quiet healthy group."""
    return Sample(
        rules=("one",),
        losses=np.zeros((1, 1)),
        alerts=np.zeros((1, 1)),
        exposure=np.ones(1),
        waits=np.array(waits)[:, None],
        found=np.array(found)[:, None],
        group=np.array(group),
        within=10,
    )


def test_a_guard_ended_incident_is_censored_not_missed() -> None:
    """Of four, one is found after 2, one after 6, one is ended unseen after 4, one never: 1 - 3/4 * 1/2, not 2/4."""
    detected, delay = censored([2, 6, 4, NEVER], [True, True, False, False], [0, 1, 2, 3]).detection(
        np.ones((1, 4))
    )
    assert detected[0, 0] == pytest.approx(1 - 0.75 * 0.5)
    assert delay[0, 0] == pytest.approx(2 * 1 + 4 * 0.75 + 4 * 0.375)
    missed, _ = censored([2, 6, NEVER, NEVER], [True, True, False, False], [0, 1, 2, 3]).detection(
        np.ones((1, 4))
    )
    assert missed[0, 0] == 0.5


def test_a_guard_that_ends_after_d_changes_nothing() -> None:
    """What was watched for D or longer and not found by then is a miss within D."""
    ended, never = (
        censored([2, last], [True, False], [0, 1]).detection(np.ones((1, 2))) for last in (11, NEVER)
    )
    assert ended[0][0, 0] == never[0][0, 0] == 0.5
    assert ended[1][0, 0] == never[1][0, 0] == 6.0


def test_groups_weigh_the_same_and_draws_weigh_groups() -> None:
    """Three incidents of one task count as much as one of another; a draw without a task leaves it out."""
    one = censored([1, 1, 1, NEVER], [True, True, True, False], [0, 0, 0, 1])
    detected, _ = one.detection(np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 2.0]]))
    assert detected[:, 0].tolist() == [0.5, 1.0, 0.0]


def test_the_curve_of_one_rule_is_that_of_the_detection_table() -> None:
    """With one incident a task: detection@D and restricted mean equal `agentlens.calibrate.delay`'s."""
    rng = np.random.default_rng(9)
    found, waits = rng.random(60) < 0.6, rng.integers(0, 16, 60)
    guard = ~found & (rng.random(60) < 0.5)
    told = np.where(found | guard, waits, NEVER)
    share, mean = censored(told.tolist(), found.tolist(), list(range(60))).detection(np.ones((1, 60)))
    frame = pl.DataFrame(
        {
            "run_id": [f"r{i:02d}" for i in range(60)],
            "task_group": [f"t{i:02d}" for i in range(60)],
            "detected": found,
            "already": False,
            "guard_ended": guard,
            "delay_events": waits,
            "delay_us": None,
            "watched_events": waits,
            "watched_us": None,
            "timed": False,
        }
    ).with_columns(pl.when("detected").then("delay_events").alias("delay_events"))
    row = detection(frame, 10, draws=10).row(0, named=True)
    assert share[0, 0] == pytest.approx(row["share"])
    assert mean[0, 0] == pytest.approx(row["restricted_mean"])
