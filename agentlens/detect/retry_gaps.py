"""How long a retry policy waits, and streaks whose policy changes from attempt to attempt (SPEC section 3, line 4)."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

TOLERANCE_US: Final = 1
"""An observed gap may be this much shorter than the policy asks."""

_Float = npt.NDArray[np.float64]
_Bool = npt.NDArray[np.bool_]


def least_gap_us(
    k: _Float, interval_s: _Float, backoff_rate: _Float, max_delay_s: _Float, jitter: _Float
) -> _Float:
    """``min(interval_s * backoff_rate**(k-2), max_delay_s) * (1 - jitter)`` in microseconds; NaN is not known."""
    jitter = np.where(np.isnan(jitter), 0.0, jitter)
    with np.errstate(all="ignore"):
        delay = np.where(interval_s == 0, 0.0, interval_s * np.power(backoff_rate, k - 2))
        delay = np.where(np.isnan(max_delay_s), delay, np.minimum(delay, max_delay_s))
        least = np.where(jitter == 1, 0.0, delay * (1.0 - jitter)) * 1e6
    return np.where((jitter > 1) | np.isnan(backoff_rate) | np.isnan(interval_s), np.nan, least)


def kept_by_newest(streak: pl.DataFrame) -> _Bool:
    """Whether all attempts of one streak up to each keep the policy of that one; false for the first.

    Parameters
    ----------
    streak
        Columns ``error_class``, ``k``, ``gap_us`` (the gap before the attempt) and ``policy``, in order.

    Notes
    -----
    A policy is tried on the newest attempt first, and then on those before it that may still fail: errors as the set
    of classes so far, numbers as their largest, gaps as the smallest where the delay no longer grows. So the cost is
    that of reading the streak, unless delays grow or fall so slowly that every attempt has one of its own.
    """
    seen = _Seen()
    gap = streak["gap_us"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    k = streak["k"].cast(pl.Float64).to_numpy()
    ordered = bool(np.all(k[1:] >= k[:-1]))
    kept = np.zeros(streak.height, dtype=bool)
    known = True
    for row, (error, policy) in enumerate(streak.select("error_class", "policy").iter_rows()):
        seen.add(row, error, float(k[row]), float(gap[row]))
        known = known and (row == 0 or not np.isnan(gap[row]))
        if row and known and policy is not None and seen.covered_by(policy):
            kept[row] = _spaced(policy, k[1 : row + 1], gap[1 : row + 1], seen, ordered=ordered)
    return kept


class _Seen:
    """What the attempts so far have in common: their error classes, largest number, and smallest gaps."""

    def __init__(self) -> None:
        self.errors: set[str] = set()
        self.largest = -np.inf
        # rows whose gap is smaller than all later ones, and these gaps: both rise
        self._rows: list[int] = []
        self._gaps: list[float] = []

    def add(self, row: int, error: str, k: float, gap: float) -> None:
        self.errors.add(error)
        self.largest = max(self.largest, k)
        if row == 0 or np.isnan(gap):
            return
        while self._gaps and self._gaps[-1] >= gap:
            self._rows.pop()
            self._gaps.pop()
        self._rows.append(row)
        self._gaps.append(gap)

    def covered_by(self, policy: dict[str, Any]) -> bool:
        """Whether the policy names all error classes and allows as many attempts."""
        errors, most = policy["errors"], policy["max_attempts"]
        if errors is None or most is None or self.largest > most:
            return False
        return "*" in errors or (len(self.errors) <= len(errors) and self.errors <= set(errors))

    def smallest_gap(self, since: int) -> float:
        """Smallest gap of the attempts from this row on."""
        at = bisect_left(self._rows, since)
        return self._gaps[at] if at < len(self._gaps) else np.inf


def _spaced(policy: dict[str, Any], k: _Float, gap: _Float, seen: _Seen, *, ordered: bool) -> bool:
    """Whether every gap is long enough; ``k`` and ``gap`` from the second attempt of the streak on."""
    settings = [
        np.float64(np.nan if policy[name] is None else policy[name])
        for name in ("interval_s", "backoff_rate", "max_delay_s", "jitter")
    ]

    def least(of: _Float) -> _Float:
        return least_gap_us(of, *settings)  # type: ignore[arg-type]

    ends = least(k[[0, -1]])
    if not (gap[[0, -1]] + TOLERANCE_US >= ends).all():  # false where not known
        return False
    interval, rate, longest, _ = settings
    if rate == 1 or interval == 0:
        return bool(seen.smallest_gap(1) + TOLERANCE_US >= ends[0])
    growing = len(k)
    if ordered and rate > 1 and interval > 0 and not np.isnan(longest):
        growing = int(np.searchsorted(k, _capped_from(interval, rate, longest)))
        if growing < len(k) and not seen.smallest_gap(growing + 1) + TOLERANCE_US >= ends[-1]:
            return False
    return bool((gap[:growing] + TOLERANCE_US >= least(k[:growing])).all())


def _capped_from(interval: np.float64, rate: np.float64, longest: np.float64) -> float:
    """Number of attempt from which on the longest delay holds; infinite where that is not sure."""
    if longest <= interval:
        return 2.0
    with np.errstate(all="ignore"):
        number = np.ceil(2 + np.log(longest / interval) / np.log(rate)) + 1
        return float(number) if interval * np.power(rate, number - 2) >= longest else np.inf
