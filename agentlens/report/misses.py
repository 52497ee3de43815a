"""Silent incidents: how near the rule came, and the event that broke the repetition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from agentlens.detect.near_periods import NEAR_PERIODS, near_periods
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
        "near": pl.Int64(),
        "edit": pl.String(),
        "edit_seq": pl.Int64(),
    }
)
"""One row a silent incident, the nearest first: at ``nearest_seq`` the stretch of ``period`` was ``stretch`` events of
the ``needed`` ones. ``broken_at``: the next event, which ended it, ``broken_by`` its ``action``, its ``evidence``,
``both``, or ``end`` where the lane ended first. ``masked``: it was long enough, and a lease, a retry or a failure went
before. ``near``: longest stretch of that period inside the incident after one ``edit`` of the event ``edit_seq``
(`agentlens.detect.near_periods`), at least ``stretch``; null where the rules differ in evidence or hold it constant."""


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
    edited = _one_edit(made, where)
    told = told.join(edited, on=["incident", "period"], how="left", maintain_order="left")
    gain = pl.col("near") > pl.col("stretch")
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
            pl.max_horizontal("near", pl.when(pl.col("near").is_not_null()).then("stretch")).alias("near"),
            *(pl.when(gain).then(name).alias(name) for name in ("edit", "edit_seq")),
        )
        .cast(MISSES)
        .sort("short_by", "run_id", "agent", "nearest_seq")
    )


def _one_edit(made: Material, where: pl.DataFrame) -> pl.DataFrame:
    """``incident, period, near, edit, edit_seq``: one-edit stretches of the events of each incident alone."""
    rules = made.book.rules
    modes = {rule.evidence for rule in rules}
    schema = {"incident": pl.Int64(), **{n: NEAR_PERIODS[n] for n in ("period", "near", "edit", "edit_seq")}}
    if len(modes) > 1 or modes == {"constant"}:
        return pl.DataFrame(schema=schema)
    spans = where.select("incident", "run_id", "agent", "from_seq", "to_seq")
    inside = made.events.join(spans.lazy(), on=["run_id", "agent"]).filter(
        pl.col("seq").is_between("from_seq", "to_seq")
    )
    # an incident is looked at as a lane of its own: what lies around it is no part of it
    alone = inside.with_columns(run_id=pl.col("incident").cast(pl.String), agent=pl.lit(""))
    found = near_periods(
        alone,
        max_period=max(rule.max_period for rule in rules),
        evidence=rules[0].evidence,
        actions=made.actions,
    )
    number = pl.col("run_id").cast(pl.Int64).alias("incident")
    return found.select(number, *(name for name in schema if name != "incident")).collect()
