"""JSON as it is found in exports: decoded exactly where it can be, mended and counted where it must be."""

from __future__ import annotations

import json
import re
import string
from typing import TYPE_CHECKING, Any, Final

import orjson

from agentlens.model.raw import ABSENT

if TYPE_CHECKING:
    from agentlens.readers.base import Report

_SURROGATES = re.compile("[\ud800-\udfff]")
_DIGITS = bytes(48 if 48 <= byte < 58 else 32 for byte in range(256))
_TWENTY = b"0" * 20  # 2**64 has twenty digits: what is shorter fits the fast decoder exactly
_RUN = re.compile(rb"0+")
# before and behind digits that are no number of their own
_INSIDE: Final = frozenset(b'._"' + string.ascii_letters.encode())
_GOES_ON: Final = frozenset(b".eE")

MAX_DEPTH_REASON = "nested too deeply"


def loads(data: bytes, report: Report, position: int, unit: str = "line", *, exact: bool = True) -> Any:
    """Decode one JSON value, or quarantine it and return `ABSENT`.

    ``exact`` False lets integers beyond 64 bits become floats: a quarter faster, for a reader that looks where
    such integers can stand and asks again.

    Integers stay exact at any size, ``NaN`` and infinities become None, lone surrogates and bytes that
    are no UTF-8 become U+FFFD; each repair is counted in ``report.repaired``. Of equal keys the last stands.

    >>> from agentlens.readers.base import Report
    >>> loads(b'{"id": 340282366920938463463374607431768211455}', Report(), 1)
    {'id': 340282366920938463463374607431768211455}
    """
    try:
        if not exact or not has_big_integer(data):
            return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    return _slowly(data, report, position, unit)


def attempt(data: bytes | str) -> Any:
    """Decode one JSON value in silence; `ABSENT` where it is none.

    For text inside records (arguments, sniffing), where not being JSON is no fault.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    try:
        if not has_big_integer(raw):
            return orjson.loads(raw)
        return json.loads(raw)
    except (ValueError, RecursionError):
        return ABSENT


def has_big_integer(data: bytes) -> bool:
    """Say whether the text holds an integer that the fast decoder would turn into a float."""
    digits = data.translate(_DIGITS)
    at = digits.find(_TWENTY)
    while at >= 0:
        run = _RUN.match(digits, at)
        end = run.end() if run else len(data)
        alone = not at or data[at - 1] not in _INSIDE
        if alone and (end == len(data) or data[end] not in _GOES_ON):
            return True
        at = digits.find(_TWENTY, end)
    return False


def _slowly(data: bytes, report: Report, position: int, unit: str) -> Any:
    seen: list[str] = []
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        seen.append("bytes that are no UTF-8")

    def constant(name: str) -> None:
        seen.append(name.lstrip("-"))

    try:
        value = json.loads(text, parse_constant=constant)
        if "\\u" in text:
            value, mended = _mend(value)
            seen.extend(["lone surrogate"] * mended)
    except RecursionError:
        report.quarantine(position, f"JSON {MAX_DEPTH_REASON}", unit)  # type: ignore[arg-type]
        return ABSENT
    except ValueError as error:
        report.quarantine(position, reason_of(error, text), unit)  # type: ignore[arg-type]
        return ABSENT
    report.repaired.update(seen)
    return value


def reason_of(error: ValueError, text: str) -> str:
    """Word a decoding error: cut off, or wrong at a column."""
    if not isinstance(error, json.JSONDecodeError):
        return "not valid JSON: a number is too long"
    rest = text[error.pos :].strip()
    if text.lstrip()[:1] in {"{", "["} and (not rest or error.msg.startswith("Unterminated string")):
        return f"cut off: the JSON ends inside a value after {len(text)} characters"
    if not text.strip():
        return "no JSON here"
    return f"not valid JSON at character {error.pos + 1}: {error.msg}"


def _mend(value: Any) -> tuple[Any, int]:
    """Replace lone surrogates in every text of a decoded value, in place; also say in how many.

    In place, because a document of hundreds of megabytes must not be held twice.
    """
    if isinstance(value, str):
        mended = _SURROGATES.sub("\ufffd", value)
        return mended, int(mended != value)
    count = 0
    if isinstance(value, list):
        for index, item in enumerate(value):
            value[index], more = _mend(item)
            count += more
    elif isinstance(value, dict):
        for key, item in value.items():
            value[key], more = _mend(item)
            count += more
        if any(map(_SURROGATES.search, value)):
            keys = {key: _mend(key) for key in value}
            count += sum(more for _, more in keys.values())
            renamed = {keys[key][0]: item for key, item in value.items()}
            value.clear()
            value.update(renamed)
    return value, count
