"""InterCode: the baselines as others counted them, a rule that raises more, and what can be promised of it."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens import calibrate, ingest
from agentlens.normalise.digest import Key
from agentlens.normalise.rows import Normaliser
from agentlens.normalise.tables import Tables

NORMALISER = Normaliser(key=Key.public_demo(), tables=Tables.load())


def counts(found) -> dict[str, tuple[int, int, float]]:
    """Alarms, false ones among them, and the mean step, by rule."""
    table = found.rates.select("rule", "alarms", "false_alarms", pl.col("mean_alarm_step").round(2))
    return {rule: tuple(rest) for rule, *rest in table.rows()}


def test_bash_runs_alone_give_the_known_counts_and_no_certificate(shared, tmp_path):
    """998 bash runs: no baseline with evidence raises a false alarm, and 200 tasks are too few to certify 1 %."""
    ingest(
        shared / "traces" / "intercode" / "bash",
        into=tmp_path / "lake",
        sql="intercode",
        normaliser=NORMALISER,
        workers=1,
    )
    found = calibrate(tmp_path / "lake", labels="weak", objective="share", max_fpr=0.01)
    told = counts(found)
    assert told["laps((4, 3, 2))"][:2] == (297, 0)
    assert told["same_call(3)"][:2] == (325, 4)
    assert told["openhands"][:2] == (285, 0)
    assert told["gemini_cli"][:2] == (260, 0)
    assert found.status == "PROVISIONAL"
    assert found.profile["profile"]["more_groups"] > 0


OTHERS = ("laps((4, 3, 2))", "same_call(3)", "openhands", "gemini_cli")


@pytest.fixture(scope="module")
def lake(shared, tmp_path_factory):
    """All 7,201 runs."""
    path = tmp_path_factory.mktemp("intercode") / "lake"
    ingest(shared / "traces" / "intercode", into=path, sql="intercode", normaliser=NORMALISER, workers=1)
    return path


def by_share(lake, **more):
    return calibrate(lake, labels="weak", objective="share", max_fpr=0.01, **more)


@pytest.mark.slow
def test_all_runs_reproduce_the_baselines_and_certify_a_rule_that_raises_more(lake):
    """7,201 runs: the four rows; the certified rule raises more true alarms than each, and the answer says by what bet."""
    found = by_share(lake)
    told = counts(found)
    assert told["laps((4, 3, 2))"] == (2514, 5, 5.15)
    assert told["same_call(3)"] == (2399, 11, 4.1)
    assert told["openhands"] == (2377, 5, 5.05)
    # on raw text 2,041: one pair of commands differs in outer white space alone
    assert told["gemini_cli"] == (2042, 5, 5.63)
    assert found.status == "CERTIFIED"
    box = found.profile["profile"]
    # 1,234 groups: too few to spend a fifth on exploring, so the chain from the default rule is walked on all of them
    assert box["chain_from"] == "fixed beforehand, no explore split"
    # 27 of them have seven runs, none of the others more than six
    assert (box["largest"], box["largest_from"], box["largest_group"], box["larger_groups"]) == (
        6,
        "sizes",
        7,
        27,
    )
    mine = told[found.rule]
    assert found.rule == "laps((4, 2, 2, 2, 2))"
    assert mine[:2] == (2681, 5)
    assert all(mine[0] - mine[1] > told[name][0] - told[name][1] for name in OTHERS)
    walked = found.certificate.select("rule", pl.col("p_value").round(4), "certified").rows()
    assert walked[0] == ("laps((4, 3, 2))", 0.0396, True)
    assert [row[2] for row in walked] == [True] * 4 + [False] * 2


@pytest.mark.slow
def test_with_the_largest_group_as_bound_the_first_rule_fails_by_a_little(lake):
    """M = 7: of the whole chain the first rule has p 0.0615, and nothing after it is tested; 92 groups are missing."""
    found = by_share(lake, largest=7)
    first = found.certificate.row(0, named=True)
    assert (first["rule"], round(first["p_value"], 4), first["more_groups"]) == (
        "laps((4, 3, 2))",
        0.0615,
        92,
    )
    assert found.certificate["tested"].to_list() == [True] + [False] * 5
    assert (found.status, found.profile["profile"]["more_groups"]) == ("PROVISIONAL", 92)


@pytest.mark.slow
def test_a_fifth_that_explores_is_too_much_here(lake):
    """Explore begins where looser rules looked safest, and 987 groups can not certify 9 false alarms of 2,277."""
    found = by_share(lake, shares=(0.2, 0.8, 0.0))
    assert found.status == "PROVISIONAL"
    assert found.profile["profile"]["chain_from"] == "explore"
    assert found.certificate["groups"][0] == 987


@pytest.mark.slow
def test_one_rule_named_beforehand_is_tested_alone(lake):
    """The whole chance of error is its own."""
    found = by_share(lake, only=["laps(4, 2, 2, 2, 2)"], largest=7)
    assert found.certificate.height == 1
    assert round(found.certificate["p_value"][0], 4) == 0.0486
    assert found.profile["profile"]["chain_from"] == "given beforehand"
