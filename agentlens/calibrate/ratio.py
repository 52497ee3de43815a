"""The certificate for a false-alarm *share*: of the runs that alarm, how many alarm falsely (a ratio of two counts).

Per task group A runs alarm, F of them falsely, out of n. Were the true share ``E[F] / E[A]`` above alpha,
``1 + s * (alpha * A - F) / M`` would have a mean of at most 1 for every stake s in ``(0, 1 / (1 - alpha))``, so the
product over independent groups exceeds ``1 / delta`` with probability at most delta. M bounds what one group may
count for: in a group of more than M runs each run counts ``M / n`` of one, which puts n in the place of M. The share
that is limited is that of the counts so weighed. M, s and the weights come from sizes alone, before any alarm is read.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from agentlens.calibrate.certificate import check_limits
from agentlens.errors import SettingsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_STAKE = 0.98
HOPED = 0.25
"""The stake is the best one if the true share is a quarter of the limit."""
_LEFT_OUT = 0.05
"""Share of the runs' weight that the largest groups may lose to their size."""
_TOO_MANY = 10_000_000


def stake(alpha: float, largest: int) -> float:
    """Return the stake at which the product grows fastest if the true share is a quarter of the limit.

    Per alarm the logarithm grows by about ``alpha * x + alpha / 4 * log(1 - x)`` with ``x = s / M``: most at
    ``x = 3/4``, so ``s = 3/4 M``, cut where one group full of false alarms would take all.

    Examples
    --------
    >>> round(stake(0.01, 1), 4), round(stake(0.01, 6), 4)
    (0.7576, 0.9899)
    """
    return min(_MOST_STAKE, (1 - HOPED) * largest) / (1 - alpha)


def chosen_runs(runs: pl.DataFrame, cap: int, seed: int) -> pl.Series:
    """Whether each run (``run_id, task_group``) is among the `cap` of its group that a seeded hash puts first."""
    marks = [
        hashlib.blake2b(f"{seed}:{run}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        for run in runs["run_id"]
    ]
    rank = pl.struct("_mark", "run_id").rank("ordinal").over("task_group")
    return runs.with_columns(pl.Series("_mark", marks, dtype=pl.String)).select(rank <= cap).to_series()


def kept_size(sizes: NDArray[np.int64]) -> int:
    """Return the default M: the smallest number at which all but a twentieth of the runs still count.

    One task that was run a hundred times would otherwise take the weight of every other one: where M is the size of
    the largest group, the evidence of a run is ``1 / M``.

    Examples
    --------
    >>> kept_size(np.array([6] * 300 + [7] * 10)), kept_size(np.array([2, 2, 3]))
    (6, 3)
    """
    if not sizes.size or int(sizes.max()) < 1:
        return 1
    low, high = 1, int(sizes.max())
    least = (1 - _LEFT_OUT) * int(sizes.sum())
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if int(np.minimum(sizes, middle).sum()) >= least else (middle + 1, high)
    return low


def log_wealth(
    alarms: NDArray[np.int64], false: NDArray[np.int64], alpha: float, largest: int, sizes: NDArray[np.int64]
) -> float:
    """Logarithm of the product over groups: of its inverse, the p-value. One number a group in each array."""
    if alarms.size and bool(np.any((alarms > sizes) | (false > alarms) | (false < 0))):
        raise SettingsError.value("alarms", "more than runs", "0 <= false <= alarms <= runs of every group")
    # equal groups are counted, so that the order of groups does not matter to the last digit
    bound = np.maximum(sizes, largest)
    rows, counts = np.unique(np.stack([alarms, false, bound], axis=1), axis=0, return_counts=True)
    gains = (alpha * rows[:, 0] - rows[:, 1]) / rows[:, 2]
    return math.fsum((counts * np.log1p(stake(alpha, largest) * gains)).tolist())


def p_share(
    alarms: NDArray[np.int64],
    false: NDArray[np.int64],
    alpha: float,
    largest: int,
    sizes: NDArray[np.int64] | None = None,
) -> float:
    """p-value against "the true share of false alarms is above alpha"; 1.0 without groups.

    ``sizes``: runs of each group; None: no group has more than ``largest``.

    Examples
    --------
    >>> groups = np.full(400, 2)
    >>> p_share(groups, groups * 0, 0.01, 2) < 0.05 < p_share(groups[:100], groups[:100] * 0, 0.01, 2)
    True
    """
    check_limits(alpha, 0.5)
    runs = np.full(alarms.shape, largest) if sizes is None else sizes
    return min(1.0, math.exp(-log_wealth(alarms, false, alpha, largest, runs)))


def weighed_share(
    alarms: NDArray[np.int64], false: NDArray[np.int64], largest: int, sizes: NDArray[np.int64]
) -> float:
    """Share of false alarms with the weights of the bet: what is limited; 0.0 without alarms."""
    weight = largest / np.maximum(sizes, largest)
    all_alarms = float(weight @ alarms) if alarms.size else 0.0
    return float(weight @ false) / all_alarms if all_alarms else 0.0


def more_groups(log_now: float, groups: int, delta: float) -> int | None:
    """How many groups more would certify if they were like those seen; None where the wealth does not grow."""
    if log_now <= 0 or not groups:
        return None
    wanted = math.ceil(math.log(1 / delta) / log_now * groups)
    return None if wanted > _TOO_MANY else max(0, wanted - groups)
