"""What a dump wrote as Python shows it, read back: a message inside JSON (``default=str``), or a whole list of them.

Only literals are read; nothing is evaluated.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any, Final

_LIMIT: Final = 256 * 1024
_NAMES: Final = (
    "content",
    "additional_kwargs",
    "response_metadata",
    "name",
    "id",
    "tool_calls",
    "invalid_tool_calls",
    "usage_metadata",
    "tool_call_id",
    "status",
    "artifact",
    "example",
)
_FIELD: Final = re.compile(rf"(?:^| )({'|'.join(_NAMES)})=")


def message_in(text: str) -> dict[str, Any] | None:
    """Return the message that ``text`` shows field by field; None where it is anything else.

    >>> message_in("content='ok' name='f' tool_call_id='c1'")
    {'type': 'tool', 'content': 'ok', 'name': 'f', 'tool_call_id': 'c1'}
    >>> message_in("content is king") is None
    True
    """
    if not text.startswith("content=") or len(text) > _LIMIT:
        return None
    marks = list(_FIELD.finditer(text))
    fields: dict[str, Any] = {}
    at = 0
    while at < len(marks):
        # a value may hold what looks like the next field: it ends where it is a whole literal
        for after in range(at + 1, min(len(marks), at + 64) + 1):
            end = marks[after].start() if after < len(marks) else len(text)
            found, value = _literal(text[marks[at].end() : end])
            if found:
                fields[marks[at][1]] = value
                at = after
                break
        else:
            return None
    if len(fields) < 2:
        return None
    return {"type": _type(fields), **fields}


_BEGUN: Final = re.compile(rb"\s*\[\s*\{\s*'(?:content|role|name|source|tool_calls)'\s*:")
DOCUMENT_LIMIT: Final = 16 << 20
"""Bytes of a document of literals that are read: a tree of one takes some fifty times its size."""
_TRIES: Final = 8


def begins(data: bytes) -> bool:
    """Say whether a file begins like a list of messages as Python shows it.

    >>> begins(b"[{'content': 'go'"), begins(b'[{"content": "go"')
    (True, False)
    """
    return _BEGUN.match(data) is not None


def shown(data: bytes) -> tuple[list[Any] | None, int]:
    """Return the list that Python text shows, and how many bytes at its end were left out as damaged.

    None where nothing of it can be read. A list that is cut off, or damaged far in, ends with its last whole item
    before that.

    >>> shown(b"[{'content': 'a'}, {'content': None}]"), shown(b"[{'content': 'a'}, {'content': 'b")
    (([{'content': 'a'}, {'content': None}], 0), ([{'content': 'a'}], 16))
    """
    if len(data) > DOCUMENT_LIMIT:
        return None, len(data)
    text = data.decode("utf-8", "replace").strip()
    end = len(text)
    for _ in range(_TRIES):
        found, value = _literal(text if end == len(text) else f"{text[:end]}}}]")
        if found:
            kept = text if end == len(text) else text[: end + 1]
            lost = len(text.encode()) - len(kept.encode())
            return (value if isinstance(value, list) else None), lost
        end = max(text.rfind("}, {'", 0, end), text.rfind("},\n {'", 0, end))
        if end < 0:
            break
    return None, len(data)


def _literal(text: str) -> tuple[bool, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in the text, which are its own affair
            return True, ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return False, None


def _type(fields: dict[str, Any]) -> str:
    if "tool_call_id" in fields:
        return "tool"
    return "ai" if fields.keys() & {"tool_calls", "usage_metadata", "invalid_tool_calls"} else "human"
