"""Gemini CLI sessions: one record a line, rewritten as tools finish (or one old document), and sub-agent files.

Records are written again under the same id, and the last one stands. What ``$set`` puts in the place of older
messages, and what ``$rewindTo`` takes away, happened all the same: it stays, and the change itself is a fact.
"""

from __future__ import annotations

import glob
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agentlens.errors import InputError
from agentlens.model.raw import ABSENT
from agentlens.readers.base import Format
from agentlens.readers.blocks import Lane, Spot, count_of, text_of
from agentlens.readers.decode import attempt, loads
from agentlens.readers.documents import documents, stem_of
from agentlens.readers.gemini_results import outcome
from agentlens.readers.line_objects import object_lines
from agentlens.readers.source import Source
from agentlens.readers.stamps import moment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentlens.model.raw import RawEvent
    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head

_DELEGATES: Final = frozenset({"delegate_to_agent", "invoke_agent", "invoke_subagent", "agent"})
_WAITS: Final = {"ask_user": "user", "exit_plan_mode": "plan"}
_INJECTED: Final = (
    "<session_context>",
    "<system_reminder>",
    "This is the Gemini CLI. We are setting up",
    "<hook_context>",
)
_ENDED: Final = frozenset({"success", "error", "cancelled"})
_QUIET: Final = frozenset({"info", "warning"})
_CHILD: Final = "subagent"


def claim(head: Head) -> int:
    """Claim a session's header, as the first line or as the document itself."""
    if head.magic:
        return 0
    for value in head.records:
        if isinstance(value, dict) and value.keys() >= {"sessionId", "projectHash"}:
            return 95
    return 0


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of one session, or of each that old versions kept as a document."""
    first = next(iter(source.head().records), None)
    if isinstance(first, dict) and (isinstance(first.get("messages"), list) or not _is_log(source)):
        for _, base, document in documents(source, report, ("messages", ""), ("messages",)):
            session = _Session(report=report, source=source)
            yield from session.document(document, base)
            yield from session.end()
        return
    session = _Session(report=report, source=source)
    for number, line in object_lines(source, report):
        value = loads(line, report, number)
        if value is not ABSENT:
            yield from session.line(value, number)
    yield from session.end()


def _is_log(source: Source) -> bool:
    """Say whether records stand one a line, or in an array."""
    return source.is_lines() or isinstance(next(iter(source.head().values), None), list)


@dataclass(slots=True)
class _Session:
    report: Report
    source: Source
    lane: Lane = field(default_factory=lambda: Lane(run_id=""))
    held: tuple[int, dict[str, Any]] | None = None  # the newest message: it may be written again
    seen: set[str] = field(default_factory=set)
    last: tuple[Spot, dict[str, Any]] | None = None

    def document(self, document: Any, base: int) -> Iterator[RawEvent]:
        messages = document.get("messages") if isinstance(document, dict) else None
        if not isinstance(messages, list):
            self.report.quarantine(base, "no session: an object with messages was expected", "record")
            return
        yield from self._begin(document, base)
        for number, message in enumerate(messages, base + 1):
            yield from self.line(message, number)

    def line(self, value: Any, number: int) -> Iterator[RawEvent]:
        if not isinstance(value, dict):
            self.report.quarantine(number, f"a {type(value).__name__} where a record was expected")
        elif "$rewindTo" in value:
            yield from self._flush()
            target = text_of(value["$rewindTo"])
            yield self._spot(number).event(0, "reset", tool="rewind", target=target or None)
        elif "$set" in value:
            yield from self._set(value["$set"], number)
        elif value.keys() >= {"sessionId", "projectHash"}:
            yield from self._begin(value, number)
        elif "type" in value:
            yield from self._hold(value, number)
        else:
            self.report.unknown["record without a type"] += 1

    def end(self) -> Iterator[RawEvent]:
        """A session that ends with the model's words claims to be done."""
        yield from self._flush()
        if self.last is not None:
            spot, message = self.last
            if message.get("type") == "gemini" and not message.get("toolCalls") and _text(message).strip():
                own = text_of(message.get("id"))
                yield spot.event(9, "claim", tool="final_message", target="success", identity=f"claim/{own}")

    def _begin(self, header: dict[str, Any], number: int) -> Iterator[RawEvent]:
        if self.lane.run_id:
            return
        own = text_of(header.get("sessionId")) or stem_of(self.source)
        folder = self.source.siblings()
        if header.get("kind") != "subagent" or folder is None:
            self.lane = Lane(run_id=own)
            return
        # a sub-agent's file stands in a folder that is named like the session of its parent
        agent = _agent_in(folder, own) or _CHILD
        self.lane = Lane(run_id=folder.name, agent=agent, instance=own, parent_agent="")
        spot = self._spot(number, moment(header.get("startTime"), self.report))
        yield spot.event(0, "accept", identity=f"accept/{own}")
        yield _span(spot, self.lane, spot.at, open_=None)

    def _set(self, changed: Any, number: int) -> Iterator[RawEvent]:
        messages = changed.get("messages") if isinstance(changed, dict) else None
        if not isinstance(messages, list):
            return
        yield from self._flush()
        if self.seen:
            yield self._spot(number, moment(changed.get("lastUpdated"))).event(
                0, "compaction", tool="messages_replaced"
            )
        for message in messages:
            # of a message that was there before, what was seen then stands: its results may be stubs by now
            if isinstance(message, dict) and text_of(message.get("id")) not in self.seen:
                yield from self._hold(message, number)
        yield from self._flush()

    def _hold(self, message: dict[str, Any], number: int) -> Iterator[RawEvent]:
        if self.held is not None and self.held[1].get("id") == message.get("id") and message.get("id"):
            self.held = (self.held[0], {**self.held[1], **message})
            return
        yield from self._flush()
        self.held = (number, message)

    def _flush(self) -> Iterator[RawEvent]:
        if self.held is None:
            return
        (number, message), self.held = self.held, None
        kind, own = text_of(message.get("type")), text_of(message.get("id"))
        if own:
            self.seen.add(own)
        if not self.lane.run_id:  # the header is missing: the start of the file is
            self.lane = Lane(run_id=stem_of(self.source))
        spot = self._spot(
            number, moment(message.get("timestamp"), self.report), text_of(message.get("model"))
        )
        if kind == "gemini":
            self.last = (spot, message)
            yield from self._model(message, spot, own)
        elif kind == "user":
            yield from self._user(message, spot, own)
        elif kind == "error":
            yield spot.event(0, "log", tool="error", error_class="error", identity=own or None)
        elif kind not in _QUIET:
            self.report.unknown[f"type {kind!r}"[:80]] += 1
            yield spot.event(0, "log", tool=kind[:80], identity=own or None)

    def _spot(self, number: int, at: int | None = None, model: str = "") -> Spot:
        return Spot(lane=self.lane, line=number, at=at, model=model or None)

    def _user(self, message: dict[str, Any], spot: Spot, own: str) -> Iterator[RawEvent]:
        """A person's turn; results of tools are repeated here under the same type, and are not read again."""
        text = _text(message).strip()
        if not text or text.startswith(_INJECTED):
            return
        self.last = (spot, message)
        if self.lane.instance is None:
            yield spot.event(0, "message", tool="user", external_input=True, identity=own or None)

    def _model(self, message: dict[str, Any], spot: Spot, own: str) -> Iterator[RawEvent]:
        tokens = message.get("tokens")
        if isinstance(tokens, dict):
            out = [count_of(tokens.get(name)) for name in ("output", "thoughts")]
            yield spot.event(
                0,
                "model",
                model=spot.model,
                tokens_in=count_of(tokens.get("input")),
                tokens_out=None if out[0] is None else out[0] + (out[1] or 0),
                identity=f"{own}/model" if own else None,
            )
        calls = message.get("toolCalls")
        for order, call in enumerate(calls if isinstance(calls, list) else (), 1):
            if isinstance(call, dict):
                yield from self._call(call, spot, own, order)

    def _call(self, call: dict[str, Any], spot: Spot, own: str, order: int) -> Iterator[RawEvent]:
        name, call_id, status = (text_of(call.get(key)) for key in ("name", "id", "status"))
        args, child = call.get("args", ABSENT), text_of(call.get("agentId"))
        ended = status in _ENDED
        result, error = outcome(call) if ended else (ABSENT, None)
        kind, target = "tool", None
        if child or name in _DELEGATES:
            kind, target = "handoff", _addressee(name, args)
        elif name in _WAITS:
            kind, target = "wait", _WAITS[name]
        at_end = moment(call.get("timestamp"), self.report) if ended else None
        identity = f"{own}/{call_id or order}" if own or call_id else None
        yield spot.event(
            order,
            kind,
            tool=name,
            args=args,
            result=result,
            error_class=error,
            ended_at=at_end,
            model=spot.model,
            target=target,
            call_id=call_id or None,
            identity=identity,
            span_id=f"spawn/{child}" if child else None,
            open=not ended,
            external_input=True if kind == "wait" and status == "success" else None,
        )
        if child and ended:
            lane = Lane(
                run_id=spot.lane.run_id, agent=target or _CHILD, instance=child, parent_agent=spot.lane.agent
            )
            yield _span(spot, lane, None, open_=False, ended_at=at_end, error_class=error)
        if status in {"awaiting_approval", "cancelled"}:
            yield spot.event(
                order,
                "approval",
                tool=name,
                target=name,
                call_id=call_id or None,
                open=status == "awaiting_approval",
                error_class="rejected_by_user" if status == "cancelled" else None,
                external_input=True if status == "cancelled" else None,
                identity=f"approval/{identity}",
            )


def _span(spot: Spot, lane: Lane, at: int | None, *, open_: bool | None, **facts: Any) -> RawEvent:
    """Return the span of a sub-agent; its own file and its parent's say it alike."""
    return spot.event(
        8,
        "agent",
        agent=lane.agent,
        instance=lane.instance,
        parent_agent=lane.parent_agent,
        tool=lane.agent,
        at=at,
        span_id=lane.instance,
        parent_span_id=f"spawn/{lane.instance}",
        identity=f"agent/{lane.instance}",
        open=open_,
        **facts,
    )


def _addressee(name: str, args: Any) -> str:
    """Return the agent that a call goes to: named among its arguments, else the tool is named like it."""
    if name in _DELEGATES and isinstance(args, dict):
        return next(
            (text for key in ("agent_name", "agent", "name") if (text := text_of(args.get(key)))), name
        )
    return name


def _agent_in(folder: Path, child: str) -> str | None:
    """Look up in the parent's file which agent a sub-agent's session was started as."""
    for path in _parents(folder):
        try:
            for _, line in Source.of(path).lines():
                value = attempt(line) if child.encode() in line else None
                calls = value.get("toolCalls") if isinstance(value, dict) else None
                for call in calls if isinstance(calls, list) else ():
                    if isinstance(call, dict) and text_of(call.get("agentId")) == child:
                        return _addressee(text_of(call.get("name")), call.get("args"))
        except InputError:
            continue
    return None


def _parents(folder: Path) -> list[Path]:
    """Return the files of the session whose sub-agents' files a folder holds; none where it is no such folder."""
    if not folder.name:
        return []
    return sorted(folder.parent.glob(f"session-*-{glob.escape(folder.name[:8])}.jsonl*"))


def companions(source: Source) -> list[Path]:
    """Return the parent's file of a sub-agent's: it says which agent was started."""
    folder = source.siblings()
    return [] if folder is None else _parents(folder)


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    texts = (
        part if isinstance(part, str) else part.get("text") if isinstance(part, dict) else ""
        for part in parts
    )
    return "\n".join(text_of(text) for text in texts)


FORMAT = Format(
    name="gemini-cli",
    version=2,
    title="Gemini CLI sessions (lines, and the document of old versions)",
    recognised_by="a header with sessionId and projectHash",
    proved_on="a session of 0.61",
    claim=claim,
    read=read,
    rank=50,
    companions=companions,
)
