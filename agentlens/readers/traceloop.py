"""Attribute names of Traceloop's OpenLLMetry, and of its older ``llm.*`` spans."""

from __future__ import annotations

from typing import Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers import decode

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


def unwrapped(value: Any, *names: str) -> Any:
    """Return what a LangChain callback wrapped for the exporter, or the value itself.

    Beside the arguments it writes tags, metadata and ids of the run, which change with every call. The
    first of ``names`` that holds something is taken, where ``kwargs`` stands beside it.

    >>> unwrapped('{"inputs": {"q": 1}, "tags": ["t"], "kwargs": {}}', "inputs", "input_str")
    {'q': 1}
    >>> unwrapped('{"args": [], "kwargs": {"q": 1}}', "inputs")
    '{"args": [], "kwargs": {"q": 1}}'
    """
    told = decode.attempt(value) if isinstance(value, str) and '"kwargs"' in value else value
    if told is not ABSENT and isinstance(told, dict) and "kwargs" in told:
        return next((told[name] for name in names if told.get(name) is not None), value)
    return value
