"""How long after its onset each incident is detected by one rule, where the onset is an interval.

The first event of the first lap lies between two events. A delay counted from the first of them is the longest that can
be true, from the last the shortest. What is reported under one number counts from the first: it flatters nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import polars as pl

from agentlens.calibrate.board import NONE
from agentlens.calibrate.delay import DELAYS, NEVER
from agentlens.calibrate.truth import NO_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.calibrate.board import Board, Ints, Judged

Onset = Literal["first", "last"]
ONSETS: Final[tuple[Onset, ...]] = ("first", "last")


def delay_events(board: Board, judged: Judged, onset: Onset = "first") -> Ints:
    """Events from the onset to the alert of each incident, in the lane of the alert; -1 where it is never detected.

    An alert inside the interval of the onset is 0 events from the last event that may be it.
    """
    row = judged.detected
    return np.where(row >= 0, np.maximum(row - _onset_of(board, row, onset), 0), NONE)


def delay_us(board: Board, judged: Judged, onset: Onset = "first") -> Ints:
    """Microseconds from the onset to the alert; -1 where it is never detected or one of the two has no time."""
    row = judged.detected
    began, seen = _at(board, _onset_of(board, row, onset)), _at(board, row)
    known = (row >= 0) & (began != NO_TIME) & (seen != NO_TIME)
    return np.where(known, np.maximum(np.where(known, seen - began, 0), 0), NONE)


def timed_incidents(board: Board) -> np.ndarray:
    """Which incidents lie in runs that have a time on every action (shape (incidents,), bool)."""
    return np.asarray(board.timed_runs[board.incident_runs()], dtype=np.bool_)


def watching(board: Board, onset: Onset = "first") -> tuple[Ints, Ints]:
    """Events and microseconds for which each incident was watched from its onset where a guard ended it, else for ever.

    An incident that was ended by a guard and has no times was watched for 0 microseconds that are known.
    """
    facts = _facts(board, onset)
    told = (
        facts.select(pl.when("guarded").then(pl.col(name).fill_null(0)).otherwise(int(NEVER)))
        for name in ("watched_events", "watched_us")
    )
    events, us = (frame.to_series().to_numpy().astype(np.int64) for frame in told)
    return events, us


def incident_delays(board: Board, cell: int, splits: Sequence[str], onset: Onset = "first") -> pl.DataFrame:
    """Delays of one cell (`agentlens.calibrate.delay.DELAYS`) over incidents whose onset is known, sorted.

    Parameters
    ----------
    board
        Labelled runs with their splits.
    cell
        Position of the rule in the sweep.
    splits
        Whose runs count.
    onset
        Which end of the onset's interval delays and watching count from.
    """
    judged, run = board.judged(cell), board.incident_runs()
    if not run.size:
        return DELAYS.to_frame()
    facts = _facts(board, onset)
    detected, timed = judged.detected >= 0, timed_incidents(board)
    frame = pl.DataFrame(
        {
            "run_id": facts["run_id"],
            "task_group": board.runs["task_group"].gather(run.tolist()),
            "detected": detected,
            "already": judged.already & ~detected,
            "guard_ended": facts["guarded"],
            "delay_events": delay_events(board, judged, onset),
            "delay_us": delay_us(board, judged, onset),
            "watched_events": facts["watched_events"],
            "watched_us": facts["watched_us"],
            "timed": timed,
        }
    )
    names = ("delay_events", "delay_us")
    frame = frame.with_columns(pl.when(pl.col(name) >= 0).then(name).alias(name) for name in names)
    mine = board.in_splits(splits)[run] & facts["onset_known"].to_numpy()
    return frame.filter(pl.Series(mine)).cast(dict(DELAYS)).sort("task_group", "run_id")  # type: ignore[arg-type]


def _facts(board: Board, onset: Onset) -> pl.DataFrame:
    """One row an incident: of the lanes it may be in, the longest that one of them was watched for."""
    rows = board.incidents.with_columns(
        began=pl.col("lo") if onset == "first" else pl.min_horizontal("hi", "watched")
    )
    began, seen = _at(board, rows["began"].to_numpy()), _at(board, rows["watched"].to_numpy())
    known = (began != NO_TIME) & (seen != NO_TIME)
    us = pl.Series(np.where(known, np.maximum(np.where(known, seen - began, 0), 0), NONE))
    return (
        rows.with_columns(us=us)
        .group_by("incident")
        .agg(
            pl.col("run_id").first(),
            pl.col("onset_known").all(),
            pl.col("observed_until").is_not_null().any().alias("guarded"),
            (pl.col("watched") - pl.col("began")).max().alias("watched_events"),
            pl.when(pl.col("us").min() >= 0).then(pl.col("us").max()).alias("watched_us"),
        )
        .sort("incident")
    )


def _onset_of(board: Board, row: Ints, onset: Onset) -> Ints:
    """Row of the onset in the lane of each detecting alert; it never lies after the alert."""
    where = (
        board.truth.onset if onset == "first" else np.minimum(board.truth.onset_hi, np.arange(board.at.size))
    )
    return np.asarray(where[row] if where.size else row, dtype=np.int64)


def _at(board: Board, row: Ints) -> Ints:
    return np.asarray(board.at[row] if board.at.size else row, dtype=np.int64)
