"""Closed vocabularies."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """What a lane was doing at one event, in ascending order of how bad it is for a run."""

    WORKING = "working"
    WAITING = "waiting"
    RETRYING = "retrying"
    UNCERTAIN = "uncertain"
    STUCK_LOOP = "stuck_loop"
    FAILED_OUTCOME = "failed_outcome"


class Reason(StrEnum):
    """Why a verdict was given where the verdict alone does not say it."""

    UNREACHABLE = "unreachable"
    OUTCOME_FAILED = "outcome_failed"
    PERMISSION_LOST = "permission_lost"
    LEASE = "lease"
    POLICY = "policy"
    MISSING_FINGERPRINT = "missing_fingerprint"
    MISSING_SIGNATURE = "missing_signature"
    VERSION_CHANGE = "version_change"
    # a lease that was there and not honoured; the verdict is decided further down
    LEASE_NO_OWNER = "lease_no_owner"
    LEASE_NO_DEADLINE = "lease_no_deadline"
    LEASE_EXPIRED = "lease_expired"
    LEASE_RENEWED_TOO_OFTEN = "lease_renewed_too_often"
    LEASE_NO_TIME = "lease_no_time"


class Kind(StrEnum):
    """What an event is. Only actions take part in cycles; the rest are facts around them."""

    TOOL = "tool"
    HANDOFF = "handoff"
    MESSAGE = "message"
    MODEL = "model"
    AGENT = "agent"
    ACCEPT = "accept"
    WAIT = "wait"
    RESUME = "resume"
    APPROVAL = "approval"
    RETRY = "retry"
    CHECKPOINT = "checkpoint"
    RESET = "reset"
    FORK = "fork"
    COMPACTION = "compaction"
    CLAIM = "claim"
    VERDICT = "verdict"
    LOG = "log"


class Outcome(StrEnum):
    """What something outside the agent said of a result."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"
