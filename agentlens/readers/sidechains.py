"""Which sub-agent a Claude Code line belongs to, and which call started it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agentlens.errors import InputError
from agentlens.readers.blocks import DEFAULT_AGENT, HANDOFF_TOOLS, Lane, blocks_of, kind_of, text_of
from agentlens.readers.decode import attempt
from agentlens.readers.source import Source

if TYPE_CHECKING:
    from pathlib import Path

    from agentlens.readers.blocks import Calls

UNNAMED: Final = "subagent"
"""Agent of a sidechain whose type stands nowhere."""
_OWN_FILE = re.compile(r"agent-(.+?)\.jsonl(?:\.gz|\.zst)?")
_META_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """The sub-agent that a file of its own belongs to."""

    agent: str
    instance: str
    call_id: str | None = None

    def lane(self, session: str) -> Lane:
        """Return its lane in a run."""
        return Lane(run_id=session, agent=self.agent, instance=self.instance, parent_agent="")


@dataclass(slots=True)
class Sidechains:
    """In-file sub-agents: chains of lines that begin with the prompt of a call."""

    roots: dict[str, str] = field(default_factory=dict)  # uuid -> instance
    names: dict[str, str] = field(default_factory=dict)  # instance -> agent
    call_of: dict[str, str] = field(default_factory=dict)  # instance -> call id

    def lane(self, value: dict[str, Any], session: str, calls: Calls) -> Lane:
        """Return the lane of one sidechain line: by agent id, else by the line it hangs on."""
        uuid, parent, named = (text_of(value.get(key)) for key in ("uuid", "parentUuid", "agentId"))
        instance = named or self.roots.get(parent, "")
        if not instance:
            instance = calls.prompts.get(_prompt(value), "") or uuid or "sidechain"
        if instance not in self.names:
            call_id = calls.prompts.get(_prompt(value))
            self.names[instance] = UNNAMED if call_id is None else calls.agents.get(call_id, DEFAULT_AGENT)
            if call_id is not None:
                self.call_of[instance] = call_id
        if uuid:
            self.roots[uuid] = instance
        return Lane(run_id=session, agent=self.names[instance], instance=instance, parent_agent="")


def child_of(source: Source) -> Child | None:
    """Return the sub-agent of a file that holds nothing but one, None for a session's main file.

    Its type stands in ``agent-<id>.meta.json`` beside it, or in the session's main file, where the result of
    the call that started it names its id.
    """
    first: dict[str, Any] = next((value for value in source.head().values if isinstance(value, dict)), {})
    match = _OWN_FILE.fullmatch(source.path.name)
    instance = text_of(first.get("agentId")) if first.get("isSidechain") is True else ""
    if not instance and match is None:
        return None
    instance = instance or (match.group(1) if match else "")
    call_id, agent = _in_main_file(source, text_of(first.get("sessionId")), instance)
    return Child(agent=agent or _in_meta(source) or UNNAMED, instance=instance, call_id=call_id)


def _in_meta(source: Source) -> str | None:
    folder = source.siblings()
    if folder is None:
        return None
    path = folder / f"{source.path.name.split('.')[0]}.meta.json"
    try:
        with path.open("rb") as stream:
            meta = attempt(stream.read(_META_BYTES))
    except OSError:
        return None
    return (text_of(meta.get("agentType")) or None) if isinstance(meta, dict) else None


def _in_main_file(source: Source, session: str, instance: str) -> tuple[str | None, str | None]:
    """Look up the call that started a sub-agent, and the type it asked for."""
    path = _main_file(source, session)
    if path is None:
        return None, None
    asked: dict[str, str | None] = {}
    needle = instance.encode()
    try:
        for _, line in Source.of(path).lines():
            if any(f'"{tool}"'.encode() in line for tool in HANDOFF_TOOLS):
                asked.update(_handoffs(attempt(line)))
            if needle in line and (call_id := _answered(attempt(line), instance)) is not None:
                return call_id, asked.get(call_id)
    except InputError:
        pass
    return None, None


def _main_file(source: Source, session: str) -> Path | None:
    folder = source.siblings()
    if folder is None or not session or "/" in session or "\\" in session:
        return None
    candidates = (folder / f"{session}.jsonl", folder.parent.parent / f"{session}.jsonl")
    return next((path for path in candidates if path != source.path and is_file(path)), None)


def is_file(path: Path) -> bool:
    """Say whether a path made of names out of a trace is a file; an impossible name is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _handoffs(value: Any) -> dict[str, str | None]:
    message = value.get("message") if isinstance(value, dict) else None
    return {
        text_of(block.get("id")): kind_of(text_of(block.get("name")), block.get("input"))[1]
        for block in blocks_of(message)
        if block.get("type") == "tool_use" and text_of(block.get("name")) in HANDOFF_TOOLS
    }


def _answered(value: Any, instance: str) -> str | None:
    if not isinstance(value, dict) or not isinstance(value.get("toolUseResult"), dict):
        return None
    if value["toolUseResult"].get("agentId") != instance:
        return None
    results = [block for block in blocks_of(value.get("message")) if block.get("type") == "tool_result"]
    return text_of(results[0].get("tool_use_id")) or None if results else None


def _prompt(value: dict[str, Any]) -> str:
    return "\n".join(text_of(block.get("text")) for block in blocks_of(value.get("message"))).strip()
