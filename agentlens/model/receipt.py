"""Handoff receipts: one append-only transition of a handoff per row (SPEC section 4)."""

from __future__ import annotations

import json
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from agentlens.model.event import TIME
from agentlens.model.native import (
    Typed,
    WrongValueError,
    count_unknown,
    moment,
    named,
    required,
    text,
    warn_identifiers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentlens.model.raw import RawReceipt


class ReceiptEvent(StrEnum):
    """What a receipt says happened, in lifecycle order: the order that breaks ties of time."""

    DELEGATED = "delegated"
    ACCEPTED = "accepted"
    PROGRESS = "progress"
    WAITING = "waiting"
    COMPLETED = "completed"
    OUTCOME_VERIFIED = "outcome_verified"
    REJECTED = "rejected"
    CANCELLED = "cancelled"


FIELDS: Final[tuple[str, ...]] = (
    "operation_id",
    "handoff_id",
    "event",
    "at",
    "author",
    "recipient",
    "expected_artifact",
    "urgency",
    "trace_id",
    "reason",
    "owner",
    "deadline",
    "outcome",
    "mac",
)
"""The contract of a receipt: nothing else is kept, and the writer refuses anything else."""

OUTCOMES: Final = frozenset({"passed", "failed", "unknown"})

RECEIPTS = pl.Schema(
    {
        "operation_id": pl.String(),
        "handoff_id": pl.String(),
        "event": pl.String(),
        "at": TIME,
        "author": pl.String(),
        "recipient": pl.String(),
        "expected_artifact": pl.String(),
        "urgency": pl.String(),
        "trace_id": pl.String(),
        "reason": pl.String(),
        "owner": pl.String(),
        "deadline": TIME,
        "outcome": pl.String(),
        "mac": pl.String(),
        "signed": pl.String(),
        "inferred": pl.Boolean(),
        "rule": pl.String(),
        "verifiable": pl.Boolean(),
        "run_id": pl.String(),
        "order": pl.Int64(),
        "source": pl.String(),
    }
)
"""One row a receipt.

``signed``: canonical JSON of the fields other than ``mac``, as they were written, and only where a ``mac`` was: what
the author signed. Null too where that text would hold fields outside the contract and is not to be kept:
without it the ``mac`` proves nothing. ``inferred``: read out of a trace, by ``rule``. ``verifiable``: false where
the source could not have carried a verification. ``run_id`` and ``order`` (position in the run) belong to
inferred receipts; native ones have neither. ``source``: file and position.
"""

_KNOWN: Final = frozenset(FIELDS)
_TEXTS: Final = ("recipient", "expected_artifact", "urgency", "reason", "owner")


def canonical(fields: Mapping[str, Any]) -> str:
    """Canonical JSON of a receipt without its ``mac``: sorted keys, no spaces, non-ASCII unescaped.

    Examples
    --------
    >>> canonical({"b": "é", "a": 1, "mac": "00"})
    '{"a":1,"b":"é"}'
    """
    rest = {name: value for name, value in fields.items() if name != "mac"}
    return json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def receipts_frame(raw: Iterable[RawReceipt], *, source: str, as_written: bool = False) -> Typed:
    """Typed receipts of one source (schema `RECEIPTS`), in the order given.

    Required are ``operation_id``, ``handoff_id``, ``event``, ``at`` and ``author``; a record without one, or
    with a value of a wrong type, is set aside with its line and reason. An event outside the vocabulary is kept:
    it makes its handoff uncertain. An outcome outside the vocabulary is ``unknown``. Fields outside the contract
    are dropped and counted.

    A ``mac`` is over the record as it was written, those fields included. With ``as_written`` their text is in
    ``signed``, so that it can be checked: for frames that are not stored. Otherwise ``signed`` is null there.
    """
    typed = Typed(frame=pl.DataFrame(schema=RECEIPTS))
    rows = []
    for record in raw:
        try:
            row = _row(record.fields, typed, f"{source}:{record.position[0]}")
            rows.append({**row, "signed": _signed(record.fields, as_written=as_written)})
        except WrongValueError as wrong:
            typed.faults.append((record.position[0], str(wrong)))
    typed.frame = pl.DataFrame(rows, schema=_as_integers()).cast({"at": TIME, "deadline": TIME})
    return typed


def _row(fields: Mapping[str, Any], typed: Typed, source: str) -> dict[str, Any]:
    at = moment(fields.get("at"), "at")
    if at is None:
        raise WrongValueError("at: missing")
    row: dict[str, Any] = {
        "operation_id": required(named(fields.get("operation_id"), "operation_id"), "operation_id"),
        "handoff_id": required(named(fields.get("handoff_id"), "handoff_id"), "handoff_id"),
        "event": required(fields.get("event"), "event"),
        "at": at,
        "author": required(fields.get("author"), "author"),
        **{name: text(fields.get(name), name) for name in _TEXTS},
        "trace_id": named(fields.get("trace_id"), "trace_id"),
        "deadline": moment(fields.get("deadline"), "deadline"),
        "outcome": text(fields.get("outcome"), "outcome"),
        "mac": text(fields.get("mac"), "mac"),
    }
    # Counted only once the record is known to be good: a record set aside is reported by its fault alone.
    dropped: Counter[str] = Counter()
    count_unknown(fields, _KNOWN, dropped)
    typed.unknown.update(dropped)
    warn_identifiers(
        {name: row[name] for name in FIELDS if name not in {"mac", "event", "outcome"}}, typed.warned
    )
    if row["outcome"] is not None and row["outcome"] not in OUTCOMES:
        typed.warned["outcome: not passed, failed or unknown; read as unknown"] += 1
        row["outcome"] = "unknown"
    return {**row, "inferred": False, "verifiable": True, "source": source}


def _signed(fields: Mapping[str, Any], *, as_written: bool) -> str | None:
    """Text that the ``mac`` of a record is over; None without a ``mac``, or where it may not be kept."""
    if fields.get("mac") is None or not (as_written or fields.keys() <= _KNOWN):
        return None
    try:
        return text(canonical(fields), "signed")
    except RecursionError:  # a dropped field may be nested without end; nobody signs that
        return None


def _as_integers() -> dict[str, pl.DataType]:
    """Give the schema with times as plain microseconds, which is how rows are built."""
    return {name: pl.Int64() if dtype == TIME else dtype for name, dtype in RECEIPTS.items()}
