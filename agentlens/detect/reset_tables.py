"""Tables beside the judgement of resets: gate funnel, families, resets nobody wrote a receipt for."""

from __future__ import annotations

import polars as pl

from agentlens.model.reset import FAMILIES, FUNNEL, GATES, STOPPED, UNRECEIPTED


def funnel(resets: pl.LazyFrame) -> pl.LazyFrame:
    """How many branches come to each gate, pass it, and which fact stopped the others.

    Parameters
    ----------
    resets
        Rows of schema `RESETS`.

    Returns
    -------
    pl.LazyFrame
        Schema `FUNNEL`: one row a gate and reason (null: nothing was stopped), in the order of the gates. The sixth
        gate is entered by branches that gave a final answer.
    """
    stages = []
    before = pl.lit(True)
    for number, gate in enumerate(GATES, 1):
        entered = before & pl.col("final_answer").fill_null(value=False) if number == 6 else before
        passed = pl.col(f"gate_{number}") == "pass"
        reason = pl.when(~passed).then(pl.col(f"reason_{number}"))
        inside = resets.filter(entered).select(reason=reason, passed=passed)
        stage = inside.group_by("reason").agg(
            pl.len().cast(pl.Int64).alias("n"), pl.col("passed").sum().cast(pl.Int64)
        )
        stages.append(
            stage.with_columns(
                number=pl.lit(number),
                gate=pl.lit(gate),
                entered=pl.col("n").sum(),
                all=pl.col("passed").sum(),
            )
        )
        before &= passed
    rows = pl.concat(stages).with_columns(stopped=pl.col("n") - pl.col("passed"), passed=pl.col("all"))
    # A gate that stopped somebody needs no row for those it stopped not.
    some = pl.col("reason").is_not_null().any().over("number")
    return (
        rows.filter(pl.col("reason").is_not_null() | ~some)
        .sort("number", "stopped", "reason", descending=[False, True, False])
        .select(FUNNEL.names())
    )


def families(resets: pl.LazyFrame) -> pl.LazyFrame:
    """One row a family of branches (schema `FAMILIES`), sorted by family."""
    state = pl.col("state")
    return (
        resets.group_by("family")
        .agg(
            branches=pl.len().cast(pl.Int64),
            depth=pl.col("depth").max(),
            verified=(state == "verified").sum().cast(pl.Int64),
            ready=(state == "ready_to_resume").sum().cast(pl.Int64),
            stopped=state.is_in(list(STOPPED)).sum().cast(pl.Int64),
            cyclic=pl.col("depth").is_null().any(),
        )
        .select(FAMILIES.names())
        .sort("family", nulls_last=True)
    )


def unreceipted_resets(events: pl.LazyFrame, branches: pl.LazyFrame | None = None) -> pl.LazyFrame:
    """Commands that destroyed or rewound work without a receipt (schema `UNRECEIPTED`), sorted by lane.

    A command is receipted only where a native branch receipt names it (its call or span id) as fork point.
    ``run_has_branch``: some receipt names the run as branch or parent; that alone covers no command.
    """
    found = events.filter(pl.col("reset").is_not_null())
    if branches is None:
        listed = found.with_columns(run_has_branch=pl.lit(False))
    else:
        native = branches.filter(~pl.col("inferred").fill_null(value=False))
        points = native.select(run_id="parent_id", point="fork_point").drop_nulls().unique()
        for name in ("call_id", "span_id"):
            found = found.join(points, left_on=["run_id", name], right_on=["run_id", "point"], how="anti")
        runs = (
            pl.concat([native.select(run_id="parent_id"), native.select(run_id="branch_id")])
            .drop_nulls()
            .unique()
        )
        listed = found.join(
            runs.with_columns(run_has_branch=pl.lit(True)), on="run_id", how="left"
        ).with_columns(pl.col("run_has_branch").fill_null(value=False))
    return listed.select(UNRECEIPTED.names()).sort("run_id", "agent", "seq")
