"""The exact sweep: every rule of the grid from one pass over the events (CALIBRATION section 3).

The stretches ``S_p`` of every event are found once per evidence mode. A rule then only compares them with its
thresholds, on the few events where some stretch is two laps long; what goes before the cycle condition (leases,
retries, hard failures, what was not reachable) is the same for every rule and is masked once. The results equal
those of `agentlens.detect.loops` and `agentlens.detect.episodes` run rule by rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agentlens.calibrate.sweep_episodes import LaneFacts, starts_of_episodes
from agentlens.detect import cycles
from agentlens.detect.hard_lanes import fill_unknown
from agentlens.detect.lanes import LANE, in_lanes
from agentlens.detect.loops import loops
from agentlens.detect.rules import Evidence, Rule
from agentlens.model.enums import Kind, Outcome, Reason, Verdict
from agentlens.model.event import ACTIONS, TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agentlens.calibrate.grid import Cell, Key
    from agentlens.detect.policies import Policies

Ints: TypeAlias = NDArray[np.int32]
Bits: TypeAlias = NDArray[np.bool_]

ACTION_ROWS = pl.Schema(
    {"run_id": pl.String(), "agent": pl.String(), "seq": pl.Int64(), "at": TIME, "ended_at": TIME}
)
ALERTS = pl.Schema(
    {"cell": pl.Int32(), "row": pl.Int32(), "onset": pl.Int32(), "last": pl.Int32(), "period": pl.Int32()}
)
DOUBTS = pl.Schema({"cell": pl.Int32(), "row": pl.Int32(), "last": pl.Int32()})
TOTALS = pl.Schema(
    {"cell": pl.Int32(), "alerts": pl.Int64(), "stuck_events": pl.Int64(), "uncertain_events": pl.Int64()}
)
_NEVER = 2**30


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What every cell does on these events.

    ``cells``: the classes, in order; ``cell`` in the frames is the position in it. ``actions`` (`ACTION_ROWS`):
    one row an action, sorted by lane and seq; ``row``, ``onset`` and ``last`` in the frames are positions in it.
    ``alerts`` (`ALERTS`): one row an episode: its alert, the first event of its first lap, its last stuck event
    and its period. ``doubts`` (`DOUBTS`): one row a stretch of uncertain events of one lane, its first and its last.
    ``totals`` (`TOTALS`): one row a cell.
    """

    cells: tuple[Cell, ...]
    actions: pl.DataFrame
    alerts: pl.DataFrame
    doubts: pl.DataFrame
    totals: pl.DataFrame

    @cached_property
    def lane_start(self) -> NDArray[np.int64]:
        """Row of the first action of each action's lane."""
        changes = (pl.col(name).ne_missing(pl.col(name).shift(1)) for name in LANE)
        opens = self.actions.select(pl.any_horizontal(changes)).to_series().to_numpy()
        return np.maximum.accumulate(np.where(opens, np.arange(self.actions.height), 0))

    def of(self, cell: int) -> pl.DataFrame:
        """Alerts of one cell with the run, lane, seq and time of alert and onset."""
        mine = self.alerts.filter(pl.col("cell") == cell)
        at = self.actions[mine["row"].to_list()]
        begun = self.actions[mine["onset"].to_list()].select(
            pl.col("seq").alias("onset_seq"), pl.col("at").alias("onset_at")
        )
        return pl.concat([mine, at, begun], how="horizontal")


def sweep(
    parts: Iterable[pl.LazyFrame],
    cells: Sequence[Cell],
    *,
    policies: Policies | None = None,
    actions: Sequence[str] = ACTIONS,
) -> Sweep:
    """Try every cell on every part (whole runs each, such as the buckets of a lake).

    Parameters
    ----------
    parts
        Event tables that hold disjoint runs.
    cells
        From `agentlens.calibrate.grid.classes`.
    policies, actions
        As for `agentlens.detect.loops`.
    """
    keys = [cell.key for cell in cells]
    found = [_part(events, keys, policies, actions) for events in parts]
    offset = 0
    alerts, doubts = [ALERTS.to_frame()], [DOUBTS.to_frame()]
    totals = np.zeros((len(cells), 3), dtype=np.int64)
    for part in found:
        shift = pl.lit(offset, dtype=pl.Int32)
        alerts.append(part.alerts.with_columns(pl.col("row", "onset", "last") + shift))
        doubts.append(part.doubts.with_columns(pl.col("row", "last") + shift))
        totals += part.totals
        offset += part.actions.height
    return Sweep(
        cells=tuple(cells),
        actions=pl.concat([ACTION_ROWS.to_frame(), *(part.actions for part in found)]),
        alerts=pl.concat(alerts).sort("cell", "row"),
        doubts=pl.concat(doubts).sort("cell", "row"),
        totals=pl.DataFrame(
            {"cell": np.arange(len(cells)), **dict(zip(list(TOTALS)[1:], totals.T, strict=True))}
        ).cast(TOTALS),
    )


@dataclass(frozen=True, kw_only=True)
class _Part:
    actions: pl.DataFrame
    alerts: pl.DataFrame
    doubts: pl.DataFrame
    totals: NDArray[np.int64]


def _part(
    events: pl.LazyFrame, keys: Sequence[Key], policies: Policies | None, actions: Sequence[str]
) -> _Part:
    held = events.collect()
    lanes = in_lanes(held.lazy(), actions).collect()
    facts = LaneFacts(lanes, _passed_before(held, lanes))
    masked, unreachable = _masked(lanes, policies)
    totals = np.zeros((len(keys), 3), dtype=np.int64)
    none = np.empty(0, dtype=np.int32)
    alerts: list[tuple[Ints, ...]] = [(none,) * 4] * len(keys)
    doubts: list[tuple[Ints, ...]] = [(none,) * 2] * len(keys)
    modes: dict[tuple[Evidence, int | None], list[int]] = {}
    for number, key in enumerate(keys):
        modes.setdefault(key[:2], []).append(number)
    for (evidence, gap), numbers in modes.items():
        longest = max(len(keys[n][2]) for n in numbers)
        scores = Scores.of(lanes, longest, evidence, gap, masked)
        for n in numbers:
            stuck, period, stretch = scores.stuck(keys[n][2], keys[n][3])
            uncertain = scores.uncertain(keys[n][2], keys[n][3])
            begins, last = starts_of_episodes(facts, stuck, period, stretch)
            totals[n] = begins.size, stuck.size, uncertain.size + unreachable.size
            alerts[n] = stuck[begins], (stuck - stretch + 1)[begins], last, period[begins]
            doubts[n] = stretches(np.union1d(uncertain, unreachable), facts.start)
    return _Part(
        actions=lanes.select(list(ACTION_ROWS)),
        alerts=_frame(ALERTS, alerts),
        doubts=_frame(DOUBTS, doubts),
        totals=totals,
    )


def stretches(rows: Ints | NDArray[np.int64], lane_start: Ints | NDArray[np.int64]) -> tuple[Ints, Ints]:
    """First and last row of each stretch of neighbours of one lane, of sorted rows.

    Examples
    --------
    >>> first, last = stretches(np.array([1, 2, 3, 4, 8]), np.array([0, 0, 0, 3, 3, 3, 3, 3, 3]))
    >>> first.tolist(), last.tolist()
    ([1, 3, 8], [2, 4, 8])
    """
    if not rows.size:
        return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
    breaks = np.flatnonzero((np.diff(rows) != 1) | (np.diff(lane_start[rows]) != 0))
    first, last = np.concatenate([[0], breaks + 1]), np.concatenate([breaks, [rows.size - 1]])
    return rows[first].astype(np.int32), rows[last].astype(np.int32)


def _frame(schema: pl.Schema, pieces: Sequence[tuple[Ints, ...]]) -> pl.DataFrame:
    """Columns after ``cell``, one piece a cell, as one frame."""
    names = list(schema)[1:]
    columns = {"cell": np.repeat(np.arange(len(pieces), dtype=np.int32), [piece[0].size for piece in pieces])}
    for place, name in enumerate(names):
        columns[name] = np.concatenate([np.empty(0, dtype=np.int32), *(piece[place] for piece in pieces)])
    return pl.DataFrame(columns, schema=schema)


def _masked(lanes: pl.DataFrame, policies: Policies | None) -> tuple[Bits, Ints]:
    """Actions whose verdict no cycle decides, and the uncertain ones among them; a rule that never holds tells."""
    judged = loops(lanes.lazy(), Rule(thresholds=(_NEVER,)), policies, actions=(Kind.TOOL,)).collect()
    masked = (judged["verdict"] != str(Verdict.WORKING)).to_numpy()
    unreachable = judged["reason"].eq_missing(str(Reason.UNREACHABLE)).to_numpy()
    return masked, np.flatnonzero(unreachable).astype(np.int32)


def _passed_before(events: pl.DataFrame, lanes: pl.DataFrame) -> Bits:
    """Whether an outside judgement ``passed`` lies between this action and the one before in its lane."""
    before = np.zeros(lanes.height, dtype=bool)
    if not {"kind", "outcome"} <= set(events.columns):
        return before
    passed = events.lazy().filter(
        pl.col("kind").eq_missing(str(Kind.VERDICT)) & pl.col("outcome").eq_missing(str(Outcome.PASSED))
    )
    agent = pl.col("agent").fill_null("") if "agent" in events.columns else pl.lit("").alias("agent")
    given = passed.select("run_id", agent, "seq").collect()
    if given.is_empty():
        return before
    rows = lanes.select(*LANE, "seq", "row").sort("seq")
    after = given.sort("seq").join_asof(
        rows, on="seq", by=list(LANE), strategy="forward", check_sortedness=False
    )
    before[after["row"].drop_nulls().to_numpy()] = True
    return before


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Stretches of the actions where some rule may hold.

    ``rows``: their positions. ``low``: ``S_lo`` by period and row. ``best``: ``low``'s running maximum over periods.
    ``so_far``: actions of the lane up to each. ``soft``: which of them have an unknown, with their ``high``.
    """

    rows: Ints
    low: Ints
    best: Ints
    so_far: Ints
    soft: Ints
    high: Ints
    _periods: dict[int, Ints] = field(default_factory=dict)

    @classmethod
    def of(
        cls, lanes: pl.DataFrame, max_period: int, evidence: Evidence, max_gap_us: int | None, masked: Bits
    ) -> Scores:
        """Find the stretches of all actions and keep those that are two laps long for some period."""
        gap = None if max_gap_us is None else max_gap_us / 1_000_000
        rule = Rule(
            thresholds=tuple(2 * p for p in range(1, max_period + 1)), evidence=evidence, max_gap_s=gap
        )
        periods = range(1, max_period + 1)
        known = cycles.with_lengths(lanes.lazy(), rule).with_columns(
            pl.col(f"S_{p}").alias(f"H_{p}") for p in periods
        )
        hot = pl.any_horizontal(pl.col(f"H_{p}") >= 2 * p for p in periods)
        filled = fill_unknown(known.collect(), rule=rule).lazy().filter(hot & ~pl.Series("masked", masked))
        kept = filled.select("row", "start", pl.col("^[SH]_[0-9]+$")).collect()
        rows = kept["row"].to_numpy().astype(np.int32)
        low = _matrix(kept, "S", max_period)
        high = _matrix(kept, "H", max_period)
        soft = np.flatnonzero((high != low).any(axis=0)).astype(np.int32)
        return cls(
            rows=rows,
            low=low,
            best=np.maximum.accumulate(low, axis=0),
            so_far=rows - kept["start"].to_numpy() + 1,
            soft=soft,
            high=high[:, soft],
        )

    def stuck(self, thresholds: tuple[int, ...], heads: tuple[int, ...] | None) -> tuple[Ints, Ints, Ints]:
        """Rows where the cycle condition holds, with the loop's period and its stretch."""
        longest = len(thresholds)
        if heads is None and thresholds[0] == thresholds[-1]:
            at = np.flatnonzero(self.best[longest - 1] >= thresholds[0])
            period = self._first_period(thresholds[0])[at]
        else:
            least = min(thresholds[0], heads[0]) if heads else thresholds[0]
            near = np.flatnonzero(self.best[longest - 1] >= least)
            found = _period(self.low, near, self.so_far, thresholds, heads)
            at = near[found > 0]
            period = found[found > 0]
        return self.rows[at], period, self.low[period - 1, at]

    def _first_period(self, threshold: int) -> Ints:
        """Smallest period whose stretch reaches a threshold that is the same for all; kept, since many rules ask."""
        if threshold not in self._periods:
            # every period's running maximum tells from which period on the threshold is reached
            self._periods[threshold] = (self.best < threshold).sum(axis=0, dtype=np.int32) + 1
        return self._periods[threshold]

    def uncertain(self, thresholds: tuple[int, ...], heads: tuple[int, ...] | None) -> Ints:
        """Rows where some completion of the unknowns would make it hold, and some would not."""
        if not self.soft.size:
            return self.soft
        low = _period(self.low, self.soft, self.so_far, thresholds, heads) > 0
        places = np.arange(self.soft.size)
        high = _period(self.high, places, self.so_far[self.soft], thresholds, heads) > 0
        return self.rows[self.soft[high & ~low]]


def _period(
    stretch: Ints,
    at: NDArray[np.intp] | Ints,
    so_far: Ints,
    thresholds: tuple[int, ...],
    heads: tuple[int, ...] | None,
) -> Ints:
    """Smallest period for which the condition holds, 0 where there is none, at some columns of `stretch`."""
    period = np.zeros(at.size, dtype=np.int32)
    whole = so_far[at] if heads is not None else None
    for p in range(len(thresholds), 0, -1):
        mine = stretch[p - 1][at]
        hold = mine >= thresholds[p - 1]
        if heads is not None and whole is not None:
            hold |= (mine == whole) & (whole >= heads[p - 1])
        period[hold] = p
    return period


def _matrix(frame: pl.DataFrame, kind: str, max_period: int) -> Ints:
    columns = [frame[f"{kind}_{p}"].to_numpy() for p in range(1, max_period + 1)]
    return np.stack(columns).astype(np.int32, copy=False)
