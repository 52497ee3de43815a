"""``agentlens forget``: delete runs from a lake, and prove it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agentlens.lake import Lake
from agentlens.model.select import parse_time
from agentlens.report.words import plural
from agentlens.verbs.console import console, dump

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Delete and say what is gone."""
    lake = Lake.open(Path(args.lake))
    report = lake.forget(run_id=args.run, before=parse_time(args.before, "--before") if args.before else None)
    gone = {"runs": len(report.runs), **report.rows}
    if args.json:
        print(dump(gone | {"again": len(report.again), "checked": report.checked}))  # noqa: T201
    else:
        for name, count in gone.items():
            console().print(f"{name.replace('_', ' ')}: {count:,} deleted")
        if report.again:
            console().print(f"{plural(len(report.again), 'run')} deleted before")
        console().print(f"{report.checked:,} files of the lake read again: none names what was deleted")
    return 0
