"""The engine against the literal gates over random branches."""

from __future__ import annotations

import random

import pytest

from tests.detect.test_resets import judged
from tests.oracle.resets import judge

WORD = {1: "pass", 0: "fail", None: "unknown"}


def some(rng, values, usual):
    """The usual value mostly, else any of the others."""
    return usual if rng.random() < 0.85 else rng.choice(values)


def entry(rng, name):
    return {
        "key": name,
        "before": some(rng, [None, "", "d2"], "d1"),
        "restored": some(rng, [None, "", "d2"], "d1"),
        "result": some(rng, ["partial", "failed", "drift_acknowledged", None], "exact"),
    }


def branch(rng, number, of):
    keys = [name for name in ("memory", "tool_registry", "queue") if rng.random() < 0.8]
    reported = [entry(rng, name) for name in keys if rng.random() < 0.97]
    if rng.random() < 0.1:
        reported.append(entry(rng, rng.choice(["memory", "extra"])))
    config = {
        "parent_digest": some(rng, [None, "", "c2"], "c1"),
        "branch_digest": some(rng, [None, "", "c2"], "c1"),
        "pinned": some(rng, [None, False], True),
        "delta": rng.choice([None, [], [], ["model"]]),
    }
    effect = {
        "operation_id": f"e{rng.randrange(9)}",
        "status": some(rng, ["pending", "irreversible", None, "reverted"], "reconciled"),
        "decision_id": rng.choice([None, "d", ""]),
    }
    return {
        "branch_id": f"b{number}",
        "parent_id": some(rng, [None, "", f"b{rng.randrange(of)}", f"b{rng.randrange(of)}"], "run"),
        "at": rng.choice([None, 1, 2]),
        "fork_point": some(rng, [None, "", "c9"], "c1"),
        "checkpoints": rng.choice([None, None, None, ["c1"], []]),
        "local": some(rng, [None, False], True),
        "required_state": some(rng, [None, []], keys),
        "state": some(rng, [None, []], reported),
        "effects": some(rng, [None, []], [effect]),
        "edit_class": some(rng, [None, "budget"], "plan"),
        "authority": rng.choice([None, {"decision_id": rng.choice([None, "d"]), "approved": rng.choice([None, True, False])}]),
        "config": some(rng, [None], config),
        "resumed": rng.choice([None, False, True, True]),
        "final_answer": rng.choice([None, False, True, True]),
        "outcome": some(rng, [None], {"receipt_id": some(rng, [None, "", "o"], f"o{number}"), "verified": some(rng, [None, False], True)}),
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_engine_and_literal_gates_agree_on_every_branch(seed):
    """Every gate, the state and exactness are those of the gates written out literally."""
    rng = random.Random(seed)
    receipts = [branch(rng, number, 300) for number in range(300)]
    receipts += [branch(rng, rng.randrange(300), 300) for _ in range(20)]
    right = judge(receipts)
    told = judged(*receipts)
    assert told.height == len(right)
    for row in told.iter_rows(named=True):
        expected = right[row["branch_id"]]
        gates = [row[f"gate_{number}"] for number in range(1, 7)]
        assert (gates, row["state"], row["exact_replay"]) == (
            [WORD[gate] for gate in expected["gates"]],
            expected["state"],
            expected["exact_replay"],
        ), row["branch_id"]


def test_random_branches_reach_every_state():
    """The comparison above is worth something: each state occurs in it."""
    rng = random.Random(1)
    told = judged(*[branch(rng, number, 10**6) for number in range(3000)])
    assert len(set(told["state"])) == 9
