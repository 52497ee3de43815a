"""Gaps between signs of work, and the window that all but a share of them stay within."""

from __future__ import annotations

import polars as pl

from agentlens.calibrate.evidence_window import EVIDENCE_WINDOW, PROGRESS_GAPS, evidence_window, progress_gaps

from .told import receipts


def gaps(*rows: tuple[str, str, float], **more: dict) -> list[tuple[int, str]]:
    frame = progress_gaps(receipts(*rows, **more).lazy()).collect()
    assert frame.schema == PROGRESS_GAPS
    return [(us // 1_000_000, ended) for us, ended in frame.select("gap_us", "ended").rows()]


def test_each_sign_ends_a_gap_and_begins_one() -> None:
    """Accepted, progress, completed: two gaps, and none after the completion."""
    rows = [
        ("a", "delegated", 0.0),
        ("a", "accepted", 10.0),
        ("a", "progress", 40.0),
        ("a", "completed", 100.0),
        ("a", "outcome_verified", 190.0),
    ]
    assert gaps(*rows) == [(30, "sign"), (60, "sign")]


def test_the_last_gap_is_cut_by_the_end_of_the_data() -> None:
    """Nothing after the acceptance: silent until the newest receipt of all."""
    assert gaps(("a", "delegated", 0.0), ("a", "accepted", 10.0), ("z", "delegated", 300.0)) == [
        (290, "silent")
    ]


def test_a_declared_wait_is_no_silence() -> None:
    """The wait ends the gap; progress after it begins the next; a wait that ran out begins one by itself."""
    rows = [
        ("a", "delegated", 0.0),
        ("a", "accepted", 0.0),
        ("a", "waiting", 20.0),
        ("a", "progress", 500.0),
        ("a", "completed", 530.0),
    ]
    assert gaps(*rows, waiting={"reason": "quota"}) == [(20, "other"), (30, "sign")]
    assert gaps(*rows, waiting={"reason": "quota", "deadline": 400}) == [
        (20, "other"),
        (100, "sign"),
        (30, "sign"),
    ]


def test_a_repeated_receipt_changes_nothing() -> None:
    """The same progress told twice is one sign."""
    rows = [("a", "delegated", 0.0), ("a", "accepted", 5.0), ("a", "progress", 9.0), ("a", "completed", 20.0)]
    assert gaps(*rows, rows[2]) == gaps(*rows)


def test_the_window_covers_the_gaps_that_end() -> None:
    """Sixty handoffs with two gaps each, 1 to 60 s, and one stalled for a day: a limit near 60 s."""
    rows = []
    for k in range(60):
        name = f"o{k:02d}"
        rows += [(name, "delegated", 0.0), (name, "accepted", 1.0)]
        rows += [(name, "progress", 2.0 + k), (name, "completed", 3.0 + 2 * k)]
    rows += [("x", "delegated", 0.0), ("x", "accepted", 1.0), ("z", "delegated", 86_400.0)]
    found = evidence_window(progress_gaps(receipts(*rows).lazy()).collect())
    assert found.window.schema == EVIDENCE_WINDOW
    row = found.window.row(0, named=True)
    assert (row["handoffs"], row["gaps"], row["signs"], row["silent"]) == (61, 121, 120, 1)
    assert (row["follow_up"], row["method"]) == ("adequate", "cluster_bootstrap")
    assert 55 <= found.settings()["evidence_window_s"] <= 60
    assert row["estimate_us"] == 57_000_000


def test_no_gaps_give_no_window() -> None:
    """Nothing accepted: no setting, and a row that says so."""
    found = evidence_window(progress_gaps(receipts(("a", "delegated", 0.0)).lazy()).collect())
    assert found.settings() == {}
    assert found.window.select("gaps", "note").rows() == [(0, "nothing was acknowledged")]
    assert isinstance(found.gaps, pl.DataFrame)


def test_what_is_missing_is_said_of_signs_of_work() -> None:
    """Few handoffs are too few for any quantile, and the note names what would be needed."""
    steps = (("delegated", 0.0), ("accepted", 1.0), ("completed", 3.0))
    rows = [(f"o{k}", state, at) for k in range(6) for state, at in steps]
    found = evidence_window(progress_gaps(receipts(*rows).lazy()).collect())
    assert found.window["note"].to_list() == ["needs 59 independent signs of work for beta = 0.05, has 6"]
    twice = [("a", "delegated", 0.0), ("a", "accepted", 1.0), ("a", "progress", 2.0), ("a", "completed", 3.0)]
    found = evidence_window(progress_gaps(receipts(*twice).lazy()).collect())
    assert found.window["note"].to_list() == ["needs 20 independent clusters with a sign of work, has 1"]
