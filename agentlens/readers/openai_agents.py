"""Payloads of the OpenAI Agents SDK: its traces and spans as custom processors and the ingest body hold them."""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers import decode
from agentlens.readers.base import Format, Record, Report
from agentlens.readers.blocks import count_of
from agentlens.readers.plain_spans import STEP, listed, mapping, text, when
from agentlens.readers.spans import Span, Spans
from agentlens.readers.tabular import json_rows, records_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.source import Head, Source

_KEYS: Final = ("data", "spans", "items")
_OBJECTS: Final = frozenset({"trace", "trace.span"})
_SEVERAL: Final = "multiple handoffs"
_LIMITS: Final = (
    ("max turns exceeded", "MaxTurnsExceeded"),
    ("guardrail tripwire triggered", "GuardrailTripwireTriggered"),
)
_CLASS: Final = re.compile(
    r"(?:\w{1,80}\.){0,8}([A-Z]\w{0,80}(?:Error|Exception|Timeout|Interrupt))(?=[:(]|$)"
)
_CONTENT: Final = frozenset({"args", "result"})
_ASKED: Final = frozenset({"function_call", "custom_tool_call"})


def claim(head: Head) -> int:
    """Claim objects that say they are a trace or a span of one."""
    found = [record for record in records_of(head, *_KEYS) if text(record.get("object")) in _OBJECTS]
    return 95 if found and not head.magic else 0


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of every trace and span; calls get their ids from the model's answers that asked for them."""
    payloads = _Payloads(report)
    for position, place, record in json_rows(source, report, *_KEYS):
        found = text(record.get("object"))
        if found == "trace":
            yield from payloads.trace(record, position, place * STEP)
        elif found == "trace.span":
            yield from payloads.span(record, position, place * STEP)
        elif found:
            report.unknown[f"object {found}"[:80]] += 1
        else:
            report.quarantine(position, "neither a trace nor a span: it says no object", "record")
    yield from payloads.rest()


@dataclass(slots=True)
class _Held:
    """A call whose model answer has not been seen yet."""

    span: Span
    key: tuple[str, str]
    position: int
    order: int


@dataclass(slots=True)
class _Turn:
    """What the model asked for under one span, and the calls found there."""

    asked: dict[tuple[str, str], deque[str]] = field(default_factory=dict)
    held: list[_Held] = field(default_factory=list)


@dataclass(slots=True)
class _Payloads:
    """Turns payloads into events; remembers traces, and turns until they end."""

    report: Report
    spans: Spans = field(init=False)
    about: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    turns: dict[tuple[str, str], _Turn] = field(default_factory=dict)
    waiting: dict[tuple[str, str, str], deque[RawEvent]] = field(default_factory=dict)
    known: dict[str, set[str]] = field(default_factory=dict)  # per trace, ids that its own answers asked for
    heard: dict[str, dict[tuple[str, str], deque[str]]] = field(
        default_factory=dict
    )  # asked for before the trace
    late: list[_Held] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.spans = Spans(self.report)

    def trace(self, record: dict[str, Any], position: int, order: int) -> Iterator[RawEvent]:
        trace_id = text(record.get("id")) or text(record.get("trace_id"))
        if not trace_id:
            self.report.quarantine(position, "a trace without an id", "record")
            return
        group, workflow = text(record.get("group_id")) or None, text(record.get("workflow_name")) or None
        self.about[trace_id] = (group, workflow)
        event = RawEvent(run_id=trace_id, trace_id=trace_id, kind="log", session=group, workflow=workflow)
        event.identity = f"trace:{trace_id}"
        event.position = (position, order)
        event.agent = None
        yield event

    def span(self, record: dict[str, Any], position: int, order: int) -> Iterator[RawEvent]:
        data = mapping(record.get("span_data"))
        kind = text(data.get("type"))
        span = self._span(record, data, kind)
        if span is None:
            self.report.quarantine(position, "a span without a trace_id", "record")
            return
        above = (span.trace_id, span.parent_id or "")
        if kind == "function":
            key = (text(data.get("name")), _canonical(data.get("input")))
            turn = self.turns.setdefault(above, _Turn())
            if not self._joined(span, turn, key):
                turn.held.append(_Held(span, key, position, order))
                return
            yield from self._called(_Held(span, key, position, order))
            return
        elif kind in {"generation", "response"}:
            self._listen(span.trace_id, data)
            yield from self._person(span, data, position, order + STEP // 2)
            yield from self._asked(data, above)
        yield from self.spans.events(span, position, order)
        if kind == "custom" and (ended := self.turns.pop((span.trace_id, span.span_id or ""), None)):
            yield from self._let_go(ended)

    def rest(self) -> Iterator[RawEvent]:
        """Yield the calls that no answer of the model was found for."""
        for turn in self.turns.values():
            yield from self._let_go(turn)
        begun = {
            (event.call_id, tool, args): event
            for (_, tool, args), events in self.waiting.items()
            for event in events
        }
        for held in self.late:
            ids = self.heard.get(held.span.trace_id, {}).get(held.key, ())
            known = next((one for one in ids if (one, *held.key) in begun), None)
            yield from self._continued(held, begun.pop((known, *held.key), None) if known else None)

    def _let_go(self, turn: _Turn) -> Iterator[RawEvent]:
        for held in turn.held:
            waiting = self.waiting.get((held.span.trace_id, *held.key))
            if waiting:
                yield from self._continued(held, waiting.popleft())
            else:
                self.late.append(held)

    def _listen(self, trace_id: str, data: dict[str, Any]) -> None:
        """Note the calls that a question to the model repeats and that no answer of this trace asked for."""
        known = self.known.setdefault(trace_id, set())
        for call_id, name, args in _calls(data.get("input")):
            if call_id not in known:
                known.add(call_id)
                heard = self.heard.setdefault(trace_id, {})
                heard.setdefault((name, args), deque()).append(call_id)

    def _called(self, held: _Held) -> list[RawEvent]:
        """Return the events of a call that was asked for, and remember it where it waits for a person."""
        found = self.spans.events(held.span, held.position, held.order)
        for event in found:
            if event.kind == "tool" and event.open and event.ended_at is not None:
                self.waiting.setdefault((held.span.trace_id, *held.key), deque()).append(event)
        return found

    def _continued(self, held: _Held, begun: RawEvent | None) -> list[RawEvent]:
        """Return the events of a call no answer asked for; ``begun``: the call that waited and that a person let go on.

        Where that was in another trace, the model was told there of a call of this id, name and arguments.
        """
        found = self.spans.events(held.span, held.position, held.order)
        call = next((event for event in found if event.kind == "tool"), None)
        if begun is not None and call is not None:
            call.identity, call.call_id, call.external_input = begun.identity, begun.call_id, True
            if call.run_id != begun.run_id:  # it stands where it began
                call.run_id, call.trace_id, call.session = begun.run_id, begun.trace_id, begun.session
                call.span_id, call.parent_span_id, call.agent = (
                    begun.span_id,
                    begun.parent_span_id,
                    begun.agent,
                )
        return found

    @staticmethod
    def _joined(span: Span, turn: _Turn, key: tuple[str, str]) -> bool:
        """Give a call its id: the first that was asked for with this name and these arguments."""
        if ids := turn.asked.get(key):
            span.facts["call_id"] = ids.popleft()
            return True
        return False

    def _asked(self, data: dict[str, Any], above: tuple[str, str]) -> Iterator[RawEvent]:
        """Note the calls an answer asks for, and yield those that were found before it."""
        answer = data.get("output")
        if answer is None:
            answer = mapping(data.get("response")).get("output")
        calls = list(_calls(answer))
        if not calls:
            return
        turn = self.turns.setdefault(above, _Turn())
        self.known.setdefault(above[0], set()).update(call_id for call_id, _, _ in calls)
        for call_id, name, args in calls:
            turn.asked.setdefault((name, args), deque()).append(call_id)
        waiting, turn.held = turn.held, []
        for held in waiting:
            if self._joined(held.span, turn, held.key):
                yield from self._called(held)
            else:
                turn.held.append(held)

    def _person(self, span: Span, data: dict[str, Any], position: int, order: int) -> Iterator[RawEvent]:
        """Yield the human turn a trace begins with: the first question to a model that a user speaks last in."""
        if span.trace_id in self.begun:
            return
        asked = data.get("input")
        last = (
            listed(asked)[-1:] if not isinstance(asked, str) else [{"role": "user"}] if asked.strip() else []
        )
        if not last or text(last[0].get("role")) != "user":
            return
        self.begun.add(span.trace_id)
        event = RawEvent(
            run_id=span.trace_id, trace_id=span.trace_id, kind="message", tool="user", agent=None
        )
        event.external_input, event.at = True, span.at
        event.parent_span_id, event.session, event.workflow = (
            span.parent_id,
            span.session,
            span.facts.get("workflow"),
        )
        event.identity = f"turn:{span.trace_id}"
        event.position = (position, order)
        yield event

    def _span(self, record: dict[str, Any], data: dict[str, Any], kind: str) -> Span | None:
        trace_id = text(record.get("trace_id"))
        if not trace_id:
            return None
        group, workflow = self.about.get(trace_id, (None, None))
        error = record.get("error")
        status, message = _error(error, kind)
        facts = _facts(data, kind)
        if workflow:
            facts["workflow"] = workflow
        if lifted := next((name for words, name in _LIMITS if words in message.lower()), None):
            facts["error"] = lifted
        elif named := _CLASS.match(_cause(error)):
            facts["error"] = named[1]
        return Span(
            trace_id,
            text(record.get("id")) or None,
            text(record.get("parent_id")) or None,
            text(data.get("name")) or kind,
            when(record.get("started_at"), self.report),
            when(record.get("ended_at"), self.report),
            facts,
            status,
            message,
            session=group,
        )


def _error(error: Any, kind: str) -> tuple[str, str]:
    """Return status and message; a handoff that was asked for twice says it failed, and happens."""
    if not error:
        return "", ""
    told = mapping(error)
    message = text(told.get("message")) or text(error)
    if kind == "handoff" and _SEVERAL in message.lower():
        return "", ""
    more = _cause(error)
    return "error", f"{message}: {more}" if more else message


def _cause(error: Any) -> str:
    """Return what a tool raised, which stands beside the words that every failure of a tool has."""
    detail = mapping(error).get("data")
    return text(detail.get("error") if isinstance(detail, dict) else detail)


def _facts(data: dict[str, Any], kind: str) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if kind == "function":
        facts = {"operation": "execute_tool", "tool": text(data.get("name"))}
        facts |= {
            to: data[name]
            for to, name in (("args", "input"), ("result", "output"))
            if data.get(name) is not None
        }
    elif kind == "handoff":
        facts = {"operation": "handoff", "handoff_to": text(data.get("to_agent"))}
    elif kind == "agent":
        facts = {"operation": "invoke_agent", "agent": text(data.get("name"))}
    elif kind in {"generation", "response"}:
        answer = mapping(data.get("response"))
        usage = mapping(data.get("usage")) or mapping(answer.get("usage"))
        facts = {
            "operation": "chat",
            "model": text(data.get("model")) or text(answer.get("model")) or None,
            "tokens_in": count_of(usage.get("input_tokens", usage.get("prompt_tokens"))),
            "tokens_out": count_of(usage.get("output_tokens", usage.get("completion_tokens"))),
        }
    elif kind == "custom":
        told = mapping(data.get("data"))
        if text(told.get("sdk_span_type")) == "turn":
            facts = {"agent": text(told.get("agent_name"))}
    return {name: value for name, value in facts.items() if name in _CONTENT or value not in {None, ""}}


def _calls(answer: Any) -> Iterator[tuple[str, str, str]]:
    """Yield id, tool and arguments of the calls in an answer: items of a response, or chat messages."""
    for item in listed(answer):
        for call in [item, *listed(item.get("tool_calls"))]:
            call_id = call.get("call_id", call.get("id"))
            function = mapping(call.get("function"))
            name = text(function.get("name")) or text(call.get("name"))
            asked = function or text(call.get("type")) in _ASKED
            if asked and isinstance(call_id, str) and name:
                yield (
                    call_id,
                    name,
                    _canonical(function.get("arguments", call.get("arguments", call.get("input")))),
                )


def _canonical(args: Any) -> str:
    """Return arguments in one spelling, for the comparison of what was asked and what was done."""
    value = decode.attempt(args) if isinstance(args, str) else args
    try:
        return text(args) if value is ABSENT else json.dumps(value, sort_keys=True)
    except RecursionError:
        return text(args)


FORMAT = Format(
    name="openai-agents",
    version=4,
    title="OpenAI Agents SDK trace and span payloads",
    recognised_by='"object": "trace" or "trace.span"',
    proved_on="three traces of version 0.24: handoff and failing tool, loop to the turn limit, waiting approval",
    claim=claim,
    read=read,
    rank=63,
)
