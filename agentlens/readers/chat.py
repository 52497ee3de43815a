"""Chat-completions lists: the lowest common denominator, in all the shapes people keep them in.

A run is one conversation. Nothing in it carries a time; a reply names its call by id, by tool, or by its
place; a ``reward`` beside the list is the verdict of whoever ran it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers import decode
from agentlens.readers.addressees import handed_to
from agentlens.readers.base import Format, Record, Report
from agentlens.readers.bodies import failure_in, status_class
from agentlens.readers.documents import stem_of
from agentlens.readers.messages import Call, Reply, Turn, Words, is_message, steps, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from agentlens.readers.source import Head, Source

_LISTS: Final = ("messages", "traj", "conversations", "conversation", "items")
_IDS: Final = ("run_id", "conversation_id", "session_id", "thread_id", "custom_id")
_FOREIGN: Final = frozenset({"trajectory_format", "schema_version", "parentUuid"})
"""Names that other formats put beside message lists: read as a chat, they would seem to hold no actions."""
_SCORES: Final = ("reward", "score")
_FLAGS: Final = ("success", "passed", "resolved", "is_correct", "correct")
_OPEN_LIMIT: Final = 256
"""Conversations that a later request may still continue; the oldest is closed when there are more."""


@dataclass(frozen=True, slots=True)
class _Request:
    """One request to a model: before which message its answer begins, what it cost, how it failed."""

    before: int
    usage: dict[str, Any]
    model: str | None
    error: str | None = None


@dataclass(slots=True)
class Conversation:
    """One run as found: its messages and what stands beside them. ``place`` is a line or an index."""

    place: int
    messages: list[Any]
    beside: dict[str, Any]
    answers: int = 0  # messages at the end that are an answer to the others
    requests: list[_Request] = field(default_factory=list)
    alone: bool = False  # in a file of its own


def claim(head: Head) -> int:
    """Claim values that are conversations or messages; more where tools are called in them."""
    values = head.values
    if len(values) == 1 and isinstance(values[0], list):
        values = (values[0],) if is_message(next(iter(values[0]), None)) else tuple(values[0][:8])
    if any(isinstance(value, dict) and value.keys() & _FOREIGN for value in values):
        return 0
    found = [messages for value in values if (messages := _messages_in(value)) is not None]
    if len(found) * 2 < len(values):
        found = []  # messages now and then do not make it a chat
    if not found:
        return 40 if values and all(is_message(value) for value in values) else 0
    return 45 if any(is_message(message) for messages in found for message in messages) else 0


def _messages_in(value: Any) -> list[Any] | None:
    """Return the messages of one conversation, under whichever name; None where there are none."""
    if isinstance(value, list):
        return value if value and any(is_message(item) for item in value[:5]) else None
    if not isinstance(value, dict):
        return None
    for name in _LISTS:
        if isinstance(value.get(name), list):
            return list(value[name])
    if "request" in value or "response" in value or "body" in value:
        return [*_asked(value.get("request", value.get("body"))), *_answered(value.get("response"))]
    if isinstance(value.get("choices"), list) or (
        isinstance(value.get("output"), list) and (value.get("object") == "response" or "input" in value)
    ):
        return [*_asked(value), *_answered(value)]
    return None


def _asked(request: Any) -> list[Any]:
    if not isinstance(request, dict):
        return []
    body = request.get("body", request)
    asked = body.get("messages", body.get("input")) if isinstance(body, dict) else None
    if isinstance(asked, str):
        return [{"role": "user", "content": asked}]
    return list(asked) if isinstance(asked, list) else []


def _answered(response: Any) -> list[Any]:
    if not isinstance(response, dict):
        return []
    body = response.get("body", response)
    if not isinstance(body, dict):
        return []
    output, choices = body.get("output"), body.get("choices")
    if isinstance(output, list):
        return list(output)
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return [choices[0].get("message")]
    return [body] if body.get("role") == "assistant" else []


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of every conversation; requests that repeat a history are one conversation."""
    names: set[str] = set()
    stem, conversations = stem_of(source), _conversations(source, report)
    if not source.is_lines():
        whole = list(conversations)
        if len(whole) == 1:  # a file that holds one conversation is called by its name
            whole[0].alone = True
        conversations = iter(whole)
    for found in conversations:
        yield from _events(found, _run_id(found, stem, names), report)


def _conversations(source: Source, report: Report) -> Iterator[Conversation]:
    joined = _Joined()
    loose: list[Any] = []
    unit: Literal["line", "record"] = "line" if source.is_lines() else "record"
    for place, value in _values(source, report):
        if is_message(value):
            loose.append(value)
            continue
        messages = _messages_in(value)
        if messages is None:
            report.quarantine(place, "no chat messages here", unit)
            continue
        beside = value if isinstance(value, dict) else {}
        yield from joined.add(Conversation(place, messages, beside, *_tail(beside, len(messages))))
    yield from joined.rest()
    if loose:
        yield Conversation(0, loose, {})


def _values(source: Source, report: Report) -> Iterator[tuple[int, Any]]:
    """Yield conversations (or loose messages) with their line or index."""
    if source.is_lines():
        for number, line in source.lines(report):
            value = decode.loads(line, report, number)
            if value is not ABSENT:
                yield number, value
        return
    document = source.document(report, ("", *_LISTS))
    if isinstance(document, list) and _messages_in(document) is None:
        yield from ((index, value) for index, value in enumerate(document) if value is not None)
    elif isinstance(document, dict) and isinstance(document.get("data"), list):
        yield from enumerate(document["data"])
    elif document is not ABSENT:
        yield 0, document


def _tail(beside: dict[str, Any], length: int) -> tuple[int, list[_Request]]:
    """Return how many of the messages answer a request, and what is known of that request."""
    if any(isinstance(beside.get(name), list) for name in _LISTS):
        return 0, []
    response = beside.get("response", beside)
    body = response.get("body", response) if isinstance(response, dict) else None
    usage = body.get("usage") if isinstance(body, dict) else None
    answers, error = len(_answered(response)), _refused(beside)
    if not isinstance(usage, dict) and error is None:
        return answers, []
    usage = usage if isinstance(usage, dict) else {}
    return answers, [_Request(length - answers, usage, _model(beside), error)]


def _refused(beside: dict[str, Any]) -> str | None:
    """Return the class of the failure of a request, as its response or the batch around it tells it."""
    response = beside.get("response")
    response = response if isinstance(response, dict) else {}
    body = response.get("body", response)
    for error in (body.get("error") if isinstance(body, dict) else None, beside.get("error")):
        if known := status_class(response.get("status_code")) or failure_in({"error": error}):
            code = error.get("code") if isinstance(error, dict) else None
            return code if known == "tool_error" and isinstance(code, str) and code else known
    return None


class _Joined:
    """Requests that send the whole history again: each is folded into the one that it continues."""

    def __init__(self) -> None:
        self.open: list[Conversation] = []

    def add(self, new: Conversation) -> Iterator[Conversation]:
        if not new.answers or "custom_id" in new.beside:
            yield new
            return
        for index in range(len(self.open) - 1, -1, -1):
            old = self.open[index]
            history = len(old.messages) - old.answers
            if old.messages[:history] == new.messages[:history] and history < len(new.messages) - new.answers:
                del self.open[index]
                new.place, new.requests = old.place, old.requests + new.requests
                break
        self.open.append(new)
        if len(self.open) > _OPEN_LIMIT:
            yield self.open.pop(0)

    def rest(self) -> Iterator[Conversation]:
        yield from sorted(self.open, key=lambda found: found.place)


def _run_id(found: Conversation, source: str, names: set[str]) -> str:
    """Name a run by its own id, by task and trial, else by file and place; a name is given only once a source."""
    beside = found.beside
    name = next((text for key in _IDS if (text := text_of(beside.get(key)))), "")
    task = text_of(beside.get("task_id"))
    if not name and task:
        trial = text_of(beside.get("trial"))
        name = f"{task}/{trial}" if trial else task
    if not name and not found.answers:
        name = text_of(beside.get("id"))
    if not name or name in names:
        name = source if found.alone and not name else f"{name or source}:{found.place}"
    names.add(name)
    return name


def _model(beside: dict[str, Any]) -> str | None:
    for part in (beside.get("response"), beside.get("request"), beside.get("body"), beside):
        if isinstance(part, dict):
            body = part.get("body", part)
            if isinstance(body, dict) and isinstance(body.get("model"), str):
                return str(body["model"])
    return None


def _events(found: Conversation, run_id: str, report: Report) -> Iterator[RawEvent]:
    common: dict[str, Any] = {
        "run_id": run_id,
        "model": _model(found.beside),
        "task_group": text_of(found.beside.get("task_id")) or None,
    }
    events: list[RawEvent] = []
    waiting: list[RawEvent] = []
    asked = [(request.before, event) for request, event in _requests(found, common)]
    for index, message in enumerate(found.messages):
        events.extend(event for before, event in asked if before == index)
        if not isinstance(message, dict):
            if message is not None:
                report.unknown["message that is no object"] += 1
            continue
        for part, step in enumerate(steps(message)):
            if isinstance(step, Reply):
                _answer(step, waiting, report)
                continue
            event = _event(step, f"{index}/{part}", common)
            events.append(event)
            if isinstance(step, Call) and event.open:
                waiting.append(event)
    events.extend(event for before, event in asked if before >= len(found.messages))
    events.extend(_verdicts(found.beside, common))
    for order, event in enumerate(events):
        event.position = (found.place, order)
        yield event


def _requests(found: Conversation, common: dict[str, Any]) -> Iterator[tuple[_Request, RawEvent]]:
    for order, request in enumerate(found.requests):
        facts = {
            **common,
            "model": request.model,
            "tokens_in": _tokens(request.usage, "prompt", "input"),
            "tokens_out": _tokens(request.usage, "completion", "output"),
            "error_class": request.error,
        }
        yield request, RawEvent(kind="model", identity=f"model/{order}", **facts)


def _event(step: Turn | Words | Call, place: str, common: dict[str, Any]) -> RawEvent:
    if isinstance(step, Turn):
        return RawEvent(
            kind="message",
            tool="user",
            args={"text": step.text},
            external_input=True,
            identity=place,
            **common,
        )
    if isinstance(step, Words):
        return RawEvent(
            kind="message",
            agent=step.agent,
            tool="assistant",
            args={"text": step.text},
            identity=place,
            **common,
        )
    to = None if step.approval else handed_to(step.name, step.args)
    return RawEvent(
        kind="approval" if step.approval else "tool" if to is None else "handoff",
        agent=step.agent,
        tool=step.name,
        args=step.args,
        result=step.result,
        error_class=step.error,
        call_id=step.call_id or None,
        target=step.name if step.approval else to or None,
        identity=f"{place}/{step.call_id}",
        open=step.result is ABSENT and step.error is None and not step.done,
        **common,
    )


def _answer(reply: Reply, waiting: list[RawEvent], report: Report) -> None:
    """Give a reply to the call it answers: by id, else by the tool's name, else to the oldest open one."""
    found = next((call for call in waiting if reply.call_id and call.call_id == reply.call_id), None)
    if found is None and not reply.call_id:
        found = next((call for call in waiting if reply.name and call.tool == reply.name), None)
        if found is None and not reply.name:
            found = next(iter(waiting), None)
    elif found is None:
        found = next((call for call in waiting if call.call_id is None), None)
    if found is None:
        report.unknown["reply without its call"] += 1
        return
    waiting.remove(found)
    found.result, found.error_class, found.open = reply.result, reply.error, False
    if found.kind == "approval":
        found.external_input = True


def _tokens(usage: dict[str, Any], *names: str) -> int | None:
    for name in names:
        count = usage.get(f"{name}_tokens")
        if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < 1 << 62:
            return count
    return None


def _verdicts(beside: dict[str, Any], common: dict[str, Any]) -> Iterator[RawEvent]:
    """Yield what was judged of the run: 1 is passed, 0 failed, a part of a score neither."""
    for name in (*_SCORES, *_FLAGS):
        value = beside.get(name)
        if isinstance(value, bool):
            outcome = "passed" if value else "failed"
        elif name in _SCORES and isinstance(value, (int, float)) and math.isfinite(value):
            outcome = "passed" if value >= 1 else "failed" if value <= 0 else "unknown"
        else:
            continue
        yield RawEvent(kind="verdict", target=name, outcome=outcome, identity=f"verdict/{name}", **common)


FORMAT = Format(
    name="openai-chat",
    version=4,
    title="Chat-completions lists, request and response pairs, batch lines, Responses items, ShareGPT",
    recognised_by="messages with role and content (or from and value), alone, in lists or one conversation a line",
    proved_on="tau-bench airline runs",
    claim=claim,
    read=read,
    rank=30,
)
