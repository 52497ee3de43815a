"""Nested cross-validation: rules are chosen before a fold and judged on it, and nothing is ever certified."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.calibrate.calibrate import Plan, calibrate_loops
from agentlens.calibrate.certificate import Status
from agentlens.calibrate.nested import NESTED, NESTED_FROM
from agentlens.calibrate.recommend import Goal
from tests.calibrate.small import labels, lane, lanes

WORKS, PAGES, STUCK = "abcdefghijkl", "aaaabcdefghi", "abcdefghxxxx"


def fleet(texts: str, *, timed: bool = True) -> tuple[pl.DataFrame, pl.DataFrame]:
    """One task a letter, in order of time: w works, p works and repeats itself four times, s is stuck."""
    kinds = {"w": WORKS, "p": PAGES, "s": STUCK}
    frames = [lane(f"r{n:03d}", kinds[k], at=1_000 * n if timed else None) for n, k in enumerate(texts)]
    rows = [
        {
            "run_id": f"r{n:03d}",
            "scope": "run",
            "label": "incident" if k == "s" else "healthy",
            "task_group": f"t{n:03d}",
        }
        for n, k in enumerate(texts)
    ]
    return lanes(*frames), labels(*rows)


def answer(texts: str, *, folds: int | None = None, timed: bool = True, **goal):
    events, told = fleet(texts, timed=timed)
    return calibrate_loops([events.lazy()], told, Plan(goal=Goal(**goal), grid=False, folds=folds))


def test_too_few_groups_for_any_certificate_are_judged_by_folds():
    """Forty tasks at 1 %: PROVISIONAL, every group took part, and the procedure's counts are those of the later folds."""
    found = answer("wws" * 14)
    assert found.answer.status is Status.PROVISIONAL
    assert found.answer.chain_from == NESTED_FROM
    assert found.nested.schema == NESTED
    assert found.splits.frame["split"].unique().to_list() == ["certify"]
    assert found.nested["fold"].to_list() == [None, 1, 2, 3, 4]
    folds = found.nested.filter(pl.col("fold").is_not_null())
    whole = found.nested.row(0, named=True)
    assert whole["healthy_runs"] == folds["healthy_runs"].sum() == 22
    assert whole["detected"] == whole["incidents"] == folds["incidents"].sum()
    assert whole["fpr"] == 0.0
    assert whole["fpr_high"] > 0.1  # 0 of 22


def test_folds_never_certify_however_many_groups_there_are():
    """Asked for, they are used where splits could certify, and nothing is certified."""
    found = answer("wws" * 60, folds=4, max_fpr=0.1)
    assert found.answer.status is Status.PROVISIONAL
    assert not found.answer.certificate["certified"].any()
    assert answer("wws" * 60, max_fpr=0.1).answer.status is Status.CERTIFIED


def test_a_fold_is_judged_by_what_came_before_it():
    """Tasks that repeat themselves come late: the rule chosen before them alarms on them, and the procedure says so."""
    found = answer("wws" * 14 + "pps" * 6, folds=4, max_fpr=0.1)
    whole = found.nested.row(0, named=True)
    last = found.nested.row(-1, named=True)
    assert last["alarmed_runs"] > 0
    assert whole["alarmed_runs"] == found.nested["alarmed_runs"][1:].sum() > 0
    assert whole["fpr"] == pytest.approx(whole["alarmed_runs"] / whole["healthy_runs"])
    assert found.nested["groups_before"].to_list()[1:] == [15, 30, 45]


def test_without_times_the_others_are_what_came_before():
    """Folds by a seeded hash: all five are judged, each by the rule of the other four."""
    found = answer("wws" * 14, timed=False)
    assert found.splits.placed_by == "hash"
    assert found.nested["fold"].to_list() == [None, 0, 1, 2, 3, 4]
    assert found.nested["healthy_runs"][0] == 28
    assert set(found.nested["groups_before"].to_list()[1:]) == {33, 34}


def test_a_group_that_reaches_into_a_fold_does_not_choose_for_it():
    """A task whose runs end after the fold began would carry the future into the past."""
    events, told = fleet("wws" * 14)
    late = lane("r900", WORKS, at=35_000)
    told = pl.concat(
        [told, labels({"run_id": "r900", "scope": "run", "label": "healthy", "task_group": "t000"})]
    )
    found = calibrate_loops([lanes(events, late).lazy()], told, Plan(goal=Goal(), grid=False))
    first = calibrate_loops(
        [events.lazy()], told.filter(pl.col("run_id") != "r900"), Plan(goal=Goal(), grid=False)
    )
    assert first.nested["groups_before"][1] == found.nested["groups_before"][1] + 1


def test_a_fold_without_a_rule_has_no_alarm():
    """Every rule alarms on the tasks before it: the procedure refuses there, so nothing is found and nothing false."""
    long = lane("r500", "a" * 40, at=0)
    events, told = fleet("wws" * 8)
    told = pl.concat(
        [told, labels({"run_id": "r500", "scope": "run", "label": "healthy", "task_group": "t500"})]
    )
    found = calibrate_loops([lanes(events, long).lazy()], told, Plan(goal=Goal(), grid=False))
    first = found.nested.row(1, named=True)
    assert (first["rule"], first["alarms"], first["detected"]) == (None, 0, 0)
    assert first["incidents"] > 0
    assert (found.answer.status, found.answer.cell) == (Status.INFEASIBLE, None)


def test_the_same_question_gives_the_same_folds():
    """And the procedure's share is told where the share is limited."""
    one, two = (answer("wws" * 14, objective="share", max_fpr=0.05) for _ in range(2))
    assert one.nested.equals(two.nested)
    assert one.nested["false_share"][0] == 0.0
