"""Spans whose attributes are plain objects, as SDK dumps, Phoenix, MLflow and Langfuse write them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers import decode
from agentlens.readers.frameworks import DETAILS
from agentlens.readers.ids import hex_id, micros
from agentlens.readers.spans import facts_of
from agentlens.readers.stamps import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.base import Report

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOTES: Final = frozenset({*DETAILS, "gen_ai.evaluation.result"})
_STATUS: Final = {
    "ok": "ok",
    "error": "error",
    "status_code_ok": "ok",
    "status_code_error": "error",
    "statuscode.ok": "ok",
    "statuscode.error": "error",
    "1": "ok",
    "2": "error",
}
STEP: Final = 64
"""Events of one span take places from here to the next: itself, a turn, and what was noted on it."""


def when(value: Any, report: Report) -> int | None:
    """Return microseconds of ISO text, of a date and time, or of whole nanoseconds; a time without zone is UTC.

    >>> from agentlens.readers.base import Report
    >>> when("1970-01-01T00:00:01Z", Report()), when(1_000_000_000, Report())
    (1000000, 1000000)
    """
    if isinstance(value, datetime):
        zoned = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (zoned - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, str) and not value.isdecimal():
        return moment(value)
    return micros(value, report)


def status_of(code: Any) -> str:
    """Return ``ok``, ``error`` or "" for a status code in any of its spellings.

    >>> status_of("STATUS_CODE_OK"), status_of("StatusCode.ERROR"), status_of("UNSET"), status_of(2)
    ('ok', 'error', '', 'error')
    """
    return _STATUS.get(str(code).lower(), "") if isinstance(code, (str, int)) else ""


def text(value: Any) -> str:
    """Return a text, or "" for anything else."""
    return value if isinstance(value, str) else ""


def mapping(value: Any) -> dict[str, Any]:
    """Return an object, also one written as JSON text; an empty one for anything else."""
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        value = decode.attempt(value)
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> list[dict[str, Any]]:
    """Return the objects of an array, also of one written as JSON text."""
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        value = decode.attempt(value)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def pairs(attributes: dict[str, Any], lead: str = "", depth: int = 6) -> Iterator[tuple[str, Any]]:
    """Yield dotted names and values of attributes, nested objects with their members as well.

    >>> list(pairs({"tool": {"name": "f"}, "x": None}))
    [('tool', {'name': 'f'}), ('tool.name', 'f')]
    """
    for name, value in attributes.items():
        if value is None or (isinstance(value, float) and math.isnan(value)):
            continue
        yield lead + name, value
        if isinstance(value, dict) and depth:
            yield from pairs(value, f"{lead}{name}.", depth - 1)


def notes_of(events: Any, report: Report) -> list[tuple[str, int | None, dict[str, Any]]]:
    """Return those of a span's own events that matter, with their time and facts."""
    found = []
    for event in listed(events):
        name = event.get("name")
        if not isinstance(name, str) or name not in _NOTES:
            continue
        told = mapping(event.get("attributes"))
        facts = facts_of(told.items())
        if name in DETAILS:
            facts["detail"] = told.get(DETAILS[name])
        at = next((event[key] for key in ("timestamp", "time_unix_nano", "time") if event.get(key)), None)
        found.append((name, when(at, report), facts))
    return found


def linked(links: Any, own: str) -> tuple[str | None, str | None]:
    """Return the one other trace that a span links to, and the one span; None where there is none or several.

    >>> linked([{"context": {"trace_id": "0x" + "b" * 32, "span_id": "0x" + "c" * 16}}], "a" * 32)
    ('bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', 'cccccccccccccccc')
    """
    places = set()
    for link in listed(links):
        at = mapping(link.get("context")) or link
        trace = hex_id(at.get("trace_id") or at.get("traceId"), 16)
        places.add((trace, hex_id(at.get("span_id") or at.get("spanId"), 8)))
    others = {trace for trace, _ in places} - {own, None}
    only = places.pop() if len(places) == 1 else (None, None)
    return others.pop() if len(others) == 1 else None, only[1] if only[0] else None


def is_client(kind: Any) -> bool:
    """Say whether a span's kind, in any of its spellings, is that of a caller.

    >>> [is_client(kind) for kind in (3, "SPAN_KIND_CLIENT", "SpanKind.CLIENT", "client", "internal", None)]
    [True, True, True, True, False, False]
    """
    return kind == 3 or (isinstance(kind, str) and (kind == "3" or kind.lower().endswith("client")))


def is_consumer(kind: Any) -> bool:
    """Say whether a span's kind, in any of its spellings, is that of what takes a message from a queue.

    >>> [is_consumer(kind) for kind in (5, "SPAN_KIND_CONSUMER", "consumer", 4, "producer", None)]
    [True, True, True, False, False, False]
    """
    return kind == 5 or (isinstance(kind, str) and (kind == "5" or kind.lower().endswith("consumer")))


def opened(value: Any) -> Any:
    """Return what a JSON text holds, the text itself where it is none, `ABSENT` for null.

    >>> opened('"done"'), opened("done"), opened(None)
    ('done', 'done', ABSENT)
    """
    if value is None:
        return ABSENT
    if not isinstance(value, str):
        return value
    found = decode.attempt(value)
    return value if found is ABSENT else ABSENT if found is None else found
