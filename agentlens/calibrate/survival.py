"""Waiting times that end in an event, in something that rules it out, or not at all while watched.

The two curves behind acknowledgement limits, evidence windows and detection delays: the share still silent
(Kaplan-Meier) and the share that has had the event (Aalen-Johansen, which treats what rules the event out as
competing, not as censoring). Times are integers, so equal times are equal.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Floats: TypeAlias = NDArray[np.float64]


class Ended(IntEnum):
    """What ended a waiting time."""

    UNSEEN = 0  # observation ended first: censored
    EVENT = 1
    COMPETING = 2


@dataclass(frozen=True, slots=True)
class Waits:
    """Waiting times: ``time`` (integers from 0), ``ended`` (`Ended`), ``group`` (codes of clusters), all shape (n,)."""

    time: Ints
    ended: Ints
    group: Ints

    @property
    def size(self) -> int:
        """How many."""
        return int(self.time.size)

    @property
    def events(self) -> int:
        """How many ended in the event."""
        return int((self.ended == Ended.EVENT).sum())

    @property
    def groups(self) -> int:
        """How many clusters."""
        return int(np.unique(self.group).size)

    @property
    def last_event(self) -> int | None:
        """The longest wait that ended in the event; None without any."""
        hits = self.time[self.ended == Ended.EVENT]
        return int(hits.max()) if hits.size else None

    @property
    def is_complete(self) -> bool:
        """Whether nothing was censored before the last event, so that events alone are a plain sample."""
        last = self.last_event
        return last is None or not ((self.ended == Ended.UNSEEN) & (self.time < last)).any()


@dataclass(frozen=True, slots=True)
class Incidence:
    """Curves as steps: values hold from ``at[j]`` on; before ``at[0]`` silent is 1 and reached is 0.

    ``at_risk``, ``events``: (weighted) counts at each time. ``silent``: share with neither the event nor what
    competes with it. ``reached``: share that has had the event. ``greenwood``: the sum in Greenwood's formula.
    """

    at: Ints
    at_risk: Floats
    events: Floats
    silent: Floats
    reached: Floats
    greenwood: Floats

    @property
    def never(self) -> float:
        """Share silent at the end of the curve."""
        return float(self.silent[-1]) if self.silent.size else 1.0

    @property
    def ever(self) -> float:
        """Share that has had the event at the end of the curve."""
        return float(self.reached[-1]) if self.reached.size else 0.0

    def silent_at(self, time: float) -> float:
        """Share still silent after ``time``."""
        return _step(self.at, self.silent, time, 1.0)

    def reached_at(self, time: float) -> float:
        """Share that has had the event by ``time``, included."""
        return _step(self.at, self.reached, time, 0.0)

    @property
    def remaining(self) -> Floats:
        """Of those that ever have the event, the share that has not had it yet, per time (S0); zeros if none."""
        if self.ever <= 0:
            return np.zeros_like(self.reached)
        return np.clip(1 - self.reached / self.ever, 0, 1)

    def remaining_at(self, time: float) -> float:
        """S0 after ``time``."""
        return 1 - self.reached_at(time) / self.ever if self.ever > 0 else 0.0


def _step(at: Ints, values: Floats, time: float, before: float) -> float:
    index = int(np.searchsorted(at, time, side="right")) - 1
    return before if index < 0 else float(values[index])


def incidence(waits: Waits, weight: Floats | None = None) -> Incidence:
    """Kaplan-Meier and Aalen-Johansen estimates; ``weight`` (shape (n,)) counts each wait so many times.

    Waits censored at a time are still at risk at that time.

    Examples
    --------
    >>> waits = Waits(np.array([1, 2, 2, 4]), np.array([1, 1, 0, 1]), np.arange(4))
    >>> incidence(waits).silent.round(3).tolist()
    [0.75, 0.5, 0.0]
    """
    return Sorted(waits).incidence(weight)


class Sorted:
    """Waits sorted once, for many weighted curves over the same times."""

    def __init__(self, waits: Waits) -> None:
        order = np.argsort(waits.time, kind="stable")
        self.at, self._first = np.unique(waits.time[order], return_index=True)
        self._event = (waits.ended[order] == Ended.EVENT).astype(np.float64)
        self._other = (waits.ended[order] == Ended.COMPETING).astype(np.float64)
        _, codes = np.unique(waits.group, return_inverse=True)
        self.group = codes[order]
        self.groups = int(codes.max()) + 1 if codes.size else 0

    def incidence(self, weight: Floats | None = None, *, by_group: bool = False) -> Incidence:
        """Curves under weights per wait (in the order given) or, ``by_group``, per cluster code."""
        none = np.zeros(0)
        if not self.at.size:
            return Incidence(self.at, none, none, none, none, none)
        w = np.ones(self._event.size) if weight is None else weight[self.group] if by_group else weight
        events: Floats = np.add.reduceat(w * self._event, self._first)
        gone = events + np.add.reduceat(w * self._other, self._first)
        at_risk = np.cumsum(np.add.reduceat(w, self._first)[::-1])[::-1]
        risk = np.where(at_risk > 0, at_risk, 1.0)
        silent = np.cumprod(1 - gone / risk).astype(np.float64)
        before = np.concatenate([[1.0], silent[:-1]])
        left = np.where(at_risk > gone, at_risk - gone, np.inf)
        return Incidence(
            self.at,
            at_risk.astype(np.float64),
            events,
            silent,
            np.cumsum(before * events / risk).astype(np.float64),
            np.cumsum(gone / (risk * left)).astype(np.float64),
        )


def silent_band(waits: Waits, level: float = 0.95) -> tuple[Floats, Floats]:
    """Two-sided log-log band of the silent share at the times of `incidence` (SciPy's ``ecdf``).

    Where the band is undefined (nothing has ended yet, or everything has) it is the estimate itself.
    """
    gone = waits.ended != Ended.UNSEEN
    data = stats.CensoredData(uncensored=waits.time[gone], right=waits.time[~gone])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        curve = stats.ecdf(data).sf
        band = curve.confidence_interval(level, method="log-log")
    low, high = (
        np.where(np.isnan(side.probabilities), curve.probabilities, side.probabilities)
        for side in (band.low, band.high)
    )
    return low, high
