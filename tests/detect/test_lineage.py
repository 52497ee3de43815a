"""Forks that traces suggest beside branches that were written: what closes a cycle, and who is refused."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.detect.resets import resets
from tests.detect.test_resets import typed


def seen_in_trace(branch, parent):
    """A fork that a trace suggests."""
    one = {"branch_id": branch, "parent_id": parent, "fork_point": "c1"}
    return typed(one).with_columns(inferred=pl.lit(value=True))


def test_a_fork_that_a_trace_suggests_closes_no_cycle_with_receipts():
    """It is refused and says why; the branches that were written keep their lineage, and those below them too."""
    told = pl.concat(
        [
            typed(
                {"branch_id": "b", "parent_id": "a", "fork_point": "c1"},
                {"branch_id": "d", "parent_id": "b", "fork_point": "c1"},
            ),
            seen_in_trace("a", "b"),
        ]
    )
    rows = resets(told).select("branch_id", "gate_1", "reason_1", "family", "depth").collect().rows()
    assert rows == [
        ("a", "fail", "cycle_with_receipt", "a", 0),
        ("b", "pass", None, "a", 1),
        ("d", "pass", None, "a", 2),
    ]


@pytest.mark.parametrize(
    "make", [seen_in_trace, lambda b, p: typed({"branch_id": b, "parent_id": p, "fork_point": "c1"})]
)
def test_a_cycle_of_one_kind_is_a_cycle(make):
    """Forks that only traces suggest, or only receipts tell, contradict each other: all of them fail."""
    rows = resets(pl.concat([make("a", "b"), make("b", "a")])).select("reason_1", "family").collect().rows()
    assert rows == [("cycle", "a"), ("cycle", "a")]
