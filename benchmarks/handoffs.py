"""Handoffs at scale: a million receipts against the literal rules in plain Python, in one run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from agentlens.detect.handoffs import handoffs
from agentlens.model.receipt import RECEIPTS, ReceiptEvent
from benchmarks._measure import Row, alone, growing, once
from tests.oracle.handoffs import judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_RECEIPTS = 1_000_000
_SHARE = 0.1  # the literal rules judge every tenth operation, and their time is scaled
_LIMITS = {
    "ack": 120_000_000,
    "window": 900_000_000,
    "verification": 0,
    "skew": 5_000_000,
    "wait": 86_400_000_000,
}


def run(scale: float = 1.0) -> Iterator[Row]:
    """Judge up to ``scale`` x a million receipts; states must be equal on every handoff that both judged."""
    yield from growing(_at, _RECEIPTS * scale)


def _at(times: int, count: float) -> Row:
    with tempfile.TemporaryDirectory(prefix="agentlens-bench-") as folder:
        written = Path(folder, "receipts.parquet")
        frame = receipts(round(count))
        frame.write_parquet(written)
        taken = alone("benchmarks.handoffs:judging", str(written), repeats=3)
    literal, differing = _literal(frame, handoffs(frame.lazy()).collect(engine="in-memory"))
    return taken.row(
        "receipts to handoffs",
        growth=times,
        events=frame.height,
        ratios={
            "literal rules in plain Python (a tenth, scaled) / this (at least 30)": literal[0]
            / taken.seconds,
            "the same by processor time": literal[1] / taken.cpu_s,
        },
        told={"handoffs": taken.told, "states that differ (none may)": differing},
    )


def judging(path: str) -> Callable[[], int]:
    """Judge receipts that are in memory already; gives the number of handoffs."""
    frame = pl.read_parquet(path)
    return lambda: handoffs(frame.lazy()).collect(engine="in-memory").height


def _literal(frame: pl.DataFrame, told: pl.DataFrame) -> tuple[tuple[float, float], int]:
    """Wall and processor time of the literal rules on all receipts, scaled from a tenth, and states that differ."""
    wanted = pl.col("operation_id").str.slice(3).cast(pl.Int64) % round(1 / _SHARE) == 0
    sample = frame.filter(wanted).with_columns(pl.col("at", "deadline").cast(pl.Int64))
    rows = sample.select(RECEIPTS.names()[:14]).to_dicts()
    moment = int(frame["at"].cast(pl.Int64).max() or 0)
    right = judge(rows, _LIMITS, as_of=moment)
    wall, busy = once(lambda: judge(rows, _LIMITS, as_of=moment))
    found = told.filter(wanted).select("operation_id", "handoff_id", "state").rows()
    differing = sum(right[operation, handoff]["state"] != state for operation, handoff, state in found)
    times = frame.height / max(1, len(rows))
    return (wall * times, busy * times), differing + abs(len(found) - len(right))


def receipts(count: int, seed: int = 7) -> pl.DataFrame:
    """Shuffled receipts of handoffs in all stages, with retries, waits, late and missing acceptances."""
    rng = np.random.default_rng(seed)
    events = [str(event) for event in ReceiptEvent]
    handoffs_wanted = max(1, count // 4)
    length = rng.choice([1, 2, 3, 4, 5, 6], size=handoffs_wanted, p=[0.05, 0.1, 0.15, 0.35, 0.2, 0.15])
    handoff = np.repeat(np.arange(handoffs_wanted), length)
    step = np.arange(len(handoff)) - np.repeat(np.cumsum(length) - length, length)
    # Stages 0-5 are the lifecycle without the rare waits; a tenth skips the acceptance.
    stage = np.array([0, 1, 2, 4, 5, 5])[step]
    stage = np.where((stage == 1) & (rng.random(len(stage)) < 0.1), 2, stage)
    stage = np.where((stage == 2) & (rng.random(len(stage)) < 0.1), 3, stage)
    began = rng.integers(0, 10**12, handoffs_wanted)[handoff]
    at = began + step * rng.integers(1_000_000, 150_000_000, handoffs_wanted)[handoff]
    operation = handoff - (rng.random(handoffs_wanted) < 0.1)[handoff] * (handoff % 2)
    frame = pl.DataFrame({"operation": operation, "handoff": handoff, "stage": stage, "at": at})
    worker = pl.format("agent-{}", pl.col("handoff") % 50)
    is_event = {name: pl.col("event") == name for name in events}
    return (
        frame.with_columns(
            event=pl.col("stage").replace_strict(dict(enumerate(events)), return_dtype=pl.String)
        )
        .select(
            "event",
            operation_id=pl.format("op-{}", "operation"),
            handoff_id=pl.format("op-{}/h{}", "operation", "handoff"),
            at=(pl.col("at") + 1_700_000_000_000_000).cast(pl.Datetime("us", "UTC")),
            author=pl.when(is_event["delegated"])
            .then(pl.lit("lead"))
            .when(is_event["outcome_verified"])
            .then(pl.lit("checker"))
            .otherwise(worker),
            recipient=pl.when(is_event["delegated"]).then(worker),
            expected_artifact=pl.format("artifact-{}", "operation"),
            urgency=pl.when(is_event["delegated"] & (pl.col("handoff") % 5 == 0)).then(pl.lit("page")),
            trace_id=pl.format("trace-{}", "operation"),
            owner=pl.when(is_event["waiting"]).then(pl.lit("editor")),
            outcome=pl.when(is_event["outcome_verified"]).then(
                pl.when(pl.col("handoff") % 7 == 0).then(pl.lit("failed")).otherwise(pl.lit("passed"))
            ),
            inferred=pl.lit(False),
            verifiable=pl.lit(True),
            source=pl.format("receipts.ndjson:{}", pl.int_range(1, pl.len() + 1)),
        )
        .with_columns(
            pl.lit(None, dtype=dtype).alias(name)
            for name, dtype in RECEIPTS.items()
            if name in {"reason", "deadline", "mac", "signed", "rule", "run_id", "order"}
        )
        .select(RECEIPTS.names())
        .sample(fraction=1.0, shuffle=True, seed=seed)
    )
