"""AutoGen: ``run_stream`` dumps, lines of the event logger, saved team states; one message, however often told.

A logger writes each message two to six times and words between the lines; a result at the end repeats all. A
message is known by its id, a call by the message that asked for it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers.addressees import HANDOFF_TOOL
from agentlens.readers.base import Format
from agentlens.readers.blocks import Lane, Spot, count_of, text_of
from agentlens.readers.decode import attempt, loads
from agentlens.readers.documents import stem_of
from agentlens.readers.stamps import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.model.raw import RawEvent
    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head, Source

_MESSAGES: Final = frozenset(
    {
        "TextMessage", "MultiModalMessage", "StopMessage", "HandoffMessage", "ToolCallSummaryMessage",
        "StructuredMessage", "ToolCallRequestEvent", "ToolCallExecutionEvent", "CodeGenerationEvent",
        "CodeExecutionEvent", "UserInputRequestedEvent", "MemoryQueryEvent", "ModelClientStreamingChunkEvent",
        "ThoughtEvent", "SelectSpeakerEvent", "SelectorEvent",
    }
)  # fmt: skip
_LOGGED: Final = frozenset(
    {"Message", "MessageDropped", "MessageHandlerException", "LLMCall", "LLMStreamStart", "LLMStreamEnd", "ToolCall",
     "AgentConstructionException"}
)  # fmt: skip
_SILENT: Final = frozenset(
    {"MemoryQueryEvent", "ModelClientStreamingChunkEvent", "ThoughtEvent", "SelectSpeakerEvent", "SelectorEvent",
     "LLMStreamStart"}
)  # fmt: skip
_SPOKEN: Final = frozenset(
    {"TextMessage", "MultiModalMessage", "StructuredMessage", "ToolCallSummaryMessage"}
)
_PEOPLE: Final = frozenset({"user", "user_proxy"})
_DONE = re.compile(
    r"(?i)TERMINATE|text '.{1,80}' mentioned|approve|finished|final answer|source match|handoff"
)
_STOPPED = re.compile(
    r"(?i)maximum|max(?:imum)? (?:number|turns|rounds|messages)|timeout|token|external|cancel"
)
_LEAD: Final = 200
"""How far into a line of a log its record may begin."""
_MARK = re.compile(r"_[0-9a-f]{8}-[0-9a-f-]{27}$")


def claim(head: Head) -> int:
    """Claim messages by type and source, logger lines by type and stage, a saved state by its name."""
    if head.magic:
        return 0
    values = head.values or tuple(_behind(line) for line in head.data.split(b"\n", 32)[:32])
    if len(values) == 1 and isinstance(values[0], list):
        values = tuple(values[0][:8])
    found = [value for value in values if isinstance(value, dict)]
    if any(
        value.get("type") == "TeamState" and isinstance(value.get("agent_states"), dict) for value in found
    ):
        return 90
    if any(_is_message(value) or _is_logged(value) for value in found):
        return 92
    return 85 if any(_messages_of(value) for value in found) else 0


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and text_of(value.get("type")) in _MESSAGES and "source" in value


def _is_logged(value: dict[str, Any]) -> bool:
    kind = text_of(value.get("type"))
    beside = {"delivery_stage", "agent_id", "payload", "handling_agent"} & value.keys()
    return kind in _LOGGED and bool(beside)


def _messages_of(value: dict[str, Any]) -> list[Any]:
    """Return the messages of a result of a task."""
    found = value.get("messages")
    return found if isinstance(found, list) and any(_is_message(item) for item in found[:3]) else []


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of one log, stream or state."""
    logged = not source.head().values  # no line is JSON alone: a logging format put words before each
    team = _Team(report=report, run=stem_of(source), lines=logged or source.is_lines())
    if team.lines:
        for number, line in source.lines(report):
            if line[:1] != b"{":
                if (behind := _behind(line)) is not None:
                    yield from team.value(behind, number)
                    continue
                yield Spot(lane=Lane(run_id=team.run), line=number).event(0, "log", tool="text")
                report.unknown["line of plain text"] += 1
                continue
            value = loads(line, report, number)
            if value is not ABSENT:
                yield from team.value(value, number)
    else:
        document = source.document(report, ("", "messages"))
        for number, value in enumerate(document if isinstance(document, list) else [document]):
            if value is not ABSENT:
                yield from team.value(value, number)
    yield from team.end()


def _behind(line: bytes) -> dict[str, Any] | None:
    """Return the logged record behind what a logging format put before it; its local time tells no zone."""
    start = line.find(b"{", 0, _LEAD)
    value = attempt(line[start:].strip()) if start > 0 else ABSENT
    return value if isinstance(value, dict) and _is_logged(value) else None


@dataclass(slots=True)
class _Call:
    identity: str
    kind: str
    name: str
    target: str | None
    said: str  # arguments in one spelling
    answered: bool = False


@dataclass(slots=True)
class _Team:
    """One run: what each message was, and the calls that wait for their results."""

    report: Report
    run: str
    lines: bool
    known: set[str] = field(default_factory=set)  # ids of messages told before
    calls: dict[tuple[str, str], list[_Call]] = field(default_factory=dict)  # by agent and call id
    transfers: dict[str, _Call] = field(default_factory=dict)  # agent -> handoff not yet spoken
    people: list[Spot] = field(default_factory=list)  # turns that the next agent takes
    coded: dict[str, Any] = field(default_factory=dict)  # agent -> code it wrote last
    claimed: bool = False
    saw_messages: bool = False

    def value(self, value: Any, number: int) -> Iterator[RawEvent]:
        if not isinstance(value, dict):
            self.report.quarantine(number, f"a {type(value).__name__} where a record was expected")
        elif _is_logged(value):
            yield from self._logged(value, number)
        elif _is_message(value):
            yield from self.message(value, number)
        elif messages := _messages_of(value):
            yield from self._nested(messages, number)
            yield from self._result(value, number)
        elif value.get("type") == "TeamState":
            yield from self._state(value, number)
        else:
            self.report.unknown[f"type {text_of(value.get('type'))!r}"[:80]] += 1

    def end(self) -> Iterator[RawEvent]:
        """Yield turns of people that nobody took."""
        for spot in self.people:
            yield spot.event(0, "message", tool="user", external_input=True)
        self.people = []

    def _nested(self, messages: Any, number: int) -> Iterator[RawEvent]:
        """Messages inside a record: of a document each has a place of its own, of a line they share it."""
        for index, message in enumerate(messages if isinstance(messages, list) else ()):
            if _is_message(message):
                yield from self.message(message, number if self.lines else number + index)

    def _state(self, state: dict[str, Any], number: int) -> Iterator[RawEvent]:
        """A saved team: the thread of its conversation. What the world looked like is not in it."""
        states = state.get("agent_states")
        for agent in states.values() if isinstance(states, dict) else ():
            yield from self._nested(agent.get("message_thread") if isinstance(agent, dict) else None, number)
        yield Spot(lane=Lane(run_id=self.run), line=number).event(9, "checkpoint", tool="team_state")

    def _logged(self, value: dict[str, Any], number: int) -> Iterator[RawEvent]:
        kind = text_of(value.get("type"))
        agent, key = _who(value.get("agent_id") or value.get("handling_agent"))
        if kind == "Message":
            self._named(value)
            payload = attempt(text_of(value.get("payload")))
            for message in _inside(payload):
                self.saw_messages = True
                yield from self.message(message, number)
            return
        if key and not self.saw_messages:
            self.run = key
        spot = Spot(lane=Lane(run_id=self.run, agent=agent), line=number)
        if kind == "ToolCall":
            yield from self._tool_line(value, spot)
        elif kind in {"LLMCall", "LLMStreamEnd"} and not self.saw_messages:
            yield spot.event(
                0,
                "model",
                tokens_in=count_of(value.get("prompt_tokens")),
                tokens_out=count_of(value.get("completion_tokens")),
            )
        elif kind in {"MessageHandlerException", "AgentConstructionException"}:
            named = re.match(r"\W*([A-Za-z_]\w*(?:Error|Exception))", text_of(value.get("exception")))
            yield spot.event(0, "log", tool=kind, error_class=named[1] if named else "exception")
        elif kind == "MessageDropped":
            yield spot.event(0, "log", tool=kind, error_class="message_dropped")

    def _named(self, value: dict[str, Any]) -> None:
        """The key behind an agent's name is the run, where it is one of its own."""
        for end in ("receiver", "sender"):
            _, key = _who(value.get(end))
            if key:
                self.run = key
                return

    def message(self, message: dict[str, Any], number: int) -> Iterator[RawEvent]:
        own, kind = text_of(message.get("id")), text_of(message.get("type"))
        if own and own in self.known:
            return
        self.known.add(own)
        agent = text_of(message.get("source"))
        at = moment(message.get("created_at"), self.report)
        spot = Spot(lane=Lane(run_id=self.run, agent=agent), line=number, at=at)
        if kind in _SILENT:
            return
        if (kind in _SPOKEN or kind == "HandoffMessage") and agent in _PEOPLE:
            self.people.append(spot)
            return
        for order, turn in enumerate(self.people):
            yield Spot(lane=spot.lane, line=turn.line, at=turn.at).event(
                order, "message", tool="user", external_input=True
            )
        self.people = []
        yield from self._usage(message, spot, own)
        yield from self._said(kind, message, spot, own)

    def _usage(self, message: dict[str, Any], spot: Spot, own: str) -> Iterator[RawEvent]:
        usage = message.get("models_usage")
        if isinstance(usage, dict):
            into, out = count_of(usage.get("prompt_tokens")), count_of(usage.get("completion_tokens"))
            yield spot.event(
                0, "model", tokens_in=into, tokens_out=out, identity=f"{own}/model" if own else None
            )

    def _said(self, kind: str, message: dict[str, Any], spot: Spot, own: str) -> Iterator[RawEvent]:
        content = message.get("content")
        items = [item for item in content if isinstance(item, dict)] if isinstance(content, list) else []
        if kind == "ToolCallRequestEvent":
            for order, item in enumerate(items, 1):
                yield self._ask(item, spot, own, order)
        elif kind == "ToolCallExecutionEvent":
            for order, item in enumerate(items, 1):
                yield from self._answer(item, spot, order)
        elif kind == "HandoffMessage":
            yield self._hand_over(message, spot, own)
        elif kind == "UserInputRequestedEvent":
            yield spot.event(1, "wait", tool=kind, target="user", open=True, identity=own or None)
        elif kind == "CodeGenerationEvent":
            self.coded[spot.lane.agent] = message.get("code_blocks", ABSENT)
        elif kind == "CodeExecutionEvent":
            yield self._ran(message, spot, own)
        else:
            yield from self._spoke(kind, content, spot, own)

    def _spoke(self, kind: str, content: Any, spot: Spot, own: str) -> Iterator[RawEvent]:
        text = content if isinstance(content, str) else ""
        if kind != "ToolCallSummaryMessage":
            first = next((line.strip() for line in text.splitlines() if line.strip()), "")
            yield spot.event(
                1,
                "message",
                tool="message",
                args={"action": first} if text else ABSENT,
                result=content if text else ABSENT,
                identity=own or None,
            )
        if kind == "StopMessage" or re.search(r"\bTERMINATE\b", text):
            self.claimed = True
            yield spot.event(
                2, "claim", tool=kind, target="success", identity=f"{own}/claim" if own else None
            )

    def _ask(self, item: dict[str, Any], spot: Spot, own: str, order: int) -> RawEvent:
        name, call_id = text_of(item.get("name")), text_of(item.get("id"))
        args = item.get("arguments", ABSENT)
        transfer = HANDOFF_TOOL.fullmatch(name)
        call = _Call(
            identity=f"{own or f'line-{spot.line}'}/{call_id or order}",
            kind="handoff" if transfer else "tool",
            name=name,
            target=transfer[1] if transfer else None,
            said=_spelled(args),
        )
        self.calls.setdefault((spot.lane.agent, call_id), []).append(call)
        if transfer:
            self.transfers[spot.lane.agent] = call
        return spot.event(
            order,
            call.kind,
            tool=name,
            args=args,
            target=call.target,
            call_id=call_id or None,
            identity=call.identity,
            open=True,
        )

    def _answer(self, item: dict[str, Any], spot: Spot, order: int) -> Iterator[RawEvent]:
        call_id = text_of(item.get("call_id"))
        asked = self.calls.get((spot.lane.agent, call_id)) or next(
            (found for (_, other), found in self.calls.items() if other == call_id), []
        )
        call = next((one for one in asked if not one.answered), asked[-1] if asked else None)
        failed = item.get("is_error") is True
        facts: dict[str, Any] = {
            "tool": call.name if call else text_of(item.get("name")),
            "error_class": "tool_error" if failed else None,
            "call_id": call_id or None,
            "ended_at": spot.at,
            "at": None,
        }
        if call is None:
            self.report.unknown["result without its call"] += 1
            yield spot.event(order, "log", **facts)
            return
        call.answered = True
        # the fixed sentence of a transfer says nothing of what came of it
        result = ABSENT if call.kind == "handoff" else item.get("content", ABSENT)
        yield spot.event(
            order, call.kind, result=result, target=call.target, identity=call.identity, open=False, **facts
        )

    def _hand_over(self, message: dict[str, Any], spot: Spot, own: str) -> RawEvent:
        """The word of a handoff: of the call that made it, where there was one."""
        call = self.transfers.pop(spot.lane.agent, None)
        target = text_of(message.get("target")) or (call.target if call else None)
        if call is not None:
            return spot.event(1, "handoff", at=None, tool=call.name, target=target, identity=call.identity)
        said = message.get("content", ABSENT)
        return spot.event(
            1,
            "handoff",
            tool="handoff",
            args={"message": said},
            target=target,
            identity=own or None,
            open=False,
        )

    def _ran(self, message: dict[str, Any], spot: Spot, own: str) -> RawEvent:
        result = message.get("result")
        result = result if isinstance(result, dict) else {}
        code, tried = result.get("exit_code"), count_of(message.get("retry_attempt"))
        return spot.event(
            1,
            "tool",
            tool="code_executor",
            args=self.coded.get(spot.lane.agent, ABSENT),
            result=result.get("output", ABSENT),
            error_class=f"exit_{code}" if isinstance(code, int) and code else None,
            attempt=None if tried is None else tried + 1,
            identity=own or None,
            open=False,
        )

    def _tool_line(self, value: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
        """The logger's own line on a call, without an id: of the open call that asks the same, else one of its own."""
        name, args = text_of(value.get("tool_name")), value.get("arguments", ABSENT)
        said = _spelled(args)
        waiting = (
            call for (agent, _), asked in self.calls.items() if agent == spot.lane.agent for call in asked
        )
        call = next(
            (one for one in waiting if not one.answered and one.name == name and one.said == said), None
        )
        if call is not None:
            return  # its result follows as a message, with the call's id
        transfer = HANDOFF_TOOL.fullmatch(name)
        yield spot.event(
            0,
            "handoff" if transfer else "tool",
            tool=name,
            args=args,
            result=ABSENT if transfer else value.get("result", ABSENT),
            target=transfer[1] if transfer else None,
            open=False,
        )

    def _result(self, value: dict[str, Any], number: int) -> Iterator[RawEvent]:
        """Why the team stopped: its own word that it is done, or a limit that was reached."""
        reason = text_of(value.get("stop_reason"))
        spot = Spot(lane=Lane(run_id=self.run), line=number)
        if reason and _STOPPED.search(reason):
            yield spot.event(3, "log", tool="TaskResult", error_class="limit_reached")
        elif reason and _DONE.search(reason) and not self.claimed:
            yield spot.event(3, "claim", tool="TaskResult", target="success")


def _who(name: Any) -> tuple[str, str]:
    """Return agent and run of ``agent_<uuid>/<uuid>``; a key that is no run of its own is none."""
    agent, _, key = text_of(name).partition("/")
    return _MARK.sub("", agent), key if key not in {"", "default"} else ""


def _inside(payload: Any) -> list[dict[str, Any]]:
    """Return the messages that a logged payload holds, older ones first."""
    if not isinstance(payload, dict):
        return []
    found: list[Any] = []
    response = payload.get("response")
    if isinstance(response, dict):
        inner = response.get("inner_messages")
        found += inner if isinstance(inner, list) else []
        found.append(response.get("chat_message"))
    messages = payload.get("messages")
    found += messages if isinstance(messages, list) else []
    found += [payload.get("message"), payload]
    return [message for message in found if _is_message(message)]


def _spelled(args: Any) -> str:
    value = attempt(args) if isinstance(args, str) else args
    if value is ABSENT:
        return str(args)
    return json.dumps(value, sort_keys=True, default=str)


FORMAT = Format(
    name="autogen",
    version=2,
    title="AutoGen messages (run_stream dumps), event logger lines, team states",
    recognised_by="type TextMessage, ToolCallRequestEvent, ... with a source; type Message with a delivery stage",
    proved_on="one Swarm run of 0.7.5 in three shapes",
    claim=claim,
    read=read,
)
