"""Everything that can be planted is a parameter, and comes out as asked."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.calibrate.ack_checks import ack_checks
from agentlens.calibrate.ack_times import ack_times
from agentlens.calibrate.near_misses import near_misses
from agentlens.datasets import SCENARIOS, LaneModel, fleet, synthetic_handoffs, synthetic_lanes
from agentlens.detect.handoffs import handoffs
from agentlens.detect.loops import loops
from agentlens.detect.rules import laps
from agentlens.errors import SettingsError

PLANTED = {
    *(
        "same_call",
        "ring_2",
        "ring_3",
        "ring_4",
        "ring_5",
        "ring_6",
        "edit_and_revert",
        "paging",
        "leased_poll",
    ),
    *("moving_poll", "silent_poll", "retry_in_policy", "retry_storm", "redacted", "delegated", "asked_again"),
}


def test_every_kind_that_calibration_needs_can_be_planted_alone() -> None:
    """Loops of period 1 to 6, edit and revert, paging, polls with and without leases, retries, redactions, handoffs."""
    assert {scenario.name for scenario in SCENARIOS} >= PLANTED
    for name in sorted(PLANTED):
        worlds = next(s.worlds for s in SCENARIOS if s.name == name)
        planted = fleet(seed=3, runs=4, worlds=worlds[:1], scenarios=(name,))
        assert set(planted.truth["scenario"]) == {name}


def test_stray_steps_lengthen_loops_and_change_nothing_without_noise() -> None:
    """Noise puts steps into loops and leaves healthy runs as they are; at 0 the fleet is the one it was."""
    names = ("ring_2", "steady_work")
    clean, same, noisy = (
        fleet(seed=5, runs=24, worlds=("press",), scenarios=names, **more)
        for more in ({}, {"noise": 0.0}, {"noise": 0.3})
    )
    assert clean.events.equals(same.events)
    size = {
        name: planted.events.group_by("run_id")
        .len()
        .join(planted.truth, on="run_id")
        .group_by("scenario")
        .agg(pl.col("len").sum())
        for name, planted in (("clean", clean), ("noisy", noisy))
    }
    both = (
        size["clean"].join(size["noisy"], on="scenario", suffix="_noisy").rows_by_key("scenario", named=True)
    )
    assert both["steady_work"][0]["len"] == both["steady_work"][0]["len_noisy"]
    assert both["ring_2"][0]["len_noisy"] > 1.1 * both["ring_2"][0]["len"]


def test_a_loop_with_one_stray_step_is_a_near_miss() -> None:
    """Stray steps hide loops from the rule; some of the hidden ones are one edit short of an alert."""
    planted = fleet(seed=8, runs=60, worlds=("press",), scenarios=("ring_2", "ring_3"), noise=0.12)
    stuck = (
        loops(planted.events.lazy(), laps())
        .filter(pl.col("verdict") == "stuck_loop")
        .select("run_id")
        .collect()
    )
    missed = planted.truth.join(stuck, on="run_id", how="anti").select(pl.lit("laps").alias("rule"), "run_id")
    near = near_misses(missed, [("laps", laps())], [planted.events.lazy()])
    assert 0 < near["run_id"].n_unique() <= missed.height


def test_onsets_lie_where_they_are_asked_for() -> None:
    """The last tenth of the room, or its very beginning."""
    model = {"incident_share": 1.0, "min_events": 60, "max_events": 80}
    late = synthetic_lanes(200, seed=2, model=LaneModel(**model, onset=(0.9, 1.0)))
    lengths = late.events.group_by("run_id").len()
    room = late.truth.join(lengths, on="run_id").select(
        (pl.col("onset_seq") / (pl.col("len") - (pl.col("end_seq") - pl.col("onset_seq")))).alias("share")
    )
    assert room["share"].min() >= 0.85
    early = synthetic_lanes(50, seed=2, model=LaneModel(**model, onset=(0.0, 0.0)))
    assert set(early.truth["onset_seq"]) == {0}


def test_a_blurred_onset_is_an_interval_that_holds_the_true_one() -> None:
    """Labels say between; the truth says where."""
    lanes = synthetic_lanes(300, seed=4, model=LaneModel(incident_share=1.0, onset_blur=4))
    both = lanes.labels.join(lanes.truth, on="run_id", suffix="_true")
    high = pl.coalesce("onset_hi_seq", "onset_seq")
    assert both.select((pl.col("onset_seq") <= pl.col("onset_seq_true")).all()).item()
    assert both.select((pl.col("onset_seq_true") <= high).all()).item()
    assert both.select((high - pl.col("onset_seq")).max()).item() == 4
    sharp = synthetic_lanes(300, seed=4, model=LaneModel(incident_share=1.0))
    assert sharp.events.equals(lanes.events)
    assert sharp.labels["onset_hi_seq"].null_count() == 300


def test_handoffs_share_tasks_are_polled_and_mislabelled_as_asked() -> None:
    """Groups of five in one trace; latencies in whole steps, which the check sees; a tenth of the labels turned."""
    plain = synthetic_handoffs(1_000, seed=6)
    drawn = synthetic_handoffs(1_000, seed=6, per_group=5, polled_s=30.0, label_noise=0.1)
    assert drawn.truth.equals(plain.truth)
    assert drawn.labels["task_group"].n_unique() == drawn.receipts["trace_id"].n_unique() == 200
    times = ack_times(handoffs(drawn.receipts.lazy())).collect()
    assert times["cluster"].n_unique() == 200
    polling = ack_checks(times).filter(pl.col("check") == "polling").row(0, named=True)
    assert (polling["value"], polling["warn"]) == (30.0, True)
    turned = (
        drawn.labels.join(plain.labels, on="handoff_id")
        .filter(pl.col("label") != pl.col("label_right"))
        .height
    )
    assert 70 <= turned <= 130


@pytest.mark.parametrize(
    "draw",
    [
        lambda: fleet(runs=3, noise=1.5),
        lambda: LaneModel(onset=(0.5, 0.2)),
        lambda: LaneModel(onset_blur=-1),
        lambda: synthetic_handoffs(5, seed=1, per_group=0),
        lambda: synthetic_handoffs(5, seed=1, polled_s=-1.0),
        lambda: synthetic_handoffs(5, seed=1, label_noise=2.0),
    ],
)
def test_what_can_not_be_drawn_is_refused(draw) -> None:
    """One line names the setting and what is accepted."""
    with pytest.raises(SettingsError, match="accepted:"):
        draw()
