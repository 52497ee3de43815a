"""Which rule may be used: explore chooses a chain, certify tests it, and the answer may be no (CALIBRATION 2.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from agentlens.calibrate.certificate import Status, check_limits, walk_chain
from agentlens.calibrate.rates import RATES, Looking, rates
from agentlens.calibrate.tester import Tester
from agentlens.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.calibrate.board import Board
    from agentlens.calibrate.certificate import Step

Objective = Literal["fpr", "share"]
FIXED = "fixed beforehand, no explore split"
GIVEN = "given beforehand"
SEEN = ("explore", "certify")
_CAP = 10.0

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
        "uncertain_share": pl.Float64(),
        "alerts_per_hour": pl.Float64(),
        "p_value": pl.Float64(),
        "p_rate": pl.Float64(),
        "p_uncertain": pl.Float64(),
        "p_alerts": pl.Float64(),
        "within": pl.Boolean(),
        "tested": pl.Boolean(),
        "certified": pl.Boolean(),
        "more_groups": pl.Int64(),
    }
)
"""One row a rule of the chain that was walked, strict to loose, on the certify split.

``alarms``, ``false_alarms``: runs that alarm, and falsely, among the units tested. ``rate``: what is limited: the
false-positive rate per healthy run, or the false share of alarms. ``uncertain_share``, ``alerts_per_hour``: what the
further limits are held against, null where there is none; the latter is the mean over groups of alerts per active
hour of healthy runs, each cut at the cap. ``p_value`` is the largest of the limits' p-values, ``within``: every mean is
within its limit here. ``more_groups``: groups still needed if further ones were like these; null where that can not
help.
"""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What is asked for.

    ``max_fpr``: the limit alpha, of the false-positive rate per healthy run (``objective="fpr"``) or of the share of
    false alarms among alarms (``"share"``). ``delta``: chance that a certified rule is over the limit after all.
    ``max_uncertain``: a second limit, on the share of healthy runs whose only mark is an uncertain event.
    ``max_alerts_per_hour``: a third, on false alerts per active hour of healthy runs, a mean over groups; a group's
    rate counts for at most ``alerts_cap`` (None: ten times the limit). ``largest``: for the share, M, the most runs
    that a group may count for. None: from the sizes (`agentlens.calibrate.ratio.kept_size`).
    """

    objective: Objective = "fpr"
    max_fpr: float = 0.01
    delta: float = 0.05
    max_uncertain: float | None = None
    max_alerts_per_hour: float | None = None
    alerts_cap: float | None = None
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
        self._check_alerts()
        if self.seed < 0:
            raise SettingsError.value("seed", self.seed, "a whole number from 0")
        if self.largest is not None and (self.largest < 1 or self.objective != "share"):
            accepted = "runs a group, from 1, and only where the objective is share"
            raise SettingsError.value("largest", self.largest, accepted)

    def _check_alerts(self) -> None:
        limit, cap = self.max_alerts_per_hour, self.alerts_cap
        if limit is not None and not 0 < limit < math.inf:
            raise SettingsError.value("max_alerts_per_hour", limit, "alerts per hour, above 0")
        if cap is not None and (limit is None or not limit < cap < math.inf):
            accepted = "alerts per hour above max_alerts_per_hour, and only beside it"
            raise SettingsError.value("alerts_cap", cap, accepted)

    @property
    def cap(self) -> float:
        """What a group's alerts per hour count for at most; 1 where they are not limited."""
        return self.alerts_cap or _CAP * (self.max_alerts_per_hour or 1 / _CAP)


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The answer. ``cell`` is None where nothing may be recommended; ``test`` says how certify was read.

    ``chain_from``: where the walk's chain or its start is from. ``bet``: of a share, ``largest`` (M), ``largest_from``,
    ``largest_group``, ``larger_groups`` and ``stake``, all fixed before any alarm was read; empty otherwise.
    ``limits``: of alerts per hour, likewise.
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
    limits: dict[str, Any]


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


def inside(board: Board, goal: Goal, cells: Sequence[int], splits: Sequence[str]) -> pl.DataFrame:
    """`agentlens.calibrate.rates.RATES` of the cells that stay within every limit on some splits."""
    if not cells:
        return RATES.to_frame()
    seen = rates(board, splits, incumbent=cells[0], looking=goal.looking, only=cells)
    limited = "false_share" if goal.objective == "share" else "fpr"
    kept = seen.filter(pl.col(limited).fill_null(0.0) <= goal.max_fpr)
    if goal.max_uncertain is None and goal.max_alerts_per_hour is None:
        return kept
    tester = Tester(board, goal, splits)
    return kept.filter(pl.Series([tester.is_within(cell) for cell in kept["cell"]], dtype=pl.Boolean))


def choose_chain(board: Board, goal: Goal, offered: dict[str, list[int]]) -> str:
    """Return the chain that promises most on explore: the best detection whose false rate there is within the limit."""
    best: tuple[float, float, int] | None = None
    chosen = next(iter(offered))
    for place, (name, cells) in enumerate(offered.items()):
        seen = inside(board, goal, cells, ["explore"])
        if seen.is_empty():
            continue
        ahead = pl.coalesce("detection_within", "detection")
        if goal.objective == "share":
            ahead = pl.col("true_alarms").cast(pl.Float64)
        promise, delay = seen.select(
            ahead.fill_null(0.0), -pl.col("restricted_delay_events").fill_null(0.0)
        ).rows()[-1]
        if best is None or (promise, delay, -place) > best:
            best, chosen = (promise, delay, -place), name
    return chosen


def recommend(
    board: Board, goal: Goal, offered: dict[str, list[int]], *, explored: bool, given: bool = False
) -> Recommendation:
    """Choose a chain, walk it, and choose among what is certified.

    Parameters
    ----------
    offered
        Cells of each chain, strict to loose.
    explored
        Whether there is an explore split to choose a chain on; without one the first chain is walked.
    given
        The rules were named beforehand, in this order: nothing is chosen on explore.
    """
    explored = explored and not given
    name = choose_chain(board, goal, offered) if explored and len(offered) > 1 else next(iter(offered))
    cells, chosen_on = offered[name], GIVEN if given else "explore" if explored else FIXED
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
        cell = best(board, goal, certified)
        return answer(Status.CERTIFIED, cell, certificate, tester, chosen_on)
    # a rule is only reached when those before it pass: it needs what the neediest of them needs
    known = pl.col("more_groups").is_not_null().cum_min()
    reached = certificate.filter(known).with_columns(pl.col("more_groups").cum_max())
    hopeful = reached.filter("within")
    hopeful = hopeful.filter(pl.col("cell").is_in(_looks_fine(board, goal, hopeful["cell"].to_list())))
    if hopeful.is_empty():
        # explore may have begun too far along: a stricter rule was not walked and is not promised, but may be fine
        stricter = walk(tester, name, offered[name][: len(offered[name]) - len(cells)])[0]
        stricter = stricter.filter(pl.col("more_groups").is_not_null(), "within")
        fine = _looks_fine(board, goal, stricter["cell"].to_list())
        # these groups have had their say, so its own test needs as many that nobody has seen, and what they lack
        fresh = pl.col("groups") + pl.col("more_groups")
        hopeful = stricter.filter(pl.col("cell").is_in(fine)).with_columns(more_groups=fresh)
    if hopeful.is_empty():
        return answer(Status.INFEASIBLE, None, certificate, tester, chosen_on)
    nearest = hopeful.filter(pl.col("more_groups") == pl.col("more_groups").min())
    cell = best(board, goal, nearest["cell"].to_list())
    found = answer(Status.PROVISIONAL, cell, certificate, tester, chosen_on)
    return replace(found, more_groups=nearest["more_groups"][0])


def _looks_fine(board: Board, goal: Goal, cells: Sequence[int]) -> list[int]:
    """Cells that stay within the limits on explore and certify together: what explore saw is not forgotten."""
    return inside(board, goal, cells, SEEN)["cell"].to_list()


def _likeliest(board: Board, goal: Goal, cells: Sequence[int]) -> int:
    """Where on a chain explore says that a share is certified most easily: the walk starts there, and loosens."""
    tester = Tester(board, goal, ("explore",))
    p_values = [tester.test(cell)["p_rate"] for cell in cells]
    return p_values.index(min(p_values))


def answer(
    status: Status, cell: int | None, certificate: pl.DataFrame, tester: Tester, chosen_on: str
) -> Recommendation:
    """Put the answer together; the numbers are those of the recommended rule's row."""
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
        limits=tester.limits,
    )


def best(board: Board, goal: Goal, cells: Sequence[int], splits: Sequence[str] = SEEN) -> int:
    """Choose among cells that may be used, by explore and certify: free, once all of them hold at the same time.

    By the false rate: the highest lower limit of detection, then the shortest restricted delay, fewer alerts, and
    last the stricter rule. By the share: the most true alarms, then the earliest.
    """
    seen = rates(board, splits, incumbent=cells[0], looking=goal.looking, only=cells)
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
