"""A2A streams (0.3 and 1.0): each task is a handoff to another agent, told by its states.

A stream says who took a task up, what it waits for and how it says that it ended. Whether the result is right
nobody says: an artifact is a claim.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers.base import Format
from agentlens.readers.blocks import Lane, Spot, text_of
from agentlens.readers.decode import attempt, loads
from agentlens.readers.documents import stem_of
from agentlens.readers.stamps import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.model.raw import RawEvent
    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head, Source

_REMOTE: Final = "remote"
"""The addressee: a stream does not name the agent it comes from."""
_KINDS: Final = {"task": "task", "status-update": "statusUpdate", "artifact-update": "artifactUpdate"}
_PARTS: Final = ("task", "statusUpdate", "artifactUpdate", "status_update", "artifact_update")
_WAITS: Final = {"input_required": "input", "auth_required": "authorization"}
_ENDS: Final = frozenset({"completed", "failed", "canceled", "rejected"})
_BEGUN: Final = frozenset({"working", "completed", "failed", *_WAITS})
_STATES: Final = frozenset({"submitted", "working", "unknown", "unspecified", *_ENDS, *_WAITS})
_STATE = re.compile(r"(?i)^(?:TASK_STATE_)?([a-z_-]{4,20})$")
_ASKS = re.compile(r"(?i)^(?:message/(?:send|stream)|SendMessage|SendStreamingMessage|tasks/send\w*)$")


def claim(head: Head) -> int:
    """Claim lines with a task, a status or an artifact of one."""
    values = list(head.values) or _sent(head.data)
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0][:8]
    known = [found for value in values if (found := _update(value)) is not None]
    if any(text_of(update.get("contextId")) or _state(update) for _, update in known):
        return 90
    return 80 if any(_asked(value) for value in values) else 0


def _sent(data: bytes) -> list[Any]:
    """Return the first values of a saved stream of server-sent events."""
    lines = [line for line in data.split(b"\n", 64)[:64] if line.startswith(b"data:")]
    return [attempt(line.removeprefix(b"data:").strip()) for line in lines[:8]]


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of one stream."""
    stream = _Stream(report=report, name=stem_of(source))
    if source.is_lines() or b"\ndata:" in b"\n" + source.head().data[:4096]:
        for number, line in source.lines(report):
            text = line.removeprefix(b"data:").strip()  # as a stream of server-sent events is saved
            if text.startswith((b":", b"event:", b"id:", b"retry:")) or not text:
                continue
            value = loads(text, report, number)
            if value is not ABSENT:
                yield from stream.value(value, number)
        yield from stream.end()
        return
    document = source.document(report, ("",))
    for number, value in enumerate(document if isinstance(document, list) else [document]):
        if value is not ABSENT:
            yield from stream.value(value, number)
    yield from stream.end()


def _update(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Return what kind of update a record is, out of its JSON-RPC envelope."""
    if not isinstance(value, dict):
        return None
    result = value.get("result")
    inner = result if isinstance(result, dict) and ("jsonrpc" in value or "id" in value) else value
    kind = _KINDS.get(text_of(inner.get("kind")))
    if kind is not None and ("status" in inner or "artifact" in inner):
        return kind, inner
    for name in _PARTS:
        part = inner.get(name)
        if isinstance(part, dict) and part.keys() & {"status", "artifact", "contextId", "context_id"}:
            camel = re.sub(r"_(\w)", lambda found: found[1].upper(), name)
            return camel, part
    return ("task", inner) if _is_task(inner) else None


def _is_task(value: dict[str, Any]) -> bool:
    """Say whether this is a task by itself, as a server returns one that is asked for."""
    context = _first(value, "contextId", "context_id")
    return bool(text_of(value.get("id")) and context) and _state(value) in _STATES


def _asked(value: Any) -> dict[str, Any] | None:
    """Return the message of a request that sends one."""
    if not isinstance(value, dict) or not _ASKS.match(text_of(value.get("method"))):
        return None
    params = value.get("params")
    message = params.get("message") if isinstance(params, dict) else None
    return message if isinstance(message, dict) else None


def _state(update: dict[str, Any]) -> str:
    status = update.get("status")
    found = _STATE.match(text_of(status.get("state")) if isinstance(status, dict) else "")
    name = found[1].lower().replace("-", "_") if found else ""
    return {"cancelled": "canceled"}.get(name, name)


@dataclass(slots=True)
class _Task:
    lane: Lane
    begun: bool = False
    waits: int = 0
    waiting: bool = False
    ended: bool = False
    artifacts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Request:
    """A message that was sent: its line, the id of the call that sent it, its words."""

    line: int
    call: str
    said: Any


@dataclass(slots=True)
class _Stream:
    report: Report
    name: str
    call: str = ""  # id of the JSON-RPC call of the record in hand
    tasks: dict[str, _Task] = field(default_factory=dict)
    asked: list[_Request] = field(default_factory=list)  # messages without a task yet
    told: set[tuple[str, str]] = field(default_factory=set)  # requests seen, by their ids
    early: dict[str, tuple[str, Lane]] = field(default_factory=dict)  # answered before they were seen

    def value(self, value: Any, number: int) -> Iterator[RawEvent]:
        message = _asked(value)
        found = _update(value)
        self.call = text_of(value.get("id")) if isinstance(value, dict) and "jsonrpc" in value else ""
        if message is not None:
            yield from self._sent(message, number)
        elif found is None and (reply := _reply(value)) is not None:
            yield from self._replied(reply, number)
        elif found is None:
            self.report.unknown["record without a task"] += 1
        else:
            yield from self._update(*found, number)

    def _sent(self, message: dict[str, Any], number: int) -> Iterator[RawEvent]:
        """Keep a request until its answer; one that goes on with a task, or is told again, is none."""
        own = (self.call, _first(message, "messageId", "message_id"))
        if _first(message, "taskId", "task_id") or own in self.told:
            return
        if any(own):
            self.told.add(own)
        task, lane = self.early.pop(self.call, ("", None)) if self.call else ("", None)
        if lane is None:
            self.asked.append(_Request(number, self.call, _said(message)))
            return
        args = _request(_said(message))
        yield Spot(lane=lane, line=number).event(
            0, "handoff", tool="a2a", target=_REMOTE, args=args, call_id=task or None, identity=f"task/{task}"
        )

    def _taken(self) -> Any:
        """Return the words of the request that is answered: the one of this call, else the oldest."""
        named = next((one for one in self.asked if self.call and one.call == self.call), None)
        found = named or next((one for one in self.asked if not (one.call and self.call)), None)
        if found is None:
            return ABSENT
        self.asked.remove(found)
        return found.said

    def end(self) -> Iterator[RawEvent]:
        """Yield the messages that nothing answered: they were handed over, and nobody took them up."""
        for one in self.asked:
            spot = Spot(lane=Lane(run_id=self.name), line=one.line)
            yield spot.event(0, "handoff", tool="a2a", target=_REMOTE, args=_request(one.said), open=True)

    def _replied(self, reply: dict[str, Any], number: int) -> Iterator[RawEvent]:
        """Yield the handoff that was answered at once, by a message and without a task."""
        own = _first(reply, "messageId", "message_id") or f"line-{number}"
        lane = Lane(run_id=_first(reply, "contextId", "context_id") or self.name)
        asked = self._taken()
        call = f"message/{own}"
        yield Spot(lane=lane, line=number).event(
            0,
            "handoff",
            tool="a2a",
            target=_REMOTE,
            args=_request(asked),
            result=_said(reply),
            call_id=call,
            identity=call,
            open=False,
        )
        child = Lane(run_id=lane.run_id, agent=_REMOTE, instance=own, parent_agent="")
        yield Spot(lane=child, line=number).event(1, "accept", call_id=call, identity=f"accept/{call}")

    def _update(self, kind: str, update: dict[str, Any], number: int) -> Iterator[RawEvent]:
        own = _first(update, "taskId", "task_id", "id")
        context = _first(update, "contextId", "context_id")
        task = self.tasks.get(own)
        status = update.get("status")
        status = status if isinstance(status, dict) else {}
        at = moment(status.get("timestamp"), self.report)
        if task is None:
            task = self.tasks[own] = _Task(Lane(run_id=context or self.name))
            yield from self._delegated(update, Spot(lane=task.lane, line=number, at=at), own)
        child = Spot(
            lane=Lane(run_id=task.lane.run_id, agent=_REMOTE, instance=own, parent_agent=""),
            line=number,
            at=at,
        )
        artifact = update.get("artifact")
        several = update.get("artifacts")
        for one in [artifact, *(several if isinstance(several, list) else ())]:
            if isinstance(one, dict):
                task.artifacts.append(_said(one) if isinstance(_said(one), str) else "")
                if kind == "artifactUpdate":
                    yield child.event(
                        3, "log", tool="artifact", target=text_of(one.get("artifactId")) or None
                    )
        state = _state(update)
        if state:
            yield from self._moved(task, own, state, status, child)

    def _delegated(self, update: dict[str, Any], spot: Spot, own: str) -> Iterator[RawEvent]:
        history = update.get("history")
        first = next((m for m in history if isinstance(m, dict)), None) if isinstance(history, list) else None
        sent = self._taken()
        asked = _said(first) if first else sent
        if asked is ABSENT and self.call:
            self.early[self.call] = (own, spot.lane)
        submitted = _state(update) == "submitted"
        yield spot.event(
            0,
            "handoff",
            at=spot.at if submitted or _state(update) in _ENDS else None,
            tool="a2a",
            target=_REMOTE,
            args=_request(asked),
            call_id=own or None,
            identity=f"task/{own}",
            open=True,
        )

    def _moved(
        self, task: _Task, own: str, state: str, status: dict[str, Any], child: Spot
    ) -> Iterator[RawEvent]:
        """One change of state; a state told again changes nothing."""
        if state in _BEGUN and not task.begun:
            task.begun = True
            yield child.event(1, "accept", call_id=own or None, identity=f"accept/{own}")
        if state in _WAITS and not task.waiting:
            task.waiting, task.waits = True, task.waits + 1
            yield child.event(
                2, "wait", tool=state, target=_WAITS[state], open=True, identity=f"wait/{own}/{task.waits}"
            )
        elif state not in _WAITS and task.waiting:
            task.waiting = False
            yield child.event(
                2, "wait", at=None, ended_at=child.at, open=False, identity=f"wait/{own}/{task.waits}"
            )
            yield child.event(3, "resume", tool=state, external_input=True)
        if state not in _ENDS or task.ended:
            return
        task.ended = True
        said = _said(status.get("message")) if isinstance(status.get("message"), dict) else ABSENT
        results = [text for text in task.artifacts if text]
        yield Spot(lane=task.lane, line=child.line).event(
            4,
            "handoff",
            ended_at=child.at,
            tool="a2a",
            result="\n".join(results) if results else said,
            error_class=None if state == "completed" else state,
            identity=f"task/{own}",
            open=False,
        )
        if state in {"completed", "failed"}:
            word = "success" if state == "completed" else "failure"
            yield child.event(5, "claim", tool=state, target=word, identity=f"claim/{own}")


def _first(value: dict[str, Any], *names: str) -> str:
    return next((text for name in names if (text := text_of(value.get(name)))), "")


def _request(asked: Any) -> Any:
    return ABSENT if asked is ABSENT else {"message": asked}


def _reply(value: Any) -> dict[str, Any] | None:
    """Return the message that a server answered with instead of a task."""
    result = (
        value.get("result") if isinstance(value, dict) and ("jsonrpc" in value or "id" in value) else value
    )
    if not isinstance(result, dict):
        return None
    message = result if result.get("kind") == "message" else result.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("parts"), list):
        return None
    return message if text_of(message.get("role")).lower() in {"agent", "role_agent"} else None


def _said(message: Any) -> Any:
    """Return the texts of a message or artifact, or its other parts as they are."""
    parts = message.get("parts") if isinstance(message, dict) else None
    parts = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    if parts and len(texts) < len(parts):
        return parts
    return "\n".join(texts) if texts else ABSENT


FORMAT = Format(
    name="a2a",
    version=2,
    title="A2A task streams (0.3 and 1.0, with or without their JSON-RPC envelope)",
    recognised_by="task, statusUpdate or artifactUpdate; kind task, status-update or artifact-update",
    proved_on="two streams made with the SDK's types",
    claim=claim,
    read=read,
)
