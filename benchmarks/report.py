"""The report of a lake, page and tables, beside a plain scan of the lake and one loops pass over it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks._lake import kept
from benchmarks._measure import Row, alone, growing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EVENTS = 800_000


def run(scale: float = 1.0) -> Iterator[Row]:
    """Measure reports of lakes of up to ``scale`` x 800,000 events (4,000 runs)."""
    yield from growing(lambda times, events: _at(times, int(events)), EVENTS * scale)


def _at(times: int, events: int) -> Row:
    lake = str(kept(events))
    made = alone("benchmarks.report:report", lake)
    scan = alone("benchmarks.report:scan", lake, repeats=3)
    loops = alone("benchmarks.loops:tables", lake)
    return made.row(
        "lake to page and tables",
        growth=times,
        events=loops.told["events"],
        bytes=loops.told["bytes"],
        ratios={
            "time / Parquet scan of all columns": made.seconds / scan.seconds,
            "time / one loops pass": made.seconds / loops.seconds,
        },
        told={"page, bytes": made.told, "runs": loops.told["runs"]},
    )


def report(lake: str) -> Callable[[], int]:
    """Make the page and every table of it; gives the size of the page."""
    import agentlens

    def work() -> int:
        with tempfile.TemporaryDirectory() as folder:
            return agentlens.write_report(lake, out=Path(folder, "report.html"))[0].stat().st_size

    return work


def scan(lake: str) -> Callable[[], Any]:
    """Read every column of every event."""
    from agentlens.lake import Lake

    return lambda: Lake.open(lake).events().collect().height
