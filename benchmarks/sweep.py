"""The whole grid of rules against one pass of the engine with the same largest period, on the same frame in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentlens.calibrate.grid import classes, full_windows, lap_profiles, lap_settings
from agentlens.calibrate.sweep import sweep
from agentlens.datasets import LaneModel, synthetic_lanes
from agentlens.detect.episodes import episodes
from agentlens.detect.loops import loops
from agentlens.detect.rules import Rule
from benchmarks._measure import Row, best

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

RUNS = 20_000
PERIODS = 16
LAP_PROFILES = 200


def run(scale: float = 1.0) -> Iterator[Row]:
    """Measure the sweep of 6,960 full-window settings and 200 lap profiles (at most 4 passes of `loops`)."""
    events = synthetic_lanes(
        round(RUNS * scale), seed=11, model=LaneModel(incident_share=0.2, noise=0.02)
    ).events
    settings = [*full_windows(), *lap_settings(lap_profiles()[:LAP_PROFILES])]
    cells = classes(settings)
    rule = Rule(thresholds=tuple(2 * p for p in range(1, PERIODS + 1)))
    one, _ = best(lambda: loops(events.lazy(), rule).collect())
    every, busy = best(lambda: sweep([events.lazy()], cells))
    found = sweep([events.lazy()], cells)
    _check(events, found.totals, cells[0].rule, 0)
    yield Row(
        part="every class of rules, episodes too",
        seconds=every,
        cpu_s=busy,
        events=events.height,
        ratios={"sweep / one loops pass with periods to 16 (at most 4)": every / one},
        told={"settings": len(settings), "classes": len(cells), "alerts": found.alerts.height},
    )


def _check(events: pl.DataFrame, totals: pl.DataFrame, rule: Rule, cell: int) -> None:
    verdicts = loops(events.lazy(), rule).collect()
    expected = episodes(events.lazy(), verdicts.lazy(), rule).collect().height
    if totals["alerts"][cell] != expected:
        raise SystemExit(f"sweep and engine disagree: {totals['alerts'][cell]} and {expected} alerts")
