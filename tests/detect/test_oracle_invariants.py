"""What must not change a verdict: order of rows, other runs, what comes later, names, the date."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlens.model.event import EVENTS
from agentlens.model.verdict import VERDICTS
from tests.oracle import generate, sides
from tests.oracle.frames import frame
from tests.oracle.lanes import actions

if TYPE_CHECKING:
    from tests.oracle.lanes import Event

loops = pytest.importorskip("agentlens.detect.loops").loops
episodes = pytest.importorskip("agentlens.detect.episodes").episodes

SEEDS = st.integers(0, 10**9)
FEW = settings(max_examples=8, deadline=None)


def _book(seed: int):
    return sides.engine_book(generate.book(Random(f"invariant {seed}")))


def _judged(frame_: pl.DataFrame, seed: int) -> pl.DataFrame:
    return loops(frame_.lazy(), _book(seed), sides.engine_policies(generate.file(seed))).collect()


def _rows(events: list[Event], seed: int) -> list[tuple]:
    return _judged(frame(events), seed).drop("run_id", "at").rows()


@FEW
@given(SEEDS)
def test_shuffled_rows_give_the_same_table(seed):
    """The engine sorts by lane and seq itself, and what it returns is sorted."""
    events = [
        e for k in range(4) for e in generate.lane(f"{seed} {k}", run_id=f"r{k // 2}", agent=f"a{k % 2}")
    ]
    ordered = frame(events)
    shuffled = ordered.sample(fraction=1.0, shuffle=True, seed=seed % 2**32)
    found = _judged(ordered, seed)
    assert found.equals(_judged(shuffled, seed))
    assert found.equals(found.sort("run_id", "agent", "seq"))


@FEW
@given(SEEDS)
def test_lanes_do_not_touch_each_other(seed):
    """Many lanes judged together get what each gets alone: concatenation, and any unrelated run, change nothing."""
    lanes = [generate.lane(f"{seed} {k}", run_id=f"r{k}") for k in range(5)]
    together = _judged(frame([e for lane in lanes for e in lane]), seed)
    apart = pl.concat([_judged(frame(lane), seed) for lane in lanes])
    assert together.equals(apart)


@FEW
@given(SEEDS)
def test_the_verdict_of_a_prefix_is_the_verdict_of_the_whole(seed):
    """What comes later never changes what is said of an event."""
    lane = generate.lane(seed)
    whole = _judged(frame(lane), seed).drop("run_id").rows()
    ends = [event.seq for event in actions(lane)]
    cuts = [replace(e, run_id=f"{end:03d}") for end in ends for e in lane if e.seq <= end]
    last = _judged(frame(cuts), seed).group_by("run_id", maintain_order=True).last().drop("run_id").rows()
    assert last == whole


@FEW
@given(SEEDS)
def test_what_comes_later_never_moves_an_alert(seed):
    """The alerts of a lane cut short are those of the whole lane up to the cut, with the same onsets."""

    def alerts(events: list[Event]) -> list[tuple[int, int, int]]:
        told = episodes(frame(events).lazy(), _judged(frame(events), seed).lazy(), _book(seed)).collect()
        return told.select("onset_seq", "alert_seq", "period").rows()

    lane = generate.lane(seed)
    whole = alerts(lane)
    for cut in sorted({alert for _, alert, _ in whole} | {lane[len(lane) // 2].seq}):
        assert alerts([e for e in lane if e.seq <= cut]) == [row for row in whole if row[1] <= cut]


@FEW
@given(SEEDS)
def test_names_of_signatures_and_fingerprints_mean_nothing(seed):
    """Any one-to-one renaming of digests gives the same verdicts."""
    lane = generate.lane(seed)
    other = [
        replace(
            e,
            signature=e.signature and e.signature[::-1] + "!",
            fingerprint=e.fingerprint and "~" + e.fingerprint,
        )
        for e in lane
    ]
    assert _rows(lane, seed) == _rows(other, seed)


@FEW
@given(SEEDS, st.integers(1, 10**15))
def test_the_date_means_nothing(seed, shift):
    """Moving every time and deadline by one amount gives the same verdicts."""

    def moved(time: int | None) -> int | None:
        return None if time is None else time + shift

    lane = generate.lane(seed)
    later = [
        replace(
            e,
            at=moved(e.at),
            ended_at=moved(e.ended_at),
            lease=e.lease and replace(e.lease, deadline=moved(e.lease.deadline)),
        )
        for e in lane
    ]
    assert _rows(lane, seed) == _rows(later, seed)


@pytest.mark.parametrize("rows", [1, 7, 40])
def test_the_size_of_a_piece_means_nothing(rows, monkeypatch):
    """However few rows are judged at a time, lanes stay whole and the table is the same."""
    events = frame(
        [e for k in range(9) for e in generate.lane(f"piece {k}", run_id=f"r{k // 2}", agent=f"a{k % 2}")]
    )
    whole = _judged(events, rows)
    monkeypatch.setattr("agentlens.detect.lanes.PIECE", rows)
    assert _judged(events, rows).equals(whole)


def test_no_events_give_no_verdicts():
    """An empty table and one without actions give an empty table of the right schema."""
    empty = EVENTS.to_frame()
    talk = frame([replace(e, kind="message") for e in generate.lane(1)])
    for events in (empty, talk):
        found = _judged(events, 1)
        assert found.is_empty()
        assert found.schema == VERDICTS
