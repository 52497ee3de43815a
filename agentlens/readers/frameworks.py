"""Attribute names of frameworks with a dialect of their own (Vercel AI SDK, LiveKit, Strands), and of HTTP spans."""

from __future__ import annotations

from typing import Final

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "operation": ("ai.operationId",),
    "agent": ("ai.telemetry.functionId",),
    "tool": ("ai.toolCall.name", "lk.function_tool.name"),
    "call_id": ("ai.toolCall.id", "lk.function_tool.id"),
    "args": ("ai.toolCall.args", "lk.function_tool.arguments", "lk.pii.function_tool.arguments"),
    "result": ("ai.toolCall.result", "lk.function_tool.output", "lk.pii.function_tool.output"),
    "model": ("ai.response.model", "ai.model.id"),
    "tokens_in": ("ai.usage.inputTokens", "ai.usage.promptTokens"),
    "tokens_out": ("ai.usage.outputTokens", "ai.usage.completionTokens"),
    "http_status": ("http.response.status_code", "http.status_code"),
    "resent": ("http.request.resend_count", "http.resend_count"),
    "failed": ("gen_ai.tool.status", "tool.status", "lk.function_tool.is_error"),
}

KINDS: Final[dict[str, str]] = {
    "ai.toolCall": "tool",
    "ai.generateText.doGenerate": "model",
    "ai.generateObject.doGenerate": "model",
    "ai.streamText.doStream": "model",
    "ai.streamObject.doStream": "model",
    "ai.embed.doEmbed": "model",
    "ai.embedMany.doEmbed": "model",
}
"""``ai.operationId`` to kind; what encloses those (``ai.generateText``) sums them up and is kept as ``log``."""

DETAILS: Final[dict[str, str]] = {
    "exception": "exception.message",
    "gen_ai.tool.message": "content",
    "gen_ai.choice": "message",
}
"""Event of a span to the attribute that says what it is about: a failure, a tool's input, a tool's output."""
