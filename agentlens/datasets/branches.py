"""Planted branches: resets of press runs, one for each gate that can stop one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentlens.datasets.draws import Draws
from agentlens.datasets.records import stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.datasets.story import PlantedRun

KEYS = ("agent_memory", "browser", "workspace", "tool_registry", "approval_queue")

STATES: tuple[str, ...] = (
    "verified",
    "ready_to_resume",
    "resumed",
    "false_success",
    "invalid_lineage",
    "restore_uncertain",
    "effects_unreconciled",
    "needs_approval",
    "config_unpinned",
)
"""The state that the planted branch of each row is in, by what was left out of it."""


def branches(runs: Sequence[PlantedRun], *, seed: int) -> list[dict[str, Any]]:
    """Return branch receipts whose parents are the given runs, going round `STATES`.

    The expected state of the k-th is ``STATES[k % len(STATES)]``; ids say nothing of it.
    """
    return [_branch(run, STATES[k % len(STATES)], Draws(seed, "branch", k), k) for k, run in enumerate(runs)]


def _branch(run: PlantedRun, state: str, draws: Draws, k: int) -> dict[str, Any]:
    digests = {key: draws.hex(16) for key in KEYS}
    fork = max(len(run.steps) // 2, 1)
    row: dict[str, Any] = {
        "branch_id": f"branch-{k:03d}-{draws.hex(4)}",
        "parent_id": run.run_id,
        "at": stamp(run.start_ms + run.steps[-1].end_ms + 60_000),
        "fork_point": f"ckpt-{fork}",
        "required_state": list(KEYS),
        "state": [
            {"key": key, "before": digest, "restored": digest, "result": "exact"}
            for key, digest in digests.items()
        ],
        "effects": [{"operation_id": f"mail-{draws.hex(4)}", "kind": "mail", "status": "reconciled"}],
        "edit_class": draws.pick(("none", "detail", "simplify", "plan")),
        "local": True,
        "authority": {"operator": "desk-editor", "decision_id": None, "approved": None},
        "config": {"parent_digest": draws.hex(12), "branch_digest": "", "pinned": True, "delta": []},
        "resumed": True,
        "final_answer": True,
        "outcome": {"receipt_id": f"out-{k:03d}", "verified": True},
    }
    row["config"]["branch_digest"] = row["config"]["parent_digest"]
    _leave_out(row, state)
    return row


def _leave_out(row: dict[str, Any], state: str) -> None:
    """Change the one thing that puts the branch into the state."""
    if state == "ready_to_resume":
        row |= {"resumed": False, "final_answer": False, "outcome": None}
    elif state == "resumed":
        row |= {"final_answer": False, "outcome": None}
    elif state == "false_success":
        row["outcome"] = None
    elif state == "invalid_lineage":
        row["fork_point"] = None
    elif state == "restore_uncertain":
        row["state"][1] |= {"restored": None, "result": "partial"}
    elif state == "effects_unreconciled":
        row["effects"][0]["status"] = "pending"
    elif state == "needs_approval":
        row |= {"edit_class": "recipients"}
    elif state == "config_unpinned":
        row["config"]["pinned"] = False
