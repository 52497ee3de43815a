"""Attribute names of Traceloop's OpenLLMetry, and of its older ``llm.*`` spans."""

from __future__ import annotations

from typing import Final

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "session": (
        "traceloop.association.properties.session_id",
        "traceloop.association.properties.session.id",
        "traceloop.association.properties.conversation_id",
        "traceloop.association.properties.thread_id",
        "traceloop.association.properties.chat_id",
    ),
    "workflow": ("traceloop.workflow.name",),
    "entity": ("traceloop.entity.name",),
    "input": ("traceloop.entity.input",),
    "output": ("traceloop.entity.output",),
    "tokens_in": ("llm.usage.prompt_tokens",),
    "tokens_out": ("llm.usage.completion_tokens",),
    "loop_kind": ("traceloop.span.kind",),
    "request": ("llm.request.type",),
    "handoff_to": ("gen_ai.handoff.to_agent",),
}

KINDS: Final[dict[str, str]] = {"tool": "tool", "agent": "agent", "handoff": "handoff"}
"""``traceloop.span.kind`` to kind; workflows and tasks are kept as ``log``."""

REQUESTS: Final[dict[str, str]] = {"chat": "model", "completion": "model", "embedding": "model"}
"""``llm.request.type`` to kind."""
