"""Attribute names of the OpenTelemetry GenAI conventions, current and older, and of those who follow them."""

from __future__ import annotations

from typing import Final

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "session": (
        "gen_ai.conversation.id",
        "session.id",
        "gcp.vertex.agent.session_id",
        "langfuse.session.id",
        "gen_ai.thread.id",
    ),
    "agent": ("gen_ai.agent.name", "agent_name"),
    "agent_version": ("gen_ai.agent.version",),
    "workflow": ("gen_ai.workflow.name",),
    "tool": ("gen_ai.tool.name", "mcp.tool.name"),
    "call_id": ("gen_ai.tool.call.id",),
    "args": (
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.args",
        "tool_arguments",
        "gcp.vertex.agent.tool_call_args",
    ),
    "result": (
        "gen_ai.tool.call.result",
        "gen_ai.output",
        "tool_response",
        "gcp.vertex.agent.tool_response",
    ),
    "messages": ("gen_ai.input.messages", "gen_ai.prompt"),
    "answer": ("gen_ai.output.messages", "gen_ai.completion"),
    "model": ("gen_ai.response.model", "gen_ai.request.model"),
    "tokens_in": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    "tokens_out": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    "cost": ("gen_ai.usage.cost", "operation.cost"),
    "error": ("error.type", "exception.type"),
    "operation": ("gen_ai.operation.name",),
    "method": ("mcp.method.name",),
    "score_name": ("gen_ai.evaluation.name",),
    "score_label": ("gen_ai.evaluation.score.label",),
    "score": ("gen_ai.evaluation.score.value",),
}
"""Fact to attribute names, the preferred one first."""

KINDS: Final[dict[str, str]] = {
    "chat": "model",
    "generate_content": "model",
    "text_completion": "model",
    "embeddings": "model",
    "call_llm": "model",
    "llm_request": "model",
    "execute_tool": "tool",
    "invoke_agent": "agent",
    "agent": "agent",
    "handoff": "handoff",
}
"""``gen_ai.operation.name`` to kind; any other operation is kept as ``log``.

``invoke_agent`` below another span and of the kind client is the caller's side: a handoff. The agent's own side is
the internal span of that name below it, or in another trace with a link to it.
"""
