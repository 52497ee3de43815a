"""Incidents that a rule misses by one edit: information for whoever reads the misses, never a detection (3.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from agentlens.detect.near_periods import NEAR_PERIODS, near_periods
from agentlens.model.event import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agentlens.detect.rules import Rule

NEAR_MISSES = pl.Schema({"rule": pl.String(), **NEAR_PERIODS, "needed": pl.Int64()})
"""One row a rule, lane and period, sorted: lanes of runs with an incident that the rule never alerts in, whose longest
one-edit stretch (``near``) is as long as the rule needs (``needed``) while the exact one is not."""


def near_misses(
    missed: pl.DataFrame,
    rules: Iterable[tuple[str, Rule]],
    parts: Sequence[pl.LazyFrame],
    actions: Sequence[str] = ACTIONS,
) -> pl.DataFrame:
    """Find the missed incidents that one edit keeps from an alert.

    Parameters
    ----------
    missed
        ``rule, run_id``, as `agentlens.calibrate.views.missed` gives them.
    rules
        Names as in ``missed``, with the rules; those with ``constant`` evidence are left out.
    parts
        Event tables that hold disjoint whole runs.
    actions
        The kinds that take part in cycles.
    """
    found = [NEAR_MISSES.to_frame()]
    for name, rule in rules:
        runs = missed.filter(pl.col("rule") == name).select("run_id").unique().lazy()
        if rule.evidence == "constant" or not missed.height:
            continue
        for part in parts:
            held = part.join(runs, on="run_id", how="semi")
            near = near_periods(held, max_period=rule.max_period, evidence=rule.evidence, actions=actions)
            needed = pl.col("period").replace_strict(
                dict(enumerate(rule.thresholds, 1)), return_dtype=pl.Int64
            )
            told = near.with_columns(rule=pl.lit(name), needed=needed)
            short = told.filter((pl.col("near") >= pl.col("needed")) & (pl.col("exact") < pl.col("needed")))
            found.append(short.select(list(NEAR_MISSES)).collect())
    return pl.concat(found).sort("rule", "run_id", "agent", "period")
