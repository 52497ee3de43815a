"""What ended the silence after a delegation, and what is left out."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest

from agentlens.calibrate.ack_checks import ack_checks
from agentlens.calibrate.ack_times import ACK_TIMES, ack_times, observed_until_from, waits_of
from agentlens.detect.handoffs import handoffs

from .told import receipts, silences


def brief(times: pl.DataFrame) -> list[tuple[str, str, int]]:
    return [(a, e, s // 1_000_000) for a, e, s in times.select("handoff_id", "ended", "silent_us").rows()]


def test_each_silence_ends_once() -> None:
    """Acceptance, rejection, another attempt and the end of the data, each at its own time."""
    times = silences(
        ("a", "delegated", 0),
        ("a", "accepted", 30),
        ("b", "delegated", 0),
        ("b", "rejected", 12),
        ("c/1", "delegated", 0),
        ("c/2", "delegated", 50),
        ("c/2", "accepted", 55),
        ("d", "delegated", 40),
        ("e", "delegated", 100),
        ("e", "accepted", 100),
    )
    assert times.schema == ACK_TIMES
    assert brief(times) == [
        ("a/1", "acknowledged", 30),
        ("b/1", "closed", 12),
        ("c/1", "superseded", 50),
        ("c/2", "acknowledged", 5),
        ("d/1", "silent", 60),
        ("e/1", "acknowledged", 0),
    ]


def test_attempts_made_at_one_time_do_not_supersede_each_other() -> None:
    """Two attempts at 0 and one at 9: both early ones are superseded at 9, in whatever order they come."""
    rows = [("a/1", "delegated", 0.0), ("a/2", "delegated", 0.0), ("a/3", "delegated", 9.0)]
    expected = [("a/1", "superseded", 9), ("a/2", "superseded", 9), ("a/3", "silent", 0)]
    assert brief(silences(*rows)) == brief(silences(*rows[::-1])) == expected


def test_an_acceptance_after_the_rejection_comes_too_late() -> None:
    """The first of the two ends the silence."""
    times = silences(("a", "delegated", 0), ("a", "rejected", 5), ("a", "accepted", 9))
    assert brief(times) == [("a/1", "closed", 5)]


def test_observation_may_end_before_the_data() -> None:
    """A label's observed_until censors the silence, and an acceptance after it was not seen."""
    rows = receipts(
        ("a", "delegated", 0), ("a", "accepted", 30), ("b", "delegated", 0), ("z", "delegated", 99)
    )
    labels = pl.LazyFrame(
        {
            "operation_id": ["a", "b", None],
            "observed_until": [datetime.fromtimestamp(s, UTC) for s in (20, 7, 1)],
        }
    )
    until = observed_until_from(labels)
    times = ack_times(handoffs(rows.lazy()), observed_until=until).collect()
    assert brief(times) == [("a/1", "silent", 20), ("b/1", "silent", 7), ("z/1", "silent", 0)]


def test_what_cannot_be_read_is_left_out_with_its_reason() -> None:
    """No delegation, disagreeing receipts, a result without an acceptance."""
    times = silences(
        ("a", "accepted", 5),
        ("b", "delegated", 50),
        ("b", "accepted", 5),
        ("c", "delegated", 1),
        ("c", "accepted", 2),
    )
    assert times["left_out"].to_list() == ["no_delegation", "disagreement", None]


def test_a_small_skew_counts_as_at_once() -> None:
    """Accepted two seconds before it was delegated: no silence, and marked."""
    times = silences(("a", "delegated", 10), ("a", "accepted", 8))
    assert times.select("silent_us", "ended", "skewed").rows() == [(0, "acknowledged", True)]
    checks = ack_checks(times).filter(pl.col("check") == "clock_skew")
    assert checks.select("count", "warn").rows() == [(1, True)]


def test_attempts_of_one_operation_are_one_cluster() -> None:
    """Without a run or a trace the operation ties its attempts; a queue ties by recipient."""
    rows = [("a/1", "delegated", 0.0), ("a/2", "delegated", 5.0), ("b/1", "delegated", 0.0)]
    assert waits_of(silences(*rows)).groups == 2
    assert waits_of(silences(*rows, cluster="recipient")).groups == 1
    assert waits_of(silences(*rows, cluster="none")).groups == 3


def test_polling_shows_in_the_latencies() -> None:
    """Latencies that are all multiples of 30 s were read by a poll of 30 s."""
    rows = [
        row
        for k in range(25)
        for row in ((f"o{k:02d}", "delegated", 0.0), (f"o{k:02d}", "accepted", 30.0 * (1 + k % 3)))
    ]
    found = ack_checks(silences(*rows)).filter(pl.col("check") == "polling")
    assert found.select("count", "total", "value", "warn").rows() == [(25, 25, 30.0, True)]


def test_attempts_ended_by_silence_give_two_bounds() -> None:
    """One attempt is cancelled after a long silence: lost or not, both shares are given."""
    rows = [row for k in range(3) for row in ((f"o{k}", "delegated", 0.0), (f"o{k}", "accepted", 10.0 + k))]
    times = silences(*rows, ("x", "delegated", 0.0), ("x", "cancelled", 500.0))
    shares = ack_checks(times).filter(pl.col("check").str.starts_with("lost_if"))["value"].to_list()
    assert shares == [0.25, 0.0]


def test_no_handoffs_are_no_error() -> None:
    """An empty frame gives empty silences and checks without warnings."""
    times = silences(("a", "accepted", 5)).clear()
    assert not ack_checks(times)["warn"].any()


@pytest.mark.parametrize(("burst_s", "ratio", "warned"), [(100.0, 10.0, True), (10.0, 1.0, False)])
def test_latency_under_load_shows_in_its_strata(burst_s: float, ratio: float, warned: bool) -> None:
    """Sixty handoffs one at a time take 10 s each, sixty in a burst as long as said; hours tell nothing of it.

    In the burst, one a second, up to sixty (or ten) are open; alone there is none but itself.
    """
    alone = [(f"a{n:02d}", 100.0 * n, 10.0) for n in range(60)]
    burst = [(f"b{n:02d}", 7_000.0 + n, burst_s) for n in range(60)]
    rows = [
        row
        for name, at, late in alone + burst
        for row in ((name, "delegated", at), (name, "accepted", at + late))
    ]
    checks = {row["check"]: row for row in ack_checks(silences(*rows)).iter_rows(named=True)}
    assert (checks["load"]["value"], checks["load"]["warn"]) == (pytest.approx(ratio), warned)
    assert ("under load" in (checks["load"]["note"] or "")) == warned
    assert checks["hours"]["value"] is None


def test_lost_handoffs_are_no_load() -> None:
    """Nobody is at them: forty that are silent for ever before forty that take 10 s leave one stratum of load."""
    lost = [(f"a{n:02d}", "delegated", float(n)) for n in range(40)]
    good = [
        row
        for n in range(40)
        for row in (
            (f"b{n:02d}", "delegated", 1_000.0 + 100 * n),
            (f"b{n:02d}", "accepted", 1_010.0 + 100 * n),
        )
    ]
    load = ack_checks(silences(*lost, *good)).row(by_predicate=pl.col("check") == "load", named=True)
    assert (load["count"], load["value"], load["warn"]) == (0, None, False)
