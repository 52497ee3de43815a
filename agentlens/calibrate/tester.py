"""p-values of rules on one split: units, stakes and every limit are fixed before an alarm is read (CALIBRATION 2.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from agentlens.calibrate import ratio
from agentlens.calibrate.burden import Burden
from agentlens.calibrate.certificate import groups_for_bet, groups_needed, p_bet, p_binomial
from agentlens.calibrate.rates import group_losses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from agentlens.calibrate.board import Bits, Board
    from agentlens.calibrate.recommend import Goal


@dataclass(frozen=True, kw_only=True)
class Held:
    """One limit held against one rule: the mean that is limited, its p-value, and groups still needed.

    ``more`` is None where no number of groups like these would help.
    """

    rate: float
    p: float
    more: int | None


class Tester:
    """Test rules on some splits.

    Several limits at once cost nothing: a rule is certified when the largest of its p-values is small enough, and the
    promise then holds for each of them.
    """

    def __init__(self, board: Board, goal: Goal, splits: Sequence[str] = ("certify",)) -> None:
        self.board, self.goal = board, goal
        self.bet: dict[str, Any] = {}
        self.kept: Bits = board.in_splits(splits)
        self.healthy: Bits = self.kept & board.healthy
        per_hour = goal.max_alerts_per_hour is not None and bool(self.healthy.any())
        self.burden = Burden(board, self.healthy) if per_hour else None
        if goal.objective == "share":
            self._fix_bet()
            return
        self.kept = self.healthy
        sizes = np.bincount(board.group_of_run[self.healthy], minlength=len(board.groups))
        groups = int((sizes > 0).sum())
        few = groups < 2 * groups_needed(0, goal.max_fpr, goal.delta)
        self.drawn = bool(sizes.max(initial=0) <= 1) or few
        if self.drawn and groups:
            self.kept = self._one_run_a_group()
        self.method = "exact binomial, one run a group" if self.drawn else "mixture bet, every run of a group"

    def _fix_bet(self) -> None:
        """Fix M and the weights of larger groups: sizes alone decide."""
        every = np.bincount(self.board.group_of_run[self.kept], minlength=len(self.board.groups))
        self._some: Bits = every > 0
        self._sizes = every[self._some].astype(np.int64)
        biggest = int(self._sizes.max(initial=1))
        self.cap = self.goal.largest or ratio.kept_size(self._sizes)
        larger = int((self._sizes > self.cap).sum())
        given = self.goal.largest is not None
        self.bet = {
            "largest": self.cap,
            "largest_from": "given" if given else "the largest group" if self.cap == biggest else "sizes",
            "largest_group": biggest,
            "larger_groups": larger,
            "stake": ratio.stake(self.goal.max_fpr, self.cap),
        }
        how = {"sizes": "95 % of the runs by size"}.get(self.bet["largest_from"], self.bet["largest_from"])
        weighed = f", {larger:,} larger groups of up to {biggest} runs count as {self.cap}" if larger else ""
        self.method = f"bet on the ratio, M = {self.cap} ({how}{weighed}), stake {self.bet['stake']:.3f}"

    @property
    def groups(self) -> int:
        """Task groups that are tested."""
        return int(np.unique(self.board.group_of_run[self.kept]).size)

    @property
    def limits(self) -> dict[str, Any]:
        """The further limits, as a profile tells them."""
        goal = self.goal
        if goal.max_alerts_per_hour is None:
            return {}
        return {
            "max_alerts_per_hour": goal.max_alerts_per_hour,
            "alerts_cap": goal.cap,
            "untimed_groups": self.burden.untimed if self.burden else 0,
        }

    def _one_run_a_group(self) -> Bits:
        """Of each group the healthy run that a seeded hash puts first."""
        kept = np.zeros(self.board.runs.height, dtype=bool)
        mine = self.board.runs.select("run_id", "task_group").filter(self.healthy)
        kept[np.flatnonzero(self.healthy)] = ratio.chosen_runs(mine, 1, self.goal.seed).to_numpy()
        return kept

    def test(self, cell: int) -> dict[str, Any]:
        """Counts, the means that are limited, and p-values of one cell (columns of `CERTIFICATE`)."""
        counts, main = self._share(cell) if self.goal.objective == "share" else self._fpr(cell)
        uncertain, alerts = self._uncertain(cell), self._alerts(cell)
        limits = [one for one in (main, uncertain, alerts) if one is not None]
        p = max(one.p for one in limits)
        more = [one.more for one in limits if one.more is not None]
        return {
            **counts,
            "rate": main.rate,
            "uncertain_share": uncertain and uncertain.rate,
            "alerts_per_hour": alerts and alerts.rate * self.goal.cap,
            "p_value": p,
            "p_rate": main.p,
            "p_uncertain": uncertain and uncertain.p,
            "p_alerts": alerts and alerts.p,
            "within": all(one.rate <= limit for one, limit in zip(limits, self._bounds(), strict=True)),
            # all limits need groups at once, so the neediest decides; one that no group can help decides too
            "more_groups": max(more) if len(more) == len(limits) else None,
        }

    def is_within(self, cell: int) -> bool:
        """Whether every mean that is limited lies within its limit on these splits."""
        return bool(self.test(cell)["within"])

    def _bounds(self) -> list[float]:
        """Limits in the order of `test`."""
        goal = self.goal
        further = [
            goal.max_uncertain,
            None if goal.max_alerts_per_hour is None else goal.max_alerts_per_hour / goal.cap,
        ]
        return [goal.max_fpr, *(one for one in further if one is not None)]

    def _fpr(self, cell: int) -> tuple[dict[str, int], Held]:
        alarmed = self.board.judged(cell).alarmed
        losses = group_losses(self.board, self.kept, alarmed)
        alarms = int((alarmed & self.kept).sum())
        counts = {"groups": losses.size, "alarms": alarms, "false_alarms": alarms}
        if not self.drawn:
            return counts, self._bet(losses, self.goal.max_fpr)
        alpha, delta = self.goal.max_fpr, self.goal.delta
        p = p_binomial(alarms, losses.size, alpha)
        rate = float(losses.mean()) if losses.size else 0.0
        more = 0 if p <= delta else None
        if p > delta and rate < alpha:
            more = max(0, _groups_at(alarms, rate, alpha, delta) - losses.size)
        return counts, Held(rate=rate, p=p, more=more)

    def _bet(self, losses: NDArray[np.float64], limit: float) -> Held:
        """Hold a limit against the mean of groups' losses, every run counted."""
        p = p_bet(losses, limit)
        rate = float(losses.mean()) if losses.size else 0.0
        if p <= self.goal.delta:
            return Held(rate=rate, p=p, more=0)
        wanted = groups_for_bet(losses, limit, self.goal.delta)
        return Held(rate=rate, p=p, more=None if wanted is None else max(0, wanted - losses.size))

    def _share(self, cell: int) -> tuple[dict[str, int], Held]:
        judged, board = self.board.judged(cell), self.board
        groups = len(board.groups)
        false = np.bincount(board.group_of_run[self.kept & (judged.first_false >= 0)], minlength=groups)
        true = np.bincount(board.group_of_run[self.kept & (judged.first_true >= 0)], minlength=groups)
        wrong, all_alarms = false[self._some], (false + true)[self._some]
        wealth = ratio.log_wealth(all_alarms, wrong, self.goal.max_fpr, self.cap, self._sizes)
        counts = {
            "groups": int(self._some.sum()),
            "alarms": int(all_alarms.sum()),
            "false_alarms": int(wrong.sum()),
        }
        return counts, Held(
            rate=ratio.weighed_share(all_alarms, wrong, self.cap, self._sizes),
            p=min(1.0, math.exp(-wealth)),
            more=ratio.more_groups(wealth, counts["groups"], self.goal.delta),
        )

    def _uncertain(self, cell: int) -> Held | None:
        if self.goal.max_uncertain is None:
            return None
        judged = self.board.judged(cell)
        losses = group_losses(self.board, self.healthy, judged.doubted & ~judged.alarmed)
        return self._bet(losses, self.goal.max_uncertain)

    def _alerts(self, cell: int) -> Held | None:
        if self.goal.max_alerts_per_hour is None:
            return None
        if self.burden is None:
            return Held(rate=0.0, p=1.0, more=None)
        losses = self.burden.losses(self.board.judged(cell).false_alerts, self.goal.cap)
        return self._bet(losses, self.goal.max_alerts_per_hour / self.goal.cap)


def _groups_at(alarms: int, rate: float, alpha: float, delta: float) -> int:
    """Groups at which `alarms` so far, and a rate that stays, are certified, by whole alarms."""
    while True:
        needed = groups_needed(alarms, alpha, delta)
        if alarms + 1 > rate * needed:
            return needed
        alarms = max(alarms + 1, int(rate * needed))
