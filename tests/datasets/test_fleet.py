"""The planted fleet and its truth."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.datasets import SCENARIOS, fleet
from agentlens.datasets.fleet import LABELS, TRUTH
from agentlens.detect.loops import loops
from agentlens.detect.rules import laps
from agentlens.errors import SettingsError
from agentlens.model.event import EVENTS


@pytest.fixture(scope="module")
def planted():
    return fleet()


def test_the_default_rule_makes_of_every_scenario_what_its_truth_says(planted) -> None:
    """Alerts where the scenario says so and nowhere else; the named verdict occurs in every run."""
    judged = loops(planted.events.lazy(), laps()).collect()
    seen = judged.group_by("run_id").agg(
        pl.col("verdict").unique().alias("seen"), (pl.col("verdict") == "stuck_loop").any().alias("stuck")
    )
    joined = planted.truth.join(seen, on="run_id", how="left")
    wrong = joined.filter(
        (pl.col("stuck") != pl.col("alerts")) | ~pl.col("seen").list.contains(pl.col("verdict"))
    )
    assert joined["seen"].null_count() == 0
    assert wrong.select("run_id", "scenario", "alerts", "stuck").rows() == []


def test_every_scenario_is_in_the_default_fleet(planted) -> None:
    """A scenario nobody meets proves nothing."""
    assert set(planted.truth["scenario"]) == {scenario.name for scenario in SCENARIOS}


def test_schemas_and_order(planted) -> None:
    """Labels, truth and events have their documented columns and are sorted by run."""
    assert planted.labels.schema == LABELS
    assert planted.truth.schema == TRUTH
    assert planted.events.schema == EVENTS
    assert planted.labels["run_id"].is_sorted()
    assert planted.labels["run_id"].is_unique().all()


def test_onsets_point_at_the_first_action_of_the_first_lap(planted) -> None:
    """On one-call loops the action at the onset is another than the one before, and the one of the next."""
    key = ["run_id", "agent", "seq"]
    one = planted.labels.filter(pl.col("kind") == "same_call").select("run_id", "onset_seq", "onset_at")
    lanes = planted.events.join(one, on="run_id").sort(key)
    at = lanes.filter(pl.col("seq") == pl.col("onset_seq"))
    before = lanes.filter(pl.col("seq") == pl.col("onset_seq") - 1)
    after = lanes.filter(pl.col("seq") == pl.col("onset_seq") + 1)
    assert at.height == one.height > 0
    assert (at["action_signature"] == after["action_signature"]).all()
    assert (at["action_signature"] != before["action_signature"]).all()
    assert (at["at"] == at["onset_at"]).all()


def test_the_same_seed_gives_the_same_fleet_and_another_another() -> None:
    """Reproducible by seed alone."""
    assert fleet(seed=4, runs=9).records == fleet(seed=4, runs=9).records
    assert fleet(seed=4, runs=9).records != fleet(seed=5, runs=9).records


def test_runs_of_one_task_share_a_group(planted) -> None:
    """Three runs in a row of one workplace are one task group."""
    sizes = planted.truth.group_by("world", "task_group").len()
    assert sizes["len"].max() == 3
    assert fleet(seed=1, runs=12, runs_per_task=1).truth["task_group"].n_unique() == 12


def test_label_noise_turns_labels_and_leaves_the_truth() -> None:
    """At probability 1 every label is wrong; a label turned healthy has no interval."""
    clean, noisy = fleet(seed=2, runs=30), fleet(seed=2, runs=30, label_noise=1.0)
    assert noisy.truth.equals(clean.truth)
    assert (noisy.labels["label"] != clean.labels["label"]).all()
    assert (
        noisy.labels.filter(pl.col("label") == "healthy")["onset_seq"].null_count()
        == (noisy.labels["label"] == "healthy").sum()
    )


def test_only_what_was_asked_for() -> None:
    """Worlds and scenarios can be chosen."""
    chosen = fleet(seed=1, runs=6, worlds=("press",), scenarios=("leased_poll", "ring_2"))
    assert set(chosen.truth["world"]) == {"press"}
    assert set(chosen.truth["scenario"]) == {"leased_poll", "ring_2"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"runs": 0}, "runs = 0"),
        ({"label_noise": 1.5}, "label_noise"),
        ({"worlds": ("cod",)}, "did you mean 'code'"),
        ({"worlds": ()}, "at least one of"),
        ({"scenarios": ("ring_22",)}, "unknown scenario"),
        ({"worlds": ("desk",), "scenarios": ("leased_poll",)}, "one that world 'desk' can hold"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, said) -> None:
    """One line that names the setting and what would do."""
    with pytest.raises(SettingsError, match=said):
        fleet(**settings)
