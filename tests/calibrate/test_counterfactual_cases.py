"""Each counterfactual says what the engine says under the change, and its price is that of the engine's alerts."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlens.calibrate.counterfactual_cases import CASE_FIXES, case_fixes, fewest_points
from agentlens.calibrate.counterfactual_missing import missing_evidence
from agentlens.detect.episodes import episodes
from agentlens.detect.loops import loops
from agentlens.detect.policies import Policies, RetryPolicy
from agentlens.detect.rules import Rule, equal_surprise, full_window, laps
from agentlens.model.event import EVENTS, LEASE
from agentlens.model.handoff import HANDOFFS
from tests.calibrate.small import lane, lanes

RULES = [
    laps(),
    laps((3, 2)),
    laps((4, 3, 2), confirm=2, evidence="constant"),
    equal_surprise(k=3, max_period=2),
    full_window(window=6, max_period=3),
    full_window(window=5, max_period=2, short_starts=False),
]
SECOND = 1_000_000

steps = st.lists(
    st.tuples(
        st.sampled_from("aaaab"),
        st.sampled_from("eeeeeef."),
        st.sampled_from([None, None, "timeout", "busy"]),
    ),
    min_size=4,
    max_size=14,
)


def events_of(told) -> pl.DataFrame:
    """Lanes with a tool a letter, ten seconds apart."""
    made = []
    for number, rows in enumerate(told):
        actions, seen = "".join(a for a, _, _ in rows), "".join(e for _, e, _ in rows)
        frame = lane(
            f"r{number}", actions, seen, error_class=pl.Series([c for _, _, c in rows], dtype=pl.String)
        )
        made.append(frame.with_columns(tool="action_signature"))
    return lanes(*made)


def judge(events, rule, policies=None):
    """Verdicts and episodes of the engine."""
    verdicts = loops(events.lazy(), rule, policies).collect()
    return verdicts, episodes(events.lazy(), verdicts.lazy(), rule).collect()


def found_in(events, rule, **more):
    """Counterfactuals of the engine's episodes."""
    verdicts, told = judge(events, rule)
    return case_fixes(events.lazy(), told, verdicts, rule, **more)


def stuck_of(found, episode) -> set[int]:
    """Sequence numbers of the stuck events of one episode."""
    return set(found.stuck.filter(pl.col("episode") == episode)["seq"])


def cleared(events, rule, found, episode, policies=None) -> bool:
    """Whether the engine finds none of the episode's stuck events stuck."""
    key = found.episodes.row(episode, named=True)
    verdicts = loops(events.lazy(), rule, policies).collect()
    mine = verdicts.filter(
        (pl.col("run_id") == key["run_id"]) & pl.col("seq").is_in(list(stuck_of(found, episode)))
    )
    return not (mine["verdict"] == "stuck_loop").any()


def later(rule, events):
    """Rule that asks for so many events more."""
    return replace(rule, thresholds=tuple(t + events for t in rule.thresholds), confirm=rule.confirm + events)


def capped(rule, period):
    """Rule that looks for no longer period."""
    return replace(rule, thresholds=rule.thresholds[:period])


def polled(events, tool):
    """Every result of a tool is news."""
    new = pl.concat_str(pl.lit("poll "), pl.col("run_id"), pl.col("seq"))
    return events.with_columns(
        progress_fingerprint=pl.when(pl.col("tool") == tool).then(new).otherwise("progress_fingerprint")
    )


def new_from(events, run, seqs):
    """Evidence of one lane changes at these events, and stays changed."""
    part = pl.sum_horizontal((pl.col("seq") >= seq).cast(pl.Int64) for seq in seqs)
    moved = (
        pl.when(part == 0)
        .then("progress_fingerprint")
        .otherwise(pl.col("progress_fingerprint") + pl.concat_str(pl.lit("'"), part))
    )
    return events.with_columns(
        progress_fingerprint=pl.when(pl.col("run_id") == run).then(moved).otherwise("progress_fingerprint")
    )


def policy_of(row, events):
    """The retry policy that a row proposes, read from the attempts it would cover."""
    mine = events.filter((pl.col("run_id") == row["run_id"]) & (pl.col("tool") == row["tool"]))
    errors = tuple(mine["error_class"].drop_nulls().unique().sort())
    return Policies(
        retries=(RetryPolicy(errors=errors, interval_s=0.0, max_attempts=row["value"], tool=row["tool"]),)
    )


@settings(max_examples=40, deadline=None)
@given(told=st.lists(steps, min_size=1, max_size=3), rule=st.sampled_from(RULES))
def test_what_clears_an_episode_clears_it_in_the_engine(told, rule):
    """Thresholds, periods, polled tools and retry policies: the change clears, one less does not."""
    events = events_of(told)
    made = found_in(events, rule)
    found = made.found
    number = {
        tuple(key): n for n, key in enumerate(found.episodes.select("run_id", "agent", "alert_seq").rows())
    }
    rows = made.rows()
    assert rows.schema == CASE_FIXES
    for row in rows.iter_rows(named=True):
        episode = number[row["run_id"], row["agent"], row["alert_seq"]]
        if row["kind"] == "threshold":
            assert cleared(events, later(rule, row["value"]), found, episode)
            assert not cleared(events, later(rule, row["value"] - 1), found, episode)
        elif row["kind"] == "period":
            assert cleared(events, capped(rule, row["value"]), found, episode)
            assert not cleared(events, capped(rule, row["value"] + 1), found, episode)
        elif row["kind"] == "exemption":
            assert cleared(polled(events, row["tool"]), rule, found, episode)
        elif row["kind"] == "retry":
            assert cleared(events, rule, found, episode, policy_of(row, events))
    for name, kept in made.laps.items():
        for episode in number.values():
            exact = cleared(polled(events, name), rule, found, episode)
            assert exact == (not kept[found.of_episode == episode].any())


@settings(max_examples=30, deadline=None)
@given(told=steps, rule=st.sampled_from(RULES))
def test_evidence_that_clears_is_found_exactly(told, rule):
    """One change of evidence clears at just the events named, and fewer changes than the fewest never do."""
    events = events_of([told])
    made = found_in(events, rule)
    found = made.found
    for episode in range(found.episodes.height):
        key = found.episodes.row(episode, named=True)
        rows = made.rows().filter((pl.col("alert_seq") == key["alert_seq"]) & (pl.col("kind") == "evidence"))
        row = rows.row(0, named=True)
        places = range(1, events.height)
        alone = [at for at in places if cleared(new_from(events, "r0", [at]), rule, found, episode)]
        named = [] if row["from_seq"] is None else list(range(row["from_seq"], row["to_seq"] + 1))
        assert alone == named
        assert cleared(new_from(events, "r0", row["seqs"]), rule, found, episode)
        fewer = list(combinations(places, row["value"] - 1))[:60] if row["value"] > 1 else []
        assert not any(cleared(new_from(events, "r0", seqs), rule, found, episode) for seqs in fewer)


@settings(max_examples=40, deadline=None)
@given(told=st.lists(steps, min_size=1, max_size=3), rule=st.sampled_from(RULES[:4]))
def test_prices_are_those_of_the_engine(told, rule):
    """Alerts that a change leaves are the engine's alerts under it, but for two that it makes into one."""
    events = events_of(told)
    made = found_in(events, rule)
    stuck = made.found.stuck
    for fix in made.offered():
        if fix.kind == "threshold":
            verdicts, _ = judge(events, later(rule, fix.value))
        elif fix.kind == "period":
            verdicts, _ = judge(events, capped(rule, fix.value))
        elif fix.kind == "exemption":
            verdicts, _ = judge(polled(events, fix.tool), rule)
        else:
            continue
        left = stuck.select("run_id", "seq").filter(pl.Series(fix.kept)).sort("run_id", "seq")
        engine = (
            verdicts.filter(pl.col("verdict") == "stuck_loop").select("run_id", "seq").sort("run_id", "seq")
        )
        assert left.equals(engine)


def test_prices_count_false_alerts_incidents_and_delay():
    """A longer threshold clears the false alert, loses the short incident and finds the long one later."""
    events = lanes(lane("bad", "xabababababcccccccccc"), lane("ok", "aaaaab"), lane("lost", "bbbbb"))
    truth = events.select(
        "run_id",
        "agent",
        "seq",
        false=pl.col("run_id") == "ok",
        incident=pl.when(pl.col("run_id") == "bad").then(0).when(pl.col("run_id") == "lost").then(1),
        since="seq",
    )
    made = found_in(events, laps((4,)), truth=truth)
    price = made.price(made.later(2).kept)
    assert price == {
        "false_cleared": 1,
        "false_left": 0,
        "incidents_lost": 1,
        "incidents_left": 1,
        "delay_added": 2,
        "episodes_cleared": 2,
    }
    assert made.cheapest().height == 0


def test_the_cheapest_fixes_come_one_after_the_other():
    """A tool that only false alerts poll is exempted first; what it leaves asks for the next."""
    events = lanes(
        *(lane(f"poll{n}", "ppppp").with_columns(tool=pl.lit("poll")) for n in range(2)),
        lane("near", "aaaa"),
        lane("bad", "bbbbbbbbbb"),
    )
    truth = events.select(
        "run_id",
        "agent",
        "seq",
        false=pl.col("run_id") != "bad",
        incident=pl.when(pl.col("run_id") == "bad").then(0),
        since="seq",
    )
    told = found_in(events, laps((4,)), truth=truth).cheapest()
    assert told["false_cleared"].sum() == 3
    assert told["incidents_left"].to_list()[-1] == 1


def test_of_fixes_that_clear_the_same_the_one_that_delays_nothing_comes_first():
    """Confirming two events longer clears the polls too, but what is found otherwise is found two events later."""
    events = lanes(
        *(lane(f"poll{n}", "ppppp").with_columns(tool=pl.lit("poll")) for n in range(2)),
        lane("bad", "bbbbbbbbbb").with_columns(tool=pl.lit("b")),
    )
    truth = events.select(
        "run_id",
        "agent",
        "seq",
        false=pl.col("run_id") != "bad",
        incident=pl.when(pl.col("run_id") == "bad").then(0),
        since="seq",
    )
    told = found_in(events, laps((4,)), truth=truth).cheapest()
    assert told.select("kind", "false_cleared", "delay_added").rows() == [("exemption", 2, 0)]


def handoff(delegated, accepted=None):
    """One handoff of the lane, in seconds."""
    row = {"run_id": "r", "author": "", "delegated_at": delegated * SECOND}
    row["accepted_at"] = None if accepted is None else accepted * SECOND
    return (
        pl.DataFrame([row], schema={n: HANDOFFS[n] if n in ("run_id", "author") else pl.Int64 for n in row})
        .cast({"delegated_at": HANDOFFS["delegated_at"], "accepted_at": HANDOFFS["accepted_at"]})
        .with_columns(closed_at=pl.lit(None, dtype=HANDOFFS["closed_at"]))
    )


def test_an_open_handoff_clears_from_its_largest_age_on():
    """Waiting as long as the handoff was open at the last stuck event clears; a microsecond less does not."""
    events = lanes(lane("r", "aaaaaa"))
    made = found_in(events, laps((4,)), handoffs=handoff(5))
    row = made.rows().filter(pl.col("kind") == "handoff").row(0, named=True)
    assert row["value"] == 45 * SECOND
    found = made.found
    for limit, clears in ((row["value"], True), (row["value"] - 1, False)):
        lease = pl.struct(
            pl.lit("recipient").alias("owner"),
            pl.lit(None, dtype=pl.String).alias("waits_on"),
            pl.lit(5 * SECOND + limit + 1).cast(EVENTS["at"]).alias("deadline"),
            pl.lit(0, dtype=pl.Int64).alias("renewals"),
            pl.lit(3, dtype=pl.Int64).alias("max_renewals"),
        ).cast(LEASE)
        waiting = events.with_columns(lease=pl.when(pl.col("seq") > 0).then(lease))
        assert cleared(waiting, laps((4,)), found, 0) is clears


@pytest.mark.parametrize("given", [handoff(5, accepted=20), handoff(55)])
def test_a_handoff_that_was_not_open_clears_nothing(given):
    """Accepted before, or delegated after, the events that are stuck."""
    made = found_in(lanes(lane("r", "aaaaaa")), laps((4,)), handoffs=given)
    assert made.rows().filter(pl.col("kind") == "handoff").is_empty()


def test_a_retry_policy_names_its_errors_attempts_and_gap():
    """The policy is the smallest that covers the attempts; loops of things that did not fail have none."""
    events = lanes(
        lane("r", "aaaaa", error_class=["busy", "busy", "slow", "busy", "busy"]), lane("s", "bbbbb")
    )
    rows = found_in(events, laps((4,))).rows().filter(pl.col("kind") == "retry")
    assert rows.select("run_id", "value", "tool").rows() == [("r", 5, "t")]
    assert "5 attempts on busy, slow, at least 10 s apart" in rows["change"][0]


def test_missing_evidence_names_the_results_worth_recording():
    """Four equal actions with two unknown results: each alone, known and new, would settle it."""
    events = lanes(lane("r", "aaaa", "e..e"), lane("s", "aaaa", "...."), lane("k", "aaaa"))
    verdicts, _ = judge(events, laps((4,)))
    told = missing_evidence(events.lazy(), verdicts, laps((4,)))
    assert told.select("run_id", "value", "seqs").rows()[0] == ("r", 1, [1, 2])
    assert told["run_id"].to_list() == ["r", "s"]
    assert told.filter(pl.col("run_id") == "s")["value"].to_list() == [4]


@settings(max_examples=30, deadline=None)
@given(told=steps, rule=st.sampled_from(RULES))
def test_missing_evidence_is_what_the_engine_says(told, rule):
    """Known and new evidence at the events named settles the stretch; where none is named, all of it does not."""
    events = events_of([told])
    verdicts, _ = judge(events, rule)
    rows = missing_evidence(events.lazy(), verdicts, rule)
    for row in rows.iter_rows(named=True):
        ways = [[seq] for seq in row["seqs"]] if row["value"] == 1 else [row["seqs"]]
        for seqs in ways:
            new = pl.concat_str(pl.lit("new"), "seq")
            known = events.with_columns(
                progress_fingerprint=pl.when(pl.col("seq").is_in(seqs))
                .then(new)
                .otherwise("progress_fingerprint")
            )
            then = loops(known.lazy(), rule).collect().filter(pl.col("seq") == row["alert_seq"])
            assert then["verdict"][0] not in ("uncertain", "stuck_loop")


def test_fewest_points_meet_every_interval():
    """Intervals that share no point need one each."""
    assert fewest_points([1, 3, 5], [2, 4, 6]) == [2, 4, 6]
    assert fewest_points([1, 2], [9, 3]) == [3]


def test_without_a_loop_there_is_nothing_to_clear():
    """No episode, no row, no fix."""
    made = found_in(lanes(lane("r", "abcd")), Rule(thresholds=(4,)))
    assert (made.rows().height, made.cheapest().height) == (0, 0)


def priced(events, kind, **more):
    """Price of the change of a kind that the false alert asks for; incidents are those of ``more['ill']``."""
    ill = more.pop("ill")
    truth = events.select(
        "run_id",
        "agent",
        "seq",
        false=pl.col("run_id") == "ok",
        incident=pl.col("run_id").replace_strict(ill, default=None, return_dtype=pl.Int64),
        since="seq",
    )
    rows = found_in(events, laps((4,)), truth=truth, **more).rows()
    return rows.row(by_predicate=(pl.col("run_id") == "ok") & (pl.col("kind") == kind), named=True)


PRICES = (
    "false_cleared",
    "false_left",
    "incidents_lost",
    "incidents_left",
    "delay_added",
    "episodes_cleared",
)


def test_the_price_of_a_retry_policy_by_hand():
    """Five attempts on busy clear the false alert, whose fifth is event 4, and change what is found of incidents.

    ``lost``, five busy attempts, is lost whole; ``late``, eight of them, up to its fifth: its alert moves from event 3
    to event 5: two later; ``other`` fails by timeout and keeps its alert: none later. The median of 2 and 0 is 1.
    """
    events = lanes(
        lane("ok", "aaaaa", error_class=["busy"] * 5),
        lane("lost", "bbbbb", error_class=["busy"] * 5),
        lane("late", "cccccccc", error_class=["busy"] * 8),
        lane("other", "dddd", error_class=["timeout"] * 4),
    )
    row = priced(events, "retry", ill={"lost": 0, "late": 1, "other": 2})
    assert (row["value"], row["tool"]) == (5, "t")
    assert tuple(row[name] for name in PRICES) == (1, 0, 1, 2, 1, 2)


def test_the_price_of_waiting_for_a_handoff_by_hand():
    """Events are 10 s apart, an alert is due at 30 s. Handoffs are open from 5 s (ok), 0 s (lost), and 15 s (late).

    The false alert asks for its last stuck event, 50 s - 5 s = 45 s. At 45 s ``lost`` (30 and 40 s old when stuck) is
    never found; ``late`` is 15 to 65 s old and first above 45 s at 70 s, event 7: four later than event 3; ``none``
    waits for nothing: none later. The median of 4 and 0 is 2.
    """
    events = lanes(
        lane("ok", "aaaaaa"), lane("lost", "bbbbb"), lane("late", "ccccccccc"), lane("none", "dddd")
    )
    given = pl.concat(
        [handoff(at).with_columns(run_id=pl.lit(run)) for run, at in (("ok", 5), ("lost", 0), ("late", 15))]
    )
    row = priced(events, "handoff", ill={"lost": 0, "late": 1, "none": 2}, handoffs=given)
    assert row["value"] == 45 * SECOND
    assert tuple(row[name] for name in PRICES) == (1, 0, 1, 2, 2, 2)
