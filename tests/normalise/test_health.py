"""Warnings about signatures and evidence, per tool."""

from __future__ import annotations

import polars as pl

from agentlens.model.event import EVENTS
from agentlens.normalise.health import COUNTS, WARNINGS, health, tool_counts


def events(*rows):
    base = {"run_id": "r", "agent": "", "kind": "tool", "tool": "t", "at": 0}
    full = [{**base, "seq": n, **row} for n, row in enumerate(rows)]
    frame = pl.DataFrame(full, infer_schema_length=None)
    missing = [pl.lit(None).alias(name) for name in EVENTS if name not in frame.columns]
    return frame.with_columns(missing).select(pl.col(n).cast(t) for n, t in EVENTS.items()).lazy()


def reasons(*rows, **settings):
    return health(events(*rows), **settings).collect().select("tool", "reason", "counted", "of").rows()


def test_schemas():
    """Counts and warnings have their documented columns, for no events too."""
    empty = pl.LazyFrame(schema=EVENTS)
    assert tool_counts(empty).collect().schema == COUNTS
    assert health(empty).collect().schema == WARNINGS
    assert health(empty).collect().is_empty()


def test_counts_per_tool():
    """Pairs are equal calls of one lane with known evidence; messages are not counted."""
    rows = (
        {"action_signature": "a", "progress_fingerprint": "1"},
        {"action_signature": "a", "progress_fingerprint": "1"},
        {"action_signature": "b", "progress_fingerprint": "1"},
        {"action_signature": "a", "progress_fingerprint": "2", "error_class": "e"},
        {"action_signature": None, "progress_fingerprint": None, "at": None},
        {"action_signature": "a", "progress_fingerprint": "2", "agent": "other"},
        {"kind": "message"},
    )
    (row,) = tool_counts(events(*rows)).collect().to_dicts()
    assert row == {
        "tool": "t", "events": 6, "runs": 1, "signatures": 5, "distinct_signatures": 2, "fingerprints": 5,
        "distinct_fingerprints": 2, "pairs": 2, "pairs_changed": 1, "errors": 1, "policies": 0, "waits": 0,
        "leases": 0, "timed": 5,
    }  # fmt: skip


def test_signatures_that_never_repeat():
    """Twenty different calls and no equal two: probably a volatile argument."""
    rows = [{"action_signature": f"s{n}", "progress_fingerprint": f"f{n}"} for n in range(20)]
    assert reasons(*rows) == [("t", "signatures_never_repeat", 20, 20)]
    assert reasons(*rows[:19]) == []
    assert reasons(*rows, {"action_signature": "s1", "progress_fingerprint": "x"}) == []


def test_evidence_that_always_changes():
    """Ten repetitions and never the same result: probably a clock."""
    rows = [{"action_signature": "s", "progress_fingerprint": f"f{n}"} for n in range(11)]
    assert reasons(*rows) == [("t", "evidence_always_changes", 10, 10)]
    assert reasons(*rows, rows[-1]) == []


def test_evidence_that_never_changes():
    """Different calls, always the same answer: it does not show progress."""
    rows = [{"action_signature": f"s{n % 3}", "progress_fingerprint": "ok"} for n in range(20)]
    assert reasons(*rows) == [("t", "evidence_never_changes", 20, 20)]


def test_missing_facts():
    """From a fifth on, missing signatures, fingerprints and times are said with their counts."""
    rows = [{"action_signature": "s", "progress_fingerprint": "f"}] * 4 + [{"at": None}]
    assert reasons(*rows) == [
        ("t", "fingerprints_missing", 1, 5),
        ("t", "signatures_missing", 1, 5),
        ("t", "times_missing", 1, 5),
    ]
    assert reasons(*rows, rows[0]) == []


def test_coverage_of_policies_and_leases():
    """Failures without a retry policy and waits without a lease are said; one that is declared is enough."""
    failed = {"action_signature": "s", "progress_fingerprint": "f", "error_class": "timeout"}
    waits = {"action_signature": "s", "progress_fingerprint": "f", "pause": True, "tool": "sleep"}
    assert reasons(failed, waits) == [
        ("sleep", "waits_without_lease", 1, 1),
        ("t", "errors_without_policy", 1, 1),
    ]
    assert reasons({**failed, "retry_policy": {"max_attempts": 2}}, {**waits, "lease": {"owner": "a"}}) == []
