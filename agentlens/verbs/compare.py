"""``agentlens compare``: two rules, versions or periods side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from agentlens.comparing import MEASURES, Comparison, compare
from agentlens.errors import SettingsError
from agentlens.report.comparison import THIN, with_thin
from agentlens.report.links import check_link
from agentlens.verbs.console import cell, console, print_json, print_table
from agentlens.verbs.reading import chosen, normaliser, note, write_tables, write_text
from agentlens.verbs.waiting import tell

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Compare, print or write."""
    check_link(args.link)  # a wrong address is said before the work
    result = compare(
        args.data,
        rule=args.rule,
        against=args.against,
        versions=_pair(args.versions),
        at=args.at,
        labels=args.labels,
        policies=args.policies,
        actions=args.actions,
        any_version=args.any_version,
        **chosen(args),
        normaliser=normaliser(args),
        format=args.format,
        sql=args.sql,
        progress=tell,
    )
    if args.out:
        write_tables(result, args.out)
    if args.html:
        write_text(args.html, result.html(link=args.link))
        note(f"wrote {args.html}")
    if args.json:
        print_json(result.measures)
    else:
        show(result)
    return 0


def _pair(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise SettingsError.value("--versions", text, "two different agent versions, as in 1.4,1.5")
    return names[0], names[1]


def show(result: Comparison) -> None:
    """Print totals and differences."""
    out = console()
    sums = result.totals.with_columns((pl.col("stuck_us") // 1_000_000).alias("stuck_s")).drop(
        "stuck_us", "side"
    )
    rows = [{"sum": name.replace("_", " ")} | _both(result, sums[name].to_list()) for name in sums.columns]
    print_table(out, "Totals", pl.DataFrame(rows))
    told = result.measures.select(
        pl.col("measure").replace(MEASURES),
        pl.col("first").alias(result.names[0]),
        pl.col("second").alias(f"{result.names[1]} "),
        "difference",
        "low",
        "high",
        pl.col("p_value").alias("p"),
        with_thin(),
    )
    print_table(
        out, "Differences: second minus first, means over task groups, 95 % limits", told, wrap=("measure",)
    )
    if result.measures["thin"].any():
        out.print(THIN)


def _both(result: Comparison, values: list[object]) -> dict[str, str]:
    return dict(zip(result.names, (cell(value) for value in values), strict=True))
