"""Limits held against labelled handoffs."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.calibrate.ack_times import ack_times
from agentlens.calibrate.handoff_labels import LABELLED_SILENCE, LIMIT_TABLE, labelled_silence, limit_table
from agentlens.calibrate.labels import conform_labels
from agentlens.datasets import synthetic_handoffs
from agentlens.detect.handoffs import handoffs
from agentlens.errors import InputError, SettingsError

from .told import silences

TIMES = [
    ("a", "delegated", 0.0),
    ("a", "accepted", 30.0),
    ("b/1", "delegated", 0.0),
    ("b/2", "delegated", 60.0),
]


def labels(*rows: tuple[str, str | None, str]) -> pl.DataFrame:
    schema = {"operation_id": pl.String, "handoff_id": pl.String, "label": pl.String}
    frame = pl.DataFrame(list(rows), schema=schema, orient="row")
    return conform_labels(frame.with_columns(scope=pl.lit("handoff")))


def test_only_the_silent_can_be_lost() -> None:
    """An accepted handoff that failed later is a good delivery; a label of an operation speaks of its attempts."""
    found = labelled_silence(silences(*TIMES), labels(("a", "a/1", "incident"), ("b", None, "incident")))
    assert found.schema == LABELLED_SILENCE
    assert found.select("handoff_id", "lost").rows() == [("a/1", False), ("b/1", True), ("b/2", True)]


def test_a_label_of_an_attempt_stands_before_that_of_its_operation() -> None:
    """The closer one counts."""
    found = labelled_silence(silences(*TIMES), labels(("b", None, "incident"), ("b", "b/1", "healthy")))
    assert found.select("handoff_id", "lost").rows() == [("b/1", False), ("b/2", True)]


def test_labels_that_match_nothing_are_listed() -> None:
    """A label is never dropped in silence."""
    with pytest.raises(InputError, match="no handoff for q/q/1"):
        labelled_silence(silences(*TIMES), labels(("q", "q/1", "healthy")))


def test_contradicting_labels_are_refused() -> None:
    """Healthy and incident for one attempt."""
    with pytest.raises(InputError, match="contradict"):
        labelled_silence(silences(*TIMES), labels(("a", "a/1", "healthy"), ("a", "a/1", "incident")))


def test_found_and_falsely_raised_are_counted_by_hand() -> None:
    """At 20 s the slow delivery is a false alarm and both lost are found; at 40 s only the lost remain."""
    rows = labelled_silence(
        silences(*TIMES, ("z", "delegated", 100.0)), labels(("a", None, "healthy"), ("b", None, "incident"))
    )
    table = limit_table(rows, [20_000_000, 39_000_000, 50_000_000])
    assert table.schema == LIMIT_TABLE
    assert table.select("limit_us", "found", "lost", "false_alarms").rows() == [
        (50_000_000, 1, 2, 0),
        (39_000_000, 2, 2, 0),
        (20_000_000, 2, 2, 1),
    ]


def test_a_good_delivery_not_seen_to_end_counts_as_an_alarm() -> None:
    """Labelled healthy, silent when observation ended after 100 s: at a limit of 200 s it is not known."""
    rows = labelled_silence(
        silences(("a", "delegated", 0.0), ("z", "delegated", 100.0)), labels(("a", None, "healthy"))
    )
    table = limit_table(rows, [200_000_000])
    assert table.select("false_alarms", "not_known").rows() == [(1, 1)]


def test_the_chain_certifies_down_to_the_order_statistic() -> None:
    """On synthetic truth, limits are certified from the longest on and stop before the true 5 % point."""
    drawn = synthetic_handoffs(3_000, seed=8)
    times = ack_times(handoffs(drawn.receipts.lazy())).collect()
    table = limit_table(
        labelled_silence(times, drawn.labels), [s * 1_000_000 for s in (60, 70, 85, 100, 150)]
    )
    certified = table.filter("certified")["limit_us"].to_list()
    assert certified == [150_000_000, 100_000_000, 85_000_000]
    assert (table["found"] == table["lost"]).all()


def test_no_good_delivery_is_one_clear_line() -> None:
    """A false-alarm rate needs something that was healthy."""
    rows = labelled_silence(silences(*TIMES), labels(("b", None, "incident")))
    with pytest.raises(SettingsError, match="at least one labelled healthy"):
        limit_table(rows, [1])
