"""Messages that LangChain's tools return, in the three ways that exporters write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from agentlens.readers import decode

_REPEATED: Final = re.compile(r"content=(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")")
_CALL_ID: Final = re.compile(r"\btool_call_id='([^']{1,120})'")
_NAME: Final = re.compile(r"\bname='([^']{1,120})'")
_ARGUMENT: Final = "__arg1"
_SHOWN: Final = re.compile(r"\s*\{'__arg1': '([^'\\]*)'\}\s*")
_MARK: Final = "tool_call_id"


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """What a tool returned: its content, which call it answers, and whether it says that it failed."""

    content: Any
    call_id: str
    name: str
    failed: bool


def tool_message(value: Any) -> ToolMessage | None:
    """Return the message that a value is, as an object, as JSON, serialised or as its ``repr``; else None.

    >>> tool_message("content='3 hits' name='search' tool_call_id='call_1'")
    ToolMessage(content='3 hits', call_id='call_1', name='search', failed=False)
    >>> tool_message({"lc": 1, "kwargs": {"content": "x", "tool_call_id": "c", "status": "error"}}).failed
    True
    """
    if isinstance(value, str):
        if _MARK not in value:
            return None
        start = value.lstrip()
        if start[:1] != "{":
            return _repeated(start)
        value = decode.attempt(start)
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("output"), dict) and len(value) == 1:
        value = value["output"]
    if isinstance(value.get("kwargs"), dict) and "lc" in value:
        value = {"type": "tool", **value["kwargs"]}
    call_id, name = value.get(_MARK), value.get("name")
    if value.get("type") != "tool" or not isinstance(call_id, str) or "content" not in value:
        return None
    return ToolMessage(
        value["content"], call_id, name if isinstance(name, str) else "", value.get("status") == "error"
    )


def single(args: Any) -> Any:
    """Return the one text that a tool of a single argument was called with; any other arguments as they are.

    LangChain calls that argument ``__arg1`` where a model asks for it, and hands over the text alone.

    >>> single('{"__arg1": "red shoes"}'), single("red shoes"), single({"q": "red shoes"})
    ('red shoes', 'red shoes', {'q': 'red shoes'})
    """
    told = args
    if isinstance(args, str) and _ARGUMENT in args[:24]:
        shown = _SHOWN.fullmatch(args)
        told = {_ARGUMENT: shown[1]} if shown else decode.attempt(args)
    if isinstance(told, dict) and told.keys() == {_ARGUMENT} and isinstance(told[_ARGUMENT], str):
        return told[_ARGUMENT]
    return args


def _repeated(text: str) -> ToolMessage | None:
    told = _REPEATED.match(text)
    call = _CALL_ID.search(text, told.end()) if told else None
    if told is None or call is None:
        return None
    name = _NAME.search(text, told.end(), call.start())
    content = told[1] if told[1] is not None else told[2]
    return ToolMessage(content, call[1], name[1] if name else "", "status='error'" in text[told.end() :])
