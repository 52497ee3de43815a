"""The sweep equals the engine, rule by rule, on every cell."""

from __future__ import annotations

from random import Random

import polars as pl
import pytest

from agentlens.calibrate.grid import (
    Setting,
    baselines,
    classes,
    full_windows,
    lap_profiles,
    lap_settings,
    surprises,
)
from agentlens.calibrate.sweep import sweep
from agentlens.datasets import LaneModel, synthetic_lanes
from agentlens.detect import rules
from agentlens.detect.episodes import episodes
from agentlens.detect.loops import loops
from agentlens.detect.policies import Policies
from tests.oracle import frames, generate

SMALL = [
    *baselines(),
    *full_windows((4, 5, 7), (1, 2, 4), (2, 3), (1, 2)),
    *full_windows((4, 6), (1, 3), (2, 3), (1, 2), short_starts=True),
    *full_windows((4, 6), (1, 3), (2,), (1, 2), evidence="constant"),
    *full_windows((6,), (3,), (2,), (1, 2), evidence="constant", short_starts=True),
    *lap_settings(lap_profiles(3)),
    *lap_settings([(2,), (2, 2), (3, 2)], evidence="none"),
    *surprises((1, 2, 4), 4),
    Setting(family="gap", text="gap", rule=rules.laps((2, 2), max_gap_s=2.0)),
]


def random_events(seed: int, size: int = 30) -> pl.DataFrame:
    """Draw lanes with holes, leases, retries, milestones, judgements, version changes; two lanes a run now and then."""
    events = []
    for k in range(size):
        events += generate.lane(f"sweep {seed} {k}", run_id=f"r{k - (k % 3 == 2):04d}", agent=f"a{k % 3}")
    return frames.frame(events)


def disagreement(events: pl.DataFrame, cells, policies: Policies | None, chosen) -> str | None:
    """Name the first cell on which the sweep and the engine differ."""
    found = sweep([events.lazy()], cells, policies=policies)
    for n in chosen:
        rule = cells[n].rule
        verdicts = loops(events.lazy(), rule, policies).collect()
        theirs = episodes(events.lazy(), verdicts.lazy(), rule).collect()
        expected = (
            n,
            theirs.height,
            int((verdicts["verdict"] == "stuck_loop").sum()),
            int((verdicts["verdict"] == "uncertain").sum()),
        )
        alerts = theirs.select(
            "run_id",
            "agent",
            pl.col("alert_seq").alias("seq"),
            "onset_seq",
            pl.col("period").cast(pl.Int32),
        ).sort("run_id", "agent", "seq")
        mine = found.of(n).select("run_id", "agent", "seq", "onset_seq", "period")
        lane = pl.struct("run_id", "agent")
        unsure = pl.col("verdict") == "uncertain"
        same = (lane == lane.shift(1)).fill_null(False) & unsure.shift(1).fill_null(False)
        doubts = verdicts.filter(unsure & ~same)
        doubted = found.actions[found.doubts.filter(pl.col("cell") == n)["row"].to_list()]
        if found.totals.row(n) != expected or not mine.equals(alerts):
            return f"{cells[n].text}: {found.totals.row(n)} {expected}\n{mine}\n{alerts}"
        if sorted(doubted.select("run_id", "agent", "seq").rows()) != sorted(
            doubts.select("run_id", "agent", "seq").rows()
        ):
            return f"{cells[n].text}: other stretches of doubt"
        if (
            int(
                found.doubts.filter(pl.col("cell") == n)
                .select(pl.col("last") - pl.col("row") + 1)
                .sum()
                .item()
            )
            != expected[3]
        ):
            return f"{cells[n].text}: other lengths of doubt"
    return None


@pytest.mark.parametrize("seed", range(6))
def test_every_cell_equals_the_engine_on_random_lanes(seed):
    """Alerts, onsets, periods, stuck events, uncertain events and first doubts agree, cell by cell."""
    cells = classes(SMALL)
    chosen = Random(seed).sample(range(len(cells)), 24)
    assert disagreement(random_events(seed), cells, None, chosen) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_every_cell_equals_the_engine_on_many_random_lanes(seed):
    """The same, every cell, forty draws of sixty lanes."""
    cells = classes(SMALL)
    assert disagreement(random_events(seed, 60), cells, None, range(len(cells))) is None


def test_declared_policies_mask_cells_as_they_mask_the_engine():
    """Waiting tools and retry policies of a file are honoured in every cell."""
    policies = Policies.load("data/policies.toml")
    cells = classes(SMALL)
    assert disagreement(random_events(77), cells, policies, range(0, len(cells), 5)) is None


def test_synthetic_lanes_with_loops_agree():
    """Planted loops, noise and unknown evidence: wide and narrow settings agree with the engine."""
    events = synthetic_lanes(
        60, seed=5, model=LaneModel(incident_share=0.5, noise=0.1, unknown_share=0.2)
    ).events
    cells = classes([*baselines(), *full_windows((6, 12), (3, 6), (2,), (1, 3))])
    assert disagreement(events, cells, None, range(len(cells))) is None


def test_parts_do_not_matter():
    """Runs in two parts give the frames that one part gives."""
    events = random_events(3)
    cells = classes(SMALL[:20])
    early = pl.col("run_id") < "r0015"
    whole = sweep([events.lazy()], cells)
    split = sweep([events.filter(early).lazy(), events.filter(~early).lazy()], cells)
    assert whole.actions.equals(split.actions)
    assert whole.alerts.equals(split.alerts)
    assert whole.doubts.equals(split.doubts)
    assert whole.totals.equals(split.totals)


def test_no_events_give_empty_frames():
    """A sweep over nothing has a row of zeros for every cell."""
    found = sweep([random_events(1).lazy().filter(pl.lit(False))], classes(baselines()))
    assert found.alerts.is_empty()
    assert found.totals["stuck_events"].to_list() == [0, 0, 0, 0]


def test_6960_full_window_settings_are_318_classes():
    """A full-window setting is two numbers; two settings of one class are one detector."""
    settings = full_windows()
    cells = classes(settings)
    assert (len(settings), len(cells)) == (6960, 318)
    assert sum(len(cell.settings) for cell in cells) == 6960


def test_there_are_at_least_two_hundred_lap_profiles():
    """The lap profiles are valid, different detectors."""
    profiles = lap_profiles()
    assert len(classes(lap_settings(profiles))) == len(profiles) >= 200
    assert (4, 3, 2) in profiles
