"""Messages made of content blocks: tool calls, their results, and what both Claude Code formats say with them.

A result names only its call, never the message that asked; so the calls of a source are kept while it is read.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT, RawEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

HANDOFF_TOOLS: Final = frozenset({"Task", "Agent"})
DEFAULT_AGENT: Final = "general-purpose"
"""The sub-agent a call without ``subagent_type`` starts."""

_WAITS: Final = {"AskUserQuestion": ("wait", "user"), "ExitPlanMode": ("approval", "plan")}
_STUBS: Final = (
    "[Old tool result content cleared]",
    "[Old tool result content cleared by context management]",
    "<persisted-output>",
    "Command running in background with ID: ",  # it has only begun; the id is another every time
    "Workflow launched in background. Task ID: ",
    "Async agent launched successfully",
)
_REFUSED_BY_PERSON: Final = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action right now",
    "[Request interrupted by user for tool use]",
)
_REFUSED: Final = (
    "Claude requested permissions to ",
    "Permission to use ",
    "Permission for this action has been denied",
)
_EXIT = re.compile(r"(?:Error: )?Exit code (\d{1,3})\b")
_TOOL_ERROR = re.compile(r"<tool_use_error>\s*([A-Z][A-Za-z]{2,40}Error)?")
_TRAILER = "agentId: "
_UNNAMED = re.compile(r"[^A-Za-z0-9_-]")  # what clients replace in the name of a server


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Whose records these are."""

    run_id: str
    agent: str = ""
    instance: str | None = None
    parent_agent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where and when one line stands, and what it says of itself."""

    lane: Lane
    line: int
    at: int | None = None
    model: str | None = None
    version: str | None = None
    span: str | None = None  # the line's own id: what forks and checkpoints point to
    shown: int | None = None  # the line to point at, where ``line`` is the place it is read in

    def event(self, order: int, kind: str, **facts: Any) -> RawEvent:
        """Build an event of this lane, time and place; ``facts`` win."""
        fields: dict[str, Any] = {
            "run_id": self.lane.run_id,
            "agent": self.lane.agent,
            "instance": self.lane.instance,
            "parent_agent": self.lane.parent_agent,
            "position": (self.line, order),
            "line": self.shown,
            "at": self.at,
            "agent_version": self.version,
            "span_id": self.span,
        }
        return RawEvent(kind=kind, **{**fields, **facts})


@dataclass(slots=True)
class _Call:
    name: str
    kind: str
    target: str | None
    message: str
    spot: Spot
    answers: int  # results its lane had seen when it was asked
    answered: bool = False


@dataclass(slots=True)
class Calls:
    """The tool calls of one source, by call id, so that each result finds the message that asked for it.

    A call id may be used again (``functions.Bash:3`` in every session of some models), so an action is
    known by message id and call id. Where a message repeats a call id before any result came to its lane, the
    earlier message was a draft that was thrown away and asked for again: its call never ran and becomes a
    ``log`` event instead of an action.
    """

    seen: dict[str, _Call] = field(default_factory=dict)
    early: dict[str, list[tuple[Any, Spot, int]]] = field(default_factory=dict)
    agents: dict[str, str] = field(
        default_factory=dict
    )  # call id of a handoff -> name of the agent it starts
    prompts: dict[str, str] = field(default_factory=dict)  # prompt of a handoff -> its call id
    answers: Counter[Lane] = field(default_factory=Counter)
    drafts: set[str] = field(default_factory=set)  # messages that were thrown away

    def ask(self, block: dict[str, Any], message: str, spot: Spot, order: int) -> Iterator[RawEvent]:
        """Yield the event of a ``tool_use`` block, and the correction of the draft it replaces."""
        call_id, name = text_of(block.get("id")), text_of(block.get("name"))
        args = block.get("input", ABSENT)
        kind, target = kind_of(name, args)
        before = self.seen.get(call_id) if call_id else None
        answers = self.answers[spot.lane]
        if before is not None and before.message != message and self._is_draft(before, answers):
            yield before.spot.event(
                0,
                "log",
                at=None,
                tool=before.name,
                call_id=call_id,
                identity=identity(before.message, call_id),
            )
        if call_id:
            self.seen[call_id] = _Call(name, kind, target, message, spot, answers)
            if kind == "handoff":
                self._remember(call_id, target, args)
        yield spot.event(
            order,
            kind,
            tool=name,
            args=args,
            target=target,
            call_id=call_id or None,
            identity=identity(message, call_id) if call_id else None,
            open=True,
        )
        for result, at, place in self.early.pop(call_id, ()):
            yield from self.answer(result, at, place)

    def answer(self, block: dict[str, Any], spot: Spot, order: int, detail: Any = None) -> Iterator[RawEvent]:
        """Yield the second half of an action: its result, its error, and a refusal where it was one.

        ``detail`` is what the client kept beside the text (``toolUseResult``).
        """
        call_id = text_of(block.get("tool_use_id"))
        call = self.seen.get(call_id)
        if call is None:
            self.early.setdefault(call_id, []).append((block, spot, order))
            return
        call.answered = True
        self.answers[call.spot.lane] += 1
        result = result_of(block.get("content", ABSENT))
        text = result if isinstance(result, str) else ""
        failed = block.get("is_error") is True
        error = error_class(text) if failed else _interruption(detail)
        decided = call.kind in {"wait", "approval"} and (not failed or error == "rejected_by_user")
        lane = call.spot.lane
        yield spot.event(
            order,
            call.kind,
            run_id=lane.run_id,
            agent=lane.agent,
            instance=lane.instance,
            parent_agent=lane.parent_agent,
            position=(call.spot.line, order),
            line=call.spot.shown,
            at=None,
            ended_at=spot.at,
            span_id=None,
            tool=call.name,
            result=result,
            error_class=error,
            call_id=call_id,
            target=call.target,
            identity=identity(call.message, call_id),
            open=False,
            external_input=True if decided else None,
        )
        if error in {"permission_denied", "rejected_by_user"} and call.kind != "approval":
            yield spot.event(
                order,
                "approval",
                run_id=lane.run_id,
                agent=lane.agent,
                instance=lane.instance,
                parent_agent=lane.parent_agent,
                tool=call.name,
                target=call.name,
                call_id=call_id,
                error_class=error,
                identity=f"approval/{call_id}",
                external_input=True if error == "rejected_by_user" else None,
            )

    def orphans(self) -> Iterator[RawEvent]:
        """Yield, as ``log`` events, the results whose calls never came: the start of the file is missing."""
        for call_id, waiting in sorted(self.early.items()):
            for block, spot, order in waiting:
                error = error_class("") if block.get("is_error") is True else None
                yield spot.event(order, "log", tool="tool_result", call_id=call_id or None, error_class=error)

    def _is_draft(self, call: _Call, answers: int) -> bool:
        """Say whether a call that is asked for again never ran; its message is then a draft as a whole."""
        if call.answered or (call.answers != answers and call.message not in self.drafts):
            return False
        self.drafts.add(call.message)
        return True

    def _remember(self, call_id: str, agent: str | None, args: Any) -> None:
        self.agents[call_id] = agent or DEFAULT_AGENT
        prompt = args.get("prompt") if isinstance(args, dict) else None
        if isinstance(prompt, str):
            self.prompts[prompt.strip()] = call_id


def identity(message: str, call_id: str) -> str:
    """Name one action inside a run: the message that asked, and the call."""
    return f"{message}/{call_id}"


def kind_of(name: str, args: Any) -> tuple[str, str | None]:
    """Return the kind of a call by its tool, and what it is about."""
    if name in HANDOFF_TOOLS:
        asked = args.get("subagent_type") if isinstance(args, dict) else None
        return "handoff", asked if isinstance(asked, str) and asked else DEFAULT_AGENT
    return _WAITS.get(name, ("tool", None))


def result_of(content: Any) -> Any:
    """Return what a tool gave back, as the model saw it; None for a stub that stands in for a lost result.

    Blocks of text alone become one text; the line that tells how to resume a sub-agent names a fresh id
    every time and is no part of the result.
    """
    if isinstance(content, list):
        blocks = [block for block in content if not _is_trailer(block)]
        if all(isinstance(block, dict) and block.get("type") == "text" for block in blocks):
            content = "\n".join(text_of(block.get("text")) for block in blocks)
        else:
            content = blocks
    if isinstance(content, str) and content.lstrip().startswith(_STUBS):
        return None
    return content


def error_class(text: str) -> str:
    """Name the kind of failure that a result marked as an error tells of."""
    head = text.lstrip()[:400]
    if head.startswith(_REFUSED_BY_PERSON):
        return "rejected_by_user"
    if head.startswith(_REFUSED):
        return "permission_denied"
    if found := _EXIT.match(head):
        return f"exit_{found.group(1)}"
    if found := _TOOL_ERROR.match(head):
        return _snake(found.group(1)) if found.group(1) else "tool_use_error"
    if head.startswith("[Request interrupted"):
        return "interrupted"
    return "tool_error"


def blocks_of(message: Any) -> list[dict[str, Any]]:
    """Return the content of a message as blocks; text alone is one block."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, list):
        return [
            block if isinstance(block, dict) else {"type": "text", "text": block}
            for block in content
            if isinstance(block, (dict, str))
        ]
    return []


def tokens_of(usage: Any) -> tuple[int | None, int | None]:
    """Return tokens in (cached ones included) and out; a usage of zeros was not measured and is null."""
    if not isinstance(usage, dict):
        return None, None
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    parts = [count for name in names if (count := count_of(usage.get(name))) is not None]
    into, out = (sum(parts) if parts else None), count_of(usage.get("output_tokens"))
    return (None, None) if not into and not out else (into, out)


def count_of(value: Any) -> int | None:
    """Return a count, or None for anything that is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None


def number_of(value: Any) -> float | None:
    """Return a finite number, or None."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def text_of(value: Any) -> str:
    """Return a text as it is, a number as text, anything else as ""."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def served(server: Any, tool: Any) -> str:
    """Name a tool of an MCP server as its clients do: two servers may have tools of one name.

    >>> served("docs.v2", "search"), served("docs", "mcp__docs__search"), served(None, "search")
    ('mcp__docs_v2__search', 'mcp__docs__search', 'search')
    """
    of, name = _UNNAMED.sub("_", text_of(server)), text_of(tool)
    return f"mcp__{of}__{name}" if of and name and not name.startswith("mcp__") else name


def tool_of(item: dict[str, Any]) -> str:
    """Return the name of the tool that an item asks for, with the server that stands beside it.

    >>> tool_of({"name": "search", "namespace": "mcp__docs"}), tool_of({"name": "wait", "namespace": "agents"})
    ('mcp__docs__search', 'wait')
    """
    space = text_of(item.get("namespace"))
    server = space.removeprefix("mcp__").strip("_") if space.startswith("mcp__") else item.get("server_label")
    return served(server, item.get("name"))


def _is_trailer(block: Any) -> bool:
    return isinstance(block, dict) and text_of(block.get("text")).startswith(_TRAILER)


def _interruption(detail: Any) -> str | None:
    return "interrupted" if isinstance(detail, dict) and detail.get("interrupted") is True else None


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
