"""The literal detector itself: checked against completions, literal windows and small lanes worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from tests.oracle import cycles, rules
from tests.oracle.episodes import episodes, is_rotation
from tests.oracle.exemptions import Declared, File, Waiting
from tests.oracle.lanes import Event, Lease, Policy
from tests.oracle.verdicts import findings, run_verdict

S = 1_000_000


def lane_of(signatures: str, fingerprints: str | None = None, **common) -> list[Event]:
    """One event a letter; ``?`` is unknown."""
    fingerprints = "e" * len(signatures) if fingerprints is None else fingerprints
    return [
        Event(
            seq=i,
            signature=None if s == "?" else s,
            fingerprint=None if f == "?" else f,
            at=i * 5 * S,
            **common,
        )
        for i, (s, f) in enumerate(zip(signatures, fingerprints, strict=True))
    ]


def verdicts_of(lane: list[Event], rule: rules.Profile | None = None) -> list[str]:
    return [found.verdict for found in findings(lane, rule or rules.laps())]


def completions(lane: list[Event], signatures: str, fingerprints: str):
    """Every way to fill in the unknowns, fresh values included."""
    unknown = [(i, "signature") for i, e in enumerate(lane) if e.signature is None]
    unknown += [(i, "fingerprint") for i, e in enumerate(lane) if e.fingerprint is None]
    choices = [[*(signatures if name == "signature" else fingerprints), f"new {i}"] for i, name in unknown]
    for values in product(*choices):
        filled = list(lane)
        for (i, name), value in zip(unknown, values, strict=True):
            filled[i] = replace(filled[i], **{name: value})
        yield filled


@pytest.mark.parametrize("mode", ["lap", "constant", "none"])
def test_three_values_are_all_none_or_some_completions(mode):
    """The condition is true under all completions, false under none, unknown under some."""
    random = Random(f"completions {mode}")
    rule = rules.laps((3, 2, 2), evidence=mode)
    seen = set()
    for _ in range(120):
        n = random.randint(4, 9)
        signatures, fingerprints = (random.choices("ab", k=n) for _ in range(2))
        for where in (signatures, fingerprints):
            for i in random.sample(range(n), random.randint(0, 2)):
                where[i] = "?"
        lane = lane_of("".join(signatures), "".join(fingerprints))
        if random.random() < 0.4:
            i = random.randrange(n)
            lane[i] = replace(lane[i], milestone="m")
        truths = {cycles.cycle_condition(filled, n - 1, rule) for filled in completions(lane, "ab", "ab")}
        assert None not in truths
        expected = truths.pop() if len(truths) == 1 else None
        assert cycles.cycle_condition(lane, n - 1, rule) is expected
        seen.add(expected)
    assert seen == {True, False, None}


def _shortest_period(word: tuple) -> int:
    return next(
        p for p in range(1, len(word) + 1) if all(word[j] == word[j - p] for j in range(p, len(word)))
    )


def _accepted(lane: list[Event], end: int, window: int, periods: int, repetitions: int) -> tuple | None:
    """The cycle of the window that ends at ``end``, if it fits often enough and no evidence changed."""
    part = lane[max(0, end + 1 - window) : end + 1]
    p = _shortest_period(tuple(e.signature for e in part))
    if p > periods or p * repetitions > len(part) or len({e.fingerprint for e in part}) > 1:
        return None
    return tuple(e.signature for e in part[-p:])


@pytest.mark.parametrize("short_starts", [True, False])
def test_full_windows_are_a_threshold_profile(short_starts):
    """With constant evidence, windows judged one by one and the profile agree on every event."""
    random = Random(f"windows {short_starts}")
    stuck = 0
    for _ in range(300):
        window, repetitions, confirm = random.randint(3, 8), random.randint(2, 3), random.randint(1, 3)
        if window < repetitions:
            continue
        most = random.randint(1, 4)
        rule = rules.full_window(window, most, repetitions, confirm, short_starts, "constant")
        periods = min(most, window // repetitions)
        n = random.randint(3, 16)
        lane = lane_of(
            "".join(random.choices("ab", (4, 1), k=n)), "".join(random.choices("ef", (12, 1), k=n))
        )
        for i in range(n):
            ends = range(i + 1 - confirm, i + 1)
            enough = all(end >= 0 and (short_starts or end + 1 >= window) for end in ends)
            words = [_accepted(lane, end, window, periods, repetitions) for end in ends] if enough else [None]
            literal = None not in words and all(is_rotation(word, words[0]) for word in words)
            assert (cycles.cycle_condition(lane, i, rule) is True) == literal
            stuck += literal
    assert stuck > 100


@pytest.mark.parametrize(
    ("signatures", "fingerprints", "expected"),
    [
        ("aaaa", "eeee", 4),
        ("aaab", "eeee", 1),
        ("abab", "eeee", 1),
        ("baaa", "eeee", 3),
        ("aaaa", "efff", 3),
        ("a?aa", "eeee", 2),
        ("aaaa", "ee?e", 1),
    ],
)
def test_stretch_of_period_one(signatures, fingerprints, expected):
    """``S_1`` counts back to the newest difference, unknowns being different."""
    assert (
        cycles.stretch_lo(lane_of(signatures, fingerprints), len(signatures) - 1, 1, rules.laps()) == expected
    )


def test_known_values_around_an_unknown_must_agree():
    """``a ? b`` can never be one action, although each neighbour could equal the unknown."""
    assert cycles.stretch_hi(lane_of("aaa?b"), 4, 1, rules.laps()) == 2
    assert cycles.stretch_hi(lane_of("bbb?b"), 4, 1, rules.laps()) == 5


def test_unknown_actions_of_different_tools_differ():
    """A lane of unknown actions of four tools is working; of one tool it is uncertain."""
    one = lane_of("????")
    four = [replace(event, tool=f"t{event.seq}") for event in one]
    assert (verdicts_of(one)[-1], verdicts_of(four)[-1]) == ("uncertain", "working")
    assert findings(one, rules.laps())[-1].reason == "missing_signature"


def test_a_milestone_may_begin_a_stretch():
    """Four equal calls from the milestone on are a loop, three are not."""
    lane = [replace(event, milestone="half" if event.seq == 2 else None) for event in lane_of("aaaaaaa")]
    assert verdicts_of(lane) == ["working"] * 5 + ["stuck_loop"] * 2


@pytest.mark.parametrize("column", ["normaliser_version", "key_id", "fingerprint_version"])
def test_a_change_of_version_is_neither_recovery_nor_incident(column):
    """Across a change the loop is unknown, and an open episode stays open; then it is known again."""
    lane = [
        replace(event, **{column: "new"} if event.seq > 3 else {})
        for event in lane_of("aaaaaaaa", "eeeegggg")
    ]
    found = findings(lane, rules.laps())
    assert [f.verdict for f in found] == ["working"] * 3 + ["stuck_loop"] + ["uncertain"] * 3 + ["stuck_loop"]
    assert {f.reason for f in found[4:7]} == {"version_change"}
    assert [(e.alert_seq, e.closed_by) for e in episodes(lane, lane, found, rules.laps())] == [(3, None)]


def test_no_stretch_crosses_a_longer_pause():
    """A pause longer than ``max_gap_s`` starts the count again; an unknown time does not."""
    lane = lane_of("aaaaaaaa")
    late = [replace(e, at=e.at + (60 * S if e.seq >= 2 else 0)) for e in lane]
    rule = replace(rules.laps(), max_gap_s=30.0)
    assert verdicts_of(late, rule) == ["working"] * 5 + ["stuck_loop"] * 3
    assert verdicts_of([replace(e, at=None) for e in late], rule) == ["working"] * 3 + ["stuck_loop"] * 5


def _attempts(gaps_s: list[float], policy: Policy, **common) -> list[Event]:
    at, out = 0, []
    for gap in [0.0, *gaps_s]:
        at += round(gap * S)
        out.append(
            Event(
                seq=len(out), signature="a", fingerprint="e", error_class="x", at=at, policy=policy, **common
            )
        )
    return out


@pytest.mark.parametrize(
    ("gap_s", "jitter", "expected"),
    [
        (2.0, 0.0, True),
        (1.999999, 0.0, True),
        (1.999998, 0.0, False),
        (1.5, 0.25, True),
        (1.499998, 0.25, False),
    ],
)
def test_gap_of_a_retry(gap_s, jitter, expected):
    """The second attempt waits at least the interval less jitter, with one microsecond of tolerance."""
    lane = _attempts([gap_s], Policy(interval_s=2.0, jitter=jitter))
    assert (verdicts_of(lane)[-1] == "retrying") is expected


def test_gap_is_measured_from_the_end_of_the_attempt_before():
    """A call of two seconds and one second of rest is one second of backoff."""
    first, second = _attempts([3.0], Policy(interval_s=2.0))
    assert verdicts_of([first, second])[-1] == "retrying"
    assert verdicts_of([replace(first, ended_at=2 * S), second])[-1] == "working"


def test_attempt_one_begins_a_streak():
    """Two spent budgets in a row are two streaks where the export numbers attempts."""
    lane = _attempts([1.0] * 5, Policy(interval_s=1.0, max_attempts=3))
    numbered = [replace(e, attempt=e.seq % 3 + 1) for e in lane]
    assert verdicts_of(lane) == ["working", "retrying", "retrying", "stuck_loop", "stuck_loop", "stuck_loop"]
    assert verdicts_of(numbered) == ["working", "retrying", "retrying", "stuck_loop", "retrying", "retrying"]


def test_policy_of_the_newest_attempt_judges_the_whole_streak():
    """A policy tightened by the newest attempt ends the exemption of the attempts before."""
    lane = _attempts([1.0, 1.0], Policy(interval_s=1.0))
    lane[2] = replace(lane[2], policy=Policy(interval_s=1.0, errors=("y",)))
    assert verdicts_of(lane) == ["working", "retrying", "working"]


def test_a_lease_names_why_it_is_not_honoured():
    """Owner, deadline, time, expiry and renewals are told apart."""
    good = Lease(owner="ops", deadline=10 * S)
    leases = [
        good,
        replace(good, owner=None),
        replace(good, deadline=None),
        replace(good, deadline=0),
        replace(good, renewals=4),
    ]
    lane = [Event(seq=0, signature="a", at=0, lease=lease) for lease in leases]
    reasons = [findings([event], rules.laps())[0].reason for event in lane]
    assert reasons == [
        "lease",
        "lease_no_owner",
        "lease_no_deadline",
        "lease_expired",
        "lease_renewed_too_often",
    ]
    assert findings([replace(lane[0], at=None)], rules.laps())[0].reason == "lease_no_time"


def test_hysteresis_delays_a_loop_and_never_a_failure():
    """``confirm=3`` moves the first loop verdict two events on; a hard failure is said at once."""
    lane = lane_of("aaaaaaa")
    lane[1] = replace(lane[1], hard_failure="outcome_failed")
    found = findings(lane, rules.laps(confirm=3))
    assert [f.verdict for f in found] == ["working", "failed_outcome", *["working"] * 3, *["stuck_loop"] * 2]
    assert found[1].reason == "outcome_failed"


def test_stalled_events_and_suspect():
    """Standing evidence under other actions counts; a nearly complete loop is suspect."""
    assert [f.stalled_events for f in findings(lane_of("abcd", "eeff"), rules.laps())] == [0, 1, 0, 1]
    assert [f.suspect for f in findings(lane_of("aaaa"), rules.laps())] == [False, False, True, False]


def test_episode_stays_open_until_evidence_changes():
    """Other actions do not close it; a fingerprint outside the laps does, and the same loop is then a new one."""
    rule = rules.laps()
    lane = lane_of("aaaabcaaaaxaaaa", "eeeeeeeeeefffff")
    found = episodes(lane, lane, findings(lane, rule), rule)
    assert [(e.onset_seq, e.alert_seq, e.closed_by) for e in found] == [(0, 3, "evidence"), (11, 14, None)]


def test_another_loop_starts_a_new_episode_and_a_rotation_does_not():
    """``abab`` then ``baba`` is one loop; ``cccc`` is another."""
    rule = rules.laps()
    lane = lane_of("abababxbababacccc")
    found = episodes(lane, lane, findings(lane, rule), rule)
    assert [(e.onset_seq, e.alert_seq, e.closed_by) for e in found] == [(0, 5, "other_loop"), (13, 16, None)]


def test_a_policies_file_speaks_where_the_event_does_not():
    """The file's policy for the tool goes before the one for all; an event's own goes before both."""
    bare = [replace(e, policy=None) for e in _attempts([2.0, 2.0], Policy())]
    strict, easy = Policy(interval_s=5.0, max_attempts=9), Policy(interval_s=1.0, max_attempts=9)
    file = File(retries=(Declared(policy=strict), Declared(policy=easy, tool="t")))
    assert [f.policy_source for f in findings(bare, rules.laps(), file)] == [None, "file", "file"]
    other = [replace(e, tool="u") for e in bare]
    assert [f.verdict for f in findings(other, rules.laps(), file)] == ["working"] * 3
    own = [replace(e, policy=easy) for e in other]
    assert [f.policy_source for f in findings(own, rules.laps(), file)] == [None, "event", "event"]


def test_a_waiting_tool_of_the_file_waits_from_its_first_event_on():
    """Polls are waiting until the longest wait has passed, and no later poll starts it anew."""
    file = File(waits=(Waiting(tool="t", owner="ops", longest_wait_s=12.0),))
    found = findings(lane_of("aaaaa"), rules.laps(), file)
    assert [f.verdict for f in found] == ["waiting"] * 3 + ["stuck_loop"] * 2
    assert [f.reason for f in found[3:]] == ["lease_expired"] * 2
    unknown = [replace(e, at=None if e.seq == 0 else e.at) for e in lane_of("aaa")]
    assert {f.reason for f in findings(unknown, rules.laps(), file)} == {"lease_no_time"}


def test_the_rule_of_the_event_judges_it_on_the_whole_lane():
    """A stricter rule for one tool changes only what is said of that tool's events."""
    book = rules.Book(default=rules.laps(), overrides=(rules.Override(rule=rules.same_call(2), tool="poll"),))
    lane = [replace(e, tool="poll" if e.seq == 1 else "t") for e in lane_of("aaaa")]
    assert [f.verdict for f in findings(lane, book)] == ["working", "stuck_loop", "working", "stuck_loop"]


def test_results_are_ignored_but_human_turns_are_not():
    """Baselines that ignore results still begin again after a human turn."""
    lane = lane_of("aaaaaa", "efghij")
    assert verdicts_of(lane, rules.same_call(4))[3:] == ["stuck_loop"] * 3
    lane[3] = replace(lane[3], external_input=True)
    assert verdicts_of(lane, rules.same_call(4))[3:] == ["working"] * 3


def test_worst_lane_decides_a_run():
    """A failure outranks a loop, a loop outranks not knowing."""
    assert run_verdict(["working", "stuck_loop", "uncertain"]) == "stuck_loop"
    assert run_verdict(["failed_outcome", "stuck_loop"]) == "failed_outcome"
