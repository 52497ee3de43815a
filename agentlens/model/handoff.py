"""What the handoff judgement returns (SPEC sections 4 and 7)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import polars as pl

from agentlens.model.event import TIME


class HandoffState(StrEnum):
    """State of a handoff at one moment, in the order of the rules that decide it."""

    UNCERTAIN = "uncertain"
    VERIFIED = "verified"
    FAILED_OUTCOME = "failed_outcome"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    WAITING = "waiting"
    ORPHANED = "orphaned"
    DELEGATED = "delegated"
    STUCK = "stuck"
    WORKING = "working"


class HandoffReason(StrEnum):
    """Why, where the state alone does not say it."""

    VERIFICATION_FAILED = "verification_failed"
    NEVER_VERIFIED = "never_verified"
    VERIFICATION_UNKNOWN = "verification_unknown"
    VERIFICATION_UNAVAILABLE = "verification_unavailable"
    NO_DEADLINE = "no_deadline"
    # a trace without times: what was not seen is known, how long it took is not
    NEVER_ACCEPTED = "never_accepted"
    NO_TIME = "no_time"


DISAGREEMENTS: Final[tuple[str, ...]] = (
    "no_delegation",
    "two_acceptors",
    "other_acceptor",
    "artifact_changed",
    "unknown_event",
    "accepted_before_delegated",
    "work_before_accepted",
    "verified_before_completed",
    "outcomes_differ",
    "author_not_authentic",
)
"""How receipts of one handoff can disagree; any of them makes it uncertain."""

HANDOFFS = pl.Schema(
    {
        "operation_id": pl.String(),
        "handoff_id": pl.String(),
        "state": pl.String(),
        "reason": pl.String(),
        "ack_latency_us": pl.Int64(),
        "late_ack": pl.Boolean(),
        "implied_ack": pl.Boolean(),
        "clock_skew": pl.Boolean(),
        "disagreement": pl.String(),
        "failing_receipts": pl.List(pl.String),
        "unsigned": pl.Boolean(),
        "attempt": pl.Int64(),
        "author": pl.String(),
        "recipient": pl.String(),
        "expected_artifact": pl.String(),
        "urgency": pl.String(),
        "ack_limit_us": pl.Int64(),
        "delegated_at": TIME,
        "accepted_at": TIME,
        "completed_at": TIME,
        "verified_at": TIME,
        "closed_at": TIME,
        "newest_at": TIME,
        "newest_event": pl.String(),
        "outcome": pl.String(),
        "wait_owner": pl.String(),
        "wait_until": TIME,
        "accepted": pl.Boolean(),
        "completed": pl.Boolean(),
        "inferred": pl.Boolean(),
        "rule": pl.String(),
        "run_id": pl.String(),
        "trace_id": pl.String(),
        "source": pl.String(),
        "suggestion": pl.String(),
        "authority": pl.String(),
        "attempt_limit": pl.Int64(),
        "time_limit_us": pl.Int64(),
        "success_evidence": pl.String(),
        "as_of": TIME,
    }
)
"""One row a handoff, sorted by operation and handoff.

``ack_latency_us``: first delegation to acceptance, negative under clock skew, null while unaccepted. ``late_ack``:
beyond the limit of its urgency class; null while unaccepted. ``implied_ack``: a later receipt of the recipient
stood in for an `accepted`. ``clock_skew``: receipts stand in the wrong order, within the tolerance.
``disagreement``: names out of `DISAGREEMENTS`, joined by commas. ``failing_receipts``: sources of receipts whose
author failed authentication. ``unsigned``: some receipt carries no ``mac`` (null where no keys were given).
``closed_at``: first `rejected` or `cancelled`, for acknowledgement a competing event. ``source``: the delegation.
The last columns suggest a bounded next step; nothing is ever done.
"""

OPERATIONS = pl.Schema(
    {
        "operation_id": pl.String(),
        "handoff_id": pl.String(),
        "state": pl.String(),
        "reason": pl.String(),
        "attempts": pl.Int64(),
        "accepted_attempts": pl.Int64(),
        "first_delegated_at": TIME,
        "last_delegated_at": TIME,
        "newest_at": TIME,
        "expected_artifact": pl.String(),
        "urgency": pl.String(),
        "inferred": pl.Boolean(),
        "run_id": pl.String(),
        "suggestion": pl.String(),
        "as_of": TIME,
    }
)
"""One row an operation: the state of its newest handoff (the one delegated last), and its attempts."""
