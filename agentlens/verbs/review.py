"""``agentlens review``: a blinded queue out, decisions back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from agentlens.report.words import plural
from agentlens.results import page_file
from agentlens.reviewing import Review, key_beside, review_decisions, review_queue
from agentlens.verbs.console import console, print_files, print_json, print_table

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Write a queue, or read decisions back."""
    if args.decisions:
        key = args.key or key_beside(page_file(args.out))
        found = review_decisions(args.lake, args.decisions, key, labels=args.labels, append=not args.dry_run)
        if args.json:
            print_json(found.labels)
        else:
            show(found, stored=not args.dry_run)
        return 0
    page_file(args.out)  # before it is made
    queue = review_queue(
        args.lake,
        labels=args.labels,
        rule=args.rule,
        policies=args.policies,
        size=args.size,
        seed=args.seed,
        link=args.link,
        any_version=args.any_version,
    )
    page_path, table, key_path = queue.write(args.out)
    if args.json:
        print_files([page_path, table, key_path])
        return 0
    out = console()
    out.print(
        f"Written: {page_path} ({queue.key.height} items), {table}, {key_path} (not for reviewers)",
        soft_wrap=True,
    )
    out.print(
        f"Then: agentlens review {args.lake} --out {args.out} --decisions FILE [FILE ...]", soft_wrap=True
    )
    return 0


def show(found: Review, *, stored: bool) -> None:
    """Print what became of the decisions, agreement, and what the sample says."""
    out = console()
    if already := int(found.metadata["already"]):
        out.print(f"{plural(already, 'label')} there already")
    counts = found.labels.group_by("label").len("runs").sort("label")
    print_table(out, "New labels" if stored else "New labels (not stored)", counts)
    if found.agreement.height:
        told = found.agreement.with_columns(pl.col("observed", "kappa", "ac1").round(3))
        print_table(out, "Agreement of reviewers", told)
    print_table(
        out,
        "Incidents by how runs were drawn (exact 95 % interval)",
        found.estimates.with_columns(pl.col("share", "low", "high").round(3), pl.col("estimated").round(1)),
    )
