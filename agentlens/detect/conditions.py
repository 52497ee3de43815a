"""What a rule says of suffix lengths: the cycle condition, the period, laps and suspicion, as expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from agentlens.detect.lanes import ROW

if TYPE_CHECKING:
    from agentlens.detect.rules import Rule


def condition(rule: Rule, kind: str) -> pl.Expr:
    """Whether the cycle condition holds for some period, by the lengths ``{kind}_1..{kind}_P``."""
    return pl.any_horizontal(holds(rule, kind, p) for p in range(1, rule.max_period + 1))


def holds(rule: Rule, kind: str, p: int) -> pl.Expr:
    """Whether it holds for one period."""
    length = pl.col(f"{kind}_{p}")
    enough = length >= rule.thresholds[p - 1]
    return enough if rule.head_repetitions is None else enough | head_holds(rule, length, p)


def head_holds(rule: Rule, length: pl.Expr, p: int) -> pl.Expr:
    """While the stretch is the whole lane so far, ``i + 2 - R * p`` windows agree (CALIBRATION 3.2, heads)."""
    return (length == so_far()) & (so_far() + 1 - (rule.head_repetitions or 0) * p >= rule.confirm)


def so_far() -> pl.Expr:
    """Number of actions of the lane up to this one."""
    return pl.col("row") - pl.col("start") + 1


def period_and_laps(rule: Rule, stuck: pl.Expr) -> list[pl.Expr]:
    """``period`` and ``laps``: the loop's where stuck, else those of the actions alone; 0 where there are none."""
    periods = range(1, rule.max_period + 1)
    period, laps = pl.lit(0, dtype=ROW), pl.lit(0, dtype=ROW)
    for p in reversed(periods):
        repeats = pl.col(f"L_{p}") >= 2 * p
        period = pl.when(repeats).then(pl.lit(p, dtype=ROW)).otherwise(period)
        laps = pl.when(repeats).then(pl.col(f"L_{p}") // p).otherwise(laps)
    for p in reversed(periods):
        loop = stuck & holds(rule, "S", p)
        period = pl.when(loop).then(pl.lit(p, dtype=ROW)).otherwise(period)
        laps = pl.when(loop).then(pl.col(f"S_{p}") // p).otherwise(laps)
    return [period.alias("period"), laps.alias("laps")]


def suspect(rule: Rule) -> pl.Expr:
    """Nearly the cycle condition: one lap short of it for some period."""
    return pl.any_horizontal(
        pl.col(f"S_{p}") >= max(2 * p, threshold - p) for p, threshold in enumerate(rule.thresholds, 1)
    )
