"""Rates of every cell on some splits, each with its counts and an interval (CALIBRATION 2.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agentlens.calibrate.bootstrap import rate_interval
from agentlens.calibrate.certificate import bet_limit
from agentlens.calibrate.delay import quantile, restricted_mean
from agentlens.calibrate.incident_delays import delay_events, delay_us, timed_incidents, watching
from agentlens.calibrate.intervals import THIN_CELL, clopper_pearson, garwood, mcnemar
from agentlens.calibrate.survival import Incidence, Waits, incidence

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from agentlens.calibrate.board import Bits, Board, Ints, Judged

Floats: TypeAlias = NDArray[np.float64]
_HOUR_US = 3_600_000_000

RATES = pl.Schema(
    {
        "cell": pl.Int32(),
        "rule": pl.String(),
        "settings": pl.Int64(),
        "evidence": pl.String(),
        "thresholds": pl.List(pl.Int64),
        "healthy_runs": pl.Int64(),
        "healthy_groups": pl.Int64(),
        "alarmed_runs": pl.Int64(),
        "fpr": pl.Float64(),
        "fpr_low": pl.Float64(),
        "fpr_high": pl.Float64(),
        "fpr_if_uncertain": pl.Float64(),
        "uncertain_runs": pl.Int64(),
        "healthy_events": pl.Int64(),
        "false_alerts": pl.Int64(),
        "per_1000_events": pl.Float64(),
        "per_1000_low": pl.Float64(),
        "per_1000_high": pl.Float64(),
        "per_1000_method": pl.String(),
        "exposed_runs": pl.Int64(),
        "timed_runs": pl.Int64(),
        "per_active_hour": pl.Float64(),
        "per_wall_hour": pl.Float64(),
        "incidents": pl.Int64(),
        "incidents_with_onset": pl.Int64(),
        "detected": pl.Int64(),
        "detection": pl.Float64(),
        "detection_low": pl.Float64(),
        "detection_high": pl.Float64(),
        "detection_if_uncertain": pl.Float64(),
        "detected_within": pl.Int64(),
        "detection_within": pl.Float64(),
        "detection_within_low": pl.Float64(),
        "median_delay_events": pl.Int64(),
        "median_delay_events_last": pl.Int64(),
        "restricted_delay_events": pl.Float64(),
        "timed_incidents": pl.Int64(),
        "median_delay_us": pl.Int64(),
        "alerts_per_incident": pl.Float64(),
        "median_reset_events": pl.Int64(),
        "already_on": pl.Int64(),
        "late_alerts": pl.Int64(),
        "unlabelled_alerts": pl.Int64(),
        "alarms": pl.Int64(),
        "false_alarms": pl.Int64(),
        "true_alarms": pl.Int64(),
        "false_share": pl.Float64(),
        "false_share_low": pl.Float64(),
        "false_share_high": pl.Float64(),
        "mean_alarm_step": pl.Float64(),
        "only_this_false": pl.Int64(),
        "only_incumbent_false": pl.Int64(),
        "mcnemar_false": pl.Float64(),
        "only_this_detected": pl.Int64(),
        "only_incumbent_detected": pl.Int64(),
        "mcnemar_detected": pl.Float64(),
        "thin": pl.Boolean(),
    }
)
"""One row a cell.

``fpr``: mean over task groups of alarmed healthy runs over healthy runs. Its interval is exact where every group has
one healthy run, else the inverted mixture bet. ``fpr_if_uncertain``: the same, an uncertain event counting as an
alert, and ``uncertain_runs`` those that have one. ``per_*``: false alerts over healthy exposure; per hour over the
``timed_runs`` of the ``exposed_runs`` that have a time on every action.
``detection``: incidents with an alert inside; ``_within``: at
most that many events after the onset (null where no onset is known), by Kaplan-Meier where a guard ended an
incident before that; its lower limit takes such ones as misses. Medians and the restricted mean count a miss as
never: null where the median is never. Delays count from the first event that may be the onset, ``_last`` from the last;
in microseconds they are of ``timed_incidents``, those in runs with times.
``alarms``: runs whose first judged alert is true or false; ``false_share`` is
their ratio. ``mean_alarm_step`` counts the lane's actions from 0. ``only_*``: discordant task groups (false) and
incidents (detected) against the incumbent, with the exact McNemar p-value. ``thin``: below 20 healthy runs or
incidents.
"""


@dataclass(frozen=True, kw_only=True)
class Looking:
    """How rates are made: ``within_events`` is D of detection@D, ``longest_*`` cuts the restricted means."""

    within_events: int = 20
    longest_events: int = 100
    longest_s: int = 3_600
    level: float = 0.95


def rates(
    board: Board,
    splits: Sequence[str],
    *,
    incumbent: int,
    looking: Looking | None = None,
    detailed: Collection[int] = (),
    only: Sequence[int] | None = None,
    seed: int = 0,
) -> pl.DataFrame:
    """Give `RATES` of all cells (or ``only`` some) on some splits.

    ``detailed``: cells whose alerts per exposure get a cluster bootstrap where there are ten alerts or more; the
    others get an interval below ten alerts only.
    """
    looking = looking or Looking()
    kept = board.in_splits(splits)
    cells = range(len(board.sweep.cells)) if only is None else only
    common = _Common(board, kept, board.judged(incumbent))
    rows = [_row(common, cell, looking, seed if cell in detailed else None) for cell in cells]
    return pl.DataFrame(rows, schema=RATES, orient="row")


class _Common:
    """What the rows of one table share."""

    def __init__(self, board: Board, kept: Bits, incumbent: Judged) -> None:
        self.board, self.kept, self.incumbent = board, kept, incumbent
        self.healthy = board.healthy & kept
        self.sizes = np.bincount(board.group_of_run[self.healthy], minlength=len(board.groups))
        self.exposure = board.exposure(kept)
        runs = board.incident_runs()
        self.incidents: Bits = kept[runs] if runs.size else np.empty(0, dtype=bool)
        known = board.incidents.group_by("incident").agg(pl.col("onset_known").all()).sort("incident")
        self.known = self.incidents & known["onset_known"].to_numpy()
        ends = board.incidents.group_by("incident").agg(pl.col("end_known").all()).sort("incident")
        self.ended: Bits = ends["end_known"].to_numpy().astype(np.bool_)
        self.watched, (self.watched_last, _) = watching(board), watching(board, "last")
        self.lane_start = board.sweep.lane_start

    def losses(self, alarmed: Bits) -> Floats:
        """Share of alarming healthy runs of each group that has any."""
        return group_losses(self.board, self.healthy, alarmed)


def group_losses(board: Board, healthy: Bits, alarmed: Bits) -> Floats:
    """Share of alarming runs among the healthy runs of each task group that has any, by group."""
    sizes = np.bincount(board.group_of_run[healthy], minlength=len(board.groups))
    hits = np.bincount(board.group_of_run[healthy & alarmed], minlength=len(board.groups))
    some = sizes > 0
    return np.asarray(hits[some] / sizes[some], dtype=np.float64)


def _row(common: _Common, cell: int, looking: Looking, seed: int | None) -> dict[str, Any]:
    board, judged = common.board, common.board.judged(cell)
    one = board.sweep.cells[cell]
    runs, found = int(common.healthy.sum()), int(common.incidents.sum())
    return {
        "cell": cell,
        "rule": one.text,
        "settings": len(one.settings),
        "evidence": one.rule.evidence,
        "thresholds": list(one.rule.thresholds),
        **_false_runs(common, judged, looking),
        **_false_alerts(common, judged, looking, seed),
        **_detection(common, judged, looking),
        **_alarms(common, judged, looking),
        **_paired(common, judged),
        "already_on": int(judged.already[common.incidents].sum()),
        "late_alerts": judged.late,
        "unlabelled_alerts": judged.unlabelled,
        "thin": runs < THIN_CELL or found < THIN_CELL,
    }


def _false_runs(common: _Common, judged: Judged, looking: Looking) -> dict[str, Any]:
    losses = common.losses(judged.alarmed)
    low, high = mean_interval(losses, common.sizes, looking.level)
    doubted = common.losses(judged.doubted)
    return {
        "healthy_runs": int(common.healthy.sum()),
        "healthy_groups": losses.size,
        "alarmed_runs": int((judged.alarmed & common.healthy).sum()),
        "fpr": float(losses.mean()) if losses.size else None,
        "fpr_low": low,
        "fpr_high": high,
        "fpr_if_uncertain": float(doubted.mean()) if doubted.size else None,
        "uncertain_runs": int((judged.unsure & common.healthy).sum()),
    }


def mean_interval(losses: Floats, sizes: Ints, level: float) -> tuple[float | None, float | None]:
    """Interval of a group-averaged rate: exact with one run a group, else the mixture bet inverted on both sides."""
    if not losses.size:
        return None, None
    if sizes.max() <= 1:
        rate = clopper_pearson(int(losses.sum()), losses.size, level)
        return rate.low, rate.high
    tail = (1 - level) / 2
    return 1 - bet_limit(1 - losses, tail), bet_limit(losses, tail)


def _false_alerts(common: _Common, judged: Judged, looking: Looking, seed: int | None) -> dict[str, Any]:
    board, spent = common.board, common.exposure
    alerts = np.where(common.kept, judged.false_alerts, 0)
    total, events = int(alerts.sum()), spent["events"]
    timed = int(alerts[board.timed_runs].sum())
    low: float | None = None
    high: float | None = None
    method = "none"
    if seed is not None and events:
        by_group = np.bincount(board.group_of_run, weights=alerts, minlength=len(board.groups))
        exposed = _events_by_group(common)
        some = exposed > 0
        interval = rate_interval(by_group[some], exposed[some], level=looking.level, seed=seed)
        low, high, method = interval.low, interval.high, interval.method
    elif events and total < 10:
        rate = garwood(total, events, looking.level)
        low, high, method = rate.low, rate.high, "poisson"
    return {
        "healthy_events": events,
        "false_alerts": total,
        "per_1000_events": 1000 * total / events if events else None,
        "per_1000_low": None if low is None else 1000 * low,
        "per_1000_high": None if high is None else 1000 * high,
        "per_1000_method": method,
        "exposed_runs": spent["runs"],
        "timed_runs": spent["timed_runs"],
        "per_active_hour": timed * _HOUR_US / spent["active_us"] if spent["active_us"] else None,
        "per_wall_hour": timed * _HOUR_US / spent["wall_us"] if spent["wall_us"] else None,
    }


def _events_by_group(common: _Common) -> Floats:
    board = common.board
    rows = board.healthy_rows(common.kept)
    groups = board.group_of_run[board.run_of_row[rows]]
    return np.bincount(groups, minlength=len(board.groups)).astype(np.float64)


def delays(board: Board, judged: Judged) -> Ints:
    """Events from the onset's first possible event to the alert of each incident; -1 where it is never detected."""
    return delay_events(board, judged)


def _detection(common: _Common, judged: Judged, looking: Looking) -> dict[str, Any]:
    board, mine, known = common.board, common.incidents, common.known
    hit = (judged.detected >= 0) & mine
    total, found = int(mine.sum()), int(hit.sum())
    interval = clopper_pearson(found, total, looking.level)
    delay = delays(board, judged)[known]
    curve = _curve(delay, common.watched[0][known])
    within = int(((delay >= 0) & (delay <= looking.within_events)).sum())
    # ended by a guard before D: nobody knows whether it would have been found by then
    unseen = ((delay < 0) & (common.watched[0][known] < looking.within_events)).any()
    soon = clopper_pearson(within, delay.size, looking.level)
    alerts, last = judged.alerts[hit], delay_events(board, judged, "last")
    ended = hit & common.ended
    either = int((((judged.detected >= 0) | judged.doubtful) & mine).sum())
    timed = known & timed_incidents(board) if known.size else known
    return {
        "incidents": total,
        "incidents_with_onset": int(known.sum()),
        "detected": found,
        "detection": interval.value,
        "detection_low": interval.low,
        "detection_high": interval.high,
        "detection_if_uncertain": either / total if total else None,
        "detected_within": within if delay.size else None,
        "detection_within": curve.reached_at(looking.within_events) if unseen else soon.value,
        "detection_within_low": soon.low,
        "median_delay_events": _median(curve),
        "restricted_delay_events": restricted_mean(curve, looking.longest_events) if delay.size else None,
        "median_delay_events_last": _median(_curve(last[known], common.watched_last[known])),
        "timed_incidents": int(timed.sum()),
        "median_delay_us": _median(_curve(delay_us(board, judged)[timed], common.watched[1][timed])),
        "alerts_per_incident": float(alerts.mean()) if alerts.size else None,
        "median_reset_events": int(np.median(judged.reset[ended])) if ended.any() else None,
    }


def _curve(delay: Ints, watched: Ints) -> Incidence:
    """Share detected within each delay; what a guard ended before any alert is censored, every other miss is never."""
    seen = delay >= 0
    return incidence(Waits(np.where(seen, delay, watched), seen.astype(np.int64), np.arange(delay.size)))


def _median(curve: Incidence) -> int | None:
    """Smallest delay within which half are detected; None where that is never, and without incidents."""
    half = quantile(curve, 0.5)
    return None if math.isinf(half) else int(half)


def _alarms(common: _Common, judged: Judged, looking: Looking) -> dict[str, Any]:
    true, false = judged.first_true[common.kept], judged.first_false[common.kept]
    rows = np.concatenate([true[true >= 0], false[false >= 0]])
    wrong = int((false >= 0).sum())
    share = clopper_pearson(wrong, rows.size, looking.level)
    return {
        "alarms": rows.size,
        "false_alarms": wrong,
        "true_alarms": rows.size - wrong,
        "false_share": share.value,
        "false_share_low": share.low,
        "false_share_high": share.high,
        "mean_alarm_step": float((rows - common.lane_start[rows]).mean()) if rows.size else None,
    }


def _paired(common: _Common, judged: Judged) -> dict[str, Any]:
    board, other = common.board, common.incumbent
    groups = len(board.groups)
    mine = np.bincount(board.group_of_run[judged.alarmed & common.healthy], minlength=groups) > 0
    theirs = np.bincount(board.group_of_run[other.alarmed & common.healthy], minlength=groups) > 0
    hit = (judged.detected >= 0) & common.incidents
    their_hit = (other.detected >= 0) & common.incidents
    false = int((mine & ~theirs).sum()), int((theirs & ~mine).sum())
    found = int((hit & ~their_hit).sum()), int((their_hit & ~hit).sum())
    return {
        "only_this_false": false[0],
        "only_incumbent_false": false[1],
        "mcnemar_false": mcnemar(*false),
        "only_this_detected": found[0],
        "only_incumbent_detected": found[1],
        "mcnemar_detected": mcnemar(*found),
    }
