"""Does a certificate still speak of this world? Permutation tests on run scores, by whole groups (CALIBRATION 2.4).

The score Z of a run is the largest stretch that any event of it reached: the run alarms at threshold T iff Z >= T. A
certificate is about groups exchangeable with those it was made from; runs of a newer time, or the test split, are held
against them here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import polars as pl

from agentlens.calibrate.intervals import lower_bound, upper_bound
from agentlens.errors import SettingsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

PERMUTATIONS: Final = 1_999
_MOVED_P: Final = 0.05

DRIFT = pl.Schema(
    {
        "threshold": pl.Int64(),
        "old_groups": pl.Int64(),
        "new_groups": pl.Int64(),
        "old_rate": pl.Float64(),
        "new_rate": pl.Float64(),
        "new_low": pl.Float64(),
        "new_high": pl.Float64(),
        "largest_gap": pl.Float64(),
        "gap_at": pl.Int64(),
        "p_scores": pl.Float64(),
        "p_rate": pl.Float64(),
        "status": pl.String(),
    }
)
"""One row. ``old_rate``, ``new_rate``: alarming share per healthy run, averaged over groups, with one-sided 95 % limits
for the new one. ``largest_gap``: between the two survival curves of Z, at ``gap_at``; ``p_scores``: of a gap so large
if groups were exchangeable; ``p_rate``: of a rate so much higher. ``status``: ``breached`` (the new rate's lower limit
is above the limit allowed), ``moved`` (a test rejects at 5 %, so the certificate no longer speaks of these runs), else
``holds``."""


def drift(
    old: pl.DataFrame,
    new: pl.DataFrame,
    threshold: int,
    *,
    max_fpr: float,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> pl.DataFrame:
    """Hold scores of new healthy runs against those of the certificate (`DRIFT`).

    Parameters
    ----------
    old, new
        ``task_group, score`` of healthy runs: the certify split, and the test split or a newer period.
    threshold
        T of the certified rule.
    max_fpr
        The limit that was certified.

    Raises
    ------
    SettingsError
        When either has no runs, or a group is in both.

    Examples
    --------
    >>> one = pl.DataFrame({"task_group": [f"a{i}" for i in range(40)], "score": [1, 2] * 20})
    >>> other = one.select(pl.concat_str(pl.lit("b"), "task_group").alias("task_group"), "score")
    >>> drift(one, other, 4, max_fpr=0.05)["status"].item()
    'holds'
    """
    if not old.height or not new.height:
        raise SettingsError.value("runs", (old.height, new.height), "healthy runs on both sides")
    both = old.join(new, on="task_group", how="semi")["task_group"].unique().sort()
    if both.len():
        raise SettingsError.value("task groups", both.head(3).to_list(), "groups that are on one side only")
    levels = np.unique(np.concatenate([old["score"].to_numpy(), new["score"].to_numpy()]))
    curves_old, curves_new = (_curves(side, levels) for side in (old, new))
    curves = np.vstack([curves_old, curves_new])
    alarms = np.concatenate([_alarms(old, threshold), _alarms(new, threshold)])
    first = len(curves_old)
    gap, at = _gap(curves, np.arange(len(curves)) < first)
    higher = float(alarms[first:].mean() - alarms[:first].mean())
    p_scores, p_rate = _permuted(
        curves, alarms, first, seen=(gap, higher), permutations=permutations, seed=seed
    )
    count, groups = float(alarms[first:].sum()), alarms.size - first
    # a group's share of alarming runs, rounded away from the claim that is being tested
    low = lower_bound(int(np.floor(count)), groups)
    high = upper_bound(int(np.ceil(count)), groups)
    breached = low is not None and low > max_fpr
    moved = min(p_scores, p_rate) <= _MOVED_P
    row = {
        "threshold": threshold,
        "old_groups": first,
        "new_groups": groups,
        "old_rate": float(alarms[:first].mean()),
        "new_rate": float(alarms[first:].mean()),
        "new_low": low,
        "new_high": high,
        "largest_gap": gap,
        "gap_at": int(levels[at]),
        "p_scores": p_scores,
        "p_rate": p_rate,
        "status": "breached" if breached else "moved" if moved else "holds",
    }
    return pl.DataFrame([row], schema=DRIFT)


def _curves(side: pl.DataFrame, levels: NDArray[np.int64]) -> Floats:
    """Share of a group's runs with a score of at least each level, shape (groups, levels)."""
    shares = [(pl.col("score") >= int(level)).mean().alias(str(level)) for level in levels]
    return side.group_by("task_group").agg(shares).sort("task_group").drop("task_group").to_numpy()


def _alarms(side: pl.DataFrame, threshold: int) -> Floats:
    share = (pl.col("score") >= threshold).mean().alias("share")
    return side.group_by("task_group").agg(share).sort("task_group")["share"].to_numpy()


def _gap(curves: Floats, is_old: NDArray[np.bool_]) -> tuple[float, int]:
    apart = np.abs(curves[is_old].mean(axis=0) - curves[~is_old].mean(axis=0))
    at = int(apart.argmax())
    return float(apart[at]), at


def _permuted(
    curves: Floats,
    alarms: Floats,
    first: int,
    *,
    seen: tuple[float, float],
    permutations: int,
    seed: int,
) -> tuple[float, float]:
    """Deal groups to the two sides again; what was observed counts as one of the deals."""
    gap, higher = seen
    rng = np.random.default_rng(seed)
    slack = 1e-12
    as_far = as_high = 1
    for _ in range(permutations):
        is_old = np.zeros(len(curves), dtype=np.bool_)
        is_old[rng.permutation(len(curves))[:first]] = True
        as_far += _gap(curves, is_old)[0] >= gap - slack
        as_high += alarms[~is_old].mean() - alarms[is_old].mean() >= higher - slack
    return as_far / (permutations + 1), as_high / (permutations + 1)
