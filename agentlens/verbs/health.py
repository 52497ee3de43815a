"""``agentlens health``: where signatures or fingerprints can not be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentlens.api import health
from agentlens.verbs.console import console, print_json, print_table
from agentlens.verbs.reading import chosen, normaliser

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Print warnings per tool."""
    found = health(args.data, **chosen(args), normaliser=normaliser(args), format=args.format, sql=args.sql)
    if args.json:
        print_json(found)
    elif found.height:
        print_table(console(), "What to look at before trusting verdicts", found, limit=40, wrap=("meaning",))
    else:
        console().print("Nothing to warn about: signatures repeat, evidence changes, fingerprints are there.")
    return 0
