"""The canonical event: one row per consequential action or fact of a lane (SPEC section 2)."""

from __future__ import annotations

import polars as pl

TIME = pl.Datetime("us", "UTC")

RETRY_POLICY = pl.Struct(
    {
        "errors": pl.List(pl.String),
        "interval_s": pl.Float64,
        "max_attempts": pl.Int64,
        "backoff_rate": pl.Float64,
        "max_delay_s": pl.Float64,
        "jitter": pl.Float64,
    }
)
"""Declared retry policy. ``errors`` may hold ``*``; the first attempt counts towards ``max_attempts``."""

LEASE = pl.Struct(
    {
        "owner": pl.String,
        "waits_on": pl.String,
        "deadline": TIME,
        "renewals": pl.Int64,
        "max_renewals": pl.Int64,
    }
)
"""A declared wait: on what, whose, until when, how often renewed."""

EVENTS = pl.Schema(
    {
        "run_id": pl.String(),
        "agent": pl.String(),
        "seq": pl.Int64(),
        "at": TIME,
        "ended_at": TIME,
        "workflow": pl.String(),
        "model": pl.String(),
        "agent_version": pl.String(),
        "tokens_in": pl.Int64(),
        "tokens_out": pl.Int64(),
        "cost_usd": pl.Float64(),
        "kind": pl.String(),
        "tool": pl.String(),
        "external_input": pl.Boolean(),
        "action_signature": pl.String(),
        "progress_fingerprint": pl.String(),
        "milestone": pl.String(),
        "error_class": pl.String(),
        "attempt": pl.Int64(),
        "retry_policy": RETRY_POLICY,
        "lease": LEASE,
        "reachable": pl.Boolean(),
        "hard_failure": pl.String(),
        "trace_id": pl.String(),
        "span_id": pl.String(),
        "parent_span_id": pl.String(),
        "call_id": pl.String(),
        # facts that the judgements of handoffs and resets, and retries, stand on; all content-free
        "open": pl.Boolean(),
        "pause": pl.Boolean(),
        "change": pl.Boolean(),
        "check": pl.Boolean(),
        "external": pl.Boolean(),
        "reset": pl.String(),
        "target": pl.String(),
        "outcome": pl.String(),
        "parent_run_id": pl.String(),
        "parent_agent": pl.String(),
        "task_group": pl.String(),
        "source": pl.String(),
        "reader": pl.String(),
        "normaliser_version": pl.String(),
        "fingerprint_version": pl.String(),
        "key_id": pl.String(),
    }
)
"""Columns and types of the event table.

``open``: started and never seen to end. ``pause``: an explicit sleep or wait. ``change``: the action
changes durable state. ``check``: it verifies (a test, a linter, a diff). ``external``: its effect leaves
the machine. ``reset``: class of a command that destroys or rewinds work (``git_reset_hard``, ...).
``target``: addressee of a handoff, or what a verdict, fork, checkpoint or wait is about. ``outcome``:
``passed``, ``failed`` or ``unknown`` on events of kind ``verdict``. ``call_id``: the call's own id; on kind
``agent``, and on the ``accept`` of a queue's consumer, the span that its span links to (in the trace
``parent_run_id``, else its own), on a handoff told by the caller's span of an agent that span. Null means not
known, never false.
"""

CONTENT = pl.Schema({"args_text": pl.String(), "result_text": pl.String(), "extra": pl.String()})
"""Columns added by ``--keep-content`` only."""

ACTIONS: tuple[str, ...] = ("tool", "handoff")
"""Kinds that take part in cycles unless asked otherwise."""
