"""Attribute names of OpenInference, which Phoenix and its instrumentations write."""

from __future__ import annotations

from typing import Final

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "session": ("session.id",),
    "agent": ("agent.name",),
    "node": ("graph.node.id",),
    "tool": ("tool.name",),
    "call_id": ("tool_call.id", "tool.id"),
    "input": ("input.value",),
    "output": ("output.value",),
    "messages": ("llm.input_messages",),
    "answer": ("llm.output_messages",),
    "model": ("llm.model_name", "embedding.model_name"),
    "tokens_in": ("llm.token_count.prompt",),
    "tokens_out": ("llm.token_count.completion",),
    "cost": ("llm.cost.total",),
    "span_kind": ("openinference.span.kind",),
    "score_name": ("evaluation.name", "annotation.name"),
    "score_label": ("evaluation.label", "annotation.label"),
    "score": ("evaluation.score", "annotation.score"),
}

KINDS: Final[dict[str, str]] = {
    "LLM": "model",
    "EMBEDDING": "model",
    "TOOL": "tool",
    "AGENT": "agent",
    "EVALUATOR": "verdict",
}
"""``openinference.span.kind`` to kind; chains, retrievers, guardrails and the rest are kept as ``log``."""
