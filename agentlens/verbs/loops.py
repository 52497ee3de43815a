"""``agentlens loops``: verdicts, episodes, runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from agentlens.api import check_rules, rule_book
from agentlens.data import action_kinds, open_data
from agentlens.judging import gather, loop_parts, write_loops
from agentlens.model.enums import Verdict
from agentlens.model.select import Selection
from agentlens.reporting import counted
from agentlens.verbs import waiting
from agentlens.verbs.console import console, failing, print_json, print_table
from agentlens.verbs.reading import chosen, normaliser, note_if_none, tell_report, write_text, writing

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from agentlens.calibrate.intervals import Rate
    from agentlens.data import Opened
    from agentlens.detect.policies import Policies
    from agentlens.detect.profile_rules import RuleBook
    from agentlens.results import Loops, LoopSums


EPISODES_SHOWN = 15


def run(args: Namespace) -> int:
    """Judge, print or write, and return the exit code."""
    if args.engine != "local":
        from agentlens.verbs import engine

        return engine.loops(args)
    from pathlib import Path

    from agentlens.detect.policies import Policies

    kinds = action_kinds(args.actions)
    failing([], args.fail_on, list(Verdict))  # a wrong name is said before the work, not after
    book = rule_book(args.rule)
    policies = Policies.load(Path(args.policies)) if args.policies else None
    opened = open_data(
        args.data,
        Selection.parse(**chosen(args)),
        normaliser=normaliser(args),
        format=args.format,
        sql=args.sql,
    )
    tell_report(args.data, opened.report)
    check_rules(opened, [args.rule], kinds, policies, any_version=args.any_version)
    parts = counted(loop_parts(opened, book, policies, kinds), len(opened.parts), waiting.tell, "judging")
    found = _judged(args, parts)
    note_if_none(args, "run", none=found.runs.is_empty())
    if args.html:
        write_text(args.html, _page(opened, found, book, policies, kinds))
    if not args.json:
        show(found, args.data)
    elif args.table != "verdicts":
        print_json(found.tables()[args.table])
    return failing(found.tally["verdict"].unique().to_list(), args.fail_on, list(Verdict))


def _judged(args: Namespace, parts: Iterator[Loops]) -> LoopSums:
    """Write and print verdicts part after part as they are made, and keep what is small."""
    printing = args.json and args.table == "verdicts"
    each_part = (lambda part: print_json(part.verdicts)) if printing else None
    if not args.out:
        return gather(parts, each_part)
    with writing(args.out):
        return write_loops(parts, args.out, each_part)


def _page(
    opened: Opened, found: LoopSums, book: RuleBook, policies: Policies | None, kinds: Sequence[str]
) -> str:
    """Make the page; the few runs that it draws are read and judged once more."""
    from agentlens.report.page import drawn_runs, loops_page

    events = opened.events().filter(pl.col("run_id").is_in(drawn_runs(found.episodes))).collect()
    (drawn,) = loop_parts(replace(opened, parts=(events.lazy(),), rows=()), book, policies, kinds)
    return loops_page(drawn.verdicts, found.episodes, found.runs, events)


def shown_episodes(episodes: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of episodes that fit a screen, costliest first."""
    return episodes.sort(
        ["tokens", "laps", "run_id", "agent", "onset_seq"],
        descending=[True, True, False, False, False],
        nulls_last=True,
    ).select(
        pl.when(pl.col("agent") == "")
        .then("run_id")
        .otherwise(pl.col("run_id") + " / " + pl.col("agent"))
        .alias("run / lane"),
        "period",
        "laps",
        pl.col("tools").list.join(" → ").alias("lap"),
        pl.concat_str("onset_seq", "end_seq", separator="–").alias("seq"),
        pl.col("alert_seq").alias("alert"),
        pl.col("lap_fingerprints").list.eval(pl.element().str.slice(0, 6)).list.join(" ").alias("evidence"),
        pl.col("closed_by").fill_null("–").alias("closed by"),
        "tokens",
    )


def show(result: LoopSums, data: str) -> None:
    """Print what a person wants first: runs by verdict, then episodes with their evidence."""
    doubts = result.tally.filter(pl.col("verdict") == "uncertain").select("reason", "events")
    reasons = doubts.sort("events", "reason", descending=[True, False])
    tell(result.counts(), result.episodes, result.episodes.height, reasons, alarms(result.runs))
    console().print(
        f"Next: agentlens health {data} · agentlens explain LAKE RUN SEQ · agentlens loops {data} --html loops.html"
    )


def alarms(runs: pl.DataFrame) -> tuple[int, int, int]:
    """Count runs (`agentlens.detect.runs.RUNS`): all, those with an alert, those with an alert or uncertain events."""
    alarmed = pl.col("alerts") > 0
    doubted = alarmed | (pl.col("uncertain_events") > 0)
    counted = runs.select(pl.len(), alarmed.sum().alias("alarmed"), doubted.sum().alias("doubted")).row(0)
    return int(counted[0]), int(counted[1]), int(counted[2])


def alarm_rate(runs: int, alarmed: int, doubted: int) -> str:
    """Say in how many runs an alert was raised, with the exact interval of that share; few runs are said to be few.

    Examples
    --------
    >>> alarm_rate(30, 0, 1)
    'Alarms: 0 of 30 runs, 0.0 % (exact 95 %: 0.0 to 11.6 %); 1 of 30 (0.1 to 17.2 %) if uncertain counted as alert.'
    """
    from agentlens.calibrate.intervals import THIN_CELL, clopper_pearson

    plain, wide = clopper_pearson(alarmed, runs), clopper_pearson(doubted, runs)
    said = f"Alarms: {_of(plain)} runs, {100 * (plain.value or 0):.1f} % (exact 95 %: {_limits(plain)})"
    said += f"; {_of(wide)} ({_limits(wide)}) if uncertain counted as alert" if doubted > alarmed else ""
    return said + (f"; thin: fewer than {THIN_CELL} runs." if plain.thin else ".")


def _of(rate: Rate) -> str:
    return f"{rate.count:,} of {rate.total:,}"


def _limits(rate: Rate) -> str:
    return f"{100 * (rate.low or 0):.1f} to {100 * (1 if rate.high is None else rate.high):.1f} %"


def tell(
    counts: pl.DataFrame,
    episodes: pl.DataFrame,
    episode_count: int,
    reasons: pl.DataFrame,
    alarmed: tuple[int, int, int],
) -> None:
    """Print the sums and the costliest episodes, of which ``episodes`` holds at least the first `EPISODES_SHOWN`."""
    out = console()
    print_table(out, "Runs by final verdict", counts)
    if episode_count:
        print_table(
            out,
            "Loop episodes (same actions, same evidence, lap by lap)",
            shown_episodes(episodes).head(EPISODES_SHOWN),
            limit=EPISODES_SHOWN,
        )
        if episode_count > EPISODES_SHOWN:
            out.print(f"  … and {episode_count - EPISODES_SHOWN:,} more")
    else:
        out.print("No loop episodes.")
    if reasons.height:
        print_table(out, "Uncertain events, by what is missing", reasons)
    if alarmed[0]:
        out.print(alarm_rate(*alarmed))
