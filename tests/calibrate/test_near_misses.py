"""Missed incidents that one edit keeps from an alert."""

from __future__ import annotations

import polars as pl

from agentlens.calibrate.near_misses import NEAR_MISSES, near_misses
from agentlens.detect.rules import full_window, laps
from tests.calibrate.small import lane, lanes

MISSED = pl.DataFrame({"rule": ["laps", "laps", "window"], "run_id": ["a", "b", "a"]})


def test_a_round_that_a_stray_step_breaks_is_a_near_miss() -> None:
    """Two laps of a pair, a stray step, two more: three laps would have been needed, and with one edit there are four."""
    events = lanes(lane("a", "wababxababv"), lane("b", "abcdefgh"), lane("c", "ababxabab"))
    found = near_misses(MISSED, [("laps", laps((4, 3)))], [events.lazy()])
    assert found.schema == NEAR_MISSES
    assert found.select("run_id", "period", "exact", "near", "needed", "edit", "edit_seq").rows() == [
        ("a", 2, 4, 8, 6, "inserted", 5)
    ]


def test_a_rule_of_constant_evidence_and_no_misses_give_nothing() -> None:
    """Nothing is claimed where one edit says nothing."""
    events = lanes(lane("a", "ababxabab"))
    rule = full_window(evidence="constant")
    assert near_misses(MISSED, [("window", rule)], [events.lazy()]).is_empty()
    assert near_misses(MISSED.clear(), [("laps", laps())], [events.lazy()]).is_empty()
