"""The certificate for a false-alarm *share*: of the runs that alarm, how many alarm falsely (a ratio of two counts).

Per task group A runs alarm, F of them falsely, and M bounds A whatever the rule. Were the true share
``E[F] / E[A]`` above alpha, ``1 + s * (alpha * A - F) / M`` would have a mean of at most 1 for every stake s in
``(0, 1 / (1 - alpha))``, so the product over independent groups exceeds ``1 / delta`` with probability at most
delta. M and s are fixed before any alarm is read: M is the size of the largest group, or given; s follows from M.
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
_HOPED = 0.25
"""The stake is the best one if the true share is a quarter of the limit."""
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
    return min(_MOST_STAKE, (1 - _HOPED) * largest) / (1 - alpha)


def chosen_runs(runs: pl.DataFrame, cap: int, seed: int) -> pl.Series:
    """Whether each run (``run_id, task_group``) is among the `cap` of its group that a seeded hash puts first."""
    marks = [
        hashlib.blake2b(f"{seed}:{run}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        for run in runs["run_id"]
    ]
    rank = pl.struct("_mark", "run_id").rank("ordinal").over("task_group")
    return runs.with_columns(pl.Series("_mark", marks, dtype=pl.String)).select(rank <= cap).to_series()


def log_wealth(alarms: NDArray[np.int64], false: NDArray[np.int64], alpha: float, largest: int) -> float:
    """Logarithm of the product over groups: of its inverse, the p-value."""
    if alarms.size and (int(alarms.max()) > largest or bool(np.any((false > alarms) | (false < 0)))):
        raise SettingsError.value(
            "largest", largest, "at least the alarms of every group; 0 <= false <= alarms"
        )
    # equal groups are counted, so that the order of groups does not matter to the last digit
    pairs, counts = np.unique(np.stack([alarms, false], axis=1), axis=0, return_counts=True)
    gains = (alpha * pairs[:, 0] - pairs[:, 1]) / largest
    return math.fsum((counts * np.log1p(stake(alpha, largest) * gains)).tolist())


def p_share(alarms: NDArray[np.int64], false: NDArray[np.int64], alpha: float, largest: int) -> float:
    """p-value against "the true share of false alarms is above alpha"; 1.0 without groups.

    Examples
    --------
    >>> groups = np.full(400, 2)
    >>> p_share(groups, groups * 0, 0.01, 2) < 0.05 < p_share(groups[:100], groups[:100] * 0, 0.01, 2)
    True
    """
    check_limits(alpha, 0.5)
    return min(1.0, math.exp(-log_wealth(alarms, false, alpha, largest)))


def more_groups(log_now: float, groups: int, delta: float) -> int | None:
    """How many groups more would certify if they were like those seen; None where the wealth does not grow."""
    if log_now <= 0 or not groups:
        return None
    wanted = math.ceil(math.log(1 / delta) / log_now * groups)
    return None if wanted > _TOO_MANY else max(0, wanted - groups)
