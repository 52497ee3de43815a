"""Detection as a curve: misses are never, guard-ended runs are censored."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from agentlens.calibrate.delay import (
    DELAYS,
    DETECTION,
    DETECTION_CURVE,
    delay_waits,
    detection,
    detection_curve,
)
from agentlens.errors import SchemaError, SettingsError


def delays(
    *rows: tuple[int | None, int | None], groups: list[str] | None = None, **columns: list
) -> pl.DataFrame:
    """Rows of (delay, watched): no delay and a watched time is guard-ended, neither is a miss. A second an event."""
    names = [f"r{k:03d}" for k in range(len(rows))]
    frame = pl.DataFrame(
        {
            "run_id": names,
            "task_group": groups or names,
            "detected": [d is not None for d, _ in rows],
            "already": [False] * len(rows),
            "guard_ended": [w is not None for _, w in rows],
            "delay_events": [d for d, _ in rows],
            "delay_us": [None if d is None else d * 1_000_000 for d, _ in rows],
            "watched_events": [w for _, w in rows],
            "watched_us": [None if w is None else w * 1_000_000 for _, w in rows],
            "timed": [None] * len(rows),
        },
        schema=DELAYS,
    )
    return frame.with_columns(pl.Series(name, values) for name, values in columns.items())


def one(frame: pl.DataFrame, within: int = 10, **more) -> dict:
    found = detection(frame, within, draws=200, **more)
    assert found.schema == DETECTION
    return found.row(0, named=True)


def test_a_miss_is_never_and_not_left_out() -> None:
    """Two of four found: a half within ten, although the found ones took two events on average."""
    row = one(delays((1, None), (3, None), (None, None), (None, None)))
    assert (row["share"], row["restricted_mean"], row["detected"], row["missed"]) == (0.5, 6.0, 2, 2)
    assert (row["median"], row["p90"]) == (3, None)


def test_a_guard_ended_run_is_neither_found_nor_missed() -> None:
    """Watched for two events: the two still watched at 5 speak for it, one of them found."""
    row = one(delays((1, None), (5, None), (None, None), (None, 2)))
    assert row["censored"] == 1
    assert row["missed"] == 1
    assert row["share"] == pytest.approx(1 / 4 + 3 / 4 / 2)
    assert row["share_method"] == "cluster_bootstrap"


def test_one_incident_a_group_has_an_exact_interval() -> None:
    """45 of 50 found: between .78 and .97."""
    row = one(delays(*([(3, None)] * 45 + [(None, None)] * 5)))
    assert (row["share_method"], row["thin"]) == ("clopper_pearson", False)
    assert (round(row["share_low"], 2), round(row["share_high"], 2)) == (0.78, 0.97)


def test_incidents_of_one_task_are_not_independent() -> None:
    """Fifty incidents in ten tasks, found or missed by the task, are known less well than fifty tasks."""
    rows = [(3, None)] * 25 + [(None, None)] * 25
    alone = one(delays(*rows))
    tied = one(delays(*rows, groups=[f"g{k // 5}" for k in range(50)]))
    assert tied["share_high"] - tied["share_low"] > alone["share_high"] - alone["share_low"]
    assert tied["thin"]


def test_everything_found_is_not_a_certainty() -> None:
    """A bootstrap of ten found would answer [1, 1]; the exact interval of five groups is given."""
    row = one(delays(*[(2, None)] * 10, groups=[f"g{k % 5}" for k in range(10)]))
    assert row["share_method"] == "clopper_pearson_groups"
    assert row["share_low"] == pytest.approx(0.025 ** (1 / 5))


def test_already_alerting_counts_apart() -> None:
    """A state that was on at onset is no detection after 0 events."""
    row = one(delays((0, None), (4, None), already=[True, False]))
    assert (row["already"], row["incidents"], row["median"]) == (1, 1, 4)


def test_without_times_seconds_are_not_invented() -> None:
    """An incident detected without a time is left out of the curve in seconds, and counted."""
    frame = delays((2, None), (4, None)).with_columns(delay_us=pl.Series([None, 4_000_000], dtype=pl.Int64))
    row = one(frame, 10_000_000, unit="us")
    assert (row["untimed"], row["incidents"], row["median"]) == (1, 1, 4_000_000)
    assert one(frame)["untimed"] == 0


def test_longer_thresholds_look_worse_not_better() -> None:
    """Missing the slow half may not lower the restricted mean."""
    quick = one(delays((2, None), (8, None)))
    missing = one(delays((2, None), (None, None)))
    assert quick["restricted_mean"] < missing["restricted_mean"]


def test_the_curve_is_the_share_found_by_each_delay() -> None:
    """Without censoring it is a plain count, and its limits hold it."""
    rng = np.random.default_rng(3)
    rows = [(int(d), None) if d < 12 else (None, None) for d in rng.integers(0, 16, 60)]
    curve = detection_curve(delays(*rows), draws=200)
    assert curve.schema == DETECTION_CURVE
    for after, share, low, high in curve.select("after", "share", "low", "high").rows():
        assert share == pytest.approx(sum(d is not None and d <= after for d, _ in rows) / 60)
        assert low <= share + 1e-12
        assert share <= high + 1e-12
    assert curve["share"].is_sorted()


def test_the_interval_of_the_restricted_mean_covers_the_truth() -> None:
    """Tasks of three incidents with a common lateness: about 95 % of intervals hold the true mean."""
    rng = np.random.default_rng(8)
    hits = 0
    for _ in range(60):
        late = rng.integers(0, 10, 40).repeat(3)
        rows = [(int(d), None) for d in late + rng.integers(0, 3, 120)]
        row = one(delays(*rows, groups=[f"g{k // 3:02d}" for k in range(120)]), within=50)
        hits += row["mean_low"] <= 5.5 <= row["mean_high"]
    assert hits >= 51


def test_no_incidents_have_no_curve() -> None:
    """Nulls, not zeros."""
    empty = pl.DataFrame(schema=DELAYS)
    row = one(empty)
    assert (row["incidents"], row["share"], row["restricted_mean"], row["thin"]) == (0, None, None, True)
    assert detection_curve(empty).is_empty()


def test_the_order_of_rows_changes_nothing() -> None:
    """Shuffled incidents, same bytes."""
    rows = delays(*[(k % 7, None) for k in range(30)], groups=[f"g{k % 11}" for k in range(30)])
    assert one(rows) == one(rows.sample(fraction=1, shuffle=True, seed=1))
    assert delay_waits(rows).size == 30


def test_bad_input_is_one_clear_line() -> None:
    """A D of nothing, a frame of something else."""
    with pytest.raises(SettingsError, match="within"):
        detection(delays((1, None)), 0)
    with pytest.raises(SchemaError, match="delays lack"):
        detection(pl.DataFrame({"already": [False]}), 3)


def test_misses_of_untimed_runs_are_no_misses_in_seconds() -> None:
    """A run without times gives neither hits nor misses in seconds: its misses alone would lower the curve."""
    frame = delays((2, None), (4, None), (None, None), (None, None), timed=[True, False, True, False])
    row = one(frame, 10_000_000, unit="us")
    assert (row["incidents"], row["untimed"], row["detected"], row["missed"], row["share"]) == (
        2,
        2,
        1,
        1,
        0.5,
    )
    assert one(frame)["share"] == 0.5
    assert one(frame)["incidents"] == 4


ROWS = st.lists(
    st.tuples(st.sampled_from(["found", "missed", "guarded"]), st.integers(0, 12)), min_size=1, max_size=40
)


def told(rows: list[tuple[str, int]]) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    """Delays, and the same as times (a miss is watched for ever) with whether the detection was seen."""
    frame = delays(*[(t if kind == "found" else None, t if kind == "guarded" else None) for kind, t in rows])
    time = np.array([1e9 if kind == "missed" else t for kind, t in rows])
    return frame, time, np.array([kind == "found" for kind, _ in rows])


@given(rows=ROWS)
@settings(max_examples=60, deadline=None)
def test_the_curve_is_kaplan_meier_with_misses_at_infinity(rows: list[tuple[str, int]]) -> None:
    """At every delay seen it equals one minus SciPy's survival function."""
    frame, time, seen = told(rows)
    curve = detection_curve(frame, draws=2)
    theirs = stats.ecdf(stats.CensoredData(uncensored=time[seen], right=time[~seen])).sf
    for after, share in curve.select("after", "share").rows():
        assert share == pytest.approx(1 - float(theirs.evaluate(after)))
    assert curve.height == np.unique(time[seen]).size
    assert one(frame, 20)["missed"] == sum(kind == "missed" for kind, _ in rows)


@given(rows=ROWS)
@settings(max_examples=30, deadline=None)
def test_curve_and_restricted_mean_equal_those_of_lifelines(rows: list[tuple[str, int]]) -> None:
    """A second opinion, where the library is there: the curve, and the mean of delays cut at twenty events."""
    lifelines = pytest.importorskip("lifelines", reason="needs lifelines")
    frame, time, seen = told(rows)
    model = lifelines.KaplanMeierFitter().fit(time, seen)
    for after, share in detection_curve(frame, draws=2).select("after", "share").rows():
        assert share == pytest.approx(1 - float(model.predict(after)))
    mean = lifelines.utils.restricted_mean_survival_time(model, t=20)
    assert one(frame, 20)["restricted_mean"] == pytest.approx(mean)
