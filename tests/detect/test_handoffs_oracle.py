"""The engine against the literal rules, and the invariances that receipts promise."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlens.detect.handoff_limits import HandoffLimits
from agentlens.detect.handoffs import handoffs
from agentlens.detect.operations import operations
from agentlens.model.raw import RawReceipt
from agentlens.model.receipt import receipts_frame
from tests.oracle.handoffs import LIFECYCLE, judge

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LIMITS = HandoffLimits(
    ack_limit_s=20,
    ack_limits={"page": 5},
    evidence_window_s=40,
    verification_limit_s=10,
    clock_skew_s=3,
    wait_limit_s=60,
)
PLAIN = {"ack": 20, "ack_by_urgency": {"page": 5}, "window": 40, "verification": 10, "skew": 3, "wait": 60}
FINAL = ("verified", "failed_outcome", "rejected", "cancelled")


def frame(receipts):
    typed = receipts_frame([RawReceipt(fields=dict(r)) for r in receipts], source="r")
    assert typed.faults == []
    return typed.frame


def states(receipts, as_of=None, limits=LIMITS):
    moment = None if as_of is None else EPOCH + timedelta(seconds=as_of)
    return handoffs(frame(receipts).lazy(), limits, as_of=moment).collect()


def receipt(rng: random.Random, operation: int, attempt: int) -> dict:
    event = rng.choice([*LIFECYCLE, "delegated", "accepted"])
    found = {
        "operation_id": f"op{operation}",
        "handoff_id": f"op{operation}/{attempt}",
        "event": rng.choice([event] * 30 + ["odd"]),
        "at": rng.randrange(120),
        "author": "lead" if event == "delegated" else rng.choice(["worker"] * 8 + ["other"]),
        "expected_artifact": rng.choice(["a"] * 30 + ["b"]),
    }
    if event == "delegated":
        found["recipient"] = rng.choice(["worker"] * 8 + ["other", None, None])
        found["urgency"] = rng.choice([None, None, "page", "batch"])
    if event == "waiting":
        found["owner"] = rng.choice([None, "boss", ""])
        found["reason"] = rng.choice([None, None, "approval"])
        found["deadline"] = rng.choice([None, rng.randrange(160)])
    if event == "outcome_verified":
        found["outcome"] = rng.choice(["passed", "failed", "unknown", None])
    return found


def in_order(rng: random.Random, operation: int) -> list[dict]:
    """A handoff whose receipts mostly come in the order of life, so that the later rules are reached."""
    at, found = rng.randrange(40), []
    for event in LIFECYCLE[: rng.randrange(1, 7)] + rng.choice([[], [], ["rejected"], ["cancelled"]]):
        if found and rng.random() < 0.25:
            continue
        one = receipt(rng, operation, 1)
        one |= {
            "event": event,
            "at": at,
            "author": "lead" if event == "delegated" else "worker",
            "expected_artifact": "a",
        }
        one |= {"outcome": rng.choice(["passed", "failed", "unknown"])} if event == "outcome_verified" else {}
        one |= {"recipient": "worker"} if event == "delegated" else {}
        if event == "waiting":
            one |= {
                "owner": rng.choice(["boss", None]),
                "deadline": rng.choice([None, at + rng.randrange(60)]),
            }
        found.append(one)
        at += rng.randrange(25)
    return found


def story(seed: int, size: int = 60) -> list[dict]:
    rng = random.Random(seed)
    found: list[dict] = []
    for operation in range(size):
        if rng.random() < 0.5:
            found += in_order(rng, operation)
        else:
            found += [receipt(rng, operation, rng.randrange(2)) for _ in range(rng.randrange(1, 6))]
    rng.shuffle(found)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_engine_and_literal_rules_agree_on_every_handoff(seed):
    """State, reason, acknowledgement and disagreements are those of the rules written out literally."""
    receipts = story(seed, 150)
    for as_of in (None, 30, 75, 200, 100_000):
        told = states(receipts, as_of)
        expected = judge(receipts, PLAIN, as_of)
        assert told.height == len(expected)
        for row in told.iter_rows(named=True):
            right = expected[row["operation_id"], row["handoff_id"]]
            found = {
                "state": row["state"],
                "reason": row["reason"],
                "ack_latency": None if row["ack_latency_us"] is None else row["ack_latency_us"] // 1_000_000,
                "late_ack": row["late_ack"],
                "implied_ack": row["implied_ack"],
                "disagreement": set((row["disagreement"] or "").split(",")) - {""},
            }
            assert found == {name: right[name] for name in found}, (as_of, row["handoff_id"])


def test_random_stories_reach_every_state():
    """The comparison above is worth something: each state and reason occurs in it."""
    told = pl.concat([states(story(seed, 250), as_of) for seed in range(2) for as_of in (30, 75, 200)])
    assert set(told["state"]) == {
        "uncertain", "verified", "failed_outcome", "rejected", "cancelled", "waiting", "orphaned", "delegated", "stuck", "working",
    }  # fmt: skip
    assert set(told["reason"]) >= {
        "verification_failed",
        "never_verified",
        "verification_unknown",
        "no_deadline",
    }


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), order=st.randoms(use_true_random=False))
def test_order_and_duplication_of_receipts_change_nothing(seed, order):
    """Any permutation with any repetitions gives the same table, but for the pointer to the source."""
    receipts = story(seed, 12)
    again = [*receipts, *order.choices(receipts, k=len(receipts) // 2)]
    order.shuffle(again)
    one, other = states(receipts), states(again)
    assert one.drop("source").equals(other.drop("source"))
    assert operations(one.lazy()).collect().equals(operations(other.lazy()).collect())


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), cut=st.integers(0, 100))
def test_splitting_into_files_changes_nothing(seed, cut):
    """Receipts of one handoff may lie in several files, read in any order."""
    receipts = story(seed, 12)
    parts = [frame(receipts[:cut]), frame(receipts[cut:])]
    joined = handoffs(pl.concat(parts[::-1]).lazy(), LIMITS).collect()
    assert joined.drop("source").equals(states(receipts).drop("source"))


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_unrelated_operations_change_nothing(seed):
    """At a fixed moment, receipts of other operations do not move a handoff."""
    receipts = story(seed, 12)
    others = [
        {**r, "operation_id": "x" + r["operation_id"], "handoff_id": "x" + r["handoff_id"]}
        for r in story(seed + 1, 12)
    ]
    alone = states(receipts, 90)
    among = states(receipts + others, 90).filter(~pl.col("operation_id").str.starts_with("x"))
    assert among.drop("source").equals(alone.drop("source"))


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.lists(st.integers(1, 400), min_size=1, max_size=5))
def test_with_no_new_receipt_time_never_undoes_an_end(seed, steps):
    """Moving the moment forward never leaves verified, failed_outcome, rejected or cancelled."""
    receipts = story(seed, 25)
    moment = max(r["at"] for r in receipts)
    before = states(receipts, moment)
    for step in steps:
        moment += step
        after = states(receipts, moment)
        ended = before["state"].is_in(FINAL)
        assert after.filter(ended)["state"].equals(before.filter(ended)["state"])
        before = after
