"""Phoenix exports: span data frames (Parquet, JSON lines, CSV) and the spans of its REST interface."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import RawEvent
from agentlens.readers.base import Format, Record, Report
from agentlens.readers.ids import hex_id
from agentlens.readers.otlp import Line
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
from agentlens.readers.span_values import text_of
from agentlens.readers.spans import Span, Spans, facts_of
from agentlens.readers.tabular import columns, records_of, rows
from agentlens.readers.verdicts import verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.source import Head, Source

_KEYS: Final = ("data", "spans")
_KINDS: Final = frozenset(
    {
        "LLM",
        "CHAIN",
        "TOOL",
        "AGENT",
        "RETRIEVER",
        "RERANKER",
        "EMBEDDING",
        "GUARDRAIL",
        "EVALUATOR",
        "PROMPT",
        "DECISION",
        "UNKNOWN",
    }
)
_JUDGED: Final = re.compile(r"eval\.(.+)\.label")


def claim(head: Head) -> int:
    """Claim rows with a span context in their column names, or spans that carry a kind of OpenInference."""
    if {"context.span_id", "context.trace_id"} <= columns(head):
        return 95
    if head.magic:
        return 0
    for record in records_of(head, *_KEYS):
        if {"context.span_id", "context.trace_id"} <= record.keys():
            return 95
        if isinstance(record.get("context"), dict) and text(record.get("span_kind")).upper() in _KINDS:
            return 94
        if _is_otlp(record):
            return 93
    return 0


def _is_otlp(record: dict[str, Any]) -> bool:
    """Say whether a record is a bare span in OTLP's snake_case, as one of the REST interface's answers has it."""
    return {"trace_id", "span_id", "start_time_unix_nano"} <= record.keys() and isinstance(
        record.get("attributes"), list
    )


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of every span, and the verdicts of evaluations that stand beside them, in file order."""
    spans = Spans(report)
    for position, place, record in rows(source, report, *_KEYS):
        if _is_otlp(record):
            line = Line(spans, report, position, unit="record")
            line.order = place * STEP
            yield from line.span(record, (None, None, None))
            continue
        span = _span(record, report)
        if span is None:
            report.quarantine(position, "a span without a readable trace id", "record")
            continue
        yield from spans.events(span, position, place * STEP)
        yield from _judged(record, span, position, place * STEP + STEP // 2)


def _span(record: dict[str, Any], report: Report) -> Span | None:
    context = mapping(record.get("context"))
    trace_id = hex_id(record.get("context.trace_id", context.get("trace_id")), 16)
    if trace_id is None:
        return None
    attributes = mapping(record.get("attributes"))
    lead = "attributes."
    attributes |= {name[len(lead) :]: value for name, value in record.items() if name.startswith(lead)}
    facts = facts_of(pairs(attributes))
    kind = record.get("span_kind")
    if isinstance(kind, str) and "span_kind" not in facts:
        facts["span_kind"] = kind
    link = linked(record.get("links"), trace_id)
    return Span(
        trace_id,
        hex_id(record.get("context.span_id", context.get("span_id")), 8),
        hex_id(record.get("parent_id"), 8),
        text(record.get("name")),
        when(record.get("start_time"), report),
        when(record.get("end_time"), report),
        facts,
        status_of(record.get("status_code")),
        text(record.get("status_message")),
        notes_of(record.get("events"), report),
        link[0],
        linked_span=link[1],
        client=is_client(record.get("kind")),
        consumer=is_consumer(record.get("kind")),
    )


def _judged(record: dict[str, Any], span: Span, position: int, order: int) -> Iterator[RawEvent]:
    """Yield the verdicts of evaluations whose labels were joined to the frame's rows."""
    for name, value in record.items():
        found = _JUDGED.fullmatch(name)
        if found and (label := text_of(value)):
            event = RawEvent(run_id=span.trace_id, trace_id=span.trace_id, agent=None, session=span.session)
            event.position = (position, order)
            event.session = span.facts.get("session")
            order += 1
            yield verdict(event, {"score_name": found[1], "score_label": label}, span.span_id)


FORMAT = Format(
    name="phoenix",
    version=4,
    title="Phoenix span frames (Parquet, JSON lines, CSV) and REST spans",
    recognised_by="columns context.span_id and context.trace_id, or span_kind beside a context",
    proved_on="Parquet, JSON lines and REST exports of one openinference run",
    claim=claim,
    read=read,
    lines=True,
    rank=62,
)
