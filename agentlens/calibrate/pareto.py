"""Which rules are not beaten on every count, where each lies, and how often each would be chosen (CALIBRATION 2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl

from agentlens.calibrate.bootstrap import DRAWS, FEW_GROUPS, group_weights, percentile_interval, rate_interval
from agentlens.calibrate.restricted import all_rules
from agentlens.errors import SettingsError

if TYPE_CHECKING:
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
"""One row a rule, in the order given: how often it is chosen when groups are drawn again, and its point estimates.

``detected_share``: within D events; ``delay``: mean of min(delay, D); both with misses as never and guard-ended
incidents as censored, groups weighing the same."""

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
    false alerts, same shape, and healthy events of the group, shape (healthy groups,). ``waits``, ``found``: events
    from the onset of an incident to its detection, or to where somebody ended it, `NEVER` for a miss; and whether it
    was detected; shape (incidents, R). ``group``: code of the incident's group, from 0, shape (incidents,). ``within``:
    D of detection@D and of the restricted mean delay.
    """

    rules: tuple[str, ...]
    losses: Floats
    alerts: Floats
    exposure: Floats
    waits: NDArray[np.int64]
    found: NDArray[np.bool_]
    group: NDArray[np.int64]
    within: int

    def __post_init__(self) -> None:
        """Refuse tables of different rules or groups."""
        width = len(self.rules)
        shapes = [self.losses.shape[1:], self.alerts.shape[1:], self.waits.shape[1:], self.found.shape[1:]]
        same = (
            self.losses.shape == self.alerts.shape
            and self.exposure.shape == self.losses.shape[:1]
            and self.waits.shape == self.found.shape
            and self.group.shape == self.waits.shape[:1]
        )
        if any(shape != (width,) for shape in shapes) or not same:
            raise SettingsError.value(
                "sample", shapes, f"one column for each of {width} rules, one row a group"
            )
        if not width or not self.losses.shape[0] or not self.waits.shape[0]:
            raise SettingsError.value(
                "sample",
                (width, self.losses.shape[0], self.waits.shape[0]),
                "at least one rule, one healthy and one incident group",
            )

    @property
    def incident_groups(self) -> int:
        """Groups with an incident."""
        return int(self.group.max()) + 1

    def detection(self, draws: Floats) -> tuple[Floats, Floats]:
        """Share detected within D, and restricted mean delay, of every rule: shape (draws, R), for group weights."""
        every = all_rules(self.waits, self.found, self.group, self.incident_groups, self.within)
        pairs = [one.summaries(draws) for one in every]
        return np.stack([pair[0] for pair in pairs], axis=1), np.stack([pair[1] for pair in pairs], axis=1)


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

    Healthy and incident groups are drawn apart. An incident that somebody ended before a rule found it is censored
    there, not missed: else rules that wait longer would look worse only because of the guard. A choice that changes
    from draw to draw is no finding about rules: several are as good, or the data are few.
    """
    groups = sample.incident_groups
    drawn = np.stack([np.ones(groups), *group_weights(groups, draws, seed + 1)])
    detected, delay = sample.detection(drawn)
    healthy = [np.ones(sample.losses.shape[0]), *group_weights(sample.losses.shape[0], draws, seed)]
    picked = [
        choose(h @ sample.losses / h.sum(), seen, late, max_fpr)
        for h, seen, late in zip(healthy, detected, delay, strict=True)
    ]
    point, won = picked[0], [one for one in picked[1:] if one is not None]
    wins = np.bincount(np.array(won, dtype=np.int64), minlength=len(sample.rules))
    none = draws - len(won)
    frame = pl.DataFrame(
        {
            "rule": sample.rules,
            "chosen": [place == point for place in range(len(sample.rules))],
            "wins": wins,
            "draws": pl.repeat(draws, len(sample.rules), eager=True),
            "share": wins / draws,
            "false_share": sample.losses.mean(axis=0),
            "detected_share": detected[0],
            "delay": delay[0],
        },
        schema=STABILITY,
    )
    return frame, none


def amoc(sample: Sample, *, draws: int = DRAWS, seed: int = 0) -> pl.DataFrame:
    """Place each rule by false alerts and delay (`AMOC`)."""
    groups = sample.incident_groups
    detected, delay = sample.detection(np.stack([np.ones(groups), *group_weights(groups, draws, seed)]))
    burden = sample.alerts.sum(axis=0) / max(sample.exposure.sum(), 1)
    front = pareto_front(np.column_stack([burden, delay[0]]))
    rows = []
    for place, rule in enumerate(sample.rules):
        false = rate_interval(sample.alerts[:, place], sample.exposure, draws=draws, seed=seed)
        low, high = percentile_interval(delay[1:, place])
        rows.append(
            {
                "rule": rule,
                "false_per_1000": _thousand(false.value),
                "false_low": _thousand(false.low),
                "false_high": _thousand(false.high),
                "false_method": false.method,
                "delay": float(delay[0, place]),
                "delay_low": low,
                "delay_high": high,
                "detected_share": float(detected[0, place]),
                "on_front": bool(front[place]),
                "thin": false.thin or groups < FEW_GROUPS,
            }
        )
    return pl.DataFrame(rows, schema=AMOC).sort("false_per_1000", "delay", "rule")


def _thousand(value: float | None) -> float | None:
    return None if value is None else 1000 * value
