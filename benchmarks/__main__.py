"""Run benchmarks: ``python -m benchmarks [name ...] [--scale 0.1] [--json FILE]``, and compare what they gave.

Every module of this folder with a ``run(scale)`` that gives rows (`benchmarks._measure.Row`) is one.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import _compare, _measure

if TYPE_CHECKING:
    from collections.abc import Sequence


def names() -> list[str]:
    """Names of the benchmarks of this folder."""
    found = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(module.name for module in found if not module.name.startswith("_"))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmarks named on the command line, all of them without a name."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the speed promises.",
        epilog="python -m benchmarks compare A.json B.json sets two files of results beside each other.",
    )
    parser.add_argument("name", nargs="*", help=f"which: {', '.join(names())} (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size (default 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append the results as JSON lines")
    chosen = parser.parse_args(argv)
    if chosen.name[:1] == ["compare"]:
        if len(chosen.name) != 3:
            parser.error("compare takes two files of results")
        _compare.show(*map(Path, chosen.name[1:]))
        return
    unknown = sorted(set(chosen.name) - set(names()))
    if unknown:
        parser.error(f"unknown benchmark {', '.join(unknown)}; accepted: {', '.join(names())}")
    if not chosen.scale > 0:
        parser.error(f"--scale {chosen.scale:g}; accepted: a number above 0")
    for name in chosen.name or names():
        print(f"{name} (scale {chosen.scale:g})", flush=True)
        for number, row in enumerate(importlib.import_module(f"benchmarks.{name}").run(chosen.scale)):
            _measure.show(row, first=number == 0)
            if chosen.json:
                append(chosen.json, name, chosen.scale, row)


def append(path: Path, name: str, scale: float, row: _measure.Row) -> None:
    """Append a row to a file as one JSON object on a line, with what it was measured on."""
    where = {"benchmark": name, "scale": scale, "commit": _commit(), "cores": os.cpu_count()}
    where["polars"] = version("polars")
    with path.open("a", encoding="utf-8") as sink:
        sink.write(json.dumps(where | row.facts(), ensure_ascii=False) + "\n")


def _commit() -> Any:
    """Return the commit that is checked out, None outside a checkout."""
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


if __name__ == "__main__":
    main()
