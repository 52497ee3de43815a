"""``agentlens loops``: verdicts, episodes, runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from agentlens.api import loop_parts, refuse_other_versions, rule_book, versions_of
from agentlens.data import action_kinds, open_data
from agentlens.model.enums import Verdict
from agentlens.model.select import Selection
from agentlens.results import Loops
from agentlens.verbs.console import console, failing, print_json, print_table
from agentlens.verbs.reading import chosen, normaliser, tell_report, write_tables, write_text

if TYPE_CHECKING:
    from argparse import Namespace


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
    if args.rule:
        refuse_other_versions(args.rule, versions_of(opened), any_version=args.any_version)
    result = Loops.concat(loop_parts(opened, book, policies, kinds))
    if args.out:
        write_tables(result, args.out)
    if args.html:
        from agentlens.report.page import loops_page

        write_text(
            args.html, loops_page(result.verdicts, result.episodes, result.runs, opened.events().collect())
        )
    if args.json:
        print_json(result.tables()[args.table])
    else:
        show(result, args.data)
    return failing(result.verdicts["verdict"].unique().to_list(), args.fail_on, list(Verdict))


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


def uncertain_reasons(verdicts: pl.DataFrame) -> pl.DataFrame:
    """Count the uncertain events by what is missing: ``reason, events``, most first."""
    found = verdicts.filter(pl.col("verdict") == "uncertain").group_by("reason").len("events")
    return found.sort("events", "reason", descending=[True, False])


def show(result: Loops, data: str) -> None:
    """Print what a person wants first: runs by verdict, then episodes with their evidence."""
    tell(result.counts(), result.episodes, result.episodes.height, uncertain_reasons(result.verdicts))
    console().print(
        f"Next: agentlens health {data} · agentlens explain LAKE RUN SEQ · agentlens loops {data} --html loops.html"
    )


def tell(counts: pl.DataFrame, episodes: pl.DataFrame, episode_count: int, reasons: pl.DataFrame) -> None:
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
