"""Calibration of loop rules from events and labels, start to end; no files, no printing."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens.calibrate.board import Board
from agentlens.calibrate.chains import chains, loosened
from agentlens.calibrate.design import EVERYTHING, Counts, Shares, can_certify, default_shares
from agentlens.calibrate.grid import (
    Cell,
    Setting,
    baselines,
    classes,
    full_windows,
    key_of,
    lap_profiles,
    lap_settings,
    surprises,
)
from agentlens.calibrate.labels import conform_labels, labels_digest
from agentlens.calibrate.nested import FOLDS, NESTED, nested_answer
from agentlens.calibrate.rates import rates
from agentlens.calibrate.recommend import Goal, Recommendation, recommend
from agentlens.calibrate.spans import groups_of, run_spans
from agentlens.calibrate.splits import Splits, split_groups
from agentlens.calibrate.sweep import sweep
from agentlens.calibrate.truth import Matching, Truth, lay, strongest
from agentlens.errors import InputError, SettingsError
from agentlens.model.event import ACTIONS
from agentlens.model.label import Scope, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.detect.policies import Policies

SETTINGS = pl.Schema({"cell": pl.Int32(), "family": pl.String(), "setting": pl.String()})
"""Which class each setting of the grid is in: settings of one cell are one detector."""


ONLY = "only the rules given"
_LEAST_GROUPS = 2
_HEALTHY = "runs labelled healthy (scope run); unlabelled is not healthy"
BOUNDS = (
    *("healthy_runs", "healthy_groups", "alarmed_runs", "fpr", "fpr_low", "fpr_high", "fpr_if_uncertain"),
    *("incidents", "detected", "detection", "detection_low", "detection_high"),
    *("incidents_with_onset", "detected_within", "median_delay_events"),
    *("alarms", "false_alarms", "false_share", "mean_alarm_step", "thin"),
)
"""What a profile repeats of the recommended rule's row, as seen on explore and certify."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a calibration is made.

    ``shares`` None: from counts alone (`agentlens.calibrate.design.default_shares`). ``only``: rules fixed beforehand,
    tested in this order, each at the full delta while those before it passed. ``folds``: nested cross-validation
    instead of splits; where None and no shares are given, that is what data get from which nothing could be certified.
    """

    goal: Goal = field(default_factory=Goal)
    shares: Shares | None = None
    matching: Matching = field(default_factory=Matching)
    incumbent: Setting = field(default_factory=lambda: baselines()[0])
    grid: bool = True
    by_time: bool = True
    only: tuple[Setting, ...] = ()
    folds: int | None = None

    def __post_init__(self) -> None:
        """Refuse folds beside splits or given rules."""
        if self.folds is not None and (self.folds < _LEAST_GROUPS or self.shares or self.only):
            accepted = "at least 2, and neither shares nor given rules beside it"
            raise SettingsError.value("folds", self.folds, accepted)

    @property
    def digest(self) -> str:
        """Digest of the question: fixed before certify is read."""
        facts = {
            **asdict(replace(self, incumbent=baselines()[0], only=())),
            "incumbent": self.incumbent.rule.digest,
            "only": [one.rule.digest for one in self.only],
        }
        return hashlib.blake2b(
            json.dumps(facts, sort_keys=True, default=str).encode(), digest_size=16
        ).hexdigest()


@dataclass(frozen=True, kw_only=True)
class LoopCalibration:
    """What came out. ``board`` holds every cell's alerts against the labels; ``rates`` is on explore and certify.

    ``nested`` (`agentlens.calibrate.nested.NESTED`) is empty where splits were used.
    """

    plan: Plan
    board: Board
    truth: Truth
    splits: Splits
    shares: Shares
    labels: pl.DataFrame
    spans: pl.DataFrame
    rates: pl.DataFrame
    answer: Recommendation
    incumbent: int
    compared: tuple[int, ...]
    chain: tuple[int, ...]
    tried_chains: int
    nested: pl.DataFrame

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The classes that were tried."""
        return self.board.sweep.cells

    def settings(self) -> pl.DataFrame:
        """Return every setting with its class (`SETTINGS`)."""
        rows = [(n, one.family, one.text) for n, cell in enumerate(self.cells) for one in cell.settings]
        return pl.DataFrame(rows, schema=SETTINGS, orient="row")

    def shown(self) -> list[int]:
        """The recommended cell, the incumbent and the baselines, each once."""
        first = [] if self.answer.cell is None else [self.answer.cell]
        return list(dict.fromkeys([*first, self.incumbent, *self.compared]))

    def test_rates(self) -> pl.DataFrame:
        """Rates of the shown cells on the test split: looking at this opens it."""
        return rates(
            self.board,
            ["test"],
            incumbent=self.incumbent,
            looking=self.plan.goal.looking,
            detailed=self.shown(),
            only=self.shown(),
            seed=self.plan.goal.seed,
        )


def calibrate_loops(
    parts: Sequence[pl.LazyFrame],
    labels: pl.DataFrame,
    plan: Plan | None = None,
    *,
    policies: Policies | None = None,
    actions: Sequence[str] = ACTIONS,
) -> LoopCalibration:
    """Sweep the grid, match alerts with labels, and choose a rule with a certificate or refuse.

    Parameters
    ----------
    parts
        Event tables that hold disjoint whole runs.
    labels
        `agentlens.model.label.LABELS`.
    plan
        The question, the grid and the splits.

    Raises
    ------
    InputError, SettingsError
        One line that says what is missing and what would do.
    """
    plan, labels = plan or Plan(), conform_labels(labels)
    spans = run_spans(parts, actions)
    mine = labels.filter(pl.col("scope") != str(Scope.HANDOFF))
    if mine.is_empty():
        raise InputError.at("labels", "none is about a run", accepted="labels of scope run, interval or step")
    offered, cells = _offered(plan)
    found = sweep(parts, cells, policies=policies, actions=actions)
    truth = lay(mine, found.actions, spans, plan.matching)
    _refuse_one_sided(mine, truth, plan.goal)
    runs, splits, shares, folds = _split(spans, strongest(mine), truth, plan)
    board = Board(found, truth, runs)
    number = {cell.key: n for n, cell in enumerate(cells)}
    cell_chains = {name: [number[key_of(s.rule)] for s in settings] for name, settings in offered.items()}
    if folds:
        answer, judged = nested_answer(board, plan.goal, cell_chains, splits, folds)
    else:
        judged = NESTED.to_frame()
        answer = recommend(board, plan.goal, cell_chains, explored=shares[0] > 0, given=bool(plan.only))
    incumbent = number[key_of(plan.incumbent.rule)]
    compared = tuple(number[key_of(s.rule)] for s in baselines())
    chain = tuple(cell_chains[answer.chain])
    seen = ["explore", "certify"]
    table = rates(
        board,
        seen,
        incumbent=incumbent,
        looking=plan.goal.looking,
        detailed={incumbent, *compared, *([] if answer.cell is None else [answer.cell])},
        seed=plan.goal.seed,
    )
    return LoopCalibration(
        plan=plan,
        board=board,
        truth=truth,
        splits=splits,
        shares=shares,
        labels=labels,
        spans=spans,
        rates=table,
        answer=answer,
        incumbent=incumbent,
        compared=compared,
        chain=chain,
        tried_chains=len(offered),
        nested=judged,
    )


def _offered(plan: Plan) -> tuple[dict[str, tuple[Setting, ...]], list[Cell]]:
    """Chains that may be walked, and the classes of everything that is tried."""
    if plan.only:
        offered = {ONLY: plan.only}
    elif plan.goal.objective == "share":
        chain = loosened(plan.incumbent)
        offered = {chain.name: chain.settings}
    else:
        offered = {chain.name: chain.settings for chain in chains()}
    settings = [*plan.only, plan.incumbent, *baselines(), *(s for chain in offered.values() for s in chain)]
    if plan.grid:
        settings += lap_settings(lap_profiles()) + full_windows()
        settings += surprises() + full_windows(confirms=(1,), evidence="constant")
    return offered, classes(settings)


def _refuse_one_sided(labels: pl.DataFrame, truth: Truth, goal: Goal) -> None:
    kept = strongest(labels).join(truth.runs, on="run_id", how="semi")
    measured = "a false-positive rate" if goal.objective == "fpr" else "alerts per hour of healthy runs"
    needed = goal.objective == "fpr" or goal.max_alerts_per_hour is not None
    if needed and not (truth.runs["state"] == "healthy").any():
        what = f"no healthy run: {measured} can not be measured"
        raise InputError.at("labels", what, accepted=_HEALTHY)
    if not (kept["label"] == str(State.HEALTHY)).any():
        what = "nothing is labelled healthy: a share of false alarms can not be measured"
        raise InputError.at("labels", what, accepted=_HEALTHY)
    if not truth.incidents.height:
        raise InputError.at(
            "labels",
            "no incident: what a rule would miss can not be measured",
            accepted="labels of incidents (scope run, interval or step)",
        )


def _split(
    spans: pl.DataFrame, labels: pl.DataFrame, truth: Truth, plan: Plan
) -> tuple[pl.DataFrame, Splits, Shares, int]:
    """Labelled runs with group, split and state, and the number of folds, 0 for none.

    Runs without labels tie groups together and are then left out.
    """
    groups = groups_of(spans, labels).join(truth.runs, on="run_id", how="inner", maintain_order="left")
    tasks = groups["task_group"].n_unique()
    if tasks < _LEAST_GROUPS:
        accepted = "at least two independent task groups; label more tasks"
        raise SettingsError.value("task groups", tasks, accepted)
    counts = Counts.of(groups)
    folds = plan.folds or 0
    if not (folds or plan.shares or plan.only or can_certify(plan.goal, counts)):
        folds = FOLDS
    fixed = bool(plan.only)
    shares = EVERYTHING if folds else plan.shares or default_shares(plan.goal, counts, fixed=fixed)
    times = spans.select(
        "run_id", pl.col("first_at").alias("started_at"), pl.col("last_at").alias("ended_at")
    )
    splits = split_groups(
        groups.select("run_id", "task_group"), times, shares=shares, seed=plan.goal.seed, by_time=plan.by_time
    )
    placed = splits.frame.join(truth.runs, on="run_id", how="left", maintain_order="left")
    return placed.select("run_id", "task_group", "split", "state"), splits, shares, folds


def profile_tables(
    found: LoopCalibration, versions: dict[str, str], made: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the profile as tables, without limits of handoffs."""
    answer, goal = found.answer, found.plan.goal
    tables: dict[str, dict[str, Any]] = {
        "profile": {
            "status": str(answer.status),
            "objective": goal.objective,
            "max_fpr": goal.max_fpr,
            "delta": goal.delta,
            "max_uncertain": goal.max_uncertain,
            "p_value": answer.p_value,
            "test": answer.test,
            "chain": answer.chain,
            "chain_from": answer.chain_from,
            "test_split": found.shares[2] > 0,
            **answer.bet,
            **answer.limits,
            "more_groups": answer.more_groups,
        },
    }
    if answer.cell is not None:
        from agentlens.calibrate.profile import rule_table

        cell = found.cells[answer.cell]
        tables["default"] = rule_table(cell.rule, cell.text)
        row = found.rates.row(answer.cell, named=True)
        tables["bounds"] = {name: row[name] for name in BOUNDS} | {
            "within_events": goal.looking.within_events
        }
    if found.nested.height:
        tables["procedure"] = {
            **{name: value for name, value in found.nested.row(0, named=True).items() if value is not None},
            "folds": found.nested.height - 1,
        }
    tables["versions"] = {**versions, "labels": labels_digest(found.labels)}
    tables["made"] = {
        "seed": goal.seed,
        "shares": list(found.shares),
        "placed_by": found.splits.placed_by,
        "splits": found.splits.digest,
        "plan": found.plan.digest,
        "label_sources": list(found.truth.origins),
        "excluded_runs": found.truth.excluded,
        "unlabelled_runs": found.truth.unlabelled,
        "incidents_without_actions": found.truth.actionless,
        "incidents_told_again": found.truth.repeated,
        **made,
    }
    return tables
