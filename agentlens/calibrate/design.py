"""How data are divided, from counts alone: before any alarm is read, sizes and labels say what a split can afford."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agentlens.calibrate import ratio
from agentlens.calibrate.certificate import groups_needed

if TYPE_CHECKING:
    import polars as pl

    from agentlens.calibrate.recommend import Goal

Ints: TypeAlias = NDArray[np.int64]
Shares: TypeAlias = tuple[float, float, float]

THREE_PARTS: Shares = (0.4, 0.4, 0.2)
CHAIN_FIXED: Shares = (0.0, 0.8, 0.2)
START_EXPLORED: Shares = (0.2, 0.8, 0.0)
EVERYTHING: Shares = (0.0, 1.0, 0.0)
HOPED_DETECTION = 0.5
"""A split must still certify where a rule finds half of the incidents, and a quarter of the limit are false."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What is known of the labelled runs without any alarm.

    ``healthy_groups``: task groups with a healthy run. ``sizes``, ``incidents``: labelled runs of each task group, and
    how many of them are incidents.
    """

    healthy_groups: int
    sizes: Ints
    incidents: Ints

    @classmethod
    def of(cls, runs: pl.DataFrame) -> Counts:
        """Count ``task_group, state`` of labelled runs."""
        import polars as pl

        by_group = (
            runs.group_by("task_group")
            .agg(
                pl.len().cast(pl.Int64).alias("runs"),
                (pl.col("state") == "incident").sum().cast(pl.Int64).alias("incidents"),
                (pl.col("state") == "healthy").any().alias("healthy"),
            )
            .sort("task_group")
        )
        return cls(
            healthy_groups=int(by_group["healthy"].sum()),
            sizes=by_group["runs"].to_numpy(),
            incidents=by_group["incidents"].to_numpy(),
        )


def can_certify(goal: Goal, counts: Counts) -> bool:
    """Whether any rule could be certified if every group certified: no false alarm, and every incident found."""
    if goal.objective == "fpr":
        return counts.healthy_groups >= groups_needed(0, goal.max_fpr, goal.delta)
    largest = goal.largest or ratio.kept_size(counts.sizes)
    best = ratio.log_wealth(counts.incidents, counts.incidents * 0, goal.max_fpr, largest, counts.sizes)
    return best >= math.log(1 / goal.delta)


def hoped_wealth(goal: Goal, counts: Counts) -> float:
    """Logarithm that the bet on the share is hoped to reach on all groups (`HOPED_DETECTION`)."""
    largest = goal.largest or ratio.kept_size(counts.sizes)
    alpha, false = goal.max_fpr, ratio.HOPED * goal.max_fpr
    per_alarm = ratio.stake(alpha, largest) / np.maximum(counts.sizes, largest)
    growth = (1 - false) * np.log1p(alpha * per_alarm) + false * np.log1p(-(1 - alpha) * per_alarm)
    return math.fsum((HOPED_DETECTION * counts.incidents * growth).tolist())


def default_shares(goal: Goal, counts: Counts, *, fixed: bool = False) -> Shares:
    """Split shares from counts alone.

    Three parts where 40 % of the healthy groups can certify something; else no exploring and a chain fixed
    beforehand on 80 %, and where that is too few, on all, with none kept for a test. For the false share of alarms a
    fifth explores where the other four are hoped to certify (`hoped_wealth`); else every group certifies, along the
    chain fixed beforehand.

    Parameters
    ----------
    fixed
        The rules were given: there is nothing to explore.
    """
    if goal.objective == "share":
        affordable = START_EXPLORED[1] * hoped_wealth(goal, counts) >= math.log(1 / goal.delta)
        return START_EXPLORED if affordable and not fixed else EVERYTHING
    needed, groups = groups_needed(0, goal.max_fpr, goal.delta), counts.healthy_groups
    if THREE_PARTS[1] * groups >= needed and not fixed:
        return THREE_PARTS
    return CHAIN_FIXED if CHAIN_FIXED[1] * groups >= needed else EVERYTHING
