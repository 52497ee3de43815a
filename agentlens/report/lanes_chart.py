"""Charts of lanes and runs: who ends how, and how long runs are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from agentlens.report.bars import NO_ACTION, ORDER, ROW, TOP, WIDTH, chart_of, verdict_colour
from agentlens.report.words import plural

if TYPE_CHECKING:
    from agentlens.report.strip import Frame

NO_NAME = "(no name)"
LONGEST = 14  # the last bin of lengths holds runs of 8,192 actions or more


def agents(verdicts: Frame) -> alt.Chart:
    """Draw how the lanes of each agent ended: share of lanes by their last verdict.

    Parameters
    ----------
    verdicts
        The verdicts table (schema `VERDICTS`). A lane's last verdict counts; instance marks (``reader#2``) are left
        out. The twelve agents with most lanes are named, the others share one bar.
    """
    last = (
        verdicts.lazy()
        .group_by("run_id", "agent")
        .agg(pl.col("verdict").sort_by("seq").last())
        .with_columns(name=pl.col("agent").str.replace(r"#\d+$", "").replace("", NO_NAME))
    )
    counts = last.group_by("name", "verdict").agg(pl.len().cast(pl.Int64).alias("lanes")).collect()
    sizes = counts.group_by("name").agg(pl.col("lanes").sum()).sort("lanes", "name", descending=[True, False])
    named = sizes["name"].head(TOP).to_list()
    other = plural(max(sizes.height - TOP, 0), "other agent")
    shown = (
        counts.with_columns(pl.when(pl.col("name").is_in(named)).then("name").otherwise(pl.lit(other)))
        .group_by("name", "verdict")
        .agg(pl.col("lanes").sum())
        .with_columns(of=pl.col("lanes").sum().over("name"))
        .sort("name", "verdict")
    )
    rows = [
        {
            "agent": f"{row['name']} · {row['of']:,}",
            "verdict": row["verdict"],
            "lanes": row["lanes"],
            "rank": ORDER.index(row["verdict"]),
            "share": f"{row['lanes']:,} of {row['of']:,}",
        }
        for row in shown.iter_rows(named=True)
    ]
    totals = {row["name"]: row["of"] for row in shown.iter_rows(named=True)}
    order = [f"{name} · {totals[name]:,}" for name in [*named, other] if name in totals]
    total = int(sizes["lanes"].sum())
    title = alt.TitleParams(
        "How lanes ended, by agent",
        subtitle=f"{plural(total, 'lane')} of {plural(sizes.height, 'agent')}; last verdict of each lane",
    )
    stuck = sum(row["lanes"] for row in rows if row["verdict"] == "stuck_loop")
    chart: alt.Chart = (
        chart_of("agents", title=title)
        .mark_bar()
        .encode(
            y=alt.Y("agent:N", sort=order, title=None, axis=alt.Axis(labelLimit=220)),
            x=alt.X("lanes:Q", stack="normalize", title="share of lanes", axis=alt.Axis(format="%")),
            color=verdict_colour(legend=True),
            order=alt.Order("rank:Q"),
            tooltip=["agent:N", "verdict:N", alt.Tooltip("share:N", title="lanes")],
        )
        .properties(
            width=WIDTH - 160,
            height=ROW * max(len(order), 1),
            description=f"{plural(total, 'lane')}, of which {stuck:,} ended in a loop",
            datasets={"agents": rows},
        )
    )
    return chart


def lengths(runs: Frame) -> alt.Chart:
    """Draw how many actions runs have, in bins that double, coloured by final verdict.

    Parameters
    ----------
    runs
        The runs table (schema `RUNS`); ``events`` and ``verdict`` are read.
    """
    # the bit length of a count n is its bin: 0, 1, 2-3, 4-7, ...
    edges = [2**k for k in range(LONGEST)]
    place = pl.sum_horizontal((pl.col("events") >= edge).cast(pl.Int64) for edge in edges)
    counts = (
        runs.lazy()
        .group_by(place.alias("bin"), pl.col("verdict").fill_null(NO_ACTION))
        .agg(pl.len().cast(pl.Int64).alias("runs"))
        .sort("bin", "verdict")
        .collect()
    )
    highest = int(counts["bin"].max() or 0)  # type: ignore[arg-type]
    names = [_bin_name(number) for number in range(highest + 1)]
    rows = [
        {
            "actions": names[row["bin"]],
            "verdict": row["verdict"],
            "runs": row["runs"],
            "rank": [*ORDER, NO_ACTION].index(row["verdict"]),
        }
        for row in counts.iter_rows(named=True)
    ]
    middle = runs.lazy().select(pl.col("events").median()).collect().item()
    total = int(counts["runs"].sum())
    told = plural(total, "run") + ("" if middle is None else f", median {middle:,.0f} actions")
    chart: alt.Chart = (
        chart_of("lengths", title=alt.TitleParams("Length of runs", subtitle=told))
        .mark_bar()
        .encode(
            x=alt.X(
                "actions:N",
                sort=names,
                scale=alt.Scale(domain=names),
                title="actions in a run",
                axis=alt.Axis(labelAngle=0),
            ),
            y=alt.Y(
                "runs:Q", stack="zero", title="runs", axis=alt.Axis(tickMinStep=1, format=",d", tickCount=6)
            ),
            color=verdict_colour(legend=True),
            order=alt.Order("rank:Q"),
            tooltip=["actions:N", "verdict:N", alt.Tooltip("runs:Q", format=",d")],
        )
        .properties(width=WIDTH - 160, height=200, description=told, datasets={"lengths": rows})
    )
    return chart


def _bin_name(number: int) -> str:
    if number < 2:
        return str(number)
    low = 2 ** (number - 1)
    return f"{low:,}+" if number == LONGEST else f"{low:,}–{2 * low - 1:,}"
