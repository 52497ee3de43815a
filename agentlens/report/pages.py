"""The whole report page: three tabs, a stamp, and the tables behind them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens.model.label import Scope
from agentlens.report.boundary import handoff_tab, reset_tab
from agentlens.report.cases import Bench
from agentlens.report.document import Page, Section, Tab, render
from agentlens.report.evaluation import evaluate
from agentlens.report.labelled import (
    data_ledger,
    fixes,
    missed,
    queue,
    truth_of,
    verdict_box,
    where_false,
    why_false,
)
from agentlens.report.operating import picture
from agentlens.report.triage import case_part, joined, triage
from agentlens.report.words import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentlens.report.document import Cell
    from agentlens.report.evaluation import Evaluation
    from agentlens.report.material import Material
    from agentlens.report.triage import Part

REVEALED = (
    "This file holds raw content of the traces (arguments and results of actions), because it was asked for. Treat it"
    " as you treat the traces."
)


@dataclass(frozen=True, kw_only=True)
class Made:
    """A page and its tables by name."""

    html: str
    tables: dict[str, pl.DataFrame]


def report_page(
    made: Material,
    *,
    labels: pl.DataFrame | None = None,
    profile: Mapping[str, Any] | None = None,
    base_rate: float = 0.01,
) -> Made:
    """Lay the report out: loops, handoffs, resets.

    Parameters
    ----------
    labels
        `agentlens.model.label.LABELS`; without them the loops' tab is for triage.
    profile
        Tables of a profile file.
    base_rate
        Share of runs that are incidents.
    """
    sections, tables = _loops(made, labels, profile, base_rate)
    given, more = handoff_tab(made.boundaries, labels, partial=made.selected)
    branched, yet = reset_tab(made.boundaries)
    title = "Loops, handoffs and resets in finished runs"
    page = Page(
        title=title,
        lead=_lead(made),
        tabs=(
            Tab(anchor="loops", title="Loops", sections=sections),
            Tab(anchor="handoffs", title="Handoffs", sections=given),
            Tab(anchor="resets", title="Resets", sections=branched),
        ),
        stamp=tuple(made.stamp.items()),
        warning=REVEALED if made.revealed else "",
    )
    return Made(html=render(page), tables={**tables, **more, **yet})


def _loops(
    made: Material, labels: pl.DataFrame | None, profile: Mapping[str, Any] | None, base_rate: float
) -> Part:
    """The loops' tab: triage, and with labels the parts that need them around it."""
    if labels is None or not labels.filter(pl.col("scope") != str(Scope.HANDOFF)).height:
        return joined([*triage(Bench.of(made)), _limits()])
    found = evaluate(made, labels, made.policies, partial=made.selected)
    bench = Bench.of(made, truth_of(found))
    told, alerts = why_false(bench, found)
    bench = replace(bench, notes=_notes(found, alerts))
    return joined(
        [
            verdict_box(found, profile, base_rate),
            data_ledger(bench, found),
            picture(bench, found, base_rate, profile),
            told,
            where_false(bench, found),
            case_part(bench, _false_first(bench, alerts)),
            fixes(bench, (profile or {}).get("tables", {}).get("counterfactuals")),
            missed(bench, found),
            queue(bench, found),
            *triage(bench, cases=False, sample=False),
            _limits(),
        ]
    )


def _notes(found: Evaluation, alerts: pl.DataFrame) -> dict[tuple[str, str, int], tuple[Cell, ...]]:
    """Tags of episodes: what the labels say of the alert, and its cause where it is false."""
    why = {
        (run, agent, seq): cause
        for run, agent, seq, cause in alerts.select("run_id", "agent", "alert_seq", "cause").iter_rows()
    }
    notes: dict[tuple[str, str, int], tuple[Cell, ...]] = {}
    for row in found.alerts.iter_rows(named=True):
        key = (row["run_id"], row["agent"], row["onset_seq"])
        cause = why.get((row["run_id"], row["agent"], row["alert_seq"]))
        said = f"label: {row['place'].replace('_', ' ')}"
        notes[key] = (f"{said}; false alert; cause: {cause}",) if cause else (said,)
    return notes


def _false_first(bench: Bench, alerts: pl.DataFrame) -> pl.DataFrame:
    wrong = alerts.select("run_id", "agent", "alert_seq", false=pl.lit(True))
    return bench.episodes.join(
        wrong, on=["run_id", "agent", "alert_seq"], how="left", maintain_order="left"
    ).sort(pl.col("false").fill_null(value=False), descending=True, maintain_order=True)


def _lead(made: Material) -> str:
    return (
        f"{plural(made.runs.height, 'run')}, {plural(int(made.runs['events'].sum()), 'action')}:"
        f" {plural(made.episodes.height, 'episode')} of a loop in {plural(made.episodes['run_id'].n_unique(), 'run')},"
        f" {plural(int((made.runs['uncertain_events'] > 0).sum()), 'run')} with uncertain actions. A repeated call is"
        " activity; it is called a loop only where the evidence stood still with it."
    )


def _limits() -> Part:
    section = Section(
        anchor="limits",
        title="What this page does not say",
        text=(
            "Only labels say which alerts are false, and they speak of the runs that carry them.",
            "Uncertain is not healthy, working is not success, and an agent's own word that it is done is no evidence.",
            "A finding authorises nothing: no restart, no deletion, no change of credentials, no message to anyone.",
        ),
    )
    return (section,), {}
