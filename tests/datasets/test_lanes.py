"""Synthetic lanes for simulations."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.datasets import LaneModel, synthetic_lanes
from agentlens.datasets.fleet import LABELS
from agentlens.detect.loops import loops
from agentlens.detect.rules import laps
from agentlens.errors import SettingsError
from agentlens.model.event import EVENTS

PERIODIC = LaneModel(incident_share=0.5, periods=(1, 2, 3, 4, 5, 6), min_laps=4, min_events=40, max_events=60)


def test_schema_and_order() -> None:
    """Canonical events, sorted, with times that never run back inside a lane."""
    lanes = synthetic_lanes(50, seed=1)
    assert lanes.events.schema == EVENTS
    assert lanes.labels.schema == LABELS
    assert lanes.events.equals(lanes.events.sort("run_id", "agent", "seq"))
    backwards = lanes.events.select((pl.col("at").diff().over("run_id") <= pl.duration()).sum()).item()
    assert backwards == 0


def test_the_same_seed_gives_the_same_lanes() -> None:
    """Equal seeds, equal frames; other seeds, other frames."""
    first, again, other = (synthetic_lanes(20, seed=s) for s in (1, 1, 2))
    assert first.events.equals(again.events)
    assert not first.events.equals(other.events)


def test_a_planted_round_is_periodic_in_action_and_evidence() -> None:
    """Without noise every step from onset + period to the end equals the one a period before, in both."""
    lanes = synthetic_lanes(200, seed=2, model=PERIODIC)
    inside = lanes.events.join(lanes.truth.drop_nulls("period"), on="run_id")
    pairs = inside.join(
        inside.select(
            "run_id", seq=pl.col("seq") + pl.col("period"), x="action_signature", f="progress_fingerprint"
        ),
        on=["run_id", "seq"],
    ).filter(pl.col("seq").is_between(pl.col("onset_seq") + pl.col("period"), pl.col("end_seq")))
    assert pairs.height > 1_000
    assert (pairs["action_signature"] == pairs["x"]).all()
    assert (pairs["progress_fingerprint"] == pairs["f"]).all()


def test_the_default_rule_finds_every_clean_round_it_can_see() -> None:
    """Periods 1 to 3 with four laps are all found; longer ones are all missed inside their interval."""
    lanes = synthetic_lanes(300, seed=3, model=PERIODIC)
    stuck = loops(lanes.events.lazy(), laps()).filter(pl.col("verdict") == "stuck_loop").collect()
    hits = stuck.join(lanes.truth.drop_nulls("period"), on="run_id").filter(
        pl.col("seq").is_between("onset_seq", "end_seq")
    )
    found = set(hits["run_id"])
    seen = lanes.truth.filter(pl.col("period") <= 3)["run_id"].to_list()
    unseen = lanes.truth.filter(pl.col("period") > 3)["run_id"].to_list()
    assert len(seen) > 30
    assert len(unseen) > 30
    assert set(seen) <= found
    assert not set(unseen) & found


def test_label_noise_unknowns_and_groups() -> None:
    """Noise turns labels and not the truth; unknown evidence is null; groups have the size asked for."""
    model = LaneModel(incident_share=0.3, label_noise=1.0, unknown_share=0.5, runs_per_group=4)
    lanes = synthetic_lanes(400, seed=4, model=model)
    both = lanes.labels.join(lanes.truth, on="run_id", suffix="_true")
    assert (both["label"] != both["label_true"]).all()
    assert lanes.events["progress_fingerprint"].null_count() > 0
    assert lanes.truth.group_by("task_group").len()["len"].unique().to_list() == [4]
    groups = lanes.events.select("run_id", "task_group").unique().sort("run_id")
    assert groups.equals(lanes.truth.select("run_id", "task_group"))


def test_groups_differ_only_when_told_to() -> None:
    """With spread the share of repeated steps differs between task groups far more than without."""

    def between(spread: float) -> float:
        model = LaneModel(incident_share=0.0, repeat=0.4, spread=spread, runs_per_group=20)
        lanes = synthetic_lanes(600, seed=5, model=model)
        same = pl.col("action_signature") == pl.col("action_signature").shift().over("run_id")
        shares = lanes.events.with_columns(same.alias("same"))
        return shares.group_by("task_group").agg(pl.col("same").mean())["same"].std()

    assert between(0.9) > 4 * between(0.0)


@pytest.mark.parametrize(
    "settings",
    [
        {"incident_share": 1.2},
        {"periods": ()},
        {"spread": 1.0},
        {"min_laps": 5, "max_laps": 4},
        {"min_events": 5},
    ],
)
def test_models_that_cannot_be_drawn_are_refused(settings) -> None:
    """A model says what it would accept."""
    with pytest.raises(SettingsError, match="accepted"):
        LaneModel(**settings)


def test_no_runs_are_refused() -> None:
    """There is no fleet of none."""
    with pytest.raises(SettingsError, match="runs = 0"):
        synthetic_lanes(0, seed=1)


@pytest.mark.parametrize("seed", [-1, 1.5, None])
def test_a_seed_is_a_whole_number(seed) -> None:
    """Anything else is one line, not an error of the generator below."""
    with pytest.raises(SettingsError, match=r"seed = .* a whole number from 0"):
        synthetic_lanes(3, seed=seed)
