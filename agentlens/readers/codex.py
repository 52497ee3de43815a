"""Codex rollouts: ``{timestamp, type, payload}`` a line, and the bare response items of 2025.

Everything that matters is written twice (what the model asked and saw; what the program ran): both carry the
call's id, so they become one action. A child thread is a file of its own and a lane of its parent's run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers.base import Format
from agentlens.readers.blocks import Lane, Spot, count_of, text_of, tool_of
from agentlens.readers.codex_forks import Copies, ids_in, parents
from agentlens.readers.codex_items import (
    child_states,
    error_name,
    lease_of,
    output_of,
    result_of,
    spawn_of,
    unasked_of,
)
from agentlens.readers.codex_legacy import rows, session_of
from agentlens.readers.decode import attempt
from agentlens.readers.documents import stem_of
from agentlens.readers.stamps import epoch, moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.model.raw import RawEvent
    from agentlens.readers.base import Record, Report
    from agentlens.readers.codex_items import Output
    from agentlens.readers.source import Head, Source

_TYPES: Final = frozenset(
    {
        "session_meta",
        "response_item",
        "event_msg",
        "turn_context",
        "compacted",
        "world_state",
        "token_usage_record",
    }
)
_ITEMS: Final = frozenset(
    {"message", "reasoning", "function_call", "function_call_output", "local_shell_call", "custom_tool_call"}
)
_HANDOFFS: Final = frozenset({"spawn_agent", "send_input", "send_message", "followup_task", "assign_task"})
_WAITS: Final = {"wait_agent": "agent", "wait": "agent", "request_user_input": "user"}
_INJECTED = re.compile(
    r"<(?:environment_context|user_instructions|subagent_notification|permissions instructions|skills?|turn_aborted"
    r"|user_shell_command|model_switch|personality_spec|collaboration_mode|apps_instructions|ENVIRONMENT_CONTEXT)"
    r"|# AGENTS\.md instructions|<INSTRUCTIONS>"
)
_NOTIFICATION = re.compile(r"<subagent_notification>\s*(\{.*\})\s*</subagent_notification>", re.DOTALL)
_ENDS: Final = {
    "exec_command_end": "CommandExecution",
    "patch_apply_end": "FileChange",
    "mcp_tool_call_end": "McpToolCall",
    "web_search_end": "WebSearch",
}
_RAN: Final = frozenset({"CommandExecution", "FileChange", "McpToolCall"})
_TRIES = re.compile(r"(\d{1,3})/\d{1,3}")
_LOUD: Final = frozenset({"error", "warning", "guardian_warning", "turn_diff_failed", "shutdown_complete"})


def claim(head: Head) -> int:
    """Claim lines that wrap a payload in one of the rollout's types, or the bare items behind an old header."""
    values = [value for value in head.records if isinstance(value, dict)]
    wrapped = [v for v in values if text_of(v.get("type")) in _TYPES and isinstance(v.get("payload"), dict)]
    if wrapped:
        return 96 if any(v["type"] == "session_meta" for v in wrapped) else 90
    if values and session_of(values[0]) is not None:
        return 90
    if _is_header(values[0] if values else None) and len(values) > 1:
        later = [v for v in values[1:] if text_of(v.get("type")) in _ITEMS or "record_type" in v]
        return 90 if len(later) == len(values) - 1 else 0
    return 0


def _is_header(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() >= {"id", "timestamp"}
        and (bool(value.keys() & {"instructions", "git"}) or len(value) == 2)
        and "type" not in value
    )


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of one thread, line by line."""
    rollout = _Rollout(report=report, source=source, thread=_thread_of(source))
    for number, value in rows(source, report):
        if not isinstance(value, dict):
            report.quarantine(number, f"a {type(value).__name__} where a record was expected")
            continue
        yield from rollout.line(value, number)
    yield from rollout.forked()


def _thread_of(source: Source) -> str:
    for value in source.head().records:
        payload = session_of(value) or value.get("payload", value) if isinstance(value, dict) else None
        if isinstance(payload, dict) and (thread := text_of(payload.get("id"))):
            return thread
    return stem_of(source)


@dataclass(slots=True)
class _Call:
    kind: str
    identity: str
    name: str = ""
    target: str | None = None
    answered: bool = False


@dataclass(slots=True)
class _Rollout:
    """What has to be remembered from line to line."""

    report: Report
    source: Source
    thread: str
    lane: Lane = field(default_factory=lambda: Lane(run_id=""))
    begun: bool = False
    version: str | None = None
    model: str | None = None
    calls: dict[str, _Call] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)  # child thread -> its agent
    asked: dict[str, str] = field(default_factory=dict)  # child thread -> identity of the handoff
    copies: Copies = field(default_factory=Copies)
    fork: RawEvent | None = None  # told when the copies end: the last of them is the fork point

    def line(self, value: dict[str, Any], number: int) -> Iterator[RawEvent]:
        kind, payload = text_of(value.get("type")), value.get("payload")
        at = moment(value.get("timestamp"), self.report)
        if not self.begun and kind != "session_meta":
            self._begin({} if kind else value)
        if payload is None and (kind in _ITEMS or kind.endswith(("_call", "_call_output"))):
            payload, kind = value, "response_item"
        if kind == "" and (_is_header(value) or "record_type" in value):
            return
        if not isinstance(payload, dict):
            self.report.quarantine(number, "a record without a payload")
            return
        spot = Spot(lane=self.lane, line=number, at=at, version=self.version)
        if kind == "session_meta":
            yield from self._meta(payload, number, at)
        elif self.copies.holds(payload, at):
            self._copied(payload)
        else:
            yield from self.forked()
            yield from self._record(kind, payload, spot)

    def _record(self, kind: str, payload: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
        if kind == "response_item":
            yield from self._item(payload, spot)
        elif kind == "event_msg":
            yield from self._message(payload, spot)
        elif kind == "turn_context":
            self.model = text_of(payload.get("model")) or self.model
        elif kind == "compacted":
            own = f"{self.thread}/compacted/{spot.line}"
            yield spot.event(0, "compaction", tool="compacted", identity=own)
        elif kind == "token_usage_record":
            yield from self._tokens(payload.get("usage"), payload.get("thread_token_usage"), spot)
        elif kind != "world_state":
            self.report.unknown[f"type {kind!r}"[:80]] += 1
            yield spot.event(0, "log", tool=kind[:80])

    def _begin(self, meta: dict[str, Any]) -> None:
        """Name the run and the lane: a child thread belongs to the run of the session that started it."""
        self.begun = True
        self.thread = text_of(meta.get("id")) or self.thread
        spawned = spawn_of(meta)
        parent = text_of(meta.get("parent_thread_id")) or text_of(spawned.get("parent_thread_id"))
        run = text_of(meta.get("session_id")) or parent or self.thread
        self.version = text_of(meta.get("cli_version")) or None
        if not parent:
            self.lane = Lane(run_id=self.thread)
            return
        told = {
            **spawned,
            **{name: meta[name] for name in ("agent_role", "agent_nickname") if meta.get(name)},
        }
        role = text_of(told.get("agent_role")) or text_of(told.get("agent_nickname")) or "subagent"
        direct = count_of(spawned.get("depth")) in {None, 0, 1}
        self.lane = Lane(run_id=run, agent=role, instance=self.thread, parent_agent="" if direct else None)

    def _meta(self, payload: dict[str, Any], number: int, at: int | None) -> Iterator[RawEvent]:
        if self.begun:  # said again when the session was resumed, or a copy of the parent's
            other = text_of(payload.get("id"))
            if other not in {"", self.thread} and not self.copies.over:
                self.copies.mark(at)
                if self.fork is None and not self.copies.forked and self.lane.instance is None:
                    spot = Spot(lane=self.lane, line=number, at=self.copies.began, version=self.version)
                    self.fork = self._fork(spot, other)
                self.copies.forked = True
            return
        self._begin(payload)
        began = moment(payload.get("timestamp"))
        spot = Spot(lane=self.lane, line=number, at=at if began is None else began, version=self.version)
        if self.lane.instance is not None:
            call = text_of(spawn_of(payload).get("spawn_call_id")) or None
            yield spot.event(0, "accept", call_id=call, identity=f"accept/{self.thread}")
            yield self._span(spot, at=spot.at, open=True)
        forked = text_of(payload.get("forked_from_id"))
        self.copies = Copies(spot.at, last=at, forked=bool(forked), spawned=bool(self.lane.instance))
        if forked and self.lane.instance is None:
            self.fork = self._fork(spot, forked)
        if forked:
            self.copies.known = ids_in(self.source, forked)

    def _fork(self, spot: Spot, parent: str) -> RawEvent:
        return spot.event(1, "fork", tool="fork", parent_run_id=parent, identity=f"fork/{self.thread}")

    def _span(self, spot: Spot, **facts: Any) -> RawEvent:
        """Return the span of this child thread; its giver says the same of it."""
        return spot.event(
            2,
            "agent",
            tool=self.lane.agent,
            identity=f"agent/{self.thread}",
            **{"at": None, "span_id": self.thread, "parent_span_id": f"spawn/{self.thread}", **facts},
        )

    def forked(self) -> Iterator[RawEvent]:
        """Yield the fork, once; without the parent's file its point is not known."""
        if self.fork is not None:
            yield self.fork
            self.fork = None

    def _copied(self, payload: dict[str, Any]) -> None:
        """Count a line that repeats the parent's; the last of them is where the fork begins."""
        self.report.repaired["line copied from the thread that was forked"] += 1
        own = text_of(payload.get("id")) or text_of(payload.get("call_id"))
        if self.fork is not None and own:
            self.fork.target = own

    def _item(self, item: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
        kind = text_of(item.get("type"))
        if kind == "message":
            yield from self._said(item, spot)
        elif kind.endswith("_call_output"):
            yield from self._answer(text_of(item.get("call_id")), item, spot)
        elif kind.endswith("_call"):
            yield from self._ask(item, kind, spot)
        elif kind not in {"reasoning", "ghost_snapshot", "compaction", "compaction_summary", "other", ""}:
            self.report.unknown[f"item {kind!r}"[:80]] += 1

    def _ask(self, item: dict[str, Any], kind: str, spot: Spot) -> Iterator[RawEvent]:
        call_id = text_of(item.get("call_id")) or text_of(item.get("id"))
        name = tool_of(item) or kind.removesuffix("_call")
        args = next((item[key] for key in ("arguments", "input", "action") if key in item), ABSENT)
        if kind == "local_shell_call" and isinstance(args, dict):
            args = {key: args[key] for key in ("command", "working_directory") if args.get(key) is not None}
        call = self._called(call_id, name, args, spot)
        yield spot.event(
            0,
            call.kind,
            tool=name,
            args=args,
            target=call.target,
            model=self.model,
            call_id=call_id or None,
            identity=call.identity,
            open=None if kind == "web_search_call" else True,  # its results are never written
            lease=lease_of(args, spot.at) if call.kind == "wait" else None,
        )

    def _called(self, call_id: str, name: str, args: Any, spot: Spot) -> _Call:
        before = self.calls.get(call_id) if call_id else None
        again = 0
        if before is not None and before.answered:  # an id used a second time is another action
            again = int(before.identity.rpartition("#")[2] or 0) + 1 if "#" in before.identity else 2
        identity = f"{self.thread}/{call_id or f'line-{spot.line}'}" + (f"#{again}" if again else "")
        kind, target = "tool", None
        asked = attempt(args) if isinstance(args, str) else args
        asked = asked if isinstance(asked, dict) else {}
        if name in _HANDOFFS:
            to = text_of(asked.get("target")) or text_of(asked.get("id")) or text_of(asked.get("agent_id"))
            kind, target = "handoff", text_of(asked.get("agent_type")) or self.roles.get(to, to) or None
        elif name in _WAITS:
            kind, target = "wait", _WAITS[name]
        found = _Call(kind=kind, identity=identity, name=name, target=target)
        if call_id:
            self.calls[call_id] = found
        return found

    def _answer(self, call_id: str, item: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
        call = self.calls.get(call_id)
        if call is None:
            self.report.unknown["output without its call"] += 1
            return
        call.answered = True
        said = output_of(item.get("output", ABSENT))
        span = None
        told = attempt(said.result) if isinstance(said.result, str) and said.result.startswith("{") else None
        if isinstance(told, dict):
            thread = text_of(told.get("agent_id"))
            if call.name == "spawn_agent" and thread:
                self.roles[thread] = call.target or text_of(told.get("nickname")) or "subagent"
                self.asked.setdefault(thread, call.identity)
                span = f"spawn/{thread}"
            yield from self._states(told.get("status"), spot)
        yield spot.event(
            0,
            call.kind,
            at=None,
            tool=call.name,  # what is masked in a result depends on the tool
            **(_returned(said, spot) if span is None else {}),
            error_class=said.error,
            target=call.target,
            span_id=span,
            call_id=call_id,
            identity=call.identity,
            external_input=True if call.target == "user" and said.error is None else None,
        )
        if said.error == "rejected_by_user":
            yield spot.event(
                1,
                "approval",
                tool=call.name,
                target=call.name,
                call_id=call_id,
                error_class=said.error,
                external_input=True,
                identity=f"approval/{call.identity}",
            )

    def _states(self, states: Any, spot: Spot) -> Iterator[RawEvent]:
        yield from child_states(spot, states, self.roles, self.asked)

    def _said(self, item: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
        """A person's turn; what the program puts in a person's mouth is none."""
        content = item.get("content")
        parts = content if isinstance(content, list) else [{"text": content}]
        text = "\n".join(text_of(part.get("text")) for part in parts if isinstance(part, dict))
        if item.get("role") != "user":
            return
        notice = _NOTIFICATION.search(text)
        if notice is not None and isinstance(told := attempt(notice[1]), dict):
            yield from self._states({text_of(told.get("agent_path")): told.get("status")}, spot)
        elif self.lane.instance is None and text.strip() and not _INJECTED.match(text.lstrip()):
            own = text_of(item.get("id"))
            yield spot.event(
                0,
                "message",
                tool="user",
                external_input=True,
                identity=f"{self.thread}/{own}" if own else None,
            )

    def _message(self, payload: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
        kind = text_of(payload.get("type"))
        item = payload.get("item")
        if kind in {"item_completed", "item_started"} and isinstance(item, dict):
            if kind == "item_completed":
                yield from self._ran(text_of(item.get("type")), text_of(item.get("id")), item, payload, spot)
        elif kind in _ENDS:
            yield from self._ran(_ENDS[kind], text_of(payload.get("call_id")), payload, payload, spot)
        elif kind == "token_count":
            info = payload.get("info")
            if isinstance(info, dict):
                yield from self._tokens(info.get("last_token_usage"), info.get("total_token_usage"), spot)
        elif kind in {"task_complete", "turn_complete"}:
            yield from self._done(payload, spot)
        elif kind == "thread_rolled_back":
            turns = count_of(payload.get("num_turns"))
            yield spot.event(0, "reset", tool=kind, target=None if turns is None else f"{turns} turns")
        elif kind == "turn_aborted":
            human = text_of(payload.get("reason")) in {"interrupted", ""}
            yield spot.event(
                0, "log", tool=kind, error_class="interrupted", external_input=True if human else None
            )
        elif kind == "stream_error":
            tries = _TRIES.search(text_of(payload.get("message")))
            yield spot.event(
                0,
                "retry",
                tool="model",
                attempt=int(tries[1]) if tries else None,
                error_class=error_name(payload),
            )
        elif kind.endswith("_approval_request"):
            call_id = text_of(payload.get("call_id"))
            yield spot.event(
                0, "approval", tool=kind, call_id=call_id or None, open=True, identity=f"approval/{call_id}"
            )
        elif kind in _LOUD:
            yield spot.event(
                0, "log", tool=kind, error_class=error_name(payload) if kind == "error" else None
            )

    def _ran(
        self, kind: str, call_id: str, item: dict[str, Any], payload: dict[str, Any], spot: Spot
    ) -> Iterator[RawEvent]:
        """What the program says of a call: exit code, clean output, states of children."""
        if kind == "CollabAgentToolCall":
            yield from self._collab(call_id, item, spot)
            return
        if kind not in _RAN:
            return
        call = self.calls.get(call_id)
        facts: dict[str, Any] = {"identity": f"{self.thread}/{call_id}"}
        if call is None:
            if item.get("source") == "user_shell":
                yield spot.event(0, "log", tool="user_shell", external_input=True)
                return
            facts.update(unasked_of(kind, item))
        else:
            call.answered = True
            facts = {"identity": call.identity, "tool": call.name}
        result, error = result_of(kind, item)
        ended = epoch(payload.get("completed_at_ms"), 1000)
        yield spot.event(
            0,
            call.kind if call else "tool",
            **{
                "at": None,
                "ended_at": spot.at if ended is None else ended,
                "result": result,
                "error_class": error,
                "call_id": call_id or None,
                "open": False,
                **facts,
            },
        )

    def _collab(self, call_id: str, item: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
        call = self.calls.get(call_id)
        agents = item.get("receiver_agents")
        for agent in agents if isinstance(agents, list) else ():
            if isinstance(agent, dict):
                role = text_of(agent.get("agent_role")) or text_of(agent.get("agent_nickname"))
                self.roles[text_of(agent.get("thread_id"))] = role or "subagent"
        threads = item.get("receiver_thread_ids")
        thread = text_of(threads[0]) if isinstance(threads, list) and threads else ""
        if call is not None and call.kind == "handoff" and thread:
            call.target = self.roles.get(thread) or call.target
            if call.name == "spawn_agent":
                self.asked.setdefault(thread, call.identity)
            yield spot.event(
                0,
                "handoff",
                at=None,
                target=call.target,
                span_id=f"spawn/{thread}" if call.name == "spawn_agent" else None,
                identity=call.identity,
                error_class="tool_error" if item.get("status") == "failed" else None,
            )
        yield from self._states(item.get("agents_states"), spot)

    def _tokens(self, usage: Any, total: Any, spot: Spot) -> Iterator[RawEvent]:
        """One response; two kinds of records tell of it, both with the running total."""
        if not isinstance(usage, dict):
            return
        so_far = count_of(total.get("total_tokens")) if isinstance(total, dict) else None
        yield spot.event(
            1,
            "model",
            model=self.model,
            tokens_in=count_of(usage.get("input_tokens")),
            tokens_out=count_of(usage.get("output_tokens")),
            identity=None if so_far is None else f"{self.thread}/tokens/{so_far}",
        )

    def _done(self, payload: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
        turn = text_of(payload.get("turn_id")) or f"line-{spot.line}"
        if text_of(payload.get("last_agent_message")).strip():
            yield spot.event(
                0, "claim", tool="task_complete", target="success", identity=f"{self.thread}/claim/{turn}"
            )
        if self.lane.instance is not None:
            yield self._span(spot, ended_at=spot.at, open=False)


def _returned(said: Output, spot: Spot) -> dict[str, Any]:
    """What a call gave; a process that goes on has not ended."""
    return {"result": said.result, "ended_at": None if said.running else spot.at, "open": said.running}


FORMAT = Format(
    name="codex",
    version=3,
    title="Codex rollouts (current, and the bare items of 2025)",
    recognised_by="timestamp, type and payload with session_meta; or response items behind a header with git",
    proved_on="a session of 0.171 with its child thread",
    claim=claim,
    read=read,
    rank=55,
    companions=parents,
)
