"""Which rule may be used: explore chooses a chain, certify tests it, and the answer may be no (CALIBRATION 2.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from agentlens.calibrate import ratio
from agentlens.calibrate.certificate import Status, check_limits, groups_needed, p_bet, p_binomial, walk_chain
from agentlens.calibrate.rates import Looking, group_losses, rates
from agentlens.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.calibrate.board import Bits, Board
    from agentlens.calibrate.certificate import Step

Objective = Literal["fpr", "share"]
_FIXED = "fixed beforehand, no explore split"

CERTIFICATE = pl.Schema(
    {
        "chain": pl.String(),
        "step": pl.Int64(),
        "cell": pl.Int32(),
        "rule": pl.String(),
        "groups": pl.Int64(),
        "alarms": pl.Int64(),
        "false_alarms": pl.Int64(),
        "rate": pl.Float64(),
        "p_value": pl.Float64(),
        "p_rate": pl.Float64(),
        "p_uncertain": pl.Float64(),
        "tested": pl.Boolean(),
        "certified": pl.Boolean(),
        "more_groups": pl.Int64(),
    }
)
"""One row a rule of the chain that was walked, strict to loose, on the certify split.

``alarms``, ``false_alarms``: runs that alarm, and falsely, among the units tested. ``rate``: what is limited: the
false-positive rate per healthy run, or the false share of alarms. ``p_value`` is the larger of the constraints'
p-values. ``more_groups``: groups still needed if further ones were like these; null where that can not help.
"""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What is asked for.

    ``max_fpr``: the limit alpha, of the false-positive rate per healthy run (``objective="fpr"``) or of the share of
    false alarms among alarms (``"share"``). ``delta``: chance that a certified rule is over the limit after all.
    ``max_uncertain``: a second limit, on the share of healthy runs whose only mark is an uncertain event.
    ``largest``: for the share, M, a number of runs a group fixed beforehand: of larger groups a seeded hash draws as
    many. None: M is the size of the largest group that is tested, and no run is left out.
    """

    objective: Objective = "fpr"
    max_fpr: float = 0.01
    delta: float = 0.05
    max_uncertain: float | None = None
    seed: int = 0
    largest: int | None = None
    looking: Looking = field(default_factory=Looking)

    def __post_init__(self) -> None:
        """Refuse limits that nothing or everything could meet."""
        check_limits(self.max_fpr, self.delta)
        if self.objective not in {"fpr", "share"}:
            raise SettingsError.unknown("objective", self.objective, ("fpr", "share"))
        if self.max_uncertain is not None and not 0 < self.max_uncertain < 1:
            raise SettingsError.value("max_uncertain", self.max_uncertain, "a share above 0 and below 1")
        if self.seed < 0:
            raise SettingsError.value("seed", self.seed, "a whole number from 0")
        if self.largest is not None and (self.largest < 1 or self.objective != "share"):
            accepted = "runs a group, from 1, and only where the objective is share"
            raise SettingsError.value("largest", self.largest, accepted)


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The answer. ``cell`` is None where nothing may be recommended; ``test`` says how certify was read.

    ``chain_from``: where the walk's chain or its start is from. ``bet``: of a share, ``largest`` (M), ``largest_from``,
    ``stake`` and ``dropped_runs``, all fixed before any alarm was read; empty otherwise.
    """

    status: Status
    cell: int | None
    certificate: pl.DataFrame
    chain: str
    test: str
    more_groups: int | None
    p_value: float | None
    chain_from: str
    bet: dict[str, Any]


def default_shares(goal: Goal, healthy_groups: int) -> tuple[float, float, float]:
    """Split shares from the number of groups alone, before any alarm is read.

    Three parts where 40 % of the healthy groups can certify something; else no exploring and a chain fixed
    beforehand. The false share of alarms needs hundreds of groups: a fifth explores where its chain starts, the rest
    certify, and none are kept for a test.
    """
    if goal.objective == "share":
        return (0.2, 0.8, 0.0)
    needed = groups_needed(0, goal.max_fpr, goal.delta)
    if 0.4 * healthy_groups < needed <= 0.8 * healthy_groups:
        return (0.0, 0.8, 0.2)
    return (0.4, 0.4, 0.2)


class Tester:
    """p-values of cells on the certify split; units and stakes are fixed before alarms are read."""

    def __init__(self, board: Board, goal: Goal, splits: Sequence[str] = ("certify",)) -> None:
        self.board, self.goal = board, goal
        self.bet: dict[str, Any] = {}
        kept = board.in_splits(splits)
        self.healthy: Bits = kept & board.healthy
        if goal.objective == "share":
            self.kept: Bits = self._at_most(kept)
            self.method = self._how(kept)
            return
        self.kept = self.healthy
        sizes = np.bincount(board.group_of_run[self.healthy], minlength=len(board.groups))
        groups = int((sizes > 0).sum())
        few = groups < 2 * groups_needed(0, goal.max_fpr, goal.delta)
        self.drawn = bool(sizes.max(initial=0) <= 1) or few
        if self.drawn and groups:
            self.kept = self._one_run_a_group()
        self.method = "exact binomial, one run a group" if self.drawn else "mixture bet, every run of a group"

    def _at_most(self, kept: Bits) -> Bits:
        """Fix M, and of larger groups the runs that are drawn: sizes alone decide, no alarm is read."""
        sizes = np.bincount(self.board.group_of_run[kept], minlength=1)
        self.cap = self.goal.largest or max(int(sizes.max()), 1)
        judged = self.board.runs.select("run_id", "task_group").filter(pl.Series(kept))
        chosen = np.zeros(kept.size, dtype=bool)
        chosen[np.flatnonzero(kept)] = ratio.chosen_runs(judged, self.cap, self.goal.seed).to_numpy()
        self.bet = {
            "largest": self.cap,
            "largest_from": "the largest group" if self.goal.largest is None else "given",
            "stake": ratio.stake(self.goal.max_fpr, self.cap),
            "dropped_runs": int(kept.sum() - chosen.sum()),
        }
        return chosen

    def _how(self, kept: Bits) -> str:
        bet = self.bet
        left_out = (
            f", {bet['dropped_runs']:,} of {int(kept.sum()):,} runs left out" if bet["dropped_runs"] else ""
        )
        return f"bet on the ratio, M = {self.cap} ({bet['largest_from']}{left_out}), stake {bet['stake']:.3f}"

    @property
    def groups(self) -> int:
        """Task groups that are tested."""
        return int(np.unique(self.board.group_of_run[self.kept]).size)

    def _one_run_a_group(self) -> Bits:
        """Of each group the healthy run that a seeded hash puts first."""
        kept = np.zeros(self.board.runs.height, dtype=bool)
        mine = self.board.runs.select("run_id", "task_group").filter(pl.Series(self.healthy))
        kept[np.flatnonzero(self.healthy)] = ratio.chosen_runs(mine, 1, self.goal.seed).to_numpy()
        return kept

    def test(self, cell: int) -> dict[str, Any]:
        """Counts, the rate that is limited, and p-values of one cell."""
        found = self._share(cell) if self.goal.objective == "share" else self._fpr(cell)
        p_uncertain = self._uncertain(cell)
        return {**found, "p_uncertain": p_uncertain, "p_value": max(found["p_rate"], p_uncertain or 0.0)}

    def _fpr(self, cell: int) -> dict[str, Any]:
        losses = group_losses(self.board, self.kept, self.board.judged(cell).alarmed)
        alarms = int((self.board.judged(cell).alarmed & self.kept).sum())
        alpha, delta = self.goal.max_fpr, self.goal.delta
        p = p_binomial(alarms, losses.size, alpha) if self.drawn else p_bet(losses, alpha)
        rate = float(losses.mean()) if losses.size else 0.0
        more = self._more(alarms, losses.size, rate, p)
        return {
            "groups": losses.size,
            "alarms": alarms,
            "false_alarms": alarms,
            "rate": rate,
            "p_rate": p,
            "more_groups": 0 if p <= delta else more,
        }

    def _more(self, alarms: int, groups: int, rate: float, p: float) -> int | None:
        """Groups still needed if further ones are like these; None where that can not help."""
        alpha, delta = self.goal.max_fpr, self.goal.delta
        if rate >= alpha:
            return None
        if self.drawn:
            return max(0, _groups_at(alarms, rate, alpha, delta) - groups)
        return ratio.more_groups(-math.log(p), groups, delta) if p < 1 else None

    def _share(self, cell: int) -> dict[str, Any]:
        judged, board = self.board.judged(cell), self.board
        groups = len(board.groups)
        false = np.bincount(board.group_of_run[self.kept & (judged.first_false >= 0)], minlength=groups)
        true = np.bincount(board.group_of_run[self.kept & (judged.first_true >= 0)], minlength=groups)
        some = np.bincount(board.group_of_run[self.kept], minlength=groups) > 0
        wealth = ratio.log_wealth((false + true)[some], false[some], self.goal.max_fpr, self.cap)
        p = float(min(1.0, np.exp(-wealth)))
        count = int(some.sum())
        alarms, wrong = int((false + true).sum()), int(false.sum())
        return {
            "groups": count,
            "alarms": alarms,
            "false_alarms": wrong,
            "rate": wrong / alarms if alarms else 0.0,
            "p_rate": p,
            "more_groups": ratio.more_groups(wealth, count, self.goal.delta),
        }

    def _uncertain(self, cell: int) -> float | None:
        if self.goal.max_uncertain is None:
            return None
        judged = self.board.judged(cell)
        losses = group_losses(self.board, self.healthy, judged.doubted & ~judged.alarmed)
        return p_bet(losses, self.goal.max_uncertain)


def _groups_at(alarms: int, rate: float, alpha: float, delta: float) -> int:
    """Groups at which `alarms` so far, and a rate that stays, are certified, by whole alarms."""
    while True:
        needed = groups_needed(alarms, alpha, delta)
        if alarms + 1 > rate * needed:
            return needed
        alarms = max(alarms + 1, int(rate * needed))


def walk(tester: Tester, name: str, cells: Sequence[int]) -> tuple[pl.DataFrame, list[Step]]:
    """Test the rules of one chain in order (`CERTIFICATE`)."""
    tests = [tester.test(cell) for cell in cells]
    steps = walk_chain([test["p_value"] for test in tests], tester.goal.delta)
    rows = [
        {
            "chain": name,
            "step": step.index,
            "cell": cell,
            "rule": tester.board.sweep.cells[cell].text,
            **test,
            "tested": step.tested,
            "certified": step.certified,
        }
        for cell, test, step in zip(cells, tests, steps, strict=True)
    ]
    return pl.DataFrame(rows, schema=CERTIFICATE, orient="row"), steps


def choose_chain(board: Board, goal: Goal, offered: dict[str, list[int]]) -> str:
    """Return the chain that promises most on explore: the best detection whose false rate there is within the limit."""
    best: tuple[float, float, int] | None = None
    chosen = next(iter(offered))
    for place, (name, cells) in enumerate(offered.items()):
        seen = rates(board, ["explore"], incumbent=cells[0], looking=goal.looking, only=cells)
        ahead = pl.coalesce("detection_within", "detection")
        if goal.objective == "share":
            inside = seen.filter(pl.col("false_share").fill_null(0.0) <= goal.max_fpr)
            ahead = pl.col("true_alarms").cast(pl.Float64)
        else:
            inside = seen.filter(pl.col("fpr").fill_null(0.0) <= goal.max_fpr)
        if inside.is_empty():
            continue
        promise, delay = inside.select(
            ahead.fill_null(0.0), -pl.col("restricted_delay_events").fill_null(0.0)
        ).rows()[-1]
        if best is None or (promise, delay, -place) > best:
            best, chosen = (promise, delay, -place), name
    return chosen


def recommend(board: Board, goal: Goal, offered: dict[str, list[int]], *, explored: bool) -> Recommendation:
    """Choose a chain, walk it, and choose among what is certified.

    Parameters
    ----------
    offered
        Cells of each chain, strict to loose.
    explored
        Whether there is an explore split to choose a chain on; without one the first chain is walked.
    """
    name = choose_chain(board, goal, offered) if explored and len(offered) > 1 else next(iter(offered))
    cells, chosen_on = offered[name], "explore" if explored else _FIXED
    if explored and goal.objective == "share":
        cells = cells[_likeliest(board, goal, cells) :]
    tester = Tester(board, goal)
    if not tester.groups:
        what = "healthy run" if goal.objective == "fpr" else "labelled run"
        raise SettingsError(
            f"certify: the split holds no {what}; accepted: more labels, or other --shares or --seed"
        )
    certificate, steps = walk(tester, name, cells)
    certified = [cells[step.index] for step in steps if step.certified]
    if certified:
        cell = _best(board, goal, certified)
        return _answer(Status.CERTIFIED, cell, certificate, tester, chosen_on)
    # a rule is only reached when those before it pass: it needs what the neediest of them needs
    known = pl.col("more_groups").is_not_null().cum_min()
    reached = certificate.filter(known).with_columns(pl.col("more_groups").cum_max())
    hopeful = reached.filter(pl.col("rate") <= goal.max_fpr)
    hopeful = hopeful.filter(pl.col("cell").is_in(_looks_fine(board, goal, hopeful["cell"].to_list())))
    if hopeful.is_empty():
        # explore may have begun too far along: a stricter rule was not walked and is not promised, but may be fine
        stricter = walk(tester, name, offered[name][: len(offered[name]) - len(cells)])[0]
        stricter = stricter.filter(pl.col("more_groups").is_not_null(), pl.col("rate") <= goal.max_fpr)
        fine = _looks_fine(board, goal, stricter["cell"].to_list())
        hopeful = stricter.filter(pl.col("cell").is_in(fine))
    if hopeful.is_empty():
        return _answer(Status.INFEASIBLE, None, certificate, tester, chosen_on)
    nearest = hopeful.filter(pl.col("more_groups") == pl.col("more_groups").min())
    cell = _best(board, goal, nearest["cell"].to_list())
    found = _answer(Status.PROVISIONAL, cell, certificate, tester, chosen_on)
    return replace(found, more_groups=nearest["more_groups"][0])


def _looks_fine(board: Board, goal: Goal, cells: Sequence[int]) -> list[int]:
    """Cells that stay within the limit on explore and certify together: what explore saw is not forgotten."""
    if not cells:
        return []
    seen = rates(board, ["explore", "certify"], incumbent=cells[0], looking=goal.looking, only=cells)
    limited = "false_share" if goal.objective == "share" else "fpr"
    return seen.filter(pl.col(limited).fill_null(0.0) <= goal.max_fpr)["cell"].to_list()


def _likeliest(board: Board, goal: Goal, cells: Sequence[int]) -> int:
    """Where on a chain explore says that a share is certified most easily: the walk starts there, and loosens."""
    tester = Tester(board, goal, ("explore",))
    p_values = [tester.test(cell)["p_rate"] for cell in cells]
    return p_values.index(min(p_values))


def _answer(
    status: Status, cell: int | None, certificate: pl.DataFrame, tester: Tester, chosen_on: str
) -> Recommendation:
    mine = certificate.filter(pl.col("cell") == cell) if cell is not None else certificate.clear()
    row = mine.row(0, named=True) if mine.height else {}
    return Recommendation(
        status=status,
        cell=cell,
        certificate=certificate,
        chain=certificate["chain"][0],
        test=tester.method,
        more_groups=row.get("more_groups"),
        p_value=row.get("p_value"),
        chain_from=chosen_on,
        bet=tester.bet,
    )


def _best(board: Board, goal: Goal, cells: Sequence[int]) -> int:
    """Choose among cells that may be used, by explore and certify: free, once all of them hold at the same time.

    By the false rate: the highest lower limit of detection, then the shortest restricted delay, fewer alerts, and
    last the stricter rule. By the share: the most true alarms, then the earliest.
    """
    seen = rates(board, ["explore", "certify"], incumbent=cells[0], looking=goal.looking, only=cells)
    if goal.objective == "share":
        order = seen.sort(["true_alarms", "mean_alarm_step"], descending=[True, False], maintain_order=True)
    else:
        first = pl.coalesce("detection_within_low", "detection_low").fill_null(0.0)
        order = seen.with_columns(first.alias("_first")).sort(
            ["_first", "restricted_delay_events", "false_alerts"],
            descending=[True, False, False],
            nulls_last=True,
            maintain_order=True,
        )
    return int(order["cell"][0])
