"""What a calibration shows of its rules beside their rates: delays, trade-offs, chance, and every alert as a row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from agentlens.calibrate.chance import CHANCE, chance_table, estimate
from agentlens.calibrate.drift import DRIFT, drift
from agentlens.calibrate.incident_delays import watching
from agentlens.calibrate.pareto import Sample
from agentlens.calibrate.rates import delays
from agentlens.calibrate.truth import Place
from agentlens.detect.loops import loops, scores
from agentlens.errors import SettingsError
from agentlens.model.enums import Verdict
from agentlens.model.event import TIME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentlens.calibrate.board import Board
    from agentlens.calibrate.calibrate import LoopCalibration
    from agentlens.detect.policies import Policies

CASES = pl.Schema(
    {
        "rule": pl.String(),
        "run_id": pl.String(),
        "agent": pl.String(),
        "alert_seq": pl.Int64(),
        "alert_at": TIME,
        "onset_seq": pl.Int64(),
        "period": pl.Int64(),
        "stretch": pl.Int64(),
        "place": pl.String(),
        "incident": pl.Int64(),
        "first": pl.Boolean(),
        "task_group": pl.String(),
        "split": pl.String(),
    }
)
"""One row an alert of a shown rule on explore and certify: what the labels say of it (``healthy_run``,
``healthy_part``, ``incident``, ``late``, ``unjudged``, ``unlabelled``), and whether it is the first inside its
incident. ``stretch``: events from its onset to its last stuck event."""

MISSED = pl.Schema(
    {
        "rule": pl.String(),
        "run_id": pl.String(),
        "kind": pl.String(),
        "found_by": pl.String(),
        "onset_seq": pl.Int64(),
        "events": pl.Int64(),
        "task_group": pl.String(),
    }
)
"""One row an incident that a shown rule never alerts in; ``events``: how many it had."""


def cases(
    found: LoopCalibration, cells: Sequence[int], splits: Sequence[str] = ("explore", "certify")
) -> pl.DataFrame:
    """List the alerts of some cells (`CASES`, sorted by rule, run, lane and seq)."""
    board, names = found.board, [str(p.name).lower() for p in Place]
    runs = board.runs.select("run_id", "task_group", "split")
    parts = [CASES.to_frame()]
    for cell in cells:
        rows = found.board.sweep.of(cell)
        at = rows["row"].to_numpy()
        first = np.isin(at, board.judged(cell).detected)
        told = rows.with_columns(
            pl.lit(found.cells[cell].text).alias("rule"),
            pl.Series("place", [names[p] for p in board.truth.place[at].tolist()], dtype=pl.String),
            pl.Series("incident", board.truth.incident[at]),
            pl.Series("first", first),
            (pl.col("last") - pl.col("onset") + 1).alias("stretch"),
        ).rename({"seq": "alert_seq", "at": "alert_at"})
        told = told.join(runs, on="run_id", how="left", maintain_order="left")
        told = told.with_columns(pl.when(pl.col("incident") >= 0).then("incident").alias("incident"))
        parts.append(told.select(pl.col(n).cast(t) for n, t in CASES.items()))
    every = pl.concat(parts)
    return every.filter(pl.col("split").is_null() | pl.col("split").is_in(list(splits))).sort(
        "rule", "run_id", "agent", "alert_seq"
    )


def missed(
    found: LoopCalibration, cells: Sequence[int], splits: Sequence[str] = ("explore", "certify")
) -> pl.DataFrame:
    """List the incidents that some cells never alert in (`MISSED`)."""
    board = found.board
    kept = board.in_splits(splits)
    facts = board.incidents.sort("lo").unique("incident", keep="first").sort("incident")
    run = board.incident_runs()
    parts = [MISSED.to_frame()]
    for cell in cells:
        silent = (board.judged(cell).detected < 0) & kept[run] if run.size else np.empty(0, dtype=bool)
        rows = facts.filter(pl.Series(silent, dtype=pl.Boolean)).join(
            board.runs.select("run_id", "task_group"), on="run_id", how="left", maintain_order="left"
        )
        parts.append(
            rows.select(
                pl.lit(found.cells[cell].text).alias("rule"),
                "run_id",
                "kind",
                "found_by",
                pl.Series("onset_seq", board.sweep.actions["seq"].gather(rows["lo"].to_list())),
                (pl.col("end") - pl.col("lo") + 1).alias("events"),
                "task_group",
            ).cast(dict(MISSED))  # type: ignore[arg-type]
        )
    return pl.concat(parts).sort("rule", "run_id", "onset_seq")


def sample(found: LoopCalibration, cells: Sequence[int], splits: Sequence[str]) -> Sample | None:
    """Put what several cells did to the same groups side by side; None without healthy or incident groups."""
    names = {cell: found.cells[cell].text for cell in cells}
    return side_by_side(found.board, names, splits, found.plan.goal.looking.within_events)


def side_by_side(board: Board, rules: Mapping[int, str], splits: Sequence[str], within: int) -> Sample | None:
    """Give the same for any board: ``rules`` names cells, ``within`` is D of detection@D, in events."""
    kept = board.in_splits(splits)
    healthy, groups = board.healthy & kept, len(board.groups)
    sizes = np.bincount(board.group_of_run[healthy], minlength=groups)
    rows = np.isin(board.truth.place, [Place.HEALTHY_RUN, Place.HEALTHY_PART]) & (board.run_of_row >= 0)
    rows[rows] = kept[board.run_of_row[rows]]
    exposure = np.bincount(board.group_of_run[board.run_of_row[rows]], minlength=groups)
    run = board.incident_runs()
    mine = kept[run] if run.size else np.empty(0, dtype=bool)
    group = board.group_of_run[run[mine]] if run.size else np.empty(0, dtype=np.int64)
    count = np.bincount(group, minlength=groups)
    some, ill = sizes > 0, count > 0
    if not some.any() or not ill.any():
        return None
    columns: list[list[np.ndarray]] = [[], [], [], []]
    watched = watching(board)[0][mine]
    for cell in rules:
        judged = board.judged(cell)
        late = delays(board, judged)[mine]
        alarmed = np.bincount(board.group_of_run[judged.alarmed & healthy], minlength=groups)
        false = np.bincount(
            board.group_of_run, weights=np.where(kept, judged.false_alerts, 0), minlength=groups
        )
        columns[0].append(alarmed[some] / sizes[some])
        columns[1].append(false[some])
        columns[2].append(np.where(late >= 0, late, watched))
        columns[3].append(late >= 0)
    losses, alerts, waits, found = (np.stack(each, axis=1) for each in columns)
    return Sample(
        rules=tuple(rules.values()),
        losses=losses,
        alerts=alerts,
        exposure=exposure[some].astype(np.float64),
        waits=waits,
        found=found,
        group=np.searchsorted(np.flatnonzero(ill), group),
        within=within,
    )


def chance(found: LoopCalibration, cells: Sequence[int], events: pl.LazyFrame) -> pl.DataFrame:
    """Chance floor of some cells, estimated on healthy runs that are not the test split's."""
    board = found.board
    kept = board.healthy & board.in_splits(["explore", "certify"])
    runs = board.runs["run_id"].filter(pl.Series(kept))
    acts = found.board.sweep.actions.filter(pl.col("run_id").is_in(runs.implode()))
    if acts.is_empty():
        return CHANCE.to_frame()
    names = ("run_id", "agent", "seq", "action_signature", "progress_fingerprint")
    mine = acts.select("run_id", "agent", "seq")
    rows = events.with_columns(pl.col("agent").fill_null("")).select(names).collect()
    rows = mine.join(rows, on=["run_id", "agent", "seq"], how="left", maintain_order="left")
    length = int(acts.group_by("run_id").len()["len"].median() or 1)  # type: ignore[arg-type]
    observed = {row["rule"]: row["per_1000_events"] for row in found.rates.iter_rows(named=True)}
    rules = [replace(found.cells[cell].rule, name=found.cells[cell].text) for cell in cells]
    seen = {name: rate for name, rate in observed.items() if rate is not None}
    try:
        return chance_table(estimate(rows), rules, events=length, observed_per_1000=seen)
    except SettingsError:  # too little is known of these runs to say what chance would do
        return CHANCE.to_frame()


def moved(found: LoopCalibration, parts: Sequence[pl.LazyFrame], policies: Policies | None) -> pl.DataFrame:
    """Hold the scores of the test split's healthy runs against those of certify (`agentlens.calibrate.drift.DRIFT`)."""
    cell = found.answer.cell
    board = found.board
    if cell is None:
        return DRIFT.to_frame()
    runs = board.runs.filter(pl.Series(board.healthy)).select("run_id", "task_group", "split")
    scored = pl.concat([_run_scores(found, cell, part, policies) for part in parts])
    told = (
        runs.join(scored, on="run_id", how="left").with_columns(pl.col("score").fill_null(0)).sort("run_id")
    )
    sides = [
        told.filter(pl.col("split") == name).select("task_group", "score") for name in ("certify", "test")
    ]
    if not sides[0].height or not sides[1].height:
        return DRIFT.to_frame()
    goal = found.plan.goal
    least = found.cells[cell].rule.thresholds[0]
    return drift(sides[0], sides[1], least, max_fpr=goal.max_fpr, seed=goal.seed)


def _run_scores(
    found: LoopCalibration, cell: int, part: pl.LazyFrame, policies: Policies | None
) -> pl.DataFrame:
    """``run_id, score``: how far a run came towards the rule's first threshold; it alarms where it reaches it."""
    rule = found.cells[cell].rule
    held = part.collect().lazy()
    kinds = [str(Verdict.WORKING), str(Verdict.STUCK_LOOP)]
    verdict = loops(held, rule, policies).select("verdict").collect()
    given = scores(held, rule.max_period, rule.evidence, max_gap_s=rule.max_gap_s).collect()
    first = rule.thresholds[0]
    near = pl.max_horizontal(pl.col(f"s_lo_{p}") - t + first for p, t in enumerate(rule.thresholds, 1))
    rows = pl.concat([given, verdict], how="horizontal").filter(pl.col("verdict").is_in(kinds))
    return rows.group_by("run_id").agg(near.max().clip(0).cast(pl.Int64).alias("score")).sort("run_id")
