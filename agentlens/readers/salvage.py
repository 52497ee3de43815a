"""What can be had from one JSON document that was cut off or damaged in the middle."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from agentlens.model.raw import ABSENT
from agentlens.readers.base import Report
from agentlens.readers.decode import loads

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\],:]', re.DOTALL)
_CLOSE = {b"{": b"}", b"[": b"]"}


@dataclass(frozen=True, slots=True)
class Saved:
    """What a damaged document still gives.

    ``value`` is `ABSENT` where not even one record is whole. ``stop`` is the byte behind which everything
    was set aside; ``bad`` are the bytes at which damaged records before it begin (null in ``value``).
    ``repaired``: what was mended in the rest, as `decode.loads` counts it.
    """

    value: Any
    stop: int
    bad: tuple[int, ...] = ()
    repaired: Counter[str] = field(default_factory=Counter)


def salvage(data: bytes, record_keys: tuple[str, ...] = ()) -> Saved:
    """Keep the whole elements of the arrays under ``record_keys``; drop what comes after the last of them.

    The empty key ``""`` names a top-level array. Without keys, any whole element or member is kept: that
    is for a look at the head of a long document, not for reading it.

    >>> salvage(b'{"spans": [{"id": 1}, {"id": 2}, {"id"', ("spans",)).value
    {'spans': [{'id': 1}, {'id': 2}]}
    """
    keys = frozenset(key.encode() for key in record_keys)
    found = _scan(data, keys)
    if not found.stop:
        return Saved(ABSENT, 0)
    saved = _saved(data[: found.stop] + found.closing, found.stop)
    if saved.value is not ABSENT or not found.records:
        return saved
    return _without_bad(data, found)


@dataclass(slots=True)
class _Found:
    stop: int = 0  # where the last whole record ends
    closing: bytes = b""  # the brackets that close the document there
    records: list[tuple[int, int]] = field(default_factory=list)


def _scan(data: bytes, keys: frozenset[bytes]) -> _Found:
    """Find the whole records by brackets and quotes alone."""
    stack: list[tuple[bytes, bytes, int]] = []  # bracket, key it stands under, where it stands
    found = _Found()
    depth = 0  # how many brackets stood open at ``stop``
    text, key = b"", b""  # last string seen; last string that was followed by a colon
    for match in _TOKEN.finditer(data):
        token = match.group()
        if token == b'"':
            break  # a text that never ends
        if token[:1] == b'"':
            text = token[1:-1]
        elif token == b":":
            key = text
        elif token in _CLOSE:
            stack.append((token, key, match.start()))
            key = b"[]"  # of an array right inside an array; a colon gives the real one
        elif token == b",":
            # a bare number or literal ends at the comma; cutting before it keeps it
            if stack and not keys:
                found.stop, depth = match.start(), len(stack)
        else:
            if not stack or _CLOSE[stack[-1][0]] != token:
                break
            start = stack.pop()[2]
            if not stack:
                found.stop, found.closing, depth = match.end(), b"", 0
                break
            if not keys:
                found.stop, depth = match.end(), len(stack)
            elif stack[-1][0] == b"[" and stack[-1][1] in keys:
                found.stop, found.closing = match.end(), _brackets(stack)
                found.records.append((start, match.end()))
    if depth:  # only brackets were opened since, so those below still stand as they did
        found.closing = _brackets(stack[:depth])
    return found


def _without_bad(data: bytes, found: _Found) -> Saved:
    """Put null for the innermost records that are damaged inside, and try once more."""
    bad: list[tuple[int, int]] = []
    for start, end in found.records:  # inner ones come first
        holds_bad = any(start <= inner < end for inner, _ in bad)
        if not holds_bad and loads(data[start:end], Report(), 0) is ABSENT:
            bad.append((start, end))
    parts, place = [], 0
    for start, end in sorted(bad):
        parts += [data[place:start], b"null"]
        place = end
    whole = b"".join([*parts, data[place : found.stop], found.closing])
    return _saved(whole, found.stop, tuple(start for start, _ in sorted(bad)))


def _saved(data: bytes, stop: int, bad: tuple[int, ...] = ()) -> Saved:
    """Decode what is left as a whole document is decoded: ``NaN`` and its like are mended, not lost."""
    report = Report()
    value = loads(data, report, 0)
    return Saved(value, stop, bad, report.repaired)


def _brackets(stack: list[tuple[bytes, bytes, int]]) -> bytes:
    return b"".join(_CLOSE[bracket] for bracket, _, _ in reversed(stack))
