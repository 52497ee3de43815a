"""Intervals that respect groups: whole task groups are drawn again, never runs or events (CALIBRATION 2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from agentlens.calibrate.intervals import garwood
from agentlens.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

DRAWS = 1_000
FEW_GROUPS = 20
"""Below this many groups a bootstrap draws from too little to be read as an interval."""
FEW_ALERTS = 10
"""Below this many alerts an exact Poisson interval is used instead of a bootstrap."""
_FLIPS_IN_FULL = 12


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate between two limits. ``method``: how; ``thin``: too little data to be trusted; ``groups``: units."""

    value: float | None
    low: float | None
    high: float | None
    method: str
    groups: int
    thin: bool = False


def group_weights(groups: int, draws: int = DRAWS, seed: int = 0) -> Iterator[Floats]:
    """Draw ``groups`` groups with replacement, ``draws`` times; each item says how often each came (shape (groups,)).

    The same seed gives the same draws, so that rules compared on one sample are compared on the same draws.
    """
    if groups < 1 or draws < 1:
        raise SettingsError.value("groups, draws", (groups, draws), "at least one group and one draw")
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        yield np.bincount(rng.integers(0, groups, groups), minlength=groups).astype(np.float64)


def percentile_interval(values: Floats, level: float = 0.95) -> tuple[float, float]:
    """Percentile limits, taken at drawn values (never between two), so that infinite values may take part."""
    tail = (1 - level) / 2
    low = np.quantile(values, tail, method="lower")
    high = np.quantile(values, 1 - tail, method="higher")
    return float(low), float(high)


def upper_percentile(values: Floats, delta: float = 0.05) -> float:
    """One-sided upper limit: the drawn value that at most a share ``delta`` of draws exceeds."""
    return float(np.quantile(values, 1 - delta, method="higher"))


def statistic_interval(
    statistic: Callable[[Floats], float],
    groups: int,
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval:
    """Percentile interval of any statistic of group weights (shape (groups,), ones for the estimate itself).

    Draws on which the statistic is not a number are left out; without any groups everything is None.
    """
    if groups == 0:
        return Interval(None, None, None, "none", 0, thin=True)
    value = statistic(np.ones(groups))
    drawn = np.array([statistic(weight) for weight in group_weights(groups, draws, seed)])
    drawn = drawn[~np.isnan(drawn)]
    if np.isnan(value) or not drawn.size:
        return Interval(None, None, None, "none", groups, thin=True)
    low, high = percentile_interval(drawn, level)
    return Interval(value, low, high, "cluster_bootstrap", groups, thin=groups < FEW_GROUPS)


def rate_interval(
    alerts: Sequence[float] | NDArray[Any],
    exposure: Sequence[float] | NDArray[Any],
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval:
    """Alerts per unit of exposure over task groups: sum over sum.

    Parameters
    ----------
    alerts, exposure
        One number a group each: alerts counted, and events or hours watched (from 0).

    Returns
    -------
    Interval
        ``cluster_bootstrap`` from ten alerts on. Below, ``poisson`` (Garwood): exact if alerts are independent,
        too narrow if they come in clusters, and ``thin`` is then set. A bootstrap of no alerts would answer
        [0, 0], so it is never asked.

    Examples
    --------
    >>> rate_interval([0] * 50, [100.0] * 50).method
    'poisson'
    """
    counts, spent = np.asarray(alerts, dtype=float), np.asarray(exposure, dtype=float)
    if counts.shape != spent.shape or np.any(counts < 0) or np.any(spent < 0):
        raise SettingsError.value(
            "alerts, exposure", (counts.shape, spent.shape), "one number from 0 a group, each"
        )
    total, units = int(counts.sum()), float(spent.sum())
    if units <= 0:
        return Interval(None, None, None, "none", counts.size, thin=True)
    if total < FEW_ALERTS:
        rate = garwood(total, units, level)
        clustered = bool((counts > 1).any())
        return Interval(total / units, rate.low, rate.high, "poisson", counts.size, thin=clustered)

    def ratio(weight: Floats) -> float:
        below = float(weight @ spent)
        return float(weight @ counts) / below if below > 0 else float("nan")

    return statistic_interval(ratio, counts.size, level=level, draws=draws, seed=seed)


def sign_flip(differences: Sequence[float] | Floats, *, draws: int = 9_999, seed: int = 0) -> float:
    """Two-sided p-value of "no difference between two rules", from flipping signs of whole groups' differences.

    Exact (all flips) up to twelve groups that differ, else seeded with the observed flip counted in.

    Examples
    --------
    >>> sign_flip([1.0, 2.0, 1.5, 0.5, 1.0, 3.0])
    0.03125
    """
    values = np.asarray(differences, dtype=float)
    values = values[values != 0]
    if not values.size:
        return 1.0
    seen = abs(values.sum()) * (1 - 1e-12)
    if values.size <= _FLIPS_IN_FULL:
        signs = 1 - 2 * ((np.arange(2**values.size)[:, None] >> np.arange(values.size)) & 1)
        return float((np.abs(signs @ values) >= seen).mean())
    rng = np.random.default_rng(seed)
    more = sum(bool(abs((1 - 2 * rng.integers(0, 2, values.size)) @ values) >= seen) for _ in range(draws))
    return (1 + more) / (1 + draws)
