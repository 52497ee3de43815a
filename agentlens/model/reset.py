"""What the reset judgement returns (SPEC sections 5 and 7)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import polars as pl

from agentlens.model.event import TIME


class BranchState(StrEnum):
    """State of a branch; the first five say which gate stopped it."""

    INVALID_LINEAGE = "invalid_lineage"
    RESTORE_UNCERTAIN = "restore_uncertain"
    EFFECTS_UNRECONCILED = "effects_unreconciled"
    NEEDS_APPROVAL = "needs_approval"
    CONFIG_UNPINNED = "config_unpinned"
    READY_TO_RESUME = "ready_to_resume"
    RESUMED = "resumed"
    FALSE_SUCCESS = "false_success"
    VERIFIED = "verified"


GATES: Final[tuple[str, ...]] = ("lineage", "restore", "effects", "authority", "configuration", "outcome")
"""Gates 1 to 6. The first five make a branch ready, only the sixth makes it verified."""

STOPPED: Final[tuple[str, ...]] = tuple(BranchState)[:5]
"""State of a branch that gate 1, 2, 3, 4 or 5 stops."""

RESETS = pl.Schema(
    {
        "branch_id": pl.String(),
        "parent_id": pl.String(),
        "state": pl.String(),
        **{f"gate_{number}": pl.String() for number in range(1, 7)},
        "reason": pl.String(),
        "subject": pl.String(),
        "exact_replay": pl.Boolean(),
        **{f"reason_{number}": pl.String() for number in range(1, 7)},
        "at": TIME,
        "fork_point": pl.String(),
        "edit_class": pl.String(),
        "workflow": pl.String(),
        "resumed": pl.Boolean(),
        "final_answer": pl.Boolean(),
        "outcome_receipt": pl.String(),
        "family": pl.String(),
        "depth": pl.Int64(),
        "siblings_resumed": pl.Int64(),
        "repeated_resume": pl.Boolean(),
        "parent_in_lake": pl.Boolean(),
        "unlisted_effects": pl.Int64(),
        "inferred": pl.Boolean(),
        "rule": pl.String(),
        "source": pl.String(),
    }
)
"""One row a branch, sorted by id.

``gate_1`` .. ``gate_6``: ``pass``, ``fail`` or ``unknown``, each with its own reason, even when an earlier one
decided. ``reason`` and ``subject``: of the gate that decided (a state key, an effect, a field). ``exact_replay``:
every required key came back exact. ``family``: the run at the top of the lineage; ``depth``: resets below it, null
on a cycle. ``repeated_resume``: resumed again from the same point while authority or effects are not settled.
``parent_in_lake``, ``unlisted_effects``: null where no events were given.
"""

STATE_KEYS = pl.Schema(
    {
        "branch_id": pl.String(),
        "key": pl.String(),
        "required": pl.Boolean(),
        "before": pl.String(),
        "restored": pl.String(),
        "result": pl.String(),
        "status": pl.String(),
        "reason": pl.String(),
    }
)
"""One row a branch and state key, required or reported. ``status``: ``pass``, ``fail``, ``unknown``."""

EFFECTS = pl.Schema(
    {
        "branch_id": pl.String(),
        "operation_id": pl.String(),
        "kind": pl.String(),
        "status": pl.String(),
        "decision_id": pl.String(),
        "listed": pl.Boolean(),
        "gate": pl.String(),
        "reason": pl.String(),
        "agent": pl.String(),
        "seq": pl.Int64(),
        "at": TIME,
        "source": pl.String(),
    }
)
"""One row an effect after the checkpoint: those of the receipt, and those only the parent's trace shows."""

FUNNEL = pl.Schema(
    {
        "gate": pl.String(),
        "entered": pl.Int64(),
        "passed": pl.Int64(),
        "reason": pl.String(),
        "stopped": pl.Int64(),
    }
)
"""One row a gate and reason: how many branches came to the gate, how many passed, which fact stopped the rest."""

FAMILIES = pl.Schema(
    {
        "family": pl.String(),
        "branches": pl.Int64(),
        "depth": pl.Int64(),
        "verified": pl.Int64(),
        "ready": pl.Int64(),
        "stopped": pl.Int64(),
        "cyclic": pl.Boolean(),
    }
)
"""One row a family of branches."""

COMPARISON = pl.Schema(
    {
        "branch_id": pl.String(),
        "parent_id": pl.String(),
        "fork_found": pl.Boolean(),
        "parent_events_after_fork": pl.Int64(),
        "branch_events": pl.Int64(),
        "parent_external": pl.Int64(),
        "branch_external": pl.Int64(),
        "parent_verdict": pl.String(),
        "branch_verdict": pl.String(),
        "parent_outcome": pl.String(),
        "branch_outcome": pl.String(),
    }
)
"""One row a branch whose run and whose parent's run are both at hand."""

REPEATED_EFFECTS = pl.Schema(
    {
        "branch_id": pl.String(),
        "parent_id": pl.String(),
        "tool": pl.String(),
        "action_signature": pl.String(),
        "parent_agent": pl.String(),
        "parent_seq": pl.Int64(),
        "branch_agent": pl.String(),
        "branch_seq": pl.Int64(),
        "parent_source": pl.String(),
        "branch_source": pl.String(),
    }
)
"""Pairs of the same external effect on parent and branch after the fork: possible repetitions."""

UNRECEIPTED = pl.Schema(
    {
        "run_id": pl.String(),
        "agent": pl.String(),
        "seq": pl.Int64(),
        "at": TIME,
        "tool": pl.String(),
        "reset": pl.String(),
        "open": pl.Boolean(),
        "run_has_branch": pl.Boolean(),
        "source": pl.String(),
    }
)
"""Commands that destroyed or rewound work and that no branch receipt speaks of."""
