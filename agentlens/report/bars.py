"""Bar charts of whole sets of runs, and what every chart shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from agentlens.model.enums import Verdict
from agentlens.report.palette import COLOURS, NEUTRAL, PERIODS
from agentlens.report.words import plural

if TYPE_CHECKING:
    from agentlens.report.strip import Frame

ORDER = [verdict.value for verdict in Verdict]
NO_ACTION = "no action"  # runs in which nothing was done, and so nothing judged
TOP = 12  # bars a chart names; the rest share one
ROW = 24  # pixels a bar
WIDTH = 620


def verdicts(runs: Frame) -> alt.LayerChart:
    """Draw how many runs ended in each verdict.

    Parameters
    ----------
    runs
        The runs table (schema `RUNS`); only ``verdict`` is read.

    Examples
    --------
    >>> verdicts(pl.DataFrame({"verdict": ["working", "stuck_loop", "working"]})).to_dict()["title"]["text"]
    'Runs by final verdict'
    """
    counts = runs.lazy().group_by("verdict").len("runs").collect()
    found = {row["verdict"] or NO_ACTION: int(row["runs"]) for row in counts.iter_rows(named=True)}
    total = sum(found.values())
    order = [*ORDER, NO_ACTION] if NO_ACTION in found else ORDER
    rows = [
        {"verdict": name, "runs": found.get(name, 0), "share": f"{found.get(name, 0)} of {total}"}
        for name in order
    ]
    base = chart_of("verdicts").encode(
        y=alt.Y("verdict:N", sort=order, title=None),
        x=alt.X("runs:Q", title="runs", axis=alt.Axis(tickMinStep=1, format=",d")),
        tooltip=[alt.Tooltip("verdict:N"), alt.Tooltip("share:N", title="runs")],
    )
    bars = base.mark_bar().encode(color=verdict_colour(legend=False))
    numbers = base.mark_text(align="left", dx=4).encode(text=alt.Text("runs:Q", format=",d"))
    title = alt.TitleParams("Runs by final verdict", subtitle=plural(total, "run"))
    alternative = f"{plural(total, 'run')}: " + ", ".join(f"{row['runs']} {row['verdict']}" for row in rows)
    chart: alt.LayerChart = (bars + numbers).properties(
        title=title, width=WIDTH, height=ROW * len(rows), description=alternative, datasets={"verdicts": rows}
    )
    return chart


def episodes(episodes: Frame) -> alt.Chart:
    """Draw which tools the loops go round in, by how many episodes, coloured by period.

    Parameters
    ----------
    episodes
        The episodes table (schema `EPISODES`); ``tools`` and ``period`` are read. The twelve commonest rounds
        are named, the others share one bar.
    """
    named = (
        episodes.lazy()
        .select(pl.col("tools").list.join(" → ", ignore_nulls=True).alias("round"), "period")
        .with_columns(pl.len().over("round").alias("of_round"))
        .collect()
    )
    commonest = (
        named.unique("round").sort("of_round", "round", descending=[True, False])["round"].head(TOP).to_list()
    )
    other = f"{plural(max(named['round'].n_unique() - TOP, 0), 'other round')}"
    counted = (
        named.with_columns(pl.when(pl.col("round").is_in(commonest)).then("round").otherwise(pl.lit(other)))
        .group_by("round", "period")
        .len("episodes")
        .sort("round", "period")
    )
    rows = [
        {"round": row["round"], "period": row["period"], "episodes": int(row["episodes"])}
        for row in counted.iter_rows(named=True)
    ]
    order = [*commonest, other]
    periods = sorted({row["period"] for row in rows})
    colours = [PERIODS[min(period, len(PERIODS)) - 1] for period in periods]
    title = alt.TitleParams("Loops by the tools they go round in", subtitle=plural(named.height, "episode"))
    described = f"{plural(named.height, 'episode')} in {plural(named['round'].n_unique(), 'round')} of tools"
    chart: alt.Chart = (
        chart_of("episodes", title=title)
        .mark_bar()
        .encode(
            y=alt.Y("round:N", sort=order, title=None, axis=alt.Axis(labelLimit=280)),
            x=alt.X("episodes:Q", stack="zero", title="episodes", axis=alt.Axis(tickMinStep=1, format=",d")),
            color=alt.Color(
                "period:N", title="period, events", scale=alt.Scale(domain=periods, range=colours)
            ),
            order=alt.Order("period:Q"),
            tooltip=[
                alt.Tooltip("round:N", title="tools"),
                alt.Tooltip("period:N", title="period, events"),
                alt.Tooltip("episodes:Q", format=",d"),
            ],
        )
        .properties(
            width=WIDTH - 160, height=alt.Step(ROW), description=described, datasets={"episodes": rows}
        )
    )
    return chart


def chart_of(name: str, **properties: Any) -> Any:
    """Start a chart over rows that stand once, at its top, under that name; Altair copies what stands in it."""
    return alt.Chart(alt.NamedData(name=name), **properties)


def verdict_colour(*, legend: bool) -> alt.Color:
    """Colour by verdict: every verdict has its place in the scale, whatever occurs."""
    domain = ORDER if legend else [*ORDER, NO_ACTION]
    scale = alt.Scale(domain=domain, range=[COLOURS.get(name, NEUTRAL) for name in domain])
    return alt.Color("verdict:N", scale=scale, title="verdict", legend=alt.Legend() if legend else None)
