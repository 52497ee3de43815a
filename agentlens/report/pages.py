"""The whole report page: three tabs, a stamp, and the tables behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentlens.report.boundary import handoff_tab, reset_tab
from agentlens.report.cases import Bench
from agentlens.report.document import Page, Section, Tab, render
from agentlens.report.triage import triage
from agentlens.report.words import count, plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from agentlens.report.material import Material

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
    sections, tables = triage(Bench.of(made))
    given, more = handoff_tab(made.boundaries)
    branched, yet = reset_tab(made.boundaries)
    title = "Loops, handoffs and resets in finished runs"
    page = Page(
        title=title,
        lead=_lead(made),
        tabs=(
            Tab(anchor="loops", title="Loops", sections=(*sections, _limits())),
            Tab(anchor="handoffs", title="Handoffs", sections=given),
            Tab(anchor="resets", title="Resets", sections=branched),
        ),
        stamp=tuple(made.stamp.items()),
        warning=REVEALED if made.revealed else "",
    )
    return Made(html=render(page), tables={**tables, **more, **yet})


def _lead(made: Material) -> str:
    return (
        f"{plural(made.runs.height, 'run')}, {plural(int(made.runs['events'].sum()), 'action')}:"
        f" {plural(made.episodes.height, 'episode')} of a loop in {plural(made.episodes['run_id'].n_unique(), 'run')},"
        f" {count(int((made.runs['uncertain_events'] > 0).sum()))} runs with uncertain actions. A repeated call is"
        " activity; it is called a loop only where the evidence stood still with it."
    )


def _limits() -> Section:
    return Section(
        anchor="limits",
        title="What this page does not say",
        text=(
            "Without labels it does not say which alerts are false: only somebody who knows the runs can.",
            "Uncertain is not healthy, working is not success, and an agent's own word that it is done is no evidence.",
            "A finding authorises nothing: no restart, no deletion, no change of credentials, no message to anyone.",
        ),
    )
