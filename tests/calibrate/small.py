"""Small literal lanes and labels."""

from __future__ import annotations

import polars as pl

from agentlens.calibrate.labels import conform_labels
from agentlens.model.event import EVENTS


def lane(run: str, actions: str, evidence: str | None = None, *, at: int | None = 0, **more) -> pl.DataFrame:
    """One event a letter, ten seconds apart; evidence letters, `.` for unknown, or all equal where None."""
    seen = evidence or "e" * len(actions)
    frame = pl.DataFrame(
        {
            "run_id": run,
            "agent": "",
            "seq": range(len(actions)),
            "tool": "t",
            "kind": "tool",
            "action_signature": list(actions),
            "progress_fingerprint": pl.Series([None if f == "." else f for f in seen], dtype=pl.String),
            **more,
        }
    )
    if at is not None:
        times = [1_000_000 * (at + 10 * i) for i in range(len(actions))]
        frame = frame.with_columns(pl.Series("at", times).cast(EVENTS["at"]))
    return frame


def lanes(*frames: pl.DataFrame) -> pl.DataFrame:
    """Put lanes under one another in the types of the event table."""
    whole = pl.concat(frames, how="diagonal")
    return whole.with_columns(pl.col(n).cast(EVENTS[n]) for n in whole.columns)


def labels(*rows: dict) -> pl.DataFrame:
    """Label rows from dicts."""
    names = sorted({name for row in rows for name in row})
    return conform_labels(
        pl.DataFrame([{n: row.get(n) for n in names} for row in rows], infer_schema_length=None)
    )
