"""LangSmith: runs one a line, bulk exports in Parquet, answers of a query, and the wire form (post and patch)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers.base import Format, Record, Report
from agentlens.readers.message_pack import plain
from agentlens.readers.plain_spans import STEP, listed, mapping, opened, text, when
from agentlens.readers.spans import Span, Spans
from agentlens.readers.stamps import epoch
from agentlens.readers.tabular import columns, json_rows, records_of, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.source import Head, Source

_KEYS: Final = ("runs", "data")
_KINDS: Final = {
    "llm": "LLM",
    "chain": "CHAIN",
    "tool": "TOOL",
    "retriever": "RETRIEVER",
    "embedding": "EMBEDDING",
    "prompt": "PROMPT",
    "parser": "CHAIN",
}
_CHUNK: Final = re.compile(r"(\d{8}T\d{6})(\d{1,6})?Z([0-9a-fA-F-]{32,36})")
_ERROR: Final = re.compile(r"((?:\w+\.)*[A-Za-z_]\w*)(?::|\(|$)")
_WRAPPED: Final = re.compile(r"Error: ((?:[A-Za-z_]\w*\.)*[A-Z]\w*)\(")  # as a graph tells it to the model
_INTERRUPTS: Final = frozenset({"GraphInterrupt", "NodeInterrupt", "GraphBubbleUp"})
_INTERRUPT_ID: Final = re.compile(r"\bid='([^']{1,80})'")
_GOTO: Final = re.compile(r"\bgoto='([^']{1,80})'")
_RESUME: Final = re.compile(r"Command\([^)]*\bresume=")
_IDS: Final = frozenset({"id", "trace_id", "parent_run_id", "session_id"})
_SESSIONS: Final = ("thread_id", "session_id", "conversation_id")
_UUID: Final = re.compile(r":[0-9a-f]{8}-[0-9a-f-]{27}(?=\||$)")
_OWN: Final = frozenset(
    {"dotted_order", "parent_run_id", "trace_id", "session_id", "session_name", "parent_run_ids"}
)
_TOOLS: Final = "tools"
"""Node of a prebuilt agent that runs its tools."""
_US: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def claim(head: Head) -> int:
    """Claim runs by their type and order, as columns, lines, lists or halves of the wire form."""
    names = columns(head)
    if names:
        return 95 if {"run_type", "id"} <= names and names & _OWN else 0
    if head.magic:
        return 0
    found = [row for record in records_of(head, *_KEYS) for row in _halves(record)]
    return 95 if any(_is_run(row) for row in found) else 0


def _is_run(row: dict[str, Any]) -> bool:
    return text(row.get("run_type")) in _KINDS and bool(row.keys() & _OWN)


def _halves(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of a wire batch, begun ones first, or the record itself."""
    if isinstance(record.get("post"), list) or isinstance(record.get("patch"), list):
        return [*listed(record.get("post")), *listed(record.get("patch"))]
    return [record]


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of every run; the two halves of a run are one."""
    runs = _Runs(report)
    records = rows(source, report, *_KEYS) if columns(source.head()) else json_rows(source, report, *_KEYS)
    for position, place, record in records:
        for index, row in enumerate(_halves(record)):
            yield from runs.add(row, position, (place + index) * STEP)
    yield from runs.rest()


@dataclass(slots=True)
class _Half:
    row: dict[str, Any]
    position: int
    order: int


@dataclass(slots=True)
class _Goto:
    """A run that was left for another agent; ``event`` None where the run itself is the handoff."""

    above: str
    target: str
    event: RawEvent | None


@dataclass(slots=True)
class _Runs:
    """Turns runs into events; a run that only began waits for its other half."""

    report: Report
    spans: Spans = field(init=False)
    begun: dict[str, _Half] = field(default_factory=dict)
    ended: dict[str, _Half] = field(default_factory=dict)
    waits: dict[str, tuple[int, RawEvent]] = field(default_factory=dict)
    gotos: dict[str, _Goto] = field(default_factory=dict)  # by the run that the exception passed
    handed: set[tuple[str, str]] = field(
        default_factory=set
    )  # run and target of handoffs that tools inside it made

    def __post_init__(self) -> None:
        self.spans = Spans(self.report)

    def add(self, row: dict[str, Any], position: int, order: int) -> Iterator[RawEvent]:
        row = {name: _as_text(value) if name in _IDS else value for name, value in row.items()}
        key, half = _id_of(row), _Half(row, position, order)
        if key is None:
            self.report.quarantine(position, "a run without id and dotted_order", "record")
        elif not text(row.get("run_type")):
            if key in self.begun:
                yield from self._joined(self.begun.pop(key), half)
            else:
                self.ended[key] = half
        elif key in self.ended:
            yield from self._joined(half, self.ended.pop(key))
        elif row.get("end_time") is None and key not in self.begun:
            self.begun[key] = half
        else:
            before = self.begun.pop(key, None)
            yield from self._joined(before or half, half)
        children = row.get("child_runs")
        for index, child in enumerate(listed(children), 1):
            yield from self.add(child, position, order + index * STEP)

    def _joined(self, first: _Half, second: _Half) -> Iterator[RawEvent]:
        """Yield the events of a run whose later half says more than the first."""
        row = {**first.row, **{name: value for name, value in second.row.items() if value is not None}}
        yield from self.events(row, first.position, first.order)

    def rest(self) -> Iterator[RawEvent]:
        """Yield what never ended, what was never seen to begin, and the questions."""
        halves = [*self.begun.values(), *self.ended.values()]
        for half in sorted(halves, key=lambda one: (one.position, one.order)):
            yield from self.events(half.row, half.position, half.order)
        for _, event in self.waits.values():
            yield event
        yield from self._left()

    def _left(self) -> Iterator[RawEvent]:
        """Yield each handoff once: every run above fails with the same exception, the innermost raised it."""
        repeated: set[str] = set()
        for goto in self.gotos.values():
            above = goto.above
            while above in self.gotos and above not in repeated and self.gotos[above].target == goto.target:
                repeated.add(above)
                above = self.gotos[above].above
        for own, goto in self.gotos.items():
            if goto.event is not None and own not in repeated and (own, goto.target) not in self.handed:
                yield goto.event

    def events(self, row: dict[str, Any], position: int, order: int) -> Iterator[RawEvent]:
        """Yield the events of one whole run."""
        span, waits = _span(row, self.report)
        if span is None:
            self.report.quarantine(position, "a run without a trace", "record")
            return
        found = self.spans.events(span, position, order)
        self.handed.update((span.parent_id or "", one.target or "") for one in found if one.kind == "handoff")
        yield from found
        order += 8
        for event in (*_around(row, span, waits, self.report), *_feedback(row, span)):
            event.position = (position, order)
            event.session, event.workflow = found[0].session, found[0].workflow
            order += 1
            if event.kind == "handoff" and event.target is not None:
                told = any(one.kind == "handoff" and one.target == event.target for one in found)
                goto = _Goto(span.parent_id or "", event.target, None if told else event)
                self.gotos[span.span_id or f"{position}/{order}"] = goto
            elif event.kind == "wait" and event.identity is not None:
                # every run above fails with the same question: it is the innermost that asked
                depth = len(_chunks(row))
                if depth >= self.waits.get(event.identity, (0, event))[0]:
                    self.waits[event.identity] = (depth, event)
            else:
                yield event


def _as_text(value: Any) -> Any:
    """Return an id as text; Parquet may hold its sixteen bytes."""
    return str(UUID(bytes=value)) if isinstance(value, bytes) and len(value) == 16 else value


def _chunks(row: dict[str, Any]) -> list[re.Match[str]]:
    return list(_CHUNK.finditer(text(row.get("dotted_order"))))


def _id_of(row: dict[str, Any]) -> str | None:
    own, chunks = text(row.get("id")), _chunks(row)
    return own.lower() or (chunks[-1][3].lower() if chunks else None)


def _span(row: dict[str, Any], report: Report) -> tuple[Span | None, str]:
    """Build the span of a run, and the text of the question it waits with ("" for none).

    Trace and parent are told by ``dotted_order`` too: a chunk of start time and id for every run from the root
    down.
    """
    chunks, own = _chunks(row), _id_of(row)
    above = chunks[-2][3].lower() if len(chunks) > 1 else None
    parent = text(row.get("parent_run_id")).lower() or above
    trace = text(row.get("trace_id")).lower() or (chunks[0][3].lower() if chunks else "")
    trace = trace or ("" if parent else own or "")
    if not trace:
        return None, ""
    extra = mapping(row.get("extra"))
    metadata = mapping(extra.get("metadata"))
    facts = _facts(row, metadata)
    error = text(row.get("error"))
    name = error_class(error) if error else None
    waits = error if name in _INTERRUPTS else ""
    failed = bool(error) and not waits and name != "ParentCommand"
    if failed and name is not None:
        facts["error"] = name
    status = "error" if failed or facts.pop("failed", False) else ""
    runtime = mapping(extra.get("runtime"))
    at = _started(row, chunks, report)
    return Span(
        trace,
        own,
        parent,
        text(row.get("name")),
        at,
        _when(row.get("end_time"), report),
        facts,
        status,
        _last_line(error) if failed else "",
        service=text(row.get("session_name")) or None,
        version=text(metadata.get("revision_id")) or text(runtime.get("revision_id")) or None,
        session=None,
    ), waits


def _when(value: Any, report: Report) -> int | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return epoch(value, 1000)
    if isinstance(value, str) and value.isdecimal():
        return epoch(int(value[:20]), 1000)
    return when(value, report)


def _started(row: dict[str, Any], chunks: list[re.Match[str]], report: Report) -> int | None:
    """Return when a run began: its own time, with the digits below a millisecond from its place in the order."""
    told = _when(row.get("start_time"), report)
    if not chunks:
        return told
    day, digits = chunks[-1][1], (chunks[-1][2] or "").ljust(6, "0")
    try:
        at = datetime.fromisoformat(f"{day}+00:00")
    except ValueError:
        return told
    placed = (at - _EPOCH) // _US + int(digits)
    return placed if told is None or abs(placed - told) < 1000 else told


def _facts(row: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    kind = text(row.get("run_type"))
    node, agent = text(metadata.get("langgraph_node")), _agent(metadata)
    facts: dict[str, Any] = {"span_kind": _KINDS.get(kind, "")}
    session = next((text(metadata[name]) for name in _SESSIONS if text(metadata.get(name))), "")
    told: dict[str, Any] = {
        "session": session,
        "agent": agent,
        "workflow": text(metadata.get("graph_id")) or text(row.get("session_name")),
    }
    inputs, outputs = plain(opened(row.get("inputs"))), plain(opened(row.get("outputs")))
    if kind == "tool":
        told |= _tool(text(row.get("name")), inputs, outputs)
    elif kind == "llm":
        told |= {**_model(row, metadata, outputs), "input": inputs, "output": outputs}
    elif kind == "chain" and node and node == text(row.get("name")):
        facts["span_kind"] = "AGENT"
        told["agent"] = agent or node
    elif isinstance(inputs, (dict, list)):
        told["input"] = inputs
    said = {"input", "output"}  # an empty text there is an argument or a result, elsewhere it is nothing
    facts.update(
        {key: value for key, value in told.items() if value is not None and (value != "" or key in said)}
    )
    return facts


def _agent(metadata: dict[str, Any]) -> str:
    """Name the lane: the agent, else the node of the graph and the nodes it stands in."""
    told = text(metadata.get("lc_agent_name")) or text(metadata.get("agent_name"))
    if told:
        return told
    place = text(metadata.get("langgraph_checkpoint_ns")) or text(metadata.get("checkpoint_ns"))
    names = [name for name in _UUID.sub("", place).split("|") if name]
    if len(names) > 1 and names[-1] == _TOOLS:  # whoever runs the tools, the graph around them asked
        names.pop()
    return "/".join(names) or text(metadata.get("langgraph_node"))


def _tool(name: str, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Return name, arguments and result of a tool run; both often stand in one member, as text or as a message."""
    args, result = inputs, outputs
    if isinstance(args, dict) and args.keys() <= {"input", "attachments", "config"} and "input" in args:
        args = args["input"]
    found: dict[str, Any] = {"tool": name}
    if isinstance(args, dict) and args.get("type") == "tool_call" and "args" in args:
        found["call_id"], args = text(args.get("id")), args["args"]
    if isinstance(result, dict) and result.keys() <= {"output", "content", "result"} and len(result) == 1:
        result = next(iter(result.values()))
    if isinstance(result, dict) and result.get("type") == "tool" and "content" in result:
        found["call_id"] = text(result.get("tool_call_id")) or found.get("call_id")
        found["failed"] = result.get("status") == "error" or None
        result = result["content"]
        if found["failed"] and (wrapped := _WRAPPED.match(text(result))):
            found["error"] = wrapped[1].rsplit(".", 1)[-1]
    if args is not ABSENT:
        found["input"] = args
    if result is not ABSENT and not (result == {} and outputs == {}):
        found["output"] = result
    return {key: value for key, value in found.items() if value is not None}


def _model(row: dict[str, Any], metadata: dict[str, Any], outputs: Any) -> dict[str, Any]:
    usage = _usage(outputs)
    return {
        "model": text(metadata.get("ls_model_name")),
        "tokens_in": _first(row, "prompt_tokens") or _first(usage, "input_tokens", "prompt_tokens"),
        "tokens_out": _first(row, "completion_tokens") or _first(usage, "output_tokens", "completion_tokens"),
        "cost": _cost(row.get("total_cost")),
    }


def _usage(outputs: Any) -> dict[str, Any]:
    """Find what a model run used: beside the answer, in the provider's own words, or in the message."""
    if not isinstance(outputs, dict):
        return {}
    generations = outputs.get("generations")
    first = generations[0] if isinstance(generations, list) and generations else None
    first = first[0] if isinstance(first, list) and first else first
    message = first.get("message") if isinstance(first, dict) else None
    provider = mapping(mapping(outputs.get("llm_output")).get("token_usage"))
    places = (outputs, message if isinstance(message, dict) else {}, mapping(outputs.get("output")))
    told = (mapping(place.get(name)) for place in places for name in ("usage_metadata", "usage"))
    return next((usage for usage in (*told, provider) if usage), {})


def _first(values: dict[str, Any], *names: str) -> Any:
    return next((values[name] for name in names if values.get(name) is not None), None)


def _cost(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, (int, float, str)) or hasattr(value, "as_tuple") else None
    except (ValueError, TypeError):
        return None


def _last_line(error: str) -> str:
    """Return the line that says what happened; a traceback itself names paths and lines."""
    before, mark, frames = error.rpartition("Traceback (most recent call last)")
    told = (line.strip() for line in frames.splitlines()[1:] if mark and line[:1].strip())
    return next(told, "") or next(
        (line.strip() for line in (before or error).splitlines() if line.strip()), ""
    )


def error_class(error: str) -> str:
    r"""Name the class of a failure kept as text, with or without its traceback.

    >>> error_class("ToolError('no')Traceback (most recent call last):\n  File x\nKeyError: 'a'\n")
    'KeyError'
    >>> error_class("something went wrong")
    'unknown'
    """
    found = _ERROR.match(_last_line(error))
    return found[1].rsplit(".", 1)[-1] if found else "unknown"


def _around(row: dict[str, Any], span: Span, waits: str, report: Report) -> Iterator[RawEvent]:
    """Yield the question a run waits with, and the attempts its model call took before it came back."""
    if waits:
        asked = _INTERRUPT_ID.search(waits)
        event = _beside(span, "wait")
        event.tool, event.target = "interrupt", span.facts.get("agent") or span.name
        event.at = span.ended_at
        event.identity = f"interrupt:{span.trace_id}:{asked[1] if asked else span.span_id}"
        event.open = True
        yield event
    error = text(row.get("error"))
    if to := _GOTO.search(error) if error.startswith("ParentCommand") else None:
        event = _beside(span, "handoff")
        event.tool, event.target, event.args = "handoff", to[1], {"to": to[1]}
        event.at, event.open = span.ended_at, False
        event.identity = f"goto:{span.trace_id}/{span.span_id or error}"
        yield event
    if next_node := _gone_on(row):
        event = _beside(span, "handoff")
        event.tool, event.target, event.args = "handoff", next_node, {"to": next_node}
        event.at, event.open = span.ended_at, False
        event.identity = f"goto:{span.trace_id}/{span.span_id}"
        yield event
    if span.parent_id is None and _is_resumed(mapping(row.get("inputs"))):
        event = _beside(span, "resume")
        event.tool, event.external_input, event.at = "resume", True, span.at
        event.identity = f"resume:{span.span_id}"
        yield event
    for index, told in enumerate(listed(row.get("events"))):
        if told.get("name") == "retry":
            facts = mapping(told.get("kwargs"))
            event = _beside(span, "retry")
            event.at = _when(told.get("time"), report)
            attempt = facts.get("attempt")
            event.attempt = attempt if isinstance(attempt, int) and 0 < attempt < 1 << 31 else None
            event.error_class = text(facts.get("exception_type")) or None
            event.identity = f"retry:{span.span_id}/{index}"
            yield event


def _gone_on(row: dict[str, Any]) -> str:
    """Return the node that a node of a graph went on to by its own word; "" where it gave back anything else."""
    node = text(mapping(mapping(row.get("extra")).get("metadata")).get("langgraph_node"))
    if text(row.get("run_type")) != "chain" or not node or node != text(row.get("name")):
        return ""
    told = mapping(mapping(row.get("outputs")).get("output"))
    to = text(told.get("goto")) if {"goto", "resume"} <= told.keys() else ""
    return "" if to == "__end__" else to


def _is_resumed(inputs: dict[str, Any]) -> bool:
    """Say whether a graph was called with the answer to its question: a command, as object or as text."""
    told = inputs.get("input", inputs)
    if isinstance(told, dict):
        return told.get("resume") is not None and bool(told.keys() & {"goto", "graph"})
    return _RESUME.match(text(told)) is not None


def _feedback(row: dict[str, Any], span: Span) -> Iterator[RawEvent]:
    """Yield what was judged of a run: an average of 1 is passed, of 0 failed, anything between neither."""
    for name, told in sorted(mapping(row.get("feedback_stats")).items()):
        stats = mapping(told)
        mean = stats.get("avg")
        if not isinstance(mean, (int, float)) or isinstance(mean, bool):
            continue
        event = _beside(span, "verdict")
        event.target = name
        event.outcome = "passed" if mean == 1 else "failed" if mean == 0 else "unknown"
        event.identity = f"verdict:{span.span_id}:{name}"
        yield event


def _beside(span: Span, kind: str) -> RawEvent:
    event = RawEvent(run_id=span.trace_id, kind=kind, agent=span.facts.get("agent"), trace_id=span.trace_id)
    event.parent_span_id = span.span_id
    return event


FORMAT = Format(
    name="langsmith",
    version=4,
    title="LangSmith runs: JSON lines, Parquet bulk exports, query answers, wire batches (post and patch)",
    recognised_by="run_type with dotted_order, trace_id or parent_run_id; post and patch lists of such runs",
    proved_on="a wire batch of the JavaScript SDK; hand-written runs in the documented columns",
    claim=claim,
    read=read,
    rank=57,
)
