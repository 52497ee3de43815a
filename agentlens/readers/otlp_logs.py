"""Log records that speak of tool calls: kept as facts beside the spans, never as actions of their own.

The spans of the same program tell the same calls, often in another file; an action counted from a log record
would count twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from agentlens.readers.span_values import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_RESULTS: Final = frozenset({"tool_result", "claude_code.tool_result"})
_MOST: Final = 64
"""Calls of one answer that are told; a model asks for a few."""


def told_calls(name: str, attributes: dict[str, Any], body: Any) -> Iterator[dict[str, Any]]:
    """Yield tool, call id and error class of every call that a log record speaks of; nothing for other records.

    >>> list(told_calls("gen_ai.tool.message", {}, {"id": "c9", "content": "x"}))
    [{'tool': 'gen_ai.tool.message', 'call_id': 'c9', 'error_class': None}]
    """
    inside = body if isinstance(body, dict) else {}
    if name == "gen_ai.tool.message":
        yield _fact(name, inside.get("id", attributes.get("id")))
    elif name == "gen_ai.choice":
        message = inside.get("message")
        calls = message.get("tool_calls") if isinstance(message, dict) else inside.get("tool_calls")
        for call in calls[:_MOST] if isinstance(calls, list) else ():
            if isinstance(call, dict):
                about = call.get("function")
                yield _fact(text_of(about.get("name")) if isinstance(about, dict) else "", call.get("id"))
    elif name in _RESULTS and (tool := text_of(attributes.get("tool_name"))):
        failed = text_of(attributes.get("success")).lower() == "false"
        call_id = attributes.get("tool_use_id", attributes.get("call_id"))
        yield _fact(tool, call_id, "tool_error" if failed else None)


def _fact(tool: str, call_id: Any, error: str | None = None) -> dict[str, Any]:
    return {"tool": tool, "call_id": text_of(call_id) or None, "error_class": error}
