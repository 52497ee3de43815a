"""Fixes that a calibration prices: of the rule, of polled tools and of retry policies."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from agentlens.calibrate.calibrate import Plan, calibrate_loops
from agentlens.calibrate.counterfactual import COUNTERFACTUALS, counterfactuals
from agentlens.calibrate.recommend import Goal
from tests.calibrate.small import labels, lane, lanes


def fixes():
    """Thirty tasks in turn: work, a healthy poll, a healthy retry, a loop of another tool, one of the polled tool."""
    frames, rows = [], []
    for n in range(30):
        kind = "wprsq"[n % 5]
        actions = {"w": "abcdefg", "p": "abppppc", "r": "abrrrrc", "s": "abssssssss", "q": "abpppppppp"}[kind]
        tool = {"p": "poll", "q": "poll", "r": "fetch"}.get(kind, "edit")
        error = "rate_limit" if kind == "r" else None
        frame = lane(f"r{n:02d}", actions, at=1000 * n).with_columns(
            tool=pl.when(pl.col("action_signature").is_in(["p", "r", "s"]))
            .then(pl.lit(tool))
            .otherwise(pl.lit("read")),
            error_class=pl.when(pl.col("action_signature") == "r").then(pl.lit(error, dtype=pl.String)),
        )
        frames.append(frame)
        label = "incident" if kind in "sq" else "healthy"
        rows.append({"run_id": f"r{n:02d}", "scope": "run", "label": label, "task_group": f"t{n}"})
    events = lanes(*frames)
    found = calibrate_loops([events.lazy()], labels(*rows), Plan(goal=Goal(), grid=False))
    found = replace(found, answer=replace(found.answer, cell=None))  # those of the incumbent are looked at
    return found, counterfactuals(found, [events.lazy()])


def test_every_kind_of_fix_is_priced():
    """The retry policy is free; the exempt tool loses the loop of that tool; a threshold clears both for nothing."""
    found, told = fixes()
    assert told.schema == COUNTERFACTUALS
    assert set(told["kind"]) == {"threshold", "exemption", "retry"}
    kept = found.board.in_splits(["explore", "certify"])
    runs = found.board.runs.filter(pl.Series(kept))["run_id"].str.slice(1).cast(pl.Int64) % 5
    retried, polled, looped = ((runs == n).sum() for n in (2, 1, 4))
    retry = told.filter(pl.col("kind") == "retry").row(0, named=True)
    assert retry["fix"] == "a retry policy of fetch: 4 attempts on rate_limit"
    assert (retry["false_alerts_cleared"], retry["suggested_by"]) == (retried, retried)
    assert retry["incidents_lost"] == 0
    exempt = told.filter(pl.col("fix").str.contains("equal results of poll ")).row(0, named=True)
    assert (exempt["false_alerts_cleared"], exempt["incidents_lost"]) == (polled, looped)
    raised = told.filter(pl.col("fix") == "T_1 = 5").row(0, named=True)
    assert (raised["false_alerts_cleared"], raised["incidents_lost"]) == (retried + polled, 0)
    assert told["incidents_lost"].is_sorted()
