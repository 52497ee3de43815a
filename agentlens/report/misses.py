"""Silent incidents: how near the rule came, and the event that broke the repetition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from agentlens.report.stretches import stretches

if TYPE_CHECKING:
    from agentlens.report.evaluation import Evaluation
    from agentlens.report.material import Material

MISSES = pl.Schema(
    {
        "run_id": pl.String(),
        "agent": pl.String(),
        "kind": pl.String(),
        "found_by": pl.String(),
        "actions": pl.Int64(),
        "period": pl.Int64(),
        "stretch": pl.Int64(),
        "needed": pl.Int64(),
        "short_by": pl.Int64(),
        "nearest_seq": pl.Int64(),
        "broken_at": pl.Int64(),
        "broken_by": pl.String(),
    }
)
"""One row a silent incident, the nearest first: at ``nearest_seq`` the stretch of ``period`` was ``stretch`` events of
the ``needed`` ones. ``broken_at``: the next event, which ended it, ``broken_by`` its ``action``, its ``evidence``,
``both``, or ``end`` where the lane ended first. ``masked``: it was long enough, and a lease, a retry or a failure went
before."""


def near_misses(made: Material, evaluation: Evaluation) -> pl.DataFrame:
    """List the incidents that the rule in force never alerts in (`MISSES`)."""
    board = evaluation.board
    silent = pl.DataFrame({"incident": board.incident_ids, "row": board.judged(0).detected}).filter(
        pl.col("row") < 0
    )
    spans = board.incidents.join(silent.select("incident"), on="incident", how="semi").sort("incident", "lo")
    if spans.is_empty():
        return MISSES.to_frame()
    seq = board.sweep.actions["seq"]
    agent = board.sweep.actions["agent"].gather(spans["lo"].to_list())
    where = spans.select("incident", "run_id", "kind", "found_by").with_columns(
        agent,
        pl.Series("from_seq", seq.gather(spans["lo"].to_list())),
        pl.Series("to_seq", seq.gather(spans["end"].to_list())),
        (spans["end"] - spans["lo"] + 1).alias("actions_in"),
    )
    lanes = where.select("run_id", "agent").unique()
    holds = stretches(
        made.events.join(lanes.lazy(), on=["run_id", "agent"], how="semi"), made.book, made.actions
    )
    inside = where.join(holds, on=["run_id", "agent"]).filter(pl.col("seq").is_between("from_seq", "to_seq"))
    best = inside.sort("incident", "excess", "period", "seq", descending=[False, True, False, False]).unique(
        "incident", keep="first", maintain_order=True
    )
    after = holds.select(
        "run_id",
        "agent",
        "period",
        pl.col("place") - 1,
        pl.col("seq").alias("broken_at"),
        pl.col("actions").alias("_acts"),
        pl.col("evidence").alias("_seen"),
    )
    told = best.join(after, on=["run_id", "agent", "period", "place"], how="left")
    acts, seen = pl.col("_acts") <= pl.col("stretch"), pl.col("_seen") <= pl.col("stretch")
    by = (
        pl.when(pl.col("excess") >= 0)
        .then(pl.lit("masked"))
        .when(pl.col("broken_at").is_null())
        .then(pl.lit("end"))
        .when(acts & seen)
        .then(pl.lit("both"))
        .when(acts)
        .then(pl.lit("action"))
        .otherwise(pl.lit("evidence"))
    )
    return (
        told.select(
            "run_id",
            "agent",
            "kind",
            "found_by",
            pl.col("actions_in").alias("actions"),
            "period",
            "stretch",
            pl.col("threshold").alias("needed"),
            (-pl.col("excess")).alias("short_by"),
            pl.col("seq").alias("nearest_seq"),
            "broken_at",
            by.alias("broken_by"),
        )
        .cast(MISSES)
        .sort("short_by", "run_id", "agent", "nearest_seq")
    )
