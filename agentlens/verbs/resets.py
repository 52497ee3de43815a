"""``agentlens resets``: which branched runs may resume."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from agentlens.boundaries import resets
from agentlens.data import open_data
from agentlens.model.reset import BranchState
from agentlens.model.select import Selection
from agentlens.verbs.console import console, failing, print_json, print_table
from agentlens.verbs.reading import chosen, normaliser, note_if_none, tell_report, write_tables

if TYPE_CHECKING:
    from argparse import Namespace

    from agentlens.results import Resets


_MARKS = {"pass": "✓", "fail": "✗", "unknown": "?"}


def run(args: Namespace) -> int:
    """Judge, print or write, and return the exit code."""
    failing([], args.fail_on, list(BranchState))
    opened = open_data(args.data, Selection(), normaliser=normaliser(args), format=args.format, sql=args.sql)
    tell_report(args.data, opened.report)
    result = resets(
        opened,
        state_keys=args.state_keys,
        **chosen(args),
    )
    note_if_none(args, "branch", none=result.branches.is_empty())
    if args.out:
        write_tables(result, args.out)
    if args.json:
        print_json(result.tables()[args.table])
    else:
        show(result)
    return failing(result.branches["state"].unique().to_list(), args.fail_on, list(BranchState))


def show(result: Resets) -> None:
    """Print the states, the funnel of gates, and what nobody wrote a receipt for."""
    out = console()
    if result.branches.height:
        marks = [pl.col(f"gate_{n}").replace_strict(_MARKS) for n in range(1, 7)]
        shown = result.branches.select(
            "branch_id",
            "parent_id",
            "state",
            "reason",
            pl.concat_str(marks, separator=" ").alias("gates 1-6"),
        )
        print_table(out, "Branches (✓ pass, ✗ fail, ? unknown)", shown, limit=25)
        print_table(out, "Gates: how many came, passed, and what stopped the others", result.funnel, limit=30)
    else:
        out.print("No branches: nothing here was resumed from a checkpoint, or the export does not say so.")
    if result.repeated.height:
        print_table(
            out,
            "The same external effect on parent and branch",
            result.repeated.select("branch_id", "tool", "parent_seq", "branch_seq"),
        )
    if result.unreceipted.height:
        counted = (
            result.unreceipted.group_by("reset")
            .agg(pl.len().alias("commands"), pl.col("run_id").n_unique().alias("runs"))
            .sort("commands", "reset", descending=[True, False])
        )
        print_table(out, "Commands that destroyed or rewound work, without a receipt", counted)
