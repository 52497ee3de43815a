"""Jaeger JSON: a download of traces, one trace, or its spans one a line as its stores keep them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agentlens.readers.base import Format, Record, Report
from agentlens.readers.ids import hex_id
from agentlens.readers.plain_spans import STEP, listed, mapping, text
from agentlens.readers.span_values import text_of
from agentlens.readers.spans import Span, Spans, facts_of
from agentlens.readers.tabular import json_rows, records_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentlens.model.raw import RawEvent
    from agentlens.readers.source import Head, Source

_LAST_US: Final = 253_402_300_799_999_999  # 9999-12-31


def claim(head: Head) -> int:
    """Claim traces and spans that call their ids and operations as Jaeger does."""
    for record in records_of(head, "data"):
        spans = listed(record.get("spans")) or [record]
        if {"traceID", "spanID"} <= spans[0].keys() and {"operationName", "startTime"} & spans[0].keys():
            return 95
    return 0


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of every span, in file order."""
    traces = _Traces(Spans(report), report)
    for position, place, record in json_rows(source, report, "data"):
        if not isinstance(record.get("spans"), list):
            yield from traces.span(record, record.get("process"), position, place)
            continue
        processes = mapping(record.get("processes"))
        for index, item in enumerate(record["spans"]):
            if isinstance(item, dict):
                yield from traces.span(item, processes.get(text(item.get("processID"))), position, index)
            elif item is not None:
                report.quarantine(position, f"spans: a {type(item).__name__} for a span", "record")


@dataclass(frozen=True, slots=True)
class _Traces:
    """Turns the spans of one source into events."""

    spans: Spans
    report: Report

    def span(self, raw: dict[str, Any], process: Any, position: int, place: int) -> list[RawEvent]:
        trace_id = _id(raw.get("traceID"), 16)
        if trace_id is None:
            self.report.quarantine(position, "a span without a readable traceID", "record")
            return []
        told = dict(_tags(raw.get("tags")))
        about = mapping(process)
        resource = dict(_tags(about.get("tags")))
        at = _us(raw.get("startTime"), self.report)
        long = raw.get("duration")
        ended = at + long if at is not None and isinstance(long, int) and not isinstance(long, bool) else None
        service = text(about.get("serviceName"))
        span = Span(
            trace_id,
            _id(raw.get("spanID"), 8),
            _parent(raw, trace_id),
            text(raw.get("operationName")),
            at,
            ended if ended is None or ended <= _LAST_US else None,
            facts_of(told.items()),
            _status(told),
            text(told.get("otel.status_description")),
            list(_notes(raw.get("logs"), self.report)),
            None,
            service if service and not service.startswith("unknown_service") else None,
            text(resource.get("service.version")) or None,
            text(resource.get("session.id")) or None,
        )
        span.linked_trace, span.linked_span = _linked(raw.get("references"), trace_id)
        span.client = text(told.get("span.kind")).lower() == "client"
        span.consumer = text(told.get("span.kind")).lower() == "consumer"
        return self.spans.events(span, position, place * STEP)


def _id(value: Any, size: int) -> str | None:
    """Return an id as hex of full length: Jaeger leaves out leading zeros."""
    found = hex_id(value, size)
    return found.rjust(size * 2, "0") if found and len(found) < size * 2 else found


def _us(value: Any, report: Report) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LAST_US:
        return value
    if value is not None:
        report.repaired["unreadable time left out"] += 1
    return None


def _tags(tags: Any) -> Iterable[tuple[str, Any]]:
    """Yield names and values of tags, in the list of the API or the object that stores may keep them in."""
    if isinstance(tags, dict):
        yield from tags.items()
    for tag in listed(tags):
        if isinstance(tag.get("key"), str):
            yield tag["key"], tag.get("value", tag.get("vStr"))


def _status(told: dict[str, Any]) -> str:
    code = text(told.get("otel.status_code")).lower()
    if code in {"ok", "error"}:
        return code
    return "error" if text_of(told.get("error")) == "true" else ""


def _parent(raw: dict[str, Any], trace_id: str) -> str | None:
    """Return the span this one belongs under, in its own trace: what it is a child of, else what it follows from."""
    for kind in ("CHILD_OF", "FOLLOWS_FROM"):
        for reference in listed(raw.get("references")):
            if reference.get("refType") == kind and _id(reference.get("traceID"), 16) in {trace_id, None}:
                return _id(reference.get("spanID"), 8)
    return _id(raw.get("parentSpanID"), 8)


def _linked(references: Any, own: str) -> tuple[str | None, str | None]:
    """Return the one other trace that a span refers to, and the span in it where it is one."""
    places = {(_id(one.get("traceID"), 16), _id(one.get("spanID"), 8)) for one in listed(references)}
    others = {trace for trace, _ in places} - {own, None}
    if len(others) != 1:
        return None, None
    spans = {span for trace, span in places if trace in others}
    return others.pop(), spans.pop() if len(spans) == 1 else None


def _notes(logs: Any, report: Report) -> Iterator[tuple[str, int | None, dict[str, Any]]]:
    for log in listed(logs):
        told = dict(_tags(log.get("fields")))
        name = text(told.get("event")) or text(told.get("name"))
        if name in {"exception", "error"} or "exception.type" in told:
            facts = facts_of(told.items())
            facts["detail"] = told.get("exception.message", told.get("message"))
            yield "exception", _us(log.get("timestamp"), report), facts
        elif name == "gen_ai.evaluation.result":
            yield name, _us(log.get("timestamp"), report), facts_of(told.items())


FORMAT = Format(
    name="jaeger",
    version=4,
    title="Jaeger JSON (traces of its API and interface, or spans one a line)",
    recognised_by="traceID, spanID and operationName",
    proved_on="a kagent run of 96 spans",
    claim=claim,
    read=read,
    lines=True,
    rank=65,
)
