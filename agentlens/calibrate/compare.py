"""Two rules on the same runs: exact McNemar on discordant groups and the paired difference (CALIBRATION 2.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from agentlens.calibrate.bootstrap import DRAWS, sign_flip, statistic_interval
from agentlens.calibrate.intervals import mcnemar
from agentlens.errors import SchemaError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COMPARISON = pl.Schema(
    {
        "groups": pl.Int64(),
        "only_first": pl.Int64(),
        "only_second": pl.Int64(),
        "mcnemar_p": pl.Float64(),
        "first": pl.Float64(),
        "second": pl.Float64(),
        "difference": pl.Float64(),
        "difference_low": pl.Float64(),
        "difference_high": pl.Float64(),
        "sign_flip_p": pl.Float64(),
        "thin": pl.Boolean(),
    }
)
"""One row. ``only_first``: groups with a larger value under the first rule, ``only_second`` the reverse; ``first``,
``second``: means over groups; ``difference``: first minus second, with paired cluster-bootstrap limits."""


def compare_rules(
    pairs: pl.DataFrame, first: str, second: str, *, draws: int = DRAWS, seed: int = 0
) -> pl.DataFrame:
    """Compare two columns over the same runs (`COMPARISON`).

    Parameters
    ----------
    pairs
        ``task_group`` and the two columns: whether a run alarmed, a delay, a count. A run where either is null is
        left out, so that both rules answer for the same runs.
    first, second
        The columns.

    Raises
    ------
    SchemaError
        When a column is missing.

    Examples
    --------
    >>> runs = pl.DataFrame({"task_group": list("abcdef"), "new": [False] * 6, "old": [True] * 6})
    >>> compare_rules(runs, "new", "old")["only_second", "mcnemar_p"].row(0)
    (6, 0.03125)
    """
    missing = [name for name in ("task_group", first, second) if name not in pairs.columns]
    if missing:
        raise SchemaError(f"pairs lack {', '.join(missing)}; accepted: task_group and the two columns")
    groups = (
        pairs.filter(pl.col(first).is_not_null() & pl.col(second).is_not_null())
        .group_by("task_group")
        .agg(
            pl.col(first).cast(pl.Float64).mean().alias("_first"),
            pl.col(second).cast(pl.Float64).mean().alias("_second"),
        )
        .sort("task_group")
    )
    one, other = groups["_first"].to_numpy(), groups["_second"].to_numpy()
    apart = one - other

    def mean(weight: NDArray[np.float64]) -> float:
        return float(weight @ apart / weight.sum())

    found = statistic_interval(mean, apart.size, draws=draws, seed=seed)
    more, fewer = int((apart > 0).sum()), int((apart < 0).sum())
    row = {
        "groups": apart.size,
        "only_first": more,
        "only_second": fewer,
        "mcnemar_p": mcnemar(more, fewer),
        "first": float(one.mean()) if one.size else None,
        "second": float(other.mean()) if other.size else None,
        "difference": found.value,
        "difference_low": found.low,
        "difference_high": found.high,
        "sign_flip_p": sign_flip(apart, seed=seed),
        "thin": found.thin,
    }
    return pl.DataFrame([row], schema=COMPARISON)
