"""What was seen after an action, in canonical form, and what is no evidence at all (SPEC section 2)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentlens.model.raw import ABSENT
from agentlens.normalise.canonical import Canon, decode, dumps, plain_text

if TYPE_CHECKING:
    from agentlens.normalise.tables import Tables, Tool

_ANSI: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])"
)
_OPENS: Final = ("{", "[", '"')
_STUB_MAX: Final = 400
_END: Final = 200


class Evidence(NamedTuple):
    """Canonical evidence: ``text`` is None where nothing is known; ``why`` then says why.

    ``dropped``: (path, rule) of fields left out; ``masked``: names of the masks that took something out.
    """

    text: str | None
    why: str = ""
    dropped: tuple[tuple[str, str], ...] = ()
    masked: tuple[str, ...] = ()


def clean_text(text: str, tool: Tool, masked: list[str] | None = None) -> str:
    r"""Return result text as a reader of the screen saw it, without what only names the call or the clock.

    ANSI sequences go, ``\r\n`` is ``\n``, a line overwritten after ``\r`` is what stood there last.
    """
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = plain_text(text)
    if "\r" in text:
        text = "\n".join([_last_written(line) if "\r" in line else line for line in text.split("\n")])
    for mask in tool.masks:
        for mark in mask.contains:
            if mark in text:
                shorter = mask.pattern.sub(mask.replace, text)
                if masked is not None and shorter != text:
                    masked.append(mask.name)
                text = shorter
                break
    return text.strip()


def _last_written(line: str) -> str:
    line = line.rstrip("\r")
    return line[line.rfind("\r") + 1 :]


def evidence(tool: Tool, result: Any, tables: Tables, *, explain: bool = False) -> Evidence:
    """Bring a result into canonical form.

    A missing or null result, a redaction mark, a truncation or compaction stub is no evidence. An empty text
    is a result.
    """
    if result is ABSENT or result is None:
        return Evidence(None, "no result")
    masked: list[str] | None = [] if explain else None
    if isinstance(result, (list, tuple)):
        result = _joined(result)
    if isinstance(result, str):
        opened = _opened(result)
        if opened is None:
            text = clean_text(result, tool, masked)
            stub = stub_of(text, tables)
            if stub:
                return Evidence(None, f"stub: {stub}")
            return Evidence(text, masked=tuple(masked or ()))
        result = opened
    canon = Canon(tool.drop_results, leaf=lambda leaf: clean_text(leaf, tool, masked), refill=False)
    try:
        value = canon.value(result)
        stub = _stub_within(value, tables)
        if stub:
            return Evidence(None, f"stub: {stub}")
        text = value if isinstance(value, str) else dumps(value).decode("utf-8", "replace")
    except (ValueError, RecursionError):  # too deep, or an integer of thousands of digits
        return Evidence(None, "nested too deeply")
    return Evidence(text, dropped=tuple(canon.dropped), masked=tuple(masked or ()))


def _opened(text: str) -> Any:
    """Return the object or array that a text holds, None where it is just text."""
    start = text[:1] if text[:1] in _OPENS else text.lstrip()[:1]
    if start not in _OPENS or not start:
        return None
    decoded = decode(text)
    if isinstance(decoded, str):
        decoded = decode(decoded) if decoded is not text else None
    return decoded if isinstance(decoded, (dict, list)) else None


def stub_of(text: str, tables: Tables) -> str | None:
    """Return the name of the pattern by which this text is no result but the mark of a missing one."""
    whole = len(text) <= _STUB_MAX
    lowered = (text if whole else text[-_END:]).lower()
    for stub in tables.stubs:
        if not (whole or stub.at_end):
            continue
        for mark in stub.contains:
            if mark not in lowered:
                continue
            if stub.at_end:
                if stub.pattern.search(text if whole else text[-_END:]):
                    return stub.name
            elif stub.pattern.fullmatch(text):
                return stub.name
            break
    return None


def _stub_within(value: Any, tables: Tables) -> str | None:
    """A result whose every text is a mark of something missing is missing; one that only holds one is not."""
    found: str | None = None
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending.extend(v for k, v in item.items() if k != "type")
        elif isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, str):
            found = stub_of(item, tables)
            if found is None:
                return None
        elif item is not None:
            return None
    return found


def _joined(parts: Any) -> Any:
    """Text of a list of text parts, so that ``"x"`` and ``[{"type": "text", "text": "x"}]`` are one result."""
    texts = []
    for part in parts:
        if not isinstance(part, dict) or part.get("type") not in ("text", "output_text", "input_text"):
            return parts
        text = part.get("text")
        if not isinstance(text, str):
            return parts
        texts.append(text)
    return "\n".join(texts) if texts else parts
