"""Silent incidents: how long they repeated, how long with one edit, and how long they would have had to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import altair as alt
import polars as pl

from agentlens.report.bars import ROW, WIDTH, chart_of
from agentlens.report.states import layered
from agentlens.report.words import plural, shortened

if TYPE_CHECKING:
    from agentlens.report.strip import Frame

SHOWN: Final = 20
_EXACT, _NEAR, _NEEDED = "as it was", "with one edit", "needed for an alert"
_COLOURS: Final = {_EXACT: "#0072b2", _NEAR: "#e69f00", _NEEDED: "#d55e00"}
_SHAPES: Final = {_EXACT: "circle", _NEAR: "diamond", _NEEDED: "triangle-left"}
_STROKE: Final = 90
_NAMES: Final = 36


def near_misses(table: Frame) -> alt.LayerChart:
    """Draw of each silent incident its longest repetition, exact and with one edit, beside the length needed.

    By chance a stretch with an edit is some tens of times more frequent than an exact one: a reason to look, no
    detection.

    Parameters
    ----------
    table
        Rows of `agentlens.report.misses.MISSES`, the nearest first; the first twenty are drawn.
    """
    every = table.lazy().collect()
    rows: list[dict[str, Any]] = []
    for number, row in enumerate(every.head(SHOWN).iter_rows(named=True), 1):
        lane = row["run_id"] + (f" {row['agent']}" if row["agent"] else "")
        # two incidents may have one lane: the number keeps their rows apart
        facts = {"incident": f"{number}. {shortened(lane, _NAMES)}", "period": row["period"]}
        edit = "none" if row["edit"] is None else f"{row['edit']} at event {row['edit_seq']}"
        lengths = {_EXACT: row["stretch"], _NEAR: row["near"], _NEEDED: row["needed"]}
        rows += [
            {**facts, "what": what, "length": length, "edit": edit}
            for what, length in lengths.items()
            if length is not None
        ]
    one_short = every.filter(pl.col("near") >= pl.col("needed")).height
    order = list(dict.fromkeys(row["incident"] for row in rows))
    said = f"{plural(every.height, 'silent incident')}; one edit would do in {one_short:,}"
    said += f"; the nearest {SHOWN} are drawn" if every.height > SHOWN else ""
    base = chart_of("near_misses").encode(
        y=alt.Y("incident:N", sort=order, title=None, axis=alt.Axis(labelLimit=260)),
        x=alt.X(
            "length:Q", title="length of the repetition, events", axis=alt.Axis(tickMinStep=1, format=",d")
        ),
    )
    names = list(_COLOURS)
    points = base.mark_point(filled=True, opacity=1, size=_STROKE).encode(
        color=alt.Color("what:N", title=None, scale=alt.Scale(domain=names, range=list(_COLOURS.values()))),
        shape=alt.Shape("what:N", title=None, scale=alt.Scale(domain=names, range=list(_SHAPES.values()))),
        tooltip=["incident:N", "what:N", "length:Q", "period:Q", alt.Tooltip("edit:N", title="edit")],
    )
    lines = base.mark_line(color="#a3a3a3", strokeWidth=1).encode(detail="incident:N")
    chart = layered(
        lines,
        points,
        title=alt.TitleParams("How near silent incidents came", subtitle=said),
        width=WIDTH - 160,
        height=ROW * max(len(order), 1),
        description=said,
    )
    chart.datasets = {"near_misses": rows}
    return chart
