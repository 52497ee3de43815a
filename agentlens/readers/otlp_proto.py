"""OTLP in protobuf: one request a file, or one behind the other with their lengths, as the collector writes them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers import decode
from agentlens.readers.base import Format, Record, Report
from agentlens.readers.inflate import Damage, opened
from agentlens.readers.otlp import Line
from agentlens.readers.spans import NAMES, Spans
from agentlens.readers.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.source import Head, Source

_NONE: Final[frozenset[str]] = frozenset()
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


def claim(head: Head) -> int:
    """Claim bytes that hold at least one span or log record, be the file cut there or not."""
    data = head.data
    if head.magic or head.values or len(data) < 8:
        return 0
    if _holds_spans(data, 0, len(data)):
        return 90
    first = data[4:8]
    if not _is_prefixed(data) or not (first[:1] in {b"\n", b"{"} or first == _ZSTD):
        return 0
    stop = min(len(data), 4 + int.from_bytes(data[:4], "big"))
    if first == _ZSTD:
        return 80 if b"\x00" in data[:2] else 0
    return 90 if (first[:1] == b"{" and b'"resource' in data[:256]) or _holds_spans(data, 4, stop) else 0


def _is_prefixed(data: bytes) -> bool:
    return data[:1] in {b"\0", b"\1", b"\2", b"\3", b"\4"} and int.from_bytes(data[:4], "big") > 0


def _holds_spans(data: bytes, start: int, stop: int) -> bool:
    if data[start : start + 1] != b"\n":
        return False
    wire = Wire(data, _NONE)
    for _ in wire.groups(start, stop):
        if wire.seen:
            break
    return wire.seen


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of every span, in file order; a fault names the byte of the file it stands at."""
    spans = Spans(report)
    data = source.read(report)
    if not data:
        report.quarantine(0, "the file is empty", "byte")
    elif _is_prefixed(data) and data[:1] != b"\n":
        yield from _messages(data, spans, report)
    else:
        yield from _events(data, 0, len(data), 0, Line(spans, report, 0))


def _messages(data: bytes, spans: Spans, report: Report) -> Iterator[Record]:
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
        line = Line(spans, report, number, unit="record")
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
            scope["spans"] = [record for record in records if "timeUnixNano" not in record]
            scope["logRecords"] = [record for record in records if "timeUnixNano" in record]
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
    version=2,
    title="OTLP protobuf (one request, or length-prefixed messages of the collector's file exporter)",
    recognised_by="a protobuf request whose spans have trace ids of 16 bytes",
    proved_on="an openinference export of one agent run",
    claim=claim,
    read=read,
    rank=70,
)
