"""Calibration as one call: open the data, read labels, choose a rule or refuse, write the profile and its tables."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens._version import __version__
from agentlens.data import Data, Opened, action_kinds, each, open_data
from agentlens.errors import InputError
from agentlens.in_place import write_text
from agentlens.model.select import Selection
from agentlens.results import Tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from agentlens.calibrate.acks import HandoffTables
    from agentlens.calibrate.calibrate import LoopCalibration
    from agentlens.calibrate.latency import AckSettings
    from agentlens.calibrate.recommend import Objective
    from agentlens.detect.policies import Policies
    from agentlens.detect.profile_rules import RuleBook
    from agentlens.detect.rules import Rule
    from agentlens.normalise.rows import Normaliser

WEAK = "weak"
PROFILE = "profile.toml"


@dataclass(frozen=True, kw_only=True)
class Calibration(Tables):
    """Result of `agentlens.calibrate`: the answer, and every table behind it.

    ``measures``: of each shown rule every quantity with its interval (`agentlens.calibrate.measures`).

    ``rates``: every class of settings on explore and certify; ``test``: the shown rules on the test split, empty
    where there is none; ``nested``: the folds, empty where there are splits. Schemas are in `agentlens.calibrate`:
    rates, recommend (certificate), nested, views (cases, missed), delay, pareto, chance, ppv, drift, ack_limits.
    """

    rates: pl.DataFrame
    measures: pl.DataFrame
    test: pl.DataFrame
    certificate: pl.DataFrame
    nested: pl.DataFrame
    settings: pl.DataFrame
    splits: pl.DataFrame
    labels: pl.DataFrame
    cases: pl.DataFrame
    missed: pl.DataFrame
    near_misses: pl.DataFrame
    detection: pl.DataFrame
    detection_curve: pl.DataFrame
    stability: pl.DataFrame
    amoc: pl.DataFrame
    chance: pl.DataFrame
    predictive: pl.DataFrame
    drift: pl.DataFrame
    counterfactuals: pl.DataFrame
    ack_limits: pl.DataFrame
    ack_curves: pl.DataFrame
    ack_checks: pl.DataFrame
    ack_labelled: pl.DataFrame
    evidence_window: pl.DataFrame
    profile: dict[str, dict[str, Any]] = field(default_factory=dict)
    openings: int = 0
    unopened: str = ""

    @property
    def status(self) -> str:
        """``CERTIFIED``, ``PROVISIONAL`` or ``INFEASIBLE``."""
        return str(self.profile["profile"]["status"])

    @property
    def rule(self) -> str | None:
        """What the recommended rule is called, or None."""
        return self.profile.get("default", {}).get("name")

    def _repr_html_(self) -> str:
        """Show the answer, the rules beside each other and the certificate; the other tables by name."""
        from html import escape

        from agentlens.results import shown

        box = self.profile["profile"]
        others = ", ".join(f"<code>.{name}</code>" for name in self.tables())
        last = f"<p>Tables: {others}; <code>.write(folder)</code> keeps them and the profile.</p>"
        if "reason" in box:
            said = f"no loop rule: {box['reason']}"
            return f"<h4>{escape(said)}</h4>" + shown("acknowledgement limits", self.ack_limits) + last
        facts = {
            "rule": self.rule or "none",
            "limit": f"{box['objective']} at most {box['max_fpr']:g}, wrong with a chance of at most {box['delta']:g}",
            "p": "–" if box.get("p_value") is None else f"{box['p_value']:.4g}",
            "more task groups needed": "–" if box.get("more_groups") is None else f"{box['more_groups']:,}",
            "test split": f"opened {self.openings:,} times" if self.openings else self.unopened,
        }
        rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(str(v))}</td></tr>" for k, v in facts.items())
        named = [*self.cases["rule"].unique(), *self.missed["rule"].unique(), self.rule]
        rules = self.rates.filter(pl.col("rule").is_in([name for name in named if name is not None]))
        brief = (
            "rule",
            "alarmed_runs",
            "healthy_runs",
            "fpr",
            "fpr_high",
            "detected",
            "incidents",
            "detection",
        )
        steps = ("step", "rule", "groups", "false_alarms", "rate", "p_value", "certified")
        return (
            f"<h4>{escape(self.status)}</h4><table>{rows}</table>"
            + shown("rules", rules.select(brief))
            + shown("certificate", self.certificate.select(steps))
            + last
        )

    def toml(self) -> str:
        """Return the profile file's text."""
        from agentlens.calibrate.profile import to_toml

        return to_toml(self.profile)

    def write(self, folder: str | Path) -> list[Path]:
        """Write ``profile.toml`` and every table as Parquet."""
        paths = super().write(folder)
        path = Path(folder) / PROFILE
        write_text(path, self.toml())
        return [path, *paths]


def calibrate(
    data: Data,
    *,
    labels: str | Path | pl.DataFrame | None = None,
    max_fpr: float = 0.01,
    delta: float = 0.05,
    objective: Objective = "fpr",
    max_uncertain: float | None = None,
    max_alerts_per_hour: float | None = None,
    alerts_cap: float | None = None,
    only: Sequence[Rule | RuleBook | str | Path] = (),
    seed: int = 0,
    shares: tuple[float, float, float] | None = None,
    folds: int | None = None,
    largest: int | None = None,
    incumbent: Rule | RuleBook | str | Path | None = None,
    within_events: int = 20,
    tol_events: int = 0,
    grace_events: int = 2,
    ack_beta: float = 0.05,
    ack_caps_s: Mapping[str, float] | None = None,
    policies: Policies | str | Path | None = None,
    actions: str | Sequence[str] = ("tool", "handoff"),
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    workflow: str | None = None,
    agent: str | None = None,
    normaliser: Normaliser | None = None,
    format: str | None = None,  # noqa: A002 - the word users type
    sql: str | Path | None = None,
) -> Calibration:
    """Choose a loop rule on labelled runs, with a certificate for its false alarms, or refuse.

    Data that hold receipts and no action, and labels of handoffs alone, give limits of handoffs; the rule is refused
    with the reason.

    Parameters
    ----------
    data
        A lake (its ledger then records each opening of the test split), a trace export, or a frame of events.
    labels
        A label file or frame; ``"weak"`` derives labels from outcomes and rewards (`agentlens.calibrate.weak`);
        None takes the lake's own label store.
    max_fpr, delta
        The false-alarm limit, and the chance that a certified rule is over it.
    objective
        ``fpr`` limits alarms per healthy run, ``share`` the share of false ones among alarms.
    max_uncertain
        A second limit: healthy runs whose only mark is an uncertain event.
    max_alerts_per_hour, alerts_cap
        A third limit: false alerts per active hour of healthy runs, a mean over task groups whose rates count for at
        most the cap (ten times the limit where None). Groups without times count as at the cap.
    only
        Rules that were fixed before these data were seen, in the order in which they are to be tested: nothing is
        chosen on explore, and the first has the whole of ``delta`` for itself.
    seed, shares
        Of the splits: explore, certify, test. Shares are chosen from counts alone where None; without an explore
        share the chain is fixed beforehand (for ``share`` the one from the incumbent).
    folds
        Nested cross-validation over that many folds instead of splits: PROVISIONAL at most. Where None and no shares
        are given it is used (five folds) when the data are too few for any rule to be certified.
    largest
        For ``share``: M, the most runs that a task group may count for. None: from the groups' sizes.
    incumbent
        The rule in use, that others are compared with.
    within_events
        D of detection@D.
    tol_events, grace_events
        How far before its onset and after its end an alert still belongs to an incident.
    ack_beta, ack_caps_s
        Of acknowledgement limits: share of good deliveries that may still be silent at the limit, and per urgency class
        (``*``: all) the longest silence that is acceptable. A cap below the limit is told as a conflict.

    Raises
    ------
    AgentlensError
        One line: what is missing, and what would do.
    """
    from agentlens.api import rule_book
    from agentlens.calibrate.acks import handoff_tables
    from agentlens.calibrate.calibrate import Plan, calibrate_loops
    from agentlens.calibrate.grid import Setting, baselines
    from agentlens.calibrate.label_check import selected_labels
    from agentlens.calibrate.latency import AckSettings
    from agentlens.calibrate.limits_only import has_actions, why_no_rule
    from agentlens.calibrate.rates import Looking
    from agentlens.calibrate.recommend import Goal
    from agentlens.calibrate.truth import Matching
    from agentlens.detect.policies import Policies as PoliciesClass
    from agentlens.model.receipt import RECEIPTS

    ack = AckSettings(delta=delta, beta=ack_beta, caps_s=ack_caps_s or {}, seed=seed)
    setting = baselines()[0]
    if incumbent is not None:
        rule = rule_book(incumbent).default
        setting = Setting(family="incumbent", text=_text_of(incumbent, rule), rule=rule)
    given = [(one, rule_book(one).default) for one in only]
    plan = Plan(
        goal=Goal(
            objective=objective,
            max_fpr=max_fpr,
            delta=delta,
            max_uncertain=max_uncertain,
            max_alerts_per_hour=max_alerts_per_hour,
            alerts_cap=alerts_cap,
            seed=seed,
            largest=largest,
            looking=Looking(within_events=within_events),
        ),
        shares=shares,
        matching=Matching(tol_events=tol_events, grace_events=grace_events),
        incumbent=setting,
        only=tuple(Setting(family="given", text=_text_of(one, rule), rule=rule) for one, rule in given),
        folds=folds,
    )
    loaded = PoliciesClass.load(Path(policies)) if isinstance(policies, str | Path) else policies
    selection = Selection.parse(since, until, workflow, agent)
    opened = open_data(data, Selection(), normaliser=normaliser, format=format, sql=sql)
    whole = [part.collect().lazy() for part in each(opened.parts)]
    parts = whole if selection.is_all else [_selected(part, selection) for part in whole]
    kinds = action_kinds(actions)
    receipts = RECEIPTS.to_frame() if opened.receipts is None else opened.receipts.collect()
    acting = receipts.is_empty() or has_actions(whole, kinds)
    told, origin = load_labels(labels, opened, parts, needed=acting)
    reason = why_no_rule(told, receipts, actions=acting)
    left_out = 0
    if not selection.is_all:
        told, left_out = selected_labels(told, whole, parts)
        opened = replace(opened, parts=tuple(parts))
    if left_out and told.is_empty():
        what = f"all {left_out:,} are of runs outside the selection"
        raise InputError.at("labels", what, accepted="a wider selection")
    made: dict[str, Any] = {
        "agentlens": __version__,
        "actions": list(kinds),
        "policies": loaded.digest if loaded else None,
        "labels_from": origin,
    }
    if reason is not None:
        if not selection.is_all:
            raise InputError.at("selection", f"{reason}: it selects runs", accepted="no selection of runs")
        return _limits_only(opened, receipts, told, ack, made, reason)
    found = calibrate_loops(parts, told, plan, policies=loaded, actions=kinds)
    made |= {
        "data": data_digest(found.spans),
        "labels_outside_selection": left_out,
        "selection": [str(value) for value in (since, until, workflow, agent) if value is not None] or None,
    }
    return _result(found, opened, parts, loaded, made, handoff_tables(receipts, found.labels, ack))


def _text_of(given: Rule | RuleBook | str | Path, rule: Rule) -> str:
    """Call a rule what it was called: a file by the name of its rule, a rule with arguments by its text."""
    from agentlens.detect.rule_text import is_rule_text

    return str(given) if isinstance(given, str) and is_rule_text(given) else rule.name


def _selected(events: pl.LazyFrame, selection: Selection) -> pl.LazyFrame:
    """Keep whole runs by time and workflow, and of those whole lanes by agent: a cut run would be another run."""
    runs = selection.apply(events).select("run_id").unique()
    lanes = Selection(agent=selection.agent).apply(events)
    return lanes.join(runs, on="run_id", how="semi").collect().lazy()


def load_labels(
    labels: str | Path | pl.DataFrame | None,
    opened: Opened,
    parts: Sequence[pl.LazyFrame],
    *,
    needed: bool = True,
) -> tuple[pl.DataFrame, str]:
    """Return the labels and where they are from: ``file``, ``frame``, ``weak`` or ``store``.

    Where they are not ``needed`` and nothing holds any there are none, from ``none``.
    """
    from agentlens.calibrate.label_store import LabelStore
    from agentlens.calibrate.labels import conform_labels, read_labels
    from agentlens.calibrate.weak import weak_labels
    from agentlens.model.label import LABELS

    if isinstance(labels, pl.DataFrame):
        return conform_labels(labels), "frame"
    if labels is None:
        told = LabelStore.of(opened.lake).read() if opened.lake else None
        if told is None or told.is_empty():
            if not needed:
                return LABELS.to_frame(), "none"
            raise InputError.at(
                "labels",
                "there are none",
                accepted="--labels FILE, --labels weak, or a lake with imported labels",
            )
        return told, "store"
    if str(labels) == WEAK and not Path(labels).exists():
        told = pl.concat([weak_labels(part) for part in parts])
        if told.is_empty():
            raise InputError.at(
                "labels", "no outcome in the data to derive weak labels from", accepted="a label file"
            )
        return told.sort("run_id", "onset_seq"), WEAK
    return read_labels(labels), "file"


def data_digest(spans: pl.DataFrame) -> str:
    """Digest of which runs there are and where they begin and end."""
    text = spans.select("run_id", "first_seq", "last_seq", "content").write_ndjson()
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _limits_only(
    opened: Opened,
    receipts: pl.DataFrame,
    labels: pl.DataFrame,
    ack: AckSettings,
    made: dict[str, Any],
    reason: str,
) -> Calibration:
    from agentlens.calibrate.acks import handoff_tables
    from agentlens.calibrate.limits_only import limits_profile, loop_tables

    handoffs = handoff_tables(receipts, labels, ack)
    profile = limits_profile(labels, reason, opened.versions(), made) | handoffs.profile
    metadata = {
        "agentlens": __version__,
        "status": str(profile["profile"]["status"]),
        "labels": profile["versions"]["labels"],
        **opened.versions(),
    }
    tables = {**loop_tables(), **handoffs.tables}
    return Calibration(
        labels=labels, **tables, profile=profile, openings=0, unopened=reason, metadata=metadata
    )


def _result(
    found: LoopCalibration,
    opened: Opened,
    parts: Sequence[pl.LazyFrame],
    policies: Policies | None,
    made: dict[str, Any],
    handoffs: HandoffTables,
) -> Calibration:
    from agentlens.calibrate import views
    from agentlens.calibrate.calibrate import profile_tables
    from agentlens.calibrate.counterfactual import counterfactuals
    from agentlens.calibrate.drift import DRIFT
    from agentlens.calibrate.near_misses import near_misses
    from agentlens.calibrate.rates import RATES
    from agentlens.calibrate.trade_offs import trade_offs

    shown, seen = found.shown(), ("explore", "certify")
    missed = views.missed(found, shown)
    tables = trade_offs(found, seen)
    openings, unopened = _open_test(found, opened)
    tables |= handoffs.tables
    profile = profile_tables(found, opened.versions(), {**made, "test_openings": openings})
    profile |= handoffs.profile
    metadata = {
        "agentlens": __version__,
        "status": str(found.answer.status),
        "plan": found.plan.digest,
        "labels": profile["versions"]["labels"],
        "splits": found.splits.digest,
        **opened.versions(),
    }
    return Calibration(
        rates=found.rates,
        test=found.test_rates() if openings else RATES.to_frame(),
        certificate=found.answer.certificate,
        nested=found.nested,
        settings=found.settings(),
        splits=found.splits.frame.join(found.truth.runs, on="run_id", how="left", maintain_order="left"),
        labels=found.labels,
        cases=views.cases(found, shown),
        missed=missed,
        near_misses=near_misses(missed, _rules(found, shown), parts, made["actions"]),
        chance=views.chance(found, [*shown, *found.chain], pl.concat(parts)),
        drift=views.moved(found, parts, policies) if openings else DRIFT.to_frame(),
        counterfactuals=counterfactuals(found, parts, policies=policies, actions=made["actions"]),
        **tables,
        profile=profile,
        openings=openings,
        unopened=unopened,
        metadata=metadata,
    )


def _rules(found: LoopCalibration, cells: Sequence[int]) -> list[tuple[str, Rule]]:
    return [(found.cells[cell].text, found.cells[cell].rule) for cell in cells]


def _open_test(found: LoopCalibration, opened: Opened) -> tuple[int, str]:
    """Record the opening of the test split; 0 and the reason where it stays closed."""
    from agentlens.calibrate.ledger import opening, run_marks

    if not found.board.in_splits(["test"]).any():
        kept = "every fold was judged in its turn" if found.nested.height else "no split was kept for it"
        return 0, kept
    if found.answer.cell is None:
        return 0, "no rule to look at it with"
    if opened.lake is None:
        return 1, ""
    entry = {
        "test_split": _test_digest(found),
        "runs": run_marks(found.splits.runs("test")["run_id"]),
        "labels": found.truth.digest,
        "plan": found.plan.digest,
        "rule": found.cells[found.answer.cell].rule.digest,
    }
    return opening(opened.lake.labels_folder, entry), ""


def _test_digest(found: LoopCalibration) -> str:
    groups = found.splits.runs("test").select("run_id", "task_group").sort("run_id").rows()
    return hashlib.blake2b(repr(groups).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
