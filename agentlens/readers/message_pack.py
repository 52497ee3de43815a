"""MessagePack as graph checkpoints hold it, decoded to plain values: no class is looked up, nothing is called.

An extension names a class and how to build it. What it would be built from is returned instead. The same goes
for the constructor calls that LangChain writes in JSON.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from agentlens.readers.reprs import message_in

_DEPTH: Final = 200
_SIZED: Final = {
    0xC4: (">B", "bytes"),
    0xC5: (">H", "bytes"),
    0xC6: (">I", "bytes"),
    0xC7: (">B", "ext"),
    0xC8: (">H", "ext"),
    0xC9: (">I", "ext"),
    0xD9: (">B", "text"),
    0xDA: (">H", "text"),
    0xDB: (">I", "text"),
    0xDC: (">H", "list"),
    0xDD: (">I", "list"),
    0xDE: (">H", "map"),
    0xDF: (">I", "map"),
}
_NUMBERS: Final = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}
_POSITIONAL: Final = {"Send": ("node", "arg"), "Interrupt": ("value", "id")}
"""Classes built from a list of arguments, and what the arguments are called."""


_CONSTRUCTED: Final = {
    "AIMessage": "ai",
    "AIMessageChunk": "ai",
    "HumanMessage": "human",
    "ToolMessage": "tool",
    "SystemMessage": "system",
}


class PackedError(ValueError):
    """The bytes are no whole MessagePack value."""


def unpack(data: bytes) -> Any:
    """Decode one value.

    Bytes become text (what is no UTF-8 as U+FFFD), keys become text, NaN and infinities None. An object
    written as an extension becomes the value it was built from, with its class under ``"class"`` where that
    value is an object.

    Raises
    ------
    PackedError
        The value is cut off, nested more than 200 deep, or followed by other bytes.

    Examples
    --------
    >>> unpack(bytes.fromhex("82a16101a162c3"))
    {'a': 1, 'b': True}
    """
    reader = _Reader(data)
    try:
        value = reader.value(0)
    except (struct.error, RecursionError) as error:
        raise PackedError("cut off") from error
    if reader.place != len(data):
        raise PackedError(f"{len(data) - reader.place} bytes too many")
    return value


class _Reader:
    __slots__ = ("data", "place")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    def take(self, size: int) -> bytes:
        piece = self.data[self.place : self.place + size]
        if len(piece) < size:
            raise PackedError("cut off")
        self.place += size
        return piece

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def value(self, depth: int) -> Any:
        if depth > _DEPTH:
            raise PackedError(f"nested more than {_DEPTH} deep")
        mark = self.take(1)[0]
        if mark < 0x80:
            return mark
        if mark >= 0xE0:
            return mark - 0x100
        if mark < 0x90:
            return self.many("map", mark & 0x0F, depth)
        if mark < 0xA0:
            return self.many("list", mark & 0x0F, depth)
        if mark < 0xC0:
            return self.many("text", mark & 0x1F, depth)
        if mark in _CONSTANTS:
            return _CONSTANTS[mark]
        if mark in _NUMBERS:
            found = self.number(_NUMBERS[mark])
            return found if isinstance(found, int) or math.isfinite(found) else None
        if 0xD4 <= mark <= 0xD8:
            return self.many("ext", 1 << (mark - 0xD4), depth)
        if mark not in _SIZED:
            raise PackedError(f"byte {mark:#x} begins no value")
        form, what = _SIZED[mark]
        return self.many(what, self.number(form), depth)

    def many(self, what: str, size: int, depth: int) -> Any:
        if what == "list":
            return [self.value(depth + 1) for _ in range(size)]
        if what == "map":
            return {_key(self.value(depth + 1)): self.value(depth + 1) for _ in range(size)}
        if what == "ext":
            code = self.number(">b")
            return _extension(code, self.take(size))
        return self.take(size).decode("utf-8", "replace")


def _key(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _extension(code: int, data: bytes) -> Any:
    """Return what an object is built from: ``[module, class, argument(s), ...]`` holds it third."""
    if not 0 <= code <= 5:
        return {"extension": code, "size": len(data)}
    told = unpack(data)
    if not isinstance(told, list) or len(told) < 3 or not isinstance(told[1], str):
        return told
    name, built = told[1], told[2]
    if isinstance(built, list) and name in _POSITIONAL:
        built = dict(zip(_POSITIONAL[name], built, strict=False))
    return {"class": name, **built} if isinstance(built, dict) else built


def plain(value: Any) -> Any:
    """Take the wrapping off objects that LangChain serialised as constructor calls, at any depth.

    Messages that a dump shows as Python does become objects too.

    >>> plain({"lc": 1, "type": "constructor", "id": ["m", "AIMessage"], "kwargs": {"content": "x"}})
    {'type': 'ai', 'content': 'x'}
    """
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, str) and value.startswith("content="):
        return message_in(value) or value
    if not isinstance(value, dict):
        return value
    kwargs, names = value.get("kwargs"), value.get("id")
    if "lc" in value and isinstance(kwargs, dict) and isinstance(names, list) and names:
        kind = _CONSTRUCTED.get(str(names[-1]))
        told = {name: plain(item) for name, item in kwargs.items()}
        return {"type": kind, **told} if kind else {"class": str(names[-1]), **told}
    return {name: plain(item) for name, item in value.items()}
