"""Run benchmarks: ``python -m benchmarks [name ...] [--scale 0.1]``.

Every module of this folder with a ``run(scale) -> dict`` is one; what it gives is printed line by line.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from pathlib import Path
from typing import Any


def names() -> list[str]:
    """Names of the benchmarks of this folder."""
    found = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(module.name for module in found if not module.name.startswith("_"))


def main() -> None:
    """Run the benchmarks named on the command line, all of them without a name."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure the speed promises.")
    parser.add_argument("name", nargs="*", help=f"which: {', '.join(names())} (default: all)")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="share of the full size, 0.01 to 1 (default 1)"
    )
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.name) - set(names()))
    if unknown:
        parser.error(f"unknown benchmark {', '.join(unknown)}; accepted: {', '.join(names())}")
    for name in chosen.name or names():
        print(f"{name} (scale {chosen.scale:g})")
        show(importlib.import_module(f"benchmarks.{name}").run(chosen.scale))


def show(measured: dict[str, Any]) -> None:
    """Print one measurement a line."""
    width = max(map(len, measured), default=0)
    for what, value in measured.items():
        print(
            f"  {what:<{width}}  {value:,.3f}" if isinstance(value, float) else f"  {what:<{width}}  {value}"
        )


if __name__ == "__main__":
    main()
