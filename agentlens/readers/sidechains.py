"""Which sub-agent a Claude Code line belongs to, and which call started it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from agentlens.errors import InputError
from agentlens.readers.blocks import DEFAULT_AGENT, HANDOFF_TOOLS, Lane, blocks_of, kind_of, text_of
from agentlens.readers.decode import attempt
from agentlens.readers.line_order import Mark
from agentlens.readers.source import Source
from agentlens.readers.stamps import moment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentlens.readers.blocks import Calls

UNNAMED: Final = "subagent"
"""Agent of a sidechain whose type stands nowhere."""
_OWN_FILE = re.compile(r"agent-(.+?)\.jsonl(?:\.gz|\.zst)?")
_META_BYTES = 1 << 16
_HANDOFFS: Final = tuple(f'"{tool}"'.encode() for tool in sorted(HANDOFF_TOOLS))


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


def child_of(source: Source, session: str, alone: str) -> Child | None:
    """Return the sub-agent of a file that holds nothing but one, None for a session's main file.

    Its type stands in ``agent-<id>.meta.json`` beside it, or in the session's main file, where the result of
    the call that started it names its id. ``session``: of its lines; ``alone``: the one agent id on all its
    lines, "" where there is none or they differ.
    """
    match = _OWN_FILE.fullmatch(source.path.name)
    instance = alone or (match.group(1) if match else "")
    if not instance:
        return None
    call_id, agent = _in_main_file(source, session, instance)
    return Child(agent=agent or _in_meta(source) or UNNAMED, instance=instance, call_id=call_id)


def session_of(value: dict[str, Any]) -> str:
    """Return the session of a line, "" where it names none; a sub-agent's may have a mark of it behind that.

    >>> session_of({"sessionId": "s1#agent-a7"}), session_of({"sessionId": "s1"}), session_of({})
    ('s1', 's1', '')
    """
    return text_of(value.get("sessionId")).partition("#agent-")[0]


def companions(source: Source) -> list[Path]:
    """Return what stands beside a sub-agent's own file and tells of it: its type, and the session that started it."""
    if not _OWN_FILE.fullmatch(source.path.name) or (meta := _meta(source)) is None:
        return []
    first = next((value for value in source.head().values if isinstance(value, dict)), {})
    main = _main_file(source, session_of(first))
    return [path for path in (meta, main) if path is not None and is_file(path)]


def _meta(source: Source) -> Path | None:
    folder = source.siblings()
    return None if folder is None else folder / f"{source.path.name.split('.')[0]}.meta.json"


def _in_meta(source: Source) -> str | None:
    path = _meta(source)
    if path is None:
        return None
    try:
        with path.open("rb") as stream:
            meta = attempt(stream.read(_META_BYTES))
    except OSError:
        return None
    return (text_of(meta.get("agentType")) or None) if isinstance(meta, dict) else None


def _in_main_file(source: Source, session: str, instance: str) -> tuple[str | None, str | None]:
    """Look up the call that started a sub-agent, the first by time, and the type it asked for."""
    path = _main_file(source, session)
    if path is None:
        return None, None
    asked: dict[str, str | None] = {}
    answered: list[tuple[int, str]] = []
    needle = instance.encode()
    try:
        for _, line in Source.of(path).lines():
            if any(tool in line for tool in _HANDOFFS):
                asked.update(_handoffs(attempt(line)))
            if needle in line:
                answered.extend(_answered(attempt(line), instance))
    except InputError:
        pass
    call_id = min(answered)[1] if answered else None
    return call_id, asked.get(call_id) if call_id else None


def _main_file(source: Source, session: str) -> Path | None:
    folder = source.siblings()
    if folder is None or not session or "/" in session or "\\" in session:
        return None
    # beside it, above ``<session>/subagents``, or above ``<session>/subagents/workflows/<run>``
    above = (folder, *islice(folder.parents, 1, 4))
    candidates = [place / f"{session}.jsonl" for place in above]
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


def _answered(value: Any, instance: str) -> list[tuple[int, str]]:
    """Return time and id of the call that a line answers with the id of a sub-agent."""
    if not isinstance(value, dict) or not isinstance(value.get("toolUseResult"), dict):
        return []
    if value["toolUseResult"].get("agentId") != instance:
        return []
    results = [block for block in blocks_of(value.get("message")) if block.get("type") == "tool_result"]
    call_id = text_of(results[0].get("tool_use_id")) if results else ""
    return [(moment(value.get("timestamp")) or 0, call_id)] if call_id else []


def mark_of(value: dict[str, Any], number: int, line: bytes) -> Mark:
    """Return the place of a line: its time, what it hangs on, and the sub-agents it starts."""
    mark = Mark(
        number=number,
        digest=_digest(line),
        at=moment(value.get("timestamp")),
        own=text_of(value.get("uuid")),
        parent=text_of(value.get("parentUuid")) or text_of(value.get("logicalParentUuid")),
    )
    kind = value.get("type")
    if kind == "file-history-snapshot":
        snapshot = value.get("snapshot")
        mark.at = (moment(snapshot.get("timestamp")) if isinstance(snapshot, dict) else None) or mark.at
        if mark.at is None:
            mark.parent = text_of(value.get("messageId"))
    elif (
        kind == "user" and not mark.parent and value.get("isSidechain") is True and (begun := _prompt(value))
    ):
        mark.answers = _digest(begun.encode("utf-8", "surrogatepass"))
    elif kind == "assistant" and any(tool in line for tool in _HANDOFFS):
        mark.asks = tuple(_asked_prompts(value))
    return mark


def _asked_prompts(value: dict[str, Any]) -> Iterator[bytes]:
    for block in blocks_of(value.get("message")):
        asked = block.get("input")
        if text_of(block.get("name")) in HANDOFF_TOOLS and isinstance(asked, dict):
            yield _digest(text_of(asked.get("prompt")).strip().encode("utf-8", "surrogatepass"))


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()


def _prompt(value: dict[str, Any]) -> str:
    return "\n".join(text_of(block.get("text")) for block in blocks_of(value.get("message"))).strip()
