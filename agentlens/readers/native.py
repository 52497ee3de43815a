"""Native NDJSON: the project's own events, receipts and branch receipts, one a line (SPEC section 8)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.enums import Kind, Outcome
from agentlens.model.native import (
    WrongValueError,
    count_unknown,
    flag,
    moment,
    named,
    part,
    required,
    text,
    texts,
)
from agentlens.model.raw import ABSENT, RawBranch, RawEvent, RawReceipt
from agentlens.readers import decode
from agentlens.readers.base import Format, Record, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Literal

    from agentlens.readers.source import Head, Source

_BIGGEST: Final = 1 << 63
_HARD: Final = ("outcome_failed", "permission_lost")
_KINDS: Final = frozenset(Kind)
_ACTIONS: Final = frozenset({"tool", "handoff"})


def _integer(value: Any, name: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -_BIGGEST <= value < _BIGGEST:
        raise WrongValueError.expected(name, "a whole number", value)
    return value


def _count(value: Any, name: str) -> int | None:
    found = _integer(value, name)
    if found is not None and found < 0:
        raise WrongValueError(f"{name}: expected a count, found a negative number")
    return found


def _ordinal(value: Any, name: str) -> int | None:
    found = _integer(value, name)
    if found is not None and found < 1:
        raise WrongValueError(f"{name}: expected a number from 1 on")
    return found


def _number(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise WrongValueError.expected(name, "a number", value)
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise WrongValueError(f"{name}: expected a finite number")
    return found


def _amount(value: Any, name: str) -> float | None:
    found = _number(value, name)
    if found is not None and found < 0:
        raise WrongValueError(f"{name}: expected no negative number")
    return found


def _one_of(value: Any, name: str, accepted: tuple[str, ...]) -> str | None:
    found = text(value, name)
    if found is not None and found not in accepted:
        raise WrongValueError(f"{name}: expected one of {', '.join(accepted)}")
    return found


def _hard_failure(value: Any, name: str) -> str | None:
    return _one_of(value, name, _HARD)


def _outcome(value: Any, name: str) -> str | None:
    return _one_of(value, name, tuple(Outcome))


def _policy(value: Any, name: str) -> dict[str, Any] | None:
    return _object(value, name, _POLICY)


def _lease(value: Any, name: str) -> dict[str, Any] | None:
    return _object(value, name, _LEASE)


def _object(value: Any, name: str, fields: Mapping[str, Callable[[Any, str], Any]]) -> dict[str, Any] | None:
    found = part(value, name)
    if found is None:
        return None
    return {key: read(found.get(key), f"{name}.{key}") for key, read in fields.items()}


_POLICY: Final[dict[str, Callable[[Any, str], Any]]] = {
    "errors": texts,
    "interval_s": _amount,
    "max_attempts": _count,
    "backoff_rate": _amount,
    "max_delay_s": _amount,
    "jitter": _amount,
}
_LEASE: Final[dict[str, Callable[[Any, str], Any]]] = {
    "owner": named,
    "waits_on": named,
    "deadline": moment,
    "renewals": _count,
    "max_renewals": _count,
}
_TYPED: Final[dict[str, Callable[[Any, str], Any]]] = {
    "seq": _integer,
    "at": moment,
    "ended_at": moment,
    "action_signature": text,
    "milestone": text,
    "error_class": text,
    "attempt": _ordinal,
    "retry_policy": _policy,
    "lease": _lease,
    "external_input": flag,
    "reachable": flag,
    "hard_failure": _hard_failure,
    "workflow": text,
    "model": text,
    "agent_version": text,
    "tokens_in": _count,
    "tokens_out": _count,
    "cost_usd": _number,
    "trace_id": named,
    "span_id": named,
    "parent_span_id": named,
    "call_id": named,
    "instance": named,
    "session": named,
    "open": flag,
    "target": named,
    "outcome": _outcome,
    "parent_run_id": named,
    "parent_agent": named,
    "task_group": named,
}
"""How each field is read. Those behind ``call_id`` are additions for facts that are no tool call."""

_NAMES: Final = ("run_id", "agent", *sorted(name for name, read in _TYPED.items() if read is named))
"""Fields that name something: a whole number there is read as its digits."""
_PLAIN: Final = frozenset(
    {"run_id", "agent", "kind", "tool", "args", "result", "scope", "progress_fingerprint"}
)
_KNOWN: Final = frozenset(_TYPED) | _PLAIN
COLUMNS: Final = _KNOWN
"""Fields of a native event; also the columns that a mapping may yield."""


def claim(head: Head) -> int:
    """Claim lines that have the required fields of one of the three native records."""
    rows = head.values[0] if len(head.values) == 1 and isinstance(head.values[0], list) else head.values
    natives = sum(isinstance(row, dict) and _what(row) is not None for row in rows)
    return 0 if not natives else 95 if natives * 2 >= len(rows) else 55


def _what(row: dict[str, Any]) -> str | None:
    if "run_id" in row:
        return "event" if row.keys() & {"tool", "action_signature", "kind"} else None
    if "branch_id" in row:
        return "branch" if row.keys() & {"parent_id", "fork_point", "required_state"} else None
    return "receipt" if "operation_id" in row and row.keys() & {"handoff_id", "event"} else None


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield events, receipts and branch receipts in file order; an array of them is read as well."""
    if source.is_lines():
        for number, line in source.lines(report):
            row = decode.loads(line, report, number)
            if row is not ABSENT:
                yield from _record(row, (number, 0), report, "line")
        return
    rows = source.document(report, ("",))
    for index, row in enumerate(rows if isinstance(rows, list) else [] if rows is ABSENT else [rows]):
        if row is not None:
            yield from _record(row, (index, 0), report, "record")


def _record(
    row: Any, position: tuple[int, int], report: Report, unit: Literal["line", "record"]
) -> Iterator[Record]:
    if not isinstance(row, dict):
        report.quarantine(position[0], f"expected an object, found {type(row).__name__}", unit)
        return
    if "run_id" not in row and "branch_id" in row:
        yield RawBranch(fields=row, position=position)
    elif "run_id" not in row and "operation_id" in row:
        yield RawReceipt(fields=row, position=position)
    else:
        try:
            yield event(row, position, report)
        except WrongValueError as error:
            report.quarantine(position[0], str(error), unit)


def event(row: Mapping[str, Any], position: tuple[int, int], report: Report) -> RawEvent:
    """Build one event of native fields; fields that are not known are counted and go to ``extra``.

    Raises
    ------
    WrongValueError
        A field is missing or has a type it may not have; the record is to be set aside as a whole.
    """
    kind = text(row.get("kind"), "kind") or "tool"
    if kind not in _KINDS:
        raise WrongValueError(f"kind: expected one of {', '.join(Kind)}")
    signature = row.get("action_signature")
    if kind in _ACTIONS and signature is None and not row.get("tool"):
        raise WrongValueError("tool: missing, and no action_signature instead")
    found = RawEvent(
        run_id=required(named(row.get("run_id"), "run_id"), "run_id"),
        position=position,
        agent=named(row.get("agent"), "agent") or "",
        kind=kind,
        tool=text(row.get("tool"), "tool") or "",
        args=_said(row, "args"),
        result=_said(row, "result"),
        scope=row.get("scope"),
        has_fingerprint="progress_fingerprint" in row,
        progress_fingerprint=text(row.get("progress_fingerprint"), "progress_fingerprint"),
    )
    for name in row.keys() & _TYPED.keys():
        setattr(found, name, _TYPED[name](row[name], name))
    for name in _NAMES:
        if isinstance(value := row.get(name), int) and not isinstance(value, bool):
            report.repaired[f"{name}: number read as text"] += 1
    found.identity = _identity(found)
    unknown = row.keys() - _KNOWN
    if unknown:
        count_unknown(sorted(unknown), _KNOWN, report.unknown)
        found.extra = {name: row[name] for name in sorted(unknown)}
    return found


def _said(row: Mapping[str, Any], name: str) -> Any:
    value = row.get(name)
    return ABSENT if value is None else value


def _identity(found: RawEvent) -> str | None:
    if found.call_id:
        # a wait for a call, or the start of who was called, names the call and is not a part of it
        return f"call:{found.call_id}" if found.kind in _ACTIONS else f"{found.kind}:call:{found.call_id}"
    return f"span:{found.span_id}" if found.span_id else None


FORMAT = Format(
    name="native",
    version=1,
    title="Native NDJSON: events, receipts, branch receipts",
    recognised_by="lines with run_id and tool or action_signature; operation_id and event; branch_id and parent_id",
    proved_on="hand-written records; the reference cases",
    claim=claim,
    read=read,
    lines=True,
    rank=90,
)
