"""Calibrations of whole made-up fleets, start to end with the engine: the promise is kept, short data are refused."""

from __future__ import annotations

from functools import cache

import polars as pl
import pytest

from agentlens.calibrate.calibrate import Plan, calibrate_loops
from agentlens.calibrate.certificate import Status
from agentlens.calibrate.intervals import lower_bound, upper_bound
from agentlens.calibrate.recommend import Goal
from agentlens.datasets import LaneModel, synthetic_lanes
from agentlens.detect.loops import loops
from agentlens.detect.rules import Rule
from agentlens.model.label import LABELS

# few actions, sticky, often without new evidence: healthy runs alarm by themselves under most rules
MODEL = LaneModel(
    min_events=25,
    max_events=45,
    incident_share=0.15,
    min_laps=4,
    max_laps=6,
    alphabet=5,
    repeat=0.4,
    fresh=0.3,
    spread=0.9,
    runs_per_group=2,
)
GOAL = Goal(max_fpr=0.05, delta=0.1)


def calibrated(runs: int, seed: int):
    drawn = synthetic_lanes(runs, seed=seed, model=MODEL)
    labels = drawn.labels.select(
        (pl.col(name) if name in drawn.labels.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in LABELS.items()
    )
    return calibrate_loops([drawn.events.lazy()], labels, Plan(goal=GOAL, grid=False))


@cache
def healthy_lanes() -> pl.LazyFrame:
    """Eight thousand healthy runs of the same kind that no calibration sees."""
    kind = {name: getattr(MODEL, name) for name in MODEL.__dataclass_fields__} | {"incident_share": 0.0}
    return synthetic_lanes(8_000, seed=987, model=LaneModel(**kind)).events.lazy()


@cache
def true_rate(rule: Rule) -> tuple[int, int]:
    """Alarming runs of the eight thousand, run by run with the engine."""
    verdicts = (
        loops(healthy_lanes(), rule)
        .group_by("run_id")
        .agg((pl.col("verdict") == "stuck_loop").any())
        .collect()
    )
    return int(verdicts["verdict"].sum()), verdicts.height


def is_broken(rule: Rule) -> bool:
    """Whether the rule's true rate lies above the limit, beyond doubt."""
    count, total = true_rate(rule)
    low = lower_bound(count, total)
    return low is not None and low > GOAL.max_fpr


def test_a_certified_rule_holds_on_runs_that_nobody_saw() -> None:
    """Out of 250 tasks a rule is certified at 5 %; on 8,000 new healthy runs it stays within, and it detects."""
    found = calibrated(500, seed=3)
    assert found.answer.status is Status.CERTIFIED
    rule = found.cells[found.answer.cell].rule
    assert not is_broken(rule)
    row = found.rates.row(found.answer.cell, named=True)
    assert row["detection"] > 0.2
    loose = found.cells[found.chain[-1]].rule
    assert is_broken(loose)


def test_forty_tasks_are_too_few() -> None:
    """No rule is certified, and the answer says how many groups more it takes."""
    found = calibrated(80, seed=5)
    assert found.answer.status is not Status.CERTIFIED
    assert not found.answer.certificate["certified"].any()
    if found.answer.status is Status.PROVISIONAL:
        assert found.answer.more_groups > 0


@pytest.mark.slow
def test_calibrations_with_the_engine_keep_the_promise() -> None:
    """Of 120 calibrations of 200 tasks at most a share delta certify a rule above the limit."""
    repetitions = 120
    broken = certified = 0
    for seed in range(repetitions):
        found = calibrated(400, seed=1_000 + seed)
        if found.answer.status is Status.CERTIFIED:
            certified += 1
            broken += is_broken(found.cells[found.answer.cell].rule)
    high = upper_bound(broken, repetitions)
    assert certified > repetitions / 2
    assert broken / repetitions <= GOAL.delta + 1.645 * (GOAL.delta * (1 - GOAL.delta) / repetitions) ** 0.5
    assert high is not None
    assert high <= 0.2
