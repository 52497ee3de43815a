"""Which rules are not beaten on every count, where each lies, and how often each would be chosen (CALIBRATION 2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl

from agentlens.calibrate.bootstrap import DRAWS, FEW_GROUPS, group_weights, rate_interval, statistic_interval
from agentlens.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

STABILITY = pl.Schema(
    {
        "rule": pl.String(),
        "chosen": pl.Boolean(),
        "wins": pl.Int64(),
        "draws": pl.Int64(),
        "share": pl.Float64(),
        "false_share": pl.Float64(),
        "detected_share": pl.Float64(),
        "delay": pl.Float64(),
    }
)
"""One row a rule, in the order given: how often it is chosen when groups are drawn again, and its point estimates."""

AMOC = pl.Schema(
    {
        "rule": pl.String(),
        "false_per_1000": pl.Float64(),
        "false_low": pl.Float64(),
        "false_high": pl.Float64(),
        "false_method": pl.String(),
        "delay": pl.Float64(),
        "delay_low": pl.Float64(),
        "delay_high": pl.Float64(),
        "detected_share": pl.Float64(),
        "on_front": pl.Boolean(),
        "thin": pl.Boolean(),
    }
)
"""One row a rule, sorted by false alerts: false alerts per 1,000 healthy events against the restricted mean delay
(Fawcett & Provost 1999), with cluster-bootstrap limits; ``on_front``: no other rule is better in one and not worse
in the other."""


@dataclass(frozen=True, eq=False)
class Sample:
    """What each of R rules did to the same groups.

    ``losses``: share of a healthy group's runs that alarmed, shape (healthy groups, R). ``alerts``, ``exposure``:
    false alerts, same shape, and healthy events of the group, shape (healthy groups,). ``detected``: share of a
    group's incidents found within D; ``delay``: their mean of min(delay, D); shape (incident groups, R).
    """

    rules: tuple[str, ...]
    losses: Floats
    alerts: Floats
    exposure: Floats
    detected: Floats
    delay: Floats

    def __post_init__(self) -> None:
        """Refuse tables of different rules or groups."""
        width = len(self.rules)
        shapes = [self.losses.shape[1:], self.alerts.shape[1:], self.detected.shape[1:], self.delay.shape[1:]]
        same = (
            self.losses.shape == self.alerts.shape
            and self.exposure.shape == self.losses.shape[:1]
            and self.detected.shape == self.delay.shape
        )
        if any(shape != (width,) for shape in shapes) or not same:
            raise SettingsError.value(
                "sample", shapes, f"one column for each of {width} rules, one row a group"
            )
        if not width or not self.losses.shape[0] or not self.detected.shape[0]:
            raise SettingsError.value(
                "sample",
                (width, self.losses.shape[0], self.detected.shape[0]),
                "at least one rule, one healthy and one incident group",
            )


def pareto_front(values: Floats) -> NDArray[np.bool_]:
    """Return which rows of ``values`` (shape (n, k), smaller is better in each column) no other row dominates.

    Equal rows stay together, on the front or off it. A null (nan) is worse than anything.

    Examples
    --------
    >>> pareto_front(np.array([[1.0, 5.0], [2.0, 2.0], [3.0, 3.0]])).tolist()
    [True, True, False]
    """
    filled = np.where(np.isnan(values), np.inf, values)
    front = np.ones(len(filled), dtype=np.bool_)
    for place, row in enumerate(filled):
        beats = (filled <= row).all(axis=1) & (filled < row).any(axis=1)
        front[place] = not beats.any()
    return front


def choose(losses: Floats, detected: Floats, delay: Floats, max_fpr: float) -> int | None:
    """Place of the rule to take, among those whose loss stays within ``max_fpr``; None if none does.

    Most detected, then the shortest delay, then the first: shape (R,) each, rules ordered from the strictest.
    """
    allowed = np.flatnonzero(losses <= max_fpr)
    if not allowed.size:
        return None
    order = np.lexsort((allowed, delay[allowed], -detected[allowed]))
    return int(allowed[order[0]])


def selection_stability(
    sample: Sample, max_fpr: float, *, draws: int = DRAWS, seed: int = 0
) -> tuple[pl.DataFrame, int]:
    """How often each rule is chosen when whole groups are drawn again (`STABILITY`), and how often none is.

    Healthy and incident groups are drawn apart. A choice that changes from draw to draw is no finding about rules:
    several are as good, or the data are few.
    """
    point = choose(
        sample.losses.mean(axis=0), sample.detected.mean(axis=0), sample.delay.mean(axis=0), max_fpr
    )
    wins = np.zeros(len(sample.rules), dtype=np.int64)
    none = 0
    healthy = group_weights(sample.losses.shape[0], draws, seed)
    incident = group_weights(sample.detected.shape[0], draws, seed + 1)
    for h, i in zip(healthy, incident, strict=True):
        w = i / i.sum()
        picked = choose(h @ sample.losses / h.sum(), w @ sample.detected, w @ sample.delay, max_fpr)
        if picked is None:
            none += 1
        else:
            wins[picked] += 1
    frame = pl.DataFrame(
        {
            "rule": sample.rules,
            "chosen": [place == point for place in range(len(sample.rules))],
            "wins": wins,
            "draws": pl.repeat(draws, len(sample.rules), eager=True),
            "share": wins / draws,
            "false_share": sample.losses.mean(axis=0),
            "detected_share": sample.detected.mean(axis=0),
            "delay": sample.delay.mean(axis=0),
        },
        schema=STABILITY,
    )
    return frame, none


def amoc(sample: Sample, *, draws: int = DRAWS, seed: int = 0) -> pl.DataFrame:
    """Place each rule by false alerts and delay (`AMOC`)."""
    front = pareto_front(
        np.column_stack(
            [sample.alerts.sum(axis=0) / max(sample.exposure.sum(), 1), sample.delay.mean(axis=0)]
        )
    )
    rows = []
    for place, rule in enumerate(sample.rules):
        false = rate_interval(sample.alerts[:, place], sample.exposure, draws=draws, seed=seed)
        late = _mean_interval(sample.delay[:, place], draws=draws, seed=seed)
        rows.append(
            {
                "rule": rule,
                "false_per_1000": _thousand(false.value),
                "false_low": _thousand(false.low),
                "false_high": _thousand(false.high),
                "false_method": false.method,
                "delay": late[0],
                "delay_low": late[1],
                "delay_high": late[2],
                "detected_share": float(sample.detected[:, place].mean()),
                "on_front": bool(front[place]),
                "thin": false.thin or sample.delay.shape[0] < FEW_GROUPS,
            }
        )
    return pl.DataFrame(rows, schema=AMOC).sort("false_per_1000", "delay", "rule")


def _thousand(value: float | None) -> float | None:
    return None if value is None else 1000 * value


def _mean_interval(
    values: Floats | Sequence[float], *, draws: int, seed: int
) -> tuple[float | None, float | None, float | None]:
    array = np.asarray(values, dtype=float)
    found = statistic_interval(
        lambda weight: float(weight @ array / weight.sum()), array.size, draws=draws, seed=seed
    )
    return found.value, found.low, found.high
