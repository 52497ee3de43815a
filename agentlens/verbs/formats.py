"""``agentlens formats``: what can be read, how it is recognised or asked for, with which file it was proved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from agentlens.readers.registry import FORMATS
from agentlens.readers.sql import about, shipped
from agentlens.verbs.console import console, print_json, print_table

if TYPE_CHECKING:
    from argparse import Namespace

_COLUMNS = ("name", "title", "recognised_by", "proved_on", "version")


def listing() -> pl.DataFrame:
    """Return one row a format, then one a shipped mapping; ``use``: the option that asks for it."""
    formats = [
        {**{name: getattr(known, name) for name in _COLUMNS}, "use": f"--format {known.name}"}
        for known in FORMATS
    ]
    mappings = [
        {
            "name": told.name,
            "title": told.title,
            "recognised_by": "never: it is asked for",
            "proved_on": told.proved_on,
            "version": 1,
            "use": f"--sql {told.name}",
        }
        for told in map(about, shipped())
    ]
    return pl.DataFrame([*formats, *mappings])


def run(args: Namespace) -> int:
    """List the formats, and the mappings that are shipped for others."""
    frame = listing()
    if args.json:
        print_json(frame)
        return 0
    told = frame.drop("version")
    asked_for = pl.col("use").str.starts_with("--sql")
    wide = ("title", "recognised_by", "proved_on")
    print_table(
        console(),
        "Formats (force one with --format NAME)",
        told.filter(~asked_for).drop("use"),
        limit=100,
        wrap=wide,
    )
    print_table(
        console(),
        "Mappings (ask for one with --sql NAME; docs/mappings.md says how to write your own)",
        told.filter(asked_for).drop("use", "recognised_by"),
        limit=100,
        wrap=wide,
    )
    return 0
