"""Charts of a calibration: the chain that was walked, what is not beaten, how soon, and the chance floor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from agentlens.calibrate.pareto import pareto_front
from agentlens.errors import SettingsError
from agentlens.report.bars import ROW, WIDTH, chart_of
from agentlens.report.palette import NEUTRAL, PERIODS
from agentlens.report.states import layered
from agentlens.report.words import plural, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.report.strip import Frame

_FALSE = {"fpr": "false-positive rate per healthy run", "false_share": "share of alarms that are false"}
_SHORT = {"fpr": "false-positive rate", "false_share": "false share of alarms"}
_CERTIFIED, _NOT = "certified", "not certified"


def chain(
    certificate: Frame, rates: Frame, *, limit: float | None = None, false: str = "fpr"
) -> alt.VConcatChart:
    """Draw the chain from strict to loose: false alarms over thresholds with the limit, and detection below.

    Parameters
    ----------
    certificate
        The chain that was walked (schema `CERTIFICATE`).
    rates
        Rates of its cells (schema `RATES`), with their intervals.
    limit
        The limit that was asked for; drawn as a dashed line.
    false
        What it limits: ``fpr`` (per healthy run) or ``false_share`` (of alarms).

    Raises
    ------
    SettingsError
        For another measure of false alarms.
    """
    _measure(false)
    count, of = ("alarmed_runs", "healthy_runs") if false == "fpr" else ("false_alarms", "alarms")
    columns = [f"{name}{end}" for name in (false, "detection") for end in ("", "_low", "_high")]
    joined = (
        certificate.lazy()
        .select("step", "cell", "rule", "certified")
        .join(
            rates.lazy().select("cell", *columns, count, of, "detected", "incidents"), on="cell", how="left"
        )
        .sort("step")
        .collect()
    )
    rows = [
        {
            "rule": row["rule"],
            "certified": _CERTIFIED if row["certified"] else _NOT,
            **{name: None if row[name] is None else round(row[name], 5) for name in columns},
            "limit": limit,
            "false": f"{row[count]} of {row[of]}",
            "found": f"{row['detected']} of {row['incidents']}",
        }
        for row in joined.iter_rows(named=True)
    ]
    order = [row["rule"] for row in rows]
    panels = [
        _panel(order, false, _SHORT[false], "false", limit=limit is not None),
        _panel(order, "detection", "incidents detected", "found", limit=False),
    ]
    good = sum(row["certified"] == _CERTIFIED for row in rows)
    told = f"{plural(len(rows), 'rule')}, strict to loose; {good} certified; 95 % intervals"
    asked = "" if limit is None else f"; dashed: the limit, {limit:.2%}"
    chart: alt.VConcatChart = alt.vconcat(*panels, spacing=8, description=told + asked).properties(
        title=alt.TitleParams(
            "False alarms and detection along the chain", subtitle=told + asked, anchor="start"
        )
    )
    chart.datasets = {"chain": rows}
    return chart


def _measure(false: str) -> str:
    """Title of a measure of false alarms."""
    if false not in _FALSE:
        raise SettingsError.unknown("measure of false alarms", false, _FALSE)
    return _FALSE[false]


def _panel(order: list[str], name: str, title: str, count: str, *, limit: bool) -> alt.LayerChart:
    labels = name == "detection"
    axis = alt.Axis(labelAngle=-40, labelLimit=180) if labels else None
    x = alt.X("rule:N", sort=order, title=None, axis=axis)
    scale = alt.Scale(domain=[0, 1]) if labels else alt.Scale(domainMin=0)
    y = alt.Y(f"{name}:Q", title=title, axis=alt.Axis(format="%", tickCount=5), scale=scale)
    base = chart_of("chain").encode(x=x)
    spread = base.mark_rule(color=NEUTRAL).encode(y=alt.Y(f"{name}_low:Q", scale=scale), y2=f"{name}_high:Q")
    points = base.mark_point(size=70, filled=True, opacity=1).encode(
        y=y,
        color=alt.Color(
            "certified:N",
            title="certificate",
            scale=alt.Scale(domain=[_CERTIFIED, _NOT], range=["#009e73", "#777777"]),
        ),
        tooltip=["rule:N", alt.Tooltip(f"{name}:Q", format=".2%"), alt.Tooltip(f"{count}:N", title="count")],
    )
    layers = [spread, points]
    if limit:
        layers.append(base.mark_line(strokeDash=[5, 3], color="#d55e00").encode(y="limit:Q"))
    return layered(*layers, width=WIDTH - 60, height=130)


def pareto(rates: Frame, *, named: Sequence[int] = (), false: str = "fpr") -> alt.LayerChart:
    """Draw every rule by its false alarms and what it detects; the line joins those that no other beats.

    Parameters
    ----------
    rates
        The rates table (schema `RATES`). Rules at one point are one point.
    named
        Cells that are named and shown with their intervals: the recommended rule, the incumbent, the baselines.
    false
        ``fpr`` (per healthy run) or ``false_share`` (of alarms).

    Raises
    ------
    SettingsError
        For another measure of false alarms.
    """
    told_as = _measure(false)
    table = rates.lazy().filter(pl.col(false).is_not_null() & pl.col("detection").is_not_null()).collect()
    spots = (
        table.with_columns(pl.col(false, "detection").round(5))
        .group_by(false, "detection")
        .agg(pl.len().alias("rules"), pl.col("rule").first())
        .sort(false, "detection")
    )
    values = spots.select(pl.col(false), -pl.col("detection")).to_numpy()
    front = pareto_front(values).tolist() if spots.height else []
    rows = [
        {
            "false": row[false],
            "detection": row["detection"],
            "rules": int(row["rules"]),
            "rule": row["rule"],
            "front": bool(on),
        }
        for row, on in zip(spots.iter_rows(named=True), front, strict=True)
    ]
    marked = [
        {
            "cell": row["cell"],
            "name": shortened(row["rule"], 36),
            "false": row[false],
            "low": row[f"{false}_low"],
            "high": row[f"{false}_high"],
            "detection": row["detection"],
            "found_low": row["detection_low"],
            "found_high": row["detection_high"],
        }
        for row in table.iter_rows(named=True)
        if row["cell"] in set(named)
    ]
    marked.sort(key=lambda row: list(named).index(row["cell"]))
    colours = [PERIODS[place % len(PERIODS)] for place in range(len(marked))]
    colour = alt.Color(
        "name:N",
        title="rule",
        scale=alt.Scale(domain=[row["name"] for row in marked], range=colours),
        legend=alt.Legend(labelLimit=260, orient="bottom", columns=2, symbolOpacity=1) if marked else None,
    )
    x = alt.X("false:Q", title=told_as, axis=alt.Axis(format="%"), scale=alt.Scale(domainMin=0))
    y = alt.Y(
        "detection:Q", title="incidents detected", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])
    )
    tip = [
        "rule:N",
        "rules:Q",
        alt.Tooltip("false:Q", format=".2%"),
        alt.Tooltip("detection:Q", format=".1%"),
    ]
    cloud = chart_of("rules").mark_circle(size=28, color="#bbbbbb", opacity=0.8).encode(x=x, y=y, tooltip=tip)
    line = (
        chart_of("rules")
        .transform_filter("datum.front")
        .mark_line(interpolate="step-after", color=NEUTRAL)
        .encode(x=x, y=y)
    )
    base = chart_of("named").encode(color=colour)
    across = base.mark_rule(opacity=0.6).encode(x=alt.X("low:Q"), x2="high:Q", y=y)
    down = base.mark_rule(opacity=0.6).encode(x=x, y=alt.Y("found_low:Q"), y2="found_high:Q")
    points = base.mark_point(size=90, filled=True, opacity=1).encode(x=x, y=y, tooltip=["name:N", *tip[2:]])
    runs = 0 if table.is_empty() else int(table["healthy_runs"][0])
    incidents = 0 if table.is_empty() else int(table["incidents"][0])
    told = (
        f"{plural(table.height, 'rule')} at {plural(len(rows), 'point')}; {plural(runs, 'healthy run')}, "
        f"{plural(incidents, 'incident')}; 95 % intervals on named rules"
    )
    chart = layered(
        cloud,
        line,
        across,
        down,
        points,
        title=alt.TitleParams("What each rule costs and finds", subtitle=told),
        width=WIDTH - 60,
        height=300,
        description=told,
    )
    chart.datasets = {"rules": rows, "named": marked}
    return chart


def detection(curves: Frame, *, within: int | None = None) -> alt.LayerChart:
    """Draw how soon incidents are found: share detected by delay, misses as never.

    Parameters
    ----------
    curves
        Rows of `DETECTION_CURVE` (in events) with the ``rule`` they belong to, six rules at most. Rules have
        their colours in the order in which they come, as in `pareto`.
    within
        The delay D that detection@D looks at; drawn as a dashed line.
    """
    given = curves.lazy().collect()
    names = given["rule"].unique(maintain_order=True).to_list()[: len(PERIODS)]
    table = given.sort("rule", "after")
    rows: list[dict[str, Any]] = []
    longest = max([within or 0, *table["after"].to_list(), 1])
    for name in names:
        mine = table.filter(pl.col("rule") == name)
        steps = [(0, 0.0, 0.0, 0.0), *mine.select("after", "share", "low", "high").rows()]
        if steps[-1][0] < longest:
            steps.append((longest, *steps[-1][1:]))
        rows += [
            {
                "rule": name,
                "after": step[0],
                "share": step[1],
                "low": step[2],
                "high": step[3],
                "within": within,
            }
            for step in steps
        ]
    colour = alt.Color(
        "rule:N",
        title="rule",
        scale=alt.Scale(domain=names, range=list(PERIODS[: len(names)])),
        legend=alt.Legend(symbolOpacity=1),
    )
    base = chart_of("detection").encode(
        x=alt.X("after:Q", title="events after the onset", axis=alt.Axis(tickMinStep=1)), color=colour
    )
    y = alt.Y(
        "share:Q", title="incidents detected", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])
    )
    band = base.mark_area(interpolate="step-after", opacity=0.15).encode(y=alt.Y("low:Q"), y2="high:Q")
    line = base.mark_line(interpolate="step-after").encode(
        y=y, tooltip=["rule:N", "after:Q", alt.Tooltip("share:Q", format=".1%")]
    )
    rule = (
        chart_of("detection")
        .transform_aggregate(within="max(within)")
        .transform_filter("isValid(datum.within)")
        .mark_rule(strokeDash=[5, 3], color=NEUTRAL)
        .encode(x="within:Q")
    )
    ends = "; ".join(f"{row['rule']} {row['share']:.0%}" for row in rows if row["after"] == longest)
    told = f"95 % bands; in the end: {ends}" if rows else "no incident with an onset"
    chart = layered(
        band,
        line,
        *([rule] if within is not None else []),
        title=alt.TitleParams("How soon incidents are found", subtitle=told),
        width=WIDTH - 160,
        height=260,
        description=told,
    )
    chart.datasets = {"detection": rows}
    return chart


def chance(table: Frame) -> alt.LayerChart:
    """Draw observed false alarms beside what coincidence alone would give.

    Parameters
    ----------
    table
        Rows of `CHANCE`. Rates are per 1,000 healthy events, on a logarithmic axis; a rate below one in a billion, or
        none, stands at its left end.
    """
    kept = table.lazy().sort("rule", "model").collect()
    least = 1e-6
    rows = [
        {"rule": row["rule"], "what": row["model"], "rate": max(row["per_1000_events"], least)}
        for row in kept.iter_rows(named=True)
    ]
    rows += [
        {"rule": name, "what": "observed", "rate": max(rate, least)}
        for name, rate in kept.select("rule", "observed_per_1000").unique().sort("rule").iter_rows()
        if rate is not None
    ]
    kinds = {
        "independent": ("#56b4e9", "circle"),
        "markov": ("#0072b2", "square"),
        "observed": ("#d55e00", "diamond"),
    }
    names = sorted({row["rule"] for row in rows})
    y = alt.Y("rule:N", sort=names, title=None, axis=alt.Axis(labelLimit=220))
    x = alt.X(
        "rate:Q",
        scale=alt.Scale(type="log"),
        title="false alarms per 1,000 healthy events",
        axis=alt.Axis(format="~g", tickCount=6),
    )
    base = chart_of("chance").encode(y=y)
    spread = base.mark_rule(color="#cccccc").encode(
        x=alt.X("min(rate):Q", scale=alt.Scale(type="log")), x2="max(rate):Q"
    )
    what = "what:N"
    points = base.mark_point(size=80, filled=True, opacity=1).encode(
        x=x,
        color=alt.Color(
            what, title=None, scale=alt.Scale(domain=list(kinds), range=[c for c, _ in kinds.values()])
        ),
        shape=alt.Shape(
            what, title=None, scale=alt.Scale(domain=list(kinds), range=[s for _, s in kinds.values()])
        ),
        tooltip=["rule:N", what, alt.Tooltip("rate:Q", format=".3g")],
    )
    structured = kept.group_by("rule").agg(pl.col("structured").fill_null(value=False).all())
    above = int(structured["structured"].sum())
    verb = "alarms" if above == 1 else "alarm"
    told = f"{plural(len(names), 'rule')}; {above} {verb} far more often than chance explains"
    chart = layered(
        spread,
        points,
        title=alt.TitleParams("Chance floor", subtitle=told),
        width=WIDTH - 160,
        height=ROW * max(len(names), 1),
        description=told,
    )
    chart.datasets = {"chance": rows}
    return chart
