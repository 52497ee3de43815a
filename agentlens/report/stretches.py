"""The numbers behind a verdict: how long the actions and the evidence of a lane repeat, event by event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from agentlens.detect import cycles
from agentlens.detect.lanes import in_lanes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.detect.profile_rules import RuleBook
    from agentlens.detect.rules import Rule

_KEY: Final = ("run_id", "agent", "seq")
_FAR: Final = 2**30

HOLDS = pl.Schema(
    {
        "run_id": pl.String(),
        "agent": pl.String(),
        "seq": pl.Int64(),
        "place": pl.Int64(),
        "period": pl.Int64(),
        "threshold": pl.Int64(),
        "actions": pl.Int64(),
        "evidence": pl.Int64(),
        "stretch": pl.Int64(),
        "excess": pl.Int64(),
    }
)
"""One row an action and period, sorted: ``place`` of the action in its lane from 0; ``threshold`` T_p, as of the head
rule where that decides; ``actions`` L_p, ``evidence`` V_p and ``stretch`` S_p, their smaller, in events; ``excess``
S_p - T_p: the condition holds from 0 on."""


def stretches(events: pl.LazyFrame, book: RuleBook, actions: Sequence[str]) -> pl.DataFrame:
    """Measure every action of some lanes for every period of the rule that judges it (`HOLDS`).

    ``events`` holds whole lanes; take those that matter, the frame has one row an action and period.
    """
    lanes = in_lanes(events, actions).with_columns(book.number().alias("_rule"))
    parts = [_measured(lanes, number, rule) for number, rule in enumerate(book.rules)]
    return pl.concat(parts).sort(*_KEY, "period").collect()


def _measured(lanes: pl.LazyFrame, number: int, rule: Rule) -> pl.LazyFrame:
    periods = range(1, rule.max_period + 1)
    known = cycles.with_lengths(lanes, rule, versions=True)
    # the evidence alone: as if the actions had always been repeating
    alone = known.with_columns(pl.col(f"L_{p}").alias(f"A_{p}") for p in periods)
    alone = alone.with_columns(pl.lit(_FAR, dtype=pl.Int32).alias(f"L_{p}") for p in periods)
    alone = alone.with_columns(e.name.map(_as_evidence) for e in cycles.evidence_lengths(rule, versions=True))
    mine = alone.filter(pl.col("_rule") == number)
    return pl.concat([mine.select(_row(rule, p)) for p in periods])


def _as_evidence(name: str) -> str:
    return name.replace("S_", "V_")


def _row(rule: Rule, p: int) -> list[pl.Expr]:
    so_far = pl.col("row") - pl.col("start") + 1
    threshold = pl.lit(rule.thresholds[p - 1], dtype=pl.Int64)
    if rule.window is not None and rule.head_repetitions is not None:
        head = rule.head_repetitions * p + rule.confirm - 1
        whole = pl.col(f"S_{p}") == so_far
        threshold = pl.when(whole).then(pl.min_horizontal(threshold, pl.lit(head))).otherwise(threshold)
    stretch = pl.col(f"S_{p}")
    facts = {
        "place": so_far - 1,
        "period": pl.lit(p),
        "threshold": threshold,
        "actions": pl.col(f"A_{p}"),
        "evidence": pl.min_horizontal(pl.col(f"V_{p}"), so_far),
        "stretch": stretch,
        "excess": stretch - threshold,
    }
    return [
        *(pl.col(name) for name in _KEY),
        *(value.cast(pl.Int64).alias(name) for name, value in facts.items()),
    ]
