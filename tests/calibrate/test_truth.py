"""Labels laid over actions, and alerts held against them."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.calibrate.board import Board
from agentlens.calibrate.grid import Setting, baselines, classes
from agentlens.calibrate.rates import Looking, delays, rates
from agentlens.calibrate.spans import groups_of, run_spans
from agentlens.calibrate.sweep import sweep
from agentlens.calibrate.truth import Matching, Place, lay
from agentlens.detect.rules import laps, same_call
from agentlens.errors import InputError
from tests.calibrate.small import labels, lane, lanes

EVENTS = lanes(
    lane("h1", "abcdefgh"),
    lane("h2", "aaaabcde"),
    lane("i1", "abcxxxxxxd", "0123333334"),
    lane("i2", "abcdefgh"),
    lane("n1", "zzzzzz"),
)
LABELS = labels(
    {"run_id": "h1", "scope": "run", "label": "healthy", "task_group": "g1"},
    {"run_id": "h2", "scope": "run", "label": "healthy", "task_group": "g2"},
    {
        "run_id": "i1",
        "scope": "interval",
        "label": "incident",
        "onset_seq": 3,
        "end_seq": 8,
        "task_group": "g1",
    },
    {"run_id": "i2", "scope": "run", "label": "incident", "task_group": "g3"},
)


def truth_of(told: pl.DataFrame, events: pl.DataFrame = EVENTS, **margins):
    found = sweep([events.lazy()], classes(CELLS))
    return found, lay(told, found.actions, run_spans([events.lazy()]), Matching(**margins))


CELLS = [
    *baselines(),
    Setting(family="x", text="two", rule=same_call(2)),
    Setting(family="x", text="l", rule=laps((5,))),
]


def board_of(told: pl.DataFrame, events: pl.DataFrame = EVENTS, **margins) -> Board:
    found, truth = truth_of(told, events, **margins)
    groups = groups_of(run_spans([events.lazy()]), told)
    runs = groups.join(truth.runs, on="run_id").with_columns(split=pl.lit("certify")).sort("run_id")
    return Board(found, truth, runs)


def test_every_event_has_its_place():
    """Healthy runs, what comes before an incident, the incident with its grace, and what comes after."""
    found, truth = truth_of(LABELS, grace_events=0)
    places = dict(zip(found.actions["run_id"], [], strict=False))
    for run, place in zip(found.actions["run_id"].to_list(), truth.place.tolist(), strict=True):
        places.setdefault(run, []).append(int(place))
    assert set(places["h1"]) == {Place.HEALTHY_RUN}
    assert places["i1"] == [Place.HEALTHY_PART] * 3 + [Place.INCIDENT] * 6 + [Place.LATE]
    assert set(places["i2"]) == {Place.INCIDENT}
    assert set(places["n1"]) == {Place.UNLABELLED}
    assert (truth.excluded, truth.unlabelled) == (0, 1)


def test_margins_widen_an_incident_but_never_into_an_asserted_healthy_part():
    """Tolerance reaches back over unjudged events; an explicit healthy stretch stands."""
    _, truth = truth_of(LABELS, tol_events=2, grace_events=1)
    row = 16
    assert truth.place[row : row + 10].tolist() == [Place.HEALTHY_PART] + [Place.INCIDENT] * 9
    told = pl.concat(
        [
            LABELS,
            labels({"run_id": "i1", "scope": "interval", "label": "healthy", "onset_seq": 0, "end_seq": 2}),
        ]
    )
    _, truth = truth_of(told, tol_events=2)
    assert truth.place[row : row + 4].tolist() == [Place.HEALTHY_PART] * 3 + [Place.INCIDENT]


def test_an_excluded_run_counts_nowhere():
    """Excluded is neither healthy nor an incident, and not unlabelled."""
    told = pl.concat([LABELS, labels({"run_id": "n1", "scope": "run", "label": "exclude"})])
    _, truth = truth_of(told)
    assert (truth.excluded, truth.unlabelled) == (1, 0)
    assert "n1" not in truth.runs["run_id"].to_list()


def test_an_excluded_stretch_takes_only_itself_out():
    """A healthy run with an excluded stretch is healthy around it, and no whole healthy run."""
    hole = {"run_id": "h1", "scope": "interval", "label": "exclude", "onset_seq": 2, "end_seq": 4}
    _, truth = truth_of(pl.concat([LABELS, labels(hole)]))
    assert (
        truth.place[:8].tolist() == [Place.HEALTHY_RUN] * 2 + [Place.UNJUDGED] * 3 + [Place.HEALTHY_RUN] * 3
    )
    assert dict(truth.runs.rows())["h1"] == "partly"
    assert truth.excluded == 0
    _, truth = truth_of(pl.concat([LABELS, labels({**hole, "run_id": "n1"})]))
    assert "n1" not in truth.runs["run_id"].to_list()
    assert (truth.unlabelled, truth.place[-6:].tolist()) == (1, [0, 0, 5, 5, 5, 0])


def test_a_healthy_step_is_one_event():
    """It says nothing of what comes after it; an incident's step is its first event."""
    told = labels({"run_id": "n1", "scope": "step", "label": "healthy", "onset_seq": 2})
    assert (
        truth_of(told)[1].place[-6:].tolist()
        == [Place.UNJUDGED] * 2 + [Place.HEALTHY_PART] + [Place.UNJUDGED] * 3
    )
    told = labels({"run_id": "n1", "scope": "step", "label": "incident", "onset_seq": 2})
    assert truth_of(told)[1].place[-6:].tolist() == [Place.HEALTHY_PART] * 2 + [Place.INCIDENT] * 4


def test_nothing_is_asserted_of_what_nobody_watched():
    """An incident ends with the watching at the latest; an alert after it is late, not a detection."""
    told = {"run_id": "i1", "scope": "interval", "label": "incident", "onset_seq": 3}
    until = {"observed_until": "1970-01-01T00:00:55Z"}
    _, truth = truth_of(labels({**told, **until}), grace_events=0)
    assert truth.incidents.select("lo", "end", "watched", "stop").row(0) == (19, 21, 21, 25)
    assert truth.place[16:26].tolist() == [Place.HEALTHY_PART] * 3 + [Place.INCIDENT] * 3 + [Place.LATE] * 4
    untimed = lanes(lane("i1", "abcxxxxxxd", at=None))
    assert truth_of(labels({**told, **until}), untimed)[1].incidents["watched"].to_list() == [9]


def test_an_incident_without_an_action_is_counted_apart():
    """No rule can see it, and it is not dropped in silence."""
    events = lanes(EVENTS, lane("m1", "ab", kind="message"))
    told = labels({"run_id": "m1", "scope": "run", "label": "incident"})
    _, truth = truth_of(pl.concat([LABELS, told]), events)
    assert (truth.actionless, truth.incidents["incident"].n_unique()) == (1, 2)


def test_onsets_by_time_equal_onsets_by_number():
    """An interval given by times lies on the same rows as one given by event numbers."""
    at = {"onset_at": "1970-01-01T00:00:30Z", "end_at": "1970-01-01T00:01:20Z"}
    told = labels({"run_id": "i1", "scope": "interval", "label": "incident", **at})
    assert truth_of(told)[1].incidents.select("lo", "end").row(0) == (19, 24)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"run_id": "zz", "scope": "run", "label": "healthy"}, "1 run not in the data: zz"),
        (
            {"run_id": "i2", "scope": "interval", "label": "incident", "onset_seq": 99},
            "onset outside the run: i2 (onset_seq 99",
        ),
        (
            {"run_id": "h1", "scope": "step", "label": "incident", "onset_seq": 2},
            "healthy and incident at once: h1",
        ),
        (
            {"run_id": "i1", "scope": "interval", "label": "healthy", "onset_seq": 2, "end_seq": 4},
            "healthy and incident at once: i1",
        ),
        (
            {"run_id": "i2", "scope": "interval", "label": "incident", "onset_at": "1999-01-01T00:00:00Z"},
            "onset outside the run: i2 (onset_at",
        ),
    ],
)
def test_labels_that_can_not_hold_are_one_line(row, said):
    """Unmatched runs, onsets outside and contradictions are errors that name the runs."""
    with pytest.raises(InputError) as error:
        truth_of(pl.concat([LABELS, labels(row)]))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_alerts_are_true_false_or_late_by_their_place():
    """The default rule: one alarmed healthy run, one incident found after three events, one never."""
    board = board_of(LABELS)
    table = rates(board, ["certify"], incumbent=0, looking=Looking(within_events=3, longest_events=10)).row(
        0, named=True
    )
    assert (table["alarmed_runs"], table["healthy_runs"], table["healthy_groups"]) == (1, 2, 2)
    assert (table["fpr"], table["false_alerts"], table["healthy_events"]) == (0.5, 1, 19)
    assert (table["detected"], table["incidents"], table["incidents_with_onset"]) == (1, 2, 1)
    assert (table["detected_within"], table["median_delay_events"], table["median_delay_us"]) == (
        1,
        3,
        30_000_000,
    )
    assert table["restricted_delay_events"] == 3.0
    assert (table["alarms"], table["false_alarms"], table["unlabelled_alerts"]) == (2, 1, 1)
    assert table["mean_alarm_step"] == (3 + 6) / 2
    assert table["thin"]


def test_a_miss_is_never_and_not_a_delay_of_zero():
    """Where the only incident with an onset is missed, the median is null and the restricted mean is its cut."""
    board = board_of(LABELS)
    never = rates(board, ["certify"], incumbent=0, looking=Looking(longest_events=50), only=[3]).row(
        0, named=True
    )
    assert (never["detected"], never["detection_within"], never["median_delay_events"]) == (1, 1.0, 4)
    told = labels({"run_id": "i1", "scope": "interval", "label": "incident", "onset_seq": 0, "end_seq": 1})
    board = board_of(told, grace_events=0)
    never = rates(board, ["certify"], incumbent=0, looking=Looking(longest_events=50), only=[0]).row(
        0, named=True
    )
    assert (never["detected"], never["median_delay_events"], never["restricted_delay_events"]) == (
        0,
        None,
        50.0,
    )
    assert never["late_alerts"] == 1


def test_a_state_that_is_on_at_the_onset_is_no_detection():
    """An alert before the onset that still holds is counted as already on, and is false."""
    told = labels({"run_id": "i1", "scope": "interval", "label": "incident", "onset_seq": 7, "end_seq": 9})
    board = board_of(told)
    judged = board.judged(0)
    assert judged.already.tolist() == [True]
    assert judged.detected.tolist() == [-1]
    assert delays(board, judged).tolist() == [-1]
    assert int(judged.false_alerts.sum()) == 1


def test_unknown_evidence_gives_two_readings():
    """A healthy run that may have looped is no alarm, and is one where uncertain counts as alert."""
    events = lanes(EVENTS, lane("h3", "aaaaaa", "......"))
    told = pl.concat(
        [LABELS, labels({"run_id": "h3", "scope": "run", "label": "healthy", "task_group": "g4"})]
    )
    row = rates(board_of(told, events), ["certify"], incumbent=0).row(0, named=True)
    assert (row["fpr"], row["fpr_if_uncertain"]) == (1 / 3, 2 / 3)


def test_groups_are_averaged_not_runs():
    """Two runs of one task, one of which alarms, weigh half a group."""
    told = pl.concat(
        [
            LABELS.filter(pl.col("run_id") != "h1"),
            labels({"run_id": "h1", "scope": "run", "label": "healthy", "task_group": "g2"}),
        ]
    )
    row = rates(board_of(told), ["certify"], incumbent=0).row(0, named=True)
    assert (row["healthy_groups"], row["fpr"]) == (1, 0.5)


def test_mcnemar_counts_groups_on_which_two_rules_differ():
    """same_call(2) alarms on the same healthy group as the incumbent here; laps((5,)) on none."""
    table = rates(board_of(LABELS), ["certify"], incumbent=0)
    rows = {row["rule"]: row for row in table.iter_rows(named=True)}
    assert (rows["l"]["only_this_false"], rows["l"]["only_incumbent_false"]) == (0, 1)
    assert rows["laps((4, 3, 2))"]["mcnemar_false"] == 1.0


def test_equal_content_ties_only_runs_without_a_named_task():
    """Copies of a long run are one group where nobody named their task; a name decides otherwise."""
    events = lanes(*(lane(run, "abcdefghij") for run in "pqrs"), lane("t", "ab"), lane("u", "ab"))
    told = labels(
        {"run_id": "r", "scope": "run", "label": "healthy", "task_group": "x"},
        {"run_id": "s", "scope": "run", "label": "healthy", "task_group": "y"},
    )
    groups = dict(groups_of(run_spans([events.lazy()]), told).rows())
    assert groups == {"p": "p", "q": "p", "r": "r", "s": "s", "t": "t", "u": "u"}


def test_an_untimed_run_elsewhere_leaves_times_of_others_alone():
    """An interval by time lies where it lay before a run without times was added."""
    at = {"onset_at": "1970-01-01T00:00:30Z", "end_at": "1970-01-01T00:01:20Z"}
    told = labels({"run_id": "i1", "scope": "interval", "label": "incident", **at})
    more = lanes(EVENTS, lane("zz", "abc", at=None))
    row = truth_of(told, more)[1].incidents.select("lo", "end", "onset_known").row(0)
    assert row == (19, 24, True)


@pytest.mark.parametrize("scope", ["run", "interval"])
def test_an_onset_by_time_needs_times_in_its_run(scope):
    """The run without times is named, and one with times is not."""
    events = lanes(EVENTS, lane("zz", "abc", at=None))
    rows = [
        {"run_id": run, "scope": scope, "label": "incident", "onset_at": "1970-01-01T00:00:30Z"}
        for run in ("i1", "zz")
    ]
    with pytest.raises(InputError, match="no action there has a time: zz; accepted: onset_seq"):
        truth_of(labels(*rows), events)


def two_agents(*rows: dict):
    """The truth of run m: agent A works for five events, then come eight of agent B, stuck."""
    a = lane("m", "abcde").with_columns(agent=pl.lit("A"))
    b = lane("m", "xxxxxxxx").with_columns(agent=pl.lit("B"))
    return truth_of(labels(*({"run_id": "m", **row} for row in rows)), lanes(a, b))[1]


A_WELL = {"scope": "run", "label": "healthy", "agent": "A"}


def test_a_healthy_label_of_a_lane_speaks_for_its_lane():
    """The other lane stays unjudged; the run is no healthy run until every lane is healthy."""
    truth = two_agents(A_WELL)
    assert truth.place.tolist() == [Place.HEALTHY_PART] * 5 + [Place.UNJUDGED] * 8
    assert truth.runs.rows() == [("m", "partly")]
    both = two_agents(A_WELL, {**A_WELL, "agent": "B"})
    assert set(both.place.tolist()) == {Place.HEALTHY_RUN}
    assert both.runs.rows() == [("m", "healthy")]


@pytest.mark.parametrize("agent", ["B", None])
def test_an_incident_beside_a_healthy_lane_is_in_the_other_lane(agent):
    """Whether its label names the lane or not; healthy and incident of one lane contradict each other."""
    truth = two_agents(A_WELL, {"scope": "run", "label": "incident", "agent": agent})
    assert truth.place.tolist() == [Place.HEALTHY_PART] * 5 + [Place.INCIDENT] * 8
    assert truth.runs.rows() == [("m", "incident")]
    with pytest.raises(InputError, match="healthy and incident at once: m"):
        two_agents(A_WELL, {"scope": "run", "label": "incident", "agent": "A"})


def test_hostile_ids_in_errors_are_one_line_and_many_are_named():
    """Line feeds and escapes are written out; fifty runs are named and the rest counted."""
    rows = [{"run_id": f"a\nb\x1b[31m{i:02d}", "scope": "run", "label": "healthy"} for i in range(53)]
    with pytest.raises(InputError, match="53 runs not in the data") as error:
        truth_of(labels(*rows))
    said = str(error.value)
    assert said.isprintable()
    assert r"a\nb\x1b[31m49" in said
    assert "[31m50" not in said
    assert "and 3 more" in said
    assert said.endswith("agentlens sql LAKE 'SELECT DISTINCT run_id FROM events' --json lists them")


def test_the_first_alert_of_a_run_is_the_first_in_time_beside_an_untimed_run():
    """Two lanes of one run alarm, the second lane earlier; a run without times elsewhere does not change which is first."""
    late = lane("m", "abcdeaaaa", at=1000).with_columns(agent=pl.lit("A"))
    soon = lane("m", "xxxxxxxxx", at=0).with_columns(agent=pl.lit("B"))
    told = labels({"run_id": "m", "scope": "run", "label": "healthy"})
    for more in ([], [lane("zz", "abc", at=None)]):
        judged = board_of(told, lanes(late, soon, *more)).judged(0)
        assert judged.first_false.tolist() == [12]
