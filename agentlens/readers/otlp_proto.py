"""OTLP in protobuf: one request a file, or one behind the other with their lengths, as the collector writes them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from agentlens.model.raw import ABSENT
from agentlens.readers import decode
from agentlens.readers.base import Format, Record, Report
from agentlens.readers.inflate import Damage, opened
from agentlens.readers.otlp import Line
from agentlens.readers.spans import NAMES, Spans
from agentlens.readers.wire import LOG, Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agentlens.readers.source import Head, Source

    Made: TypeAlias = Callable[[Spans, Report, int], Line]

_NONE: Final[frozenset[str]] = frozenset()
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


def claim(head: Head) -> int:
    """Claim bytes that hold at least one span or log record, be the file cut there or not."""
    if head.magic or len(head.data) < 8:
        return 0
    first = begun(head.data)
    if first[:1] == b"{":
        return 90 if b'"resource' in first[:256] else 0
    spans, logs = held(first)
    if spans or logs:
        return 90
    return 80 if head.data[4:8] == _ZSTD and b"\x00" in head.data[:2] else 0


def begun(data: bytes) -> bytes:
    """Return the first message of a file, in protobuf or JSON, as far as it is there; empty where it is neither."""
    if data[:1] == b"\n" and any(held(data)):
        return data
    if not _is_prefixed(data):
        return b""
    stop = min(len(data), 4 + int.from_bytes(data[:4], "big"))
    if data[4:8] == _ZSTD:
        return _inflated(data[4:stop], 0, Report())
    return data[4:stop] if data[4:5] in {b"\n", b"{"} else b""


def _is_prefixed(data: bytes) -> bool:
    return data[:1] in {b"\0", b"\1", b"\2", b"\3", b"\4"} and int.from_bytes(data[:4], "big") > 0


def held(data: bytes) -> tuple[bool, bool]:
    """Say whether the first resources of a request, which may be cut off, hold spans, and whether log records."""
    if data[:1] != b"\n":
        return False, False
    wire = Wire(data, _NONE)
    for _ in wire.groups(0, len(data)):
        if wire.spans or wire.logs:
            break
    cut = (
        wire.seen and not wire.spans and not wire.logs
    )  # the first span of a request is longer than what is here
    return wire.spans > 0 or cut, wire.logs > 0


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of every span, in file order; a fault names the byte of the file it stands at."""
    yield from requests(source, report, Line)


def requests(source: Source, report: Report, line: Made) -> Iterator[Record]:
    """Yield what ``line`` makes of the requests of a source, one message a line."""
    spans = Spans(report)
    data = source.read(report)
    if not data:
        report.quarantine(0, "the file is empty", "byte")
    elif _is_prefixed(data) and data[:1] != b"\n":
        yield from _messages(data, spans, report, line)
    else:
        yield from _events(data, 0, len(data), 0, line(spans, report, 0))


def _messages(data: bytes, spans: Spans, report: Report, made: Made) -> Iterator[Record]:
    """Yield the events of messages that each follow their length in four bytes, largest first."""
    at, number = 0, 0
    while at < len(data):
        number += 1
        size = int.from_bytes(data[at : at + 4], "big")
        begun, at = at, at + 4
        stop = min(at + size, len(data))
        if at + size > len(data):
            report.quarantine(
                begun, f"cut off: {at + size - len(data)} bytes of a message are missing", "byte"
            )
        line = made(spans, report, number)
        line.unit = "record"
        first = data[at : at + 4]
        if first == _ZSTD:
            plain = _inflated(data[at:stop], begun, report)
            yield from _one(plain, 0, len(plain), begun, line)
        else:
            yield from _one(data, at, stop, 0, line)
        at = stop


def _one(data: bytes, at: int, stop: int, offset: int, line: Line) -> Iterator[Record]:
    if data[at : at + 1] == b"{":
        value: Any = decode.loads(data[at:stop], line.report, offset + at, "byte")
        if value is not ABSENT:
            yield from line.events(value)
    else:
        yield from _events(data, at, stop, offset, line)


def _events(data: bytes, at: int, stop: int, offset: int, line: Line) -> Iterator[Record]:
    wire = Wire(data, NAMES)
    empty = True
    for group in wire.groups(at, stop):
        empty = False
        for scope in group.get("scopeSpans", ()):
            records = scope.get("spans", [])
            scope["spans"] = [record for record in records if LOG not in record]
            scope["logRecords"] = [record for record in records if LOG in record]
        yield from line.resource(group)
    for position, reason in wire.faults:
        line.report.quarantine(offset + position, reason, "byte")
    if empty and not wire.faults and stop > at:
        line.report.quarantine(offset + at, "no resource spans here", "byte")


def _inflated(data: bytes, begun: int, report: Report) -> bytes:
    parts: list[bytes] = []
    with opened(io.BufferedReader(io.BytesIO(data))) as stream:
        try:
            while block := stream.read1(1 << 20):
                parts.append(block)
        except Damage as damage:
            report.quarantine(begun, str(damage), "byte")
    return b"".join(parts)


FORMAT = Format(
    name="otlp-proto",
    version=4,
    title="OTLP protobuf (one request, or length-prefixed messages of the collector's file exporter)",
    recognised_by="a protobuf request whose spans have trace ids of 16 bytes",
    proved_on="an openinference export of one agent run",
    claim=claim,
    read=read,
    rank=70,
)
