"""Handoffs held against labels: which of those that a limit raised were lost, and which good ones it raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from agentlens.calibrate.handoff_labels import handoff_claims
from agentlens.calibrate.intervals import clopper_pearson
from agentlens.model.label import Scope, State
from agentlens.report.document import Section
from agentlens.report.listing import listing
from agentlens.report.words import count, plural

if TYPE_CHECKING:
    from agentlens.report.triage import Part

RAISED: Final = ("orphaned", "stuck", "failed_outcome", "uncertain")
"""States that ask somebody to look; an acceptance that came late asks for it too."""

OUTCOMES = pl.Schema(
    {
        "label": pl.String(),
        "kind": pl.String(),
        "handoffs": pl.Int64(),
        "raised": pl.Int64(),
        "share": pl.Float64(),
        "low": pl.Float64(),
        "high": pl.Float64(),
        "late": pl.Int64(),
        "states": pl.String(),
    }
)
"""One row a label and kind. ``raised``: handoffs in a state of `RAISED`; ``share`` of them with its exact interval,
which takes handoffs as independent; ``late``: accepted after their limit."""


def handoff_labels(handoffs: pl.DataFrame, labels: pl.DataFrame, *, partial: bool = False) -> Part:
    """Lay labels of scope ``handoff`` over judged handoffs; nothing where there are none.

    Parameters
    ----------
    handoffs
        Schema `HANDOFFS`.
    labels
        `agentlens.model.label.LABELS`.
    partial
        Whether labels of handoffs that are not there are left out rather than refused: the data were selected.

    Raises
    ------
    InputError
        When a label names no handoff of the data, or two contradict each other.
    """
    mine = labels.filter(pl.col("scope") == str(Scope.HANDOFF))
    if partial:
        mine = mine.join(handoffs.select("operation_id").unique(), on="operation_id", how="semi")
    if mine.is_empty():
        return (), {}
    claims = handoff_claims(mine, handoffs.select("operation_id", "handoff_id"))
    held = handoffs.join(
        claims.select("operation_id", "handoff_id", "label", "kind"), on=["operation_id", "handoff_id"]
    ).with_columns(raised=pl.col("state").is_in(RAISED), late=pl.col("late_ack").fill_null(value=False))
    outcomes = _outcomes(held)
    wrong = held.filter((pl.col("label") == str(State.HEALTHY)) & (pl.col("raised") | pl.col("late")))
    missed = held.filter((pl.col("label") == str(State.INCIDENT)) & ~pl.col("raised"))
    order = ["label", "kind", "operation_id", "handoff_id"]
    unlabelled = handoffs.height - held.height
    text = (
        f"{plural(held.height, 'labelled handoff')}; {count(unlabelled)} without a label stand apart. Of the good ones"
        f" {count(wrong.height)} were raised or late, of the incidents {count(missed.height)} were not raised. A limit"
        " that is changed for these handoffs is a new hypothesis: agentlens calibrate tests it on others."
    )
    shown = [
        ("handoff_id", "handoff", "text"),
        ("kind", "kind", "text"),
        ("state", "state", "verdict"),
        ("reason", "why", "text"),
        ("urgency", "urgency", "text"),
        ("ack_latency_us", "accepted after", "time"),
        ("ack_limit_us", "limit", "time"),
        ("recipient", "to", "text"),
    ]
    parts = tuple(
        Section(
            anchor=anchor,
            title=title,
            text=() if frame.height else ("None.",),
            table=listing(frame.sort(order), shown, caption=title) if frame.height else None,
        )
        for anchor, title, frame in (
            ("handoff-false", "Good deliveries that were raised or late", wrong),
            ("handoff-missed", "Incidents that were not raised", missed),
        )
    )
    section = Section(
        anchor="handoff-labels",
        title="Against the labels",
        text=(text,),
        table=listing(
            outcomes,
            [
                ("label", "label", "text"),
                ("kind", "kind", "text"),
                ("handoffs", "handoffs", "count"),
                ("raised", "raised", "count"),
                ("share", "share", "share"),
                ("low", "from", "share"),
                ("high", "to", "share"),
                ("late", "accepted late", "count"),
                ("states", "states", "text"),
            ],
            caption="Handoffs by label (exact 95 % intervals, handoffs taken as independent)",
            note=f"Raised: {', '.join(RAISED)}. Late is no verdict on the outcome, and counts apart.",
        ),
        parts=parts,
    )
    told = held.select(*handoffs.columns, "label", "kind", "raised").sort(order)
    return (section,), {"handoffs_labelled": told, "handoff_outcomes": outcomes}


def _outcomes(held: pl.DataFrame) -> pl.DataFrame:
    rows = []
    grouped = held.sort("label", "kind", "state").group_by(["label", "kind"], maintain_order=True)
    for (label, kind), group in grouped:
        raised = int(group["raised"].sum())
        rate = clopper_pearson(raised, group.height)
        states = group.group_by("state", maintain_order=True).len().iter_rows()
        rows.append(
            {
                "label": label,
                "kind": kind,
                "handoffs": group.height,
                "raised": raised,
                "share": rate.value,
                "low": rate.low,
                "high": rate.high,
                "late": int(group["late"].sum()),
                "states": ", ".join(f"{name} {number}" for name, number in states),
            }
        )
    return pl.DataFrame(rows, schema=OUTCOMES)
