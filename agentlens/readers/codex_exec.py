"""The stream of ``codex exec --json``: threads, turns and items, without times."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers.base import Format
from agentlens.readers.blocks import Lane, Spot, count_of, served, text_of
from agentlens.readers.codex_items import child_states, exit_class, output_of, script_of
from agentlens.readers.documents import stem_of
from agentlens.readers.line_objects import line_objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.model.raw import RawEvent
    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head, Source

_PHASES: Final = frozenset({"item.started", "item.updated", "item.completed"})
_BEGUN: Final = {"thread.started": "thread_id", "session.created": "session_id"}
"""How a thread begins, and where its id stands; early versions called it a session."""
_TURNS: Final = frozenset({*_BEGUN, "turn.started", "turn.completed", "turn.failed"})
_SPOKEN: Final = frozenset({"agent_message", "assistant_message", "reasoning", "todo_list"})
_TRIES = re.compile(r"(?i)reconnect\w*\D{1,8}(\d{1,3})/\d{1,3}")


def claim(head: Head) -> int:
    """Claim lines of threads, turns and items."""
    found = [value for value in head.records if isinstance(value, dict)]
    if any(_BEGUN.get(text_of(value.get("type")), ".") in value for value in found):
        return 96
    named = [
        value
        for value in found
        if text_of(value.get("type")) in _PHASES and isinstance(value.get("item"), dict)
    ]
    return 80 if named else 60 if any(text_of(value.get("type")) in _TURNS for value in found) else 0


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of one stream, line by line."""
    stream = _Stream(report=report, lane=Lane(run_id=stem_of(source)))
    for number, value in line_objects(source, report):
        yield from stream.line(value, number)


@dataclass(slots=True)
class _Stream:
    report: Report
    lane: Lane
    sessions: int = 0  # a resumed thread counts its items anew
    spoke: bool = False
    spent: dict[str, int] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)  # child thread -> identity of the handoff

    def line(self, value: dict[str, Any], number: int) -> Iterator[RawEvent]:
        kind = text_of(value.get("type"))
        spot = Spot(lane=self.lane, line=number)
        item = value.get("item")
        if kind in _BEGUN:
            self.sessions += 1
            self.spent = {}
            self.lane = Lane(run_id=text_of(value.get(_BEGUN[kind])) or self.lane.run_id)
        elif kind in _PHASES and isinstance(item, dict):
            yield from self._item(item, spot, ended=kind == "item.completed")
        elif kind == "turn.started":
            self.spoke = False
            yield spot.event(0, "message", tool="user", external_input=True)
        elif kind == "turn.completed":
            yield from self._spent(value.get("usage"), spot)
            if self.spoke:
                yield spot.event(1, "claim", tool="turn.completed", target="success")
        elif kind == "turn.failed":
            yield spot.event(0, "claim", tool="turn.failed", target="failure", error_class="turn_failed")
        elif kind == "error":
            tries = _TRIES.search(text_of(value.get("message")))
            yield spot.event(
                0,
                "retry" if tries else "log",
                tool="model" if tries else "error",
                attempt=int(tries[1]) if tries else None,
                error_class="stream_error" if tries else "error",
            )
        else:
            self.report.unknown[f"type {kind!r}"[:80] if kind else "record without a type"] += 1

    def _item(self, item: dict[str, Any], spot: Spot, *, ended: bool) -> Iterator[RawEvent]:
        kind = text_of(item.get("type", item.get("item_type")))
        own = text_of(item.get("id"))
        name_of = f"{self.sessions}/{own}/{_mark(item)}"
        self.spoke = self.spoke or kind in {"agent_message", "assistant_message"}
        facts = _facts(kind, item)
        if facts is None:
            if kind == "error" or kind not in _SPOKEN:
                yield spot.event(0, "log", tool=kind[:80], error_class="error" if kind == "error" else None)
            return
        name = facts.pop("kind", "tool")
        launched = ended and item.get("tool") == "spawn_agent" and item.get("status") != "failed"
        if not ended:
            facts = {**facts, "result": ABSENT, "error_class": None}
        yield spot.event(
            0,
            name,
            **facts,
            call_id=own or None,
            identity=name_of if own else None,
            open=None if launched else not ended,
        )
        if kind == "collab_tool_call":
            threads = item.get("receiver_thread_ids")
            for thread in threads if name == "handoff" and isinstance(threads, list) else ():
                self.asked.setdefault(text_of(thread), name_of)
            yield from child_states(spot, item.get("agents_states"), {}, self.asked)

    def _spent(self, usage: Any, spot: Spot) -> Iterator[RawEvent]:
        """The usage of a turn is the running total of the thread."""
        if not isinstance(usage, dict):
            return
        told = {name: count_of(usage.get(name)) for name in ("input_tokens", "output_tokens")}
        new = {
            name: None if total is None else max(total - self.spent.get(name, 0), 0)
            for name, total in told.items()
        }
        self.spent.update({name: total for name, total in told.items() if total is not None})
        yield spot.event(0, "model", tokens_in=new["input_tokens"], tokens_out=new["output_tokens"])


def _mark(item: dict[str, Any]) -> str:
    """Return what tells an item from one of its id in another file: a thread may have been resumed into that one."""
    told = [
        item.get(name) for name in ("command", "server", "tool", "arguments", "query", "prompt", "changes")
    ]
    try:
        text = json.dumps(told, sort_keys=True, default=str)
    except RecursionError:
        text = ""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _facts(kind: str, item: dict[str, Any]) -> dict[str, Any] | None:
    """Return what one item says of an action; None where it is none.

    A change of files names only their paths: what was changed is not known, and neither is the action.
    """
    failed = item.get("status") == "failed"
    declined = "rejected_by_user" if item.get("status") == "declined" else None
    if kind == "command_execution":
        script = script_of(item.get("command"))
        return {
            "tool": "exec_command",
            "args": ABSENT if script is None else {"cmd": script},
            "result": output_of(item.get("aggregated_output", ABSENT)).result,
            "error_class": declined or exit_class(item.get("exit_code")),
        }
    if kind == "file_change":
        return {"tool": "apply_patch", "error_class": declined or ("patch_failed" if failed else None)}
    if kind == "mcp_tool_call":
        result = item.get("result", ABSENT)
        return {
            "tool": served(item.get("server"), item.get("tool")),
            "args": item.get("arguments", ABSENT),
            "result": result.get("content", result) if isinstance(result, dict) else result,
            "error_class": "tool_error" if failed or item.get("error") else None,
        }
    if kind == "web_search":
        return {"tool": "web_search", "args": {"query": item.get("query")}}
    if kind == "collab_tool_call":
        return _collab(item, failed=failed)
    return None


def _collab(item: dict[str, Any], *, failed: bool) -> dict[str, Any]:
    tool = text_of(item.get("tool"))
    threads = item.get("receiver_thread_ids")
    thread = text_of(threads[0]) if isinstance(threads, list) and threads else ""
    facts: dict[str, Any] = {"tool": tool, "error_class": "tool_error" if failed else None}
    if tool in {"wait", "wait_agent"}:
        return {**facts, "kind": "wait", "target": "agent"}
    if tool not in {"spawn_agent", "send_input"}:
        return {**facts, "args": {"threads": threads}}
    # the child's name is not told here: the receiver is known by its thread alone
    span = f"spawn/{thread}" if thread and tool == "spawn_agent" else None
    return {**facts, "kind": "handoff", "args": {"message": item.get("prompt")}, "span_id": span}


FORMAT = Format(
    name="codex-exec",
    version=3,
    title="Codex event stream (codex exec --json)",
    recognised_by="thread.started, turn.* and item.* lines",
    proved_on="the stream of a session of 0.171",
    claim=claim,
    read=read,
    rank=45,
)
