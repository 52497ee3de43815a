"""Two exports of one run: each action is counted once, and none is lost because the other is better."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.lake import Lake, ingest
from agentlens.normalise.assemble import assembled
from tests.lake.exports import NORMALISER
from tests.normalise.test_assemble import at, records

A = {"reader": "atif", "reader_rank": 60, "source_id": "a"}
S = {"reader": "stream", "source_id": "s"}
T = {"reader": "third", "reader_rank": 40, "source_id": "t"}


def told(lane: str, signatures: str, **reader: object) -> list[dict]:
    """One action a letter, in a lane."""
    return [{**reader, "agent": lane, "action_signature": letter} for letter in signatures]


def lanes(*rows: dict) -> tuple[dict[tuple[str, str], str], dict[str, int]]:
    """What stands of each reader and lane, as letters; and what of each source is left out."""
    out = assembled(records(*rows).collect())
    kept: dict[tuple[str, str], str] = {}
    for reader, lane, signature in out.events.select("reader", "agent", "action_signature").rows():
        kept[reader, lane] = kept.get((reader, lane), "") + (signature or "-")
    return kept, dict(out.elsewhere.iter_rows())


def test_a_lane_that_only_the_other_export_has_keeps_its_actions():
    """The common lane comes from the better reader, the sub-agent from the one that tells it."""
    kept, elsewhere = lanes(*told("", "abc", **A), *told("", "abc", **S), *told("sub", "xyx", **S))
    assert kept == {("atif", ""): "abc", ("stream", "sub"): "xyx"}
    assert elsewhere == {"s": 3}


def test_a_sub_agent_may_do_what_its_parent_did():
    """The same call in both lanes is two calls where both exports tell the parent's."""
    kept, _ = lanes(*told("", "aab", **A), *told("", "aab", **S), *told("sub", "aab", **S))
    assert kept == {("atif", ""): "aab", ("stream", "sub"): "aab"}


@pytest.mark.parametrize("missing", ["abxyz", "abxy"])
def test_a_lane_told_inside_its_parents_is_not_counted_twice(missing):
    """An export that has no lanes tells a sub-agent's actions among the parent's."""
    kept, elsewhere = lanes(*told("", missing, **A), *told("", "ab", **S), *told("sub", "xyz", **S))
    assert kept == {("atif", ""): missing}
    assert elsewhere == {"s": 5}


def test_a_lane_told_under_another_name_is_not_counted_twice():
    """Names of sub-agents may differ between exports; their actions do not."""
    kept, _ = lanes(
        *told("", "ab", **A), *told("n1", "xyz", **A), *told("", "ab", **S), *told("n2", "xyw", **S)
    )
    assert kept == {("atif", ""): "ab", ("atif", "n1"): "xyz"}


def test_without_a_common_lane_the_better_export_stands_alone():
    """Where no name is the same nothing says which lane is which: the choice is for the whole run."""
    kept, elsewhere = lanes(*told("main", "ab", **A), *told("", "cd", **S), *told("sub", "x", **S))
    assert kept == {("atif", "main"): "ab"}
    assert elsewhere == {"s": 3}


def test_only_one_more_export_adds_lanes():
    """The lanes of a third may be those of the second under other names."""
    kept, elsewhere = lanes(
        *told("", "a", **A),
        *told("", "a", **S),
        *told("sub", "x", **S),
        *told("", "a", **T),
        *told("bus", "x", **T),
    )
    assert kept == {("atif", ""): "a", ("stream", "sub"): "x"}
    assert elsewhere == {"s": 1, "t": 2}


def test_an_untold_lane_keeps_its_model_calls():
    """Tokens of a sub-agent that one export tells are not lost to the other's."""
    call = {"kind": "model", "tokens_in": 5}
    kept, elsewhere = lanes(
        *told("", "a", **A),
        {**A, **call},
        *told("", "a", **S),
        {**S, **call},
        *told("sub", "x", **S),
        {**S, **call, "agent": "sub"},
    )
    assert kept == {("atif", ""): "a-", ("stream", "sub"): "x-"}
    assert elsewhere == {"s": 2}


def test_an_export_that_only_waits_does_not_hide_actions():
    """A better reader with a wait and no action leaves the other's actions standing."""
    kept, _ = lanes({**A, "kind": "wait", "at": at(0)}, *told("", "ab", **S))
    assert kept == {("stream", ""): "ab"}


def test_runs_do_not_mix():
    """Another run's lanes say nothing about this one's."""
    other = [{**row, "run_id": "q"} for row in told("sub", "xyz", **A)]
    kept, _ = lanes(*told("", "a", **A), *told("", "a", **S), *told("sub", "xyz", **S), *other)
    assert kept == {("atif", ""): "a", ("stream", "sub"): "xyz", ("atif", "sub"): "xyz"}


def test_a_real_run_with_two_exports_keeps_its_sub_agent(shared, tmp_path):
    """The step file has no sub-agents: their eight calls come from the stream, the 26 others once."""
    folder = shared / "traces" / "terminal-bench-kimi" / "mteb-leaderboard__HXSehEN"
    report = ingest(folder, tmp_path / "lake", normaliser=NORMALISER)
    actions = (
        Lake.open(tmp_path / "lake").events().filter(pl.col("kind").is_in(["tool", "handoff"])).collect()
    )
    assert actions.group_by("reader", "agent").len().sort("reader").rows() == [
        ("atif", "", 26),
        ("claude-stream", "general-purpose", 8),
    ]
    assert report.elsewhere >= 26
    assert Lake.open(tmp_path / "lake").sources()["elsewhere"].sum() == report.elsewhere
