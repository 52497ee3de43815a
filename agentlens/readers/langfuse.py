"""Langfuse: trace downloads, answers of its interface, and blob exports (JSON, JSON lines, CSV, Parquet)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import RawEvent
from agentlens.readers import decode
from agentlens.readers.addressees import HANDOFF_TOOL
from agentlens.readers.base import Format, Record, Report
from agentlens.readers.ids import hex_id
from agentlens.readers.plain_spans import STEP, listed, mapping, pairs, text, when
from agentlens.readers.span_values import text_of
from agentlens.readers.spans import Span, Spans, facts_of, kind_of
from agentlens.readers.tabular import columns, records_of, rows
from agentlens.readers.tool_messages import tool_message
from agentlens.readers.verdicts import verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.source import Head, Source

_KEYS: Final = ("data",)
_KINDS: Final = {
    "SPAN": "",
    "EVENT": "",
    "GENERATION": "LLM",
    "AGENT": "AGENT",
    "TOOL": "TOOL",
    "CHAIN": "CHAIN",
    "RETRIEVER": "RETRIEVER",
    "EVALUATOR": "EVALUATOR",
    "EMBEDDING": "EMBEDDING",
    "GUARDRAIL": "GUARDRAIL",
}
_OBSERVATION: Final = frozenset({"id", "trace_id", "type", "start_time"})
_SCORE: Final = frozenset({"id", "name", "value", "source"})
_TRACE: Final = frozenset({"id", "timestamp", "user_id", "session_id"})
_ERROR: Final = re.compile(r"(?:\w+\.)*(\w*(?:Error|Exception|Interrupt|Timeout|Exit))\b")
_TOKENS_IN: Final = ("input", "input_tokens", "prompt_tokens", "promptTokens")
_TOKENS_OUT: Final = ("output", "output_tokens", "completion_tokens", "completionTokens")
_UPPER: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")


def claim(head: Head) -> int:
    """Claim observations by their columns, and traces that hold some."""
    names = frozenset(map(_snake, columns(head)))
    if names:
        return _claim_names(names, None)
    if head.magic:
        return 0
    best = 0
    for record in records_of(head, *_KEYS):
        observations = listed(record.get("observations"))
        if isinstance(record.get("trace"), dict) and isinstance(record.get("observations"), list):
            best = max(best, 96)
        elif observations and {"traceId", "trace_id"} & observations[0].keys():
            best = max(best, 95)
        else:
            best = max(best, _claim_names(frozenset(map(_snake, record)), record.get("type")))
    return best


def _claim_names(names: frozenset[str], kind: Any) -> int:
    if names >= _OBSERVATION and (kind is None or text(kind).upper() in _KINDS):
        marks = {"parent_observation_id", "status_message", "provided_model_name", "usage_details", "level"}
        return 94 if names & marks else 0
    if names >= _SCORE and {"data_type", "string_value", "observation_id"} & names and "trace_id" in names:
        return 85
    if names >= _TRACE and {"bookmarked", "public", "environment", "project_id"} & names:
        return 60
    return 0


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of every observation and score, in file order."""
    export = _Export(report)
    for position, place, record in rows(source, report, *_KEYS):
        yield from export.events(record, position, place * STEP)


@dataclass(slots=True)
class _Export:
    """Turns rows into events; remembers how new each observation is, for the same row may come again."""

    report: Report
    spans: Spans = field(init=False)
    newest: dict[tuple[str, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.spans = Spans(self.report)

    def events(self, record: dict[str, Any], position: int, order: int) -> Iterator[RawEvent]:
        whole = record.get("trace") if isinstance(record.get("trace"), dict) else record
        if isinstance(record.get("observations"), list) and isinstance(whole, dict):
            yield from self._whole(_named(whole), record["observations"], position, order)
            return
        row = _named(record)
        if row.keys() >= _OBSERVATION:
            yield from self._observation(row, {}, position, order)
        elif _is_score(row):
            yield from self._score(row, None, position, order)
        elif text(row.get("id")) and "timestamp" in row:
            yield self._trace(row, position, order)
        else:
            self.report.quarantine(position, "neither an observation nor a trace nor a score", "record")

    def _whole(
        self, trace: dict[str, Any], observations: list[Any], position: int, order: int
    ) -> Iterator[RawEvent]:
        """Yield the events of a trace that comes with its observations and scores."""
        for item in observations:
            if isinstance(item, dict):
                yield from self._observation(_named(item), trace, position, order)
                order += STEP
            elif item is not None and not isinstance(item, str):  # a text is the id of one, told elsewhere
                self.report.quarantine(position, f"a {type(item).__name__} for an observation", "record")
        for item in listed(trace.get("scores")):
            yield from self._score(_named(item), trace, position, order)
            order += 1

    def _trace(self, row: dict[str, Any], position: int, order: int) -> RawEvent:
        trace_id = hex_id(row["id"], 16) or ""
        event = RawEvent(run_id=trace_id, trace_id=trace_id or None, kind="log", agent=None)
        event.session, event.workflow = text(row.get("session_id")) or None, text(row.get("name")) or None
        event.at = when(row["timestamp"], self.report)
        event.identity, event.position = f"trace:{trace_id}", (position, order)
        return event

    def _observation(
        self, row: dict[str, Any], trace: dict[str, Any], position: int, order: int
    ) -> Iterator[RawEvent]:
        trace_id = hex_id(row.get("trace_id") or trace.get("id"), 16)
        if trace_id is None:
            self.report.quarantine(position, "an observation without a trace id", "record")
            return
        own = hex_id(row.get("id"), 8)
        updated = row.get("updated_at")
        told, key = "" if updated is None else str(updated), (trace_id, own or "")
        if own is not None and told < self.newest.get(key, ""):
            self.report.repaired["an older state of an observation left out"] += 1
            return
        self.newest[key] = told
        yield from self.spans.events(self._span(row, trace, trace_id, own), position, order)

    def _span(self, row: dict[str, Any], trace: dict[str, Any], trace_id: str, own: str | None) -> Span:
        metadata = _members(row.get("metadata"))
        lead = "attributes."
        attributes = _members(metadata.get("attributes")) | {
            name[len(lead) :]: value for name, value in metadata.items() if name.startswith(lead)
        }
        resource = _members(metadata.get("resourceAttributes"))
        kind, name = text(row.get("type")).upper(), text(row.get("name"))
        facts = facts_of(pairs(attributes))
        _add(facts, row, metadata, trace)
        if "span_kind" not in facts and kind_of(facts, name) == "log" and _KINDS.get(kind):
            facts["span_kind"] = _KINDS[kind]
        _tool_message(facts)
        if "span_kind" not in facts and kind == "SPAN" and HANDOFF_TOOL.fullmatch(name):
            facts["span_kind"] = "TOOL"
        level, message = text(row.get("level")).upper(), text(row.get("status_message"))
        if level == "ERROR" and "error" not in facts and (found := _ERROR.match(message)):
            facts["error"] = found[1]
        status = "error" if level == "ERROR" else ""
        at, ended = when(row.get("start_time"), self.report), when(row.get("end_time"), self.report)
        service = text(resource.get("service.name"))
        return Span(
            trace_id,
            own,
            hex_id(row.get("parent_observation_id"), 8),
            name,
            at,
            at if kind == "EVENT" and ended is None else ended,
            facts,
            status,
            message,
            service=service if service and not service.startswith("unknown_service") else None,
            version=text(row.get("version")) or None,
            session=text(row.get("session_id")) or text(trace.get("session_id")) or None,
        )

    def _score(
        self, row: dict[str, Any], trace: dict[str, Any] | None, position: int, order: int
    ) -> Iterator[RawEvent]:
        about = {} if trace is None else trace
        trace_id = hex_id(row.get("trace_id") or about.get("id"), 16)
        session = text(row.get("session_id")) or text(about.get("session_id")) or None
        if trace_id is None and session is None:
            self.report.quarantine(position, "a score of no trace and no session", "record")
            return
        event = RawEvent(run_id=trace_id or session or "", trace_id=trace_id, agent=None, session=session)
        event.at = when(row.get("timestamp") or row.get("created_at"), self.report)
        event.position = (position, order)
        label = {"score_name": text(row.get("name")), "score_label": _label(row)}
        yield verdict(event, label, hex_id(row.get("observation_id"), 8))


def _is_score(row: dict[str, Any]) -> bool:
    """Tell a score by what it judges and how; one of a category may have no value, one of a number no words."""
    judged, told = {"trace_id", "session_id", "observation_id"}, {"value", "string_value", "data_type"}
    return "name" in row and bool(judged & row.keys()) and bool(told & row.keys())


def _label(row: dict[str, Any]) -> str:
    """Return what a score says in words: its category, or whether a truth value is one. A number says nothing."""
    if words := text(row.get("string_value")):
        return words
    value = row.get("value")
    if text(row.get("data_type")).upper() == "BOOLEAN":
        return {"1": "true", "1.0": "true", "0": "false", "0.0": "false"}.get(str(value), text_of(value))
    return text(value) if isinstance(value, str) and not value.replace(".", "").isdecimal() else ""


def _add(facts: dict[str, Any], row: dict[str, Any], metadata: dict[str, Any], trace: dict[str, Any]) -> None:
    """Add what the row itself says to the facts of the attributes it was made from, which stand."""
    usage = _members(row.get("usage_details")) or _members(row.get("usage"))
    cost = _members(row.get("cost_details"))
    told = {
        "input": _opened(row.get("input")),
        "output": _opened(row.get("output")),
        "model": text(row.get("provided_model_name")) or text(row.get("model")),
        "tokens_in": next((_whole(usage[name]) for name in _TOKENS_IN if name in usage), None),
        "tokens_out": next((_whole(usage[name]) for name in _TOKENS_OUT if name in usage), None),
        "cost": _number(row.get("total_cost") or cost.get("total")),
        "workflow": text(row.get("trace_name")) or text(trace.get("name")),
        "session": text(metadata.get("thread_id")),
    }
    told["answer"] = _calls(row)
    if row.get("session_id") or trace.get("session_id"):
        told["session"] = None
        facts.pop("session", None)  # the session of the trace is that of all its observations
    for fact, value in told.items():
        if value is not None and value != "" and fact not in facts:
            facts[fact] = value


def _calls(row: dict[str, Any]) -> Any:
    """Return what a model asked for, where its row says so beside the answer: calls, and their names by themselves."""
    calls, names = _listed(row.get("tool_calls")), _listed(row.get("tool_call_names"))
    found = []
    for number, call in enumerate(map(mapping, calls)):
        name = text(call.get("name")) or (text(names[number]) if number < len(names) else "")
        found.append({"id": call.get("id"), "function": {"name": name, "arguments": call.get("arguments")}})
    return [{"role": "assistant", "content": None, "tool_calls": found}] if found else None


def _listed(value: Any) -> list[Any]:
    opened = _opened(value)
    return opened if isinstance(opened, list) else []


def _tool_message(facts: dict[str, Any]) -> None:
    """Make a plain span whose output is the message of a tool the call it was."""
    told = tool_message(facts.get("output"))
    if told is not None and "span_kind" not in facts:
        facts["span_kind"] = "TOOL"
        if told.name:
            facts.setdefault("tool", told.name)


def _opened(value: Any) -> Any:
    """Return what a text of JSON holds, once more where that is such a text again; None for null."""
    for _ in range(2):
        if not isinstance(value, str) or value.lstrip()[:1] not in {"{", "[", '"'}:
            break
        found = decode.attempt(value)
        if not isinstance(found, (dict, list, str)):
            break
        value = found
    return None if isinstance(value, str) and value.strip() == "null" else value


def _members(value: Any) -> dict[str, Any]:
    """Return an object, also one kept as text, or as a list of keys and values."""
    if isinstance(value, list):
        return {item["key"]: item.get("value") for item in listed(value) if isinstance(item.get("key"), str)}
    opened = _opened(value)
    return opened if isinstance(opened, dict) else {}


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 19 else value


def _number(value: Any) -> float | None:
    try:
        return float(value) if value is not None and not isinstance(value, (dict, list)) else None
    except (ValueError, TypeError):
        return None


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row under the names of the exports; an empty text there is nothing."""
    exported = "trace_id" in row
    return {_snake(name): value for name, value in row.items() if not (exported and value == "")}


@lru_cache(maxsize=1024)
def _snake(name: str) -> str:
    return _UPPER.sub(r"_\1", name).lower()


FORMAT = Format(
    name="langfuse",
    version=4,
    title="Langfuse trace downloads and blob exports (JSON, JSON lines, CSV, Parquet)",
    recognised_by="trace beside observations, or columns trace_id, type and parent_observation_id",
    proved_on="ten trace downloads of eight frameworks",
    claim=claim,
    read=read,
    lines=True,
    rank=58,
)
