"""Counterfactuals are exact: the detector, run again under the change, says the same."""

from __future__ import annotations

import random
from dataclasses import replace

import polars as pl
import pytest

from agentlens.detect.rules import equal_surprise, full_window, laps
from agentlens.report.stretches import stretches
from agentlens.report.whatif import Alerts, Change, fewest, greedy, separating
from tests.report.made import events, lane, material


def bench(frame: pl.DataFrame, rule=None, truth=None) -> Alerts:
    made = material(frame, rule)
    holds = stretches(frame.lazy(), made.book, made.actions)
    return Alerts(made.episodes, made.verdicts, holds, truth)


def random_lanes(seed: int, runs: int = 60) -> pl.DataFrame:
    draw = random.Random(seed)
    made = []
    for run in range(runs):
        word = "".join(draw.choice("ABC") * draw.randint(1, 7) for _ in range(4))
        seen = "".join(draw.choice("xxxxxxy") for _ in word)
        made.append(lane(f"r{run:03d}", word, seen))
    return events(*made)


def alerting(frame: pl.DataFrame, rule) -> set[str]:
    return set(material(frame, rule).episodes["run_id"])


@pytest.mark.parametrize("later", [1, 2, 4])
@pytest.mark.parametrize("rule", [laps(), equal_surprise(3, 4), laps((5, 3), evidence="constant")])
def test_waiting_longer_clears_just_the_runs_that_the_stricter_rule_leaves_silent(rule, later) -> None:
    """Excess below d is cleared by raising every threshold by d, and nothing else is."""
    frame = random_lanes(later)
    stricter = replace(rule, thresholds=tuple(t + later for t in rule.thresholds))
    left = bench(frame, rule).under(Change(later=later))
    assert 0 < left["run_id"].n_unique() < len(alerting(frame, rule))
    assert set(left["run_id"]) == alerting(frame, stricter)


def test_later_alerts_come_at_the_event_where_the_stricter_rule_alerts() -> None:
    """The first stuck event whose excess is d is the new alert."""
    frame = events(lane("r", "PQ" + "A" * 9, "pq" + "x" * 9))
    moved = bench(frame).under(Change(later=2))
    again = material(frame, replace(laps(), thresholds=(6, 8, 8))).episodes
    assert moved["seq"].to_list() == again["alert_seq"].to_list() == [7]


def test_without_long_periods_only_shorter_loops_alert() -> None:
    """A period cap keeps what a shorter period finds too."""
    frame = events(lane("one", "A" * 6, "x" * 6), lane("two", "AB" * 4, "xy" * 4))
    assert bench(frame).under(Change(longest=1))["run_id"].to_list() == ["one"]
    assert alerting(frame, laps((4,))) == {"one"}


def test_a_poll_clears_every_loop_through_its_tool() -> None:
    """The same as evidence that is never equal at that tool."""
    frame = events(
        lane("one", "A" * 6, "x" * 6), lane("two", "AB" * 4, "xy" * 4), lane("three", "C" * 6, "x" * 6)
    )
    left = bench(frame).under(Change(exempt="tool_a"))
    fresh = pl.when(pl.col("tool") == "tool_a").then(
        pl.concat_str("run_id", pl.lit("-"), pl.col("seq").cast(pl.String))
    )
    polled = frame.with_columns(progress_fingerprint=fresh.otherwise("progress_fingerprint"))
    assert set(left["run_id"]) == alerting(polled, laps()) == {"three"}


def test_short_starts_are_measured_by_their_own_threshold() -> None:
    """Where the head of a lane alerts, its excess counts from the head's threshold."""
    frame = events(lane("r", "AA", "xx"))
    rule = full_window(window=6, max_period=3, min_repetitions=2)
    assert bench(frame, rule).peaks()["peak"].to_list() == [0]


def test_one_different_result_inside_the_range_clears_and_outside_does_not() -> None:
    """Every place of a stretch is tried with the detector."""
    for size in range(4, 9):
        where = separating(0, size - 1, 4)
        cleared = []
        for place in range(size):
            seen = "x" * place + "y" + "x" * (size - place - 1)
            cleared.append(not alerting(events(lane("r", "A" * size, seen)), laps((4,))))
        expected = [where is not None and where[0] <= place <= where[1] for place in range(size)]
        assert cleared == expected, size


def test_fewest_different_results_are_enough_and_one_less_is_not() -> None:
    """Spread at every T-th action they keep each stretch below T."""
    for size in range(4, 16):
        least = fewest(size, 4)
        seen = "".join("y" if place % 4 == 3 and place // 4 < least else "x" for place in range(size))
        marked = "".join(chr(ord("a") + place) if letter == "y" else "x" for place, letter in enumerate(seen))
        assert not alerting(events(lane("r", "A" * size, marked)), laps((4,)))
        fewer = marked.replace(marked[[i for i, c in enumerate(seen) if c == "y"][-1]], "x")
        assert alerting(events(lane("r", "A" * size, fewer)), laps((4,)))


def labelled() -> tuple[pl.DataFrame, pl.DataFrame]:
    """A healthy run that polls with B, one that repeats A a little, and an incident of A."""
    frame = events(
        lane("calm", "B" * 9, "x" * 9),
        lane("short", "A" * 4, "x" * 4),
        lane("ill", "PA" + "A" * 8, "p" + "x" * 9),
    )
    place = pl.col("run_id") == "ill"
    truth = frame.select(
        "run_id",
        "agent",
        "seq",
        false=~place,
        incident=pl.when(place & (pl.col("seq") >= 1)).then(pl.lit(0, pl.Int64)),
        since=pl.when(place).then(pl.col("seq") - 1),
    )
    return frame, truth


def test_the_price_of_a_change_is_what_it_loses_and_delays() -> None:
    """One event more clears the short run and finds the incident one action later; more than the loop loses it."""
    frame, truth = labelled()
    alerts = bench(frame, truth=truth)
    one = alerts.price(Change(later=1))
    assert (one["false_cleared"], one["false_left"], one["incidents_lost"], one["delay_added"]) == (
        1,
        1,
        0,
        1,
    )
    six = alerts.price(Change(later=6))
    assert (six["false_cleared"], six["incidents_lost"], six["delay_added"]) == (2, 1, None)
    poll = alerts.price(Change(exempt="tool_b"))
    assert (poll["false_cleared"], poll["incidents_lost"], poll["delay_added"]) == (1, 0, 0)


def test_cheapest_fixes_one_after_the_other() -> None:
    """Both false alerts are cleared for no incident by two changes."""
    frame, truth = labelled()
    steps = greedy(bench(frame, truth=truth))
    assert steps["false_left"].to_list() == [1, 0]
    assert steps["incidents_lost"].to_list() == [0, 0]
