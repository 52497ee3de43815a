"""A limit for a class with too few acknowledgements of its own: log-normal, with the spread of all classes.

CALIBRATION section 2.5. The class keeps its own centre, drawn towards that of all classes by as much as it is
uncertain; the spread is common. It is a model, so it is used only where the residuals of all classes look like one,
and the result says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from scipy import stats

from agentlens.calibrate.quantile import Limit
from agentlens.calibrate.survival import Ended

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from agentlens.calibrate.survival import Waits

    Floats: TypeAlias = NDArray[np.float64]

METHOD: Final = "lognormal"
_FITS: Final = 0.05
_FEW: Final = 20


def lognormal_limits(
    classes: Mapping[str, Waits], last_event: int, *, beta: float, delta: float
) -> dict[str, Limit]:
    """Upper limits of A(beta) per class by the model; empty where it does not fit.

    Parameters
    ----------
    classes
        Waits per class, independent of each other; those with fewer than 20 events are left out.
    last_event
        Waits that are silent for longer than the longest event of all classes are lost and say nothing of the slow;
        silence that was cut off earlier is censored.

    Notes
    -----
    With m the larger of the class's centre and the shrunken one, and s the common spread of log latencies, the limit
    is ``exp(m + z_beta s + z_delta sqrt(s^2 / n + z_beta^2 s^2 / (2 f)))``, f degrees of freedom of s. Residuals are
    tested for normality (Kolmogorov-Smirnov, 5 %); competing ends count as censoring.
    """
    logs = {name: _logs(waits) for name, waits in sorted(classes.items())}
    kept = {name: each for name, each in logs.items() if each.size >= _FEW}
    if not kept:
        return {}
    freedom = sum(each.size - 1 for each in kept.values())
    spread = float(np.sqrt(sum(((each - each.mean()) ** 2).sum() for each in kept.values()) / freedom))
    if spread <= 0:
        return {}
    centre = {name: _centre(classes[name], last_event, spread) for name in kept}
    residuals = np.concatenate([(each - each.mean()) / spread for each in kept.values()])
    if float(stats.kstest(residuals, "norm").pvalue) <= _FITS:
        return {}
    size = {name: each.size for name, each in kept.items()}
    shrunk = shrink(centre, {name: spread**2 / n for name, n in size.items()})
    z, sure = float(stats.norm.ppf(1 - beta)), float(stats.norm.ppf(1 - delta))
    found = {}
    for name, n in size.items():
        error = spread * float(np.sqrt(1 / n + z**2 / (2 * freedom)))
        point = np.exp(shrunk[name] + z * spread)
        # drawn towards faster classes, a slow one would get a limit that is too short more often than delta
        limit = np.exp(max(shrunk[name], centre[name]) + z * spread + sure * error)
        found[name] = Limit(point=int(np.ceil(point)), limit=int(np.ceil(limit)), method=METHOD)
    return found


def shrink(centre: Mapping[str, float], variance: Mapping[str, float]) -> dict[str, float]:
    """Draw centres towards their weighted mean by the part of their differences that is sampling error.

    Two classes or fewer say nothing of how classes differ: they stay where they are (DerSimonian & Laird 1986).

    Examples
    --------
    >>> shrink({"a": 1.0, "b": 1.0, "c": 1.3}, {"a": 0.1, "b": 0.1, "c": 0.1})["c"] < 1.3
    True
    """
    if len(centre) <= 2:
        return dict(centre)
    names = sorted(centre)
    values = np.array([centre[name] for name in names])
    weight = np.array([1 / variance[name] for name in names])
    mean = float(weight @ values / weight.sum())
    apart = float(weight @ (values - mean) ** 2)
    scale = float(weight.sum() - (weight**2).sum() / weight.sum())
    between = max(0.0, (apart - (len(names) - 1)) / scale)
    return {
        name: float(mean + (value - mean) * between / (between + variance[name]))
        for name, value in zip(names, values, strict=True)
    }


def _logs(waits: Waits) -> Floats:
    return np.asarray(np.log(np.maximum(waits.time[waits.ended == Ended.EVENT], 1)), dtype=np.float64)


def _centre(waits: Waits, last_event: int, spread: float) -> float:
    """Censored maximum-likelihood centre of log latencies at a given spread."""
    cut = (waits.ended != Ended.EVENT) & (waits.time <= last_event) & (waits.time > 0)
    data = stats.CensoredData(uncensored=_logs(waits), right=np.log(waits.time[cut]))
    return float(stats.norm.fit(data, fscale=spread)[0])
