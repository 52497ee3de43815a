"""A limit on false alerts per active hour, beside the rate per run: clipped at a cap, and nothing promised untimed."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.calibrate.calibrate import Plan, calibrate_loops
from agentlens.calibrate.certificate import Status, p_bet
from agentlens.calibrate.recommend import Goal
from agentlens.errors import InputError, SettingsError
from tests.calibrate.small import labels, lane, lanes

WORKS, PAGES = "abcdefghijklm", "aaaaaabcdefgh"
"""Thirteen actions, 120 s; the second repeats itself and every rule of laps alarms once."""


def fleet(tasks: int, noisy: int, *, untimed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Healthy tasks of which the first ``noisy`` alarm and the last ``untimed`` have no times; three stuck runs."""
    frames, rows = [], []
    for n in range(tasks):
        at = None if n >= tasks - untimed else 1_000 * n
        frames.append(lane(f"h{n:03d}", PAGES if n < noisy else WORKS, at=at))
        rows.append({"run_id": f"h{n:03d}", "scope": "run", "label": "healthy", "task_group": f"t{n}"})
    for n in range(3):
        frames.append(lane(f"i{n}", "abxxxxxxxxxxx", at=50 + 1_000 * n))
        rows.append({"run_id": f"i{n}", "scope": "run", "label": "incident", "task_group": f"u{n}"})
    return lanes(*frames), labels(*rows)


def answer(tasks: int, noisy: int, *, untimed: int = 0, **goal):
    events, told = fleet(tasks, noisy, untimed=untimed)
    plan = Plan(goal=Goal(max_fpr=0.3, **goal), grid=False, shares=(0, 1, 0))
    return calibrate_loops([events.lazy()], told, plan).answer


def row(found, rule: str = "laps((4, 3, 2))") -> dict:
    return found.certificate.filter(pl.col("rule") == rule).row(0, named=True)


def test_the_mean_is_over_groups_and_each_counts_up_to_the_cap():
    """One alert in 120 s is 30 an hour: four tasks of sixty give 2, or 1 where a task counts for at most 15."""
    assert row(answer(60, 4, max_alerts_per_hour=5.0))["alerts_per_hour"] == pytest.approx(2.0)
    found = row(answer(60, 4, max_alerts_per_hour=5.0, alerts_cap=15.0))
    assert found["alerts_per_hour"] == pytest.approx(1.0)
    assert found["p_alerts"] == p_bet([1.0] * 4 + [0.0] * 56, 5 / 15)
    assert found["p_value"] == max(found["p_rate"], found["p_alerts"])


def test_a_rule_within_the_rate_and_over_the_limit_per_hour_is_not_certified():
    """The larger p-value decides; without the limit the same rule is certified."""
    loose, strict = answer(60, 4), answer(60, 4, max_alerts_per_hour=1.0, alerts_cap=30.0)
    assert row(loose)["certified"]
    assert not row(strict)["certified"]
    assert row(strict)["p_rate"] == row(loose)["p_rate"] <= 0.05 < row(strict)["p_alerts"]
    assert row(strict)["more_groups"] is None  # it is over the limit: no number of such tasks helps
    assert not row(strict)["within"]


def test_both_limits_need_their_groups():
    """Where the rate is certified and the limit per hour lacks groups, their number is the one that is told."""
    found = row(answer(60, 1, max_alerts_per_hour=1.0, alerts_cap=30.0))
    assert found["p_rate"] <= 0.05 < found["p_alerts"]
    assert found["more_groups"] > 0


def test_tasks_without_times_count_as_at_the_cap():
    """Nothing is promised on what was not measured; the answer says how many."""
    found = answer(60, 0, untimed=3, max_alerts_per_hour=5.0, alerts_cap=10.0)
    assert row(found)["alerts_per_hour"] == pytest.approx(10 * 3 / 60)
    assert found.limits == {"max_alerts_per_hour": 5.0, "alerts_cap": 10.0, "untimed_groups": 3}


def test_without_any_times_the_limit_is_refused():
    """One line: what is missing and what would do."""
    with pytest.raises(SettingsError, match=r"no hour can be counted; accepted: data with times"):
        answer(60, 0, untimed=60, max_alerts_per_hour=5.0)


def test_without_healthy_runs_the_limit_is_refused():
    """A share can be measured on healthy parts of runs; hours are of healthy runs."""
    events, _ = fleet(4, 0)
    told = labels(
        *(
            {"run_id": f"h{n:03d}", "scope": "interval", "label": "healthy", "onset_seq": 0, "end_seq": 3}
            for n in range(4)
        ),
        *({"run_id": f"i{n}", "scope": "run", "label": "incident"} for n in range(3)),
    )
    goal = Goal(objective="share", max_fpr=0.3, max_alerts_per_hour=5.0)
    with pytest.raises(
        InputError, match="no healthy run: alerts per hour of healthy runs can not be measured"
    ):
        calibrate_loops([events.lazy()], told, Plan(goal=goal, grid=False))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max_alerts_per_hour": 0.0}, "max_alerts_per_hour = 0.0"),
        ({"max_alerts_per_hour": float("nan")}, "max_alerts_per_hour = nan"),
        ({"max_alerts_per_hour": float("inf")}, "max_alerts_per_hour = inf"),
        ({"max_alerts_per_hour": 2.0, "alerts_cap": 2.0}, "alerts_cap = 2.0"),
        ({"alerts_cap": 2.0}, "alerts_cap = 2.0"),
    ],
)
def test_limits_per_hour_that_mean_nothing_are_refused(settings, said):
    """No limit, no number, a cap that is not above it, or a cap alone."""
    with pytest.raises(SettingsError, match="accepted:") as error:
        Goal(**settings)
    assert said in str(error.value)


def test_the_cap_is_ten_times_the_limit_unless_told():
    """So that a tenth is what the bet is on."""
    assert Goal(max_alerts_per_hour=0.5).cap == 5.0
    assert Goal(max_alerts_per_hour=0.5, alerts_cap=2.0).cap == 2.0


def test_a_provisional_rule_is_within_every_limit():
    """Too few tasks to certify anything: what is named is a rule whose alerts per hour look fine, here a stricter one."""
    limits = {"max_alerts_per_hour": 1.0, "alerts_cap": 30.0, "delta": 1e-9}
    found = answer(60, 4, **limits)
    assert found.status is Status.PROVISIONAL
    named = found.certificate.filter(pl.col("cell") == found.cell).row(0, named=True)
    assert named["within"]
    assert named["alerts_per_hour"] == 0.0
    assert found.more_groups == named["more_groups"] > 0
