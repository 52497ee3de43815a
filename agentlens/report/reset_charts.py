"""Charts of resets: how far branches come through the gates, and who branched from whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from agentlens.errors import InputError
from agentlens.model.reset import GATES
from agentlens.report.bars import ROW, WIDTH, chart_of
from agentlens.report.states import count_of, layered, state_colour
from agentlens.report.words import plural, shortened

if TYPE_CHECKING:
    from agentlens.report.strip import Frame

_PASSED, _STOPPED = "passed", "stopped"
NODES = 60  # runs a lineage shows


def gates(funnel: Frame) -> alt.LayerChart:
    """Draw the gate funnel: how many branches come to each gate, pass it, and which fact stopped most of the others.

    Parameters
    ----------
    funnel
        The funnel table (schema `FUNNEL`).
    """
    table = funnel.lazy().collect()
    rows: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    for number, gate in enumerate(GATES, 1):
        mine = table.filter(pl.col("gate") == gate).sort("stopped", "reason", descending=[True, False])
        if mine.is_empty():
            continue
        name = f"{number} {gate}"
        entered, passed = int(mine["entered"][0]), int(mine["passed"][0])
        rows.append({"gate": name, "what": _PASSED, "branches": passed, "reason": None, "rank": 0})
        stops = [row for row in mine.iter_rows(named=True) if row["reason"] is not None]
        rows += [
            {
                "gate": name,
                "what": _STOPPED,
                "branches": row["stopped"],
                "reason": row["reason"],
                "rank": place,
            }
            for place, row in enumerate(stops, 1)
        ]
        told = f"{passed:,} of {entered:,}"
        if stops:
            told += f" · {stops[0]['reason']} {stops[0]['stopped']:,}"
            told += f", {len(stops) - 1} other" if len(stops) > 1 else ""
        labels.append({"gate": name, "entered": entered, "told": told})
    order = [f"{number} {gate}" for number, gate in enumerate(GATES, 1)]
    first = labels[0]["entered"] if labels else 0
    y = alt.Y("gate:N", sort=order, scale=alt.Scale(domain=order), title=None)
    room = max(first * 1.7, 1)
    x = alt.X(
        "branches:Q",
        stack="zero",
        title="branches",
        scale=alt.Scale(domain=[0, room], nice=False),
        axis=alt.Axis(values=list(range(0, first + 1, max(-(-first // 6), 1))), format=",d"),
    )
    bars = (
        chart_of("gates")
        .mark_bar(stroke="#ffffff", strokeWidth=0.5)
        .encode(
            y=y,
            x=x,
            color=alt.Color(
                "what:N",
                scale=alt.Scale(domain=[_PASSED, _STOPPED], range=["#009e73", "#d55e00"]),
                title="at the gate",
            ),
            order=alt.Order("rank:Q"),
            tooltip=["gate:N", "what:N", "reason:N", alt.Tooltip("branches:Q", format=",d")],
        )
    )
    texts = chart_of("labels").mark_text(align="left", dx=5).encode(y=y, x=alt.X("entered:Q"), text="told:N")
    chart = layered(
        bars,
        texts,
        title=alt.TitleParams(
            "Gates that branches passed",
            subtitle=f"{count_of(first, 'branch', 'branches')}; gate 6 is asked of those with a final answer",
        ),
        width=WIDTH - 60,
        height=ROW * 1.2 * len(order),
        description="; ".join(f"{row['gate']}: {row['told']}" for row in labels) or "no branch",
    )
    chart.datasets = {"gates": rows, "labels": labels}
    return chart


def lineage(branches: Frame, *, family: str | None = None) -> alt.LayerChart:
    """Draw one family of branches as a tree: the run at the top, each reset one step to the right.

    Parameters
    ----------
    branches
        The branches table (schema `RESETS`).
    family
        The run at its top; by default the family with most branches.

    Raises
    ------
    InputError
        When no branch belongs to that family.
    """
    frame = branches.lazy()
    if family is None:
        sizes = frame.group_by("family").len().sort("len", "family", descending=[True, False]).head(1)
        family = next(iter(sizes.collect()["family"]), None)
    mine = frame.filter(pl.col("family").eq_missing(pl.lit(family))).sort("branch_id").collect()
    if mine.is_empty():
        raise InputError.at(f"family {family!r}", "no branch of it", accepted="a family of the branches")
    nodes, links, hidden = _tree(mine, str(family))
    order = [node["row"] for node in nodes]
    deepest = max(node["depth"] for node in nodes)
    x_scale = alt.Scale(domain=[-0.3, deepest + 1.2], nice=False)
    y = alt.Y("row:O", sort=order, axis=None)
    x = alt.X(
        "depth:Q",
        scale=x_scale,
        title="resets from the first run",
        axis=alt.Axis(values=list(range(deepest + 1)), format="d"),
    )
    flat = chart_of("links").mark_rule(color="#999999").encode(x=x, x2="to_depth:Q", y=y)
    steep = (
        chart_of("links")
        .mark_rule(color="#999999")
        .encode(x=x, y=alt.Y("from_row:O", sort=order, axis=None), y2="row:O")
    )
    base = chart_of("nodes").encode(x=x, y=y)
    points = base.mark_point(size=110, filled=True, opacity=1).encode(
        color=state_colour(sorted({node["state"] for node in nodes})),
        tooltip=["run:N", "state:N", "reason:N", "fork_point:N"],
    )
    texts = base.mark_text(align="left", dx=9).encode(text="told:N")
    told = count_of(mine.height, "branch", "branches")
    more = f"; {plural(hidden, 'more')[:-1]} not drawn" if hidden else ""
    chart = layered(
        flat,
        steep,
        points,
        texts,
        title=alt.TitleParams(f"Lineage of {shortened(str(family), 48)}", subtitle=f"{told}{more}"),
        width=WIDTH,
        height=ROW * len(nodes),
        description=f"{told} of run {family}: " + "; ".join(str(node["told"]) for node in nodes),
    )
    chart.datasets = {"nodes": nodes, "links": links}
    return chart


def _tree(mine: pl.DataFrame, family: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
    """Lay the runs out depth first. A cycle is cut where it comes back to a run that is drawn already."""
    rows = {row["branch_id"]: row for row in mine.iter_rows(named=True)}
    children: dict[str, list[str]] = {}
    for name, row in rows.items():
        children.setdefault(row["parent_id"] or family, []).append(name)
    nodes: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []
    placed: dict[str, int] = {}
    starts = [family, *sorted(rows)]  # what hangs on no drawn run (a cycle) starts a tree of its own
    hidden = 0
    for start in starts:
        stack: list[tuple[str, str | None, int]] = [(start, None, 0)]
        while stack:
            name, above, depth = stack.pop()
            if name in placed:
                continue
            if len(nodes) == NODES:
                hidden += name in rows
                placed[name] = -1
                continue
            placed[name] = len(nodes)
            nodes.append(_node(name, rows.get(name), depth, len(nodes)))
            if above is not None and placed[above] >= 0:
                links.append(
                    {"depth": depth - 1, "to_depth": depth, "row": placed[name], "from_row": placed[above]}
                )
            stack += [(child, name, depth + 1) for child in sorted(children.get(name, ()), reverse=True)]
    return nodes, links, hidden


def _node(name: str, row: dict[str, Any] | None, depth: int, place: int) -> dict[str, Any]:
    state = "first run" if row is None else row["state"]
    reason = None if row is None else row["reason"]
    told = f"{shortened(name, 32)} · {state}" + (f" ({reason})" if reason else "")
    fork = None if row is None else row["fork_point"]
    return {
        "run": name,
        "depth": depth,
        "row": place,
        "state": state,
        "reason": reason,
        "fork_point": fork,
        "told": told,
    }
