"""``agentlens handoffs``: accepted, verified, lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from agentlens.api import refuse_other_versions
from agentlens.boundaries import handoffs
from agentlens.data import open_data
from agentlens.model.handoff import HandoffState
from agentlens.model.select import Selection
from agentlens.report.words import plural
from agentlens.verbs.console import console, failing, plain, print_json, print_table
from agentlens.verbs.reading import chosen, normaliser, note, note_if_none, tell_report, write_tables

if TYPE_CHECKING:
    from argparse import Namespace

    from agentlens.detect.handoff_limits import HandoffLimits
    from agentlens.results import Handoffs

_LIMITS = ("ack_limit", "evidence_window", "verification_limit", "wait_limit", "clock_skew")
NEED_A_LOOK = ("orphaned", "stuck", "uncertain", "failed_outcome", "rejected")


LOOKS_SHOWN = 12
STATE_ORDER = ("handoffs", "state", "reason", "inferred")


def run(args: Namespace) -> int:
    """Judge, print or write, and return the exit code."""
    if args.engine != "local":
        from agentlens.verbs import engine

        return engine.handoffs(args)
    failing([], args.fail_on, list(HandoffState))
    opened = open_data(args.data, Selection(), normaliser=normaliser(args), format=args.format, sql=args.sql)
    tell_report(args.data, opened.report)
    result = handoffs(
        opened,
        limits=limits(args),
        as_of=args.as_of,
        keys=args.keys,
        **chosen(args),
    )
    refuse_other_versions(args.profile, result.metadata, any_version=args.any_version, needs_rule=False)
    note_if_none(args, "handoff", none=result.handoffs.is_empty())
    if args.out:
        write_tables(result, args.out)
    if args.json:
        print_json(result.tables()[args.table])
    else:
        show(result)
    return failing(result.handoffs["state"].unique().to_list(), args.fail_on, list(HandoffState))


def limits(args: Namespace) -> HandoffLimits:
    """Return the time limits of a profile, with those that were typed over them."""
    from dataclasses import replace

    from agentlens.calibrate.acks import cap_conflicts
    from agentlens.calibrate.profile import load_profile
    from agentlens.detect.handoff_limits import HandoffLimits

    base = HandoffLimits.load(Path(args.profile)) if args.profile else HandoffLimits()
    if args.profile and args.ack_limit is None:
        for line in cap_conflicts(load_profile(args.profile) or {}):
            note(f"{args.profile}: {plain(line)}")
    given = {f"{name}_s": getattr(args, name) for name in _LIMITS if getattr(args, name) is not None}
    if "ack_limit_s" in given:
        given["ack_limits"] = {}  # a limit typed by hand holds for every class
    return replace(base, **given)


def show(result: Handoffs) -> None:
    """Print states, the handoffs that need a look, and claims against outcomes."""
    states = (
        result.handoffs.group_by("state", "reason", "inferred")
        .agg(pl.len().alias("handoffs"), pl.col("late_ack").sum().alias("late"))
        .sort(STATE_ORDER, descending=[True, False, False, False])
    )
    unknown = result.claims.filter((pl.col("claimed") == "success") & pl.col("false_success").is_null())
    look = looked_at(result.handoffs)
    tell(states, result.operations.height, look, look.height, result.cues, result.authors, unknown["run_id"])


def looked_at(handoffs: pl.DataFrame) -> pl.DataFrame:
    """Return the handoffs that need a look, most urgent first, in the columns that fit a screen."""
    # that a source carries no verification is said above; it is nothing to look at one by one
    urgent = {state: rank for rank, state in enumerate(NEED_A_LOOK)}
    return (
        handoffs.filter(
            pl.col("state").is_in(NEED_A_LOOK)
            & (pl.col("reason") != "verification_unavailable").fill_null(value=True)
        )
        .sort(pl.col("state").replace_strict(urgent, default=len(urgent)), "operation_id", "handoff_id")
        .select(
            "handoff_id",
            "state",
            pl.coalesce("reason", "disagreement").alias("why"),
            pl.col("author").alias("from"),
            pl.col("recipient").alias("to"),
            (pl.col("ack_latency_us") / 1e6).alias("ack s"),
        )
    )


def tell(
    states: pl.DataFrame,
    operations: int,
    look: pl.DataFrame,
    look_count: int,
    cues: pl.DataFrame,
    authors: pl.DataFrame,
    unknown: pl.Series,
) -> None:
    """Print the sums and the first handoffs to look at; ``unknown``: runs whose claim no outcome speaks to."""
    out = console()
    count = int(states["handoffs"].sum())
    print_table(out, f"{plural(count, 'handoff')} in {plural(operations, 'operation')}", states)
    if look_count:
        print_table(out, "Handoffs to look at", look.head(LOOKS_SHOWN), limit=LOOKS_SHOWN)
        if look_count > LOOKS_SHOWN:
            out.print(f"  … and {look_count - LOOKS_SHOWN:,} more")
    claimed = cues.filter(pl.col("cue") == "claim")
    said, known, false = (int(claimed[name].sum()) for name in ("claims", "labelled", "false"))
    if said:
        out.print(
            f"{plural(said, 'run')} {'claims' if said == 1 else 'claim'} success: {false:,} falsely, "
            f"{known - false:,} rightly, {said - known:,} with no known outcome" + _named(unknown.to_list())
        )
    if authors.filter((pl.col("forged") > 0) | (pl.col("valid") > 0)).height:
        print_table(out, "Receipts by author and how each was authenticated", authors)
    if said:
        shown = cues.with_columns(pl.col("precision", "low", "high").round(3))
        print_table(
            out, "Claims of success that the outcome contradicts, by cue (95 % exact interval)", shown
        )


def _named(runs: list[str], most: int = 3) -> str:
    """The first few run ids, in brackets; nothing where there are none."""
    if not runs:
        return ""
    return f" ({', '.join(plain(run) for run in runs[:most])}{', …' if len(runs) > most else ''})"
