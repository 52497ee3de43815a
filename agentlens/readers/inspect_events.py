"""The events of one Inspect sample: lanes from agent spans, calls, approvals, limits, scores on the way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers.blocks import Lane, Spot, count_of, text_of
from agentlens.readers.stamps import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.model.raw import RawEvent
    from agentlens.readers.base import Report

_ATTACHED: Final = ("attachment://", "tc://")
_CUT: Final = "was too long to be displayed"
_SUBMITS: Final = frozenset({"submit", "finish", "end_task"})
_SILENT: Final = frozenset(
    {
        "sample_init",
        "state",
        "store",
        "info",
        "logger",
        "sandbox",
        "subtask",
        "step",
        "anchor",
        "turn",
        "span_begin",
    }
)
_AGREED: Final = frozenset({"approve", "modify"})
SCORER: Final = "scorer"
"""Lane of what graders did: their calls and tokens are not the agent's."""


@dataclass(frozen=True, slots=True)
class _Span:
    kind: str
    name: str
    parent: str
    lane: Lane


@dataclass(slots=True)
class Events:
    """One sample's events, walked in order. ``place`` counts them through, nested ones too."""

    report: Report
    lane: Lane
    attachments: dict[str, Any] = field(default_factory=dict)
    spans: dict[str, _Span] = field(default_factory=dict)
    place: int = 0
    calls: int = 0
    decided: set[str] = field(default_factory=set)  # calls whose refusal is told by who refused
    last: dict[str, Any] | None = None  # the agent's newest model call

    def walk(self, events: list[Any], lane: Lane | None = None) -> Iterator[RawEvent]:
        """Yield what happened; ``lane`` is that of the call these are nested in."""
        self.decided |= _decided(events)
        for event in events:
            self.place += 1
            if not isinstance(event, dict):
                self.report.quarantine(self.place, "an event that is no object", "record")
                continue
            kind = text_of(event.get("event"))
            at = moment(event.get("timestamp"), self.report)
            spot = Spot(lane=lane or self._lane(event), line=self.place, at=at)
            if kind == "span_begin":
                yield from self._begin(event, spot)
            elif kind == "span_end":
                yield from self._end(event, spot)
            elif kind == "tool":
                yield from self._tool(event, spot)
            elif kind == "model":
                yield self._model(event, spot)
            else:
                yield from self._fact(kind, event, spot)
                nested = event.get("events")  # logs without spans nest what a subtask or a step did
                if isinstance(nested, list) and nested:
                    yield from self.walk(nested, lane)

    def _lane(self, event: dict[str, Any]) -> Lane:
        span = self.spans.get(text_of(event.get("span_id")))
        return span.lane if span else self.lane

    def _begin(self, event: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
        own, parent = text_of(event.get("id")), text_of(event.get("parent_id"))
        kind, name = text_of(event.get("type")), text_of(event.get("name"))
        above = self.spans.get(parent)
        lane = above.lane if above else self.lane
        if kind == "agent":
            lane = replace(lane, agent=name or "agent", instance=own, parent_agent=lane.agent)
        elif kind in {"scorer", "scorers"}:
            lane = replace(lane, agent=SCORER, instance=None, parent_agent=None)
        self.spans[own] = _Span(kind, name, parent, lane)
        if kind == "agent":
            yield self._span(replace(spot, lane=lane), own, open=True)

    def _end(self, event: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
        own = text_of(event.get("id"))
        span = self.spans.get(own)
        if span is not None and span.kind == "agent":
            yield self._span(replace(spot, lane=span.lane), own, at=None, ended_at=spot.at, open=False)

    def _span(self, spot: Spot, own: str, **facts: Any) -> RawEvent:
        span = self.spans[own]
        return spot.event(
            0,
            "agent",
            tool=span.name,
            identity=f"span/{own}",
            **{"span_id": own, "parent_span_id": span.parent or None, **facts},
        )

    def _tool(self, event: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
        self.calls += 1
        name, call_id = text_of(event.get("function")), text_of(event.get("id"))
        pending = event.get("pending") is True
        result: Any = ABSENT
        error: str | None = None
        if not pending:
            result, error = outcome(self.expand(event.get("result", ABSENT)), event.get("error"))
            error = error or ("tool_error" if event.get("failed") is True else None)
        result = None if event.get("truncated") else result
        kind, target, span = "tool", None, None
        agent, below = text_of(event.get("agent")), text_of(event.get("agent_span_id"))
        if agent:
            kind, target = "handoff", agent
            span = self.spans[below].parent if below in self.spans else None
        elif name in _SUBMITS:
            kind, target = "claim", "success"
        own = text_of(event.get("uuid"))
        yield spot.event(
            0,
            kind,
            tool=name,
            args=self.expand(event.get("arguments", ABSENT)),
            result=result,
            error_class=error,
            ended_at=moment(event.get("completed"), self.report),
            target=target,
            call_id=call_id or None,
            identity=f"event/{own}" if own else None,
            span_id=span or None,
            parent_span_id=text_of(event.get("span_id")) or None,
            open=pending,
        )
        nested = event.get("events")
        nested = nested if isinstance(nested, list) else []
        if error == "approval" and not (call_id and call_id in self.decided | _decided(nested)):
            yield spot.event(
                1, "approval", tool=name, target=name, call_id=call_id or None, error_class="rejected"
            )
        if nested:
            inner = replace(spot.lane, agent=agent, instance=call_id or own, parent_agent=spot.lane.agent)
            yield from self.walk(nested, inner if agent else spot.lane)

    def _model(self, event: dict[str, Any], spot: Spot) -> RawEvent:
        output = event.get("output")
        output = output if isinstance(output, dict) else {}
        if spot.lane.agent != SCORER:
            self.last = event
        into, out = tokens(output.get("usage"))
        retries = count_of(event.get("retries"))
        failed = event.get("error")
        return spot.event(
            0,
            "model",
            model=text_of(event.get("model")) or None,
            tokens_in=None if event.get("cache") == "read" else into,
            tokens_out=None if event.get("cache") == "read" else out,
            ended_at=moment(event.get("completed"), self.report),
            attempt=retries + 1 if retries else None,
            error_class="model_error" if failed else None,
            parent_span_id=text_of(event.get("span_id")) or None,
            open=event.get("pending") is True,
        )

    def _fact(self, kind: str, event: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
        if kind == "approval":
            yield _approval(event, spot)
        elif kind == "interrupt":
            yield spot.event(0, "wait", tool=kind, target="user", external_input=True)
        elif kind == "input":
            yield spot.event(0, "message", tool="user", external_input=True)
        elif kind == "compaction":
            yield spot.event(0, kind, tool=kind)
        elif kind == "checkpoint":
            yield spot.event(0, kind, tool=kind, target=text_of(event.get("checkpoint_id")) or None)
        elif kind == "branch":
            yield spot.event(0, "fork", tool=kind, target=text_of(event.get("from_anchor")) or None)
        elif kind == "score":
            yield spot.event(
                0, "log", tool=kind, target="intermediate" if event.get("intermediate") else "final"
            )
        elif kind == "sample_limit":
            yield spot.event(
                0, "log", tool=kind, error_class=f"limit_{text_of(event.get('type')) or 'unknown'}"
            )
        elif kind == "error":
            yield spot.event(0, "log", tool=kind, error_class="error")
        elif kind not in _SILENT:
            self.report.unknown[f"event {kind!r}"[:80] if kind else "event without a kind"] += 1
            yield spot.event(0, "log", tool=kind[:80])

    def expand(self, value: Any, depth: int = 0) -> Any:
        """Put texts that were stored apart back in their place."""
        if isinstance(value, str):
            start = next((prefix for prefix in _ATTACHED if value.startswith(prefix)), None)
            return self.attachments.get(value.removeprefix(start), value) if start else value
        if depth > 40:
            return value
        if isinstance(value, list):
            return [self.expand(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {key: self.expand(item, depth + 1) for key, item in value.items()}
        return value


def outcome(result: Any, failure: Any) -> tuple[Any, str | None]:
    """Return what a call gave and the type of its error; a cut text is no evidence."""
    if isinstance(result, list) and all(
        isinstance(part, dict) and part.get("type") == "text" for part in result
    ):
        result = "\n".join(text_of(part.get("text")) for part in result)
    if isinstance(result, str) and _CUT in result[:200]:
        result = None
    if not isinstance(failure, dict):
        return result, None
    error = text_of(failure.get("type")) or "unknown"
    if result in {ABSENT, None, ""} if isinstance(result, (str, type(None))) else result is ABSENT:
        result = None if error == "output_limit" else failure.get("message", ABSENT)
    return result, error


def tokens(usage: Any) -> tuple[int | None, int | None]:
    """Return tokens in, cached ones included, and out."""
    if not isinstance(usage, dict):
        return None, None
    names = ("input_tokens", "input_tokens_cache_read", "input_tokens_cache_write")
    parts = [count for name in names if (count := count_of(usage.get(name))) is not None]
    return (sum(parts) if parts else None), count_of(usage.get("output_tokens"))


def _decided(events: list[Any]) -> set[str]:
    """Return the ids of the calls that an approver refused."""
    told = (event for event in events if isinstance(event, dict) and event.get("event") == "approval")
    calls = (event.get("call") for event in told if text_of(event.get("decision")) not in _AGREED)
    return {own for call in calls if isinstance(call, dict) and (own := text_of(call.get("id")))}


def _approval(event: dict[str, Any], spot: Spot) -> RawEvent:
    decision, approver = text_of(event.get("decision")), text_of(event.get("approver"))
    call = event.get("call")
    call = call if isinstance(call, dict) else {}
    name = text_of(call.get("function"))
    return spot.event(
        0,
        "approval",
        tool=name,
        target=approver or name or None,
        call_id=text_of(call.get("id")) or None,
        error_class=None if decision in _AGREED else decision or "unknown",
        external_input=True if approver == "human" else None,
    )
