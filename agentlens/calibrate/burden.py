"""False alerts per agent-hour of a task group, clipped at a cap: a second thing that a certificate can limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agentlens.calibrate.board import ACTIVE_GAP_US, lane_gaps
from agentlens.errors import SettingsError

if TYPE_CHECKING:
    from agentlens.calibrate.board import Bits, Board, Ints

Floats: TypeAlias = NDArray[np.float64]
_HOUR_US = 3_600_000_000


class Burden:
    """Active hours of the healthy runs of each task group; a rule's alerts are held against them.

    Hours are active time: pauses count up to five minutes, lanes of a run add up. A group in which some action has no
    time counts as at the cap, whatever its alerts: nothing is promised on what was not measured.

    Raises
    ------
    SettingsError
        When no group has times.
    """

    def __init__(self, board: Board, healthy: Bits) -> None:
        count = len(board.groups)
        self._group: Ints = board.group_of_run
        self._healthy = healthy
        self._some: Bits = np.bincount(board.group_of_run[healthy], minlength=count) > 0
        rows = board.run_of_row >= 0
        rows[rows] = healthy[board.run_of_row[rows]]
        groups = board.group_of_run[board.run_of_row[rows]]
        untimed = board.sweep.actions["at"].is_null().to_numpy()[rows]
        self._unknown: Bits = np.bincount(groups[untimed], minlength=count) > 0
        spent = np.minimum(lane_gaps(board.sweep.actions), ACTIVE_GAP_US)[rows]
        self._hours: Floats = np.bincount(groups, weights=spent, minlength=count) / _HOUR_US
        if not (self._some & ~self._unknown).any():
            what = "max_alerts_per_hour: no healthy run here has a time on every action, so no hour can be counted"
            raise SettingsError(f"{what}; accepted: data with times, or no limit per hour")

    @property
    def untimed(self) -> int:
        """Groups that count as at the cap because a time is missing."""
        return int((self._some & self._unknown).sum())

    def losses(self, alerts: Ints, cap: float) -> Floats:
        """Alerts per hour of each group that has a healthy run, as a share of `cap`, at most 1.

        ``alerts``: false alerts of every run. A group without any active time has a rate of 0 without alerts, and is
        at the cap with one.
        """
        raised = np.bincount(
            self._group[self._healthy], weights=alerts[self._healthy], minlength=self._some.size
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where(raised > 0, raised / self._hours, 0.0)
        shares = np.where(self._unknown, 1.0, np.minimum(rate / cap, 1.0))
        return np.asarray(shares[self._some], dtype=np.float64)
