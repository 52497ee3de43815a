"""A large seeded fleet as an event table: loops, retries, leases and unknowns in known shares."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

import numpy as np
import polars as pl

from agentlens.model.event import EVENTS

SHORTEST = 40
"""Shorter runs hold no loop."""
WORDS = 300_000
"""Distinct digests there are."""
ODD_SHARE = 10
"""One run in so many carries leases, retries and unknown values."""

_TOOLS = np.array(["search", "read", "edit", "run_tests", "shell", "fetch"])
_BEGAN = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1_000_000)


def frame(rng: np.random.Generator, first: int, lengths: np.ndarray) -> pl.DataFrame:
    """Return runs of these lengths, numbered from ``first``, sorted by lane and seq as a lake keeps them."""
    runs = first + np.arange(len(lengths))
    run, begins = np.repeat(runs, lengths), np.repeat(np.cumsum(lengths) - lengths, lengths)
    step = np.arange(len(run)) - begins
    action, result = _behaviour(rng, lengths)
    odd = (run % ODD_SHARE) == 0
    failing = odd & (step % 40 >= 30) & (step % 40 < 34)
    waiting = odd & (step % 50 >= 5) & (step % 50 < 12)
    action = np.where(failing, 9_000 + run % 100, np.where(waiting, 9_200 + run % 100, action))
    result = np.where(failing | waiting, 9_500, result)
    words = _words()
    at = _BEGAN + run.astype(np.int64) * 1_000 + step.astype(np.int64) * 5_000_000
    at = at + np.where(failing, (2 ** (step % 40 - 30).clip(0, 3)) * 2_000_000, 0)
    names = pl.Series([f"run-{n:010d}-{n * 2654435761 % 2**32:08x}" for n in runs.tolist()])
    told = pl.DataFrame(
        {
            "run_id": names.gather(run - first),
            "seq": step.astype(np.int64),
            "at": at,
            "ended_at": at + 1_500_000,
            "tool": pl.Series(_TOOLS).gather(action % len(_TOOLS)),
            "action_signature": words.gather(action),
            "progress_fingerprint": words.gather(result),
            "_failing": failing,
            "_waiting": waiting,
            "_unknown": odd & (rng.random(len(run)) < 0.05),
            "_unnamed": odd & (rng.random(len(run)) < 0.02),
        }
    )
    return _typed(told)


@cache
def _words() -> pl.Series:
    """Digests; more of those of results than a Parquet dictionary holds, as in life."""
    drawn = np.random.default_rng(WORDS).integers(0, 2**62, (WORDS, 2))
    return pl.Series([f"{a:016x}{b:016x}" for a, b in drawn.tolist()])


def _typed(told: pl.DataFrame) -> pl.DataFrame:
    policy = {"errors": ["rate_limit"], "interval_s": 2.0, "max_attempts": 4, "backoff_rate": 2.0}
    lease = {"owner": "ops", "waits_on": "approval"}
    made = told.with_columns(
        pl.lit("").alias("agent"),
        pl.lit("tool").alias("kind"),
        pl.col("at").cast(EVENTS["at"]),
        pl.col("ended_at").cast(EVENTS["ended_at"]),
        pl.when(~pl.col("_unnamed")).then("action_signature").alias("action_signature"),
        pl.when(~pl.col("_unknown")).then("progress_fingerprint").alias("progress_fingerprint"),
        pl.when("_failing").then(pl.lit("rate_limit")).alias("error_class"),
        _record("_failing", policy, "retry_policy"),
        _record("_waiting", lease, "lease"),
        *(pl.lit("v1").alias(name) for name in ("normaliser_version", "fingerprint_version", "key_id")),
    ).with_columns(
        pl.when("_waiting")
        .then(pl.col("lease").struct.with_fields(deadline=pl.col("at") + pl.duration(hours=1)))
        .cast(EVENTS["lease"])
        .alias("lease")
    )
    return made.select(name for name in EVENTS if name in made.columns)


def _record(flag: str, facts: dict[str, object], name: str) -> pl.Expr:
    dtype = EVENTS[name]
    assert isinstance(dtype, pl.Struct)
    full = {field.name: facts.get(field.name) for field in dtype.fields}
    return pl.when(flag).then(pl.lit(pl.Series([full], dtype=dtype)).first()).alias(name)


def _behaviour(rng: np.random.Generator, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Actions and results: mostly fresh ones, with loops of period one to three in a fifth of the runs."""
    count, begins = int(lengths.sum()), np.cumsum(lengths) - lengths
    action, result = rng.integers(0, 400, count), rng.integers(10_000, WORDS, count)
    looping = (rng.random(len(lengths)) < 0.2) & (lengths > SHORTEST)
    period = rng.integers(1, 4, len(lengths))
    stretch = rng.integers(8, 25, len(lengths))
    for i in np.flatnonzero(looping).tolist():
        onset = int(begins[i]) + int(rng.integers(5, lengths[i] - 25))
        place = onset + np.arange(int(stretch[i])) % period[i]
        inside = slice(onset, onset + int(stretch[i]))
        action[inside], result[inside] = action[place], result[place]
    return action, result
