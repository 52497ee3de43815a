"""The page of two rules, versions or periods beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from agentlens.calibrate.bootstrap import FEW_GROUPS
from agentlens.report.bars import ROW, WIDTH, chart_of
from agentlens.report.document import Page, Picture, Section, render
from agentlens.report.links import address, check_link
from agentlens.report.listing import listing
from agentlens.report.palette import NEUTRAL
from agentlens.report.states import layered
from agentlens.report.words import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHARES = ("flagged", "uncertain", "false_alarm", "detected")
_WORDS = {
    "flagged": "runs with an alert",
    "episodes": "episodes per run",
    "stuck_s": "seconds stuck per run",
    "loop_tokens": "tokens in loops per run",
    "loop_cost_usd": "dollars in loops per run",
    "uncertain": "runs with uncertain actions",
    "false_alarm": "false alarms per healthy run",
    "detected": "incident runs detected",
}


def comparison_page(
    measures: pl.DataFrame,
    totals: pl.DataFrame,
    runs: pl.DataFrame,
    names: tuple[str, str],
    stamp: Mapping[str, str],
    *,
    link: str | None = None,
) -> str:
    """Return one self-contained page: differences with intervals, totals, and the runs on which the sides differ.

    Parameters
    ----------
    measures, totals, runs
        Of `agentlens.comparing.Comparison`.
    names
        What the two sides are called.
    link
        Template of an address in a trace viewer, put on each run that is listed.

    Raises
    ------
    SettingsError
        When ``link`` is no address.
    """
    check_link(link)
    told = measures.with_columns(pl.col("measure").replace(_WORDS).alias("said"), groups=with_thin())
    columns = [
        ("said", "measure", "text"),
        ("first", names[0], "number"),
        ("second", names[1], "number"),
        ("difference", "difference", "number"),
        ("low", "from", "number"),
        ("high", "to", "number"),
        ("p_value", "p", "p"),
        ("groups", "task groups", "text"),
        ("paired", "paired", "text"),
    ]
    note = (
        "Means over task groups. Difference: second minus first, 95 % limits by drawing whole groups again; p: sign"
        " flip over paired groups. Sides that share no task are drawn apart. Where groups do not differ at all, draws"
        " show no spread: shares then have exact limits, amounts none."
    ) + (f" {THIN[0].upper()}{THIN[1:]}." if measures["thin"].any() else "")
    summed = [
        ("side", "side", "text"),
        ("runs", "runs", "count"),
        ("groups", "task groups", "count"),
        ("actions", "actions", "count"),
        ("flagged_runs", "flagged", "count"),
        ("episodes", "episodes", "count"),
        ("stuck_us", "time stuck", "time"),
        ("loop_tokens", "tokens in loops", "count"),
        ("loop_cost_usd", "cost in loops", "money"),
        ("uncertain_events", "uncertain actions", "count"),
    ]
    sections = [
        Section(
            anchor="differences",
            title="Differences",
            picture=Picture.of(differences(measures, names)),
            table=listing(told, columns, caption=f"{names[0]} and {names[1]}", note=note),
        ),
        Section(
            anchor="totals",
            title="Totals",
            table=listing(totals, summed, caption="Sums over the runs of each side"),
        ),
    ]
    apart = _discordant(runs, names)
    if apart.height:
        shown = [
            ("run_id", "run", "text"),
            ("workflow", "workflow", "text"),
            ("state", "label", "text"),
            ("first", f"episodes, {names[0]}", "count"),
            ("second", f"episodes, {names[1]}", "count"),
            *([("trace", "trace", "link")] if link else []),
        ]
        sections.append(
            Section(
                anchor="apart",
                title="Runs on which the two differ",
                table=listing(_linked(apart, link), shown, caption="Only one of them alerts"),
            )
        )
    lead = f"{names[0]} beside {names[1]}: {', '.join(plural(int(n), 'run') for n in totals['runs'])}."
    return render(
        Page(title="Two sides compared", lead=lead, sections=tuple(sections), stamp=tuple(stamp.items()))
    )


THIN = (
    f"thin: fewer than {FEW_GROUPS} task groups, on one side where they are drawn apart; read these as counts"
)


def with_thin() -> pl.Expr:
    """Number of task groups behind a measure, as text that says where they are few."""
    return pl.col("groups").cast(pl.String) + pl.when("thin").then(pl.lit(" (thin)")).otherwise(pl.lit(""))


def differences(
    measures: pl.DataFrame | pl.LazyFrame, names: tuple[str, str] = ("first", "second")
) -> alt.LayerChart:
    """Draw the differences of shares with their intervals, around no difference.

    Parameters
    ----------
    measures
        Rows of `agentlens.comparing.SIDES`; those that are no shares (seconds, tokens, dollars) are left out.
    names
        What the two sides are called; the difference is the second minus the first.
    """
    told = measures.lazy().with_columns(pl.col("measure").replace(_WORDS).alias("said")).collect()
    rows: list[dict[str, Any]] = [
        {
            name: row[name] if name == "said" or row[name] is None else round(row[name], 5)
            for name in ("said", "difference", "low", "high")
        }
        for row in told.filter(pl.col("measure").is_in(_SHARES)).iter_rows(named=True)
    ]
    order = [row["said"] for row in rows]
    base = chart_of("differences").encode(
        y=alt.Y("said:N", sort=order, title=None, axis=alt.Axis(labelLimit=240))
    )
    title = f"difference in share, {names[1]} minus {names[0]}"
    spread = base.mark_rule(color=NEUTRAL).encode(
        x=alt.X("low:Q", title=title, axis=alt.Axis(format="+%")), x2="high:Q"
    )
    points = base.mark_point(filled=True, size=80, opacity=1, color="#0072b2").encode(
        x=alt.X("difference:Q", title=title), tooltip=["said:N", alt.Tooltip("difference:Q", format="+.2%")]
    )
    zero = (
        chart_of("differences")
        .transform_calculate(zero="0")
        .mark_rule(strokeDash=[4, 3])
        .encode(x=alt.X("zero:Q"))
    )
    said = "; ".join(
        f"{row['said']} {row['difference']:+.1%}" for row in rows if row["difference"] is not None
    )
    chart = layered(
        zero,
        spread,
        points,
        title=alt.TitleParams("Differences in shares", subtitle="95 % intervals over task groups"),
        width=WIDTH - 160,
        height=ROW * max(len(rows), 1),
        description=f"{names[1]} minus {names[0]}: {said or 'nothing to compare'}",
    )
    chart.datasets = {"differences": rows}
    return chart


def _discordant(runs: pl.DataFrame, names: tuple[str, str]) -> pl.DataFrame:
    one, other = (runs.filter(pl.col("side") == name).drop("side") for name in names)
    both = one.join(other.select("run_id", second="episodes"), on="run_id").rename({"episodes": "first"})
    return both.filter((pl.col("first") > 0) != (pl.col("second") > 0)).sort("run_id")


def _linked(runs: pl.DataFrame, link: str | None) -> pl.DataFrame:
    """Runs with their address in the trace viewer; null where it needs a trace id that is not known."""
    urls = [address(link, *row) for row in runs.select("run_id", "trace_id").iter_rows()]
    return runs.with_columns(pl.Series("trace", urls, dtype=pl.String))
