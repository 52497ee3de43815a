"""The whole grid of rules against one pass of the engine with the same largest period, and against rule by rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentlens.calibrate.grid import classes, full_windows, lap_profiles, lap_settings
from agentlens.calibrate.sweep import sweep
from agentlens.datasets import LaneModel, synthetic_lanes
from agentlens.detect.episodes import episodes
from agentlens.detect.loops import loops
from agentlens.detect.rules import Rule
from benchmarks._measure import Row, alone, growing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import polars as pl

    from agentlens.calibrate.grid import Cell, Setting

RUNS = 20_000
PERIODS = 16
LAP_PROFILES = 200
FEW = 4


def run(scale: float = 1.0) -> Iterator[Row]:
    """Measure the sweep of 6,960 full-window settings and 200 lap profiles (at most 4 passes of `loops`)."""
    yield from growing(lambda times, runs: _at(times, round(runs)), RUNS * scale)


def _at(times: int, runs: int) -> Row:
    one, every, few = (
        alone(f"benchmarks.sweep:{what}", runs, repeats=repeats)
        for what, repeats in (("one", 3), ("every", 3), ("rule_by_rule", 1))
    )
    literal = few.seconds / FEW * every.told["classes"]
    events = every.told.pop("events")
    return every.row(
        "every class of rules, episodes too",
        growth=times,
        events=events,
        ratios={
            "time / one loops pass with periods to 16 (at most 4)": every.seconds / one.seconds,
            "processor time / one loops pass with periods to 16": every.cpu_s / one.cpu_s,
            f"rule by rule ({FEW} of them, scaled) / this": literal / every.seconds,
        },
        told=every.told,
    )


def one(runs: int) -> Callable[[], None]:
    """Judge by one rule with the same largest period."""
    events = _events(runs)
    rule = Rule(thresholds=tuple(2 * p for p in range(1, PERIODS + 1)))

    def work() -> None:
        loops(events.lazy(), rule).collect()

    return work


def every(runs: int) -> Callable[[], dict[str, Any]]:
    """Try every class of rules in one sweep."""
    events, (settings, cells) = _events(runs), _grid()

    def work() -> dict[str, Any]:
        found = sweep([events.lazy()], cells)
        counted = {"settings": len(settings), "classes": len(cells), "alerts": found.alerts.height}
        return {"events": events.height, **counted}

    return work


def rule_by_rule(runs: int) -> Callable[[], None]:
    """Judge by a few of the rules, one after the other, and check that the sweep finds the same number of alerts."""
    events, (_, cells) = _events(runs), _grid()
    few = [cells[number * (len(cells) - 1) // (FEW - 1)] for number in range(FEW)]
    swept = sweep([events.lazy()], few).totals["alerts"].to_list()

    def work() -> None:
        for cell, alerts in zip(few, swept, strict=True):
            verdicts = loops(events.lazy(), cell.rule).collect()
            found = episodes(events.lazy(), verdicts.lazy(), cell.rule).collect().height
            if found != alerts:
                raise SystemExit(f"sweep and engine disagree on {cell.rule}: {alerts} and {found} alerts")

    return work


def _events(runs: int) -> pl.DataFrame:
    model = LaneModel(incident_share=0.2, noise=0.02)
    return synthetic_lanes(runs, seed=11, model=model).events


def _grid() -> tuple[list[Setting], list[Cell]]:
    settings = [*full_windows(), *lap_settings(lap_profiles()[:LAP_PROFILES])]
    return settings, classes(settings)
