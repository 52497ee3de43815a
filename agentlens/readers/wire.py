"""The protobuf wire format, as far as OTLP traces need it: bytes to the same objects that OTLP JSON holds.

No generated classes: the decoder keeps what is whole of a file that was cut, and says where it was.
Field numbers are those of ``opentelemetry/proto`` (trace/v1, logs/v1, common/v1, resource/v1), release 1.x.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

_Made: TypeAlias = dict[str, Any]
_DEPTH: Final = 40
_TRACE_ID: Final = 32
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
    "request": {1: Field("resourceSpans", "resource spans", many=True)},
    "resource spans": {
        1: Field("resource", "resource"),
        2: Field("scopeSpans", "scope spans", many=True),
        1000: Field("scopeSpans", "scope spans", many=True),  # instrumentation_library_spans, before 0.15
    },
    "scope spans": {2: Field("spans", "span or log", many=True)},
    "resource": {1: Field("attributes", "pair", many=True)},
    "span": {
        1: Field("traceId", "hex"),
        2: Field("spanId", "hex"),
        4: Field("parentSpanId", "hex"),
        5: Field("name", "text"),
        7: Field("startTimeUnixNano", "time"),
        8: Field("endTimeUnixNano", "time"),
        9: Field("attributes", "pair", many=True),
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
        6: Field("attributes", "pair", many=True),
        9: Field("traceId", "hex"),
        10: Field("spanId", "hex"),
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
_HOLDERS: Final = frozenset({"request", "resource spans", "scope spans"})
"""Messages whose whole parts are kept where one is cut off or damaged."""
_WIRES: Final = {"integer": _VARINT, "flag": _VARINT, "time": _FIXED64, "double": _FIXED64}


@dataclass(slots=True)
class Wire:
    """Decodes requests; ``faults`` gathers ``(byte, reason)`` of what was left out.

    ``seen``: there was a trace id of 16 bytes where a span or a log record has its own.
    """

    data: bytes
    seen: bool = False
    faults: list[tuple[int, str]] = field(default_factory=list)

    def request(self, start: int, stop: int) -> _Made:
        """Return the trace (or log) request between two bytes, with whatever of it is whole."""
        return self._message("request", start, stop, _DEPTH)

    def _message(self, kind: str, at: int, stop: int, depth: int) -> _Made:
        if not depth:
            raise WireError("nested too deeply")
        fields = _MESSAGES[kind]
        holder = kind in _HOLDERS
        made: _Made = {}
        while at < stop:
            begun = at
            try:
                number, wire, at, end = self._field(at, stop)
            except WireError as error:
                if not holder:
                    raise
                self.faults.append((begun, f"{error}; the {stop - begun} bytes from here on were set aside"))
                break
            found = fields.get(number)
            if found is None:
                at = end
                continue
            if end > stop:  # only a part is here: what it holds may still be whole
                if not holder:
                    raise WireError(f"cut off: {end - stop} bytes are missing")
                if found.kind not in _HOLDERS:
                    self.faults.append((begun, f"cut off: {end - stop} bytes of a record are missing"))
                    self.seen = self.seen or self.data[at : at + 2] == b"\x0a\x10"
                    break
                end = stop
            if not holder:
                self._put(made, found, self._value(found.kind, wire, at, end, depth - 1))
            else:
                try:
                    self._put(made, found, self._value(found.kind, wire, at, end, depth - 1))
                except WireError as error:
                    self.faults.append((begun, f"a record that is not OTLP: {error}"))
            at = end
            if found.name == "traceId" and len(made["traceId"]) == _TRACE_ID and kind != "link":
                self.seen = True
        return made

    @staticmethod
    def _put(made: _Made, found: Field, value: Any) -> None:
        if not found.many:
            made[found.name] = value
        elif found.name in made:
            made[found.name].append(value)
        else:
            made[found.name] = [value]

    def _field(self, at: int, stop: int) -> tuple[int, int, int, int]:
        """Return number and wire type of the field at ``at``, and where its value begins and ends."""
        tag, at = self._varint(at, stop)
        number, wire = tag >> 3, tag & 7
        if not number:
            raise WireError("no field has the number 0")
        if wire == _VARINT:
            return number, wire, at, self._varint(at, stop)[1]
        if wire == _BYTES:
            size, at = self._varint(at, stop)
            return number, wire, at, at + size
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
        if kind == "text":
            return self.data[at:end].decode("utf-8", "replace")
        if kind in _MESSAGES:
            return self._message(kind, at, end, depth)
        if kind == "span or log":  # a span begins with its trace id, a log record with its time
            return self._message("log" if self.data[at : at + 1] == b"\x09" else "span", at, end, depth)
        if kind == "hex":
            return self.data[at:end].hex()
        if kind == "time":
            return str(int.from_bytes(self.data[at:end], "little"))
        if kind == "double":
            return struct.unpack_from("<d", self.data, at)[0]
        if kind == "bytes":
            return base64.b64encode(self.data[at:end]).decode()
        value = self._varint(at, end)[0]
        if kind == "flag":
            return value != 0
        return value - (1 << 64) if value >> 63 else value
