"""Resets at scale: 200,000 branches against the literal gates in plain Python, in one run."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from agentlens.detect.resets import resets
from agentlens.model.branch import branches_frame
from agentlens.model.raw import RawBranch
from benchmarks._measure import Row, alone, growing, once
from tests.oracle.resets import judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import polars as pl

_BRANCHES = 200_000
_KEYS = ("memory", "browser", "workspace", "tool_registry", "approval_queue")


def run(scale: float = 1.0) -> Iterator[Row]:
    """Judge up to ``scale`` x 200,000 branches; states must be equal on all."""
    yield from growing(_at, _BRANCHES * scale)


def _at(times: int, count: float) -> Row:
    told = branches(round(count))
    taken = alone("benchmarks.resets:judging", len(told), repeats=3)
    right = judge(told)
    literal = once(lambda: judge(told))
    judged = resets(_typed(told).lazy()).select("branch_id", "state").collect(engine="in-memory")
    differing = sum(right[name]["state"] != state for name, state in judged.iter_rows())
    return taken.row(
        "branches to gates",
        growth=times,
        events=len(told),
        ratios={
            "literal gates in plain Python / this (at least 30)": literal[0] / taken.seconds,
            "the same by processor time": literal[1] / taken.cpu_s,
        },
        told={"states that differ (none may)": differing + abs(judged.height - len(right))},
    )


def judging(count: int) -> Callable[[], int]:
    """Judge branches that are typed already; gives how many. Its peak holds the making of them, too."""
    frame = _typed(branches(count))
    return lambda: resets(frame.lazy()).collect(engine="in-memory").height


def _typed(told: list[dict[str, Any]]) -> pl.DataFrame:
    raw = (RawBranch(fields=one, position=(at, 0)) for at, one in enumerate(told))
    return branches_frame(raw, source="b").frame


def branches(count: int, seed: int = 7) -> list[dict[str, Any]]:
    """Branches in families of chains up to some dozens deep; one in six is stopped by some gate."""
    rng = random.Random(seed)
    return [_branch(rng, number) for number in range(count)]


def _branch(rng: random.Random, number: int) -> dict[str, Any]:
    digest = f"d{number}"
    state = [{"key": key, "before": digest, "restored": digest, "result": "exact"} for key in _KEYS]
    fate = rng.random()
    if fate < 0.04:
        state[rng.randrange(5)]["result"] = "partial"
    elif fate < 0.06:
        state.pop()
    parent = f"branch-{number - 1}" if number % 40 else f"run-{number}"
    return {
        "branch_id": f"branch-{number}",
        "parent_id": f"branch-{number}" if rng.random() < 0.01 else parent,
        "at": number,
        "fork_point": f"checkpoint-{number % 7}",
        "required_state": list(_KEYS),
        "state": state,
        "effects": [
            {
                "operation_id": f"e{number}",
                "kind": "mail",
                "status": "pending" if rng.random() < 0.03 else "reconciled",
            }
        ],
        "edit_class": "budget" if rng.random() < 0.03 else "plan",
        "local": True,
        "authority": {"operator": "me", "decision_id": None, "approved": None},
        "config": {"parent_digest": "c", "branch_digest": "c", "pinned": rng.random() > 0.03, "delta": []},
        "resumed": rng.random() < 0.7,
        "final_answer": rng.random() < 0.5,
        "outcome": {"receipt_id": f"o{number}", "verified": rng.random() < 0.6},
    }
