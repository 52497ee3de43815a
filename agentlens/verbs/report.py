"""``agentlens report``: one self-contained page and its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentlens.reporting import make_report
from agentlens.results import page_file
from agentlens.verbs.console import console, plain, print_files
from agentlens.verbs.reading import chosen, normaliser, note_if_none
from agentlens.verbs.waiting import tell

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Make the report, write it, and say where it is."""
    from agentlens.report.vega import bundled_ahead

    page_file(args.out)  # before it is made
    with bundled_ahead():
        made = make_report(
            args.data,
            labels=args.labels,
            rule=args.rule,
            profile=args.profile,
            policies=args.policies,
            actions=args.actions,
            state_keys=args.state_keys,
            as_of=args.as_of,
            base_rate=args.base_rate,
            link=args.link,
            reveal=args.reveal,
            root=args.root,
            any_version=args.any_version,
            **chosen(args),
            normaliser=normaliser(args),
            format=args.format,
            sql=args.sql,
            progress=tell,
        )
        paths = made.write(args.out)
    note_if_none(args, "run", none="runs" in made.tables and made.tables["runs"].is_empty())
    if args.json:
        print_files(paths)
        return 0
    size = paths[0].stat().st_size / 1e6
    out = console()
    out.print(f"Written: {paths[0]} ({size:.1f} MB, open it, no network needed)", soft_wrap=True)
    out.print(f"         {paths[1].parent} ({len(paths) - 1} tables)", soft_wrap=True)
    if "verdict_box" not in made.tables:
        out.print(
            f"Next: agentlens review {plain(args.data)} (runs to label first, as a page) · agentlens label --help"
        )
    return 0
