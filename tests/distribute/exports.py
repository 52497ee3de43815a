"""Small native exports for the lakes of these tests: short runs, one huge run, facts of every kind."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agentlens.lake import ingest
from agentlens.normalise.digest import Key
from agentlens.normalise.rows import Normaliser
from agentlens.normalise.tables import Tables

HUGE = 3_000
START = datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC)


def at(minutes: int, more_us: int = 0) -> str:
    """A moment so many minutes after the first, with microseconds."""
    return (START + timedelta(minutes=minutes, microseconds=more_us)).isoformat()


def event(run: str, seq: int, **facts: Any) -> dict[str, Any]:
    row = {
        "run_id": run,
        "agent": "worker",
        "seq": seq,
        "at": at(seq),
        "ended_at": at(seq, 1_000_003),
        "tool": "read",
        "args": {"path": f"file-{seq % 7}"},
        "result": {"text": f"{run}-{seq}"},
        "workflow": "desk" if run < "run-05" else "code",
        "tokens_in": 100 + seq,
        "tokens_out": 7,
        "cost_usd": 0.0001 * (seq % 11),
    }
    return row | facts


def stuck(run: str, count: int) -> list[dict[str, Any]]:
    """A run that reads the same two files over and over, with the same answers."""
    return [
        event(run, seq, args={"path": f"same-{seq % 2}"}, result={"text": f"same-{seq % 2}"})
        for seq in range(count)
    ]


def rows(huge: int = HUGE) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number in range(10):
        run = f"run-{number:02}"
        found += stuck(run, 12) if number % 3 == 0 else [event(run, seq) for seq in range(9 + number)]
    found += stuck("run-huge", huge)
    policy = {"errors": ["*"], "interval_s": 1.5, "max_attempts": 3, "backoff_rate": 2.0}
    for seq in range(4):
        more = {"error_class": "timeout", "attempt": seq + 1, "retry_policy": policy}
        found.append(event("run-retry", seq, args={"q": 1}, result={"text": "x"}, **more))
    lease = {
        "owner": "ops",
        "waits_on": "build",
        "deadline": at(500),
        "renewals": 1,
        "max_renewals": 3,
    }
    found += [
        event("run-wait", seq, args={"q": 1}, result={"text": "x"}, lease=lease, milestone=None)
        for seq in range(6)
    ]
    found.append(event("run-null", 0, at=None, ended_at=None, agent=None, result=None))
    found.append(event("Läufe ✓ \u0000", 1, tool="größe"))
    return found


def write(folder: Path, events: list[dict[str, Any]], files: int = 3) -> Path:
    """Write events as native files; a run stays in one file."""
    folder.mkdir(parents=True, exist_ok=True)
    texts: list[list[str]] = [[] for _ in range(files)]
    for row in events:
        place = sum(str(row["run_id"]).encode()) % files
        texts[place].append(json.dumps(row))
    for number, lines in enumerate(texts):
        (folder / f"events-{number}.ndjson").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def normaliser(*, keep_content: bool = False) -> Normaliser:
    return Normaliser(key=Key.public_demo(), tables=Tables.load(), keep_content=keep_content)


def lake(folder: Path, events: list[dict[str, Any]], *, keep_content: bool = False) -> Path:
    """Ingest events locally and return the lake's folder."""
    source = write(folder / "source", events)
    told = ingest([str(source)], folder / "lake", normaliser=normaliser(keep_content=keep_content), workers=1)
    assert told.records >= len(events) > told.quarantined == 0
    return folder / "lake"
