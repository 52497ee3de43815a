"""OTLP JSON: one request a line, a single document, an array of requests, and Tempo's spelling of them."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers import decode
from agentlens.readers.any_values import pairs, unions, value_of
from agentlens.readers.base import Format, Record, Report
from agentlens.readers.flat_messages import FLAT
from agentlens.readers.frameworks import DETAILS
from agentlens.readers.ids import hex_id, micros
from agentlens.readers.otlp_logs import told_calls
from agentlens.readers.plain_spans import linked
from agentlens.readers.span_values import text_of
from agentlens.readers.spans import WANTED, Span, Spans, facts_of
from agentlens.readers.verdicts import verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentlens.readers.source import Head, Source

_Unit: TypeAlias = Literal["line", "record"]
_RESOURCES: Final = ("resourceSpans", "resource_spans", "batches", "resourceLogs", "resource_logs")
_WRAPPERS: Final = ("trace", "traces", "data", "result")
_SCOPES: Final = (
    "scopeSpans",
    "scope_spans",
    "instrumentationLibrarySpans",
    "instrumentation_library_spans",
    "scopeLogs",
    "scope_logs",
)
_RECORDS: Final = ("spans", "logRecords", "log_records")
_STATUS: Final = {
    1: "ok",
    2: "error",
    "STATUS_CODE_OK": "ok",
    "STATUS_CODE_ERROR": "error",
    "OK": "ok",
    "ERROR": "error",
}
_CAMEL: Final = {
    "trace_id": "traceId",
    "span_id": "spanId",
    "parent_span_id": "parentSpanId",
    "start_time_unix_nano": "startTimeUnixNano",
    "end_time_unix_nano": "endTimeUnixNano",
    "time_unix_nano": "timeUnixNano",
    "event_name": "eventName",
}
_CLIENT: Final = frozenset({3, "3", "SPAN_KIND_CLIENT", "CLIENT"})
_CONSUMER: Final = frozenset({5, "5", "SPAN_KIND_CONSUMER", "CONSUMER"})
_KEY_AND_VALUE: Final = itemgetter("key", "value")
_CODES: Final = frozenset({int, str})
_NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16
_NOTES: Final = frozenset({*DETAILS, "gen_ai.evaluation.result"})
_STEP: Final = 8
"""Events of one span take places from here to the next: itself, a turn, and what was noted on it."""


def claim(head: Head) -> int:
    """Claim whatever holds resources with spans or logs, under any of the spellings in use."""
    return 95 if any(requests(value) for value in head.values) else 0


def requests(value: Any) -> list[dict[str, Any]]:
    """Return the requests in a decoded line or document."""
    if isinstance(value, dict):
        if any(isinstance(value.get(name), list) for name in _RESOURCES):
            return [value]
        inner = next((value[name] for name in _WRAPPERS if name in value), None)
        return requests(inner) if isinstance(inner, (dict, list)) else []
    if isinstance(value, list):
        return [request for item in value if isinstance(item, dict) for request in requests(item)]
    return []


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of every span and evaluation, in file order."""
    spans = Spans(report)
    if source.is_lines():
        for number, line in source.lines(report):
            value = decode.loads(line, report, number, exact=False)
            if value is ABSENT:
                continue
            faults = len(report.faults)
            try:
                yield from list(Line(spans, report, number, exact=False).events(value))
            except _RoundedError:
                del report.faults[faults:]  # they are found again
                yield from Line(spans, report, number).events(decode.loads(line, report, number))
        return
    value = source.document(report, _RECORDS)
    if value is not ABSENT:
        yield from Line(spans, report, 0).events(value)


class _RoundedError(Exception):
    """An id is a float: a whole number of 128 bits, decoded fast, lost its last digits."""


class Line:
    """The records of one line (or of the whole document), numbered through."""

    def __init__(
        self, spans: Spans, report: Report, number: int, *, exact: bool = True, unit: _Unit = "line"
    ) -> None:
        self.spans = spans
        self.unit = unit
        self.exact = exact
        self.report = report
        self.number = number
        self.order = 0

    def fault(self, reason: str) -> None:
        """Set aside what stands at this place."""
        if self.number:
            self.report.quarantine(self.number, reason, self.unit)
        else:
            self.report.quarantine(self.order // _STEP, reason, "record")

    def events(self, value: Any) -> Iterator[RawEvent]:
        """Yield the events of a decoded request, of several, or of what they are wrapped in."""
        found = requests(value)
        if not found:
            self.fault("no resourceSpans, batches or resourceLogs here")
        for request in found:
            for name in _RESOURCES:
                for resource in self.dicts(request.get(name), name):
                    yield from self.resource(resource)

    def resource(self, resource: dict[str, Any]) -> Iterator[RawEvent]:
        """Yield the events of one resource's spans and logs."""
        about = resource.get("resource")
        told = dict(pairs(about.get("attributes"))) if isinstance(about, dict) else {}
        service = told.get("service.name")
        version, session = told.get("service.version"), told.get("session.id")
        shared = (
            service if isinstance(service, str) and not service.startswith("unknown_service") else None,
            version if isinstance(version, str) else None,
            session if isinstance(session, str) else None,
        )
        for scopes in _SCOPES:
            if scopes not in resource:
                continue
            for scope in self.dicts(resource[scopes], scopes):
                spans = scope.get("spans")
                for span in spans if isinstance(spans, list) else self.dicts(spans, "spans"):
                    if isinstance(span, dict):
                        yield from self.span(span, shared)
                    elif span is not None:
                        self.fault(f"spans: expected an object, found {type(span).__name__}")
                for name in _RECORDS[1:]:
                    for log in self.dicts(scope.get(name), name):
                        yield from self.log(log, shared)

    def dicts(self, value: Any, name: str) -> Iterator[dict[str, Any]]:
        """Yield the objects of an array; anything else is a fault, null (a record set aside before) is none."""
        if value is None:
            return
        if not isinstance(value, list):
            self.fault(f"{name}: expected an array, found {type(value).__name__}")
            return
        for item in value:
            if isinstance(item, dict):
                yield item
            elif item is not None:
                self.fault(f"{name}: expected an object, found {type(item).__name__}")

    def span(self, raw: dict[str, Any], shared: tuple[str | None, str | None, str | None]) -> list[RawEvent]:
        """Return the events of one span; ``shared``: service, version and session of its resource."""
        if "traceId" not in raw:
            raw = {_CAMEL.get(key, key): value for key, value in raw.items()}
        get = raw.get
        trace: Any = get("traceId")
        own: Any = get("spanId")
        above: Any = get("parentSpanId")
        start: Any = get("startTimeUnixNano")
        end: Any = get("endTimeUnixNano")
        if not self.exact and float in {trace.__class__, own.__class__, above.__class__}:
            raise _RoundedError
        status, name, notes, links = get("status"), get("name"), get("events"), get("links")
        # the usual spelling of ids and times is taken at once, any other by the functions that know them all
        trace_id = (
            trace.lower()
            if trace.__class__ is str and len(trace) == 32 and trace != _NO_TRACE
            else hex_id(trace, 16)
        )
        if trace_id is None:
            self.fault("a span without a readable traceId")
            return []
        code = message = None
        if status.__class__ is dict:
            code, message = status.get("code"), status.get("message")
        span = Span(
            trace_id,
            own.lower() if own.__class__ is str and len(own) == 16 and own != _NO_SPAN else hex_id(own, 8),
            above.lower()
            if above.__class__ is str and len(above) == 16 and above != _NO_SPAN
            else hex_id(above, 8),
            name if name.__class__ is str else "",
            int(start) // 1000
            if start.__class__ is str and len(start) == 19 and start.isdecimal()
            else micros(start, self.report),
            int(end) // 1000
            if end.__class__ is str and len(end) == 19 and end.isdecimal()
            else micros(end, self.report),
            facts(get("attributes")),
            _STATUS.get(code, "") if code.__class__ in _CODES else "",
            message if message.__class__ is str else "",
            list(self.notes(notes)) if notes else [],
            None,
            *shared,
        )
        if links:
            span.linked_trace, span.linked_span = linked(links, trace_id)
        kind = get("kind")
        span.client = kind.__class__ in _CODES and kind in _CLIENT
        span.consumer = kind.__class__ in _CODES and kind in _CONSUMER
        order = self.order
        self.order = order + _STEP
        return self.spans.events(span, self.number, order)

    def notes(self, events: Any) -> Iterator[tuple[str, int | None, dict[str, Any]]]:
        """Yield those of a span's own events that matter."""
        for event in self.dicts(events, "events"):
            name = event.get("name")
            if isinstance(name, str) and name in _NOTES:
                told = dict(pairs(event.get("attributes")))
                found = facts_of(told.items())
                if name in DETAILS:
                    found["detail"] = told.get(DETAILS[name])
                yield name, micros(event.get("timeUnixNano", event.get("time_unix_nano")), self.report), found

    def log(
        self, raw: dict[str, Any], shared: tuple[str | None, str | None, str | None]
    ) -> Iterator[RawEvent]:
        """Yield the verdict of an evaluation, or what is told of calls; other logs are counted by name."""
        told = dict(pairs(raw.get("attributes")))
        name = raw.get("eventName") or raw.get("event_name") or told.get("event.name")
        order, self.order = self.order, self.order + _STEP
        if name != "gen_ai.evaluation.result":
            if isinstance(name, str) and (kept := self._calls(raw, name, told, shared[2], order)):
                yield from kept
                return
            self.report.unknown[f"log record {name if isinstance(name, str) else ''}".strip()[:80]] += 1
            return
        trace = raw.get("traceId") or raw.get("trace_id")
        if not self.exact and isinstance(trace, float):
            raise _RoundedError
        trace_id = hex_id(trace, 16)
        if trace_id is None:
            self.fault("an evaluation without a readable traceId")
            return
        found = facts_of(told.items())
        session = found.get("session")
        at = micros(raw.get("timeUnixNano", raw.get("time_unix_nano")), self.report)
        event = RawEvent(
            run_id=trace_id,
            trace_id=trace_id,
            agent=None,
            position=(self.number, order),
            at=at,
            session=session if isinstance(session, str) else shared[2],
        )
        yield verdict(event, found, hex_id(raw.get("spanId") or raw.get("span_id"), 8))

    def _calls(
        self, raw: dict[str, Any], name: str, told: dict[str, Any], session: str | None, order: int
    ) -> list[RawEvent]:
        """Return a log event for every call that a record speaks of, in the lane of the span it stands on."""
        trace = raw.get("traceId") or raw.get("trace_id")
        if not self.exact and isinstance(trace, float):
            raise _RoundedError
        session = text_of(told.get("session.id")) or session
        trace_id = hex_id(trace, 16)
        if not trace_id and not session:
            return []
        at = micros(raw.get("timeUnixNano", raw.get("time_unix_nano")), self.report)
        above = hex_id(raw.get("spanId") or raw.get("span_id"), 8) if trace_id else None
        return [
            RawEvent(
                run_id=trace_id or session or "",
                trace_id=trace_id,
                agent=None if trace_id else "",
                kind="log",
                position=(self.number, order),
                at=at,
                session=session if trace_id else None,
                parent_span_id=above,
                **fact,
            )
            for fact in told_calls(name, told, value_of(raw.get("body")))
        ]


def facts(attributes: Any) -> dict[str, Any]:
    """Pick the facts out of a list of OTLP attributes in one pass, decoding only the values that are wanted."""
    if attributes.__class__ is not list:
        return {}
    try:
        return _facts(map(_KEY_AND_VALUE, attributes))
    except (TypeError, KeyError):  # an attribute of the wrong type costs only itself
        return _facts(unions(attributes))


def _facts(unions: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    ranks: dict[str, int] = {}
    wanted_of = WANTED.get
    for name, union in unions:
        wanted = wanted_of(name)
        if wanted is None:
            if name.__class__ is str and name.startswith(FLAT):
                found.setdefault("flat", []).append((name, value_of(union)))
            continue
        fact, rank, textual = wanted
        if fact in ranks and rank >= ranks[fact]:
            continue
        value = union.get("stringValue") if union.__class__ is dict else None
        if value.__class__ is not str:
            value = value_of(union)
            if textual:
                value = text_of(value)
        if value is not None and (value != "" or not textual):
            found[fact] = value
            ranks[fact] = rank
    return found


FORMAT = Format(
    name="otlp-json",
    version=4,
    title="OTLP JSON (lines, documents, Tempo) with GenAI, OpenInference and Traceloop attributes",
    recognised_by="resourceSpans, batches or resourceLogs",
    proved_on="openinference and traceloop exports of one agent run, a Tempo download, the official example",
    claim=claim,
    read=read,
    lines=True,
    rank=70,
)
