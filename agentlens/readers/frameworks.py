"""Attribute names of frameworks with a dialect of their own (Vercel AI SDK, LiveKit, Strands, LangGraph), and HTTP."""

from __future__ import annotations

import re
from typing import Any, Final

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "operation": ("ai.operationId",),
    "session": ("ai.telemetry.metadata.sessionId", "ai.telemetry.metadata.threadId"),
    "agent": ("ai.telemetry.functionId", "langgraph.command.source_node"),
    "tool": ("ai.toolCall.name", "lk.function_tool.name"),
    "call_id": ("ai.toolCall.id", "lk.function_tool.id"),
    "args": ("ai.toolCall.args", "lk.function_tool.arguments", "lk.pii.function_tool.arguments"),
    "result": ("ai.toolCall.result", "lk.function_tool.output", "lk.pii.function_tool.output"),
    "messages": ("ai.prompt.messages",),
    "answer": ("ai.response.toolCalls",),
    "model": ("ai.response.model", "ai.model.id"),
    "tokens_in": ("ai.usage.inputTokens", "ai.usage.promptTokens"),
    "tokens_out": ("ai.usage.outputTokens", "ai.usage.completionTokens"),
    "http_status": ("http.response.status_code", "http.status_code"),
    "resent": ("http.request.resend_count", "http.resend_count"),
    "place": ("traceloop.association.properties.langgraph_checkpoint_ns", "langgraph_checkpoint_ns"),
    "metadata": ("metadata",),
    "handoff_to": ("langgraph.command.goto_node",),
    "failed": ("gen_ai.tool.status", "tool.status", "lk.function_tool.is_error"),
}

KINDS: Final[dict[str, str]] = {
    "goto": "handoff",
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

_PLACE: Final = re.compile(r'"langgraph_checkpoint_ns":\s*"([^"]{1,2000})"')
_NAMED: Final = re.compile(r'"lc_agent_name":\s*"([^"]{1,200})"')
_TASK: Final = re.compile(r":[0-9a-f]{8}-[0-9a-f-]{27}(?=\||$)")


def place(facts: dict[str, Any]) -> None:
    """Name the lane of a span of a graph: the agent that its metadata names, else the graph that its node stands in.

    A node of the outermost graph belongs to whatever encloses it.

    >>> facts = {"place": "planner:4af9a5f7-074b-8aa5-9a35-fb4ece7e30f7|tools:c72b7f15-f647-49ea-85e9-20b8ccc7ab6e"}
    >>> place(facts)
    >>> facts["agent"]
    'planner'
    """
    told, beside = facts.get("place", ""), facts.pop("metadata", None)
    if isinstance(beside, dict):
        named = beside.get("lc_agent_name")
        told = told or beside.get("langgraph_checkpoint_ns", "")
    else:
        text = beside if isinstance(beside, str) and "langgraph" in beside else ""
        found = _NAMED.search(text)
        named = found[1] if found else ""
        if not told and (found := _PLACE.search(text)):
            told = found[1]
    outer = "/".join(_TASK.sub("", told).split("|")[:-1]) if isinstance(told, str) else ""
    if lane := named if isinstance(named, str) and named else outer:
        facts["agent"] = lane
