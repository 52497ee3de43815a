"""Whom a span hands over to: in the name of the span, of its tool, or in the arguments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from agentlens.readers import decode

if TYPE_CHECKING:
    from agentlens.readers.spans import Span

_HANDOFF_NAME: Final = re.compile(r"handoff to (.+)", re.IGNORECASE)
_ARROW: Final = re.compile(r"(.*?)\s*(?:→|->)\s*(.+?)(?:\.handoff)?")
HANDOFF_TOOL: Final = re.compile(r"(?:transfer|hand_?off|delegate)_to_(?!human)(\w+)")
"""A tool that hands over to another agent; going to a person is an action like any other."""
_ADDRESSEE: Final = ("agent_name", "agent", "target", "recipient", "coworker")


def addressee(span: Span, kind: str, tool: str, args: Any) -> str | None:
    """Return whom a handoff span hands to; "" where it is a handoff that does not say; None for no handoff."""
    facts = span.facts
    to = facts.get("handoff_to", "")
    if not to and kind == "tool" and "_to_" not in tool and " to " not in span.name and " to " not in tool:
        return None
    if found := _HANDOFF_NAME.fullmatch(span.name) or _HANDOFF_NAME.fullmatch(tool):
        return to or found[1].strip()
    if kind == "handoff":
        arrow = _ARROW.fullmatch(span.name)
        name = to or (arrow[2] if arrow else "")
        return "" if name == "unknown" else name
    named = handed_to(tool, args)
    return named if named is None else to or named


def handed_to(tool: str, args: Any) -> str | None:
    """Return whom a handoff tool hands to, from its name or its arguments; None where it is no such tool.

    >>> handed_to("transfer_to_refunds", {}), handed_to("transfer_to_agent", '{"agent_name": "writer"}')
    ('refunds', 'writer')
    """
    found = HANDOFF_TOOL.fullmatch(tool)
    if found is None or found[1] not in {"agent", "coworker"}:
        return found[1] if found else None
    given = decode.attempt(args) if isinstance(args, str) else args
    names = (given.get(key) for key in _ADDRESSEE) if isinstance(given, dict) else ()
    return next((name for name in names if isinstance(name, str)), "")
