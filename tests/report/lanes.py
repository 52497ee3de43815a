"""Small literal tables that the report's tests draw."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl

from agentlens.model.event import EVENTS
from agentlens.model.verdict import EPISODES, RUNS, VERDICTS

START = datetime(2026, 11, 2, 8, tzinfo=UTC)


def filled(rows: list[dict], schema: pl.Schema) -> pl.DataFrame:
    """Rows with every column of the schema, null where nothing is said."""
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema)


def tables(run: str = "r-1", tool: str = "search", other: str = "read") -> dict[str, pl.DataFrame]:
    """One run of nine actions: three of work, then three laps of search and read over unchanged evidence."""
    tools = ["open", "list", "open", *[tool, other] * 3]
    signatures = ["a", "b", "c", *["d", "e"] * 3]
    evidence = ["f0", None, "f2", *["f3", "f4"] * 3]
    at = [START + timedelta(seconds=5 * i) for i in range(9)]
    key = [{"run_id": run, "agent": "", "seq": i, "at": at[i]} for i in range(9)]
    events = [
        row
        | {
            "tool": tools[i],
            "kind": "tool",
            "action_signature": signatures[i],
            "progress_fingerprint": evidence[i],
        }
        for i, row in enumerate(key)
    ]
    verdicts = [row | {"verdict": "working", "suspect": False, "stalled_events": 0} for row in key]
    verdicts[1] |= {"verdict": "uncertain", "reason": "missing_fingerprint"}
    verdicts[8] |= {"verdict": "stuck_loop", "period": 2, "laps": 3}
    episode = {
        "run_id": run,
        "agent": "",
        "period": 2,
        "laps": 3,
        "tools": [tool, other],
        "onset_seq": 3,
        "alert_seq": 8,
        "end_seq": 8,
        "tokens": 1_200,
        "cost_usd": 0.5,
        "lap_fingerprints": ["f3", "f4"],
        "lap_signatures": ["d", "e"],
    }
    summed = {
        "run_id": run,
        "workflow": "w",
        "lanes": 1,
        "events": 9,
        "started_at": at[0],
        "ended_at": at[8],
        "verdict": "stuck_loop",
        "alerts": 1,
        "stuck_events": 1,
        "stuck_us": 0,
        "uncertain_events": 1,
        "stalled_events": 0,
        "tokens": 3_000,
        "cost_usd": 1.0,
        "loop_tokens": 1_200,
        "loop_cost_usd": 0.5,
    }
    return {
        "verdicts": filled(verdicts, VERDICTS),
        "episodes": filled([episode], EPISODES),
        "runs": filled([summed], RUNS),
        "events": filled(events, EVENTS),
    }
