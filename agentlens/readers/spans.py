"""Spans, however they were exported: what each one was, and the events it becomes.

Formats that carry OpenTelemetry spans (OTLP in JSON or protobuf, Tempo, Jaeger, SDK dumps, Phoenix, MLflow)
build a `Span` each and hand it to one `Spans` per source; the attribute names live in one table a dialect.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers import frameworks, genai, openinference, prompts, traceloop
from agentlens.readers.addressees import HANDOFF_TOOL, addressee, handed_to
from agentlens.readers.bodies import class_name, failure_in, status_class
from agentlens.readers.flat_messages import FLAT
from agentlens.readers.messages import Call, Reply
from agentlens.readers.span_values import amount, attempt, count, is_turn, text_of
from agentlens.readers.tool_messages import single, tool_message
from agentlens.readers.twins import Twins
from agentlens.readers.verdicts import verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from agentlens.readers.base import Report

DIALECTS: Final = (genai, openinference, traceloop, frameworks)
"""Where two dialects name one fact on one span, the first stands."""

_TURNERS: Final = frozenset({"agent", "log"})
_AGENT_RUN: Final = re.compile(r"agent_run \[(.+)\]")
WAITS: Final = frozenset({"GraphInterrupt", "NodeInterrupt"})
"""What a graph raises to ask a person: it waits, nothing failed."""
_BUBBLES: Final = WAITS | {"ParentCommand", "GraphBubbleUp"}
"""What a graph raises to leave a node: nothing failed."""
_TWICE: Final = "Multiple handoffs requested"
"""What the span of a handoff that was asked for twice says: it failed. It happens all the same."""
ASKED: Final = "asked:"
"""How the identity of a call begins that only the words of a model tell of."""
_ASKED: Final = re.compile(r"\bid='([^']{1,80})'")


_ANY_TYPE: Final = frozenset(
    {
        "args",
        "result",
        "input",
        "output",
        "messages",
        "tokens_in",
        "tokens_out",
        "cost",
        "score",
        "metadata",
        "answer",
    }
)


def _ranked() -> dict[str, tuple[str, int, bool]]:
    wanted: dict[str, tuple[str, int, bool]] = {}
    ranks: dict[str, int] = {}
    for dialect in DIALECTS:
        for fact, names in dialect.NAMES.items():
            for name in names:
                ranks[fact] = ranks.get(fact, -1) + 1
                wanted.setdefault(name, (fact, ranks[fact], fact not in _ANY_TYPE))
    return wanted


WANTED: Final = _ranked()
"""Attribute name to the fact it tells, its rank among the names of that fact (0 is preferred), and whether the
fact is a text: then numbers are made one, and anything else is passed over."""


class _Names:
    """The names of attributes whose values are looked at."""

    def __contains__(self, name: object) -> bool:
        return name in WANTED or (isinstance(name, str) and name.startswith(FLAT))


NAMES: Final = _Names()
"""All names in `WANTED`, and those of flattened messages."""


@dataclass(slots=True)
class Span:
    """One span: ids as text, times in microseconds, and the facts its attributes tell.

    ``facts`` is what `facts_of` makes of the attributes. ``status``: ``ok``, ``error`` or "" (unset).
    ``notes``: the span's own events as ``(name, time, facts)``, only those that matter. ``linked_trace`` (None:
    its own) and ``linked_span``: the one span it links to. ``client``: the caller's side of a call. ``consumer``: it
    took a message from a queue.
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
    linked_span: str | None = None
    client: bool = False
    consumer: bool = False


def facts_of(attributes: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Pick the facts out of decoded ``(name, value)`` attributes; of two names of a fact the preferred stands.

    >>> facts_of([("tool.name", "b"), ("gen_ai.tool.name", "a"), ("http.method", "GET")])
    {'tool': 'a'}
    """
    facts: dict[str, Any] = {}
    ranks: dict[str, int] = {}
    for name, value in attributes:
        wanted = WANTED.get(name)
        if wanted is None:
            if name.startswith(FLAT):
                facts.setdefault("flat", []).append((name, value))
        elif value is not None:
            fact, rank, textual = wanted
            told = text_of(value) if textual else value
            if (told != "" or not textual) and (fact not in facts or rank < ranks[fact]):
                facts[fact] = told
                ranks[fact] = rank
    return facts


def kind_of(facts: Mapping[str, Any], name: str) -> str:
    """Say what a span was: the kind of its event. What is no action, model or agent is ``log``."""
    get = facts.get
    if get("operation") == "goto" and get("agent") == "tools":
        return "log"  # a tool said where to go on, and has a span of its own
    kind = _kind(get("operation"), get("span_kind"), get("loop_kind"), get("request"), get("method"))
    called = "tool" in facts and ("call_id" in facts or name == "running tool")
    return "tool" if called and kind == "log" else kind


@lru_cache(maxsize=4096)
def _kind(
    operation: str | None,
    span_kind: str | None,
    loop_kind: str | None,
    request: str | None,
    method: str | None,
) -> str:
    said = (
        traceloop.KINDS.get(loop_kind or ""),
        genai.KINDS.get(operation or "") or frameworks.KINDS.get(operation or ""),
        openinference.KINDS.get((span_kind or "").upper()),
    )
    for kind in ("handoff", "tool"):
        if kind in said:
            return kind
    if method == "tools/call":
        return "tool"
    for kind in ("model", "agent", "verdict"):
        if kind in said:
            return kind
    return traceloop.REQUESTS.get(request or "", "log")


def tool_name(span: Span) -> str:
    """Return the name of the tool a tool span ran."""
    facts = span.facts
    found = facts.get("tool") or (facts.get("entity") if "loop_kind" in facts else None)
    if found:
        return str(found)
    name = span.name
    for lead in ("execute_tool ", "tools/call ", "running tool: "):
        if name.startswith(lead):
            return name[len(lead) :].strip()
    return name.removesuffix(".tool")


@dataclass(slots=True)
class Spans:
    """Turns the spans of one source into events.

    It remembers tool and model spans, because nested instrumentations tell one call twice: a span right
    inside a span of the same tool with the same arguments is the same call, and shares its identity.
    """

    report: Report
    _twins: Twins = field(default_factory=Twins)
    _acting: set[str] = field(default_factory=set)  # traces with tools that have spans of their own

    def events(self, span: Span, line: int, order: int) -> list[RawEvent]:
        """Return the events of one span; ``order`` numbers them inside the line, in steps the caller leaves free."""
        facts = span.facts
        if ("place" in facts or "metadata" in facts) and "agent" not in facts:
            frameworks.place(facts)
        kind = kind_of(facts, span.name)
        if kind == "tool":
            self._acting.add(span.trace_id)
            found = self._tool(span, (line, order))
        elif kind == "model":
            found = self._model(span, (line, order))
            if span.trace_id not in self._acting:
                found += self._words(span, (line, order + 2))
        elif kind == "agent" and span.client and span.parent_id is not None:
            found = self._asked(span, (line, order))
        else:
            found = [self._other(span, kind, (line, order))]
            if span.parent_id is None and kind in _TURNERS and is_turn(facts):
                found.append(self._turn(span, (line, order + 1)))
        if (span.notes or span.status == "error") and _class_of(span) in WAITS:
            found.append(self._question(span, (line, order + 2)))
        for index, (name, at, told) in enumerate(span.notes):
            if name == "gen_ai.evaluation.result":
                event = self._event(span, (line, order + 2 + index), "verdict")
                event.at = at or span.at
                found.append(verdict(event, told, span.span_id))
        return found

    def _event(self, span: Span, position: tuple[int, int], kind: str) -> RawEvent:
        """Return an event with what every span says of itself."""
        # attributes set one by one: twice as fast as as many arguments, and there is one event a span
        get = span.facts.get
        event = RawEvent(run_id=span.trace_id)
        event.position = position
        event.kind = kind
        event.agent = get("agent")
        event.at = span.at
        event.ended_at = span.ended_at
        event.trace_id = span.trace_id
        event.span_id = span.span_id
        event.parent_span_id = span.parent_id
        event.session = get("session") or span.session
        event.workflow = get("workflow")
        event.agent_version = get("agent_version") or span.version
        return event

    def _turn(self, span: Span, position: tuple[int, int]) -> RawEvent:
        """Return the human turn that an outermost span answers; it stands in the lane of that span."""
        event = self._event(span, position, "message")
        event.tool, event.external_input = "user", True
        event.span_id, event.parent_span_id, event.ended_at = None, span.span_id, None
        event.identity = f"turn:{span.span_id}" if span.span_id else None
        return event

    def _question(self, span: Span, position: tuple[int, int]) -> RawEvent:
        """Return the wait for a person that a graph raised; every span around the question tells of the same one."""
        event = self._event(span, position, "wait")
        event.tool, event.target, event.open = (
            "interrupt",
            span.name.removeprefix("execute_task ") or None,
            True,
        )
        event.at, event.ended_at = span.ended_at or span.at, None
        event.span_id, event.parent_span_id = None, span.span_id
        asked = _ASKED.search(_detail(span))
        event.identity = f"interrupt:{asked[1] if asked else span.span_id}"
        return event

    def _tool(self, span: Span, position: tuple[int, int]) -> list[RawEvent]:
        facts = span.facts
        tool = tool_name(span)
        args = facts.get("args", facts.get("input", ABSENT))
        result = facts.get("result", facts.get("output", ABSENT))
        if "loop_kind" in facts:
            args = traceloop.unwrapped(args, "inputs", "input_str")
            result = traceloop.unwrapped(result, "output")
        if args is ABSENT or result is ABSENT:
            args, result = _noted(span, args, result)
        args = single(args)
        to = addressee(span, "tool", tool, args)
        if to is not None:
            return [self._handoff(span, position, tool, to)]
        if tool == "(merged tools)":  # one more span over calls that have their own
            return [self._other(span, "log", position)]
        message = tool_message(result)
        if message is not None:
            result = message.content
            facts.setdefault("call_id", message.call_id)
            if message.failed:
                facts["failed"] = "error"
        error, result = _failure(span, result)
        if error is None and span.status != "error":  # a span that ended well is no proof of a result
            error = failure_in(result)
        event = self._event(span, position, "tool")
        event.tool = tool
        event.args = args
        event.result = result
        event.error_class = error
        event.call_id = facts.get("call_id")
        event.identity, twice = self._twins.identity(span, "tool", tool, args)
        event.open = span.ended_at is None or (error is None and result is ABSENT and args is not ABSENT)
        return [event, self._lineage(span, position)] if twice else [event]

    def _handoff(self, span: Span, position: tuple[int, int], tool: str, to: str) -> RawEvent:
        event = self._event(span, position, "handoff")
        event.tool = tool if HANDOFF_TOOL.fullmatch(tool) else "handoff"
        event.args = {"to": to} if to else ABSENT
        event.target = to or None
        if not span.message.startswith(_TWICE):
            event.error_class = _failure(span, ABSENT)[0]
        event.call_id = span.facts.get("call_id")
        event.identity = f"span:{span.span_id}" if span.span_id else None
        event.open = span.ended_at is None
        return event

    def _asked(self, span: Span, position: tuple[int, int]) -> list[RawEvent]:
        """Return the handoff that the caller's side of an agent tells of, in the lane around it.

        What stands below belongs to who is asked; that he began is told by a span of his own, or by none.
        """
        to = str(span.facts.get("agent") or _agent_name(span))
        event = self._handoff(span, position, "handoff", to)
        event.agent, event.span_id, event.call_id = None, None, span.span_id
        place = self._lineage(span, position)
        place.agent = to or None
        return [event, place]

    def _model(self, span: Span, position: tuple[int, int]) -> list[RawEvent]:
        get = span.facts.get
        event = self._event(span, position, "model")
        event.model = get("model")
        event.tokens_in = count(get("tokens_in"))
        event.tokens_out = count(get("tokens_out"))
        event.cost_usd = amount(get("cost"))
        event.error_class = _failure(span, ABSENT)[0] or status_class(get("http_status"))
        event.attempt = attempt(get("resent"))
        event.identity, twice = self._twins.identity(span, "model", "", ABSENT)
        event.open = span.ended_at is None
        return [event, self._lineage(span, position)] if twice else [event]

    def _words(self, span: Span, position: tuple[int, int]) -> Iterator[RawEvent]:
        """Yield, as facts, the calls that only the words of a model span tell of.

        They become actions where their trace turns out to have no other: see `normalise.asked`.
        """
        calls, replies = prompts.told(span.facts)
        told: list[Call | Reply] = [*replies, *calls]
        for number, step in enumerate(told):
            event = self._event(span, (position[0], position[1] + number), "log")
            event.span_id, event.parent_span_id, event.ended_at = None, span.parent_id, None
            event.call_id = step.call_id or None
            event.identity = f"{ASKED}{step.call_id or f'{span.span_id}/{number}'}"
            event.result, event.error_class = step.result, step.error
            if isinstance(step, Call):
                event.tool, event.args, event.open = step.name, step.args, step.result is ABSENT
                event.at, event.target = span.ended_at or span.at, handed_to(step.name, step.args)
            elif step.call_id:  # the lane is that of the call: another agent may be told what came of it
                event.at, event.ended_at, event.open = None, span.at, False
                event.agent, event.parent_span_id = "", None
            else:
                continue  # it answers nobody knows which
            yield event

    def _other(self, span: Span, kind: str, position: tuple[int, int]) -> RawEvent:
        facts = span.facts
        if kind == "handoff":
            return self._handoff(span, position, "handoff", addressee(span, "handoff", "", ABSENT) or "")
        agent = facts.get("agent", "")
        if kind == "agent":
            agent = agent or facts.get("node", "") or _agent_name(span)
        outermost = span.parent_id is None
        if not agent and outermost:
            agent = span.service or ""  # what encloses everything names whom nothing else names
        event = self._event(span, position, kind)
        event.agent = agent or None
        event.tool = agent if kind == "agent" else ""
        error = _failure(span, ABSENT)[0]
        if kind == "log":  # a request below an action: which try it was, how the other side answered
            known = status_class(facts.get("http_status"))
            error = known if known and error in {None, "", "unknown", facts.get("http_status")} else error
            event.attempt = attempt(facts.get("resent"))
        event.error_class = error
        event.identity = f"span:{span.span_id}" if span.span_id else None
        event.open = span.ended_at is None
        if kind == "log" and span.consumer and span.linked_span is not None:
            event.kind = kind = "accept"  # what was sent has been taken out of its queue
        linked = kind in {"agent", "accept"} and span.linked_span is not None
        event.parent_run_id = span.linked_trace if outermost or linked else None
        event.call_id = span.linked_span if linked else None  # whose span asked for this agent
        return verdict(event, facts, span.parent_id) if kind == "verdict" else event

    def _lineage(self, span: Span, position: tuple[int, int]) -> RawEvent:
        """Keep the place of a span whose event is told by another, for the spans below it."""
        event = self._event(span, (position[0], position[1] + 1), "log")
        event.identity = f"place:{span.span_id}" if span.span_id else None
        return event


def _noted(span: Span, args: Any, result: Any) -> tuple[Any, Any]:
    """Return arguments and result, from events of the span where its attributes do not have them."""
    told = {name: facts["detail"] for name, _, facts in span.notes if facts.get("detail") is not None}
    return (
        told.get("gen_ai.tool.message", ABSENT) if args is ABSENT else args,
        told.get("gen_ai.choice", ABSENT) if result is ABSENT else result,
    )


def _failure(span: Span, result: Any) -> tuple[str | None, Any]:
    """Return the error class, and the result where it can be believed.

    A failed call whose details were redacted gives the same words for every failure: its result is not
    known. A failed call without a result has the message of its failure for one.
    """
    if span.status != "error":
        if span.facts.get("failed") in {"error", "true"}:  # the span went well, the tool did not
            return class_name(span.facts.get("error", "")) or "unknown", result
        return (None if span.status else class_name(span.facts.get("error", "")) or None), result
    error, text = _class_of(span), _detail(span)
    if error in _BUBBLES:
        return None, ABSENT
    if "redacted" in text.lower():
        return error or "unknown", ABSENT
    return error or "unknown", text if result is ABSENT and text else result


def _class_of(span: Span) -> str:
    """Return the class of the failure a span tells of, "" where it does not say."""
    exception = next((facts for name, _, facts in span.notes if name == "exception"), {})
    error: str = exception.get("error", "") or span.facts.get("error", "")
    return class_name(error)


def _detail(span: Span) -> str:
    """Return what a span says of its failure."""
    told = next((text_of(facts.get("detail")) for name, _, facts in span.notes if name == "exception"), "")
    return told or span.message


def _agent_name(span: Span) -> str:
    entity = span.facts.get("entity", "")
    if found := _AGENT_RUN.fullmatch(span.name):
        return found[1]
    return entity or span.name.removeprefix("invoke_agent").removesuffix(".agent").strip()
