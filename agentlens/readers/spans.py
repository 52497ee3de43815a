"""Spans, however they were exported: what each one was, and the events it becomes.

Formats that carry OpenTelemetry spans (OTLP in JSON or protobuf, Tempo, Jaeger, SDK dumps, Phoenix, MLflow)
build a `Span` each and hand it to one `Spans` per source; the attribute names live in one table a dialect.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers import decode, genai, openinference, traceloop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from agentlens.readers.base import Report

DIALECTS: Final = (genai, openinference, traceloop)
"""Where two dialects name one fact on one span, the first stands."""

_TURNERS: Final = frozenset({"agent", "log"})
_HANDOFF_NAME: Final = re.compile(r"handoff to (.+)", re.IGNORECASE)
_ARROW: Final = re.compile(r"(.*?)\s*(?:→|->)\s*(.+?)(?:\.handoff)?")
HANDOFF_TOOL: Final = re.compile(r"(?:transfer|hand_?off|delegate)_to_(?!human)(\w+)")
"""A tool that hands over to another agent; going to a person is an action like any other."""
_ADDRESSEE: Final = ("agent_name", "agent", "target", "recipient", "coworker")
_PASSED: Final = frozenset({"pass", "passed", "success", "succeeded", "true", "yes", "correct", "resolved"})
_FAILED: Final = frozenset({"fail", "failed", "failure", "false", "no", "incorrect", "unresolved"})


def _ranked() -> dict[str, tuple[str, int]]:
    wanted: dict[str, tuple[str, int]] = {}
    ranks: dict[str, int] = {}
    for dialect in DIALECTS:
        for fact, names in dialect.NAMES.items():
            for name in names:
                ranks[fact] = ranks.get(fact, -1) + 1
                wanted.setdefault(name, (fact, ranks[fact]))
    return wanted


WANTED: Final = _ranked()
"""Attribute name to the fact it tells and its rank among the names of that fact (0 is preferred)."""


@dataclass(slots=True)
class Span:
    """One span: ids as text, times in microseconds, and the facts its attributes tell.

    ``facts`` is what `facts_of` makes of the attributes. ``status``: ``ok``, ``error`` or "" (unset).
    ``notes``: the span's own events as ``(name, time, facts)``, only those that matter.
    """

    trace_id: str
    span_id: str | None
    parent_id: str | None
    name: str
    at: int | None
    ended_at: int | None
    facts: dict[str, Any]
    status: str = ""
    message: str = ""
    notes: list[tuple[str, int | None, dict[str, Any]]] = field(default_factory=list)
    linked_trace: str | None = None
    service: str | None = None
    version: str | None = None
    session: str | None = None


def facts_of(attributes: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Pick the facts out of decoded ``(name, value)`` attributes; of two names of a fact the preferred stands.

    >>> facts_of([("tool.name", "b"), ("gen_ai.tool.name", "a"), ("http.method", "GET")])
    {'tool': 'a'}
    """
    facts: dict[str, Any] = {}
    ranks: dict[str, int] = {}
    for name, value in attributes:
        wanted = WANTED.get(name)
        if wanted is not None and value is not None:
            fact, rank = wanted
            if rank < ranks.get(fact, 99):
                facts[fact] = value
                ranks[fact] = rank
    return facts


def kind_of(facts: Mapping[str, Any], name: str) -> str:
    """Say what a span was: the kind of its event. What is no action, model or agent is ``log``."""
    operation = genai.KINDS.get(_text(facts.get("operation")), "")
    span_kind = openinference.KINDS.get(_text(facts.get("span_kind")).upper(), "")
    loop_kind = traceloop.KINDS.get(_text(facts.get("loop_kind")), "")
    said = (loop_kind, operation, span_kind)
    if "handoff" in said:
        return "handoff"
    if "tool" in said or (name == "running tool" and "tool" in facts) or facts.get("method") == "tools/call":
        return "tool"
    for kind in ("model", "agent", "verdict"):
        if kind in said:
            return kind
    return traceloop.REQUESTS.get(_text(facts.get("request")), "log")


def tool_name(span: Span) -> str:
    """Return the name of the tool a tool span ran."""
    facts = span.facts
    found = _text(facts.get("tool")) or (_text(facts.get("entity")) if "loop_kind" in facts else "")
    if found:
        return found
    name = span.name
    for lead in ("execute_tool ", "tools/call ", "running tool: "):
        if name.startswith(lead):
            return name[len(lead) :].strip()
    return name.removesuffix(".tool")


def addressee(span: Span, tool: str, args: Any) -> str | None:
    """Return whom a handoff span hands to; "" where it is a handoff that does not say; None for no handoff."""
    facts = span.facts
    to = _text(facts.get("handoff_to"))
    if found := _HANDOFF_NAME.fullmatch(span.name) or _HANDOFF_NAME.fullmatch(tool):
        return to or found[1].strip()
    if kind_of(facts, span.name) == "handoff":
        arrow = _ARROW.fullmatch(span.name)
        name = to or (arrow[2] if arrow else "")
        return "" if name == "unknown" else name
    if found := HANDOFF_TOOL.fullmatch(tool):
        if found[1] in {"agent", "coworker"}:
            given = decode.attempt(args) if isinstance(args, str) else args
            names = (given.get(key) for key in _ADDRESSEE) if isinstance(given, dict) else ()
            return to or next((name for name in names if isinstance(name, str)), "")
        return to or found[1]
    return None


@dataclass(slots=True)
class _Twin:
    """A tool or model span that a directly nested or enclosing span may tell a second time."""

    kind: str
    tool: str
    args: Any
    identity: str
    inner: bool = False  # told again by a span right inside


@dataclass(slots=True)
class Spans:
    """Turns the spans of one source into events.

    It remembers tool and model spans, because nested instrumentations tell one call twice: a span right
    inside a span of the same tool with the same arguments is the same call, and shares its identity.
    """

    report: Report
    _by_id: dict[tuple[str, str], _Twin] = field(default_factory=dict)
    _by_parent: dict[tuple[str, str, str, str], _Twin] = field(default_factory=dict)

    def events(self, span: Span, line: int, order: int) -> Iterator[RawEvent]:
        """Yield the events of one span; ``order`` numbers them inside the line, in steps the caller leaves free."""
        kind = kind_of(span.facts, span.name)
        if kind == "tool":
            yield from self._tool(span, (line, order))
        elif kind == "model":
            yield from self._model(span, (line, order))
        else:
            yield self._other(span, kind, (line, order))
        if span.parent_id is None and kind in _TURNERS and _is_turn(span.facts):
            yield self._event(
                span,
                (line, order + 1),
                kind="message",
                tool="user",
                external_input=True,
                parent_span_id=span.span_id,
                span_id=None,
                ended_at=None,
                identity=f"turn:{span.span_id}",
            )
        for index, (name, at, facts) in enumerate(span.notes):
            if name == "gen_ai.evaluation.result":
                yield verdict(
                    self._event(span, (line, order + 2 + index), at=at or span.at), facts, span.span_id
                )

    def _event(self, span: Span, position: tuple[int, int], **facts: Any) -> RawEvent:
        told = span.facts
        agent = told.get("agent")
        fields: dict[str, Any] = {
            "run_id": span.trace_id,
            "position": position,
            "agent": agent if isinstance(agent, str) and agent else None,
            "at": span.at,
            "ended_at": span.ended_at,
            "trace_id": span.trace_id,
            "span_id": span.span_id,
            "parent_span_id": span.parent_id,
            "session": _text(told.get("session")) or span.session,
            "workflow": _text(told.get("workflow")) or None,
            "agent_version": _text(told.get("agent_version")) or span.version,
        }
        fields.update(facts)
        return RawEvent(**fields)

    def _tool(self, span: Span, position: tuple[int, int]) -> Iterator[RawEvent]:
        facts = span.facts
        tool = tool_name(span)
        args = facts.get("args", facts.get("input", ABSENT))
        to = addressee(span, tool, args)
        if to is not None:
            yield self._handoff(span, position, tool, to)
            return
        if tool == "(merged tools)":  # one more span over calls that have their own
            yield self._other(span, "log", position)
            return
        result = facts.get("result", facts.get("output", ABSENT))
        error, result = _failure(span, result)
        identity, twice = self._identity(span, "tool", tool, args)
        yield self._event(
            span,
            position,
            kind="tool",
            tool=tool,
            args=args,
            result=result,
            error_class=error,
            call_id=_text(facts.get("call_id")) or None,
            identity=identity,
            open=span.ended_at is None or (error is None and result is ABSENT and args is not ABSENT),
        )
        if twice:
            yield self._lineage(span, position)

    def _handoff(self, span: Span, position: tuple[int, int], tool: str, to: str) -> RawEvent:
        error, _ = _failure(span, ABSENT)
        named = HANDOFF_TOOL.fullmatch(tool) is not None
        return self._event(
            span,
            position,
            kind="handoff",
            tool=tool if named else "handoff",
            args={"to": to} if to else ABSENT,
            target=to or None,
            error_class=error,
            call_id=_text(span.facts.get("call_id")) or None,
            identity=f"span:{span.span_id}" if span.span_id else None,
            open=span.ended_at is None,
        )

    def _model(self, span: Span, position: tuple[int, int]) -> Iterator[RawEvent]:
        facts = span.facts
        error, _ = _failure(span, ABSENT)
        identity, twice = self._identity(span, "model", "", ABSENT)
        yield self._event(
            span,
            position,
            kind="model",
            model=_text(facts.get("model")) or None,
            tokens_in=_count(facts.get("tokens_in")),
            tokens_out=_count(facts.get("tokens_out")),
            cost_usd=_amount(facts.get("cost")),
            error_class=error,
            identity=identity,
            open=span.ended_at is None,
        )
        if twice:
            yield self._lineage(span, position)

    def _other(self, span: Span, kind: str, position: tuple[int, int]) -> RawEvent:
        facts = span.facts
        if kind == "handoff":
            return self._handoff(span, position, "handoff", addressee(span, "", ABSENT) or "")
        error, _ = _failure(span, ABSENT)
        agent = _text(facts.get("agent"))
        if kind == "agent":
            agent = agent or _text(facts.get("node")) or _agent_name(span)
        if not agent and span.parent_id is None:
            agent = span.service or ""  # what encloses everything names whom nothing else names
        event = self._event(
            span,
            position,
            kind=kind,
            agent=agent or None,
            tool=agent if kind == "agent" else "",
            error_class=error,
            identity=f"span:{span.span_id}" if span.span_id else None,
            open=span.ended_at is None,
            parent_run_id=span.linked_trace if span.parent_id is None else None,
        )
        return verdict(event, facts, span.parent_id) if kind == "verdict" else event

    def _lineage(self, span: Span, position: tuple[int, int]) -> RawEvent:
        """Keep the place of a span whose event is told by another, for the spans below it."""
        return self._event(span, (position[0], position[1] + 1), kind="log")

    def _identity(self, span: Span, kind: str, tool: str, args: Any) -> tuple[str | None, bool]:
        """Return the identity of a call, and whether it is that of a span told before."""
        if span.span_id is None:
            return None, False
        key = (span.trace_id, span.span_id)
        own = _Twin(kind, tool, args, f"span:{span.span_id}")
        above = None if span.parent_id is None else self._by_id.get((span.trace_id, span.parent_id))
        below = self._by_parent.get((*key, kind, tool))
        twin = None
        if above is not None and not above.inner and _same(above, own):
            twin, above.inner = above, True  # the next one inside is another attempt, not another telling
        elif below is not None and _same(below, own):
            twin, own.inner = below, True
        if twin is not None:
            own.identity = twin.identity
        self._by_id[key] = own
        if span.parent_id is not None:
            self._by_parent.setdefault((span.trace_id, span.parent_id, kind, tool), own)
        return own.identity, twin is not None


def verdict(event: RawEvent, facts: Mapping[str, Any], about: str | None) -> RawEvent:
    """Make an event the verdict of an evaluation on the span ``about``: passed, failed, else unknown."""
    label = _text(facts.get("score_label")).strip().lower()
    name = _text(facts.get("score_name"))
    event.kind = "verdict"
    event.outcome = "passed" if label in _PASSED else "failed" if label in _FAILED else "unknown"
    event.target = name or "evaluation"
    event.tool = ""
    if event.identity is None:
        event.span_id, event.parent_span_id = None, about
        event.ended_at = None
        event.identity = f"verdict:{about}:{name}:{event.at}"
    return event


def _same(one: _Twin, other: _Twin) -> bool:
    if one.kind != other.kind or one.tool != other.tool:
        return False
    if one.args is ABSENT or other.args is ABSENT:
        return True
    return bool(one.args == other.args or _decoded(one.args) == _decoded(other.args))


def _decoded(args: Any) -> Any:
    if not isinstance(args, str):
        return args
    value = decode.attempt(args)
    return args if value is ABSENT else value


def _failure(span: Span, result: Any) -> tuple[str | None, Any]:
    """Return the error class, and the result where it can be believed.

    A failed call whose details were redacted gives the same words for every failure: its result is not
    known. A failed call without a result has the message of its failure for one.
    """
    exception = next((facts for name, _, facts in span.notes if name == "exception"), None)
    told = _text(exception.get("error")) if exception else ""
    error = told or _text(span.facts.get("error"))
    if span.status != "error":
        named = _text(span.facts.get("error")) if span.status == "" else ""
        return named or None, result
    text = (_text(exception.get("detail")) if exception else "") or span.message
    if "redacted" in text.lower():
        return error or "unknown", ABSENT
    return error or "unknown", text if result is ABSENT and text else result


def _agent_name(span: Span) -> str:
    entity = _text(span.facts.get("entity"))
    return entity or span.name.removeprefix("invoke_agent").removesuffix(".agent").strip()


def _is_turn(facts: Mapping[str, Any]) -> bool:
    """Say whether the input of an outermost span is a person's: plain text, or a chat that a user speaks last in."""
    told = facts.get("messages", facts.get("input"))
    value = decode.attempt(told) if isinstance(told, str) else told
    if value is ABSENT:
        return bool(_text(told).strip())
    if isinstance(value, dict):
        value = value.get("messages")
    if isinstance(value, list) and value and isinstance(value[-1], dict):
        return value[-1].get("role") in {"user", "human"} or value[-1].get("type") == "human"
    return isinstance(value, str) and bool(value.strip())


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _count(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None


def _amount(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None
