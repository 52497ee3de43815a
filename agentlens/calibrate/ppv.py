"""What an alert is worth at a stated base rate: positive predictive value and alerts per true one (CALIBRATION 2.2).

The base rate is the user's, never the share of incidents among the labels, which says how labels were gathered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from agentlens.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.calibrate.intervals import Rate

BASE_RATES: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)

PREDICTIVE = pl.Schema(
    {
        "base_rate": pl.Float64(),
        "ppv": pl.Float64(),
        "ppv_low": pl.Float64(),
        "ppv_high": pl.Float64(),
        "alerts_per_true": pl.Float64(),
        "alerts_per_true_low": pl.Float64(),
        "alerts_per_true_high": pl.Float64(),
    }
)
"""One row a base rate: share of alarming runs that are incidents, and how many are read for a true one (1 / PPV); null
where nothing alarms. Limits take the worse and the better end of both intervals together: each given at 97.5 %, they
hold at 95 % at least."""


def predictive_value(tpr: float, fpr: float, base_rate: float) -> float | None:
    """``TPR b / (TPR b + FPR (1 - b))``; None where nothing alarms.

    Examples
    --------
    >>> [round(predictive_value(0.8, 0.01, b), 2) for b in (0.001, 0.02)]
    [0.07, 0.62]
    """
    for name, value in (("tpr", tpr), ("fpr", fpr), ("base_rate", base_rate)):
        if not 0 <= value <= 1:
            raise SettingsError.value(name, value, "a share from 0 to 1")
    true, false = tpr * base_rate, fpr * (1 - base_rate)
    return true / (true + false) if true + false > 0 else None


def predictive_values(tpr: Rate, fpr: Rate, base_rates: Sequence[float] = BASE_RATES) -> pl.DataFrame:
    """Predictive value over base rates (`PREDICTIVE`).

    Parameters
    ----------
    tpr, fpr
        Detected share of incidents and alarming share of healthy runs, each with its interval.
    base_rates
        Shares of runs that are incidents, above 0 and below 1.

    Raises
    ------
    SettingsError
        For a base rate of 0 or 1, or a rate without runs.
    """
    if tpr.value is None or fpr.value is None:
        raise SettingsError.value(
            "incidents, healthy runs", (tpr.total, fpr.total), "at least one labelled run of each"
        )
    rows = []
    for rate in sorted(set(base_rates)):
        if not 0 < rate < 1:
            raise SettingsError.value("base_rate", rate, "a share above 0 and below 1, such as 0.01")
        value = predictive_value(tpr.value, fpr.value, rate)
        low = predictive_value(tpr.low or 0.0, 1.0 if fpr.high is None else fpr.high, rate)
        high = predictive_value(1.0 if tpr.high is None else tpr.high, fpr.low or 0.0, rate)
        rows.append(
            {
                "base_rate": rate,
                "ppv": value,
                "ppv_low": low,
                "ppv_high": high,
                "alerts_per_true": 1 / value if value else None,
                "alerts_per_true_low": 1 / high if high else None,
                "alerts_per_true_high": 1 / low if low else None,
            }
        )
    return pl.DataFrame(rows, schema=PREDICTIVE)
