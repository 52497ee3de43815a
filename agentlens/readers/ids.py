"""Span ids and times as exporters write them, made one text and one unit."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from agentlens.model.native import LAST_US

if TYPE_CHECKING:
    from agentlens.readers.base import Report


def hex_id(value: Any, size: int) -> str | None:
    """Return an id of ``size`` bytes as lower-case hex; None where there is none.

    Takes hex of either case, ``0x`` hex, base64 (24 or 12 characters), and whole numbers of any size. All
    zeros is no id. Other text is kept as it stands, in lower case: some exporters make up their own ids.

    >>> hex_id("AAECAwQFBgcICQoLDA0ODw==", 16), hex_id(255, 8), hex_id("00" * 8, 8)
    ('000102030405060708090a0b0c0d0e0f', '00000000000000ff', None)
    """
    if isinstance(value, str):
        if len(value) != size * 2:
            value = _other(value.strip(), size)
        return value.lower() if value.strip("0") else None
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << (8 * size):
        return f"{value:0{size * 2}x}"
    return None


def _other(text: str, size: int) -> str:
    if text[:2] in {"0x", "0X"}:
        return text[2:].rjust(size * 2, "0")
    if len(text) == (size + 2) // 3 * 4 and text.endswith("="):
        try:
            return base64.b64decode(
                text, altchars=b"-_" if "-" in text or "_" in text else None, validate=True
            ).hex()
        except (binascii.Error, ValueError):
            return text
    return text


def micros(nanoseconds: Any, report: Report) -> int | None:
    """Return microseconds of a time in nanoseconds, text or whole number; 0 and null are "not there".

    A floating number cannot hold nanoseconds since 1970 and is refused, and counted.
    """
    if isinstance(nanoseconds, str):
        if not nanoseconds.isdecimal():
            if nanoseconds:
                report.repaired["unreadable time left out"] += 1
            return None
        nanoseconds = int(nanoseconds[:40])
    elif isinstance(nanoseconds, bool) or not isinstance(nanoseconds, int):
        if nanoseconds is not None:
            report.repaired["unreadable time left out"] += 1
        return None
    found: int = nanoseconds // 1000
    if 0 < found <= LAST_US:
        return found
    if nanoseconds:
        report.repaired["unreadable time left out"] += 1
    return None
