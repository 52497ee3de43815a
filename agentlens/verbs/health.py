"""``agentlens health``: where signatures or fingerprints can not be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentlens.api import health
from agentlens.data import open_data
from agentlens.model.select import Selection
from agentlens.verbs.console import console, print_json, print_table
from agentlens.verbs.reading import chosen, normaliser, note_if_none

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Print warnings per tool."""
    opened = open_data(
        args.data,
        Selection.parse(**chosen(args)),
        normaliser=normaliser(args),
        format=args.format,
        sql=args.sql,
    )
    found = health(opened)
    empty = found.is_empty() and all(part.limit(1).collect().is_empty() for part in opened.parts)
    note_if_none(args, "event", none=empty)
    if args.json:
        print_json(found)
    elif empty:
        console().print("No events here: nothing to look at.")
    elif found.height:
        print_table(console(), "What to look at before trusting verdicts", found, limit=40, wrap=("meaning",))
    else:
        console().print("Nothing to warn about: signatures repeat, evidence changes, fingerprints are there.")
    return 0
