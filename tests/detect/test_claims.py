"""Claims against outcomes, and the cues that need no outcome."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.detect.claims import CLAIMS, CUES, claims, cues
from agentlens.model.event import EVENTS

CLAIM = {"kind": "claim", "target": "success"}
PASSED, FAILED, UNCLEAR = (
    {"kind": "verdict", "outcome": outcome} for outcome in ("passed", "failed", "unknown")
)
CALL, CHANGE, CHECK = {}, {"change": True}, {"check": True}


def run(*rows, run_id="r"):
    full = [
        {"run_id": run_id, "agent": "", "seq": at, "kind": "tool", "tool": "t", **row}
        for at, row in enumerate(rows)
    ]
    return pl.DataFrame(full, schema=EVENTS)


def told(*rows):
    return claims(run(*rows).lazy()).collect().row(0, named=True)


@pytest.mark.parametrize(
    ("rows", "claimed", "outcome", "false"),
    [
        ([CALL, CLAIM, PASSED], "success", "passed", False),
        ([CALL, CLAIM, FAILED], "success", "failed", True),
        ([CALL, CLAIM, UNCLEAR], "success", "unknown", None),
        ([CALL, CLAIM], "success", None, None),
        ([CALL, FAILED], None, "failed", None),
        ([{"kind": "claim", "target": "failure"}, FAILED], "failure", "failed", None),
        ([{"kind": "claim", "target": "failure"}, CLAIM, FAILED], "success", "failed", True),
        ([CLAIM, PASSED, FAILED], "success", "failed", True),
    ],
)
def test_claim_and_outcome_stand_side_by_side(rows, claimed, outcome, false):
    """A false success needs both a claim of success and a failed outcome; unknown stays unknown."""
    row = told(*rows)
    assert (row["claimed"], row["outcome"], row["false_success"]) == (claimed, outcome, false)


@pytest.mark.parametrize(
    ("rows", "no_call", "unchecked"),
    [
        ([CLAIM], True, None),
        ([CALL, CLAIM], False, None),
        ([CHANGE, CLAIM], False, True),
        ([CHANGE, CHECK, CLAIM], False, False),
        ([CHECK, CHANGE, CLAIM], False, True),
        ([CHANGE, CHECK, CHANGE], False, True),
        ([{"kind": "model"}, CLAIM], True, None),
    ],
)
def test_cues_look_at_what_was_done(rows, no_call, unchecked):
    """No tool call at all; no check after the last change, where there was a change."""
    row = told(*rows)
    assert (row["no_tool_call"], row["no_check_after_change"]) == (no_call, unchecked)


def test_each_cue_has_its_count_precision_and_exact_interval():
    """Precision counts labelled runs only; the interval is that of Clopper and Pearson."""
    runs = [run(CLAIM, FAILED, run_id=f"a{n}") for n in range(9)]
    runs += [run(CHANGE, CLAIM, PASSED, run_id=f"b{n}") for n in range(2)]
    runs += [run(CHANGE, CLAIM, run_id="c"), run(CALL, FAILED, run_id="d")]
    table = cues(claims(pl.concat(runs).lazy()).collect())
    assert table.schema == CUES
    assert table.select("cue", "claims", "flagged", "labelled", "false").rows() == [
        ("claim", 12, 12, 11, 9),
        ("no_tool_call", 12, 9, 9, 9),
        ("no_check_after_change", 12, 3, 2, 0),
    ]
    assert table["precision"].to_list() == [9 / 11, 1.0, 0.0]
    assert table["low"][1] == pytest.approx(0.025 ** (1 / 9))
    assert table["high"][2] == pytest.approx(1 - 0.025 ** (1 / 2))


def test_nothing_claimed_gives_counts_of_zero_and_no_rate():
    """Undefined is null with its count beside it."""
    table = cues(claims(run(CALL).lazy()).collect())
    assert table.row(0) == ("claim", 0, 0, 0, 0, None, None, None)
    assert claims(pl.LazyFrame(schema=EVENTS)).collect().schema == CLAIMS
