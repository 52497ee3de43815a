"""Write receipts of handoffs and of branches: one record, one line, on disk before the call returns.

For the runtime that hands work over; standard library only, so that it can be copied or imported there at no
cost. What it writes is what ``agentlens handoffs`` and ``agentlens resets`` read. Identifiers are opaque, and only
the fields of the contract are taken: prompts, results, credentials and payloads have no place in a receipt.

    from agentlens.receipts import append

    append("receipts.ndjson", operation_id="op-7", handoff_id="op-7/1", event="delegated",
           author="planner", recipient="writer", expected_artifact="report")
"""

from __future__ import annotations

import hmac
import json
import os
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

try:
    import fcntl
except ImportError:  # pragma: no cover - a platform without file locks still appends
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "BRANCH_FIELDS",
    "EDIT_CLASSES",
    "EVENTS",
    "FIELDS",
    "OUTCOMES",
    "RESULTS",
    "STATUSES",
    "append",
    "append_branch",
    "canonical",
    "sign",
]

FIELDS: Final = (
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
)
EVENTS: Final = (
    "delegated",
    "accepted",
    "progress",
    "waiting",
    "completed",
    "outcome_verified",
    "rejected",
    "cancelled",
)
OUTCOMES: Final = ("passed", "failed", "unknown")

RESULTS: Final = ("exact", "partial", "drift_acknowledged", "failed")
STATUSES: Final = ("reverted", "reconciled", "pending", "irreversible")
EDIT_CLASSES: Final = (
    *("none", "detail", "simplify", "plan"),
    *("recipients", "budget", "permissions", "production_target", "destructive"),
)
BRANCH_FIELDS: Final[dict[str, Any]] = {
    "branch_id": str,
    "parent_id": str,
    "at": "time",
    "fork_point": str,
    "checkpoints": [str],
    "local": bool,
    "required_state": [str],
    "state": [{"key": str, "before": str, "restored": str, "result": RESULTS}],
    "effects": [{"operation_id": str, "kind": str, "status": STATUSES, "decision_id": str}],
    "edit_class": EDIT_CLASSES,
    "authority": {"operator": str, "decision_id": str, "approved": bool},
    "config": {"parent_digest": str, "branch_digest": str, "pinned": bool, "delta": [str]},
    "resumed": bool,
    "final_answer": bool,
    "outcome": {"receipt_id": str, "verified": bool},
}
"""The contract of a branch receipt: a type, a list or an object of them, or the words that are accepted."""

_BRANCH_REQUIRED: Final = ("branch_id", "parent_id", "fork_point")
_REQUIRED: Final = ("operation_id", "handoff_id", "event", "author", "expected_artifact")
_TIMES: Final = ("at", "deadline")
_LONGEST: Final = 512
_FIRST_SECOND: Final = -62_135_596_800  # 0001-01-01T00:00:00Z: before it, and after 9999, readers see no time
_END_SECOND: Final = 253_402_300_800


def append(path: str | os.PathLike[str], /, *, key: bytes | None = None, **fields: Any) -> dict[str, Any]:
    """Append one receipt and force it to disk.

    Parameters
    ----------
    path
        NDJSON file; made (mode 0600) when it is not there. Writers of one file may run side by side.
    key
        The author's secret; where given, the receipt carries ``mac``, the hexadecimal HMAC-SHA-256 of its
        canonical JSON.
    **fields
        Fields of the contract. ``at`` is now where it is not given; ``at`` and ``deadline`` are aware
        datetimes, RFC 3339 texts with a zone, or epoch seconds. None is the same as not given.

    Returns
    -------
    dict
        The receipt as written.

    Raises
    ------
    ValueError
        For a field outside the contract, a missing or wrong one; nothing is written.
    """
    receipt = _checked(fields)
    if key is not None:
        receipt["mac"] = sign(receipt, key)
    line = json.dumps(receipt, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    _write(os.fspath(path), line)
    return receipt


def append_branch(path: str | os.PathLike[str], /, **fields: Any) -> dict[str, Any]:
    """Append one branch receipt and force it to disk; the newest receipt of a branch stands.

    Parameters
    ----------
    path
        NDJSON file, as for `append`; another than that of handoffs.
    **fields
        Fields of `BRANCH_FIELDS`. ``branch_id``, ``parent_id`` and ``fork_point`` are needed. ``at`` is now where it
        is not given. None, at any depth, is the same as not given: a gate whose field is missing is unknown, so that
        nothing passes by what was left out.

    Returns
    -------
    dict
        The receipt as written.

    Raises
    ------
    ValueError
        For a field outside the contract, a missing or wrong one; nothing is written.
    """
    missing = [name for name in _BRANCH_REQUIRED if fields.get(name) is None]
    if missing:
        raise ValueError(f"missing: {', '.join(missing)}")
    receipt = _shaped("", {"at": datetime.now(UTC), **_given(fields)}, BRANCH_FIELDS)
    line = json.dumps(receipt, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    _write(os.fspath(path), line)
    return dict(receipt)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _shaped(name: str, value: Any, shape: Any) -> Any:
    """Check one value of a branch receipt against its part of the contract."""
    if isinstance(shape, dict):
        return _object(name, value, shape)
    if isinstance(shape, list):
        if not isinstance(value, list | tuple):
            raise ValueError(f"{name}: expected a list")  # noqa: TRY004 - one error for every wrong value
        return [_shaped(f"{name}[{at}]", one, shape[0]) for at, one in enumerate(value)]
    if shape == "time":
        return _time(name, value)
    if shape is bool:
        if not isinstance(value, bool):
            raise ValueError(f"{name}: expected true or false")
        return value
    told = _value(name, value)
    if isinstance(shape, tuple) and told not in shape:
        raise ValueError(f"{name}: {told!r} is not one of {', '.join(shape)}")
    return told


def _object(name: str, value: Any, shape: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name}: expected an object with {', '.join(shape)}")  # noqa: TRY004
    unknown = sorted(str(each) for each in value if each not in shape)
    if unknown:
        lead = f"{name}: " if name else ""
        raise ValueError(f"{lead}not in the contract: {', '.join(unknown)}; accepted: {', '.join(shape)}")
    given = _given(value)
    prefix = f"{name}." if name else ""
    return {each: _shaped(prefix + each, given[each], shape[each]) for each in shape if each in given}


def canonical(receipt: Mapping[str, Any]) -> bytes:
    """Canonical JSON of a receipt without its ``mac``: UTF-8, sorted keys, no spaces, non-ASCII unescaped.

    Examples
    --------
    >>> canonical({"b": "é", "a": 1, "mac": "00"}).decode()
    '{"a":1,"b":"é"}'
    """
    rest = {name: value for name, value in receipt.items() if name != "mac"}
    return json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sign(receipt: Mapping[str, Any], key: bytes) -> str:
    """Hexadecimal HMAC-SHA-256 of the canonical JSON of a receipt."""
    if not isinstance(key, bytes) or not key:
        raise ValueError("key: expected bytes that are not empty")
    return hmac.digest(key, canonical(receipt), "sha256").hex()


def _checked(fields: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(fields) - set(FIELDS))
    if unknown:
        raise ValueError(f"not in the contract: {', '.join(unknown)}; accepted: {', '.join(FIELDS)}")
    given = {name: value for name, value in fields.items() if value is not None}
    given.setdefault("at", datetime.now(UTC))
    missing = [name for name in _REQUIRED if name not in given]
    if missing:
        raise ValueError(f"missing: {', '.join(missing)}")
    receipt: dict[str, Any] = {name: _value(name, given[name]) for name in FIELDS if name in given}
    if receipt["event"] not in EVENTS:
        raise ValueError(f"event: {receipt['event']!r} is not one of {', '.join(EVENTS)}")
    is_outcome = receipt["event"] == "outcome_verified"
    if is_outcome != ("outcome" in receipt):
        raise ValueError("outcome: belongs to outcome_verified, and to nothing else")
    if is_outcome and receipt["outcome"] not in OUTCOMES:
        raise ValueError(f"outcome: {receipt['outcome']!r} is not one of {', '.join(OUTCOMES)}")
    return receipt


def _value(name: str, value: Any) -> str | int | float:
    if name in _TIMES:
        return _time(name, value)
    if not isinstance(value, str) or not value or len(value) > _LONGEST:
        raise ValueError(f"{name}: expected text of 1 to {_LONGEST} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name}: not encodable as UTF-8") from None
    return value


def _time(name: str, value: Any) -> str | int | float:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{name}: expected an RFC 3339 time") from None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{name}: a time needs its zone")
        try:
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        except OverflowError:
            raise ValueError(f"{name}: expected a time in the years 1 to 9999 of UTC") from None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and _FIRST_SECOND <= value < _END_SECOND):
        raise ValueError(f"{name}: expected a time with a zone, or epoch seconds of the years 1 to 9999")
    number: int | float = value
    return number


def _write(path: str, line: bytes) -> None:
    is_new = not os.path.exists(path)  # noqa: PTH110 - this module stays on os calls throughout
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        with _alone(handle):
            size = os.fstat(handle).st_size
            torn = size > 0 and _last_byte(handle, size) != b"\n"
            # A line that a crash cut short is closed first, so that it costs one record and not two.
            rest = (b"\n" if torn else b"") + line
            while rest:
                rest = rest[os.write(handle, rest) :]
            os.fsync(handle)
    finally:
        os.close(handle)
    if is_new:
        _sync_folder(os.path.dirname(os.path.abspath(path)))  # noqa: PTH100, PTH120


def _last_byte(handle: int, size: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(handle, 1, size - 1)
    os.lseek(handle, size - 1, os.SEEK_SET)  # pragma: no cover - a platform without pread
    return os.read(handle, 1)  # pragma: no cover


@contextmanager
def _alone(handle: int) -> Iterator[None]:
    """Hold the file against other writers while one line is written."""
    if fcntl is None:  # pragma: no cover
        yield
        return
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)


def _sync_folder(folder: str) -> None:
    """Make the name of a new file durable too, where the platform lets a folder be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # pragma: no cover
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
