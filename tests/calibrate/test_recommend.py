"""Chains, the ratio bet, and the three answers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from agentlens.calibrate.calibrate import Plan, calibrate_loops
from agentlens.calibrate.certificate import Status, bet_limit, p_bet
from agentlens.calibrate.chains import chains, loosened, nested
from agentlens.calibrate.grid import baselines
from agentlens.calibrate.ratio import chosen_runs, more_groups, p_share, stake
from agentlens.calibrate.recommend import Goal
from agentlens.datasets import LaneModel, synthetic_lanes
from agentlens.errors import InputError, SettingsError
from tests.calibrate.small import labels, lane, lanes


def test_every_chain_is_nested():
    """Each rule alerts wherever the stricter one before it does, by its thresholds."""
    offered = [*chains(), *(loosened(setting) for setting in baselines())]
    assert len({chain.name for chain in offered}) == len(offered)
    for chain in offered:
        rules = [setting.rule for setting in chain.settings]
        assert all(nested(strict, loose) for strict, loose in pairwise(rules)), chain.name


def test_the_ratio_bet_keeps_its_promise_at_the_limit():
    """With groups of six and a true share exactly at the limit, p falls to 5 % in at most about 5 % of samples."""
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(600):
        alarms = rng.integers(0, 7, 400)
        hits += p_share(alarms, rng.binomial(alarms, 0.05), 0.05, 6) <= 0.05
    assert hits / 600 <= 0.05 + 3 * (0.05 * 0.95 / 600) ** 0.5


def test_the_ratio_bet_keeps_its_promise_when_false_alarms_come_in_whole_groups():
    """The same where a group's alarms are all false or none."""
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(600):
        alarms = rng.integers(0, 7, 400)
        hits += p_share(alarms, alarms * (rng.random(400) < 0.05), 0.05, 6) <= 0.05
    assert hits / 600 <= 0.05 + 3 * (0.05 * 0.95 / 600) ** 0.5


def test_the_order_of_groups_does_not_matter():
    """The p-value is that of the groups in any order, to the last digit."""
    alarms, false = np.array([3, 1, 6, 2, 2, 0]), np.array([0, 1, 0, 0, 2, 0])
    assert p_share(alarms, false, 0.1, 6) == p_share(alarms[::-1], false[::-1], 0.1, 6)


def test_stakes_stay_inside_what_the_bet_allows():
    """A group full of false alarms never takes everything."""
    for alpha in (0.001, 0.01, 0.2):
        for largest in (1, 2, 6, 50):
            assert 0 < stake(alpha, largest) < 1 / (1 - alpha)


def test_a_seeded_hash_draws_from_large_groups():
    """Larger groups give as many runs as asked, the same each time for a seed."""
    runs = pl.DataFrame({"run_id": [f"r{i}" for i in range(9)], "task_group": ["a"] * 6 + ["b"] * 3})
    kept = runs.filter(chosen_runs(runs, 4, seed=1))
    assert kept.group_by("task_group").len().sort("task_group").rows() == [("a", 4), ("b", 3)]
    assert kept.equals(runs.filter(chosen_runs(runs, 4, seed=1)))
    assert not kept.equals(runs.filter(chosen_runs(runs, 4, seed=2)))


def test_more_groups_follow_from_the_growth_so_far():
    """Half of the needed logarithm at 100 groups asks for 100 more; a falling one can not be helped."""
    assert more_groups(np.log(20) / 2, 100, 0.05) == 100
    assert more_groups(-0.1, 100, 0.05) is None
    assert more_groups(5.0, 100, 0.05) == 0


def test_the_upper_limit_is_where_the_bet_turns():
    """The inverted bet refutes its limit and not what lies a little below."""
    losses = [0.0] * 300 + [0.5, 1.0]
    high = bet_limit(losses, 0.025)
    assert p_bet(losses, high) <= 0.025 < p_bet(losses, high - 0.001)


def synthetic(runs: int, *, seed: int = 3, **more):
    """Planted loops, one run a group."""
    model = LaneModel(incident_share=0.2, runs_per_group=1, min_events=20, max_events=40, **more)
    return synthetic_lanes(runs, seed=seed, model=model)


def answer(drawn, *, shares=None, **goal):
    plan = Plan(goal=Goal(**goal), grid=False, shares=shares)
    return calibrate_loops([drawn.events.lazy()], drawn.labels, plan)


def test_enough_healthy_groups_give_a_certificate_that_holds():
    """A certified rule's false-positive rate on fresh runs of the same kind is within the limit."""
    found = answer(synthetic(1200), max_fpr=0.02)
    assert found.answer.status == Status.CERTIFIED
    certificate = found.answer.certificate
    assert certificate.filter("certified")["p_value"].max() <= 0.05
    rule = found.cells[found.answer.cell].rule
    fresh = synthetic(1500, seed=99)
    healthy = fresh.truth.filter(pl.col("label") == "healthy")["run_id"]
    from agentlens.detect.loops import loops

    verdicts = loops(fresh.events.lazy().filter(pl.col("run_id").is_in(healthy.implode())), rule).collect()
    alarmed = verdicts.filter(pl.col("verdict") == "stuck_loop")["run_id"].n_unique()
    assert alarmed / healthy.len() <= 0.02


def test_short_data_are_refused_with_the_number_that_is_missing():
    """A hundred runs give PROVISIONAL, and how many groups more would do."""
    found = answer(synthetic(150), max_fpr=0.01, shares=(0.4, 0.4, 0.2))
    assert found.answer.status == Status.PROVISIONAL
    certify = int(found.answer.certificate["groups"][0])
    row = found.answer.certificate.filter(pl.col("alarms") == 0).row(0, named=True)
    assert row["more_groups"] == 299 - certify
    assert found.answer.more_groups == row["more_groups"]


def test_healthy_runs_that_loop_are_infeasible():
    """Where every rule alarms on healthy runs none is recommended."""
    found = answer(synthetic(400, fresh=0.0, repeat=0.97), max_fpr=0.01)
    assert (found.answer.status, found.answer.cell) == (Status.INFEASIBLE, None)


def test_the_same_inputs_and_seed_give_the_same_answer():
    """Two calibrations agree in every table; another seed draws other runs of each group."""
    drawn = synthetic_lanes(300, seed=8, model=LaneModel(incident_share=0.3, runs_per_group=3))
    one, two = answer(drawn, max_fpr=0.05), answer(drawn, max_fpr=0.05)
    assert one.rates.equals(two.rates)
    assert one.answer.certificate.equals(two.answer.certificate)
    assert one.plan.digest == two.plan.digest != answer(drawn, max_fpr=0.05, seed=4).plan.digest


def test_a_second_limit_is_met_too_or_nothing_is_certified():
    """Healthy runs full of unknown evidence break a limit on uncertain runs although no rule alarms."""
    healthy = [lane(f"h{i:03d}", "abababab", "........", at=1000 * i) for i in range(120)]
    loops_ = [lane(f"i{i}", "aaaaaa", at=50_000 * i) for i in range(3)]
    told = labels(
        *(
            {"run_id": f"h{i:03d}", "scope": "run", "label": "healthy", "task_group": f"g{i}"}
            for i in range(120)
        ),
        *({"run_id": f"i{i}", "scope": "run", "label": "incident"} for i in range(3)),
    )
    events = [lanes(*healthy, *loops_).lazy()]
    loose = calibrate_loops(events, told, Plan(goal=Goal(max_fpr=0.1), grid=False))
    strict = calibrate_loops(events, told, Plan(goal=Goal(max_fpr=0.1, max_uncertain=0.1), grid=False))
    assert loose.answer.certificate["certified"].any()
    row = strict.answer.certificate.filter(pl.col("rule") == "laps((4, 3, 2))")
    assert row["p_uncertain"][0] is None or row["p_value"][0] >= row["p_uncertain"][0]
    assert not strict.answer.certificate.filter(pl.col("p_uncertain") > 0.05)["certified"].any()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max_fpr": 0.0}, "max_fpr = 0.0"),
        ({"max_fpr": 1.0}, "max_fpr = 1.0"),
        ({"delta": 0.0}, "delta = 0.0"),
        ({"objective": "f1"}, "unknown objective 'f1'"),
        ({"max_uncertain": 2}, "max_uncertain = 2"),
        ({"seed": -1}, "seed = -1"),
        ({"objective": "share", "largest": 0}, "largest = 0"),
        ({"largest": 3}, "largest = 3"),
    ],
)
def test_limits_that_nothing_or_everything_meets_are_refused(settings, said):
    """Zero, one and unknown names are one line."""
    with pytest.raises(SettingsError, match="accepted:") as error:
        Goal(**settings)
    assert said in str(error.value)


HEALTHY = [{"run_id": f"h{i}", "scope": "run", "label": "healthy", "task_group": f"g{i}"} for i in range(4)]
INCIDENT = [{"run_id": "i0", "scope": "run", "label": "incident", "task_group": "g9"}]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (INCIDENT, "no healthy run"),
        (HEALTHY, "no incident"),
        (
            [{**row, "task_group": "one"} for row in HEALTHY + INCIDENT],
            "at least two independent task groups",
        ),
        ([{"operation_id": "o", "scope": "handoff", "label": "healthy"}], "none is about a run"),
    ],
)
def test_labels_that_can_not_calibrate_say_what_is_missing(told, said):
    """No healthy runs, no incidents, one group, only handoffs: one line each."""
    events = lanes(*(lane(f"h{i}", "abcd", at=i) for i in range(4)), lane("i0", "aaaa"))
    with pytest.raises((SettingsError, Exception), match="accepted:") as error:
        calibrate_loops([events.lazy()], labels(*told), Plan(grid=False))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_certify_split_without_healthy_runs_is_one_line():
    """Where all healthy groups fall into other splits the message says what would do."""
    events = lanes(lane("h0", "abcd", at=0), *(lane(f"i{i}", "aaaa", at=1000 + i) for i in range(9)))
    told = labels(HEALTHY[0], *({"run_id": f"i{i}", "scope": "run", "label": "incident"} for i in range(9)))
    with pytest.raises(SettingsError, match="certify: the split holds no healthy run; accepted:"):
        calibrate_loops([events.lazy()], told, Plan(grid=False, shares=(0.4, 0.4, 0.2)))


def failing_runs(tasks: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Two runs a task: one that works, one that is stuck; every tenth task's working run repeats itself thrice."""
    frames, rows = [], []
    for n in range(tasks):
        works = "aaabcde" if n % 10 == 0 else "abcdefg"
        frames += [lane(f"h{n:03d}", works, at=1000 * n), lane(f"i{n:03d}", "abxxxxxx", at=1000 * n)]
        task = {"task_group": f"t{n}", "scope": "run"}
        rows += [
            {"run_id": f"h{n:03d}", "label": "healthy", **task},
            {"run_id": f"i{n:03d}", "label": "incident", **task},
        ]
    return lanes(*frames), labels(*rows)


def test_a_share_of_false_alarms_is_certified_up_to_the_rule_that_breaks_it():
    """The chain from the incumbent stops where every tenth task alarms falsely; the loosest certified rule is chosen."""
    events, told = failing_runs(120)
    goal = Goal(objective="share", max_fpr=0.05)
    found = calibrate_loops([events.lazy()], told, Plan(goal=goal, grid=False, shares=(0, 1, 0)))
    certified = dict(found.answer.certificate.select("rule", "certified").rows())
    assert found.answer.status == Status.CERTIFIED
    assert certified["laps((4, 3, 2))"]
    assert not certified["laps((3, 2, 2, 2, 2))"]
    assert found.splits.frame["split"].unique().to_list() == ["certify"]
    row = found.rates.row(found.answer.cell, named=True)
    assert (row["true_alarms"], row["false_alarms"]) == (120, 0)


def test_explore_says_where_the_chain_of_a_share_starts():
    """With an explore split the walk begins at the likeliest rule, and test groups stay unread."""
    events, told = failing_runs(240)
    plan = Plan(goal=Goal(objective="share", max_fpr=0.05), grid=False, shares=(0.3, 0.5, 0.2))
    found = calibrate_loops([events.lazy()], told, plan)
    assert found.answer.certificate["groups"].to_list() == [120] * found.answer.certificate.height
    assert found.answer.certificate["tested"][0]
    assert found.answer.status == Status.CERTIFIED


def test_a_share_says_how_its_bet_was_fixed():
    """M comes from the sizes or is given, and then groups that are larger are counted, and count for less."""
    events, told = failing_runs(40)
    told = told.with_columns(
        pl.col("task_group").replace("t1", "t0")
    )  # one group of four runs, others of two
    goal = Goal(objective="share", max_fpr=0.05)

    def told_by(goal: Goal, **more):
        return calibrate_loops([events.lazy()], told, Plan(goal=goal, grid=False, **more)).answer

    whole = told_by(goal, shares=(0, 1, 0))
    assert whole.bet == {
        "largest": 2,
        "largest_from": "sizes",
        "largest_group": 4,
        "larger_groups": 1,
        "stake": stake(0.05, 2),
    }
    assert "M = 2 (95 % of the runs by size, 1 larger groups of up to 4 runs count as 2)" in whole.test
    assert whole.chain_from == "fixed beforehand, no explore split"
    assert whole.certificate["groups"][0] == 39
    plain = told_by(Goal(objective="share", max_fpr=0.05, largest=4), shares=(0, 1, 0))
    assert (plain.bet["largest"], plain.bet["largest_from"], plain.bet["larger_groups"]) == (4, "given", 0)
    assert "M = 4 (given)" in plain.test
    cut = told_by(Goal(objective="share", max_fpr=0.05, largest=1), shares=(0, 1, 0))
    assert (cut.bet["largest"], cut.bet["larger_groups"]) == (1, 39)
    assert cut.certificate["alarms"].to_list() == whole.certificate["alarms"].to_list()  # no run is left out
    explored = told_by(goal, shares=(0.2, 0.8, 0))
    assert explored.chain_from == "explore"
    assert explored.certificate["groups"][0] == 31


@pytest.mark.parametrize("shares", [None, (0.0, 1.0, 0.0)])
def test_a_share_needs_something_healthy_and_two_groups(shares):
    """Incidents alone, or one task group, are refused whatever the shares."""
    events, told = failing_runs(12)
    plan = Plan(goal=Goal(objective="share", max_fpr=0.05), grid=False, shares=shares)
    with pytest.raises(InputError, match=r"nothing is labelled healthy.*accepted: runs labelled healthy"):
        calibrate_loops([events.lazy()], told.filter(pl.col("label") == "incident"), plan)
    with pytest.raises(SettingsError, match=r"task groups = 1 .*at least two independent task groups"):
        calibrate_loops([events.lazy()], told.with_columns(task_group=pl.lit("one")), plan)


def test_what_explore_saw_over_the_limit_does_not_look_fine():
    """Old tasks alarm falsely under every rule and new ones do not: too few to certify, and not called fine either."""
    frames, rows = [], []
    for n in range(60):
        text = "a" * 32 if n < 10 else "abcdefghijklmnopqrstuvwxyz012345"
        frames.append(lane(f"h{n:03d}", text, at=1000 * n))
        rows.append({"run_id": f"h{n:03d}", "scope": "run", "label": "healthy", "task_group": f"t{n}"})
        if n % 10 == 5:
            frames.append(lane(f"i{n:03d}", "ab" + "x" * 30, at=1000 * n))
            rows.append({"run_id": f"i{n:03d}", "scope": "run", "label": "incident", "task_group": f"t{n}"})
    events, told = lanes(*frames).lazy(), labels(*rows)
    plan = Plan(goal=Goal(max_fpr=0.05), grid=False, shares=(0.4, 0.4, 0.2))
    found = calibrate_loops([events], told, plan)
    assert found.answer.certificate["alarms"].to_list() == [0] * found.answer.certificate.height
    assert (found.answer.status, found.answer.cell) == (Status.INFEASIBLE, None)
    late = calibrate_loops([events], told.filter(pl.col("run_id") > "h009"), plan)
    assert late.answer.status == Status.PROVISIONAL


def test_a_stricter_rule_than_the_walk_began_at_is_named_and_not_promised():
    """Explore, where two laps of two actions are loops, begins there; later they are work, and only the rule before is fine.

    It was never walked: no row of the certificate is its, no p-value is told, and it needs groups that nobody has seen.
    """
    frames, rows = [], []
    for n in range(300):
        old = n < 60
        works, stuck = ("abcdefgh", "abcdxyxy") if old else ("abxyxycd", "abxxxxxx")
        frames += [lane(f"h{n:03d}", works, at=1000 * n), lane(f"i{n:03d}", stuck, at=1000 * n)]
        task = {"task_group": f"t{n}", "scope": "run"}
        rows += [
            {"run_id": f"h{n:03d}", "label": "healthy", **task},
            {"run_id": f"i{n:03d}", "label": "incident", **task},
        ]
    plan = Plan(goal=Goal(objective="share", max_fpr=0.05), grid=False, shares=(0.2, 0.8, 0))
    found = calibrate_loops([lanes(*frames).lazy()], labels(*rows), plan)
    assert found.answer.chain_from == "explore"
    assert found.answer.certificate["rule"][0] == "laps((4, 2, 2))"
    assert not found.answer.certificate["certified"].any()
    assert (found.answer.status, found.cells[found.answer.cell].text) == (
        Status.PROVISIONAL,
        "laps((4, 3, 2))",
    )
    assert found.answer.cell not in found.answer.certificate["cell"].to_list()
    assert found.answer.p_value is None
    assert found.answer.more_groups >= 240
