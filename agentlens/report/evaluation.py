"""The rule in force held against labels, beside rules that others ship and its stricter and looser neighbours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from agentlens.calibrate.board import Board
from agentlens.calibrate.chains import loosened
from agentlens.calibrate.grid import Setting, baselines, classes, full_windows, key_of
from agentlens.calibrate.labels import labels_digest
from agentlens.calibrate.rates import Looking, rates
from agentlens.calibrate.spans import groups_of, run_spans
from agentlens.calibrate.sweep import DOUBTS, Sweep, stretches, sweep
from agentlens.calibrate.truth import Matching, Place, Truth, lay, strongest
from agentlens.errors import InputError
from agentlens.model.enums import Verdict
from agentlens.model.label import Scope

if TYPE_CHECKING:
    from agentlens.detect.policies import Policies
    from agentlens.report.material import Material

IN_FORCE: Final = 0
"""Cell of the rule in force."""
_PLACES: Final = [str(place.name).lower() for place in Place]
SPLIT: Final = "all"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Alerts against labels, over all labelled runs.

    ``board``: cell 0 is the rule in force, with its overrides and policies; ``rates`` (schema `RATES`) has one row a
    cell; ``chain``: the cells of its stricter and looser neighbours; ``named``: rule in force and baselines.
    ``alerts``: the episodes with ``place`` (`Place` in words) and ``incident``. ``labels``: those that count.
    ``left_out``: labelled runs that the data do not hold.
    """

    board: Board
    truth: Truth
    rates: pl.DataFrame
    chain: tuple[int, ...]
    named: tuple[int, ...]
    labels: pl.DataFrame
    groups: pl.DataFrame
    alerts: pl.DataFrame
    left_out: int
    looking: Looking

    @property
    def digest(self) -> str:
        """Digest of the labels: their version."""
        return labels_digest(self.labels)

    def force(self) -> dict[str, object]:
        """Return the row of `rates` of the rule in force."""
        return self.rates.filter(pl.col("cell") == IN_FORCE).row(0, named=True)


def evaluate(
    made: Material, labels: pl.DataFrame, policies: Policies | None, *, partial: bool = False
) -> Evaluation:
    """Lay labels over the data and hold every alert against them.

    Parameters
    ----------
    partial
        Whether labels of runs that are not in the data are left out rather than refused: the data were selected.

    Raises
    ------
    InputError
        When no label is about a run, or labels do not fit the data or each other.
    """
    mine = labels.filter(pl.col("scope") != str(Scope.HANDOFF))
    spans = run_spans([made.events], made.actions)
    known = mine.join(spans, on="run_id", how="semi") if partial else mine
    if known.is_empty():
        raise InputError.at(
            "labels", "none is about a run of the data", accepted="labels of scope run, interval or step"
        )
    force = Setting(family="in force", text=made.book.name, rule=made.book.default)
    chain = loosened(force).settings
    windows = full_windows(range(4, 17), range(1, 7), (2,), (1,))
    cells = classes([force, *baselines(), *chain, *windows])
    found = sweep([made.events], cells, policies=policies, actions=made.actions)
    found = _as_judged(found, made)
    truth = lay(known, found.actions, spans, Matching())
    groups = groups_of(spans, strongest(known))
    runs = truth.runs.join(groups, on="run_id", how="left", maintain_order="left").with_columns(
        split=pl.lit(SPLIT)
    )
    board = Board(found, truth, runs.select("run_id", "task_group", "split", "state"))
    number = {cell.key: n for n, cell in enumerate(cells)}
    named = tuple(dict.fromkeys([IN_FORCE, *(number[key_of(one.rule)] for one in baselines())]))
    looking = Looking()
    table = rates(board, [SPLIT], incumbent=IN_FORCE, looking=looking, detailed=set(named))
    table = table.with_columns(
        rule=pl.when(pl.col("cell") == IN_FORCE)
        .then(pl.concat_str(pl.lit("in force: "), "rule"))
        .otherwise("rule")
    )
    return Evaluation(
        board=board,
        truth=truth,
        rates=table,
        chain=tuple(dict.fromkeys(number[key_of(one.rule)] for one in chain)),
        named=named,
        labels=known,
        groups=groups,
        alerts=_placed(made, board),
        left_out=mine["run_id"].n_unique() - known["run_id"].n_unique(),
        looking=looking,
    )


def _as_judged(found: Sweep, made: Material) -> Sweep:
    """Put the alerts that were given in place of those of the default rule alone: overrides count."""
    if not made.book.overrides:
        return found
    where = found.actions.with_row_index("row").select("run_id", "agent", "seq", pl.col("row").cast(pl.Int32))
    key = ["run_id", "agent"]
    stuck = made.verdicts.filter(pl.col("verdict") == str(Verdict.STUCK_LOOP)).select(*key, "seq")
    last = (
        made.episodes.select(*key, "alert_seq", "end_seq")
        .join(stuck, on=key)
        .filter(pl.col("seq").is_between("alert_seq", "end_seq"))
        .group_by(*key, "alert_seq")
        .agg(last_seq=pl.col("seq").max())
    )
    own = made.episodes.join(last, on=[*key, "alert_seq"], how="left")
    for name, seq in (("row", "alert_seq"), ("onset", "onset_seq"), ("last", "last_seq")):
        own = own.join(where.rename({"row": name, "seq": seq}), on=[*key, seq], how="left")
    alerts = own.select(
        pl.lit(IN_FORCE, dtype=pl.Int32).alias("cell"),
        "row",
        "onset",
        "last",
        pl.col("period").cast(pl.Int32),
    )
    doubtful = made.verdicts.filter(pl.col("verdict") == str(Verdict.UNCERTAIN))
    rows = doubtful.join(where, on=[*key, "seq"])["row"].sort().to_numpy()
    first, last_doubt = stretches(rows, found.lane_start)
    doubts = pl.DataFrame({"cell": IN_FORCE, "row": first, "last": last_doubt}, schema=DOUBTS)
    return replace(
        found,
        alerts=pl.concat([alerts, found.alerts.filter(pl.col("cell") != IN_FORCE)]).sort("cell", "row"),
        doubts=pl.concat([doubts, found.doubts.filter(pl.col("cell") != IN_FORCE)]).sort("cell", "row"),
    )


def truth_rows(board: Board) -> pl.DataFrame:
    """``run_id, agent, seq, place, false, incident, since``: what an alert would be, one row an action."""
    truth, actions = board.truth, board.sweep.actions
    place = truth.place
    labelled = board.run_of_row >= 0
    rows = np.arange(actions.height, dtype=np.int64)
    since = np.where(truth.incident >= 0, np.maximum(rows - truth.onset, 0), -1)
    return actions.select("run_id", "agent", "seq").with_columns(
        pl.Series("place", [_PLACES[p] for p in place.tolist()], dtype=pl.String),
        pl.Series("false", np.isin(place, [Place.HEALTHY_RUN, Place.HEALTHY_PART]) & labelled),
        pl.when(pl.Series(truth.incident) >= 0).then(pl.Series(truth.incident)).alias("incident"),
        pl.when(pl.Series(since) >= 0).then(pl.Series(since)).alias("since"),
    )


def _placed(made: Material, board: Board) -> pl.DataFrame:
    """Give every episode what the labels say of its alert."""
    rows = truth_rows(board).rename({"seq": "alert_seq"})
    key = ["run_id", "agent", "alert_seq"]
    return made.episodes.select(*key, "onset_seq").join(rows, on=key, how="left").sort(key)
