"""What can make latencies lie: clocks, polling, the start of the log, and attempts ended because of silence."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from agentlens.calibrate.ack_times import ACKNOWLEDGED, SILENT, used, waits_of
from agentlens.calibrate.survival import Ended, Waits, incidence

ACK_CHECKS = pl.Schema(
    {
        "check": pl.String(),
        "count": pl.Int64(),
        "total": pl.Int64(),
        "value": pl.Float64(),
        "unit": pl.String(),
        "warn": pl.Boolean(),
        "note": pl.String(),
    }
)
"""One row a check, in a fixed order: ``count`` of ``total`` handoffs; a ``value`` in ``unit`` where there is one."""

STEPS_S: Final = (3600, 1800, 900, 600, 300, 120, 60, 30, 20, 15, 10, 5, 2, 1)
_ON_STEP: Final = 0.95
_STRATUM: Final = 20
_UNEVEN: Final = 2.0
_SKEW_SHARE: Final = 0.01


def ack_checks(times: pl.DataFrame) -> pl.DataFrame:
    """Check silences (schema `ACK_TIMES`) for what would bias a limit; returns `ACK_CHECKS`.

    ``clock_skew``: accepted before delegated. ``polling``: latencies are whole multiples of a step: the true ones
    lie anywhere up to one step below. ``log_start``: handoffs whose delegation the log does not have; the slow ones
    among those open at its start are missed. ``ended_by_silence``: closed or delegated again after a silence longer
    than half of the acknowledgements took; the lost share is given if all of those were lost, and if none.
    ``hours``: ratio of the slowest to the fastest quarter of the day, by median latency; ``load``: the same of the
    quarters of handoffs by how many others were open when they were delegated.
    """
    kept = used(times)
    rows = [
        _skew(kept),
        _polling(kept),
        _log_start(times),
        _unused(times),
        *_ended_by_silence(kept),
        _hours(kept),
        _load(kept),
    ]
    return pl.DataFrame(rows, schema=ACK_CHECKS, orient="row")


_Row = tuple[str, int, int, float | None, str | None, bool, str | None]


def _skew(kept: pl.DataFrame) -> _Row:
    skewed, total = int(kept["skewed"].sum()), kept.height
    warn = skewed > _SKEW_SHARE * total
    note = "clocks differ: latencies may be short or long by as much; synchronise or widen" if warn else None
    return "clock_skew", skewed, total, None, None, warn, note


def _polling(kept: pl.DataFrame) -> _Row:
    latency = kept.filter((pl.col("ended") == ACKNOWLEDGED) & (pl.col("silent_us") > 0))["silent_us"]
    if latency.len() < _STRATUM:
        return "polling", 0, latency.len(), None, "s", False, None
    for step in STEPS_S:
        us = step * 1_000_000
        on_step = int((latency % us == 0).sum())
        if on_step >= _ON_STEP * latency.len():
            note = f"latencies are read every {step} s; the true ones lie up to {step} s lower"
            # a resolution far below the latencies themselves changes nothing
            coarse = bool(us * 10 > np.median(latency.to_numpy()))
            return "polling", on_step, latency.len(), float(step), "s", coarse, note
    return "polling", 0, latency.len(), None, "s", False, None


def _log_start(times: pl.DataFrame) -> _Row:
    count = int((times["left_out"] == "no_delegation").sum())
    note = "handoffs whose delegation was not seen are left out: those slow at the log's start are missed"
    return "log_start", count, times.height, None, None, count > 0, note if count else None


def _unused(times: pl.DataFrame) -> _Row:
    reasons = times.filter(pl.col("left_out").is_not_null() & (pl.col("left_out") != "no_delegation"))
    counts = reasons.group_by("left_out").len().sort("left_out").rows()
    note = ", ".join(f"{name} {n}" for name, n in counts) or None
    return "left_out", reasons.height, times.height, None, None, reasons.height > times.height // 10, note


def _ended_by_silence(kept: pl.DataFrame) -> list[_Row]:
    waits = waits_of(kept)
    hits = waits.time[waits.ended == Ended.EVENT]
    rival = waits.ended == Ended.COMPETING
    usual = float(np.median(hits)) if hits.size else 0.0
    late = rival & (waits.time > usual)
    names = ("lost_if_ended_by_silence", "lost_if_not")
    told = "attempts closed or delegated again after a long silence, counted as lost in one bound and not in the other"
    shares = [_lost(waits, late, lost=True), _lost(waits, late, lost=False)]
    apart = abs(shares[0] - shares[1]) > 0.01
    return [
        (name, int(late.sum()), waits.size, share, "share", apart, told if late.any() else None)
        for name, share in zip(names, shares, strict=True)
    ]


def _lost(waits: Waits, late: np.ndarray[Any, np.dtype[np.bool_]], *, lost: bool) -> float:
    """Share never acknowledged when ``late`` ends are silence for ever, or else plain competing ends."""
    if not waits.size:
        return 0.0
    if not lost:
        return incidence(waits).never
    time = np.where(late, max(int(waits.time.max()), 1), waits.time)
    ended = np.where(late, int(Ended.UNSEEN), waits.ended)
    return incidence(Waits(time, ended, waits.group)).never


def _hours(kept: pl.DataFrame) -> _Row:
    note = "latency depends on the hour: one limit is wrong for some"
    return _strata("hours", kept, pl.col("delegated_at").dt.hour() // 6, note)


def _load(kept: pl.DataFrame) -> _Row:
    """Handoffs that were delegated alike loaded are in one quarter; a lost one is no load: nobody is at it."""
    at = kept["delegated_at"].to_physical().to_numpy()
    ended = kept.filter(pl.col("ended") != SILENT)
    begun = np.sort(ended["delegated_at"].to_physical().to_numpy())
    over = np.sort(ended["delegated_at"].to_physical().to_numpy() + ended["silent_us"].to_numpy())
    open_ = np.searchsorted(begun, at, side="left") - np.searchsorted(over, at, side="left")
    quarter = (pl.col("open").rank("max") * 4 / pl.len()).ceil().cast(pl.Int64)
    loaded = kept.with_columns(pl.Series("open", open_, dtype=pl.Int64)).with_columns(quarter=quarter)
    note = "latency depends on how many handoffs are open: one limit is wrong under load or without"
    return _strata("load", loaded, pl.col("quarter"), note)


def _strata(check: str, kept: pl.DataFrame, stratum: pl.Expr, note: str) -> _Row:
    """Ratio of the slowest to the fastest stratum of enough acknowledgements, by median latency."""
    medians = (
        kept.filter(pl.col("ended") == ACKNOWLEDGED)
        .group_by(stratum.alias("stratum"))
        .agg(pl.len(), pl.col("silent_us").median().alias("median"))
        .filter((pl.col("len") >= _STRATUM) & (pl.col("median") > 0))["median"]
        .to_numpy()
    )
    if medians.size < 2:
        return check, 0, kept.height, None, "ratio", False, None
    ratio = float(medians.max() / medians.min())
    uneven = ratio > _UNEVEN
    return check, medians.size, kept.height, ratio, "ratio", uneven, note if uneven else None
