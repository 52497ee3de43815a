"""Which runs to look at next: flagged ones beside silent ones, each drawn with a known probability."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import polars as pl

from agentlens.errors import SettingsError

SAMPLE = pl.Schema(
    {
        "run_id": pl.String(),
        "stratum": pl.String(),
        "of": pl.Int64(),
        "taken": pl.Int64(),
        "probability": pl.Float64(),
    }
)
"""One row a run drawn, in an order that tells nothing. ``stratum``: ``flagged``, ``uncertain``, ``silent``, or
``control`` (`with_controls`); ``taken`` of its ``of`` were drawn, each with ``probability``: rates over silent runs are
weighted by its inverse."""

STRATA: Final = ("flagged", "uncertain", "silent")
SIZE: Final = 20


def draw(runs: pl.DataFrame, *, size: int = SIZE, seed: int = 0) -> pl.DataFrame:
    """Draw up to ``size`` flagged runs, and as many of the uncertain and of the silent ones (`SAMPLE`).

    Parameters
    ----------
    runs
        ``run_id, alerts, uncertain_events`` (schema `RUNS` has them). Runs without an action are left out where
        the frame has ``events``.
    size
        Runs of each stratum, at least 1.
    seed
        Another seed draws others; the same draws the same, whatever the order of rows.

    Raises
    ------
    SettingsError
        For a size below 1.

    Examples
    --------
    >>> runs = pl.DataFrame({"run_id": list("abcd"), "alerts": [1, 0, 0, 0], "uncertain_events": [0, 2, 0, 0]})
    >>> draw(runs, size=1).sort("stratum")["stratum", "of", "probability"].rows()
    [('flagged', 1, 1.0), ('silent', 2, 0.5), ('uncertain', 1, 1.0)]
    """
    if size < 1:
        raise SettingsError.value("size", size, "at least 1 run")
    flagged, doubtful = pl.col("alerts") > 0, pl.col("uncertain_events") > 0
    stratum = (
        pl.when(flagged)
        .then(pl.lit("flagged"))
        .when(doubtful)
        .then(pl.lit("uncertain"))
        .otherwise(pl.lit("silent"))
    )
    kept = runs.filter(pl.col("events") > 0) if "events" in runs.columns else runs
    lot = pl.Series("lot", [_lot(run, seed) for run in kept["run_id"]], dtype=pl.String)
    drawn = (
        kept.select("run_id", stratum.alias("stratum"))
        .with_columns(lot)
        .sort("lot", "run_id")
        .with_columns(pl.len().over("stratum").cast(pl.Int64).alias("of"))
        .with_columns(pl.min_horizontal("of", pl.lit(size, dtype=pl.Int64)).alias("taken"))
        .filter(pl.int_range(pl.len()).over("stratum") < pl.col("taken"))
        .with_columns((pl.col("taken") / pl.col("of")).alias("probability"))
    )
    return drawn.select(pl.col(name).cast(dtype) for name, dtype in SAMPLE.items())


def with_controls(drawn: pl.DataFrame, silent: pl.DataFrame, *, seed: int = 0) -> pl.DataFrame:
    """Mix in runs that do not alert, until they are as many as those that do (`SAMPLE`).

    A queue of alerts alone tells a reviewer what the rule said of each.

    Parameters
    ----------
    drawn
        From `draw`, of runs without a label; strata other than ``silent`` and ``uncertain`` are taken to alert.
    silent
        ``run_id`` of runs with a label that do not alert: their stratum is ``control``.
    seed
        As for `draw`.
    """
    quiet = int(drawn["stratum"].is_in(["silent", "uncertain"]).sum())
    lacking = drawn.height - 2 * quiet
    if lacking < 1:
        return drawn
    nothing = pl.lit(0, dtype=pl.Int64)
    runs = silent.select("run_id", nothing.alias("alerts"), nothing.alias("uncertain_events"))
    more = draw(runs, size=lacking, seed=seed).with_columns(stratum=pl.lit("control"))
    lots = pl.Series("lot", [_lot(run, seed) for run in [*drawn["run_id"], *more["run_id"]]], dtype=pl.String)
    return pl.concat([drawn, more]).with_columns(lots).sort("lot", "run_id").drop("lot")


def _lot(run: str, seed: int) -> str:
    """A number that has nothing to do with the run but its name."""
    return blake2b(run.encode(), digest_size=12, key=str(seed).encode()).hexdigest()
