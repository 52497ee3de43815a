"""Small native exports for the tests of the lake, and comparisons of what was made of them."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING

from agentlens.lake import Lake
from agentlens.normalise.digest import Key
from agentlens.normalise.rows import Normaliser
from agentlens.normalise.tables import Tables

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

NORMALISER = Normaliser(key=Key.public_demo(), tables=Tables.load())


def event(run: str, seq: int, **more: object) -> dict:
    """One native event."""
    plain = {"run_id": run, "seq": seq, "at": 1_790_000_000 + seq, "tool": "search", "args": {"q": seq % 3}}
    return plain | {"result": f"found {seq % 5}"} | more


def run_of(run: str, events: int = 5, **more: object) -> list[dict]:
    """The events of one run."""
    return [event(run, seq, **more) for seq in range(events)]


def write(path: Path, *rows: dict | str) -> Path:
    """Write one JSON object a line; text is written as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def receipt(operation: str, event_name: str = "delegated", **more: object) -> dict:
    """One native receipt."""
    plain = {"operation_id": operation, "handoff_id": f"{operation}-1", "event": event_name}
    return plain | {"at": "2026-10-05T08:00:00Z", "author": "a", "expected_artifact": "x"} | more


def events(lake: Path) -> pl.DataFrame:
    """All events of a lake, in one order."""
    return Lake.open(lake).events().sort("run_id", "agent", "seq").collect()


def tree(folder: Path) -> dict[str, str]:
    """Every file below a folder with the digest of its bytes."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): blake2b(path.read_bytes()).hexdigest() for path in files}
