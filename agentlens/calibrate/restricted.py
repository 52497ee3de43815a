"""Detection within D and the restricted mean delay over task groups, with guard-ended incidents censored.

Every group weighs the same, its incidents share its weight. A miss waits for ever; an incident that somebody ended
before it was detected leaves the risk set there (Kaplan-Meier), as in `agentlens.calibrate.delay`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
_DIGITS = 12


@dataclass(frozen=True, eq=False)
class Restricted:
    """What one rule did to incidents, summed up by group and time: ready for many draws of groups.

    ``at``: times at which something was detected, up to D. ``events``, ``at_risk``: shape (groups, times).
    """

    at: Ints
    within: int
    events: Floats
    at_risk: Floats

    @classmethod
    def of(cls, waits: Ints, found: NDArray[np.bool_], group: Ints, groups: int, within: int) -> Restricted:
        """Sum up one rule.

        Parameters
        ----------
        waits, found, group
            One value an incident: events until it was detected, or until nobody watched any more; whether it was
            detected; and the code of its task group (from 0, below ``groups``).
        within
            D, at least 0.
        """
        size = np.bincount(group, minlength=groups)
        weight = 1.0 / size[group] if group.size else np.empty(0)
        at = np.unique(waits[found & (waits <= within)])
        events, at_risk = np.zeros((groups, at.size)), np.zeros((groups, at.size))
        for place, time in enumerate(at.tolist()):
            hit, there = found & (waits == time), waits >= time
            events[:, place] = np.bincount(group[hit], weights=weight[hit], minlength=groups)
            at_risk[:, place] = np.bincount(group[there], weights=weight[there], minlength=groups)
        return cls(at=at, within=within, events=events, at_risk=at_risk)

    def summaries(self, weights: Floats) -> tuple[Floats, Floats]:
        """Share detected within D, and mean of min(delay, D), for each row of group weights (draws, groups)."""
        events, at_risk = weights @ self.events, weights @ self.at_risk
        hazard = np.divide(events, at_risk, out=np.zeros_like(events), where=at_risk > 0)
        silent = np.cumprod(1 - np.minimum(hazard, 1.0), axis=1)
        before = np.concatenate([np.ones((weights.shape[0], 1)), silent], axis=1)
        edges = np.concatenate([[0], self.at, [self.within]])
        # rounded, so that rules that did the same do not differ in the last digit of a product
        return np.round(1 - before[:, -1], _DIGITS), np.round(before @ np.diff(edges), _DIGITS)


def all_rules(
    waits: Ints, found: NDArray[np.bool_], group: Ints, groups: int, within: int
) -> Sequence[Restricted]:
    """`Restricted` of every rule: ``waits`` and ``found`` have shape (incidents, rules)."""
    return [
        Restricted.of(waits[:, rule], found[:, rule], group, groups, within) for rule in range(waits.shape[1])
    ]
