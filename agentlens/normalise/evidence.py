"""Which fingerprint of a run stands, and what a human turn breaks."""

from __future__ import annotations

import polars as pl

from agentlens.model.event import ACTIONS
from agentlens.model.once import nulls
from agentlens.normalise.fingerprint import UNKNOWN_STATE
from agentlens.normalise.lanes import LANE

GIVEN_VERSION = "given-1"
AT_START = "0" * 32
"""Durable state before the first change of a lane: nobody knows it, but it is the same all along."""


def choose(ordered: pl.DataFrame) -> pl.DataFrame:
    """Fill ``progress_fingerprint`` and ``fingerprint_version``, one definition a run.

    ``given`` if a record of the run carries one (null included), else ``durable`` where a definition
    applies to the run, else ``observed``. Rows are in lane order.
    """
    given = pl.col("has_given").any().over("run_id")
    durable = pl.col("durable_version").is_not_null().any().over("run_id")
    if not ordered.select(pl.col("has_given").any()).item():
        given = pl.lit(False)
    if nulls(ordered, "durable_version") == len(ordered):
        return _plain(ordered, given)
    state = _carried()
    return ordered.with_columns(
        progress_fingerprint=pl.when(given)
        .then("given_fingerprint")
        .when(durable)
        .then(state)
        .otherwise("observed_fingerprint"),
        fingerprint_version=pl.when(given)
        .then(pl.lit(GIVEN_VERSION))
        .when(durable)
        .then(pl.col("durable_version").drop_nulls().max().over("run_id"))
        .otherwise("observed_version"),
    )


def _plain(ordered: pl.DataFrame, given: pl.Expr) -> pl.DataFrame:
    return ordered.with_columns(
        progress_fingerprint=pl.when(given).then("given_fingerprint").otherwise("observed_fingerprint"),
        fingerprint_version=pl.when(given).then(pl.lit(GIVEN_VERSION)).otherwise("observed_version"),
    )


def _carried() -> pl.Expr:
    """Carry the durable state forward; a change whose result is not known makes it unknown.

    Only the definition says what changes its state: an edited file leaves accepted sources as they were.
    """
    state = pl.col("durable_fingerprint").forward_fill().over(LANE).fill_null(AT_START)
    return pl.when(state != UNKNOWN_STATE).then(state)


def carry_external(ordered: pl.DataFrame) -> pl.DataFrame:
    """Mark the first action after a human turn or decision of its lane. Rows are in lane order."""
    flag = pl.col("external_input").fill_null(False)
    action = pl.col("kind").is_in(ACTIONS)
    flagged = ordered.with_columns(external_input=flag)
    if not flagged.select((flag & ~action).any()).item():
        return flagged
    since = action.cum_sum() - action.cast(pl.UInt32)  # rows up to an action share its number
    return (
        flagged.with_columns(turn=since.over(LANE))
        .with_columns(
            external_input=pl.when(action).then(flag.any().over(*LANE, "turn")).otherwise("external_input")
        )
        .drop("turn")
    )


def fill_run_facts(ordered: pl.DataFrame) -> pl.DataFrame:
    """Let ``workflow`` and ``task_group`` stand on every row of a run that names exactly one of each."""
    for name in ("workflow", "task_group"):
        missing = nulls(ordered, name)
        if missing in {0, len(ordered)}:
            continue
        only = (
            ordered.lazy()
            .filter(pl.col(name).is_not_null())
            .group_by("run_id")
            .agg(pl.col(name).n_unique().alias("n"), pl.col(name).first().alias("only"))
            .filter(pl.col("n") == 1)
            .select("run_id", "only")
            .collect()
        )
        ordered = (
            ordered.join(only, on="run_id", how="left", maintain_order="left")
            .with_columns(pl.coalesce(name, "only").alias(name))
            .drop("only")
        )
    return ordered
