"""Weak labels: what outcomes and rewards say of runs that nobody looked at, by one stated rule.

The rule: an alert is false in a run that ends solved, and false while the best step reward will still rise. So

- a run whose outside verdict is ``passed`` is healthy;
- a run whose verdict is ``failed`` and whose export names the step that first reached the best reward (an event of
  kind ``log``, tool ``best_reward``, its target that step) is healthy before that step, an incident from it on;
- a run that is ``failed`` without such a step is an incident, with no onset;
- a run whose outcome is not known, or was judged both ways, gets no label.
"""

from __future__ import annotations

import polars as pl

from agentlens.model.enums import Kind, Outcome
from agentlens.model.label import LABELS, Origin, Scope, State

BEST_REWARD = "best_reward"
RULE = "solved run: healthy; before the best step reward: healthy; after it in a failed run: incident"


def weak_labels(events: pl.LazyFrame) -> pl.DataFrame:
    """Derive weak labels (`LABELS`, sorted by run and onset) from verdicts and best-reward steps among events.

    ``task_group`` is that of the run's events. Detectors never see what these labels are made of: verdict and
    log events are no actions.
    """
    runs = _outcomes(events).join(_best_steps(events), on="run_id", how="left").collect()
    solved, failed = runs.filter("passed"), runs.filter(~pl.col("passed"))
    stepped = failed.filter(pl.col("best").is_not_null())
    parts = [
        _rows(solved, Scope.RUN, State.HEALTHY, "solved"),
        _rows(
            stepped.filter(pl.col("best") > 0),
            Scope.INTERVAL,
            State.HEALTHY,
            "reward_rises",
            onset=0,
            end=pl.col("best") - 1,
        ),
        _rows(stepped, Scope.INTERVAL, State.INCIDENT, "reward_stands", onset=pl.col("best")),
        _rows(failed.filter(pl.col("best").is_null()), Scope.RUN, State.INCIDENT, "failed"),
    ]
    return pl.concat(parts).sort("run_id", "onset_seq")


def _outcomes(events: pl.LazyFrame) -> pl.LazyFrame:
    """``run_id, passed, task_group`` of runs whose outcomes are known and agree."""
    judged = events.filter(pl.col("kind") == str(Kind.VERDICT))
    known = pl.col("outcome").is_in([str(Outcome.PASSED), str(Outcome.FAILED)])
    return (
        judged.filter(known)
        .group_by("run_id")
        .agg(
            (pl.col("outcome") == str(Outcome.PASSED)).any().alias("passed"),
            pl.col("outcome").n_unique().alias("_said"),
            pl.col("task_group").drop_nulls().min(),
        )
        .filter(pl.col("_said") == 1)
        .drop("_said")
    )


def _best_steps(events: pl.LazyFrame) -> pl.LazyFrame:
    logs = events.filter((pl.col("kind") == str(Kind.LOG)) & (pl.col("tool") == BEST_REWARD))
    best = pl.col("target").cast(pl.Int64, strict=False).max().alias("best")
    return logs.group_by("run_id").agg(best)


def _rows(
    runs: pl.DataFrame,
    scope: Scope,
    state: State,
    kind: str,
    *,
    onset: pl.Expr | int | None = None,
    end: pl.Expr | None = None,
) -> pl.DataFrame:
    columns: dict[str, pl.Expr | int | None] = {
        "run_id": pl.col("run_id"),
        "scope": pl.lit(str(scope)),
        "label": pl.lit(str(state)),
        "onset_seq": onset,
        "end_seq": end,
        "kind": pl.lit(kind),
        "source": pl.lit(str(Origin.WEAK)),
        "label_version": pl.lit("1"),
        "task_group": pl.col("task_group"),
    }
    exprs = []
    for name, dtype in LABELS.items():
        value = columns.get(name)
        expr = value if isinstance(value, pl.Expr) else pl.lit(value)
        exprs.append(expr.cast(dtype).alias(name))
    return runs.select(exprs)
