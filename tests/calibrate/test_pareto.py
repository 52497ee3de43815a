"""The front, the choice and how stable it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    detected = np.column_stack([seen < cut for cut in (0.4, 0.8, 0.95)]).astype(float)
    return Sample(
        rules=("strict", "middle", "loose"),
        losses=losses,
        alerts=losses * 2,
        exposure=np.full(healthy, 100.0),
        detected=detected,
        delay=20 - 15 * detected,
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
    clear = Sample(
        rules=one.rules,
        losses=one.losses * 0,
        alerts=one.alerts * 0,
        exposure=one.exposure,
        detected=one.detected * np.array([0, 0, 1]) + np.array([0, 0, 0.01]),
        delay=one.delay,
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
        Sample(("a", "b"), one.losses, one.alerts, one.exposure, one.detected, one.delay)
    with pytest.raises(SettingsError, match="at least one rule"):
        Sample(one.rules, one.losses, one.alerts, one.exposure, one.detected[:0], one.delay[:0])
