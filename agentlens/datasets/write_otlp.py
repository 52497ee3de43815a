"""Planted desk runs as OTLP JSON lines with GenAI attributes, as a collector's file exporter writes them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentlens.datasets.draws import Draws
from agentlens.datasets.records import tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentlens.datasets.story import PlantedRun, Step

BATCH = 24  # spans a line

_CLIENT, _INTERNAL = 3, 1


@dataclass(slots=True, kw_only=True)
class _Trace:
    """One conversation being written: a human turn opens a new trace of the same conversation."""

    run: PlantedRun
    draws: Draws
    trace_id: str = ""
    asked: str = ""  # what the person said who opened this trace
    roots: dict[str, str] = field(default_factory=dict)  # agent -> span id of its open invoke_agent span
    opened: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    spans: list[dict[str, Any]] = field(default_factory=list)


def otlp_lines(run: PlantedRun) -> Iterator[str]:
    """Yield one conversation as lines of ``resourceSpans``; children come before their parents, as they end first."""
    trace = _Trace(run=run, draws=Draws("otlp", run.run_id))
    _open_trace(trace, run.prompt)
    for seq, step in enumerate(run.steps):
        if step.kind == "turn":
            _close_trace(trace)
            _open_trace(trace, step.text)
        elif step.call:
            agent = step.agent or run.agent
            _open_agent(trace, agent, step.start_ms - 600)
            _model_span(trace, agent, seq, step)
            _tool_span(trace, agent, step)
    _close_trace(trace)
    for at in range(0, len(trace.spans), BATCH):
        yield _line(run, trace.spans[at : at + BATCH])


def _open_trace(trace: _Trace, asked: str) -> None:
    trace.asked = asked
    trace.trace_id = trace.draws.hex(32)
    trace.roots.clear()
    trace.opened.clear()
    trace.last.clear()


def _open_agent(trace: _Trace, agent: str, ms: int) -> None:
    if agent not in trace.roots:
        trace.roots[agent] = trace.draws.hex(16)
        trace.opened[agent] = ms


def _close_trace(trace: _Trace) -> None:
    end = max(trace.last.values(), default=0) + 40
    for i, agent in enumerate(reversed(trace.roots)):
        own = trace.roots[agent]
        parent = trace.roots.get(trace.run.agent, "") if agent != trace.run.agent else ""
        facts = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent,
            "gen_ai.agent.version": trace.run.agent_version,
            "gen_ai.workflow.name": trace.run.workflow,
        }
        if not parent:
            said = [{"role": "user", "parts": [{"type": "text", "content": trace.asked}]}]
            facts["gen_ai.input.messages"] = _text(said)
        span = _span(trace, f"invoke_agent {agent}", (own, parent), (trace.opened[agent], end + i), facts)
        trace.spans.append(span)


def _model_span(trace: _Trace, agent: str, seq: int, step: Step) -> None:
    tokens_in, tokens_out = tokens(seq, step)
    facts = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": trace.run.model,
        "gen_ai.usage.input_tokens": tokens_in,
        "gen_ai.usage.output_tokens": tokens_out,
    }
    name = f"chat {trace.run.model}"
    start, end = step.start_ms - 590, step.start_ms - 10
    own, parent = trace.draws.hex(16), trace.roots[agent]
    trace.spans.append(_span(trace, name, (own, parent), (start, end), facts, kind=_CLIENT))


def _tool_span(trace: _Trace, agent: str, step: Step) -> None:
    call = step.call
    assert call is not None
    facts: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": f"call_{trace.draws.hex(12)}",
        "gen_ai.tool.call.arguments": _text(dict(call.args)),
    }
    if call.result is not None:
        facts["gen_ai.tool.call.result"] = call.result if isinstance(call.result, str) else _text(call.result)
    if call.error:
        facts["error.type"] = call.error
    own, parent = trace.draws.hex(16), trace.roots[agent]
    span = _span(trace, f"execute_tool {call.tool}", (own, parent), (step.start_ms, step.end_ms), facts)
    if call.error:
        span["status"] = {"code": 2, "message": f"{call.error} from the fare service"}
    trace.spans.append(span)
    trace.last[agent] = step.end_ms


def _span(
    trace: _Trace,
    name: str,
    ids: tuple[str, str],
    times_ms: tuple[int, int],
    facts: Mapping[str, Any],
    *,
    kind: int = _INTERNAL,
) -> dict[str, Any]:
    attributes = [{"key": key, "value": _value(value)} for key, value in facts.items()]
    attributes.append({"key": "gen_ai.conversation.id", "value": _value(trace.run.run_id)})
    return {
        "traceId": trace.trace_id,
        "spanId": ids[0],
        **({"parentSpanId": ids[1]} if ids[1] else {}),
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str((trace.run.start_ms + times_ms[0]) * 1_000_000),
        "endTimeUnixNano": str((trace.run.start_ms + times_ms[1]) * 1_000_000),
        "attributes": attributes,
        "status": {},
    }


def _value(value: Any) -> dict[str, Any]:
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _line(run: PlantedRun, spans: list[dict[str, Any]]) -> str:
    service = [{"key": "service.name", "value": {"stringValue": run.workflow}}]
    scope = {"name": "opentelemetry.instrumentation.genai", "version": "0.4.1"}
    scoped = [{"scope": scope, "spans": spans}]
    return _text({"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": scoped}]})
