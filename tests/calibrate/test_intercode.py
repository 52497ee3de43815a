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


@pytest.mark.slow
def test_all_runs_reproduce_the_baselines_and_name_a_rule_that_raises_more(shared, tmp_path):
    """7,201 runs: the four rows; with M the largest group none is certified, and the rule named raises more than each."""
    ingest(
        shared / "traces" / "intercode",
        into=tmp_path / "lake",
        sql="intercode",
        normaliser=NORMALISER,
        workers=1,
    )
    found = calibrate(tmp_path / "lake", labels="weak", objective="share", max_fpr=0.01)
    told = counts(found)
    assert told["laps((4, 3, 2))"] == (2514, 5, 5.15)
    assert told["same_call(3)"] == (2399, 11, 4.1)
    assert told["openhands"] == (2377, 5, 5.05)
    # on raw text 2,041: one pair of commands differs in outer white space alone
    assert told["gemini_cli"] == (2042, 5, 5.63)
    # 987 groups certify where explore said to begin: too few for 9 false alarms of 2,277
    assert found.status == "PROVISIONAL"
    box = found.profile["profile"]
    assert (box["largest"], box["dropped_runs"], box["chain_from"]) == (7, 0, "explore")
    assert box["p_value"] > 0.05
    assert box["more_groups"] > 0
    mine = told[found.rule]
    others = ("laps((4, 3, 2))", "same_call(3)", "openhands", "gemini_cli")
    assert all(mine[0] - mine[1] > told[name][0] - told[name][1] for name in others)
    # of the whole chain, fixed beforehand, the first rule fails by a little, and nothing after it is tested
    whole = calibrate(
        tmp_path / "lake", labels="weak", objective="share", max_fpr=0.01, shares=(0.0, 1.0, 0.0)
    )
    first = whole.certificate.row(0, named=True)
    assert (first["rule"], round(first["p_value"], 4), first["more_groups"]) == (
        "laps((4, 3, 2))",
        0.0615,
        92,
    )
    assert (whole.status, whole.profile["profile"]["more_groups"]) == ("PROVISIONAL", 92)
