"""The page of `agentlens demo` and `agentlens loops --html`: runs by verdict, episodes, the worst lanes drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens.model.enums import Verdict
from agentlens.report import charts
from agentlens.report.document import Badge, Column, Page, Picture, Section, Table, render
from agentlens.report.words import ABSENT, count, duration, moment, money, plural, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentlens.report.strip import Frame

WORST = 6
MOST_EPISODES = 200
MOST_RUNS = 1_000


def loops_page(
    verdicts: Frame,
    episodes: Frame,
    runs: Frame,
    events: Frame,
    *,
    title: str = "Loops in finished runs",
    stamp: Mapping[str, str] | None = None,
    worst: int = WORST,
) -> str:
    """Return one self-contained HTML page about the loops of a set of runs.

    Parameters
    ----------
    verdicts, episodes, runs, events
        Tables of the schemas `VERDICTS`, `EPISODES`, `RUNS` and `EVENTS`, lazy or not. Of a large set the 200
        costliest episodes and the 1,000 worst runs are listed, and the page says how many there are.
    title
        The heading.
    stamp
        What the page was made from (rule, digests, versions), shown at its end in the order given.
    worst
        How many of the costliest episodes are drawn as timelines.

    Returns
    -------
    str
        HTML. Equal inputs give equal text: no clock, no machine.
    """
    found = _ranked(episodes)
    table = runs.lazy().collect()
    sections = (
        _by_verdict(table),
        _episodes(found),
        _timelines(events, verdicts, found, worst),
        _runs(table),
        _limits(),
    )
    lead = (
        f"{plural(table.height, 'run')}, {plural(int(table['events'].sum()), 'action')}: "
        f"{plural(found.height, 'episode')} of a real loop in {plural(found['run_id'].n_unique(), 'run')}. "
        "A repeated call is activity; it is called a loop only where the evidence stood still with it."
    )
    return render(Page(title=title, lead=lead, sections=sections, stamp=tuple((stamp or {}).items())))


def drawn_runs(episodes: Frame, worst: int = WORST) -> list[str]:
    """Runs whose lanes `loops_page` draws: events and verdicts of these are all that it looks at."""
    lanes = _ranked(episodes).unique(["run_id", "agent"], keep="first", maintain_order=True).head(worst)
    return lanes["run_id"].unique().sort().to_list()


def _ranked(episodes: Frame) -> pl.DataFrame:
    """Costliest first: tokens, then actions inside, then by name."""
    size = pl.col("end_seq") - pl.col("onset_seq")
    by = [pl.col("tokens").fill_null(0), size, pl.col("run_id"), pl.col("agent"), pl.col("onset_seq")]
    return episodes.lazy().sort(by, descending=[True, True, False, False, False]).collect()


def _by_verdict(runs: pl.DataFrame) -> Section:
    sums = ("alerts", "stuck_events", "stuck_us", "uncertain_events", "loop_tokens")
    nano = (
        (pl.col("loop_cost_usd") * 1e9).round().cast(pl.Int64)
    )  # whole numbers add up the same in any order
    totals = [_known_sum(pl.col(name)).alias(name) for name in sums] + [_known_sum(nano) / 1e9]
    grouped = runs.group_by("verdict").agg(pl.len().alias("runs"), *totals)
    found = {row["verdict"]: row for row in grouped.iter_rows(named=True)}
    rows = tuple(
        (
            ABSENT if name is None else Badge(word=name),
            count(found[name]["runs"]),
            count(found[name]["alerts"]),
            count(found[name]["stuck_events"]),
            duration(found[name]["stuck_us"]),
            count(found[name]["uncertain_events"]),
            count(found[name]["loop_tokens"]),
            money(found[name]["loop_cost_usd"]),
        )
        for name in (*(verdict.value for verdict in Verdict), None)
        if name in found
    )
    return Section(
        anchor="verdicts",
        title="Runs by verdict",
        text=(
            (
                "A run's final verdict is the worst of the last verdicts of its lanes: a run that was stuck and went on"
                " counts as working here, and its episode is below."
            ),
        ),
        picture=Picture.of(charts.verdicts(runs)),
        table=Table(
            caption="What the runs of each final verdict spent in loops, as far as their exports say",
            columns=(
                Column(title="final verdict"),
                *_numbers("runs", "alerts", "stuck actions", "time stuck", "uncertain actions"),
                *_numbers("tokens in loops", "cost in loops"),
            ),
            rows=rows,
        ),
    )


def _known_sum(values: pl.Expr) -> pl.Expr:
    """Sum that is null where nothing is known, rather than 0."""
    return pl.when(values.is_not_null().any()).then(values.sum())


def _episodes(found: pl.DataFrame) -> Section:
    if found.is_empty():
        return Section(anchor="episodes", title="Episodes", text=("No loop was found.",))
    shown = found.head(MOST_EPISODES)
    note = "Costliest first. Evidence: how many different results the steps of one lap saw, again and again."
    if shown.height < found.height:
        note += f" The {shown.height} costliest of {count(found.height)} are listed."
    return Section(
        anchor="episodes",
        title="Episodes",
        text=(
            "An episode is one alert: it runs from the first action of its first lap until its evidence changes.",
        ),
        picture=Picture.of(charts.episodes(found)),
        table=Table(
            caption="Episodes",
            columns=(
                *(Column(title=name) for name in ("run", "agent", "tools of one lap")),
                *_numbers("period", "laps", "onset", "alert", "end"),
                *(Column(title=name) for name in ("evidence", "closed by")),
                *_numbers("tokens", "cost"),
            ),
            rows=tuple(_episode_row(row) for row in shown.iter_rows(named=True)),
            note=note,
        ),
    )


def _episode_row(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["run_id"],
        row["agent"] or ABSENT,
        tools_of(row),
        count(row["period"]),
        count(row["laps"]),
        count(row["onset_seq"]),
        count(row["alert_seq"]),
        count(row["end_seq"]),
        evidence_of(row),
        row["closed_by"] or "open at the end",
        count(row["tokens"]),
        money(row["cost_usd"]),
    )


def tools_of(row: dict[str, Any]) -> str:
    """Return the tools of one lap of an episode, in order."""
    return " → ".join(tool or "?" for tool in row["tools"] or ())


def evidence_of(row: dict[str, Any]) -> str:
    """Say what the laps of an episode saw: the number of different results and their digests, cut short."""
    seen = sorted({digest for digest in row["lap_fingerprints"] or () if digest})
    if not seen:
        return "not compared"
    more = ", …" if len(seen) > 1 else ""
    return f"{plural(len(seen), 'result')} ({shortened(seen[0], 9)}{more})"


def _timelines(events: Frame, verdicts: Frame, found: pl.DataFrame, worst: int) -> Section:
    parts = []
    lanes = found.unique(["run_id", "agent"], keep="first", maintain_order=True).head(worst)
    for number, row in enumerate(lanes.iter_rows(named=True), 1):
        chart = charts.timeline(events, verdicts, found, run_id=row["run_id"], agent=row["agent"])
        part = Section(
            anchor=f"lane-{number}",
            title=f"{number}. {shortened(row['run_id'], 60)}",
            text=(_told(row),),
            picture=Picture.of(chart),
        )
        parts.append(part)
    if not parts:
        return Section(anchor="lanes", title="Lanes", text=("There is no loop to draw.",))
    how = (
        (
            "Equal letters are equal actions. A diamond is evidence not seen before in the lane, a circle evidence seen"
            " before, a cross evidence that is not known. The bracket is the episode, the triangle its alert."
        ),
    )
    return Section(anchor="lanes", title="The costliest lanes", text=how, parts=tuple(parts))


def _told(row: dict[str, Any]) -> str:
    whose = f"agent {row['agent']} " if row["agent"] else "it "
    until = f"until {row['closed_by']} closed it at" if row["closed_by"] else "and was still in it at"
    spent = [f"{count(row['tokens'])} tokens"] if row["tokens"] is not None else []
    spent += [money(row["cost_usd"])] if row["cost_usd"] is not None else []
    took = f" The episode took {' and '.join(spent)}." if spent else ""
    return (
        f"From event {row['onset_seq']} {whose}went round in {plural(row['period'], 'step')} ({tools_of(row)}),"
        f" {plural(row['laps'], 'lap')}, {until} event {row['end_seq']}. Evidence, lap after lap: {evidence_of(row)}."
        f" The alert came at event {row['alert_seq']}.{took}"
    )


def _runs(runs: pl.DataFrame) -> Section:
    badness = {verdict.value: rank for rank, verdict in enumerate(Verdict)}
    rank = pl.col("verdict").replace_strict(badness, default=-1, return_dtype=pl.Int64)
    ordered = runs.sort(rank, "alerts", "run_id", descending=[True, True, False]).head(MOST_RUNS)
    rows = tuple(
        (
            row["run_id"],
            row["workflow"] or ABSENT,
            Badge(word=row["verdict"]) if row["verdict"] in badness else ABSENT,
            count(row["events"]),
            count(row["alerts"]),
            count(row["stuck_events"]),
            count(row["stalled_events"]),
            moment(row["started_at"]),
            count(row["tokens"]),
            money(row["cost_usd"]),
        )
        for row in ordered.iter_rows(named=True)
    )
    note = "Worst first. Times are UTC. Stalled: the most actions in a row that saw one and the same result."
    if len(rows) < runs.height:
        note += f" The worst {count(len(rows))} of {count(runs.height)} are listed."
    columns = (
        *(Column(title=name) for name in ("run", "workflow", "final verdict")),
        *_numbers("actions", "alerts", "stuck", "stalled", "started", "tokens", "cost"),
    )
    return Section(
        anchor="runs", title="Runs", table=Table(caption="Runs", columns=columns, rows=rows, note=note)
    )


def _limits() -> Section:
    return Section(
        anchor="limits",
        title="What this page does not say",
        text=(
            "Uncertain is not healthy: evidence was missing, so neither a loop nor progress could be shown.",
            (
                "Working is not success: it says only that the lane did not repeat itself over unchanged evidence."
                " An agent's own word that it is done is never evidence."
            ),
            (
                "A finding authorises nothing: no restart, no credential change, no deletion, no message to anyone"
                " outside, no unlimited retry. Look at the lane first."
            ),
        ),
    )


def _numbers(*titles: str) -> tuple[Column, ...]:
    return tuple(Column(title=title, numeric=True) for title in titles)
