"""What the loop detector returns (SPEC section 7)."""

from __future__ import annotations

import polars as pl

from agentlens.model.event import TIME

VERDICTS = pl.Schema(
    {
        "run_id": pl.String(),
        "agent": pl.String(),
        "seq": pl.Int64(),
        "at": TIME,
        "verdict": pl.String(),
        "reason": pl.String(),
        "period": pl.Int64(),
        "laps": pl.Int64(),
        "suspect": pl.Boolean(),
        "stalled_events": pl.Int64(),
        "policy_source": pl.String(),
    }
)
"""One row an action event, sorted by run, lane and seq. ``policy_source``: ``event`` or ``file``."""

EPISODES = pl.Schema(
    {
        "run_id": pl.String(),
        "agent": pl.String(),
        "period": pl.Int64(),
        "laps": pl.Int64(),
        "tools": pl.List(pl.String),
        "onset_seq": pl.Int64(),
        "alert_seq": pl.Int64(),
        "end_seq": pl.Int64(),
        "onset_at": TIME,
        "alert_at": TIME,
        "end_at": TIME,
        "closed_by": pl.String(),
        "tokens": pl.Int64(),
        "cost_usd": pl.Float64(),
        "lap_signatures": pl.List(pl.String),
        "lap_fingerprints": pl.List(pl.String),
    }
)
"""One row an episode. ``closed_by``: ``evidence``, ``milestone``, ``outcome``, ``other_loop``; null: still open."""

RUNS = pl.Schema(
    {
        "run_id": pl.String(),
        "workflow": pl.String(),
        "lanes": pl.Int64(),
        "events": pl.Int64(),
        "started_at": TIME,
        "ended_at": TIME,
        "verdict": pl.String(),
        "alerts": pl.Int64(),
        "first_alert_seq": pl.Int64(),
        "first_alert_at": TIME,
        "stuck_events": pl.Int64(),
        "stuck_us": pl.Int64(),
        "uncertain_events": pl.Int64(),
        "stalled_events": pl.Int64(),
        "tokens": pl.Int64(),
        "cost_usd": pl.Float64(),
        "loop_tokens": pl.Int64(),
        "loop_cost_usd": pl.Float64(),
    }
)
"""One row a run. ``events`` counts actions; durations are integer microseconds."""
