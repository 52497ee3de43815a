"""Between plain events and the frames of the package, and a minimal loader of native records."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens.model.event import EVENTS
from tests.oracle.lanes import Event, Lease, Policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RENAMED = {"signature": "action_signature", "fingerprint": "progress_fingerprint", "policy": "retry_policy"}


def _policy_row(policy: Policy | None) -> dict[str, Any] | None:
    return None if policy is None else {**vars(policy), "errors": list(policy.errors)}


def _lease_row(lease: Lease | None) -> dict[str, Any] | None:
    return None if lease is None else dict(vars(lease))


def frame(events: Iterable[Event]) -> pl.DataFrame:
    """Build an EVENTS frame; columns that plain events do not have are null."""
    rows = []
    for event in events:
        row = {_RENAMED.get(name, name): value for name, value in vars(event).items()}
        rows.append({**row, "retry_policy": _policy_row(event.policy), "lease": _lease_row(event.lease)})
    return pl.DataFrame(rows, schema_overrides=_loose()).select(
        [
            pl.col(name).cast(dtype)
            if name in Event.__dataclass_fields__ or name in _RENAMED.values()
            else pl.lit(None, dtype=dtype).alias(name)
            for name, dtype in EVENTS.items()
        ]
    )


def _loose() -> dict[str, pl.DataType]:
    """Input types: those of EVENTS, with times still as integers."""
    lease = pl.Struct(
        [pl.Field(f.name, pl.Int64() if f.name == "deadline" else f.dtype) for f in EVENTS["lease"].fields]
    )
    known = {name for name in EVENTS if name in Event.__dataclass_fields__ or name in _RENAMED.values()}
    return {
        **{name: EVENTS[name] for name in known},
        "at": pl.Int64(),
        "ended_at": pl.Int64(),
        "lease": lease,
    }


def _microseconds(text: str | None) -> int | None:
    if text is None:
        return None
    delta = datetime.fromisoformat(text) - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def _signature(record: Mapping[str, Any]) -> str | None:
    if "args" not in record:
        return record.get("action_signature")
    args = {k: v for k, v in record["args"].items() if k != "request_id"}
    return json.dumps([record["tool"], args], sort_keys=True)


def native(record: Mapping[str, Any]) -> Event:
    """Read one native record whose fingerprints are given; enough for the reference cases, no more."""
    lease, policy = record.get("lease"), record.get("retry_policy")
    same = (
        "run_id",
        "seq",
        "tool",
        "milestone",
        "error_class",
        "attempt",
        "external_input",
        "reachable",
        "hard_failure",
    )
    return Event(
        **{name: record[name] for name in same if name in record},
        agent=record.get("agent", ""),
        signature=_signature(record),
        fingerprint=record.get("progress_fingerprint"),
        at=_microseconds(record.get("at")),
        ended_at=_microseconds(record.get("ended_at")),
        pause=record["tool"] in {"sleep", "wait"},
        policy=None if policy is None else Policy(**{**policy, "errors": tuple(policy["errors"])}),
        lease=None if lease is None else Lease(**{**lease, "deadline": _microseconds(lease.get("deadline"))}),
    )


def read_native(path: Path) -> list[Event]:
    """Read a file of native records."""
    return [native(json.loads(line)) for line in path.read_text("utf-8").splitlines() if line.strip()]


def read_expected(path: Path, column: str) -> dict[tuple[str, int], str]:
    """Read the expected verdict of every event."""
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    return {(r["run_id"], r["seq"]): r[column] for r in records}
