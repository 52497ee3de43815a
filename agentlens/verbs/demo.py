"""``agentlens demo``: the main job on the shipped fleet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agentlens.demo import demo
from agentlens.verbs.console import bar_console, console, print_json

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Run it into ``--out``."""
    if not args.json:
        return demo(Path(args.out), console())
    import polars as pl

    out, echo = Path(args.out), bar_console()
    echo.quiet = True
    code = demo(out, echo)
    print_json(pl.read_parquet(out / "tables" / "runs.parquet"))
    return code
