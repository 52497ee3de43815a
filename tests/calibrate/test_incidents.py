"""Labels of one incident: those that overlap in one lane count once."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.calibrate.board import Board
from agentlens.calibrate.rates import rates
from tests.calibrate.small import labels, lane, lanes
from tests.calibrate.test_truth import LABELS, board_of, truth_of

EVENTS = lanes(
    lane("h1", "abcdefgh"),
    lane("h2", "aaaabcde"),
    lane("i1", "abcxxxxxxdefyyyyyy", "0123333334567777777"[:18]),
)
TWO = lanes(EVENTS, lane("t", "xxxxxx", agent="a"), lane("t", "yyyyyyyyyy", agent="b"))


def incident(run: str = "i1", **more) -> dict:
    return {"run_id": run, "scope": "interval", "label": "incident"} | more


def told(*rows: dict) -> pl.DataFrame:
    healthy = LABELS.filter(pl.col("run_id").is_in(["h1", "h2"]))
    return pl.concat([healthy, labels(*rows)])


def counted(board: Board) -> tuple[int, int]:
    row = rates(board, ["certify"], incumbent=0).row(0, named=True)
    return row["incidents"], row["detected"]


def spans(rows: list[dict], events: pl.DataFrame = EVENTS) -> list[tuple]:
    """``onset seq, last seq`` of each incident and lane it may be in."""
    found, truth = truth_of(told(*rows), events)
    seq = found.actions["seq"].to_list()
    return [(seq[lo], seq[end]) for lo, end in truth.incidents.select("lo", "end").iter_rows()]


def test_two_reviewers_of_one_loop_are_one_incident():
    """The stretches 3 to 7 and 4 to 8 are one incident from 3 to 8, detected once; the second label is counted."""
    rows = [
        incident(onset_seq=3, end_seq=7, reviewer="a", kind="loop"),
        incident(onset_seq=4, end_seq=8, reviewer="b", kind="paging"),
    ]
    assert counted(board_of(told(*rows), EVENTS)) == (1, 1)
    assert spans(rows) == [(3, 8)]
    truth = truth_of(told(*rows), EVENTS)[1]
    assert (truth.repeated, truth.incidents["kind"][0]) == (1, "loop, paging")


def test_an_incident_that_is_missed_is_missed_once():
    """Without the loops: one incident of two labels, none detected."""
    rows = [incident(onset_seq=0, end_seq=2), incident(onset_seq=1, end_seq=2)]
    assert counted(board_of(told(*rows), EVENTS)) == (1, 0)


def test_stretches_that_do_not_touch_stay_two():
    """Two loops of one lane, each with its alert; a label of the whole run beside them adds no third."""
    rows = [incident(onset_seq=3, end_seq=8), incident(onset_seq=12, end_seq=17)]
    assert counted(board_of(told(*rows), EVENTS)) == (2, 2)
    whole = {"run_id": "i1", "scope": "run", "label": "incident", "kind": "seen"}
    assert counted(board_of(told(*rows, whole), EVENTS)) == (2, 2)
    assert spans([*rows, whole]) == [(3, 8), (12, 17)]


def test_adjacent_stretches_stay_two_and_a_bridge_joins_them():
    """3 to 8 and 9 to 12 share no event; with 8 to 9 between them all three are one."""
    rows = [incident(onset_seq=3, end_seq=8), incident(onset_seq=9, end_seq=12)]
    assert spans(rows) == [(3, 8), (9, 12)]
    assert spans([*rows, incident(onset_seq=8, end_seq=9)]) == [(3, 12)]


def test_steps_whose_end_is_not_known_are_one():
    """A harness that marks events 3, 4 and 5 marks one incident from 3 on; a known end holds for all."""
    steps = [{"run_id": "i1", "scope": "step", "label": "incident", "onset_seq": n} for n in (3, 4, 5)]
    assert counted(board_of(told(*steps), EVENTS)) == (1, 1)
    assert spans(steps) == [(3, 17)]
    assert spans([*steps, incident(onset_seq=4, end_seq=8)]) == [(3, 8)]


@pytest.mark.parametrize(("agents", "count"), [(("a", "b"), 2), (("a", "a"), 1), (("a", None), 1)])
def test_lanes_are_apart(agents, count):
    """The same stretch in two lanes is two incidents; a label without an agent is about the one that names it."""
    rows = [
        incident("t", onset_seq=0, end_seq=5 - n, **({"agent": agent} if agent else {}))
        for n, agent in enumerate(agents)
    ]
    assert counted(board_of(told(*rows), TWO))[0] == count


def test_a_label_without_a_lane_joins_no_incidents_of_two_lanes():
    """It overlaps one in each: they stay two, and it is no third."""
    rows = [
        incident("t", onset_seq=0, end_seq=3, agent="a"),
        incident("t", onset_seq=2, end_seq=5, agent="b"),
        incident("t", onset_seq=1, end_seq=4),
    ]
    assert counted(board_of(told(*rows), TWO))[0] == 2


def test_it_was_watched_as_long_as_anybody_watched():
    """One reviewer's log ends at 50 s, the other's at 70 s: the incident is censored at the later."""
    rows = [
        incident(onset_seq=3, reviewer="a", observed_until=50.0),
        incident(onset_seq=4, reviewer="b", observed_until=70.0),
    ]
    truth = truth_of(told(*rows), EVENTS)[1]
    assert truth.incidents["watched"].to_list() == [8 + 8 + 7]
    assert truth.incidents["observed_until"].dt.epoch("s").to_list() == [70]
