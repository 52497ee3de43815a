"""Spans as OpenTelemetry's Python SDK writes them: console exporters, ``to_json``, and models of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentlens.readers.base import Format, Record, Report
from agentlens.readers.ids import hex_id
from agentlens.readers.plain_spans import (
    STEP,
    is_client,
    is_consumer,
    linked,
    mapping,
    notes_of,
    pairs,
    status_of,
    text,
    when,
)
from agentlens.readers.spans import Span, Spans, facts_of
from agentlens.readers.tabular import json_rows, records_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.source import Head, Source

_KEYS = ("spans", "data")


def claim(head: Head) -> int:
    """Claim objects that have a span context and a start, and no mark of a product that writes the like."""
    found = [record for record in records_of(head, *_KEYS) if _is_span(record)]
    return 85 if found and not head.magic else 0


def _is_span(record: dict[str, Any]) -> bool:
    context = record.get("context")
    return (
        isinstance(context, dict)
        and {"trace_id", "span_id"} <= context.keys()
        and {"start_time", "attributes"} <= record.keys()
        and "span_kind" not in record
    )


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of every span, in file order."""
    spans = Spans(report)
    for position, place, record in json_rows(source, report, *_KEYS):
        span = span_of(record, report)
        if span is None:
            report.quarantine(position, "a span without a readable context.trace_id", "record")
        else:
            yield from spans.events(span, position, place * STEP)


def span_of(record: dict[str, Any], report: Report) -> Span | None:
    """Return one span; None where it does not say of which trace."""
    context = mapping(record.get("context"))
    trace_id = hex_id(context.get("trace_id"), 16)
    if trace_id is None:
        return None
    parent = record.get("parent_id")
    if parent is None:
        parent = mapping(record.get("parent")).get("span_id")
    status = mapping(record.get("status"))
    about = mapping(mapping(record.get("resource")).get("attributes"))
    service = text(about.get("service.name"))
    link = linked(record.get("links"), trace_id)
    return Span(
        trace_id,
        hex_id(context.get("span_id"), 8),
        hex_id(parent, 8),
        text(record.get("name")),
        when(record.get("start_time"), report),
        when(record.get("end_time"), report),
        facts_of(pairs(mapping(record.get("attributes")))),
        status_of(status.get("status_code")),
        text(status.get("description")),
        notes_of(record.get("events"), report),
        link[0],
        service if service and not service.startswith("unknown_service") else None,
        text(about.get("service.version")) or None,
        text(about.get("session.id")) or None,
        linked_span=link[1],
        client=is_client(record.get("kind")),
        consumer=is_consumer(record.get("kind")),
    )


FORMAT = Format(
    name="otel-sdk",
    version=4,
    title="Spans of OpenTelemetry's Python SDK (console exporter, to_json, models of them)",
    recognised_by="context.trace_id and start_time on one object",
    proved_on="four dumps of any-agent, one a framework",
    claim=claim,
    read=read,
    lines=True,
    rank=60,
)
