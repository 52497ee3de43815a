"""Every quantity of CALIBRATION section 2.2 of one rule, each with its interval, how that is made, and its counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agentlens.calibrate.board import ACTIVE_GAP_US, lane_gaps
from agentlens.calibrate.bootstrap import FEW_GROUPS, Interval, rate_interval, statistic_interval
from agentlens.calibrate.delay import NEVER, detection, quantile, share_within
from agentlens.calibrate.incident_delays import ONSETS, incident_delays
from agentlens.calibrate.intervals import THIN_CELL, clopper_pearson
from agentlens.calibrate.ppv import predictive_values
from agentlens.calibrate.rates import Looking, group_losses, mean_interval
from agentlens.calibrate.survival import Ended, Sorted, Waits
from agentlens.calibrate.truth import NO_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.calibrate.board import Bits, Board, Ints, Judged

Floats: TypeAlias = NDArray[np.float64]
_HOUR_US: Final = 3_600_000_000
DRAWS: Final = 400
BASE_RATE: Final = 0.01

MEASURES = pl.Schema(
    {
        "quantity": pl.String(),
        "unit": pl.String(),
        "onset": pl.String(),
        "value": pl.Float64(),
        "low": pl.Float64(),
        "high": pl.Float64(),
        "interval": pl.String(),
        "count": pl.Int64(),
        "of": pl.Int64(),
        "counted": pl.String(),
        "groups": pl.Int64(),
        "thin": pl.Boolean(),
        "note": pl.String(),
    }
)
"""One row a quantity, in a fixed order. ``interval`` names how ``low`` and ``high`` (95 %) are made:
``clopper_pearson``, ``mixture_bet``, ``poisson``, ``cluster_bootstrap``, ``clopper_pearson_groups`` (a share of 0 or 1
over so many groups), ``both_at_97.5`` (the worse and the better end of two intervals), ``none``. ``value``, ``low`` and
``high`` are null where the curve never gets there. ``count`` ``of`` so many ``counted``, of so many task ``groups``;
``thin``: fewer than 20 of them, or of the groups. ``onset``: which end of the onset's interval delays count from
(`agentlens.calibrate.incident_delays`), null elsewhere."""


@dataclass(frozen=True)
class _Sums:
    """What the rows of one rule share."""

    board: Board
    judged: Judged
    kept: Bits
    incidents: Bits
    looking: Looking
    seed: int
    draws: int

    @property
    def groups(self) -> int:
        return len(self.board.groups)

    def by_group(self, run: Ints, weights: Any = None) -> Floats:
        """Sum of weights (or a count) per task group of some runs, one entry a run."""
        return np.bincount(self.board.group_of_run[run], weights=weights, minlength=self.groups).astype(
            np.float64
        )

    @property
    def group_of_incident(self) -> Ints:
        return np.asarray(self.board.group_of_run[self.board.incident_runs()], dtype=np.int64)


def measures(
    board: Board,
    cell: int,
    splits: Sequence[str],
    *,
    looking: Looking | None = None,
    seed: int = 0,
    draws: int = DRAWS,
) -> pl.DataFrame:
    """Give `MEASURES` of one cell on some splits.

    Parameters
    ----------
    board
        Labelled runs with their splits.
    cell
        Position of the rule in the sweep.
    splits
        Whose runs count.
    looking
        D of detection@D and where the restricted means are cut; intervals are at 95 %.
    seed, draws
        Of cluster bootstraps.
    """
    run = board.incident_runs()
    kept = board.in_splits(splits)
    mine = kept[run] if run.size else np.empty(0, dtype=np.bool_)
    sums = _Sums(board, board.judged(cell), kept, mine, looking or Looking(), seed, draws)
    rows = [*_false_runs(sums), *_false_alerts(sums), *_found(sums)]
    for onset in ONSETS:
        told = _delays(sums, incident_delays(board, cell, splits, onset))
        rows += [row | {"onset": onset} for row in told]
    rows += [*_burden(sums), *_worth(rows)]
    return pl.DataFrame(rows, schema=MEASURES)


def _row(
    quantity: str,
    unit: str,
    found: Interval,
    counts: tuple[int, int, str],
    note: str | None = None,
    scale: float = 1.0,
) -> dict[str, Any]:
    value, low, high = (
        None if x is None or math.isinf(x) else x * scale for x in (found.value, found.low, found.high)
    )
    return {
        "quantity": quantity,
        "unit": unit,
        "onset": None,
        "value": value,
        "low": low,
        "high": high,
        "interval": found.method,
        "count": counts[0],
        "of": counts[1],
        "counted": counts[2],
        "groups": found.groups,
        "thin": found.thin or found.groups < FEW_GROUPS or counts[1] < THIN_CELL,
        "note": note,
    }


def _false_runs(sums: _Sums) -> list[dict[str, Any]]:
    board, judged = sums.board, sums.judged
    healthy = board.healthy & sums.kept
    sizes = np.bincount(board.group_of_run[healthy], minlength=sums.groups)
    found = []
    for name, marked, note in (
        ("false-positive rate", judged.alarmed, None),
        ("false-positive rate, uncertain as alert", judged.doubted, None),
        ("uncertain runs", judged.unsure, "of healthy runs"),
    ):
        losses = group_losses(board, healthy, marked)
        low, high = mean_interval(losses, sizes, sums.looking.level)
        method = "none" if not losses.size else "clopper_pearson" if sizes.max() <= 1 else "mixture_bet"
        value = float(losses.mean()) if losses.size else None
        counts = (int((marked & healthy).sum()), int(healthy.sum()), "runs")
        found.append(_row(name, "share", Interval(value, low, high, method, losses.size), counts, note))
    return [*found, _uncertain_events(sums)]


def _uncertain_events(sums: _Sums) -> dict[str, Any]:
    board = sums.board
    rows = board.run_of_row >= 0
    rows[rows] = sums.kept[board.run_of_row[rows]]
    unsure = np.zeros(rows.size + 1, dtype=np.int64)
    first, last = sums.judged.doubts
    np.add.at(unsure, first, 1)
    np.add.at(unsure, last + 1, -1)
    marked = (np.cumsum(unsure)[:-1] > 0) & rows
    every, some = sums.by_group(board.run_of_row[rows]), sums.by_group(board.run_of_row[marked])
    counts = (int(some.sum()), int(every.sum()), "events")
    return _row("uncertain events", "share", _ratio(sums, some, every), counts, "of labelled runs")


def _ratio(sums: _Sums, above: Floats, below: Floats) -> Interval:
    """Sum over sum of groups, with a cluster bootstrap; no interval where every draw would say the same."""
    some = below > 0
    above, below = above[some], below[some]
    if not below.size:
        return Interval(None, None, None, "none", 0, thin=True)
    if not above.any():
        return Interval(0.0, None, None, "none", below.size, thin=below.size < FEW_GROUPS)

    def ratio(weight: Floats) -> float:
        return float(weight @ above) / float(weight @ below)

    return statistic_interval(ratio, below.size, level=sums.looking.level, draws=sums.draws, seed=sums.seed)


def _false_alerts(sums: _Sums) -> list[dict[str, Any]]:
    board = sums.board
    alerts = np.where(sums.kept, sums.judged.false_alerts, 0)
    rows = np.flatnonzero(board.healthy_rows(sums.kept))
    run = board.run_of_row[rows]
    events = sums.by_group(run)
    by_group = sums.by_group(np.arange(alerts.size), alerts)
    rate = _rate(sums, by_group, events)
    total = int(alerts.sum())
    length = _reference_length(board, sums.kept)
    found = [
        _row(
            "false alerts per 1,000 healthy events", "alerts", rate, (total, rows.size, "events"), scale=1e3
        ),
        _row(
            f"chance of a false alert in {length:,} events",
            "share",
            _at_length(rate, length),
            (total, rows.size, "events"),
            "the median length of a healthy run, were alerts independent",
        ),
    ]
    timed = board.timed_runs[run]
    gaps = lane_gaps(board.sweep.actions)[rows[timed]]
    told = np.where(board.timed_runs, alerts, 0)
    by_group = sums.by_group(np.arange(alerts.size), told)
    note = _times_in(np.unique(run[timed]).size, np.unique(run).size, "runs")
    for name, spent in (("active", np.minimum(gaps, ACTIVE_GAP_US)), ("wall-clock", gaps)):
        hours = sums.by_group(run[timed], spent / _HOUR_US)
        counts = (int(told.sum()), round(float(hours.sum())), "hours")
        rate = _rate(sums, by_group, hours)
        row = _row(f"false alerts per {name} agent-hour", "alerts", rate, counts, note)
        found.append(row | {"thin": rate.thin or rate.groups < FEW_GROUPS})
    return found


def _rate(sums: _Sums, alerts: Floats, exposure: Floats) -> Interval:
    some = exposure > 0
    return rate_interval(
        alerts[some], exposure[some], level=sums.looking.level, draws=sums.draws, seed=sums.seed
    )


def _times_in(timed: int, every: int, what: str) -> str:
    return f"times in {timed:,} of {every:,} {what}"


def _reference_length(board: Board, kept: Bits) -> int:
    healthy = board.healthy & kept
    acts = np.bincount(board.run_of_row[board.run_of_row >= 0], minlength=healthy.size)[healthy]
    return int(np.median(acts)) if acts.size else 0


def _at_length(rate: Interval, length: int) -> Interval:
    def chance(x: float | None) -> float | None:
        return None if x is None else 1 - math.exp(-x * length)

    return Interval(
        chance(rate.value), chance(rate.low), chance(rate.high), rate.method, rate.groups, rate.thin
    )


def _found(sums: _Sums) -> list[dict[str, Any]]:
    group = sums.group_of_incident
    rows = []
    for name, hit in (
        ("detection", sums.judged.detected >= 0),
        ("detection, uncertain as alert", (sums.judged.detected >= 0) | sums.judged.doubtful),
    ):
        mine = hit[sums.incidents]
        waits = Waits(np.where(mine, 1, NEVER), mine.astype(np.int64), group[sums.incidents])
        share = share_within(waits, 1, draws=sums.draws, seed=sums.seed, level=sums.looking.level)
        rows.append(_row(name, "share", share, (int(mine.sum()), mine.size, "incidents")))
    return rows


def _delays(sums: _Sums, delays: pl.DataFrame) -> list[dict[str, Any]]:
    looking, rows = sums.looking, []
    for unit, within, scale, name in (
        ("events", looking.within_events, 1.0, "events"),
        ("us", looking.longest_s * 1_000_000, 1e-6, "seconds"),
    ):
        one = _detection(sums, delays, within, unit)
        longest = _detection(sums, delays, looking.longest_events, unit) if unit == "events" else one
        note = f"{one['censored']:,} guard-ended, {one['already']:,} already on"
        if unit == "us":
            note = _times_in(one["incidents"], one["incidents"] + one["untimed"], "incidents") + "; " + note
        counts = (one["detected"], one["incidents"], "incidents")
        cut = looking.longest_events if unit == "events" else looking.longest_s
        boot = "cluster_bootstrap" if one["incidents"] else "none"
        if unit == "events":
            share = Interval(
                one["share"], one["share_low"], one["share_high"], one["share_method"], one["groups"]
            )
            rows.append(_row(f"detection within {within:,} events", "share", share, counts, note))
        for quantity, column, low, high, source in (
            ("median delay", "median", "median_low", "median_high", one),
            ("90 % of delays within", "p90", "p90_low", "p90_high", one),
            (f"mean delay, cut at {cut:,}", "restricted_mean", "mean_low", "mean_high", longest),
        ):
            limits = Interval(source[column], source[low], source[high], boot, one["groups"])
            rows.append(_row(quantity, name, limits, counts, note, scale))
    return rows


def _detection(sums: _Sums, delays: pl.DataFrame, within: int, unit: Any) -> dict[str, Any]:
    found = detection(delays, within, unit, draws=sums.draws, seed=sums.seed, level=sums.looking.level)
    return found.row(0, named=True)


def _burden(sums: _Sums) -> list[dict[str, Any]]:
    """Alerts per detected incident, and how long the state outlives an incident whose end is known."""
    judged, group = sums.judged, sums.group_of_incident
    hit = (judged.detected >= 0) & sums.incidents
    alerts = np.bincount(group[hit], judged.alerts[hit], sums.groups).astype(np.float64)
    found = np.bincount(group[hit], minlength=sums.groups).astype(np.float64)
    counts = (int(judged.alerts[hit].sum()), int(hit.sum()), "found")
    rows = [_row("alerts per detected incident", "alerts", _ratio(sums, alerts, found), counts)]
    for unit, waits, untold in _resets(sums, hit, group):
        on = int((waits.ended == Ended.UNSEEN).sum())
        note = "of incidents with an end" + (f"; {on:,} still on at the end of the lane" if on else "")
        if unit == "seconds":
            note += "; " + _times_in(waits.size, waits.size + untold, "incidents")
        counts = (waits.events, waits.size, "found")
        rows.append(
            _row("median reset", unit, _median(sums, waits), counts, note, 1 if unit == "events" else 1e-6)
        )
    return rows


def _resets(sums: _Sums, hit: Bits, group: Ints) -> list[tuple[str, Waits, int]]:
    board = sums.board
    known = board.incidents.group_by("incident").agg(pl.col("end_known").all()).sort("incident")
    mine = np.flatnonzero(hit & known["end_known"].to_numpy()) if hit.size else np.empty(0, dtype=np.int64)
    if not mine.size:
        none = Waits(mine, mine, mine)
        return [("events", none, 0), ("seconds", none, 0)]
    end = board.truth.end[sums.judged.detected[mine]]
    last = sums.judged.last[mine]
    starts = np.unique(board.sweep.lane_start)
    stops = np.concatenate([starts[1:] - 1, [board.at.size - 1]])
    stop = stops[np.searchsorted(starts, last, side="right") - 1]
    on = last >= stop
    off = np.where(last > end, np.minimum(last + 1, stop), end)
    events = Waits(np.maximum(last - end, 0), np.where(on & (last > end), 0, 1), group[mine])
    timed = (board.at[off] != NO_TIME) & (board.at[end] != NO_TIME)
    us = np.maximum(board.at[off[timed]] - board.at[end[timed]], 0)
    seconds = Waits(us, events.ended[timed], events.group[timed])
    return [("events", events, 0), ("seconds", seconds, int((~timed).sum()))]


def _median(sums: _Sums, waits: Waits) -> Interval:
    if not waits.size:
        return Interval(None, None, None, "none", 0, thin=True)
    ready = Sorted(waits)

    def median(weight: Floats) -> float:
        return quantile(ready.incidence(weight, by_group=True), 0.5)

    return statistic_interval(
        median, ready.groups, level=sums.looking.level, draws=sums.draws, seed=sums.seed
    )


def _worth(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The predictive value at a stated base rate; the table ``predictive`` has the curve."""
    named = {row["quantity"]: row for row in rows}
    false, hits = named["false-positive rate"], named["detection"]
    if false["value"] is None or not hits["of"]:
        return []
    told = predictive_values(
        clopper_pearson(hits["count"], hits["of"], 0.975),
        clopper_pearson(round(false["value"] * false["groups"]), false["groups"], 0.975),
        [BASE_RATE],
    ).row(0, named=True)
    limits = Interval(told["ppv"], told["ppv_low"], told["ppv_high"], "both_at_97.5", false["groups"])
    counts = (hits["count"], hits["of"], "incidents")
    name = f"predictive value at a base rate of {BASE_RATE:.0%}"
    return [_row(name, "share", limits, counts, "the base rate is yours to say, not that of the labels")]
