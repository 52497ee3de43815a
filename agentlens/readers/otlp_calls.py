"""OTLP log records by themselves: GenAI events of model calls, and the events that coding agents write.

Where spans of the same run were exported too, these tell the same calls better: their reader ranks higher, and its
steps stand. A file of log records alone is all there is of a run whose program wrote no spans for its tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers import decode, otlp, otlp_proto
from agentlens.readers.addressees import handed_to
from agentlens.readers.any_values import value_of
from agentlens.readers.base import Format, Record, Report
from agentlens.readers.bodies import failure_in, status_class
from agentlens.readers.ids import hex_id, micros
from agentlens.readers.span_values import text_of
from agentlens.readers.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.source import Head, Source

_LOGS: Final = frozenset({"resourceLogs", "resource_logs"})
_SESSIONS: Final = ("gen_ai.conversation.id", "session.id", "conversation.id", "session_id")
_DETAILS: Final = "gen_ai.client.inference.operation.details"
_VENDORS: Final = ("claude_code.", "codex.", "gemini_cli.", "qwen-code.")
_RESULTS: Final = frozenset({"tool_result", "tool_call"})
_ANSWERS: Final = frozenset({"api_request", "api_response", "api_error"})
_PROMPTS: Final = frozenset({"user_prompt"})
_REFUSED: Final = frozenset({"reject", "rejected", "denied", "deny", "abort"})
_MOST: Final = 64
"""Calls of one answer that are told; a model asks for a few."""


def claim(head: Head) -> int:
    """Claim requests that hold log records and no spans, in JSON or in protobuf."""
    if found := [request for value in head.values for request in otlp.requests(value)]:
        return 96 if all(_LOGS & request.keys() for request in found) else 0
    if head.magic or len(head.data) < 8:
        return 0
    first = otlp_proto.begun(head.data)
    if first[:1] == b"{":
        start = first[:256]
        return 92 if b'"resourceLogs"' in start or b'"resource_logs"' in start else 0
    return 92 if otlp_proto.held(first) == (False, True) else 0


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the calls that records ask for, once each, with what came back; and prompts, decisions, model calls."""
    calls: dict[tuple[str, str], RawEvent] = {}

    def records(spans: Spans, report: Report, number: int) -> _Records:
        return _Records(spans, report, number, calls)

    if otlp_proto.begun(source.head().data):
        yield from otlp_proto.requests(source, report, records)
        return
    spans = Spans(report)
    if not source.is_lines():
        value = source.document(report, ("logRecords", "log_records", "spans"))
        if value is not ABSENT:
            yield from records(spans, report, 0).events(value)
        return
    for number, line in source.lines(report):
        value = decode.loads(line, report, number)
        if value is not ABSENT:
            yield from records(spans, report, number).events(value)


class _Records(otlp.Line):
    """The log records of one line, as actions; ``calls``: those of the source, by run and call id."""

    def __init__(
        self, spans: Spans, report: Report, number: int, calls: dict[tuple[str, str], RawEvent]
    ) -> None:
        super().__init__(spans, report, number)
        self.calls = calls

    def _calls(
        self, raw: dict[str, Any], name: str, told: dict[str, Any], session: str | None, order: int
    ) -> list[RawEvent]:
        named = next((text_of(told[key]) for key in _SESSIONS if told.get(key)), "") or session or ""
        trace = hex_id(raw.get("traceId") or raw.get("trace_id"), 16)
        if not trace and not named:
            return []
        about = RawEvent(run_id=trace or named, trace_id=trace, agent=None if trace else "")
        about.session = named if trace and named else None
        about.parent_span_id = hex_id(raw.get("spanId") or raw.get("span_id"), 8) if trace else None
        about.at = micros(raw.get("timeUnixNano", raw.get("time_unix_nano")), self.report) or micros(
            raw.get("observedTimeUnixNano", raw.get("observed_time_unix_nano")), self.report
        )
        body = value_of(raw.get("body"))
        inside = body if isinstance(body, dict) else {}
        found = list(self._found(name, {**inside, **told}, inside, about))
        for index, event in enumerate(found[:_MOST]):
            event.position = (self.number, order * _MOST + index)
        return found[:_MOST]

    def _found(
        self, name: str, told: dict[str, Any], body: dict[str, Any], about: RawEvent
    ) -> Iterator[RawEvent]:
        short = next((name[len(lead) :] for lead in _VENDORS if name.startswith(lead)), name)
        if name == "gen_ai.choice":
            message = body.get("message")
            asked = message.get("tool_calls") if isinstance(message, dict) else told.get("tool_calls")
            yield from self._asked(asked, about)
        elif name == "gen_ai.tool.message":
            yield from self._answered(text_of(told.get("id")), told.get("content"), about)
        elif name == "gen_ai.user.message":
            return  # every model call tells the whole conversation again
        elif name == _DETAILS:
            yield from self._asked(_parts(told.get("gen_ai.output.messages"), "tool_call"), about)
            for part in _parts(told.get("gen_ai.input.messages"), "tool_call_response"):
                result = part.get("response", part.get("result"))
                yield from self._answered(text_of(part.get("id")), result, about)
        elif short in _RESULTS:
            yield _result(told, about)
        elif short in _PROMPTS:
            yield _like(about, "message", tool="user", external_input=True)
        elif short in _ANSWERS:
            yield _answer(told, about)
        elif short == "tool_decision" and text_of(told.get("decision")).lower() in _REFUSED:
            tool = text_of(told.get("tool_name"))
            yield _like(about, "approval", tool=tool, target=tool or None, error_class="rejected_by_user")

    def _asked(self, calls: Any, about: RawEvent) -> Iterator[RawEvent]:
        for call in calls if isinstance(calls, list) else ():
            if not isinstance(call, dict):
                continue
            function = call.get("function")
            inner = function if isinstance(function, dict) else call
            tool, call_id = text_of(inner.get("name")), text_of(call.get("id"))
            args = inner.get("arguments")
            to = handed_to(tool, args)
            event = _like(about, "tool" if to is None else "handoff", tool=tool, open=True)
            event.args = ABSENT if args is None else args
            event.target, event.call_id = to or None, call_id or None
            if call_id:
                event.identity = f"call:{about.parent_span_id or about.at}/{call_id}"
                self.calls[about.run_id, call_id] = event
            yield event

    def _answered(self, call_id: str, result: Any, about: RawEvent) -> Iterator[RawEvent]:
        """Yield what came back, the first time that it is told: later prompts hold it again."""
        call = self.calls.pop((about.run_id, call_id), None)
        if call is None:
            return
        event = _like(call, call.kind, tool=call.tool, open=False)
        event.at, event.ended_at = None, about.at
        event.call_id, event.identity, event.target = call.call_id, call.identity, call.target
        event.result = ABSENT if result is None else result
        event.error_class = failure_in(result)
        yield event


def _like(about: RawEvent, kind: str, **facts: Any) -> RawEvent:
    event = RawEvent(run_id=about.run_id, kind=kind, agent=about.agent, at=about.at)
    event.trace_id, event.session, event.parent_span_id = about.trace_id, about.session, about.parent_span_id
    for name, value in facts.items():
        setattr(event, name, value)
    return event


def _parts(messages: Any, kind: str) -> list[dict[str, Any]]:
    """Return the parts of this kind in the messages of a record, which may be JSON text."""
    told = decode.attempt(messages) if isinstance(messages, str) else messages
    found: list[dict[str, Any]] = []
    for message in told if isinstance(told, list) else ():
        parts = message.get("parts") if isinstance(message, dict) else None
        found += [
            part
            for part in (parts if isinstance(parts, list) else ())
            if isinstance(part, dict) and part.get("type") == kind
        ]
    return found


def _result(told: dict[str, Any], about: RawEvent) -> RawEvent:
    """Return one whole action: a record that is written when a tool ends tells all of it."""
    tool = text_of(told.get("tool_name")) or text_of(told.get("function_name"))
    args = next(
        (told[key] for key in ("tool_input", "arguments", "function_args", "tool_parameters") if key in told),
        ABSENT,
    )
    result = told.get("output", told.get("tool_output", ABSENT))
    failed = text_of(told.get("success")).lower() == "false"
    error = text_of(told.get("error_type")) or failure_in(result) or ("tool_error" if failed else None)
    event = _like(about, "tool", tool=tool, args=args, result=result, open=False)
    event.error_class = error if failed or failure_in(result) else None
    event.call_id = text_of(told.get("tool_use_id")) or text_of(told.get("call_id")) or None
    event.identity = f"call:{event.call_id}" if event.call_id else None
    event.ended_at, event.at = about.at, _before(about.at, told.get("duration_ms"))
    return event


def _answer(told: dict[str, Any], about: RawEvent) -> RawEvent:
    event = _like(about, "model", ended_at=about.at, at=_before(about.at, told.get("duration_ms")))
    event.model = text_of(told.get("model")) or None
    event.tokens_in = _whole(told.get("input_tokens", told.get("input_token_count")))
    event.tokens_out = _whole(told.get("output_tokens", told.get("output_token_count")))
    event.attempt = _whole(told.get("attempt"))
    status = told.get("status_code")
    if told.get("error") is not None:
        event.error_class = status_class(text_of(status)) or "model_error"
    return event


def _whole(value: Any) -> int | None:
    text = text_of(value)
    return int(text) if text.isdecimal() and len(text) < 19 else None


def _before(at: int | None, milliseconds: Any) -> int | None:
    long = milliseconds if isinstance(milliseconds, (int, float)) else _whole(milliseconds)
    if at is None or long is None or not 0 <= long < 1 << 40:
        return at
    return at - round(long * 1000)


FORMAT = Format(
    name="otlp-logs",
    version=3,
    title="OTLP log records (GenAI events; Claude Code, Codex and Gemini CLI telemetry)",
    recognised_by="resourceLogs without resourceSpans, in JSON or in protobuf",
    proved_on="made-up records in the documented names; no public export is known",
    claim=claim,
    read=read,
    rank=40,
)
