"""Gemini CLI ``--output-format stream-json``: init, messages, tool calls with their results, and a last word."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers.base import Format
from agentlens.readers.blocks import Lane, Spot, count_of, text_of
from agentlens.readers.documents import stem_of
from agentlens.readers.gemini_results import failure_of, shell
from agentlens.readers.line_objects import line_objects
from agentlens.readers.stamps import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.model.raw import RawEvent
    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head, Source

_TOOLS: Final = frozenset({"tool_use", "tool_result"})


def claim(head: Head) -> int:
    """Claim lines whose type, time and tool fields are the stream's."""
    found = [value for value in head.records if isinstance(value, dict) and "timestamp" in value]
    if any(text_of(value.get("type")) in _TOOLS and isinstance(value.get("tool_id"), str) for value in found):
        return 92
    begun = any(value.get("type") == "init" and {"session_id", "model"} <= value.keys() for value in found)
    return 88 if begun else 0


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of one stream, line by line."""
    stream = _Stream(report=report, lane=Lane(run_id=stem_of(source)))
    for number, value in line_objects(source, report):
        yield from stream.line(value, number)


@dataclass(slots=True)
class _Stream:
    report: Report
    lane: Lane
    model: str | None = None
    tools: dict[str, str] = field(default_factory=dict)  # call id -> tool: what is masked depends on it

    def line(self, value: dict[str, Any], number: int) -> Iterator[RawEvent]:
        kind = text_of(value.get("type"))
        call_id = text_of(value.get("tool_id"))
        if kind == "init":
            self.lane = Lane(run_id=text_of(value.get("session_id")) or self.lane.run_id)
            self.model = text_of(value.get("model")) or None
            return
        spot = Spot(lane=self.lane, line=number, at=moment(value.get("timestamp"), self.report))
        if kind == "message":
            if value.get("role") == "user":
                yield spot.event(0, "message", tool="user", external_input=True)
        elif kind == "tool_use":
            self.tools[call_id] = text_of(value.get("tool_name"))
            yield spot.event(
                0,
                "tool",
                tool=text_of(value.get("tool_name")),
                args=value.get("parameters", ABSENT),
                model=self.model,
                call_id=call_id or None,
                identity=f"call/{call_id}" if call_id else None,
                open=True,
            )
        elif kind == "tool_result":
            yield self._result(value, spot, call_id)
        elif kind == "error":
            yield spot.event(0, "log", tool="error", error_class=text_of(value.get("severity")) or "error")
        elif kind == "result":
            yield from self._end(value, spot)
        else:
            self.report.unknown[f"type {kind!r}"[:80] if kind else "record without a type"] += 1

    def _result(self, value: dict[str, Any], spot: Spot, call_id: str) -> RawEvent:
        """The stream shows a failing command as a success without its exit code: then none is known."""
        about = value.get("error")
        about = about if isinstance(about, dict) else {}
        result, error = shell(value.get("output", ABSENT))
        if value.get("status") == "error" or about:
            result = about.get("message", result)
            error = failure_of(result, text_of(about.get("type")))
        return spot.event(
            0,
            "tool",
            at=None,
            ended_at=spot.at,
            tool=self.tools.get(call_id, ""),
            result=result,
            error_class=error,
            call_id=call_id or None,
            identity=f"call/{call_id}" if call_id else None,
            open=False,
        )

    def _end(self, value: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
        stats = value.get("stats")
        stats = stats if isinstance(stats, dict) else {}
        into, out = count_of(stats.get("input_tokens")), count_of(stats.get("output_tokens"))
        if into is not None or out is not None:
            yield spot.event(0, "model", model=self.model, tokens_in=into, tokens_out=out)
        good = value.get("status") == "success"
        about = value.get("error")
        named = text_of(about.get("type")) if isinstance(about, dict) else ""
        yield spot.event(
            1,
            "claim",
            tool="result",
            target="success" if good else "failure",
            error_class=None if good else named or "error",
        )


FORMAT = Format(
    name="gemini-stream",
    version=2,
    title="Gemini CLI stream-json (--output-format stream-json)",
    recognised_by="init with session_id and model, tool_use and tool_result with tool_id, each with a timestamp",
    proved_on="the stream of a session of 0.61",
    claim=claim,
    read=read,
    rank=40,
)
