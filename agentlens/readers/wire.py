"""The protobuf wire format, as far as OTLP traces need it: bytes to the same objects that OTLP JSON holds.

No generated classes: the decoder keeps what is whole of a file that was cut, and says where it was.
Field numbers are those of ``opentelemetry/proto`` (trace/v1, logs/v1, common/v1, resource/v1), release 1.x.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

_Made: TypeAlias = dict[str, Any]
_DEPTH: Final = 40
_RECORD: Final = "span or log"
LOG: Final = "is a log record"
"""Member that a log record has and a span has not."""
_TRACE_ID: Final = b"\x0a\x10"  # field 1, sixteen bytes
_HEX: Final = 32
_LOG: Final = frozenset({b"\x09", b"\x10", b"\x1a", b"\x2a", b"\x32", b"\x59"})
"""First bytes of a log record: its time or what comes after; a span begins with its trace id."""
_FIRST: Final = 946_684_800 * 10**9  # 2000
_LAST: Final = 4_102_444_800 * 10**9  # 2100
_KEY: Final = 0x0A  # field 1, bytes
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """Bytes that are no protobuf message of the kind expected."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its JSON name, how its bytes are read, and whether it may stand several times."""

    name: str
    kind: str  # "text", "hex", "bytes", "integer", "flag", "time", "double", or the name of a message
    many: bool = False


_MESSAGES: Final[dict[str, dict[int, Field]]] = {
    "resource spans": {
        1: Field("resource", "resource"),
        2: Field("scopeSpans", "scope spans", many=True),
        1000: Field("scopeSpans", "scope spans", many=True),  # instrumentation_library_spans, before 0.15
    },
    "scope spans": {2: Field("spans", _RECORD, many=True)},
    "resource": {1: Field("attributes", "pair", many=True)},
    "span": {
        1: Field("traceId", "hex"),
        2: Field("spanId", "hex"),
        4: Field("parentSpanId", "hex"),
        5: Field("name", "text"),
        6: Field("kind", "integer"),
        7: Field("startTimeUnixNano", "time"),
        8: Field("endTimeUnixNano", "time"),
        9: Field("attributes", "span pair", many=True),
        11: Field("events", "event", many=True),
        13: Field("links", "link", many=True),
        15: Field("status", "status"),
    },
    "event": {
        1: Field("timeUnixNano", "time"),
        2: Field("name", "text"),
        3: Field("attributes", "pair", many=True),
    },
    "link": {1: Field("traceId", "hex"), 2: Field("spanId", "hex")},
    "status": {2: Field("message", "text"), 3: Field("code", "integer")},
    "log": {
        1: Field("timeUnixNano", "time"),
        5: Field("body", "value"),
        6: Field("attributes", "pair", many=True),
        9: Field("traceId", "hex"),
        10: Field("spanId", "hex"),
        11: Field("observedTimeUnixNano", "time"),
        12: Field("eventName", "text"),
    },
    "pair": {1: Field("key", "text"), 2: Field("value", "value")},
    "value": {
        1: Field("stringValue", "text"),
        2: Field("boolValue", "flag"),
        3: Field("intValue", "integer"),
        4: Field("doubleValue", "double"),
        5: Field("arrayValue", "array"),
        6: Field("kvlistValue", "pairs"),
        7: Field("bytesValue", "bytes"),
    },
    "array": {1: Field("values", "value", many=True)},
    "pairs": {1: Field("values", "pair", many=True)},
}
_HOLDERS: Final = frozenset({"resource spans", "scope spans"})
"""Messages whose whole parts are kept where one is cut off or damaged."""
_WIRES: Final = {"integer": _VARINT, "flag": _VARINT, "time": _FIXED64, "double": _FIXED64}


@dataclass(slots=True)
class Wire:
    """Decodes requests; ``faults`` gathers ``(byte, reason)`` of what was left out.

    ``wanted``: names of the span attributes whose values are decoded, None for all. ``seen``: there was a trace
    id of 16 bytes where a span or a log record has its own. ``spans`` and ``logs`` count what there was;
    of log records only those with an id of a trace or a time of this century.
    """

    data: bytes
    wanted: Container[str] | None = None
    seen: bool = False
    spans: int = 0
    logs: int = 0
    faults: list[tuple[int, str]] = field(default_factory=list)

    def groups(self, start: int, stop: int) -> Iterator[_Made]:
        """Yield the resources with spans (or logs) of the request between two bytes, whatever of them is whole."""
        at = start
        while at < stop:
            begun = at
            try:
                number, wire, at, end = self._field(at, stop)
            except WireError as error:
                self._lost(begun, stop, error)
                return
            faults = len(self.faults)
            if number == 1:
                try:
                    yield self._value("resource spans", wire, at, min(end, stop), _DEPTH)
                except WireError as error:
                    self.faults.append((begun, f"a record that is not OTLP: {error}"))
            if end > stop and len(self.faults) == faults:  # cut between two records
                self.faults.append((begun, f"cut off: {end - stop} bytes of a message are missing"))
            at = end

    def _message(self, kind: str, at: int, stop: int, depth: int) -> _Made:
        if not depth:
            raise WireError("nested too deeply")
        fields = _MESSAGES[kind]
        if kind in _HOLDERS:
            return self._holder(fields, at, stop, depth)
        data = self.data
        made: _Made = {}
        while at < stop:
            number, wire, at, end = self._field(at, stop)
            if end > stop:
                raise WireError(f"cut off: {end - stop} bytes are missing")
            found = fields.get(number)
            if found is not None:
                name = found.name
                if found.kind == "text" and wire == _BYTES:
                    made[name] = data[at:end].decode("utf-8", "replace")
                elif not found.many:
                    made[name] = self._value(found.kind, wire, at, end, depth - 1)
                elif name in made:
                    made[name].append(self._value(found.kind, wire, at, end, depth - 1))
                else:
                    made[name] = [self._value(found.kind, wire, at, end, depth - 1)]
            at = end
        return made

    def _holder(self, fields: dict[int, Field], at: int, stop: int, depth: int) -> _Made:
        """Return a message that holds records; what is wrong with one of them costs only that one."""
        made: _Made = {}
        while at < stop:
            begun = at
            try:
                number, wire, at, end = self._field(at, stop)
            except WireError as error:
                self._lost(begun, stop, error)
                break
            found = fields.get(number)
            if found is not None and end > stop and found.kind not in _HOLDERS:
                self.faults.append((begun, f"cut off: {end - stop} bytes of a record are missing"))
                self.seen = self.seen or self.data[at : at + 2] == _TRACE_ID
                break
            if found is not None:
                try:
                    value = self._value(found.kind, wire, at, min(end, stop), depth - 1)
                except WireError as error:
                    self.faults.append((begun, f"a record that is not OTLP: {error}"))
                else:
                    if found.kind == _RECORD:
                        self._count(value)
                    if found.many:
                        made.setdefault(found.name, []).append(value)
                    else:
                        made[found.name] = value
            at = end
        return made

    def _count(self, record: _Made) -> None:
        traced = len(record.get("traceId", "")) == _HEX
        self.seen = self.seen or traced
        if LOG not in record:
            self.spans += traced
            return
        at = int(record["timeUnixNano"]) or int(record.get("observedTimeUnixNano", "0"))
        self.logs += traced or _FIRST < at < _LAST

    def _lost(self, begun: int, stop: int, error: WireError) -> None:
        self.faults.append((begun, f"{error}; the {stop - begun} bytes from here on were set aside"))

    def _pair(self, at: int, stop: int, depth: int) -> _Made:
        """Return an attribute of a span; the value of one that nobody wants is not looked at."""
        _, wire, begun, end = self._field(at, stop)
        if self.wanted is not None and self.data[at] == _KEY and wire == _BYTES and end <= stop:
            key = self.data[begun:end].decode("utf-8", "replace")
            if key not in self.wanted:
                return {"key": key, "value": None}
        return self._message("pair", at, stop, depth)

    def _field(self, at: int, stop: int) -> tuple[int, int, int, int]:
        """Return number and wire type of the field at ``at``, and where its value begins and ends."""
        data = self.data
        tag = data[at]
        if tag < 128:
            at += 1
        else:
            tag, at = self._varint(at, stop)
        number, wire = tag >> 3, tag & 7
        if not number:
            raise WireError("no field has the number 0")
        if wire == _BYTES:
            if at < stop and (size := data[at]) < 128:
                at += 1
            else:
                size, at = self._varint(at, stop)
            return number, wire, at, at + size
        if wire == _VARINT:
            return number, wire, at, self._varint(at, stop)[1]
        if wire in {_FIXED64, _FIXED32}:
            end = at + (8 if wire == _FIXED64 else 4)
            if end > stop:
                raise WireError("cut off inside a number")
            return number, wire, at, end
        raise WireError(f"there is no wire type {wire}")

    def _varint(self, at: int, stop: int) -> tuple[int, int]:
        value = shift = 0
        while at < stop and shift < 70:
            byte = self.data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value, at
            shift += 7
        raise WireError("cut off inside a number" if at >= stop else "a number of more than ten bytes")

    def _value(self, kind: str, wire: int, at: int, end: int, depth: int) -> Any:
        if wire != _WIRES.get(kind, _BYTES):
            raise WireError(f"wire type {wire} for {kind}")
        if kind == "span pair":
            return self._pair(at, end, depth)
        if kind in _MESSAGES:
            return self._message(kind, at, end, depth)
        if kind == _RECORD:
            if self.data[at : at + 1] not in _LOG:
                return self._message("span", at, end, depth)
            return {"timeUnixNano": "0", **self._message("log", at, end, depth), LOG: True}
        if kind == "hex":
            return self.data[at:end].hex()
        if kind == "time":
            return str(int.from_bytes(self.data[at:end], "little"))
        if kind == "double":
            return struct.unpack_from("<d", self.data, at)[0]
        if kind == "text":
            return self.data[at:end].decode("utf-8", "replace")
        if kind == "bytes":
            return base64.b64encode(self.data[at:end]).decode()
        value = self._varint(at, end)[0]
        if kind == "flag":
            return value != 0
        return value - (1 << 64) if value >> 63 else value
