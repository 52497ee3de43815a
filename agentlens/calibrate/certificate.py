"""The certificate: Learn-then-Test on one nested chain (CALIBRATION section 2.4).

A p-value is computed for each rule of a chain ordered from the strictest to the loosest; testing stops at the
first that does not fall to ``delta``. With probability at least ``1 - delta`` over the certify sample every
certified rule has a true false-alarm rate of at most ``alpha`` (Angelopoulos et al., arXiv 2110.01052;
fixed-sequence testing needs no further penalty).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from agentlens.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST_GROUPS = 10_000_000
_LIMIT_STEP = 1e-4


class Status(StrEnum):
    """The three answers of a calibration."""

    CERTIFIED = "CERTIFIED"
    PROVISIONAL = "PROVISIONAL"
    INFEASIBLE = "INFEASIBLE"


def check_limits(alpha: float, delta: float) -> None:
    """Refuse limits that nothing or everything could meet.

    Raises
    ------
    SettingsError
        Unless ``0 < alpha < 1`` and ``0 < delta < 1``.
    """
    for name, value in (("max_fpr", alpha), ("delta", delta)):
        if not 0 < value < 1:
            raise SettingsError.value(name, value, "a share above 0 and below 1, such as 0.01")


def p_binomial(alarms: int, groups: int, alpha: float) -> float:
    """``P(Bin(groups, alpha) <= alarms)``: exact when every group gives one run; 1.0 without groups.

    Examples
    --------
    >>> p_binomial(0, 299, 0.01) <= 0.05 < p_binomial(0, 298, 0.01)
    True
    """
    return 1.0 if groups == 0 else float(stats.binom.cdf(alarms, groups, alpha))


def stakes(alpha: float, count: int = 24) -> NDArray[np.float64]:
    """Fixed stakes inside ``(0, 1 / (1 - alpha))``, evenly spaced."""
    return np.linspace(0.04, 0.98, count) / (1 - alpha)


def weights(count: int = 24) -> NDArray[np.float64]:
    """Weights of the stakes in the mixture: as the square of the stake, adding up to 1.

    The stake that grows fastest at a true mean mu is ``(1 - mu / alpha) / (1 - alpha)``: near the top for rules worth
    having, near 0 only for a mean near the limit. Even weights spend most of the mixture on the latter: of 600 groups
    with a mean of a quarter of 1 % they certified 37 %, these 65 %.
    """
    square = np.linspace(0.04, 0.98, count) ** 2
    return np.asarray(square / square.sum(), dtype=np.float64)


def _mixture_p(gains: NDArray[np.float64], alpha: float) -> float:
    """``1 / sum_j weight_j prod_g (1 + stake_j * gain_g)``, capped at 1. Gains are at least ``-(1 - alpha)``."""
    if gains.size == 0:
        return 1.0
    # equal gains are grouped, so the product does not depend on the order of groups to the last digit
    return _grouped_p(*np.unique(gains, return_counts=True), alpha)


def _grouped_p(gains: NDArray[np.float64], counts: NDArray[np.int64], alpha: float) -> float:
    logs = (counts * np.log1p(np.outer(stakes(alpha), gains))).sum(axis=1)
    most = float(logs.max())
    log_mean = most + float(np.log(np.exp(logs - most) @ weights()))
    return float(min(1.0, np.exp(-max(log_mean, 0.0))))


def bet_limit(losses: Sequence[float] | NDArray[np.float64], delta: float) -> float:
    """Smallest mean loss that the mixture bet refutes at `delta`: an upper limit of the true mean; 1 where none is.

    Examples
    --------
    >>> 0.005 < bet_limit([0.0] * 400, 0.05) < 0.02
    True
    """
    values, counts = np.unique(np.asarray(losses, dtype=float), return_counts=True)
    if not values.size or values[-1] > 1 or values[0] < 0:
        raise SettingsError.value("losses", len(losses), "at least one share from 0 to 1")
    low, high = float((values * counts).sum() / counts.sum()), 1.0
    while high - low > _LIMIT_STEP:
        middle = (low + high) / 2
        low, high = (low, middle) if _grouped_p(middle - values, counts, middle) <= delta else (middle, high)
    return high


def p_bet(losses: Sequence[float] | NDArray[np.float64], alpha: float) -> float:
    """Mixture bet for groups with several runs: ``losses`` are shares of alarming healthy runs in [0, 1].

    Valid for independent groups whose mean loss exceeds ``alpha`` (a test martingale's inverse; Waudby-Smith
    & Ramdas, arXiv 2010.09686). The stakes are fixed beforehand, so the order of groups does not matter.

    Examples
    --------
    >>> p_bet([0.0] * 400, 0.02) < 0.05 < p_bet([0.0] * 50, 0.02)
    True
    """
    array = np.asarray(losses, dtype=float)
    if array.size and (array.min() < 0 or array.max() > 1):
        raise SettingsError.value("losses", (float(array.min()), float(array.max())), "shares from 0 to 1")
    return _mixture_p(alpha - array, alpha)


def groups_for_bet(losses: Sequence[float] | NDArray[np.float64], alpha: float, delta: float) -> int | None:
    """Groups at which the mixture bet certifies if all are like those seen; None where no number would.

    Every stake's wealth grows by its own factor a group, so the mixture grows like the best of them in the end,
    although over few groups it may have shrunk.

    Examples
    --------
    >>> groups_for_bet([0.0] * 40 + [0.5], 0.05, 0.05), groups_for_bet([0.0] * 40 + [1.0] * 3, 0.05, 0.05)
    (106, None)
    """
    gains = alpha - np.asarray(losses, dtype=float)
    values, counts = np.unique(gains, return_counts=True)
    if not gains.size:
        return None
    growth = (counts * np.log1p(np.outer(stakes(alpha), values))).sum(axis=1) / gains.size
    if growth.max() <= 0:
        return None

    def certified(groups: int) -> bool:
        logs = groups * growth
        most = float(logs.max())
        return bool(most + float(np.log(np.exp(logs - most) @ weights())) >= -np.log(delta))

    high = 1
    while not certified(high):
        high *= 2
        if high > MOST_GROUPS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if certified(middle) else (middle, high)
    return high


def p_ratio(alarms: Sequence[int], false_alarms: Sequence[int], alpha: float, largest: int) -> float:
    """Mixture bet for a false-alarm *share*: tests ``E[F] / E[A] > alpha`` over task groups.

    Per group A alarms of which F are false; ``largest`` (M) bounds A and is fixed before the data are read.
    The bet is on ``(alpha * A - F) / M``, which has a mean of at most 0 when the share exceeds ``alpha``.

    Raises
    ------
    SettingsError
        If a group has more false alarms than alarms, or more alarms than ``largest``.

    Examples
    --------
    >>> p_ratio([10] * 120, [0] * 120, 0.05, largest=10) < 0.05
    True
    """
    a, f = np.asarray(alarms, dtype=float), np.asarray(false_alarms, dtype=float)
    if a.shape != f.shape or np.any(f > a) or np.any(f < 0):
        raise SettingsError.value(
            "false_alarms", "more than alarms", "0 <= false alarms <= alarms in each group"
        )
    if largest < 1 or (a.size and a.max() > largest):
        raise SettingsError.value(
            "largest", largest, "at least the number of alarms of every group, fixed beforehand"
        )
    return _mixture_p((alpha * a - f) / largest, alpha)


def allowed_alarms(groups: int, alpha: float, delta: float) -> int | None:
    """Largest k with ``P(Bin(groups, alpha) <= k) <= delta``; None where not even 0 is enough.

    Examples
    --------
    >>> allowed_alarms(473, 0.01, 0.05), allowed_alarms(298, 0.01, 0.05)
    (1, None)
    """
    check_limits(alpha, delta)
    k = int(stats.binom.ppf(delta, groups, alpha))
    while k >= 0 and p_binomial(k, groups, alpha) > delta:
        k -= 1
    return k if k >= 0 else None


def groups_needed(alarms: int, alpha: float, delta: float) -> int:
    """Smallest number of healthy groups at which ``alarms`` alarms are certified.

    Examples
    --------
    >>> [groups_needed(k, 0.01, 0.05) for k in (0, 1, 2, 5, 10)]
    [299, 473, 628, 1049, 1693]
    """
    check_limits(alpha, delta)
    low, high = alarms, max(alarms + 1, 2)
    while p_binomial(alarms, high, alpha) > delta:
        low, high = high, high * 2
        if high > MOST_GROUPS:
            raise SettingsError.value("max_fpr", alpha, f"a limit that {MOST_GROUPS:,} groups could certify")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if p_binomial(alarms, middle, alpha) > delta else (low, middle)
    return high


@dataclass(frozen=True, slots=True)
class Step:
    """One rule of a chain and what the test said of it. ``index`` is its place from the strict end."""

    index: int
    p_value: float
    certified: bool
    tested: bool


def walk_chain(p_values: Sequence[float], delta: float) -> list[Step]:
    """Fixed-sequence test from the strictest rule on; nothing after the first failure is tested.

    Examples
    --------
    >>> [step.certified for step in walk_chain([0.001, 0.04, 0.2, 0.01], 0.05)]
    [True, True, False, False]
    """
    if not 0 < delta < 1:
        raise SettingsError.value("delta", delta, "a share above 0 and below 1")
    steps: list[Step] = []
    going = True
    for index, p in enumerate(p_values):
        certified = going and p <= delta
        steps.append(Step(index, float(p), certified, going))
        going = certified
    return steps
