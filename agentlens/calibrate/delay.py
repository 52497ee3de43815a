"""How soon incidents are detected: a curve with misses as never, not a mean of the lucky ones (CALIBRATION 2.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import polars as pl

from agentlens.calibrate.bootstrap import DRAWS, FEW_GROUPS, Interval, group_weights, percentile_interval
from agentlens.calibrate.intervals import clopper_pearson
from agentlens.calibrate.survival import Ended, Incidence, Sorted, Waits, incidence
from agentlens.errors import SchemaError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

Unit = Literal["events", "us"]
NEVER: Final = np.int64(2**62)
"""The time at which a missed incident stops being watched: never."""

DELAYS = pl.Schema(
    {
        "run_id": pl.String(),
        "task_group": pl.String(),
        "detected": pl.Boolean(),
        "already": pl.Boolean(),
        "guard_ended": pl.Boolean(),
        "delay_events": pl.Int64(),
        "delay_us": pl.Int64(),
        "watched_events": pl.Int64(),
        "watched_us": pl.Int64(),
        "timed": pl.Boolean(),
    }
)
"""One row an incident with an onset. ``detected``: an alert fell inside it; ``delay_*``: from onset to the first such
alert, null where not detected or without times. ``already``: the state was on at onset; counted apart. ``guard_ended``:
someone ended the run, which was watched for ``watched_*`` from onset: undetected, it is censored there, not missed.
``timed``: its run has times; false leaves it out of curves in microseconds, found or missed, null says nothing."""

DETECTION_CURVE = pl.Schema(
    {
        "after": pl.Int64(),
        "at_risk": pl.Int64(),
        "detected": pl.Int64(),
        "share": pl.Float64(),
        "low": pl.Float64(),
        "high": pl.Float64(),
    }
)
"""One row a delay seen, sorted: share of incidents detected within ``after`` events or microseconds, with limits."""

DETECTION = pl.Schema(
    {
        "unit": pl.String(),
        "within": pl.Int64(),
        "incidents": pl.Int64(),
        "groups": pl.Int64(),
        "already": pl.Int64(),
        "untimed": pl.Int64(),
        "detected": pl.Int64(),
        "missed": pl.Int64(),
        "censored": pl.Int64(),
        "share": pl.Float64(),
        "share_low": pl.Float64(),
        "share_high": pl.Float64(),
        "share_method": pl.String(),
        "restricted_mean": pl.Float64(),
        "mean_low": pl.Float64(),
        "mean_high": pl.Float64(),
        "median": pl.Int64(),
        "median_low": pl.Int64(),
        "median_high": pl.Int64(),
        "p90": pl.Int64(),
        "p90_low": pl.Int64(),
        "p90_high": pl.Int64(),
        "thin": pl.Boolean(),
    }
)
"""One row a unit. Unit ``run``: no onset is known, so incidents are found or not, and nothing is said of how soon
(see `found_at_all`). ``share``: detection@D, D = ``within``. ``restricted_mean``: mean of min(delay, D), misses as D.
``median``, ``p90`` and limits: null where the curve never gets there. ``thin``: fewer than 20 incidents or groups."""


def found_at_all(detected: int, incidents: int, level: float = 0.95) -> pl.DataFrame:
    """Summarise incidents whose onset nobody knows (`DETECTION`, one row of unit ``run``): found or missed.

    The exact interval takes incidents as independent.

    Examples
    --------
    >>> found_at_all(3, 4)["unit", "incidents", "detected", "missed", "share", "median"].row(0)
    ('run', 4, 3, 1, 0.75, None)
    """
    rate = clopper_pearson(detected, incidents, level)
    known = {
        "unit": "run",
        "incidents": incidents,
        "detected": detected,
        "missed": incidents - detected,
        "share": rate.value,
        "share_low": rate.low,
        "share_high": rate.high,
        "share_method": "exact",
        "thin": incidents < FEW_GROUPS,
    }
    return pl.DataFrame([known], schema=DETECTION)


def delay_waits(delays: pl.DataFrame, unit: Unit = "events") -> Waits:
    """Return delays as waits: detected is the event, guard-ended is unseen, missed is watched for ever.

    Incidents that were ``already`` alerting, and those without the times that ``unit`` needs, are left out.
    """
    kept = _usable(delays, unit)
    time = (
        pl.when("detected")
        .then(f"delay_{unit}")
        .when("guard_ended")
        .then(f"watched_{unit}")
        .otherwise(pl.lit(int(NEVER)))
    )
    rows = kept.select(time=time, ended=pl.col("detected").cast(pl.Int64), group=_codes())
    return Waits(rows["time"].to_numpy(), rows["ended"].to_numpy(), rows["group"].to_numpy())


def _codes() -> pl.Expr:
    return pl.col("task_group").rank("dense").cast(pl.Int64)


def _usable(delays: pl.DataFrame, unit: Unit) -> pl.DataFrame:
    missing = [name for name in DELAYS if name not in delays.columns]
    if missing:
        raise SchemaError(f"delays lack {', '.join(missing)}; accepted: {', '.join(DELAYS)}")
    lacking = (pl.col("detected") & pl.col(f"delay_{unit}").is_null()) | (
        ~pl.col("detected") & pl.col("guard_ended") & pl.col(f"watched_{unit}").is_null()
    )
    if unit == "us":
        lacking |= ~pl.col("timed").fill_null(True)  # its misses too: hits alone would flatter
    return delays.filter(~pl.col("already") & ~lacking).sort("task_group", "run_id")


def restricted_mean(curve: Incidence, within: int) -> float:
    """Mean of min(delay, within): the area above the curve up to ``within``."""
    edges = np.concatenate([[0], curve.at[curve.at < within], [within]])
    heights = np.concatenate([[0.0], curve.reached[curve.at < within]])
    return float(((1 - heights) * np.diff(edges)).sum())


def quantile(curve: Incidence, share: float) -> float:
    """Smallest delay within which that share of incidents is detected; infinite where the curve stays below."""
    hits = np.flatnonzero(curve.reached >= share - 1e-12)
    return float(curve.at[hits[0]]) if hits.size else float("inf")


def detection_curve(
    delays: pl.DataFrame, unit: Unit = "events", *, draws: int = DRAWS, seed: int = 0, level: float = 0.95
) -> pl.DataFrame:
    """Share of incidents detected within each delay (`DETECTION_CURVE`), with cluster-bootstrap limits.

    Parameters
    ----------
    delays
        Schema `DELAYS`.
    unit
        ``events``, or ``us`` (microseconds; incidents without times are left out).
    """
    waits = delay_waits(delays, unit)
    if not waits.size:
        return pl.DataFrame(schema=DETECTION_CURVE)
    ready = Sorted(waits)
    curve = ready.incidence()
    seen = curve.events > 0
    drawn = np.array(
        [
            ready.incidence(weight, by_group=True).reached[seen]
            for weight in group_weights(ready.groups, draws, seed)
        ]
    )
    tail = (1 - level) / 2
    low = np.quantile(drawn, tail, axis=0, method="lower")
    high = np.quantile(drawn, 1 - tail, axis=0, method="higher")
    return pl.DataFrame(
        {
            "after": curve.at[seen],
            "at_risk": curve.at_risk[seen].astype(np.int64),
            "detected": curve.events[seen].astype(np.int64),
            "share": curve.reached[seen],
            "low": low,
            "high": high,
        },
        schema=DETECTION_CURVE,
    )


def detection(
    delays: pl.DataFrame,
    within: int,
    unit: Unit = "events",
    *,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = 0.95,
) -> pl.DataFrame:
    """Summarise detection: share within D, restricted mean delay, median and 90th percentile (`DETECTION`, one row).

    Parameters
    ----------
    delays
        Schema `DELAYS`.
    within
        D, in events or microseconds; at least 1.

    Raises
    ------
    SettingsError
        For a D below 1.

    Examples
    --------
    >>> rows = {"run_id": ["a", "b"], "task_group": ["a", "b"], "detected": [True, False], "delay_events": [3, None]}
    >>> more = {"already": False, "guard_ended": False, "timed": False, "watched_events": 9}
    >>> more |= {"delay_us": None, "watched_us": None}
    >>> frame = pl.DataFrame(rows).with_columns(**{k: pl.lit(v) for k, v in more.items()})
    >>> detection(frame, 10)["share", "restricted_mean", "median", "p90"].row(0)
    (0.5, 6.5, 3, None)
    """
    if within < 1:
        raise SettingsError.value("within", within, "at least 1")
    waits = delay_waits(delays, unit)
    kept = _usable(delays, unit)
    already = int(delays["already"].sum())
    detected = int(kept["detected"].sum())
    censored = int((kept["guard_ended"] & ~kept["detected"]).sum())
    share = share_within(waits, within, draws=draws, seed=seed, level=level)
    found = _summaries(waits, within, draws=draws, seed=seed, level=level)
    row: dict[str, Any] = {
        "unit": unit,
        "within": within,
        "incidents": waits.size,
        "groups": waits.groups,
        "already": already,
        "untimed": delays.height - already - kept.height,
        "detected": detected,
        "missed": waits.size - detected - censored,
        "censored": censored,
        "share": share.value,
        "share_low": share.low,
        "share_high": share.high,
        "share_method": share.method,
        "thin": waits.groups < FEW_GROUPS,
        **found,
    }
    return pl.DataFrame([row], schema=DETECTION)


def share_within(
    waits: Waits, within: int, *, draws: int = DRAWS, seed: int = 0, level: float = 0.95
) -> Interval:
    """Detection@D. Clopper-Pearson where each group has one incident and none is censored before D.

    Else a cluster bootstrap; where that could only answer 0 or 1, the exact interval for so many groups.
    """
    if not waits.size:
        return Interval(None, None, None, "none", 0, thin=True)
    curve = incidence(waits)
    groups = waits.groups
    known = not ((waits.ended == Ended.UNSEEN) & (waits.time < within)).any()
    value = curve.reached_at(within)
    if known and groups == waits.size:
        rate = clopper_pearson(
            int(((waits.ended == Ended.EVENT) & (waits.time <= within)).sum()), groups, level
        )
        return Interval(rate.value, rate.low, rate.high, "clopper_pearson", groups, thin=groups < FEW_GROUPS)
    if value <= 0 or value >= 1:
        rate = clopper_pearson(groups if value >= 1 else 0, groups, level)
        return Interval(
            value, rate.low, rate.high, "clopper_pearson_groups", groups, thin=groups < FEW_GROUPS
        )
    ready = Sorted(waits)
    drawn = np.array(
        [ready.incidence(w, by_group=True).reached_at(within) for w in group_weights(groups, draws, seed)]
    )
    low, high = percentile_interval(drawn, level)
    return Interval(value, low, high, "cluster_bootstrap", groups, thin=groups < FEW_GROUPS)


def _summaries(waits: Waits, within: int, *, draws: int, seed: int, level: float) -> dict[str, Any]:
    """Restricted mean, median and p90 with limits from the same draws."""
    if not waits.size:
        return {}
    ready = Sorted(waits)
    told: dict[str, Callable[[Incidence], float]] = {
        "restricted_mean": lambda curve: restricted_mean(curve, within),
        "median": lambda curve: quantile(curve, 0.5),
        "p90": lambda curve: quantile(curve, 0.9),
    }
    curve = ready.incidence()
    drawn: dict[str, list[float]] = {name: [] for name in told}
    for weight in group_weights(ready.groups, draws, seed):
        again = ready.incidence(weight, by_group=True)
        for name, statistic in told.items():
            drawn[name].append(statistic(again))
    row: dict[str, Any] = {}
    for name, statistic in told.items():
        low, high = percentile_interval(np.array(drawn[name]), level)
        short = "mean" if name == "restricted_mean" else name
        whole = name != "restricted_mean"
        for column, value in ((name, statistic(curve)), (f"{short}_low", low), (f"{short}_high", high)):
            row[column] = (None if np.isinf(value) else int(value)) if whole else value
    return row
