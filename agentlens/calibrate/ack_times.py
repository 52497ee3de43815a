"""How long each delegation stayed silent, and what ended the silence (CALIBRATION section 2.5)."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import polars as pl

from agentlens.calibrate.survival import Ended, Waits
from agentlens.model.event import TIME

ACKNOWLEDGED: Final = "acknowledged"
SILENT: Final = "silent"
_ENDED: Final = {
    SILENT: Ended.UNSEEN,
    ACKNOWLEDGED: Ended.EVENT,
    "closed": Ended.COMPETING,
    "superseded": Ended.COMPETING,
}

ACK_TIMES = pl.Schema(
    {
        "operation_id": pl.String(),
        "handoff_id": pl.String(),
        "urgency": pl.String(),
        "cluster": pl.String(),
        "delegated_at": TIME,
        "silent_us": pl.Int64(),
        "ended": pl.String(),
        "watched_us": pl.Int64(),
        "skewed": pl.Boolean(),
        "left_out": pl.String(),
    }
)
"""One row a handoff, sorted by operation and handoff.

``silent_us``: from the first delegation to what ``ended`` the silence: ``acknowledged``; ``closed`` (rejected or
cancelled first) and ``superseded`` (delegated again first), which compete with it; ``silent``: nothing until
observation ended. ``watched_us``: how long it could have been watched. ``cluster``: delegations that share one
are not independent. ``skewed``: accepted before it was delegated, by the clocks; counted as at once.
``left_out``: why it is not used: ``disagreement``, ``no_delegation``, ``no_time``, ``finished_unaccepted``, or
``excluded`` by a label; else null.
"""

Cluster = Literal["run", "recipient", "none"]


def ack_times(
    handoffs: pl.LazyFrame,
    *,
    cluster: Cluster = "run",
    observed_until: pl.LazyFrame | None = None,
) -> pl.LazyFrame:
    """Return the silence of each handoff (schema `ACK_TIMES`).

    Parameters
    ----------
    handoffs
        Rows of `agentlens.detect.handoffs.handoffs` (schema `HANDOFFS`).
    cluster
        What makes delegations dependent: the ``run`` (else the trace, else the operation), the ``recipient``
        (a queue), or ``none``.
    observed_until
        ``operation_id, observed_until`` where observation of an operation ended before the data did (a guard, a
        person, log rotation): its silence is censored there.

    Notes
    -----
    An attempt that is delegated again may have been so *because* of its silence. It is treated as competing
    here; `agentlens.calibrate.ack_checks` gives the bounds if that is wrong.
    """
    rows = handoffs.with_columns(until=pl.col("as_of"))
    if observed_until is not None:
        earliest = observed_until.group_by("operation_id").agg(pl.col("observed_until").min())
        rows = rows.join(earliest, on="operation_id", how="left").with_columns(
            until=pl.min_horizontal("as_of", pl.col("observed_until").cast(TIME))
        )
    attempts = rows.select("operation_id", "delegated_at").drop_nulls().unique()
    same = pl.col("operation_id") == pl.col("operation_id").shift(-1)
    later = attempts.sort("operation_id", "delegated_at").with_columns(
        again_at=pl.when(same).then(pl.col("delegated_at").shift(-1))
    )
    rows = rows.join(later, on=["operation_id", "delegated_at"], how="left")
    moments = {ACKNOWLEDGED: "accepted_at", "closed": "closed_at", "superseded": "again_at"}
    start = pl.col("delegated_at")
    seen = {
        name: pl.when(pl.col(column) <= pl.col("until")).then(
            pl.max_horizontal((pl.col(column) - start).dt.total_microseconds(), pl.lit(0))
        )
        for name, column in moments.items()
    }
    watched = pl.max_horizontal((pl.col("until") - start).dt.total_microseconds(), pl.lit(0))
    return (
        rows.with_columns(**{f"_{name}": each for name, each in seen.items()}, watched_us=watched)
        .with_columns(silent_us=pl.min_horizontal(*(f"_{name}" for name in moments), "watched_us"))
        .with_columns(ended=_ended(list(moments)), left_out=_left_out())
        .with_columns(cluster=_cluster(cluster), skewed=(pl.col("ack_latency_us") < 0).fill_null(value=False))
        .select(pl.col(name).cast(dtype) for name, dtype in ACK_TIMES.items())
        .sort("operation_id", "handoff_id")
    )


def _ended(names: list[str]) -> pl.Expr:
    """Return the first thing that happened, an acknowledgement first at equal times."""
    ended = pl.lit(SILENT)
    for name in reversed(names):
        ended = pl.when(pl.col(f"_{name}") == pl.col("silent_us")).then(pl.lit(name)).otherwise(ended)
    return ended


def _left_out() -> pl.Expr:
    finished = (pl.col("completed") | pl.col("outcome").is_not_null()) & ~pl.col("accepted")
    return (
        pl.when(pl.col("disagreement").str.contains("no_delegation"))
        .then(pl.lit("no_delegation"))
        .when(pl.col("disagreement").is_not_null())
        .then(pl.lit("disagreement"))
        .when(pl.col("delegated_at").is_null())
        .then(pl.lit("no_time"))
        .when(finished)
        .then(pl.lit("finished_unaccepted"))
    )


def _cluster(kind: Cluster) -> pl.Expr:
    own = pl.concat_str("operation_id", "handoff_id", separator="|")
    if kind == "none":
        return own
    if kind == "recipient":
        return pl.coalesce("recipient", own)
    return pl.coalesce("run_id", "trace_id", "operation_id")


def used(times: pl.DataFrame) -> pl.DataFrame:
    """Rows of `ACK_TIMES` that are not left out."""
    return times.filter(pl.col("left_out").is_null())


def waits_of(times: pl.DataFrame) -> Waits:
    """Return the waits of used rows, for the curves."""
    ended = times["ended"].replace_strict(
        {k: int(v) for k, v in _ENDED.items()}, default=0, return_dtype=pl.Int64
    )
    codes = times["cluster"].rank("dense").cast(pl.Int64) if times.height else pl.Series([], dtype=pl.Int64)
    return Waits(
        times["silent_us"].to_numpy().astype(np.int64),
        ended.to_numpy().astype(np.int64),
        codes.to_numpy().astype(np.int64),
    )


def observed_until_from(labels: pl.LazyFrame) -> pl.LazyFrame:
    """``operation_id, observed_until`` out of label rows that say when observation ended."""
    return labels.filter(
        pl.col("operation_id").is_not_null() & pl.col("observed_until").is_not_null()
    ).select("operation_id", "observed_until")
