"""``agentlens sql``: one read-only query."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import polars as pl

from agentlens.api import sql
from agentlens.verbs.console import console, plain, print_json, print_table
from agentlens.verbs.waiting import hush

if TYPE_CHECKING:
    from argparse import Namespace

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def run(args: Namespace) -> int:
    """Print the result as a table, JSON lines or CSV."""
    frame = sql(args.lake, args.query)
    if args.json:
        print_json(frame)
    elif args.csv:
        text = _inert(frame).write_csv()
        # a terminal is shown no escape sequences; a file or pipe gets the bytes as they are
        hush()
        sys.stdout.write("\n".join(map(plain, text.split("\n"))) if sys.stdout.isatty() else text)
    else:
        print_table(console(), f"{frame.height:,} {'row' if frame.height == 1 else 'rows'}", frame, limit=100)
    return 0


def _inert(frame: pl.DataFrame) -> pl.DataFrame:
    """Text that a spreadsheet would take for a formula gets an apostrophe in front; lists become JSON text."""
    columns: list[pl.Expr | pl.Series] = []
    for name, dtype in frame.schema.items():
        column = pl.col(name)
        if dtype.is_nested():
            columns.append(pl.Series(name, [None if v is None else str(v) for v in frame[name].to_list()]))
        elif dtype == pl.String:
            risky = pl.any_horizontal([column.str.starts_with(mark) for mark in _FORMULA])
            columns.append(pl.when(risky).then(pl.lit("'") + column).otherwise(column).alias(name))
        else:
            columns.append(column)
    return frame.select(columns)
