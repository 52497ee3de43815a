"""OTLP requests as protobuf bytes, written field by field from the objects of OTLP JSON."""

from __future__ import annotations

import struct
from typing import Any


def varint(value: int) -> bytes:
    """Return a whole number, seven bits a byte."""
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def part(number: int, body: bytes) -> bytes:
    """Return a field of bytes."""
    return varint(number << 3 | 2) + varint(len(body)) + body


def whole(number: int, value: int) -> bytes:
    """Return a field of a whole number."""
    return varint(number << 3) + varint(value)


def fixed(number: int, value: int) -> bytes:
    """Return a field of eight bytes."""
    return varint(number << 3 | 1) + struct.pack("<Q", value)


def value(union: dict[str, Any]) -> bytes:
    """Return an ``AnyValue``."""
    ((name, told),) = union.items()
    if name == "stringValue":
        return part(1, told.encode())
    if name == "boolValue":
        return whole(2, int(told))
    if name == "intValue":
        return whole(3, int(told))
    if name == "doubleValue":
        return varint(4 << 3 | 1) + struct.pack("<d", told)
    if name == "arrayValue":
        return part(5, b"".join(part(1, value(item)) for item in told["values"]))
    return part(6, b"".join(part(1, pair(item)) for item in told["values"]))


def pair(one: dict[str, Any]) -> bytes:
    """Return a ``KeyValue``."""
    return part(1, one["key"].encode()) + part(2, value(one["value"]))


def attributes(number: int, found: list[dict[str, Any]]) -> bytes:
    """Return attributes as fields of this number."""
    return b"".join(part(number, pair(one)) for one in found)


def span(one: dict[str, Any]) -> bytes:
    """Return a ``Span``; a flag that readers do not know stands in the middle."""
    made = part(1, bytes.fromhex(one["traceId"])) + part(2, bytes.fromhex(one["spanId"]))
    if "parentSpanId" in one:
        made += part(4, bytes.fromhex(one["parentSpanId"]))
    made += part(5, one["name"].encode()) + whole(6, one["kind"]) + b"\x85\x01" + b"\1\2\3\4"
    made += fixed(7, int(one["startTimeUnixNano"])) + fixed(8, int(one["endTimeUnixNano"]))
    made += attributes(9, one["attributes"])
    for event in one.get("events", []):
        body = fixed(1, int(event.get("timeUnixNano", 0))) + part(2, event["name"].encode())
        made += part(11, body + attributes(3, event["attributes"]))
    for link in one.get("links", []):
        made += part(13, part(1, bytes.fromhex(link["traceId"])))
    status = one["status"]
    return made + part(15, part(2, status.get("message", "").encode()) + whole(3, status["code"]))


def log(one: dict[str, Any]) -> bytes:
    """Return a ``LogRecord``."""
    made = fixed(1, int(one["timeUnixNano"])) if "timeUnixNano" in one else b""
    made += whole(2, 9)
    if one.get("body"):
        made += part(5, value(one["body"]))
    made += attributes(6, one["attributes"])
    for number, name in ((9, "traceId"), (10, "spanId")):
        if name in one:
            made += part(number, bytes.fromhex(one[name]))
    if "observedTimeUnixNano" in one:
        made += fixed(11, int(one["observedTimeUnixNano"]))
    return made + (part(12, one["eventName"].encode()) if one.get("eventName") else b"")


def request(one: dict[str, Any]) -> bytes:
    """Return an export request of spans or of logs."""
    made = b""
    for group in one.get("resourceSpans", one.get("resourceLogs", [])):
        body = part(1, attributes(1, group.get("resource", {}).get("attributes", [])))
        for scope in group.get("scopeSpans", group.get("scopeLogs", [])):
            records = [span(item) for item in scope.get("spans", [])]
            records += [log(item) for item in scope.get("logRecords", [])]
            body += part(2, part(1, part(1, b"hand")) + b"".join(part(2, record) for record in records))
        made += part(1, body)
    return made


def prefixed(*messages: bytes) -> bytes:
    """Return messages that each follow their length in four bytes."""
    return b"".join(struct.pack(">I", len(message)) + message for message in messages)
