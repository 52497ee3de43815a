"""Every quantity of a rule with its interval: delays from both ends of an onset, hours of runs with times, resets."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.calibrate.incident_delays import incident_delays
from agentlens.calibrate.measures import MEASURES, measures
from agentlens.calibrate.rates import Looking, rates
from tests.calibrate.small import labels, lane, lanes
from tests.calibrate.test_truth import board_of

STUCK = "abcxxxxxxd"  # the default rule alerts on the fourth x, seq 6


def incident(run: str, onset: int = 3, **more) -> dict:
    row = {"run_id": run, "scope": "interval", "label": "incident", "onset_seq": onset, "task_group": run}
    return {**row, **more}


def healthy(run: str) -> dict:
    return {"run_id": run, "scope": "run", "label": "healthy", "task_group": run}


def table(board, **looking) -> dict[tuple[str, str, str | None], dict]:
    found = measures(board, 0, ["certify"], looking=Looking(**looking), draws=50)
    assert found.schema == MEASURES
    return {(row["quantity"], row["unit"], row["onset"]): row for row in found.iter_rows(named=True)}


def test_a_delay_is_given_from_both_ends_of_the_onset() -> None:
    """The first lap began at event 1, 2 or 3: the alert at 6 came after three to five events."""
    board = board_of(labels(incident("i", 1, onset_hi_seq=3)), lanes(lane("i", STUCK, "0123333334")))
    found = table(board)
    assert found["median delay", "events", "first"]["value"] == 5
    assert found["median delay", "events", "last"]["value"] == 3
    assert found["median delay", "seconds", "first"]["value"] == 50.0
    assert found["median delay", "seconds", "last"]["value"] == 30.0
    row = rates(board, ["certify"], incumbent=0).row(0, named=True)
    assert (row["median_delay_events"], row["median_delay_events_last"]) == (5, 3)


def test_an_alert_inside_the_onset_is_no_negative_delay() -> None:
    """The onset may lie after the alert: from its last event on the delay is 0."""
    board = board_of(labels(incident("i", 5, onset_hi_seq=8)), lanes(lane("i", STUCK, "0123333334")))
    told = [incident_delays(board, 0, ["certify"], onset)["delay_events"][0] for onset in ("first", "last")]
    assert told == [1, 0]


def test_seconds_and_hours_are_of_the_runs_with_times() -> None:
    """Runs without times change no second and no hour, and are counted beside them."""
    timed = [lane("h1", "aaaabcde"), lane("h2", "abcdefgh"), lane("i1", STUCK, "0123333334")]
    untimed = [
        lane("h3", "aaaabcde", at=None),
        lane("i2", "xxxxxxxx", at=None),
        lane("i3", "abcdefgh", at=None),
    ]
    some = [healthy("h1"), healthy("h2"), incident("i1")]
    more = [healthy("h3"), incident("i2", 0), incident("i3")]
    alone = table(board_of(labels(*some), lanes(*timed)))
    mixed = table(board_of(labels(*some, *more), lanes(*timed, *untimed)))
    for key in alone:
        if key[1] == "seconds" or "hour" in key[0]:
            assert mixed[key]["value"] == alone[key]["value"], key
    hour = mixed["false alerts per active agent-hour", "alerts", None]
    # 3 events of i1 before its onset and 7 gaps of each healthy run, ten seconds each; i2 has no healthy event
    assert hour["value"] == pytest.approx(1 / ((7 + 7 + 2) * 10 / 3600))
    assert hour["note"] == "times in 3 of 5 runs"
    assert mixed["median delay", "seconds", "first"]["note"].startswith("times in 1 of 3 incidents")
    assert mixed["median delay", "events", "first"]["of"] == 3
    row = rates(board_of(labels(*some, *more), lanes(*timed, *untimed)), ["certify"], incumbent=0).row(
        0, named=True
    )
    assert (row["timed_runs"], row["exposed_runs"], row["timed_incidents"]) == (3, 5, 1)
    assert row["median_delay_us"] == 30_000_000
    assert row["per_active_hour"] == pytest.approx(hour["value"])


def test_a_run_with_one_time_missing_has_no_times() -> None:
    """Half a clock measures neither an hour nor a delay."""
    events = lanes(lane("h1", "aaaabcde"), lane("i1", STUCK, "0123333334"))
    events = events.with_columns(pl.when(pl.col("seq") != 7).then("at").alias("at"))
    found = table(board_of(labels(healthy("h1"), incident("i1")), events))
    assert found["false alerts per active agent-hour", "alerts", None]["value"] is None
    assert found["median delay", "seconds", "first"]["of"] == 0
    assert found["median delay", "events", "first"]["value"] == 3


def test_a_guard_ended_incident_is_censored_where_the_watching_stopped() -> None:
    """Silent and ended by a guard: neither found nor missed, watched for the events up to its time."""
    events = lanes(lane("i1", "abcxyxyq"), lane("i2", STUCK, "0123333334"))
    until = incident("i1", observed_until="1970-01-01T00:00:55Z")
    board = board_of(labels(until, incident("i2")), events)
    frame = incident_delays(board, 0, ["certify"])
    assert frame.select("run_id", "detected", "guard_ended", "watched_events", "watched_us").rows() == [
        ("i1", False, True, 2, 20_000_000),
        ("i2", True, False, 6, 60_000_000),
    ]
    found = table(board)
    assert found["detection within 20 events", "share", "first"]["note"] == "1 guard-ended, 0 already on"
    # what was censored at 2 says nothing of later: the other one was found
    assert found["detection within 20 events", "share", "first"]["value"] == 1.0
    assert found["detection", "share", None]["value"] == 0.5
    row = rates(board, ["certify"], incumbent=0).row(0, named=True)
    assert (row["detection_within"], row["detected_within"], row["incidents_with_onset"]) == (1.0, 1, 2)
    assert row["detection_within_low"] < 0.02  # the guard's may have been a miss
    assert (row["median_delay_events"], row["median_delay_us"]) == (3, 30_000_000)


def test_uncertain_events_give_two_readings_of_both_rates() -> None:
    """Unknown evidence: silent by one reading, an alarm by the other, in healthy runs and incidents alike."""
    events = lanes(lane("h1", "aaaaaa", "......"), lane("h2", "abcdef"), lane("i1", "abxxxxxx", "01......"))
    found = table(board_of(labels(healthy("h1"), healthy("h2"), incident("i1", 2)), events))
    assert found["false-positive rate", "share", None]["value"] == 0.0
    assert found["false-positive rate, uncertain as alert", "share", None]["value"] == 0.5
    assert found["uncertain runs", "share", None]["count"] == 1
    assert found["detection", "share", None]["value"] == 0.0
    assert found["detection, uncertain as alert", "share", None]["value"] == 1.0
    # three events of h1 (a run of four may hold from its fourth on) and three of i1
    assert (
        found["uncertain events", "share", None]["count"],
        found["uncertain events", "share", None]["of"],
    ) == (6, 20)


def test_an_uncertain_event_before_the_onset_is_no_reading_of_the_incident() -> None:
    """A stretch of doubt counts for the incident only where it reaches into it."""
    events = lanes(lane("i1", "xxxxxabcdefg", "....." + "0123456"))
    found = table(board_of(labels(incident("i1", 6)), events))
    assert found["detection, uncertain as alert", "share", None]["value"] == 0.0


def test_the_reset_runs_from_the_end_of_the_incident_to_the_state_being_off() -> None:
    """The incident ends at 6, the rule is stuck up to 8: off two events, thirty seconds later; without an end, nothing."""
    events = lanes(lane("i1", STUCK, "0123333334"), lane("i2", "abcxxxxxx", "012333333"))
    ended = [incident("i1", end_seq=6), incident("i2", end_seq=6)]
    found = table(board_of(labels(ended[0]), events.filter(pl.col("run_id") == "i1")))
    assert (
        found["median reset", "events", None]["value"],
        found["median reset", "seconds", None]["value"],
    ) == (2, 30.0)
    found = table(board_of(labels(*ended), events))
    assert "1 still on at the end of the lane" in found["median reset", "events", None]["note"]
    found = table(board_of(labels(incident("i1")), events))
    assert found["median reset", "events", None]["of"] == 0


def test_every_share_names_its_interval_and_says_when_it_is_thin() -> None:
    """Twenty-five alike incidents and healthy runs: exact limits, alerts per incident 1, predictive value at 1 %."""
    frames = [lane(f"h{k:02d}", "abcdefgh") for k in range(25)] + [
        lane(f"i{k:02d}", STUCK) for k in range(25)
    ]
    told = [healthy(f"h{k:02d}") for k in range(25)] + [incident(f"i{k:02d}") for k in range(25)]
    found = table(board_of(labels(*told), lanes(*frames)))
    rate = found["false-positive rate", "share", None]
    assert (rate["interval"], rate["count"], rate["of"], rate["thin"]) == ("clopper_pearson", 0, 25, False)
    assert rate["high"] == pytest.approx(1 - 0.025 ** (1 / 25))
    assert found["detection", "share", None]["low"] == pytest.approx(0.025 ** (1 / 25))
    assert found["alerts per detected incident", "alerts", None]["value"] == 1.0
    assert found["predictive value at a base rate of 1%", "share", None]["value"] == 1.0
    doubts = found["uncertain events", "share", None]
    assert (doubts["value"], doubts["count"], doubts["of"], doubts["thin"]) == (0.0, 0, 450, False)
    assert not any(
        row["value"] is not None and row["interval"] == "none" and row["count"] for row in found.values()
    )
    few = table(board_of(labels(*told[:3], *told[-3:]), lanes(*frames)))
    assert few["false-positive rate", "share", None]["thin"]
    assert few["uncertain events", "share", None]["thin"]
