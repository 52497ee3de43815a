"""Handoffs and claims of real exports: the counts that are known."""

from __future__ import annotations

import polars as pl

from agentlens.detect.claims import claims, cues
from agentlens.detect.handoffs import handoffs
from agentlens.detect.inferred import inferred_receipts
from agentlens.lake import read_file
from agentlens.normalise.digest import Key
from agentlens.normalise.rows import Normaliser
from agentlens.normalise.tables import Tables


def events(folder):
    return read_file(folder, Normaliser(key=Key.public_demo(), tables=Tables.load())).events.collect().lazy()


def test_dispatches_of_magentic_one(shared):
    """Of 277 dispatches 15, in 8 runs, get no reply from the addressee before the next dispatch."""
    told = handoffs(inferred_receipts(events(shared / "traces" / "magentic-one" / "runs"))).collect()
    silent = told.filter(~pl.col("accepted"))
    assert (told.height, silent.height, silent["run_id"].n_unique()) == (277, 15, 8)
    assert set(silent["reason"]) == {"never_accepted"}
    assert told["inferred"].all()


def test_claims_of_terminal_bench_claude_code(shared):
    """Of 45 claims with a known outcome 34 are false; all 9 without a tool call are. One more claim has no outcome."""
    told = claims(events(shared / "traces" / "terminal-bench-claude-code")).collect()
    success = told.filter(pl.col("claimed") == "success")
    assert (success.height, success["false_success"].count(), success["false_success"].sum()) == (46, 45, 34)
    unknown = success.filter(pl.col("outcome") == "unknown")["run_id"]
    assert unknown.len() == 1
    table = {row["cue"]: row for row in cues(told).iter_rows(named=True)}
    assert [table["no_tool_call"][name] for name in ("flagged", "labelled", "false")] == [9, 9, 9]


def test_outcomes_of_terminal_bench_kimi(shared):
    """Of 49 trials 33 are verified (1 passed, 32 failed); of 16 the tests could not run and nothing is known."""
    told = claims(events(shared / "traces" / "terminal-bench-kimi")).collect()
    assert dict(told.group_by("outcome").len().iter_rows()) == {"passed": 1, "failed": 32, "unknown": 16}
    assert told.filter(pl.col("claimed") == "success").height == 46
