"""MLflow traces: ``Trace.to_json``, stored ``traces.json``, and frames of ``search_traces``; schema 2 and 3."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers.base import Format, Record, Report
from agentlens.readers.ids import hex_id
from agentlens.readers.plain_spans import (
    STEP,
    linked,
    listed,
    mapping,
    notes_of,
    opened,
    pairs,
    status_of,
    text,
    when,
)
from agentlens.readers.span_values import text_of
from agentlens.readers.spans import Span, Spans, facts_of
from agentlens.readers.stamps import moment
from agentlens.readers.tabular import columns, records_of, rows
from agentlens.readers.verdicts import verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.source import Head, Source

_KEYS: Final = ("traces",)
_KINDS: Final = {"CHAT_MODEL": "LLM", "GUARDRAIL": "GUARDRAIL"}
_COLUMNS: Final = frozenset({"trace", "spans", "trace_metadata", "request_metadata", "assessments"})
_SESSIONS: Final = ("mlflow.trace.session", "group_id")
_NUMBERED: Final = re.compile(r"(.+)_[1-9]\d*")


def claim(head: Head) -> int:
    """Claim traces whose spans name the trace they were requested in, and frames of such traces."""
    names = columns(head)
    if ("trace_id" in names and len(names & _COLUMNS) > 1) or {"request_id", "trace", "spans"} <= names:
        return 94
    if head.magic:
        return 0
    for record in records_of(head, *_KEYS):
        for span in _spans_in(record):
            attributes = mapping(span.get("attributes"))
            if any(name.startswith("mlflow.") for name in attributes):
                return 96
        if {"info", "data"} <= record.keys() and {"trace_metadata", "request_metadata"} & mapping(
            record["info"]
        ).keys():
            return 96
    return 0


def _spans_in(record: dict[str, Any]) -> list[dict[str, Any]]:
    data = mapping(record.get("data"))
    return (
        listed(data.get("spans"))
        or listed(record.get("spans"))
        or ([record] if "attributes" in record else [])
    )


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of every span and assessment, in file order."""
    spans = Spans(report)
    for position, place, record in rows(source, report, *_KEYS):
        whole = mapping(record.get("trace")) or record
        order = place * STEP
        trace = _Trace(whole, record, report)
        if not trace.spans and "spans" not in mapping(whole.get("data")):
            report.quarantine(position, "a trace without spans", "record")
        for raw in trace.spans:
            span = trace.span(raw)
            if span is None:
                report.quarantine(position, "a span without a readable trace id", "record")
                continue
            yield from spans.events(span, position, order)
            order += STEP
        yield from trace.assessments(position, order)


class _Trace:
    """One trace: what stands beside its spans, and the spans as such."""

    def __init__(self, whole: dict[str, Any], beside: dict[str, Any], report: Report) -> None:
        self.report = report
        self.info = mapping(whole.get("info")) or beside
        self.spans = _spans_in(whole)
        # a frame has columns of its own for what the trace itself may lack
        told = {**_about(beside), **_about(self.info)}
        self.judged = listed(self.info.get("assessments")) or listed(beside.get("assessments"))
        self.session = next((told[name] for name in _SESSIONS if isinstance(told.get(name), str)), None)
        self.workflow = text(told.get("mlflow.traceName")) or None
        self.names = self._numbered()
        self.trace_id: str | None = None

    def _numbered(self) -> dict[str, str]:
        """Return the names that schema 2 made unique, with what they were: ``x_1``, ``x_2`` were ``x`` twice."""
        if not any("context" in raw for raw in self.spans):
            return {}
        names = {text(raw.get("name")) for raw in self.spans}
        return {
            name: found[1]
            for name in names
            if (found := _NUMBERED.fullmatch(name))
            and {f"{found[1]}_1", f"{found[1]}_2"} <= names
            and found[1] not in names
        }

    def span(self, raw: dict[str, Any]) -> Span | None:
        context = mapping(raw.get("context"))
        trace_id = hex_id(raw.get("trace_id", context.get("trace_id")), 16)
        if trace_id is None:
            return None
        trace_id = trace_id.removeprefix("tr-")
        self.trace_id = self.trace_id or trace_id
        status = mapping(raw.get("status"))
        name = text(raw.get("name"))
        facts = _facts(mapping(raw.get("attributes")))
        tool = facts.get("span_kind") == "TOOL"
        facts.setdefault("workflow", self.workflow)
        if tool and isinstance(facts.get("output"), dict) and facts["output"].keys() == {"triggered"}:
            facts["span_kind"] = "GUARDRAIL"  # a guardrail is no call of the agent's
        _hand_over(facts, name)
        notes = notes_of(raw.get("events"), self.report)
        message = text(status.get("message")) or text(raw.get("status_message"))
        link = linked(raw.get("links"), trace_id)
        return Span(
            trace_id,
            hex_id(raw.get("span_id", context.get("span_id")), 8),
            hex_id(raw.get("parent_span_id", raw.get("parent_id")), 8),
            self.names.get(name, name),
            when(raw.get("start_time_unix_nano", raw.get("start_time")), self.report),
            when(raw.get("end_time_unix_nano", raw.get("end_time")), self.report),
            facts,
            status_of(status.get("code", raw.get("status_code"))),
            message,
            _without_redacted(notes, raw),
            link[0],
            session=self.session,
            linked_span=link[1],
        )

    def assessments(self, position: int, order: int) -> Iterator[RawEvent]:
        """Yield the verdicts that people, code or judges gave on the trace or one of its spans."""
        trace_id = self.trace_id or text(self.info.get("trace_id")).removeprefix("tr-")
        for raw in self.judged:
            feedback = mapping(raw.get("feedback"))
            value = feedback.get("value", raw.get("value"))
            if not trace_id or value is None or raw.get("valid") is False:
                continue
            event = RawEvent(run_id=trace_id, trace_id=trace_id, agent=None, session=self.session)
            event.position = (position, order)
            event.at = moment(raw.get("create_time"))
            order += 1
            name = text(raw.get("assessment_name")) or text(raw.get("name"))
            label = text_of(opened(value))
            about = hex_id(raw.get("span_id"), 8)
            yield verdict(event, {"score_name": name, "score_label": label}, about)


def _about(info: dict[str, Any]) -> dict[str, Any]:
    """Return the tags of a trace, and its metadata, which say more."""
    metadata = mapping(info.get("trace_metadata")) or mapping(info.get("request_metadata"))
    return {**mapping(info.get("tags")), **metadata}


def _facts(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of attributes, whose every value is JSON inside a text."""
    plain = {name: value for name, raw in attributes.items() if (value := opened(raw)) is not ABSENT}
    facts = facts_of(pairs(plain))
    kind = text(plain.get("mlflow.spanType"))
    if kind and "span_kind" not in facts:
        facts["span_kind"] = _KINDS.get(kind, kind)
    for fact, name in (("input", "mlflow.spanInputs"), ("output", "mlflow.spanOutputs")):
        if name in plain:
            facts[fact] = plain[name]
    usage = mapping(plain.get("mlflow.chat.tokenUsage"))
    told = {
        "tokens_in": usage.get("input_tokens"),
        "tokens_out": usage.get("output_tokens"),
        "model": plain.get("mlflow.llm.model"),
        "cost": mapping(plain.get("mlflow.llm.cost")).get("total_cost"),
    }
    return {name: value for name, value in told.items() if value is not None} | facts


def _hand_over(facts: dict[str, Any], name: str) -> None:
    """Mark the span of a handoff, which names the two agents as its input and output."""
    given, taken = mapping(facts.get("input")), mapping(facts.get("output"))
    if name.startswith("Handoff") and ("from_agent" in given or "to_agent" in taken):
        facts["operation"] = "handoff"
        facts["handoff_to"] = text(taken.get("to_agent"))


def _without_redacted(
    notes: list[tuple[str, int | None, dict[str, Any]]], raw: dict[str, Any]
) -> list[tuple[str, int | None, dict[str, Any]]]:
    """Return notes; an exception of no type whose trace says that details were redacted has no details."""
    for name, _, facts in notes:
        if name == "exception" and not facts.get("error"):
            events = listed(raw.get("events"))
            traces = (text(mapping(event.get("attributes")).get("exception.stacktrace")) for event in events)
            facts["detail"] = next(
                (trace for trace in traces if "redacted" in trace.lower()), facts.get("detail")
            )
    return notes


FORMAT = Format(
    name="mlflow",
    version=4,
    title="MLflow traces (Trace.to_json, traces.json, frames of search_traces)",
    recognised_by="mlflow.* attributes of spans",
    proved_on="a Trace.to_json export of MLflow 3",
    claim=claim,
    read=read,
    lines=True,
    rank=61,
)
