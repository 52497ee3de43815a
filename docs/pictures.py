"""Make the pictures of the README from the shipped fleet: ``python docs/pictures.py [FOLDER]``.

One run that went round in circles, and how long handoffs were silent. Equal code and data give equal pictures.
"""

# ruff: noqa: INP001 - a script beside what it makes

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import vl_convert

import agentlens
from agentlens import chart
from agentlens.demo import demo_lake

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).resolve().parent / "pictures"
WORKFLOW = "weekly-brief"
PADDING = {"left": 10, "top": 10, "right": 24, "bottom": 10}


def charts(lake: Path) -> Mapping[str, Any]:
    """Return the two charts by the names of their files."""
    found = agentlens.loops(lake, workflow=WORKFLOW)
    order = ["tokens", "run_id", "agent", "onset_seq"]
    worst = found.episodes.sort(order, descending=[True, False, False, False]).row(0, named=True)
    events = agentlens.Lake.open(lake).events()
    run = {"run_id": worst["run_id"], "agent": worst["agent"]}
    given = agentlens.handoffs(lake).handoffs.filter(~pl.col("inferred"))
    return {
        "loop": chart.timeline(events, found.verdicts, found.episodes, **run, max_events=24),
        "handoffs": chart.latencies(given),
    }


def make(folder: Path) -> list[Path]:
    """Draw them into a folder, as SVG on white."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with tempfile.TemporaryDirectory() as work:
        lake, _ = demo_lake(Path(work))
        for name, drawn in charts(lake).items():
            spec = drawn.to_dict() | {
                "background": "white",
                "padding": {"left": 10, "top": 10, "right": 24, "bottom": 10},
            }
            path = folder / f"{name}.svg"
            path.write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8", newline="\n")
            paths.append(path)
    return paths


if __name__ == "__main__":
    for made in make(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER):
        sys.stdout.write(f"{made}\n")
