"""The tabs of handoffs and resets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from agentlens.report import charts
from agentlens.report.document import Picture, Section
from agentlens.report.listing import listing
from agentlens.report.told_handoffs import handoff_labels
from agentlens.report.words import count, plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentlens.report.triage import Part

LOOK: Final = ("orphaned", "stuck", "failed_outcome", "rejected", "uncertain")
"""States of handoffs that somebody should look at, the most urgent first."""


def handoff_tab(
    tables: Mapping[str, pl.DataFrame], labels: pl.DataFrame | None = None, *, partial: bool = False
) -> Part:
    """Late, orphaned and never verified handoffs, and what labels say of them, with the tables behind them."""
    found = tables.get("handoffs")
    if found is None or found.is_empty():
        text = ("No handoff: no receipt was given, and none could be read out of the traces.",)
        return (Section(anchor="handoff-states", title="Handoffs", text=text),), {}
    states = (
        found.group_by("state", "reason", "inferred")
        .agg(pl.len().cast(pl.Int64).alias("handoffs"), pl.col("late_ack").sum().cast(pl.Int64).alias("late"))
        .sort("handoffs", "state", "reason", "inferred", descending=[True, False, False, False])
    )
    first = Section(
        anchor="handoff-states",
        title="Handoffs by state",
        picture=Picture.of(charts.states(found)),
        text=(
            (
                f"{plural(found.height, 'handoff')} in {plural(found['operation_id'].n_unique(), 'operation')},"
                f" {count(int(found['inferred'].sum()))} of them read out of traces (inferred). Whether it was"
                " accepted in time and whether its result was verified are two questions; a span that ended well"
                " answers neither."
            ),
        ),
        table=listing(
            states,
            [
                ("state", "state", "verdict"),
                ("reason", "why", "text"),
                ("inferred", "inferred", "text"),
                ("handoffs", "handoffs", "count"),
                ("late", "accepted late", "count"),
            ],
            caption="States",
        ),
    )
    urgent = {state: rank for rank, state in enumerate(LOOK)}
    look = found.filter(
        pl.col("state").is_in(LOOK) & pl.col("reason").ne_missing("verification_unavailable")
    ).sort(pl.col("state").replace_strict(urgent, default=len(urgent)), "operation_id", "handoff_id")
    late = found.filter(pl.col("late_ack")).sort("ack_latency_us", "handoff_id", descending=[True, False])
    sections = [first]
    for anchor, title, frame, said in (
        ("handoff-look", "Orphaned, stuck, failed or uncertain", look, _SUGGESTED),
        ("handoff-late", "Accepted late", late, _LATE),
    ):
        told = [column for column in _HANDOFF if frame[column[0]].null_count() < frame.height]
        table = listing(frame, told, caption=title) if frame.height else None
        sections.append(
            Section(anchor=anchor, title=title, text=(said if frame.height else "None.",), table=table)
        )
    against, more = ((), {}) if labels is None else handoff_labels(found, labels, partial=partial)
    kept = {name: tables[name] for name in ("handoffs", "operations") if name in tables}
    return (sections[0], *against, *sections[1:]), {**kept, **more}


_SUGGESTED: Final = (
    "The next step is bounded and only suggested: it names who may take it, how often and what would prove success."
    " Nothing is done here."
)
_LATE: Final = "Accepted after the limit of their urgency class. Late is no verdict on the outcome."
_HANDOFF: Final = [
    ("handoff_id", "handoff", "text"),
    ("run_id", "run", "text"),
    ("state", "state", "verdict"),
    ("reason", "why", "text"),
    ("author", "from", "text"),
    ("recipient", "to", "text"),
    ("ack_latency_us", "accepted after", "time"),
    ("ack_limit_us", "limit", "time"),
    ("inferred", "inferred", "text"),
    ("suggestion", "suggested next", "text"),
    ("authority", "by whom", "text"),
]


def reset_tab(tables: Mapping[str, pl.DataFrame]) -> Part:
    """Show the funnel of gates, the blocked branches, and resets nobody wrote a receipt for."""
    branches, loose = tables.get("branches"), tables.get("unreceipted")
    sections: list[Section] = []
    if branches is None or branches.is_empty():
        text = ("No branch: no branch receipt was given, and no fork could be read out of the traces.",)
        sections.append(Section(anchor="funnel", title="Resets", text=text))
    else:
        sections += _branches(branches, tables["funnel"])
    if loose is not None and loose.height:
        table = listing(
            loose,
            [
                ("run_id", "run", "text"),
                ("agent", "agent", "text"),
                ("seq", "event", "count"),
                ("tool", "tool", "text"),
                ("reset", "what it did", "text"),
                ("run_has_branch", "run has a branch", "text"),
            ],
            caption="Commands that destroyed or rewound work",
        )
        text = ("Seen in traces, without a branch receipt: what was lost, nobody wrote down.",)
        sections.append(
            Section(anchor="unreceipted", title="Resets without a receipt", text=text, table=table)
        )
    kept = (
        "branches",
        "state_keys",
        "effects",
        "funnel",
        "families",
        "unreceipted",
        "repeated",
        "comparison",
    )
    return tuple(sections), {name: tables[name] for name in kept if name in tables and tables[name].height}


def _branches(branches: pl.DataFrame, funnel: pl.DataFrame) -> list[Section]:
    gates = [
        ("gate", "gate", "text"),
        ("entered", "entered", "count"),
        ("passed", "passed", "count"),
        ("reason", "stopped for", "text"),
        ("stopped", "stopped", "count"),
    ]
    funnelled = Section(
        anchor="funnel",
        title="Funnel of the six gates",
        picture=Picture.of(charts.gates(funnel)),
        text=(
            "The first five gates make a branch ready; only the sixth, an outcome of its own, makes it verified.",
        ),
        table=listing(
            funnel,
            gates,
            caption=f"{plural(branches.height, 'branch')} through the gates".replace("branchs", "branches"),
        ),
    )
    blocked = branches.filter(~pl.col("state").is_in(["verified", "ready_to_resume", "resumed"]))
    columns = [
        ("branch_id", "branch", "text"),
        ("parent_id", "parent", "text"),
        ("state", "state", "verdict"),
        ("reason", "why", "text"),
        ("subject", "what", "text"),
        *((f"gate_{number}", f"gate {number}", "text") for number in range(1, 7)),
    ]
    table = listing(
        blocked, columns, caption="Blocked branches, and those that answered without a verified outcome"
    )
    text = ("Unknown decides like fail: a field that is not there is no evidence that all is well.",)
    second = Section(
        anchor="blocked",
        title="Blocked branches",
        text=text if blocked.height else ("None.",),
        table=table if blocked.height else None,
    )
    return [funnelled, second]
