"""What can be had from one JSON document that was cut off or damaged in the middle."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from agentlens.model.raw import ABSENT
from agentlens.readers.decode import attempt

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\],:]', re.DOTALL)
_CLOSE = {b"{": b"}", b"[": b"]"}


@dataclass(frozen=True, slots=True)
class Saved:
    """A document made of the intact head of a damaged one.

    ``value`` is `ABSENT` where not even one record is whole. ``stop`` is the byte behind the last whole
    record.
    """

    value: Any
    stop: int


def salvage(data: bytes, record_keys: tuple[str, ...] = ()) -> Saved:
    """Keep the whole elements of the arrays under ``record_keys``; drop what comes after the last of them.

    The empty key ``""`` names a top-level array. Without keys, any whole element or member is kept: that
    is for a look at the head of a long document, not for reading it.

    >>> salvage(b'{"spans": [{"id": 1}, {"id": 2}, {"id"', ("spans",)).value
    {'spans': [{'id': 1}, {'id': 2}]}
    """
    keys = frozenset(key.encode() for key in record_keys)
    stop, closing = _last_whole(data, keys)
    if not stop:
        return Saved(ABSENT, 0)
    return Saved(attempt(data[:stop] + closing), stop)


def _last_whole(data: bytes, keys: frozenset[bytes]) -> tuple[int, bytes]:
    """Return where the last whole record ends, and the brackets that close the document there."""
    stack: list[tuple[bytes, bytes]] = []  # bracket, key it stands under
    best = (0, b"")
    text, key = b"", b""  # last string seen; last string that was followed by a colon
    end_of_value = 0
    for match in _TOKEN.finditer(data):
        token = match.group()
        if token == b'"':
            break  # a text that never ends
        if token[:1] == b'"':
            text = token[1:-1]
            end_of_value = match.end()
        elif token == b":":
            key = text
        elif token in _CLOSE:
            stack.append((token, key))
            key = b"[]"  # of an array right inside an array; a colon gives the real one
        elif token == b",":
            # a bare number or literal ends at the comma; cutting before it keeps it
            if stack and not keys:
                best = (match.start(), _brackets(stack))
        else:
            if not stack or _CLOSE[stack[-1][0]] != token:
                break
            stack.pop()
            end_of_value = match.end()
            if not stack:
                return end_of_value, b""
            if not keys or (stack[-1][0] == b"[" and stack[-1][1] in keys):
                best = (end_of_value, _brackets(stack))
    return best


def _brackets(stack: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(_CLOSE[bracket] for bracket, _ in reversed(stack))
