"""Streaks whose retry policy changes on the way, against every attempt tried on every policy."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlens.detect.retry_gaps import TOLERANCE_US, kept_by_newest, least_gap_us
from agentlens.model.event import RETRY_POLICY

SECOND = 1_000_000

policies = st.fixed_dictionaries(
    {
        "errors": st.sampled_from([["*"], ["e"], ["e", "f"], None]),
        "interval_s": st.sampled_from([0.0, 0.5, 1.0, 2.0, None]),
        "max_attempts": st.sampled_from([3, 6, 100, None]),
        "backoff_rate": st.sampled_from([0.5, 1.0, 1.5, 2.0, None]),
        "max_delay_s": st.sampled_from([0.5, 3.0, 4.0, None]),
        "jitter": st.sampled_from([0.0, 0.5, 1.0, 1.5, None]),
    }
)
attempts = st.tuples(
    st.sampled_from(["e", "e", "f"]),
    st.integers(1, 9),
    st.sampled_from(
        [None, 0, SECOND // 2, SECOND - 1, SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND, 99 * SECOND]
    ),
    st.none() | policies,
)


def streak(rows, *, in_order):
    """Attempts as the frame that is judged; their numbers as given, or by position."""
    return pl.DataFrame(
        [
            {"error_class": error, "k": at + 1 if in_order else k, "gap_us": gap, "policy": policy}
            for at, (error, k, gap, policy) in enumerate(rows)
        ],
        schema={"error_class": pl.String, "k": pl.Int64, "gap_us": pl.Int64, "policy": RETRY_POLICY},
        orient="row",
    )


def keeps(attempt, policy, *, later):
    """Whether one attempt keeps one policy, as the page says it."""
    if policy is None or policy["errors"] is None or policy["max_attempts"] is None:
        return False
    if "*" not in policy["errors"] and attempt["error_class"] not in policy["errors"]:
        return False
    if attempt["k"] > policy["max_attempts"]:
        return False
    if not later:
        return True
    names = ("interval_s", "backoff_rate", "max_delay_s", "jitter")
    given = [np.array([np.nan if policy[name] is None else policy[name]]) for name in names]
    least = least_gap_us(np.array([float(attempt["k"])]), *given)[0]
    return attempt["gap_us"] is not None and bool(attempt["gap_us"] + TOLERANCE_US >= least)


@settings(max_examples=400, deadline=None)
@given(rows=st.lists(attempts, min_size=1, max_size=9), in_order=st.booleans())
def test_every_attempt_is_judged_by_the_newest_policy(rows, in_order):
    """The exemption stands at an attempt where it and all before it keep its policy."""
    frame = streak(rows, in_order=in_order)
    told = frame.to_dicts()
    right = [
        at > 0 and all(keeps(one, newest["policy"], later=n > 0) for n, one in enumerate(told[: at + 1]))
        for at, newest in enumerate(told)
    ]
    assert kept_by_newest(frame).tolist() == right


def test_a_policy_of_its_own_per_attempt_costs_no_look_back(monkeypatch):
    """Ten thousand policies over ten thousand attempts evaluate a few delays each, not one per attempt before."""
    looked_at = 0

    def counted(k, *rest):
        nonlocal looked_at
        looked_at += len(k)
        return least_gap_us(k, *rest)

    monkeypatch.setattr("agentlens.detect.retry_gaps.least_gap_us", counted)
    count = 10_000
    rows = [
        (
            "e",
            0,
            60 * SECOND,
            {
                "errors": ["e"],
                "interval_s": 1.0,
                "max_attempts": count + at,
                "backoff_rate": 1.0 + at % 2,
                "max_delay_s": 30.0,
                "jitter": None,
            },
        )
        for at in range(count)
    ]
    kept = kept_by_newest(streak(rows, in_order=True))
    assert kept.tolist() == [False] + [True] * (count - 1)
    assert looked_at < 20 * count
