"""Upper confidence limits of "by when has all but a share beta of what ever comes, come" (CALIBRATION 2.5)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
from scipy import stats

from agentlens.calibrate.bootstrap import FEW_GROUPS, group_weights
from agentlens.calibrate.intervals import clopper_pearson, upper_bound
from agentlens.calibrate.survival import Ended, Incidence, Sorted, Waits, incidence, silent_band
from agentlens.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Share: TypeAlias = Callable[[Incidence], Floats]

FollowUp = Literal["complete", "adequate", "short", "none"]
BEYOND: Final = 20
_FOLLOW_P: Final = 0.05
_ROUNDING: Final = 1e-12
_FEWEST_DRAWS: Final = 100
_DRAWN_ROWS: Final = 30_000_000
_TOO_SHORT: Final = "observation is too short to tell lost from slow; watch for longer"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A limit A with its uncertainty.

    ``point``: smallest a with S0(a) <= beta. ``limit``: its upper confidence limit, None where the data do not
    allow one, and then ``why`` says what would. ``method``: ``order_statistic``, ``band``, ``cluster_bootstrap``,
    or ``bound`` (nothing is known of the lost, all silence is taken to be slow).
    """

    point: int | None
    limit: int | None
    method: str
    why: str | None = None


def follow_up(waits: Waits, watched: NDArray[np.int64]) -> FollowUp:
    """Whether silence lasted long enough past the last event to be called final.

    ``complete``: nothing is silent. ``adequate``: at least 20 waits could have been watched for twice the longest
    one that ended in the event, and Maller & Zhou's test of sufficient follow-up rejects at 5 %. Else ``short``;
    ``none`` without any event.
    """
    last = waits.last_event
    if last is None:
        return "none"
    silent = waits.ended == Ended.UNSEEN
    if not silent.any():
        return "complete"
    longest = int(waits.time[silent].max())
    late = (waits.ended == Ended.EVENT) & (waits.time > 2 * last - longest)
    p = (1 - late.sum() / waits.size) ** waits.size if longest > last else 1.0
    return "adequate" if p <= _FOLLOW_P and int((watched >= 2 * last).sum()) >= BEYOND else "short"


def lost_share(waits: Waits, level: float = 0.95) -> tuple[float, float, float]:
    """Share that never ends (the plateau) with its limits; meaningful where follow-up is adequate or complete."""
    if not waits.size:
        return math.nan, 0.0, 1.0
    curve = incidence(waits)
    gone = waits.ended != Ended.UNSEEN
    if not gone.any() or gone.all():
        rate = clopper_pearson(int((~gone).sum()), waits.size, level)
        return rate.value or 0.0, rate.low or 0.0, 1.0 if rate.high is None else rate.high
    low, high = silent_band(waits, level)
    return curve.never, float(low[-1]), float(high[-1])


def upper_limit(
    waits: Waits,
    followed: FollowUp,
    *,
    beta: float = 0.05,
    delta: float = 0.05,
    draws: int = 300,
    seed: int = 0,
) -> Limit:
    """Upper ``1 - delta`` confidence limit of A(beta), by the method that the data allow.

    Clusters with several waits: cluster bootstrap (from 20 clusters on). Nothing censored before the last event:
    the order statistic, exact. Else, without competing ends, the log-log band of S0; with them, the bootstrap.
    Where follow-up is short the lost cannot be told from the slow: everything silent is taken to be slow, which
    bounds A from above, and there may be no limit at all.

    Raises
    ------
    SettingsError
        Unless beta and delta lie between 0 and 1.

    Examples
    --------
    >>> waits = Waits(np.arange(1, 60), np.ones(59, dtype=int), np.arange(59))
    >>> upper_limit(waits, "complete").limit, upper_limit(waits, "complete", beta=0.01).why
    (59, 'needs 299 independent acknowledgements for beta = 0.01, has 59')
    """
    for name, value in (("beta", beta), ("delta", delta)):
        if not 0 < value < 1:
            raise SettingsError.value(name, value, "a share above 0 and below 1")
    if not waits.events:
        return Limit(point=None, limit=None, method="none", why="nothing was acknowledged")
    if followed == "short":
        return _bound(waits, beta, delta, draws=draws, seed=seed)
    curve = incidence(waits)
    point = _first(curve, curve.remaining <= beta + _ROUNDING)
    clustered = waits.groups < waits.size
    if clustered or not (waits.is_complete or not (waits.ended == Ended.COMPETING).any()):
        return _bootstrapped(waits, point, _remaining, beta, delta, draws=draws, seed=seed)
    needed = needed_events(beta, delta)
    if waits.events < needed:
        return Limit(point=point, limit=None, method="none", why=_too_few(beta, needed, waits.events))
    if waits.is_complete:
        ordered = _order_statistic(waits.time[waits.ended == Ended.EVENT], beta, delta)
        return Limit(point=point, limit=ordered, method="order_statistic")
    limit = _first(
        curve, log_log_upper(curve.remaining, remaining_variance(curve), waits.events, delta) <= beta
    )
    return Limit(point=point, limit=limit, method="band")


def _first(curve: Incidence, low_enough: NDArray[np.bool_]) -> int | None:
    hits = np.flatnonzero(low_enough)
    return int(curve.at[hits[0]]) if hits.size else None


def _order_statistic(times: NDArray[np.int64], beta: float, delta: float) -> int:
    """Smallest X_(k) with P(Bin(n, 1 - beta) < k) >= 1 - delta, so that it lies above A(beta) that often."""
    k = int(stats.binom.ppf(1 - delta, times.size, 1 - beta)) + 1
    return int(np.sort(times)[min(k, times.size) - 1])


def remaining_variance(curve: Incidence) -> Floats:
    """Variance of S0 per time without competing ends, by the delta method with the plateau's own uncertainty.

    With S silent, pi its plateau and v Greenwood's sum, S0 = (S - pi) / (1 - pi) has the variance
    ``(S^2 v / (1-pi)^2) + ((1-S)^2 pi^2 v_end / (1-pi)^4) - (2 S pi v (1-S) / (1-pi)^3)``; uncensored it is
    S0 (1 - S0) / n over the n events.
    """
    s, pi, v = curve.silent, curve.never, curve.greenwood
    kept = 1 - pi
    end = pi**2 * v[-1] if pi > 0 else 0.0
    own = s**2 * v / kept**2 + (1 - s) ** 2 * end / kept**4
    return np.maximum(own - 2 * s * pi * v * (1 - s) / kept**3, 0)


def log_log_upper(share: Floats, variance: Floats, events: int, delta: float = 0.05) -> Floats:
    """One-sided log-log upper limit of a falling share; never below the exact limit for no event left of ``events``."""
    none_left = upper_bound(0, events, delta) or 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        width = stats.norm.ppf(1 - delta) * np.sqrt(variance) / (share * np.abs(np.log(share)))
        upper = share ** np.exp(-width)
    inside = (share > _ROUNDING) & (share < 1)
    return np.where(inside, np.maximum(upper, none_left), np.where(share >= 1, 1.0, none_left))


def _bootstrapped(
    waits: Waits, point: int | None, share: Share, beta: float, delta: float, *, draws: int, seed: int
) -> Limit:
    """Invert the log-log band whose variance comes from drawing clusters; percentiles of A itself fall short."""
    acknowledged = int(np.unique(waits.group[waits.ended == Ended.EVENT]).size)
    if acknowledged < FEW_GROUPS:
        why = f"needs {FEW_GROUPS} independent clusters with an acknowledgement, has {acknowledged}"
        return Limit(point=point, limit=None, method="none", why=why)
    ready = Sorted(waits)
    curve = ready.incidence()
    # a variance needs fewer draws than a percentile; large data are not drawn from for minutes
    draws = max(min(draws, _FEWEST_DRAWS), min(draws, _DRAWN_ROWS // waits.size))
    total, squares = np.zeros(curve.at.size), np.zeros(curve.at.size)
    for weight in group_weights(ready.groups, draws, seed):
        drawn = share(ready.incidence(weight, by_group=True))
        total += drawn
        squares += drawn**2
    variance = np.maximum(squares / draws - (total / draws) ** 2, 0) * draws / (draws - 1)
    limit = _first(curve, log_log_upper(share(curve), variance, acknowledged, delta) <= beta)
    if limit is not None:
        return Limit(point=point, limit=limit, method="cluster_bootstrap")
    needed = needed_events(beta, delta)
    why = _TOO_SHORT if acknowledged >= needed else _too_few(beta, needed, acknowledged)
    return Limit(point=point, limit=None, method="none", why=why)


def needed_events(beta: float, delta: float) -> int:
    """Independent events without which no upper limit of A(beta) exists: (1 - beta)^n <= delta.

    Examples
    --------
    >>> needed_events(0.05, 0.05), needed_events(0.01, 0.05)
    (59, 299)
    """
    return math.ceil(math.log(delta) / math.log1p(-beta) - _ROUNDING)


def _too_few(beta: float, needed: int, have: int) -> str:
    return f"needs {needed} independent acknowledgements for beta = {beta:g}, has {have}"


def _remaining(curve: Incidence) -> Floats:
    return curve.remaining


def _slowest(curve: Incidence) -> Floats:
    """S0 if nothing silent is lost: whatever is not ruled out would still come."""
    ruled_out = 1 - curve.never - curve.ever
    return 1 - curve.reached / max(1 - ruled_out, _ROUNDING)


def _bound(waits: Waits, beta: float, delta: float, *, draws: int, seed: int) -> Limit:
    curve = incidence(waits)
    point = _first(curve, _slowest(curve) <= beta + _ROUNDING)
    if waits.groups < waits.size or (waits.ended == Ended.COMPETING).any():
        found = _bootstrapped(waits, point, _slowest, beta, delta, draws=draws, seed=seed)
        return found if found.method == "none" else replace(found, method="bound")
    _, high = silent_band(waits, 1 - 2 * delta)
    limit = _first(curve, (high <= beta) & (curve.at_risk > curve.events))
    return Limit(point=point, limit=limit, method="bound", why=_TOO_SHORT if limit is None else None)
