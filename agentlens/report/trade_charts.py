"""Charts of what is traded: delay against false alerts, how sure the choice is, and fixes against their price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import altair as alt
import polars as pl

from agentlens.report.bars import ROW, TOP, WIDTH, chart_of
from agentlens.report.palette import NEUTRAL, PERIODS
from agentlens.report.states import layered
from agentlens.report.words import plural, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.report.strip import Frame

_NAMES: Final = 36  # letters of a rule that a legend shows
_KINDS: Final = {"threshold": "#0072b2", "period": "#e69f00", "exemption": "#cc79a7", "evidence": "#009e73"}
_OTHERS: Final = ("#56b4e9", "#d55e00", "#aa3377", "#777777")


def amoc(table: Frame, *, named: Sequence[str] = ()) -> alt.LayerChart:
    """Draw delay against false alerts, each rule with its intervals; the line joins those that nothing beats.

    Parameters
    ----------
    table
        Rows of `agentlens.calibrate.pareto.AMOC`. Delay is the restricted mean: a miss counts as the longest delay.
    named
        Rules that are named and coloured, six at most; the others are grey.
    """
    rows = [
        {
            **row,
            "rule": shortened(row["rule"], _NAMES),
            **{name: None if row[name] is None else round(row[name], 4) for name in _AMOC},
        }
        for row in table.lazy().sort("false_per_1000", "delay", "rule").collect().iter_rows(named=True)
        if row["false_per_1000"] is not None and row["delay"] is not None
    ]
    told = [shortened(name, _NAMES) for name in named][: len(PERIODS)]
    known = {row["rule"] for row in rows}
    told = [name for name in dict.fromkeys(told) if name in known]
    for row in rows:
        row["shown"] = row["rule"] in set(told)
    colour = alt.Color(
        "rule:N",
        title="rule",
        scale=alt.Scale(domain=told, range=list(PERIODS[: len(told)])),
        legend=alt.Legend(labelLimit=260, orient="bottom", columns=2, symbolOpacity=1) if told else None,
    )
    x = alt.X("false_per_1000:Q", title="false alerts per 1,000 healthy events", scale=alt.Scale(domainMin=0))
    y = alt.Y("delay:Q", title="delay, events (a miss counts in full)", scale=alt.Scale(domainMin=0))
    tip = ["rule:N", alt.Tooltip("false_per_1000:Q", format=".3g"), alt.Tooltip("delay:Q", format=".3g")]
    tip.append(alt.Tooltip("detected_share:Q", format=".1%"))
    every = chart_of("amoc")
    line = (
        every.transform_filter("datum.on_front")
        .mark_line(interpolate="step-after", color=NEUTRAL)
        .encode(x=x, y=y)
    )
    layers: list[Any] = [line]
    for shown in (False, True):
        base = every.transform_filter("datum.shown" if shown else "!datum.shown")
        paint = {"color": colour} if shown else {}
        mark: dict[str, Any] = {"opacity": 0.7 if shown else 0.25} | ({} if shown else {"color": NEUTRAL})
        across = base.mark_rule(**mark).encode(x=alt.X("false_low:Q"), x2="false_high:Q", y=y, **paint)
        down = base.mark_rule(**mark).encode(x=x, y=alt.Y("delay_low:Q"), y2="delay_high:Q", **paint)
        point: dict[str, Any] = {"filled": True, "size": 90 if shown else 35, "opacity": 1 if shown else 0.7}
        points = base.mark_point(**point, **({} if shown else {"color": NEUTRAL})).encode(
            x=x, y=y, tooltip=tip, **paint
        )
        layers += [across, down, points]
    front = [row["rule"] for row in rows if row["on_front"]]
    said = f"{plural(len(rows), 'rule')}, 95 % intervals over task groups; down and left is better"
    chart = layered(
        *layers,
        title=alt.TitleParams("How late against how often false", subtitle=said),
        width=WIDTH - 60,
        height=300,
        description=f"{said}; beaten by none: {', '.join(front) or 'none'}",
    )
    chart.datasets = {"amoc": rows}
    return chart


_AMOC: Final = ("false_per_1000", "false_low", "false_high", "delay", "delay_low", "delay_high")


def stability(table: Frame) -> alt.LayerChart:
    """Draw how often each rule would be chosen if task groups were drawn again.

    Parameters
    ----------
    table
        Rows of `agentlens.calibrate.pareto.STABILITY`. The twelve rules chosen most often are named; draws in which
        no rule kept the limit have a bar of their own.
    """
    every = table.lazy().collect()
    draws = int(every["draws"].max() or 0)  # type: ignore[arg-type]
    won = every.filter(pl.col("wins") > 0).sort("wins", "rule", descending=[True, False])
    rows = [
        {"rule": shortened(row["rule"], _NAMES), "wins": row["wins"], "chosen": row["chosen"]}
        for row in won.head(TOP).iter_rows(named=True)
    ]
    rest = won.slice(TOP)
    if rest.height:
        rows.append({"rule": f"{rest.height} others", "wins": int(rest["wins"].sum()), "chosen": False})
    none = draws - int(won["wins"].sum())
    if none:
        rows.append({"rule": "none keeps the limit", "wins": none, "chosen": False})
    for row in rows:
        row["share"] = round(row["wins"] / draws, 4)
        row["said"] = "under 1%" if row["share"] < 0.01 else f"{row['share']:.0%}"
        row["what"] = "the choice" if row["chosen"] else "another"
    base = chart_of("stability").encode(
        y=alt.Y("rule:N", sort=[row["rule"] for row in rows], title=None, axis=alt.Axis(labelLimit=260)),
        x=alt.X(
            "share:Q",
            title="share of draws in which it would be chosen",
            axis=alt.Axis(format="%"),
            scale=alt.Scale(domain=[0, 1]),
        ),
        tooltip=["rule:N", alt.Tooltip("wins:Q", format=",d")],
    )
    colours = alt.Scale(domain=["the choice", "another"], range=["#0072b2", "#a3a3a3"])
    bars = base.mark_bar().encode(
        color=alt.Color(
            "what:N", title="on the data as they are", scale=colours, legend=alt.Legend(orient="bottom")
        )
    )
    numbers = base.mark_text(align="left", dx=4).encode(text="said:N")
    told = f"{draws:,} draws of task groups; {plural(won.height, 'rule')} chosen at least once"
    listed = ", ".join(f"{row['rule']} {row['said']}" for row in rows)
    chart = layered(
        bars,
        numbers,
        title=alt.TitleParams("How sure the choice is", subtitle=told),
        width=WIDTH - 160,
        height=ROW * max(len(rows), 1),
        description=f"{told}: {listed or 'none'}",
    )
    chart.datasets = {"stability": rows}
    return chart


def fixes(table: Frame) -> alt.Chart:
    """Draw changes by the false alerts they clear and the incidents they lose, coloured by kind.

    Parameters
    ----------
    table
        Rows of `agentlens.calibrate.counterfactual_cases.CHANGES` or of
        `agentlens.calibrate.counterfactual.COUNTERFACTUALS`, of whatever ``kind`` there are. Changes at one point are
        one point.
    """
    every = table.lazy().collect()
    name, cleared = (
        ("change", "false_cleared") if "change" in every.columns else ("fix", "false_alerts_cleared")
    )
    kind = pl.col("kind") if "kind" in every.columns else pl.lit("threshold")
    spots = (
        every.filter(pl.col(cleared).is_not_null() & pl.col("incidents_lost").is_not_null())
        .group_by(
            pl.col(cleared).alias("cleared"), pl.col("incidents_lost").alias("lost"), kind.alias("kind")
        )
        .agg(pl.col(name).sort().alias("changes"))
        .sort("lost", "cleared", "kind", descending=[False, True, False])
    )
    rows = [
        {
            "cleared": row["cleared"],
            "lost": row["lost"],
            "kind": row["kind"],
            "changes": len(row["changes"]),
            "first": shortened(row["changes"][0], 60),
        }
        for row in spots.iter_rows(named=True)
    ]
    kinds = [one for one in _KINDS if one in set(spots["kind"])]
    kinds += sorted(set(spots["kind"]) - set(_KINDS))
    spare = dict(zip([one for one in kinds if one not in _KINDS], _OTHERS * len(kinds), strict=False))
    scale = alt.Scale(domain=kinds, range=[_KINDS.get(one) or spare[one] for one in kinds])
    told = f"{plural(every.height, 'change')}, each exact on these runs; down and right is better"
    best = f"; the cheapest: {rows[0]['first']}" if rows else ""
    most = {name: max([row[name] for row in rows], default=1) for name in ("cleared", "lost")}
    whole = {name: alt.Axis(tickCount=min(max(most[name], 1), 10), format=",d") for name in most}
    chart: alt.Chart = (
        chart_of("fixes", title=alt.TitleParams("What a change clears and what it loses", subtitle=told))
        .mark_point(filled=True, opacity=0.85, size=110)
        .encode(
            x=alt.X("cleared:Q", title="false alerts cleared", axis=whole["cleared"]),
            y=alt.Y("lost:Q", title="incidents lost", axis=whole["lost"]),
            color=alt.Color("kind:N", title="what is changed", scale=scale),
            tooltip=[alt.Tooltip("first:N", title="such as"), "changes:Q", "cleared:Q", "lost:Q", "kind:N"],
        )
        .properties(width=WIDTH - 160, height=220, description=told + best, datasets={"fixes": rows})
    )
    return chart
