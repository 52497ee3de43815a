"""``agentlens formats``: what can be read, how it is recognised, with which file it was proved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from agentlens.readers.registry import FORMATS
from agentlens.verbs.console import console, print_json, print_table

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """List the formats."""
    names = ("name", "title", "recognised_by", "proved_on", "version")
    frame = pl.DataFrame([{name: getattr(known, name) for name in names} for known in FORMATS])
    if args.json:
        print_json(frame)
    else:
        print_table(
            console(),
            "Formats (force one with --format NAME)",
            frame.drop("version"),
            limit=100,
            wrap=("title", "recognised_by", "proved_on"),
        )
    return 0
