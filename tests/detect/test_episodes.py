"""Episodes and runs: where a loop begins, alerts and ends, and what it costs."""

from __future__ import annotations

import json
import random

import polars as pl
import pytest

from agentlens.detect import lanes
from agentlens.detect.episodes import episodes
from agentlens.detect.loops import loops, scores
from agentlens.detect.policies import Policies, RetryPolicy, WaitingTool
from agentlens.detect.rules import laps, same_call
from agentlens.detect.runs import runs
from agentlens.model.event import EVENTS
from agentlens.model.verdict import EPISODES, RUNS, VERDICTS


def table(*rows: dict) -> pl.LazyFrame:
    """Events of run ``r``, five seconds apart, numbered by their place unless they say otherwise."""
    full = []
    for i, row in enumerate(rows):
        facts = {
            "run_id": "r",
            "agent": "",
            "seq": i,
            "kind": "tool",
            "tool": "t",
            "at": i * 5_000_000,
            **row,
        }
        full.append({name: facts.get(name) for name in EVENTS})
    loose = {**EVENTS, "at": pl.Int64(), "ended_at": pl.Int64()}
    frame = pl.DataFrame(full, schema=loose, orient="row")
    return frame.with_columns(pl.col("at", "ended_at").cast(EVENTS["at"])).lazy()


def call(action: str = "a", result: str | None = "f", **facts: object) -> dict:
    """One action with its result."""
    return {"action_signature": action, "progress_fingerprint": result, **facts}


def story(events: pl.LazyFrame, rule=None) -> tuple[pl.DataFrame, dict]:
    """Episodes of these events, and the row of their only run."""
    rule = rule or laps()
    verdicts = loops(events, rule)
    found = episodes(events, verdicts, rule).collect()
    (run,) = runs(events, verdicts, found.lazy()).collect().to_dicts()
    return found, run


def test_an_episode_begins_at_its_first_lap_and_ends_with_new_evidence():
    """Other actions alone are no recovery; the first fingerprint that no lap had is."""
    found, run = story(table(*[call()] * 5, call("b"), call("c", None), call("a", "new"), call("d", "newer")))
    (one,) = found.to_dicts()
    assert (one["onset_seq"], one["alert_seq"], one["end_seq"], one["closed_by"]) == (0, 3, 7, "evidence")
    assert (one["period"], one["laps"], one["tools"], one["lap_signatures"]) == (1, 5, ["t"], ["a"])
    assert (run["verdict"], run["alerts"], run["first_alert_seq"], run["stuck_events"]) == (
        "working",
        1,
        3,
        2,
    )


def test_a_milestone_closes_an_episode():
    """A milestone is changed evidence even where the fingerprint is the old one."""
    found, _ = story(table(*[call()] * 4, call(milestone="half"), *[call()] * 4))
    assert found["closed_by"].to_list() == ["milestone", None]
    assert found["onset_seq"].to_list() == [0, 4]


def test_a_verified_outcome_closes_an_episode_and_is_no_action():
    """A verdict event that says passed ends the episode; one that says failed does not."""
    failed = {"kind": "verdict", "tool": "", "outcome": "failed"}
    passed = {"kind": "verdict", "tool": "", "outcome": "passed"}
    found, run = story(table(*[call()] * 4, failed, call(), passed, call("b", "x")))
    (one,) = found.to_dicts()
    assert (one["end_seq"], one["closed_by"], run["events"]) == (6, "outcome", 6)


def test_another_loop_starts_another_episode_and_a_rotation_does_not():
    """The lap is compared as a cycle: going on elsewhere in the lap is the same loop."""
    pair = [call("a"), call("b")]
    found, _ = story(table(*pair * 3, call("z"), call("b"), *pair * 3, *[call("c")] * 4))
    assert found["period"].to_list() == [2, 1]
    assert found["closed_by"].to_list() == ["other_loop", None]


def test_a_human_turn_restarts_the_count_and_does_not_close():
    """The first action after a human turn is changed evidence for the cycle, not a recovery."""
    events = table(*[call()] * 4, call(external_input=True), *[call()] * 3)
    assert loops(events, laps()).collect()["verdict"].to_list() == [*["working"] * 3, "stuck_loop"] * 2
    assert story(events)[0]["closed_by"].to_list() == [None]


def test_tokens_and_cost_are_those_of_all_events_inside():
    """Model calls between onset and end count; what overlaps is counted once in the run."""
    model = {"kind": "model", "tool": "", "tokens_in": 10, "tokens_out": 5, "cost_usd": 0.25}
    rows = [x for _ in range(4) for x in (model, call())] + [model, call("a", "new"), model]
    found, run = story(table(*rows))
    assert (found["tokens"].item(), found["cost_usd"].item()) == (60, 1.0)
    assert (run["tokens"], run["cost_usd"]) == (90, 1.5)
    assert (run["loop_tokens"], run["loop_cost_usd"]) == (60, 1.0)


def test_unknown_tokens_and_times_stay_unknown():
    """Nothing known is null, never zero."""
    found, run = story(table(*[call(at=None)] * 4))
    assert (found["tokens"].item(), found["cost_usd"].item(), found["alert_at"].item()) == (None, None, None)
    assert (run["stuck_us"], run["started_at"], run["loop_tokens"]) == (None, None, None)


def test_a_cost_that_is_no_number_is_left_out():
    """NaN and infinity in an export do not spread into sums."""
    found, run = story(
        table(call(cost_usd=float("nan")), call(cost_usd=float("inf")), call(cost_usd=0.5), call())
    )
    assert (found["cost_usd"].item(), run["cost_usd"]) == (0.5, 0.5)


def test_a_run_is_as_bad_as_the_worst_last_verdict_of_its_lanes():
    """Lanes are judged apart; the run takes the worst of their last verdicts."""
    events = table(
        *[call(agent="x", seq=i) for i in range(4)], call(agent="y", seq=0, hard_failure="outcome_failed")
    )
    _, run = story(events)
    assert (run["verdict"], run["lanes"], run["events"], run["stuck_us"]) == ("failed_outcome", 2, 5, None)


def test_a_run_without_actions_has_no_verdict():
    """Messages alone are no actions: no verdict, no alert."""
    events = table({"kind": "message", "tool": ""})
    found, run = story(events)
    assert (found.height, run["verdict"], run["events"], run["alerts"]) == (0, None, 0, 0)


def test_schemas_are_kept_with_and_without_rows():
    """All four tables have their documented types, empty or not."""
    for events in (table(*[call()] * 4), table(*[call()] * 4).head(0)):
        verdicts = loops(events, laps())
        found = episodes(events, verdicts, laps())
        assert verdicts.collect().schema == VERDICTS
        assert found.collect().schema == EPISODES
        assert runs(events, verdicts, found).collect().schema == RUNS
        assert scores(events, 2).collect().columns[4:] == ["s_lo_1", "s_lo_2", "s_hi_1", "s_hi_2"]


def test_scores_bound_what_is_unknown():
    """An unknown fingerprint breaks the least stretch and not the greatest."""
    found = scores(table(call(), call(), call("a", None), call(), call("a", "g")), 1).collect()
    assert found["s_lo_1"].to_list() == [1, 2, 1, 1, 1]
    assert found["s_hi_1"].to_list() == [1, 2, 3, 4, 1]


def test_pieces_and_order_of_rows_change_nothing(monkeypatch):
    """Judging a few lanes at a time, or from shuffled rows, gives the same bytes."""
    rng = random.Random(5)
    rows = [
        call(
            rng.choice("ab"),
            rng.choice(["f", "f", None]),
            agent=agent,
            seq=seq,
            error_class=rng.choice([None, "x"]),
        )
        for agent in "uvwxyz"
        for seq in range(rng.randint(1, 12))
    ]
    whole = loops(table(*rows), laps()).collect()
    monkeypatch.setattr(lanes, "PIECE", 7)
    rng.shuffle(rows)
    shuffled = table(*[{"at": row["seq"] * 5_000_000, **row} for row in rows])
    assert loops(shuffled, laps()).collect().drop("at").equals(whole.drop("at"))


def test_a_policies_file_makes_waits_and_retries_known():
    """Exports that record neither are judged by the file, and the verdict says so."""
    policies = Policies(
        retries=(RetryPolicy(errors=("busy",), interval_s=4, max_attempts=3),),
        waits=(WaitingTool(tool="approval", owner="ops", longest_wait_s=12),),
        sleeping_tools=("nap",),
    )
    tries = [
        call(error_class="busy"),
        call("z", None, tool="nap"),
        call(error_class="busy"),
        call(error_class="gone"),
    ]
    waits = [call(tool="approval", seq=10 + i, at=i * 5_000_000) for i in range(4)]
    found = loops(table(*tries, *waits), laps(), policies).collect()
    assert found["verdict"].to_list() == [
        *("working", "working", "retrying", "working"),
        *("waiting", "waiting", "waiting", "stuck_loop"),
    ]
    assert found["policy_source"].to_list() == [None, None, "file", None, "file", "file", "file", None]
    assert found["reason"].to_list()[-1] == "lease_expired"


def test_results_ignored_means_no_evidence_closes_while_the_loop_goes_on():
    """Under a baseline that ignores results, changing output of one call is one episode."""
    found, _ = story(table(*[call("a", f"f{i}") for i in range(8)]), same_call(3))
    assert (found.height, found["laps"].item(), found["closed_by"].item()) == (1, 8, None)


@pytest.mark.parametrize("mode", ["lap", "constant"])
def test_intercode_counts(shared, mode):
    """7,201 real runs alert as often as a direct count of their repetitions says."""
    import gzip

    rows, solved = [], {}
    for path in sorted(shared.glob("traces/intercode/*/*.json.gz")):
        for key, run in json.loads(gzip.decompress(path.read_bytes())).items():
            name = f"{path.name}#{key}"
            solved[name] = run["summary"]["max_reward"] == 1
            turns = run["turn_history"]
            results = turns["observations"] + [None] * (len(turns["actions"]) - len(turns["observations"]))
            rows += [(name, i, a, r) for i, (a, r) in enumerate(zip(turns["actions"], results, strict=True))]
    events = pl.DataFrame(rows, ["run_id", "seq", "action_signature", "progress_fingerprint"], orient="row")
    events = events.with_columns(
        pl.lit("env").alias("tool"), pl.col("action_signature", "progress_fingerprint").str.strip_chars()
    )
    stuck = loops(events.lazy(), laps(evidence=mode)).filter(pl.col("verdict") == "stuck_loop").collect()
    alerted = stuck["run_id"].unique().to_list()
    assert (len(solved), len(alerted), sum(map(solved.get, alerted))) == (
        7201,
        {"lap": 2514, "constant": 2288}[mode],
        3,
    )
