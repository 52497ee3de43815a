"""Thousands of synthetic handoffs at once, with their truth: for simulations of acknowledgement limits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from agentlens.datasets.fleet import LABELS
from agentlens.errors import SettingsError
from agentlens.model.event import TIME
from agentlens.model.receipt import RECEIPTS

START_US = 1_793_606_400_000_000  # 2026-11-02T08:00:00Z


@dataclass(frozen=True, kw_only=True)
class Urgency:
    """One urgency class: how long acceptance takes (log-normal) and how much is never accepted.

    ``median_s``: median seconds to acceptance of what is accepted at all. ``sigma``: standard deviation of
    its logarithm. ``lost``: probability that nobody ever accepts. ``weight``: how often the class comes.
    """

    name: str = "normal"
    median_s: float = 20.0
    sigma: float = 0.8
    lost: float = 0.05
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        if self.median_s <= 0 or self.sigma < 0 or self.weight <= 0:
            raise SettingsError.value(
                "median_s, sigma, weight", self.median_s, "values above 0 (sigma: from 0)"
            )
        if not 0 <= self.lost <= 1:
            raise SettingsError.value("lost", self.lost, "a probability from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class SyntheticHandoffs:
    """Receipts (schema `RECEIPTS`), labels (scope ``handoff``) and truth, each sorted by handoff.

    ``truth``: ``handoff_id, urgency, lost, latency_us`` (null where lost), whether or not the acceptance was
    still seen. ``as_of``: when observation ended, microseconds since 1970 UTC: what was accepted later is
    censored, not lost.
    """

    receipts: pl.DataFrame
    labels: pl.DataFrame
    truth: pl.DataFrame
    as_of_us: int


def synthetic_handoffs(
    count: int,
    *,
    seed: int,
    classes: tuple[Urgency, ...] = (Urgency(),),
    every_s: float = 30.0,
    watched_s: float = 600.0,
    per_group: int = 1,
    polled_s: float = 0.0,
    label_noise: float = 0.0,
) -> SyntheticHandoffs:
    """Draw handoffs that are delegated at a steady pace, accepted late, never, or after observation ended.

    Parameters
    ----------
    count
        How many handoffs, one an operation.
    seed
        Seed of NumPy's PCG64; the same seed and NumPy version give the same frames.
    classes
        Urgency classes, dealt by weight.
    every_s
        Mean seconds between two delegations.
    watched_s
        Seconds of observation after the last delegation.
    per_group
        How many handoffs in a row share a task, as ``task_group`` of their labels and, where it is more than one,
        ``trace_id`` of their receipts.
    polled_s
        Acceptances are seen at the next whole multiple of so many seconds after the delegation; 0: when they happen.
        The truth keeps the latency itself.
    label_noise
        Chance that a label says the opposite of the truth.

    Raises
    ------
    SettingsError
        For fewer than one handoff, no class, times that are not above 0, noise that is no probability, or a
        seed below 0.

    Examples
    --------
    >>> drawn = synthetic_handoffs(500, seed=1)
    >>> drawn.truth.height, drawn.truth["lost"].sum() < 60
    (500, True)
    """
    if count < 1:
        raise SettingsError.value("count", count, "an integer of at least 1")
    if not classes:
        raise SettingsError.value("classes", classes, "at least one urgency class")
    if not (0 < every_s < math.inf and 0 < watched_s < math.inf):
        raise SettingsError.value("every_s, watched_s", (every_s, watched_s), "seconds above 0")
    if per_group < 1 or not 0 <= polled_s < math.inf or not 0 <= label_noise <= 1:
        given = (per_group, polled_s, label_noise)
        accepted = "a group of at least 1, seconds from 0, a probability"
        raise SettingsError.value("per_group, polled_s, label_noise", given, accepted)
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise SettingsError.value("seed", seed, "a whole number from 0")
    rng = np.random.default_rng(seed)
    weights = np.array([c.weight for c in classes])
    which = rng.choice(len(classes), count, p=weights / weights.sum())
    lost = rng.random(count) < np.array([c.lost for c in classes])[which]
    spread = np.array([c.sigma for c in classes])[which] * rng.standard_normal(count)
    latency = (np.array([c.median_s for c in classes])[which] * np.exp(spread) * 1e6).astype(np.int64) + 1
    delegated = START_US + np.cumsum((rng.exponential(every_s * 1e6, count)).astype(np.int64))
    as_of = int(delegated[-1] + watched_s * 1e6)
    truth = _truth(np.array([c.name for c in classes])[which].tolist(), lost, latency, delegated, per_group)
    wrong = rng.random(count) < label_noise
    step = int(polled_s * 1e6)
    return SyntheticHandoffs(
        receipts=_receipts(truth, as_of, step, grouped=per_group > 1),
        labels=_labels(truth.with_columns(pl.Series("wrong", wrong))),
        truth=truth.select("handoff_id", "urgency", "lost", "latency_us"),
        as_of_us=as_of,
    )


def _truth(
    urgency: list[str], lost: np.ndarray, latency: np.ndarray, delegated: np.ndarray, per_group: int
) -> pl.DataFrame:
    frame = pl.DataFrame({"urgency": urgency, "lost": lost, "latency_us": latency, "delegated_us": delegated})
    operation = pl.format("op-{}", pl.int_range(pl.len()).cast(pl.String).str.zfill(7))
    return frame.with_columns(
        operation.alias("operation_id"),
        pl.format("{}/h1", operation).alias("handoff_id"),
        pl.when(~pl.col("lost")).then("latency_us").alias("latency_us"),
        _group(operation, per_group).alias("task_group"),
    )


def _group(operation: pl.Expr, per_group: int) -> pl.Expr:
    if per_group == 1:
        return operation
    return pl.format("task-{}", (pl.int_range(pl.len()) // per_group).cast(pl.String).str.zfill(7))


def _receipts(truth: pl.DataFrame, as_of: int, step: int, *, grouped: bool) -> pl.DataFrame:
    seen = pl.col("latency_us")
    if step:
        seen = (seen + step - 1) // step * step
    accepted_us = pl.col("delegated_us") + seen
    trace = pl.col("task_group") if grouped else pl.lit(None, pl.String)
    first = truth.select(
        "operation_id",
        "handoff_id",
        pl.lit("delegated").alias("event"),
        pl.col("delegated_us").alias("at"),
        pl.lit("lead").alias("author"),
        pl.lit("worker").alias("recipient"),
        "urgency",
        trace.alias("trace_id"),
    )
    second = truth.filter(accepted_us <= as_of).select(
        "operation_id",
        "handoff_id",
        pl.lit("accepted").alias("event"),
        accepted_us.alias("at"),
        pl.lit("worker").alias("author"),
        pl.lit(None, pl.String).alias("recipient"),
        pl.lit(None, pl.String).alias("urgency"),
        trace.alias("trace_id"),
    )
    rows = pl.concat([first, second]).sort("handoff_id", "at")
    have = {"expected_artifact": pl.lit("brief"), "inferred": pl.lit(False), "verifiable": pl.lit(True)}
    filled = [
        (pl.col(name) if name in rows.columns else have.get(name, pl.lit(None))).cast(dtype).alias(name)
        for name, dtype in RECEIPTS.items()
    ]
    return rows.with_columns(pl.col("at").cast(TIME)).select(filled)


def _labels(truth: pl.DataFrame) -> pl.DataFrame:
    columns = {
        "operation_id": pl.col("operation_id"),
        "handoff_id": pl.col("handoff_id"),
        "scope": pl.lit("handoff"),
        "label": pl.when(pl.col("lost") != pl.col("wrong"))
        .then(pl.lit("incident"))
        .otherwise(pl.lit("healthy")),
        "kind": pl.when(pl.col("lost") & ~pl.col("wrong")).then(pl.lit("lost")),
        "source": pl.lit("planted"),
        "task_group": pl.col("task_group"),
    }
    filled = [columns.get(name, pl.lit(None)).cast(dtype).alias(name) for name, dtype in LABELS.items()]
    return truth.select(filled).sort("handoff_id")
