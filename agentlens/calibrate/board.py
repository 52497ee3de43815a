"""Alerts held against labels: what each rule got right, run by run and incident by incident (CALIBRATION 2.1, 2.2)."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agentlens.calibrate.truth import NO_TIME, Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.calibrate.sweep import Sweep
    from agentlens.calibrate.truth import Truth

Ints: TypeAlias = NDArray[np.int64]
Bits: TypeAlias = NDArray[np.bool_]
NONE = -1
ACTIVE_GAP_US = 300_000_000
"""Pauses count as active time up to five minutes."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What one cell does on the labelled runs; arrays by run, or by incident.

    ``alarmed``: a healthy run with an alert. ``doubted``: the same where an uncertain event counts as one.
    ``unsure``: a healthy run with an uncertain event. ``doubts``: first and last row of each stretch of uncertain
    events. ``false_alerts``: alerts on healthy events (healthy runs, healthy
    parts). ``first_true`` and ``first_false``: row
    of the first judged alert of a run where it is true, or false; -1 where it is not. ``detected``: row of the first
    alert inside an incident, -1: never. ``doubtful``: an incident with an uncertain event inside. ``alerts``: those
    inside it. ``last``: row of the last stuck event of those alerts, -1: none. ``reset``: events by which it outlives
    the incident. ``already``: the state was on when it began. ``late``: alerts after an incident's end.
    """

    alarmed: Bits
    doubted: Bits
    unsure: Bits
    doubts: tuple[Ints, Ints]
    false_alerts: Ints
    first_true: Ints
    first_false: Ints
    detected: Ints
    doubtful: Bits
    alerts: Ints
    last: Ints
    reset: Ints
    already: Bits
    late: int
    unlabelled: int


class Board:
    """Labelled runs with their groups and splits, and every cell's alerts on them.

    Parameters
    ----------
    sweep, truth
        Alerts, and labels over the same actions.
    runs
        ``run_id, task_group, split, state`` of labelled runs, sorted by run.
    """

    def __init__(self, sweep: Sweep, truth: Truth, runs: pl.DataFrame) -> None:
        self.sweep, self.truth = sweep, truth
        self.runs = runs
        rows = sweep.actions.select("run_id").join(
            runs.select("run_id").with_row_index("code"), on="run_id", how="left", maintain_order="left"
        )
        self.run_of_row: Ints = rows["code"].cast(pl.Int64).fill_null(NONE).to_numpy()
        self.group_of_run, self.groups = _coded(runs["task_group"])
        self.split_of_run = runs["split"].to_numpy()
        self.healthy: Bits = (runs["state"] == "healthy").to_numpy()
        self.at = _times(sweep.actions)
        self.order = _in_time(sweep.actions)
        self.incidents = truth.incidents
        self._ids, self._first_row = _first_rows(truth.incidents)
        self._at = sweep.alerts["cell"].to_numpy()
        self._doubt_at = sweep.doubts["cell"].to_numpy()
        self._columns = {n: sweep.alerts[n].to_numpy().astype(np.int64) for n in ("row", "onset", "last")}
        self._doubts = {n: sweep.doubts[n].to_numpy().astype(np.int64) for n in ("row", "last")}
        self.timed_runs = _timed(self.run_of_row, sweep.actions, runs.height)
        self._kept: dict[int, Judged] = {}

    def placed(self, splits: Sequence[str]) -> Board:
        """Return the same board with other splits, one name a run; what was judged is shared."""
        other = copy(self)
        other.split_of_run = np.asarray(splits)
        return other

    @property
    def incident_ids(self) -> Ints:
        """The incidents, in the order of `Judged.detected`."""
        return self._ids

    def incident_runs(self) -> Ints:
        """Run of each incident, as a position in ``runs``."""
        return self.run_of_row[self._first_row] if self._ids.size else np.empty(0, dtype=np.int64)

    def first_row(self) -> Ints:
        """Row of the onset of each incident, the earliest over the lanes it may be in."""
        return self._first_row

    def in_splits(self, splits: Sequence[str]) -> Bits:
        """Which runs are in these splits."""
        return np.isin(self.split_of_run, list(splits))

    def exposure(self, runs: Bits) -> dict[str, int]:
        """Healthy events of some runs and how many of those runs have them; the microseconds of those with times.

        ``wall_us``: from action to action; ``active_us``: the same, pauses cut to five minutes. They are of
        ``timed_runs`` of the ``runs``: those with a time on every action.
        """
        rows = np.flatnonzero(self.healthy_rows(runs))
        run = self.run_of_row[rows]
        timed = self.timed_runs[run]
        gaps = lane_gaps(self.sweep.actions)[rows[timed]]
        return {
            "events": rows.size,
            "runs": np.unique(run).size,
            "timed_runs": np.unique(run[timed]).size,
            "wall_us": int(gaps.sum()),
            "active_us": int(np.minimum(gaps, ACTIVE_GAP_US).sum()),
        }

    def healthy_rows(self, runs: Bits) -> Bits:
        """Which actions of some runs are asserted healthy."""
        rows = self.run_of_row >= 0
        rows &= np.isin(self.truth.place, [Place.HEALTHY_RUN, Place.HEALTHY_PART])
        rows[rows] = runs[self.run_of_row[rows]]
        return rows

    def judged(self, cell: int) -> Judged:
        """Hold one cell against the labels."""
        if cell not in self._kept:
            self._kept[cell] = self._judge(cell)
        return self._kept[cell]

    def _judge(self, cell: int) -> Judged:
        mine = slice(*np.searchsorted(self._at, [cell, cell + 1]))
        row, last = self._columns["row"][mine], self._columns["last"][mine]
        place, run = self.truth.place[row], self.run_of_row[row]
        false = ((place == Place.HEALTHY_RUN) | (place == Place.HEALTHY_PART)) & (run >= 0)
        true = (place == Place.INCIDENT) & (run >= 0)
        runs = self.runs.height
        false_alerts = np.bincount(run[false], minlength=runs)
        first_true, first_false = self._first(row, run, true, false)
        mine = slice(*np.searchsorted(self._doubt_at, [cell, cell + 1]))
        doubts = self._doubts["row"][mine], self._doubts["last"][mine]
        unsure, doubtful = self._unsure(*doubts)
        where = np.searchsorted(self._ids, self.truth.incident[row[true]])
        detected = np.full(self._ids.size, NONE, dtype=np.int64)
        reset = np.zeros(self._ids.size, dtype=np.int64)
        # alerts are sorted by row: written backwards, the first stays
        detected[where[::-1]] = row[true][::-1]
        np.maximum.at(reset, where, last[true] - self.truth.end[row[true]])
        latest = np.full(self._ids.size, NONE, dtype=np.int64)
        np.maximum.at(latest, where, last[true])
        return Judged(
            alarmed=(false_alerts > 0) & self.healthy,
            doubted=((false_alerts > 0) | unsure) & self.healthy,
            unsure=unsure & self.healthy,
            doubts=doubts,
            false_alerts=false_alerts,
            first_true=first_true,
            first_false=first_false,
            detected=detected,
            doubtful=doubtful,
            last=latest,
            alerts=np.bincount(where, minlength=self._ids.size),
            reset=np.maximum(reset, 0),
            already=self._already(row[false], last[false]),
            late=int((place == Place.LATE).sum()),
            unlabelled=int((place == Place.UNLABELLED).sum()),
        )

    def _first(self, row: Ints, run: Ints, true: Bits, false: Bits) -> tuple[Ints, Ints]:
        """First judged alert of each run, as true or false."""
        judged = true | false
        rows = row[judged]
        by_time = np.argsort(self.order[rows], kind="stable")[::-1]
        first = np.full(self.runs.height, NONE, dtype=np.int64)
        first[run[judged][by_time]] = rows[by_time]
        is_false = np.zeros(self.runs.height, dtype=bool)
        is_false[run[judged][by_time]] = false[judged][by_time]
        return np.where(is_false, NONE, first), np.where(is_false, first, NONE)

    def _unsure(self, row: Ints, last: Ints) -> tuple[Bits, Bits]:
        """Healthy runs, and incidents, in which some event of these stretches lies."""
        here = (self.truth.place == Place.HEALTHY_RUN) & (self.run_of_row >= 0)
        well = _count(here, row, last) > 0
        unsure = np.bincount(self.run_of_row[row[well]], minlength=self.runs.height) > 0
        some = _count(self.truth.place == Place.INCIDENT, row, last) > 0
        inside = [np.arange(a, b + 1) for a, b in zip(row[some].tolist(), last[some].tolist(), strict=True)]
        rows = np.concatenate([np.empty(0, dtype=np.int64), *inside])
        return unsure, np.isin(self._ids, self.truth.incident[rows[self.truth.place[rows] == Place.INCIDENT]])

    def _already(self, row: Ints, last: Ints) -> Bits:
        """Incidents that began while an earlier, false alert was still on."""
        on = np.zeros(self._ids.size, dtype=bool)
        long = last > row
        if not long.any() or not self._ids.size:
            return on
        lows = self.incidents.sort("lo")
        at = np.searchsorted(lows["lo"].to_numpy(), row[long], side="right")
        inside = at < lows.height
        nearest = lows[at[inside].tolist()]
        began = nearest["lo"].to_numpy() <= last[long][inside]
        on[np.searchsorted(self._ids, nearest["incident"].to_numpy()[began])] = True
        return on


def _coded(column: pl.Series) -> tuple[Ints, list[str]]:
    names = column.unique().sort().to_list()
    codes = column.replace_strict(names, list(range(len(names))), return_dtype=pl.Int64)
    return codes.to_numpy(), names


def _count(marked: Bits, row: Ints, last: Ints) -> Ints:
    """How many of the rows ``row..last`` are marked, per stretch."""
    so_far = np.concatenate([[0], np.cumsum(marked)])
    return np.asarray(so_far[last + 1] - so_far[row], dtype=np.int64)


def _times(actions: pl.DataFrame) -> Ints:
    """Times in microseconds, `NO_TIME` where they are not known."""
    return actions["at"].to_physical().fill_null(NO_TIME).to_numpy()


def _timed(run_of_row: Ints, actions: pl.DataFrame, runs: int) -> Bits:
    """Runs that have a time on every action."""
    unknown = actions["at"].is_null().to_numpy() & (run_of_row >= 0)
    acts = np.bincount(run_of_row[run_of_row >= 0], minlength=runs) > 0
    return np.asarray(acts & (np.bincount(run_of_row[unknown], minlength=runs) == 0), dtype=np.bool_)


def _in_time(actions: pl.DataFrame) -> Ints:
    """Rank of each action in time within its run; by lane and seq in runs where some time is not known."""
    row = pl.int_range(pl.len(), dtype=pl.Int64)
    at = pl.col("at").to_physical()
    key = pl.when(at.is_null().any().over("run_id")).then(row).otherwise(at)
    return actions.select(key.rank("ordinal").over("run_id").cast(pl.Int64)).to_series().to_numpy()


def lane_gaps(actions: pl.DataFrame) -> Ints:
    """Microseconds from the action before in the lane; 0 at its first and beside an action without a time."""
    at = pl.col("at").to_physical()
    gap = at.diff().over("run_id", "agent").fill_null(0).clip(0).cast(pl.Int64)
    return actions.select(gap).to_series().to_numpy()


def _first_rows(incidents: pl.DataFrame) -> tuple[Ints, Ints]:
    firsts = incidents.group_by("incident").agg(pl.col("lo").min()).sort("incident")
    return firsts["incident"].to_numpy(), firsts["lo"].to_numpy()
