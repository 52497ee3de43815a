"""Nested cross-validation, for data too small for three parts (CALIBRATION 2.3): it judges the way of choosing.

Whole task groups are folds, oldest first where times are known. On the groups before a fold a rule is chosen, on the
fold it is judged; what comes out is what such a choice is worth, not a promise about one rule. So nothing here is
ever certified. Rules learn nothing from runs, so an inner fold adds nothing to the rates on all older groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from agentlens.calibrate.certificate import Status
from agentlens.calibrate.intervals import clopper_pearson
from agentlens.calibrate.rates import group_losses, mean_interval, rates
from agentlens.calibrate.recommend import Recommendation, answer, best, inside, walk
from agentlens.calibrate.splits import in_order
from agentlens.calibrate.tester import Tester

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from agentlens.calibrate.board import Bits, Board
    from agentlens.calibrate.recommend import Goal
    from agentlens.calibrate.splits import Splits

FOLDS = 5
NESTED_FROM = "nested cross-validation: the rule that all groups choose"

NESTED = pl.Schema(
    {
        "fold": pl.Int64(),
        "rule": pl.String(),
        "groups_before": pl.Int64(),
        "healthy_groups": pl.Int64(),
        "healthy_runs": pl.Int64(),
        "alarmed_runs": pl.Int64(),
        "fpr": pl.Float64(),
        "fpr_low": pl.Float64(),
        "fpr_high": pl.Float64(),
        "incidents": pl.Int64(),
        "detected": pl.Int64(),
        "detection": pl.Float64(),
        "detection_low": pl.Float64(),
        "detection_high": pl.Float64(),
        "alarms": pl.Int64(),
        "false_alarms": pl.Int64(),
        "false_share": pl.Float64(),
    }
)
"""One row a fold that was judged, and first one with a null fold for all of them together: the procedure.

``rule``: chosen on the ``groups_before`` (with times, groups that ended before the fold began; else all the others);
null where none was within the limit: such a fold has no alarm and detects nothing."""


def nested_answer(
    board: Board, goal: Goal, offered: dict[str, list[int]], splits: Splits, folds: int
) -> tuple[Recommendation, pl.DataFrame]:
    """Judge the procedure fold by fold, and give the rule that it chooses on everything: PROVISIONAL at most.

    Parameters
    ----------
    offered
        Cells of each chain; the procedure chooses among all of them.
    splits
        Where groups stand in time; every group is in *certify*.
    folds
        How many, at least 2; fewer where there are fewer groups.
    """
    cells = list(dict.fromkeys(cell for chain in offered.values() for cell in chain))
    table = _folds(board, goal, cells, splits, folds)
    cell = _choice(board, goal, cells, ["certify"])
    tester = Tester(board, goal)
    name = next((name for name, chain in offered.items() if cell in chain), next(iter(offered)))
    certificate, _ = walk(tester, name, offered[name])
    certificate = certificate.with_columns(certified=pl.lit(False))
    status = Status.INFEASIBLE if cell is None else Status.PROVISIONAL
    return answer(status, cell, certificate, tester, NESTED_FROM), table


def _choice(board: Board, goal: Goal, cells: Sequence[int], splits: Sequence[str]) -> int | None:
    """The procedure: of the rules within the limits there, the best."""
    allowed = inside(board, goal, cells, splits)["cell"].to_list()
    return best(board, goal, allowed, splits) if allowed else None


def _folds(board: Board, goal: Goal, cells: Sequence[int], splits: Splits, folds: int) -> pl.DataFrame:
    order = in_order(splits)
    count = min(folds, order.height)
    number = np.arange(order.height) * count // order.height
    timed = splits.placed_by == "time"
    group = board.runs["task_group"]
    rows: list[dict[str, Any]] = []
    losses: list[NDArray[np.float64]] = []
    for fold in range(1 if timed else 0, count):
        judged = order.filter(pl.Series(number == fold))
        before = (
            order.filter(pl.col("last") < judged["first"].min())
            if timed
            else order.filter(pl.Series(number != fold))
        )
        held, older = (group.is_in(one["task_group"].implode()).to_numpy() for one in (judged, before))
        split = np.where(held, "test", np.where(older, "explore", "certify"))
        view = board.placed(split.tolist())
        cell = _choice(view, goal, cells, ["explore"]) if older.any() else None
        losses.append(_losses(view, held, cell))
        rows.append({"fold": fold, "groups_before": before.height, **_judged(view, goal, cells, cell)})
    sizes = np.bincount(board.group_of_run[board.healthy], minlength=1)
    return pl.DataFrame([_together(rows, losses, sizes), *rows], schema=NESTED, orient="row")


def _losses(view: Board, held: Bits, cell: int | None) -> NDArray[np.float64]:
    healthy = view.healthy & held
    alarmed = np.zeros(held.size, dtype=bool) if cell is None else view.judged(cell).alarmed
    return group_losses(view, healthy, alarmed)


def _judged(view: Board, goal: Goal, cells: Sequence[int], cell: int | None) -> dict[str, Any]:
    """What the chosen rule does on the fold; without a rule nothing alarms."""
    shown = cells[0] if cell is None else cell
    row = rates(view, ["test"], incumbent=shown, looking=goal.looking, only=[shown]).row(0, named=True)
    kept = {name: row[name] for name in NESTED if name in row}
    if cell is not None:
        return kept
    silent = {
        "rule": None,
        **dict.fromkeys(("fpr_low", "fpr_high", "detection_low", "detection_high", "false_share")),
    }
    counts = dict.fromkeys(("alarmed_runs", "detected", "alarms", "false_alarms"), 0)
    zero = {name: None if row[name] is None else 0.0 for name in ("fpr", "detection")}
    return {**kept, **silent, **counts, **zero}


def _together(
    rows: Sequence[dict[str, Any]], losses: Sequence[NDArray[np.float64]], sizes: NDArray[np.int64]
) -> dict[str, Any]:
    """All folds as one: the rate is the mean over groups, whichever rule judged them."""
    counted = ("healthy_groups", "healthy_runs", "alarmed_runs", "incidents", "detected", "alarms")
    sums = {name: sum(row[name] for row in rows) for name in (*counted, "false_alarms")}
    every = np.concatenate([np.empty(0), *losses])
    low, high = mean_interval(every, sizes, 0.95)
    found = clopper_pearson(sums["detected"], sums["incidents"], 0.95)
    return {
        **sums,
        "fpr": float(every.mean()) if every.size else None,
        "fpr_low": low,
        "fpr_high": high,
        "detection": found.value,
        "detection_low": found.low,
        "detection_high": found.high,
        "false_share": sums["false_alarms"] / sums["alarms"] if sums["alarms"] else None,
    }
