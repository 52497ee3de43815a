"""The lanes of a source as they are judged: for tests that two shapes of one run say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentlens.detect.loops import loops
from agentlens.detect.rules import laps
from agentlens.lake.direct import read_file
from agentlens.normalise import Key, Normaliser, Tables

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

NORMALISER = Normaliser(key=Key.public_demo(), tables=Tables.load())
LANE = ("run_id", "agent", "seq")


def judged(path: Path, format: str | None = None) -> pl.DataFrame:  # noqa: A002
    """Return the actions of a file with their digests and verdicts, sorted by lane."""
    read = read_file(path, NORMALISER, format=format)
    verdicts = loops(read.events, laps((4, 3, 2))).select(*LANE, "verdict", "reason", "period")
    told = read.events.join(verdicts, on=LANE, how="inner").sort(LANE)
    facts = ("kind", "tool", "action_signature", "progress_fingerprint", "error_class", "open", "target")
    return told.select(*LANE, *facts, "verdict", "reason", "period").collect()
