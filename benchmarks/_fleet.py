"""A large seeded fleet as an event table: loops, retries, leases and unknowns in known shares."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from agentlens.model.event import EVENTS

if TYPE_CHECKING:
    from pathlib import Path

EVENTS_A_RUN = 200
RUNS = 50_000
RUNS_A_FILE = 5_000
ODD_SHARE = 10
"""One run in so many carries leases, retries and unknown values."""

_TOOLS = np.array(["search", "read", "edit", "run_tests", "shell", "fetch"])
_BEGAN = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1_000_000)


def write(folder: Path, scale: float, seed: int = 7) -> None:
    """Write the fleet as Parquet files of whole runs, sorted by lane and seq, as a lake keeps them."""
    runs = max(ODD_SHARE, round(RUNS * scale))
    folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, runs, RUNS_A_FILE)):
        part = _part(seed, first, min(first + RUNS_A_FILE, runs))
        part.write_parquet(folder / f"bucket-{number:03d}.parquet", row_group_size=100_000)


def _part(seed: int, first: int, last: int) -> pl.DataFrame:
    rng = np.random.default_rng([seed, first])
    runs = np.arange(first, last)
    count = len(runs) * EVENTS_A_RUN
    run, step = np.repeat(runs, EVENTS_A_RUN), np.tile(np.arange(EVENTS_A_RUN), len(runs))
    action, result = _behaviour(rng, len(runs))
    odd = (run % ODD_SHARE) == 0
    failing = odd & (step % 40 >= 30) & (step % 40 < 34)
    waiting = odd & (step % 50 >= 5) & (step % 50 < 12)
    action = np.where(failing, 9_000 + run % 100, np.where(waiting, 9_200 + run % 100, action))
    result = np.where(failing | waiting, 9_500, result)
    words = pl.Series([f"{a:016x}{b:016x}" for a, b in rng.integers(0, 2**62, (10_000, 2)).tolist()])
    at = _BEGAN + run.astype(np.int64) * 1_000 + step.astype(np.int64) * 5_000_000
    at = at + np.where(failing, (2 ** (step % 40 - 30).clip(0, 3)) * 2_000_000, 0)
    unknown = odd & (rng.random(count) < 0.05)
    unnamed = odd & (rng.random(count) < 0.02)
    policy = {"errors": ["rate_limit"], "interval_s": 2.0, "max_attempts": 4, "backoff_rate": 2.0}
    lease = {"owner": "ops", "waits_on": "approval"}
    frame = pl.DataFrame(
        {
            "run_id": pl.Series([f"run-{n:08d}-{n * 2654435761 % 2**32:08x}" for n in runs.tolist()]).gather(
                run - first
            ),
            "seq": step.astype(np.int64),
            "at": at,
            "tool": pl.Series(_TOOLS).gather(action % len(_TOOLS)),
            "action_signature": words.gather(action),
            "progress_fingerprint": words.gather(result),
            "_failing": failing,
            "_waiting": waiting,
            "_unknown": unknown,
            "_unnamed": unnamed,
        }
    )
    return (
        frame.with_columns(
            pl.lit("").alias("agent"),
            pl.lit("tool").alias("kind"),
            pl.col("at").cast(EVENTS["at"]),
            pl.when(~pl.col("_unnamed")).then("action_signature").alias("action_signature"),
            pl.when(~pl.col("_unknown")).then("progress_fingerprint").alias("progress_fingerprint"),
            pl.when("_failing").then(pl.lit("rate_limit")).alias("error_class"),
            _record("_failing", policy, "retry_policy"),
            _record("_waiting", lease, "lease"),
            *(pl.lit("v1").alias(name) for name in ("normaliser_version", "fingerprint_version", "key_id")),
        )
        .with_columns(
            pl.when("_waiting")
            .then(pl.col("lease").struct.with_fields(deadline=pl.col("at") + pl.duration(hours=1)))
            .cast(EVENTS["lease"])
            .alias("lease")
        )
        .with_columns(pl.lit(None, dtype=t).alias(n) for n, t in EVENTS.items() if n in _ABSENT)
        .select(name for name in EVENTS if name not in _LEFT_OUT)
    )


_ABSENT = (
    "ended_at",
    "workflow",
    "external_input",
    "milestone",
    "attempt",
    "reachable",
    "hard_failure",
    "pause",
)
_LEFT_OUT = frozenset(EVENTS) - frozenset(
    (
        *_ABSENT,
        *(
            "run_id",
            "agent",
            "seq",
            "at",
            "kind",
            "tool",
            "action_signature",
            "progress_fingerprint",
            "error_class",
        ),
        *("retry_policy", "lease", "normaliser_version", "fingerprint_version", "key_id"),
    )
)


def _record(flag: str, facts: dict[str, object], name: str) -> pl.Expr:
    dtype = EVENTS[name]
    assert isinstance(dtype, pl.Struct)
    full = {field.name: facts.get(field.name) for field in dtype.fields}
    return pl.when(flag).then(pl.lit(pl.Series([full], dtype=dtype)).first()).alias(name)


def _behaviour(rng: np.random.Generator, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Actions and results: mostly fresh ones, with loops of period one to three in a fifth of the runs."""
    shape = (runs, EVENTS_A_RUN)
    action = rng.integers(0, 400, shape)
    result = rng.integers(0, 2_000, shape)
    looping = rng.random(runs) < 0.2
    period = rng.integers(1, 4, runs)
    onset = rng.integers(5, EVENTS_A_RUN - 30, runs)
    length = rng.integers(8, 25, runs)
    for i in np.flatnonzero(looping).tolist():
        begin, p = int(onset[i]), int(period[i])
        place = begin + np.arange(int(length[i])) % p
        stretch = slice(begin, begin + int(length[i]))
        action[i, stretch], result[i, stretch] = action[i, place], result[i, place]
    return action.ravel(), result.ravel()
