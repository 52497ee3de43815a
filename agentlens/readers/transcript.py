"""Role-and-content transcripts of agent teams, with or without addressees (Magentic-One, group chats).

An agent's message to another (``Orchestrator (-> WebSurfer)``) is a handoff; the addressee's next message is
its reply. Plans and ledgers (``Orchestrator (thought)``) are kept as bare facts: their text is the model's own
word on its progress and is never read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers import reprs
from agentlens.readers.addressees import handed_to
from agentlens.readers.base import Format
from agentlens.readers.blocks import text_of
from agentlens.readers.documents import documents, first_document, stem_of
from agentlens.readers.messages import failure_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head, Source

_ROLE = re.compile(r"(?P<agent>[^()]{1,80}?) \((?:-> (?P<to>[^()]{1,80})|(?P<aside>[^()]{1,80}))\)")
_HUMANS: Final = frozenset({"human", "user"})
_EXIT = re.compile(r"exitcode: (-?\d{1,4})")
_FENCE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_DONE: Final = "No agent selected"
_TERMINATE = re.compile(r"\bTERMINATE\b")
_KEYS: Final = ("history", "messages", "chat_history")


def claim(head: Head) -> int:
    """Claim one document whose messages carry addressees or asides in their roles, or speakers by name."""
    if not head.magic and reprs.begins(head.data):
        return 60
    if head.magic or not head.values:
        return 0
    first = first_document(head, _KEYS)
    messages = _messages(first) or []
    known = [message for message in messages if isinstance(message, dict)]
    if any(_ROLE.fullmatch(text_of(message.get("role"))) for message in known):
        return 92
    if len(known) > 1 and all(_speaks(message) for message in known):
        if isinstance(first, dict) and first.keys() & {"history", "chat_history"}:
            return 75
        if any(_dicts(message.get("tool_responses")) for message in known):
            return 60  # only agents that run each other's calls write those
        # several speakers, not all of them assistants: a chat with one model has only one of either
        heard = {text_of(message.get("name")) for message in known if message.get("role") == "user"}
        return 60 if len(heard) > 1 else 0
    return 0


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of one transcript, in order of its messages."""
    for name, base, document in _documents(source, report):
        messages = _messages(document)
        if messages is None:
            reason = "no transcript: a list of messages, or one under 'history', was expected"
            report.quarantine(base, reason, "record")
            continue
        turns = list(_turns(messages, base, report))
        if any(turn.to for turn in turns):
            yield from _addressed(turns, name)
        else:
            yield from group_chat(turns, name)


def _documents(source: Source, report: Report) -> Iterator[tuple[str, int, Any]]:
    """Yield the documents of a source; one that Python wrote as it shows lists is read as literals."""
    if not reprs.begins(source.head().data):
        yield from documents(source, report, ("", *_KEYS), _KEYS)
        return
    data = source.read(report)
    found, lost = reprs.shown(data)
    if found is None:
        report.quarantine(0, "not a list of Python literals, or too large for one", "byte")
        return
    if lost:
        report.quarantine(len(data) - lost, f"{lost} bytes at the end are no whole message", "byte")
    report.repaired["Python literals read as JSON"] += 1
    yield stem_of(source), 0, found


def _turns(messages: list[Any], base: int, report: Report) -> Iterator[Turn]:
    for index, message in enumerate(messages, base):
        turn = turn_of(index, message)
        if turn is None:
            report.quarantine(index, "a message without a role or without text", "record")
        else:
            yield turn


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a transcript: whose it is, to whom, and what it says."""

    index: int
    agent: str
    text: str
    to: str = ""
    aside: str = ""
    human: bool = False
    calls: tuple[dict[str, Any], ...] = ()
    answers: tuple[dict[str, Any], ...] = ()

    @property
    def line(self) -> str:
        """The first line that says anything: what the agent did, in its own words."""
        return next((line.strip() for line in self.text.splitlines() if line.strip()), "")


def _messages(document: Any) -> list[Any] | None:
    if isinstance(document, list):
        return document
    if isinstance(document, dict):
        return next((document[key] for key in _KEYS if isinstance(document.get(key), list)), None)
    return None


def _speaks(message: dict[str, Any]) -> bool:
    said = isinstance(message.get("content"), str) or bool(message.get("tool_calls"))
    return said and bool(text_of(message.get("name"))) and "role" in message


def turn_of(index: int, message: Any) -> Turn | None:
    """Return a message as a turn; None for one without a role or without text."""
    if not isinstance(message, dict):
        return None
    text = message.get("content")
    calls, answers = _dicts(message.get("tool_calls")), _dicts(message.get("tool_responses"))
    role, name = text_of(message.get("role")), text_of(message.get("name"))
    if not (isinstance(text, str) or calls or answers) or not (role or name):
        return None
    text = text if isinstance(text, str) else ""
    match = _ROLE.fullmatch(role)
    if match:
        return Turn(index, match["agent"], text, match["to"] or "", match["aside"] or "")
    human = not name and role.lower() in _HUMANS
    agent = "" if human else name or role
    return Turn(index, agent, text, human=human, calls=calls, answers=answers)


def _dicts(value: Any) -> tuple[dict[str, Any], ...]:
    return tuple(item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()


def _addressed(turns: list[Turn], run_id: str) -> Iterator[RawEvent]:
    replies = _replies(turns)
    lead = next(turn.agent for turn in turns if turn.to)
    answered = {reply.index: dispatch for dispatch, reply in replies.items()}
    for turn in turns:
        place = (turn.index, 0)
        if turn.human:
            yield RawEvent(
                run_id=run_id, position=place, agent=lead, kind="message", tool="user", external_input=True
            )
        elif turn.to:
            yield _dispatch(turn, replies.get(turn.index), run_id)
        elif turn.aside:
            yield _aside(turn, run_id)
        else:
            dispatch = answered.get(turn.index)
            if dispatch is not None:
                yield RawEvent(
                    run_id=run_id,
                    position=place,
                    agent=turn.agent,
                    kind="accept",
                    call_id=_call(dispatch),
                    parent_agent=lead,
                )
            yield _said(turn, run_id, parent_agent=lead)


def _replies(turns: list[Turn]) -> dict[int, Turn]:
    """Map each dispatch to its addressee's first message before the same agent dispatches again."""
    open_: dict[str, Turn] = {}  # dispatching agent -> its open dispatch
    found: dict[int, Turn] = {}
    for turn in turns:
        if turn.to:
            open_[turn.agent] = turn
        elif not turn.aside and not turn.human:
            for agent, dispatch in list(open_.items()):
                if dispatch.to == turn.agent:
                    found[dispatch.index] = turn
                    del open_[agent]
                    break
    return found


def _dispatch(turn: Turn, reply: Turn | None, run_id: str) -> RawEvent:
    return RawEvent(
        run_id=run_id,
        position=(turn.index, 0),
        agent=turn.agent,
        kind="handoff",
        tool="handoff",
        target=turn.to,
        args={"to": turn.to, "request": turn.text},
        result=ABSENT if reply is None else reply.text,
        open=reply is None,
        call_id=_call(turn.index),
    )


def _aside(turn: Turn, run_id: str) -> RawEvent:
    """Keep that there was a thought, nothing of what it says; an end the team chose itself is a claim."""
    done = "termination" in turn.aside and turn.text.startswith(_DONE)
    return RawEvent(
        run_id=run_id,
        position=(turn.index, 0),
        agent=turn.agent,
        kind="claim" if done else "log",
        tool=turn.aside,
        target="success" if done else None,
    )


def _said(turn: Turn, run_id: str, parent_agent: str | None = None) -> RawEvent:
    return RawEvent(
        run_id=run_id,
        position=(turn.index, 1),
        agent=turn.agent,
        kind="message",
        tool="message",
        args={"action": turn.line},
        result=turn.text,
        parent_agent=parent_agent,
    )


def group_chat(turns: list[Turn], run_id: str) -> Iterator[RawEvent]:
    """Without addressees each message is its speaker's; code that a terminal ran is its writer's action."""
    before: Turn | None = None
    asked: dict[str, RawEvent] = {}
    for turn in turns:
        if turn.calls or turn.answers:
            yield from _called(turn, run_id, asked)
            before = turn
            continue
        if turn.human:
            yield RawEvent(
                run_id=run_id, position=(turn.index, 0), kind="message", tool="user", external_input=True
            )
            continue
        code = _FENCE.findall(before.text) if before is not None else []
        if before is not None and code and (match := _EXIT.match(turn.text)):
            yield RawEvent(
                run_id=run_id,
                position=(turn.index, 0),
                agent=before.agent,
                tool=turn.agent,
                args={"code": code if len(code) > 1 else code[0]},
                result=turn.text,
                error_class=None if match.group(1) == "0" else f"exit_{match.group(1)}",
                open=False,
            )
        else:
            yield _said(turn, run_id)
        if turn is turns[-1] and _TERMINATE.search(turn.text):
            yield RawEvent(
                run_id=run_id,
                position=(turn.index, 2),
                agent=turn.agent,
                kind="claim",
                tool="TERMINATE",
                target="success",
            )
        before = turn


def _called(turn: Turn, run_id: str, asked: dict[str, RawEvent]) -> Iterator[RawEvent]:
    """Calls of the speaker, or answers to calls that another speaker made: whoever runs them, they are the asker's."""
    for order, call in enumerate(turn.calls):
        about = call.get("function")
        about = about if isinstance(about, dict) else {}
        call_id, name = text_of(call.get("id")), text_of(about.get("name"))
        to = handed_to(name, about.get("arguments"))
        event = asked[call_id] = RawEvent(
            run_id=run_id,
            position=(turn.index, order),
            agent=turn.agent,
            kind="tool" if to is None else "handoff",
            tool=name,
            target=to or None,
            args=about.get("arguments", ABSENT),
            call_id=call_id or None,
            identity=f"{_call(turn.index)}/{order}",
            open=True,
        )
        yield event
    for answer in turn.answers:
        found = asked.pop(text_of(answer.get("tool_call_id")), None)
        if found is not None:
            result = answer.get("content", ABSENT)
            yield replace(found, result=result, error_class=failure_of(result), open=False)


def _call(index: int) -> str:
    return f"message-{index}"


FORMAT = Format(
    name="transcript",
    version=4,
    title="role-and-content transcript of an agent team (Magentic-One, AG2 group chats)",
    recognised_by="roles such as 'Orchestrator (-> WebSurfer)', or messages of several named speakers",
    proved_on="25 Magentic-One runs, 62 group chats, five logs of bio-data agents (two as Python literals)",
    claim=claim,
    read=read,
    rank=30,
)
