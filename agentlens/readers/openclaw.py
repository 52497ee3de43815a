"""OpenClaw telemetry: starts and ends of agents and tools, one a line; the conversation at an agent's end."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers.base import Format
from agentlens.readers.blocks import Lane, Spot, count_of, number_of, text_of
from agentlens.readers.decode import attempt
from agentlens.readers.documents import stem_of
from agentlens.readers.line_objects import line_objects
from agentlens.readers.messages import error_of, result_of
from agentlens.readers.stamps import epoch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentlens.model.raw import RawEvent
    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head, Source

_TYPES: Final = frozenset(
    {
        "message.in",
        "message.out",
        "agent.start",
        "agent.end",
        "tool.start",
        "tool.end",
        "llm.usage",
        "llm.start",
        "llm.end",
    }
)
_HANDOFFS: Final = frozenset({"sessions_spawn", "subagents_spawn"})
_CHILD: Final = "subagent"
_STEP: Final = 64
"""Places between two messages of a conversation, for the calls of one."""
_BEHIND: Final = 1 << 24
"""Place of what a person said: behind the talk before it, which a start repeats or a second telling of it."""
_TOKENS_IN: Final = ("input", "cacheRead", "cacheWrite", "inputTokens", "cacheTokens")
"""Of a message, of a telemetry record: fresh and cached ones are counted apart."""
_KNOWN_LIMIT: Final = 200_000
"""Messages remembered, so that a conversation that is told again is not counted again."""


def _ended(value: dict[str, Any], named: str, at: int | None, waiting: Iterable[_Open]) -> _Open | None:
    """Return the call that an end belongs to: the one it names, else the one that began so long before it.

    Calls run side by side, and most ends name none.
    """
    name, long = text_of(value.get("toolName")), count_of(value.get("durationMs"))
    calls = [one for one in waiting if one.name == name]
    own = next((one for one in calls if one.identity == named), None)
    if own is not None or at is None or long is None or len(calls) < 2:
        return own or next(iter(calls), None)
    began = at - long * 1000
    return min(calls, key=lambda one: 1 << 62 if one.begun_at is None else abs(began - one.begun_at))


def claim(head: Head) -> int:
    """Claim lines of the telemetry's types, with its counter and clock, or with the keys of its sessions."""
    found = [v for v in head.records if isinstance(v, dict) and text_of(v.get("type")) in _TYPES]
    if any({"seq", "ts"} <= value.keys() for value in found):
        return 90
    return 85 if any(text_of(value.get("sessionKey")).startswith("agent:") for value in found) else 0


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of one telemetry file."""
    log = _Log(report=report, name=stem_of(source))
    for number, value in line_objects(source, report):
        yield from log.line(value, number)
    yield from log.end()


@dataclass(slots=True)
class _Open:
    identity: str
    name: str
    said: str
    lane: Lane
    kind: str
    begun_at: int | None = None


@dataclass(slots=True)
class _Log:
    """Calls have no id while they run; the conversation at the end names them, in the order they were asked."""

    report: Report
    name: str
    running: dict[str, deque[_Open]] = field(default_factory=dict)  # session -> calls without an end
    told: dict[str, deque[_Open]] = field(default_factory=dict)  # session -> calls not yet named
    begun: dict[str, int] = field(default_factory=dict)  # session -> turns of its agent
    live: dict[str, str] = field(
        default_factory=dict
    )  # sessions whose agent is at work, and what it was asked
    channels: dict[str, str] = field(
        default_factory=dict
    )  # keys of channels, to the session that is heard there
    starts: dict[str, int] = field(default_factory=dict)  # session -> line at which its last turn began
    known: set[str] = field(default_factory=set)  # call ids of conversations read before
    people: list[Spot] = field(default_factory=list)  # turns of people not yet taken

    def line(self, value: dict[str, Any], number: int) -> Iterator[RawEvent]:
        kind, session = text_of(value.get("type")), text_of(value.get("sessionKey"))
        if kind.startswith("tool."):
            session = self._session(session)
        lane = self._lane(session)
        spot = Spot(lane=lane, line=number, at=epoch(value.get("ts", value.get("timestamp")), 1000))
        if kind == "message.in":
            self.people.append(spot)
        elif kind == "agent.start":
            again = self.live.get(session) == text_of(value.get("prompt"))
            line = self.starts[session] = self.starts.get(session, number) if again else number
            for event in self._conversation(
                value, session, Spot(lane=lane, line=line)
            ):  # of the turns before
                event.line = number
                yield event
            yield from self._begin(value, session, spot)
        elif kind == "tool.start":
            yield self._call(value, session, spot)
        elif kind == "tool.end":
            yield from self._end(value, session, spot)
        elif kind == "agent.end":
            yield from self._conversation(value, session, spot)
            yield from self._done(value, session, spot)
        elif kind == "llm.usage":
            yield spot.event(
                0, "model", **_spent(value.get("usage") or value), model=text_of(value.get("model")) or None
            )
        elif kind not in _TYPES:
            self.report.unknown[f"type {kind!r}"[:80] if kind else "record without a type"] += 1
            yield spot.event(0, "log", tool=kind[:80])

    def end(self) -> Iterator[RawEvent]:
        """Yield turns of people that no agent took."""
        for spot in self.people:
            yield spot.event(0, "message", tool="user", external_input=True)

    def _lane(self, session: str) -> Lane:
        """A sub-agent's session belongs to the run of its agent's main one."""
        parts = session.split(":")
        if len(parts) > 3 and parts[2] == "subagent":
            run = ":".join([*parts[:2], "main"])
            return Lane(run_id=run, agent=_CHILD, instance=session, parent_agent="")
        return Lane(run_id=session or self.name)

    def _session(self, key: str) -> str:
        """Return the session that a tool runs in; its lines may name the channel that the session is heard on.

        That is one whose agent never began under this name, while one session of the same agent is at work.
        """
        if key in self.begun or _CHILD in key.split(":")[2:3]:
            return key
        if key not in self.channels:
            lead = ":".join(key.split(":")[:2]) + ":"
            at_work = [one for one in self.live if one.startswith(lead) and self._lane(one).instance is None]
            if len(at_work) != 1:
                return key
            self.channels[key] = at_work[0]
        return self.channels[key]

    def _begin(self, value: dict[str, Any], session: str, spot: Spot) -> Iterator[RawEvent]:
        """The start of a turn; it may be told twice, and a turn may end without a word."""
        asked = text_of(value.get("prompt"))
        if self.live.get(session) == asked:
            self.report.repaired["start of an agent told again"] += 1
            return
        self.live[session] = asked
        if spot.lane.instance is None:
            # a channel does not say to whom a person speaks: the next main session hears it
            for order, said in enumerate(self.people, _BEHIND):
                turn_of = Spot(lane=spot.lane, line=spot.line, at=said.at)
                event = turn_of.event(order, "message", tool="user", external_input=True)
                event.line = said.line
                yield event
            self.people = []
        turn = self.begun[session] = self.begun.get(session, 0) + 1
        if spot.lane.instance is not None:
            if turn == 1:
                yield spot.event(0, "accept", identity=f"accept/{session}")
            yield self._span(session, spot, at=spot.at, open=True)

    def _span(self, session: str, spot: Spot, **facts: Any) -> RawEvent:
        turn = self.begun.get(session, 1)
        return spot.event(
            2, "agent", tool=_CHILD, identity=f"agent/{session}/{turn}",
            **{"span_id": f"{session}/{turn}", "parent_span_id": f"spawn/{session}", **facts},
        )  # fmt: skip

    def _call(self, value: dict[str, Any], session: str, spot: Spot) -> RawEvent:
        name, args = text_of(value.get("toolName")), value.get("params", ABSENT)
        own = text_of(value.get("toolCallId"))
        if not own:  # counters begin anew with the program, and every main session is called the same
            place = text_of(value.get("seq")) or f"line-{spot.line}"
            when = (
                text_of(value.get("ts")) or sha256(_spelled(args).encode("utf-8", "replace")).hexdigest()[:12]
            )
            own = f"{place}@{when}"
        kind = "handoff" if name in _HANDOFFS else "tool"
        call = _Open(f"{session}/{own}", name, _spelled(args), spot.lane, kind, spot.at)
        self.running.setdefault(session, deque()).append(call)
        self.told.setdefault(session, deque()).append(call)
        return spot.event(0, kind, tool=name, args=args, target=_CHILD if kind == "handoff" else None,
                          identity=call.identity, open=True)  # fmt: skip

    def _end(self, value: dict[str, Any], session: str, spot: Spot) -> Iterator[RawEvent]:
        """The end says that a call came back, not with what: without a result it is no success."""
        name = text_of(value.get("toolName"))
        waiting = self.running.get(session, deque())
        call = _ended(value, f"{session}/{text_of(value.get('toolCallId'))}", spot.at, waiting)
        failed = value.get("success") is False or bool(value.get("error"))
        if call is None:
            self.report.unknown["end of a tool without its start"] += 1
            return
        waiting.remove(call)
        yield spot.event(
            0, call.kind, at=None, ended_at=spot.at, tool=name, identity=call.identity, open=False,
            result=result_of(value.get("result", ABSENT)), error_class="tool_error" if failed else None,
        )  # fmt: skip

    def _done(self, value: dict[str, Any], session: str, spot: Spot) -> Iterator[RawEvent]:
        self.live.pop(session, None)
        good = value.get("success") is not False
        ended = f"end/{session}/{text_of(value.get('ts')) or self.begun.get(session, 0)}"
        yield spot.event(8, "claim", tool="agent.end", target="success" if good else "failure",
                         error_class=None if good else "agent_failed", identity=ended)  # fmt: skip
        if spot.lane.instance is not None:
            failed = None if good else "child_failed"
            yield self._span(session, spot, at=None, ended_at=spot.at, open=False, error_class=failed)

    def _conversation(self, value: dict[str, Any], session: str, spot: Spot) -> Iterator[RawEvent]:
        """Name the calls that were told while they ran, add their results, and those that were not told."""
        messages = value.get("messages")
        asked: dict[str, _Open] = {}
        for order, message in enumerate(messages if isinstance(messages, list) else ()):
            if not isinstance(message, dict):
                continue
            at = epoch(message.get("timestamp"), 1000)
            place = Spot(lane=spot.lane, line=spot.line, at=at)
            role, first = message.get("role"), _STEP * (order + 1)
            if role == "assistant":
                yield from self._asked(message, session, place, first, asked)
            elif role == "toolResult":
                yield from self._answered(message, place, first, asked)

    def _asked(
        self, message: dict[str, Any], session: str, spot: Spot, order: int, asked: dict[str, _Open]
    ) -> Iterator[RawEvent]:
        content = message.get("content")
        blocks = [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
        calls = [block for block in blocks if block.get("type") == "toolCall"]
        usage = message.get("usage")
        stamp = f"{session}/{message.get('timestamp')}"
        if isinstance(usage, dict) and (message.get("timestamp") is None or stamp not in self.known):
            self._know(stamp)
            yield spot.event(order, "model", model=text_of(message.get("model")) or None, **_spent(usage))
        for place, block in enumerate(calls, order + 1):
            call_id, name = text_of(block.get("id")), text_of(block.get("name"))
            if call_id in self.known:
                continue
            self._know(call_id)
            args = block.get("arguments", ABSENT)
            waiting = self.told.get(session, deque())
            said = _spelled(args)
            call = next((one for one in waiting if one.name == name and one.said == said), None)
            if call is not None:
                waiting.remove(call)
                asked[call_id] = call
                yield spot.event(place, call.kind, at=call.begun_at or spot.at, tool=name, call_id=call_id or None,
                                 identity=call.identity)  # fmt: skip
                continue
            kind = "handoff" if name in _HANDOFFS else "tool"
            call = asked[call_id] = _Open(f"{session}/{call_id}", name, said, spot.lane, kind)
            yield spot.event(
                place, kind, tool=name, args=args, target=_CHILD if kind == "handoff" else None,
                call_id=call_id or None, identity=call.identity if call_id else None, open=True,
            )  # fmt: skip

    def _know(self, name: str) -> None:
        if name and len(self.known) < _KNOWN_LIMIT:
            self.known.add(name)

    def _answered(
        self, message: dict[str, Any], spot: Spot, order: int, asked: dict[str, _Open]
    ) -> Iterator[RawEvent]:
        call_id = text_of(message.get("toolCallId"))
        call = asked.get(call_id)
        if call is None:
            if call_id not in self.known:
                self.report.unknown["result without its call"] += 1
            return
        result = result_of(message.get("content", ABSENT))
        details = message.get("details")
        details = details if isinstance(details, dict) else {}
        code = details.get("exitCode")
        error = f"exit_{code}" if isinstance(code, int) and code else None
        if error is None and (
            message.get("isError") is True or text_of(details.get("status")) in {"error", "failed"}
        ):
            error = error_of(result) or "tool_error"
        told = attempt(result) if isinstance(result, str) and result.lstrip().startswith("{") else None
        child = text_of(told.get("childSessionKey")) if isinstance(told, dict) else ""
        if call.kind == "handoff" and child:  # it was only begun: what comes of it, the child's own lines say
            yield spot.event(order, "handoff", at=None, tool=call.name, span_id=f"spawn/{child}",
                             identity=call.identity)  # fmt: skip
            return
        yield spot.event(
            order, call.kind, at=None, ended_at=spot.at, tool=call.name, result=result, error_class=error,
            identity=call.identity, open=details.get("status") == "running",
        )  # fmt: skip


def _spent(usage: Any) -> dict[str, Any]:
    usage = usage if isinstance(usage, dict) else {}
    counts = {key: n for key in _TOKENS_IN if (n := count_of(usage.get(key))) is not None}
    out = usage.get("output", usage.get("outputTokens"))
    cost = usage.get("cost", usage.get("costUsd"))
    return {
        "tokens_in": sum(counts.values()) if counts else None,
        "tokens_out": count_of(out),
        "cost_usd": number_of(cost.get("total") if isinstance(cost, dict) else cost),
    }


def _spelled(args: Any) -> str:
    try:
        return "" if args is ABSENT else json.dumps(args, sort_keys=True, default=str)
    except RecursionError:
        return "nested too deeply"


FORMAT = Format(
    name="openclaw",
    version=3,
    title="OpenClaw telemetry lines",
    recognised_by="type agent.start, tool.start, agent.end, ... with seq and ts, or with a sessionKey",
    proved_on="seven redacted lines of a real agent",
    claim=claim,
    read=read,
)
