"""Where alerts are false more often: rates by slice, shrunken, with bounds for having looked at many slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl
from scipy import stats

from agentlens.calibrate.intervals import clopper_pearson, holm

if TYPE_CHECKING:
    from agentlens.report.evaluation import Evaluation
    from agentlens.report.material import Material

LEAST: Final = 10
"""Healthy runs that a slice needs before a rate is shown."""
LEVEL: Final = 0.95

SLICES = pl.Schema(
    {
        "by": pl.String(),
        "slice": pl.String(),
        "healthy_runs": pl.Int64(),
        "healthy_groups": pl.Int64(),
        "healthy_events": pl.Int64(),
        "alarmed_runs": pl.Int64(),
        "rate": pl.Float64(),
        "low": pl.Float64(),
        "high": pl.Float64(),
        "shrunken": pl.Float64(),
        "p_value": pl.Float64(),
        "p_holm": pl.Float64(),
        "holm_low": pl.Float64(),
        "thin": pl.Boolean(),
    }
)
"""One row a slice, the worst first.

``rate``: healthy runs that alarmed, with its exact interval; ``shrunken``: the same drawn towards the rate of all, the
more the thinner the slice (beta-binomial, prior from the slices of one kind). ``p_value``: of so many alarms or more if
the slice were like the rest; ``p_holm`` and the lower limit ``holm_low`` hold for all slices together. Below ten runs
(``thin``) no rate is shown. Intervals take runs as independent: several runs of one group make them too narrow.
"""


def run_slices(made: Material, evaluation: Evaluation) -> pl.DataFrame:
    """``run_id, by, slice``: every labelled healthy run in every slice it belongs to."""
    board = evaluation.board
    healthy = board.runs.filter(pl.Series(board.healthy)).select("run_id")
    events = (
        made.events.filter(pl.col("kind").is_in(made.actions))
        .join(healthy.lazy(), on="run_id", how="semi")
        .collect()
    )
    first = [pl.col(n).drop_nulls().first().alias(n) for n in ("workflow", "model", "agent_version")]
    versions = [
        pl.col(n).drop_nulls().first().alias(n) for n in ("normaliser_version", "fingerprint_version")
    ]
    known = pl.col("progress_fingerprint").is_not_null().mean()
    per_run = (
        events.sort("run_id", "agent", "seq")
        .group_by("run_id")
        .agg(
            *first,
            *versions,
            pl.len().alias("_events"),
            known.alias("_known"),
            pl.col("at").min().dt.hour().alias("_hour"),
        )
    )
    length = (
        pl.when(pl.col("_events") < 20)
        .then(pl.lit("under 20 actions"))
        .when(pl.col("_events") < 50)
        .then(pl.lit("20 to 49 actions"))
        .when(pl.col("_events") < 200)
        .then(pl.lit("50 to 199 actions"))
        .otherwise(pl.lit("200 actions and more"))
    )
    cover = (
        pl.when(pl.col("_known") >= 1)
        .then(pl.lit("all known"))
        .when(pl.col("_known") > 0.5)
        .then(pl.lit("more than half known"))
        .otherwise(pl.lit("half or fewer known"))
    )
    hour = pl.col("_hour") // 6 * 6
    banded = per_run.with_columns(
        length.alias("run length"),
        cover.alias("evidence"),
        pl.concat_str(
            hour.cast(pl.String), pl.lit(" to "), (hour + 5).cast(pl.String), pl.lit(" h UTC")
        ).alias("hour"),
    ).rename(
        {
            "agent_version": "agent version",
            "normaliser_version": "normaliser",
            "fingerprint_version": "fingerprint",
        }
    )
    wide = [
        "workflow",
        "model",
        "agent version",
        "normaliser",
        "fingerprint",
        "run length",
        "evidence",
        "hour",
    ]
    long = banded.unpivot(wide, index="run_id", variable_name="by", value_name="slice")
    agents = events.select("run_id", slice=pl.col("agent").str.replace(r"#\d+$", "")).filter(
        pl.col("slice") != ""
    )
    tools = events.select("run_id", slice=pl.col("tool"))
    more = [
        frame.unique().select("run_id", pl.lit(by).alias("by"), "slice")
        for by, frame in (("agent", agents), ("tool", tools))
    ]
    return pl.concat([long, *more]).drop_nulls("slice").unique().sort("by", "slice", "run_id")


def slices(made: Material, evaluation: Evaluation) -> pl.DataFrame:
    """Rate of false alarms by slice (`SLICES`)."""
    board = evaluation.board
    judged = board.judged(0)
    runs = board.runs.with_columns(pl.Series("alarmed", judged.alarmed)).filter(pl.Series(board.healthy))
    sizes = board.sweep.actions.group_by("run_id").len("events")
    facts = runs.join(sizes, on="run_id", how="left").select(
        "run_id", "task_group", "alarmed", pl.col("events").fill_null(0)
    )
    counted = (
        run_slices(made, evaluation)
        .join(facts, on="run_id")
        .group_by("by", "slice")
        .agg(
            healthy_runs=pl.len().cast(pl.Int64),
            healthy_groups=pl.col("task_group").n_unique().cast(pl.Int64),
            healthy_events=pl.col("events").sum().cast(pl.Int64),
            alarmed_runs=pl.col("alarmed").sum().cast(pl.Int64),
        )
        .sort("by", "slice")
    )
    # a slice that holds every run says nothing that the whole does not say
    total, alarms = runs.height, int(runs["alarmed"].sum())
    counted = counted.filter(pl.col("healthy_runs") < total)
    rows = [_rated(row, total, alarms) for row in counted.iter_rows(named=True)]
    frame = pl.DataFrame(rows, schema=SLICES)
    return _adjusted(frame, alarms / total if total else 0.0)


def _rated(row: dict[str, object], total: int, alarms: int) -> dict[str, object]:
    n, k = int(row["healthy_runs"]), int(row["alarmed_runs"])  # type: ignore[call-overload]
    thin = n < LEAST
    interval = clopper_pearson(k, n, LEVEL)
    # hypergeometric: so many of all alarms or more fall on these runs, if alarms fell on runs by lot
    p_value = float(stats.hypergeom.sf(k - 1, total, alarms, n))
    return {
        **row,
        "rate": None if thin else interval.value,
        "low": None if thin else interval.low,
        "high": None if thin else interval.high,
        "shrunken": None,
        "p_value": None if thin else p_value,
        "p_holm": None,
        "holm_low": None,
        "thin": thin,
    }


def _adjusted(frame: pl.DataFrame, rate: float) -> pl.DataFrame:
    tested = frame.filter(~pl.col("thin"))
    adjusted = holm(tested["p_value"].to_list())
    tail = (1 - LEVEL) / max(tested.height, 1)
    lows = [
        0.0 if k == 0 else float(stats.beta.ppf(tail, k, n - k + 1))
        for k, n in tested.select("alarmed_runs", "healthy_runs").iter_rows()
    ]
    bounds = tested.select("by", "slice").with_columns(
        pl.Series("p_holm", adjusted, dtype=pl.Float64), pl.Series("holm_low", lows, dtype=pl.Float64)
    )
    weight = _prior_weight(tested, rate)
    shrunken = (pl.col("alarmed_runs") + weight * rate) / (pl.col("healthy_runs") + weight)
    return (
        frame.drop("p_holm", "holm_low")
        .join(bounds, on=["by", "slice"], how="left")
        .with_columns(pl.when(~pl.col("thin")).then(shrunken).alias("shrunken"))
        .select(pl.col(name).cast(dtype) for name, dtype in SLICES.items())
        .sort("p_holm", "shrunken", "by", "slice", descending=[False, True, False, False], nulls_last=True)
    )


def _prior_weight(tested: pl.DataFrame, rate: float) -> float:
    """How many runs' worth the overall rate counts: by moments of the slices' rates, between 1 and 1,000.

    Were slices alike, their rates would vary by ``rate (1 - rate) / n`` alone; what is more than that is between them.
    """
    if tested.height < 2 or not 0 < rate < 1:
        return float(LEAST)
    n = tested["healthy_runs"].to_numpy()
    seen = (tested["alarmed_runs"] / tested["healthy_runs"]).to_numpy()
    within = rate * (1 - rate)
    between = float(((seen - rate) ** 2 - within / n).mean())
    return 1_000.0 if between <= 0 else float(min(max(within / between - 1, 1.0), 1_000.0))
