"""Colours of handoff and branch states, and the bar chart of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import altair as alt

from agentlens.model.handoff import HandoffState
from agentlens.model.reset import STOPPED, BranchState
from agentlens.report.bars import ROW, WIDTH, chart_of
from agentlens.report.palette import NEUTRAL
from agentlens.report.words import plural

if TYPE_CHECKING:
    from agentlens.report.strip import Frame

STATE_COLOURS: Final[dict[str, str]] = {
    **dict.fromkeys((HandoffState.VERIFIED.value, BranchState.VERIFIED.value), "#009e73"),
    **dict.fromkeys((HandoffState.WORKING.value, BranchState.RESUMED.value), "#0072b2"),
    **dict.fromkeys(
        (HandoffState.WAITING.value, HandoffState.DELEGATED.value, BranchState.READY_TO_RESUME.value),
        "#56b4e9",
    ),
    **dict.fromkeys((HandoffState.ORPHANED.value, *STOPPED), "#d55e00"),
    HandoffState.STUCK.value: "#e69f00",
    **dict.fromkeys((HandoffState.FAILED_OUTCOME.value, BranchState.FALSE_SUCCESS.value), "#aa3377"),
    HandoffState.UNCERTAIN.value: "#a3a3a3",
    **dict.fromkeys((HandoffState.REJECTED.value, HandoffState.CANCELLED.value), NEUTRAL),
}
"""Fill of each state. States that mean the same for a reader share one; the name is always written beside it."""


def state_colour(states: list[str]) -> alt.Color:
    """Colour by state, without a legend: the state is written on the chart."""
    scale = alt.Scale(domain=states, range=[STATE_COLOURS.get(state, NEUTRAL) for state in states])
    return alt.Color("state:N", scale=scale, legend=None)


def states(frame: Frame) -> alt.LayerChart:
    """Draw how many handoffs, operations or branches are in each state.

    Parameters
    ----------
    frame
        The handoffs, operations or branches table; only ``state`` is read (and which table it is).

    Examples
    --------
    >>> import polars as pl
    >>> chart = states(pl.DataFrame({"branch_id": ["b-1", "b-2"], "state": ["verified", "resumed"]}))
    >>> chart.to_dict()["title"]["text"]
    'Branches by state'
    """
    columns = frame.lazy().collect_schema().names()
    noun = "branch" if "branch_id" in columns else "handoff" if "ack_latency_us" in columns else "operation"
    known = BranchState if noun == "branch" else HandoffState
    counted = dict(frame.lazy().group_by("state").len().collect().iter_rows())
    order = [state.value for state in known]
    total = sum(counted.values())
    rows = [
        {"state": state, "count": counted.get(state, 0), "share": f"{counted.get(state, 0):,} of {total:,}"}
        for state in order
    ]
    many = {"branch": "Branches", "handoff": "Handoffs", "operation": "Operations"}[noun]
    base = chart_of("states").encode(
        y=alt.Y("state:N", sort=order, title=None, axis=alt.Axis(labelLimit=200)),
        x=alt.X("count:Q", title=many.lower(), axis=alt.Axis(tickMinStep=1, format=",d")),
        tooltip=[alt.Tooltip("state:N"), alt.Tooltip("share:N", title=many.lower())],
    )
    bars = base.mark_bar().encode(color=state_colour(order))
    numbers = base.mark_text(align="left", dx=4).encode(text=alt.Text("count:Q", format=",d"))
    told = f"{total:,} {many.lower() if total != 1 else noun}"
    listed = ", ".join(f"{row['count']} {row['state']}" for row in rows if row["count"])
    chart: alt.LayerChart = (bars + numbers).properties(
        title=alt.TitleParams(f"{many} by state", subtitle=told),
        width=WIDTH - 120,
        height=ROW * len(rows),
        description=f"{told}: {listed or 'none'}",
        datasets={"states": rows},
    )
    return chart


def layered(*layers: Any, **properties: Any) -> alt.LayerChart:
    """Lay charts over one another; none of them is a facet."""
    chart: alt.LayerChart = alt.layer(*layers).properties(**properties)  # type: ignore[assignment]
    return chart


def seconds_axis(title: str) -> alt.Axis:
    """Return an axis of seconds on a logarithmic scale, few labels, no exponents."""
    return alt.Axis(title=title, values=TICKS_S, labelExpr=_LABELS, grid=True)


TICKS_S: Final = [0.1, 1, 10, 60, 600, 3_600, 36_000, 86_400, 864_000]
_LABELS: Final = (
    "datum.value < 60 ? datum.value + ' s' : datum.value < 3600 ? datum.value / 60 + ' min'"
    " : datum.value < 86400 ? datum.value / 3600 + ' h' : datum.value / 86400 + ' d'"
)


def count_of(value: int, noun: str, many: str | None = None) -> str:
    """Return the count with its noun, in the plural that the noun has.

    >>> count_of(2, "branch", "branches")
    '2 branches'
    """
    return plural(value, noun) if many is None or value == 1 else f"{value:,} {many}"
