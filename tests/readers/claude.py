"""Lines of Claude Code sessions and streams, as small as they can be."""

from __future__ import annotations

import json
from typing import Any


def asked(call_id: str, name: str = "Bash", **args: Any) -> dict[str, Any]:
    """Return a tool_use block."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": args}


def came(call_id: str, content: Any, *, error: bool = False) -> dict[str, Any]:
    """Return a tool_result block."""
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return {**block, "is_error": True} if error else block


def assistant(
    uuid: str, parent: str | None, message: str, *blocks: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """Return an assistant line of a session."""
    usage = more.pop("usage", {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 3})
    body = {"id": message, "role": "assistant", "model": "m-1", "content": list(blocks), "usage": usage}
    return _line("assistant", uuid, parent, message=body, **more)


def user(uuid: str, parent: str | None, *blocks: Any, **more: Any) -> dict[str, Any]:
    """Return a user line of a session; one text is the whole content."""
    content = blocks[0] if len(blocks) == 1 and isinstance(blocks[0], str) else list(blocks)
    return _line("user", uuid, parent, message={"role": "user", "content": content}, **more)


def everything() -> list[Any]:
    """Return a session with calls, a handoff, a failure and a retry."""
    return [
        user("u1", None, "go"),
        assistant("u2", "u1", "m1", {"type": "text", "text": "hm"}),
        assistant("u3", "u2", "m1", asked("c1", command="ls")),
        assistant("u4", "u3", "m1", asked("t1", "Task", subagent_type="Explore", prompt="p")),
        user("u5", "u3", came("c1", "Exit code 1", error=True)),
        user("u6", "u4", came("t1", "done"), toolUseResult={"agentId": "a1"}),
        {
            "type": "system",
            "subtype": "api_error",
            "sessionId": "s-1",
            "uuid": "u7",
            "parentUuid": "u6",
            "retryAttempt": 1,
        },
        assistant("u8", "u7", "m2", asked("c2", command="pwd")),
        user("u9", "u8", came("c2", "/")),
    ]


def _line(kind: str, uuid: str, parent: str | None, **more: Any) -> dict[str, Any]:
    head = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s-1", "isSidechain": False}
    return {**head, "version": "2.0.0", "timestamp": f"2026-01-01T00:00:{_second(uuid):02}Z", **more}


def _second(uuid: str) -> int:
    digits = "".join(letter for letter in uuid if letter.isdigit())
    return int(digits or 0) % 60


def said_in_stream(message: str, *blocks: dict[str, Any], parent: str | None = None) -> dict[str, Any]:
    """Return an assistant line of a stream."""
    body = {
        "id": message,
        "role": "assistant",
        "model": "m-1",
        "content": list(blocks),
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return {"type": "assistant", "message": body, "parent_tool_use_id": parent, "session_id": "s-1"}


def answered_in_stream(*blocks: dict[str, Any], parent: str | None = None) -> dict[str, Any]:
    """Return a user line of a stream."""
    message = {"role": "user", "content": list(blocks)}
    return {"type": "user", "message": message, "parent_tool_use_id": parent, "session_id": "s-1"}


def lines(*values: Any) -> bytes:
    """Write values one a line; text stands as it is."""
    return (
        b"\n".join(
            value.encode() if isinstance(value, str) else json.dumps(value).encode() for value in values
        )
        + b"\n"
    )
