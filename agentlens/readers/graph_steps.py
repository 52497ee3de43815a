"""What a graph's checkpoints and tasks tell, whichever way they were exported (LangGraph).

A node is a lane. One run of a node is one action: what the node wrote is its result. Where it wrote chat messages,
these tell the actions: the calls stand in the lane of the node that asked, whichever node ran the tools.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers.addressees import HANDOFF_TOOL
from agentlens.readers.blocks import count_of, text_of
from agentlens.readers.messages import Call, Reply, Words, is_message, steps
from agentlens.readers.stamps import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

SENDS: Final = "__pregel_tasks"
CONTROL: Final = frozenset(
    {
        SENDS,
        "__interrupt__",
        "__resume__",
        "__error__",
        "__start__",
        "__end__",
        "__scheduled__",
        "__no_writes__",
        "__previous__",
        "__input__",
        "__root_input__",
    }
)
"""Channels of the engine itself: no state of the graph."""
_UUID = re.compile(r":[0-9a-f]{8}-[0-9a-f-]{27}(?=\||$)")
_TASK = re.compile(r":([0-9a-f]{8}-[0-9a-f-]{27})(?=\||$)")
_CLASS = re.compile(r"([A-Za-z_][\w.]{0,120}?)(?:\(|: )|([\w.]{0,120}(?:Error|Exception|Interrupt|Timeout))$")
_EMPTY: Final[tuple[Any, ...]] = (None, [], {}, "", 0)
_EDITS: Final = frozenset({"update", "fork"})
_SAME: Final = ("type", "role", "name", "content", "tool_calls")


@dataclass(slots=True, kw_only=True)
class Checkpoint:
    """One saved state of a graph, or of a graph inside it (``ns``: ``outer:<task>|inner:<task>``)."""

    run_id: str
    ns: str
    id: str
    parent: str | None = None
    at: int | None = None
    source: str = ""
    workflow: str | None = None
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Task:
    """One run of a node. ``given`` is what a node was sent; else it read the state."""

    id: str
    name: str
    at: int | None = None
    ended_at: int | None = None
    given: Any = ABSENT
    pushed: bool = False
    writes: list[tuple[str, Any]] = field(default_factory=list)
    error: Any = None
    interrupts: list[Any] = field(default_factory=list)
    waited_at: int | None = None
    resumed: bool = False
    resumed_at: int | None = None
    done: bool = False


@dataclass(frozen=True, slots=True)
class _Heard:
    """A message as it was first told: by which task, in which lane, saying what."""

    task: str
    words: bytes
    lane: dict[str, Any] | None


@dataclass(slots=True)
class Graph:
    """Turns the checkpoints and tasks of one source into events; checkpoints come oldest first."""

    known: dict[tuple[str, str, str], Checkpoint] = field(default_factory=dict)  # without their values
    newest: dict[tuple[str, str], Checkpoint] = field(default_factory=dict)
    children: dict[tuple[str, str, str], set[str]] = field(default_factory=dict)
    growing: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    turns: Counter[str] = field(default_factory=Counter)
    served: dict[tuple[str, str], int] = field(default_factory=dict)  # turns that a lane has acted on
    calls: dict[tuple[str, str], RawEvent] = field(default_factory=dict)
    graphs: set[str] = field(default_factory=set)  # tasks that ran a graph of their own
    heard: dict[tuple[str, str], _Heard] = field(default_factory=dict)  # by run and the message's own id

    def checkpoint(self, saved: Checkpoint, line: int) -> Iterator[RawEvent]:
        """Yield a checkpoint, the fork it begins, and the turn or edit of a person it records."""
        place, key = (saved.run_id, saved.ns), (saved.run_id, saved.ns, saved.id)
        self.holds(saved.ns)
        if key in self.known:
            return
        before = self.newest.get(place)
        if before is not None and before.id == saved.parent:
            self.growing.setdefault(place, set()).update(_grown(before.values, saved.values))
        self.newest[place] = saved
        self.known[key] = saved
        self._hear(saved)
        yield self._fact(saved, line, 0, "checkpoint", target=saved.id, identity=f"checkpoint:{saved.id}")
        siblings = self.children.setdefault((*place, saved.parent or ""), set())
        if saved.parent and (siblings or saved.source == "fork"):
            yield self._fact(
                saved,
                line,
                1,
                "fork",
                target=saved.parent,
                parent_run_id=saved.run_id,
                identity=f"fork:{saved.id}",
            )
        siblings.add(saved.id)
        if not saved.ns and (saved.source == "input" or saved.source in _EDITS):
            self.turns[saved.run_id] += 1
            tool = "user" if saved.source == "input" else "update_state"
            yield self._fact(
                saved, line, 2, "message", tool=tool, external_input=True, identity=f"turn:{saved.id}"
            )

    def _hear(self, saved: Checkpoint) -> None:
        """Note the messages of a state that no task was seen to write: a node that returns them says nothing."""
        for name, value in saved.values.items():
            if _is_control(name) or not isinstance(value, list):
                continue
            for message in value:
                key = text_of(message.get("id")) if is_message(message) else ""
                if key and (saved.run_id, key) not in self.heard:
                    self.heard[saved.run_id, key] = _Heard("", _words(message), None)

    def holds(self, ns: str) -> None:
        """Note the tasks that ran the graphs named in ``ns``: what these did is told by their own nodes."""
        self.graphs.update(_TASK.findall(ns))

    def _fact(self, saved: Checkpoint, line: int, order: int, kind: str, **facts: Any) -> RawEvent:
        outer = _names(saved.ns)
        return RawEvent(
            run_id=saved.run_id,
            agent="/".join(outer),
            instance=saved.ns or None,
            position=(line, order),
            kind=kind,
            at=saved.at,
            workflow=saved.workflow,
            **facts,
        )

    def task(self, saved: Checkpoint, task: Task, line: int, order: int = 3) -> list[RawEvent]:
        """Return the events of one run of a node, numbered from ``order`` on."""
        if task.name in CONTROL:
            return []
        outer = _names(saved.ns)
        lane: dict[str, Any] = {
            "run_id": saved.run_id,
            "agent": "/".join([*outer, task.name]),
            "instance": saved.ns or None,
            "parent_agent": "/".join(outer) or None,
            "workflow": saved.workflow,
        }
        wraps = task.id in self.graphs
        if task.resumed and not wraps:
            self.turns[saved.run_id] += 1
        told = [] if wraps else self._told(task, lane)
        waits = [] if wraps else _waits(task, lane)
        own = self._own(saved, task, lane, told=wraps or bool(told) or _speaks(task))
        found = [own, *waits, *told, *_handoffs(task, lane)]
        for event in found:
            if event.kind in {"tool", "handoff"} and event.external_input is None and event.tool:
                self._serve(event)
            event.position = (line, order)
            order += 1
        return found

    def _serve(self, event: RawEvent) -> None:
        """Mark the first action of a lane after a turn, an edit or a decision of a person."""
        lane = (event.run_id, f"{event.agent}\0{event.instance or ''}")
        if self.served.get(lane, 0) < self.turns[event.run_id]:
            event.external_input = True
            self.served[lane] = self.turns[event.run_id]

    def _own(self, saved: Checkpoint, task: Task, lane: dict[str, Any], *, told: bool) -> RawEvent:
        error = error_class(task.error)
        result = {name: value for name, value in task.writes if not _is_control(name)}
        # a node that ends writes nothing more: what it wrote before a question is no result yet
        finished = task.done and error is None
        return RawEvent(
            kind="agent" if told else "tool",
            tool=task.name,
            at=task.at,
            ended_at=task.ended_at,
            args=ABSENT if told else self._args(saved, task),
            result=result if finished and not told else ABSENT,
            error_class=error,
            identity=f"task:{task.id}",
            open=not task.done and error is None,
            **lane,
        )

    def _args(self, saved: Checkpoint, task: Task) -> Any:
        """Return what the node acted on: what it was sent, or the state it read.

        Of a list that grows with the run (a history) the newest item stands for all: else no node would ever
        do the same thing twice. What is empty is left out, because some exports leave it out.
        """
        given = saved.values if task.given is ABSENT and not task.pushed else task.given
        if task.pushed or not isinstance(given, dict):
            return given
        growing = self.growing.get((saved.run_id, saved.ns), set())
        return {
            name: _newest(value) if name in growing or _is_chat(value) else value
            for name, value in given.items()
            if not _is_control(name) and not (value in _EMPTY and value is not False)
        }

    def _told(self, task: Task, lane: dict[str, Any]) -> list[RawEvent]:
        """Return what the chat messages that a node wrote tell: model calls, tool calls and their results."""
        found: list[RawEvent] = []
        for name, value in task.writes:
            if _is_control(name):
                continue
            for index, message in enumerate(value if isinstance(value, list) else [value]):
                if is_message(message):
                    own = text_of(message.get("id"))
                    place = self._place_of(message, own, task, lane) if own else lane
                    if place is not None:
                        found += self._message(message, own or f"{task.id}/{name}/{index}", task, place)
        return found

    def _place_of(
        self, message: dict[str, Any], key: str, task: Task, lane: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Return the lane of a message; None where a node only gives back what was told before.

        A graph that runs as a node gives back the whole conversation. What an edit changed is told again, in the
        lane of who said it first.
        """
        words = _words(message)
        before = self.heard.setdefault((lane["run_id"], key), _Heard(task.id, words, lane))
        if before.task != task.id and before.words == words:
            return None
        return before.lane or lane

    def _message(
        self, message: dict[str, Any], key: str, task: Task, lane: dict[str, Any]
    ) -> Iterator[RawEvent]:
        usage, about = message.get("usage_metadata"), message.get("response_metadata")
        model = about.get("model_name", about.get("model")) if isinstance(about, dict) else None
        facts = {"model": text_of(model) or None, **lane}
        if message.get("type") == "ai" or message.get("role") == "assistant":
            counts = usage if isinstance(usage, dict) else {}
            yield RawEvent(
                kind="model",
                at=task.at,
                ended_at=task.ended_at,
                tokens_in=count_of(counts.get("input_tokens")),
                tokens_out=count_of(counts.get("output_tokens")),
                identity=f"model:{key}",
                **facts,
            )
        for order, step in enumerate(steps(message)):
            if isinstance(step, Call):
                yield self._call(step, f"call:{key}/{step.call_id or order}", task, facts)
            elif isinstance(step, Reply):
                yield from self._reply(step, text_of(message.get("status")), task, lane)
            else:
                yield RawEvent(
                    kind="message",
                    tool="assistant" if isinstance(step, Words) else "note",
                    at=task.at,
                    args={"text": step.text},
                    identity=f"said:{key}/{order}",
                    **facts,
                )

    def _call(self, step: Call, identity: str, task: Task, facts: dict[str, Any]) -> RawEvent:
        handoff = HANDOFF_TOOL.fullmatch(step.name)
        event = RawEvent(
            kind="handoff" if handoff else "tool",
            tool=step.name,
            at=task.ended_at if task.ended_at is not None else task.at,
            args=step.args,
            call_id=step.call_id or None,
            target=handoff[1] if handoff else None,
            identity=identity,
            open=True,
            **facts,
        )
        if step.call_id:
            self.calls[facts["run_id"], step.call_id] = event
        return event

    def _reply(self, step: Reply, status: str, task: Task, lane: dict[str, Any]) -> Iterator[RawEvent]:
        asked = self.calls.get((lane["run_id"], step.call_id))
        error = step.error or ("tool_error" if status == "error" else None)
        if asked is None:
            yield RawEvent(
                kind="tool",
                tool=step.name or task.name,
                at=task.at,
                result=step.result,
                error_class=error,
                call_id=step.call_id or None,
                open=False,
                **lane,
            )
            return
        yield RawEvent(
            run_id=asked.run_id,
            agent=asked.agent,
            instance=asked.instance,
            parent_agent=asked.parent_agent,
            kind=asked.kind,
            tool=asked.tool,
            ended_at=task.ended_at if task.ended_at is not None else task.at,
            result=step.result,
            error_class=error,
            call_id=asked.call_id,
            target=asked.target,
            identity=asked.identity,
            open=False,
        )


def error_class(error: Any) -> str | None:
    """Return the class of an error that was kept as its text: ``ValueError('no')``.

    >>> error_class("ValueError('no')"), error_class(None)
    ('ValueError', None)
    """
    if error is None:
        return None
    text = text_of(error.get("class", error.get("type"))) if isinstance(error, dict) else text_of(error)
    found = _CLASS.match(text.strip())
    return (found[1] or found[2]).rsplit(".", 1)[-1] if found else "unknown"


def _waits(task: Task, lane: dict[str, Any]) -> list[RawEvent]:
    """Return the questions a node put to a person, and the answer it went on with."""
    found = []
    for index, asked in enumerate(task.interrupts):
        about = asked if isinstance(asked, dict) else {}
        value = about.get("value")
        found.append(
            RawEvent(
                kind="wait",
                tool="interrupt",
                target=task.name,
                at=task.waited_at,
                call_id=text_of(about.get("id")) or None,
                identity=f"interrupt:{text_of(about.get('id')) or f'{task.id}/{index}'}",
                lease=_lease(value) if isinstance(value, dict) else None,
                open=not task.resumed,
                **lane,
            )
        )
    if task.resumed:
        found.append(
            RawEvent(
                kind="resume",
                tool="resume",
                target=task.name,
                at=task.resumed_at,
                identity=f"resume:{task.id}",
                **lane,
            )
        )
    return found


def _lease(value: dict[str, Any]) -> dict[str, Any] | None:
    owner, deadline = text_of(value.get("owner")), moment(value.get("deadline"))
    if not owner or deadline is None:
        return None
    return {"owner": owner, "waits_on": None, "deadline": deadline, "renewals": None, "max_renewals": None}


def _handoffs(task: Task, lane: dict[str, Any]) -> list[RawEvent]:
    """Return the work a node sent on to nodes it named."""
    sent: list[tuple[str, Any]] = []
    for name, value in task.writes:
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, dict):
                continue
            if name == SENDS and (item.get("class") == "Send" or {"node", "arg"} <= item.keys()):
                sent.append((text_of(item.get("node")), item.get("arg")))
            elif item.get("class") == "Command" or {"goto", "update"} <= item.keys():
                goto = item.get("goto")
                sent += [
                    (to, None) for to in (goto if isinstance(goto, list) else [goto]) if isinstance(to, str)
                ]
    return [
        RawEvent(
            kind="handoff",
            tool="handoff",
            target=node,
            args={"to": node, "with": arg},
            at=task.ended_at if task.ended_at is not None else task.at,
            identity=f"send:{task.id}/{index}",
            open=False,
            **lane,
        )
        for index, (node, arg) in enumerate(sent)
        if node and node != "__end__"
    ]


def _names(ns: str) -> list[str]:
    return [name for name in _UUID.sub("", ns).split("|") if name]


def _is_control(name: str) -> bool:
    return name in CONTROL or name.startswith("branch:")


def _speaks(task: Task) -> bool:
    """Say whether a node wrote chat messages, be they new or what it was given."""
    return any(
        is_message(message)
        for name, value in task.writes
        if not _is_control(name)
        for message in (value if isinstance(value, list) else [value])
    )


def _words(message: dict[str, Any]) -> bytes:
    said = repr([message.get(name) for name in (*_SAME, "tool_call_id")])
    return blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _is_chat(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_message, value))


def _newest(value: Any) -> Any:
    if not isinstance(value, list) or not value:
        return value
    last = value[-1]
    return {name: last.get(name) for name in _SAME if last.get(name)} if is_message(last) else last


def _grown(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Yield the names of lists that kept what they had and got more."""
    for name, value in after.items():
        old = before.get(name)
        if not isinstance(value, list) or not isinstance(old, list):
            continue
        if 0 < len(old) < len(value) and value[: len(old)] == old:
            yield name
