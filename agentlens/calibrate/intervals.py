"""Exact intervals and tests for counts; every rate is reported with one of these beside it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from agentlens.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

THIN_CELL = 20
"""Below this many runs a rate is shown with the word that it is thin."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A count over its denominator with an interval. ``value`` is None where the denominator is 0."""

    count: float
    total: float
    low: float | None
    high: float | None
    level: float = 0.95

    @property
    def value(self) -> float | None:
        """The ratio, or None where there is nothing to divide by."""
        return self.count / self.total if self.total else None

    @property
    def thin(self) -> bool:
        """Whether the cell has too few units to be read as a rate."""
        return self.total < THIN_CELL


def _between(name: str, value: float, low: float, high: float) -> None:
    if not low < value < high:
        raise SettingsError.value(name, value, f"a number above {low:g} and below {high:g}")


def clopper_pearson(count: int, total: int, level: float = 0.95) -> Rate:
    """Exact two-sided binomial interval (Clopper & Pearson 1934).

    Parameters
    ----------
    count, total
        Successes and trials; ``0 <= count <= total``.
    level
        Coverage in (0, 1).

    Examples
    --------
    >>> rate = clopper_pearson(0, 299)
    >>> rate.value, round(rate.high, 4)
    (0.0, 0.0123)
    """
    _between("level", level, 0, 1)
    if not 0 <= count <= total:
        raise SettingsError.value("count", count, f"a whole number from 0 to total = {total}")
    if total == 0:
        return Rate(count, total, None, None, level)
    tail = (1 - level) / 2
    low = 0.0 if count == 0 else float(special.betaincinv(count, total - count + 1, tail))
    high = 1.0 if count == total else float(special.betaincinv(count + 1, total - count, 1 - tail))
    return Rate(count, total, low, high, level)


def upper_bound(count: int, total: int, delta: float = 0.05) -> float | None:
    """One-sided exact upper limit: the largest rate not refuted at ``delta``; None without trials."""
    _between("delta", delta, 0, 1)
    if total == 0:
        return None
    return 1.0 if count == total else float(special.betaincinv(count + 1, total - count, 1 - delta))


def lower_bound(count: int, total: int, delta: float = 0.05) -> float | None:
    """One-sided exact lower limit; None without trials."""
    _between("delta", delta, 0, 1)
    if total == 0:
        return None
    return 0.0 if count == 0 else float(special.betaincinv(count, total - count + 1, delta))


def garwood(count: int, exposure: float, level: float = 0.95) -> Rate:
    """Exact Poisson interval for a count per unit of exposure (Garwood 1936).

    It assumes independent events; clustered alerts are over-dispersed and it is then too narrow
    (CALIBRATION section 2.2), so it is used below ten alerts only.

    Examples
    --------
    >>> round(garwood(0, 1000).high * 1000, 3)
    3.689
    """
    _between("level", level, 0, 1)
    if exposure <= 0:
        return Rate(count, exposure, None, None, level)
    tail = (1 - level) / 2
    low = 0.0 if count == 0 else float(special.gammaincinv(count, tail))
    high = float(special.gammaincinv(count + 1, 1 - tail))
    return Rate(count, exposure, low / exposure, high / exposure, level)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the order given.

    Examples
    --------
    >>> [round(p, 2) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(np.asarray(p_values, dtype=float), kind="stable")
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * float(p_values[int(index)])))
        adjusted[int(index)] = running
    return adjusted


@lru_cache(maxsize=4096)
def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided McNemar p-value on the discordant pairs; 1.0 when there are none.

    Examples
    --------
    >>> mcnemar(0, 6)
    0.03125
    """
    from scipy import stats  # half a second that a plain interval need not wait for

    pairs = only_first + only_second
    return 1.0 if pairs == 0 else float(stats.binomtest(only_first, pairs).pvalue)
