"""One chat message, in any of the usual dialects, as the steps it holds: turns, words, calls and replies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers import decode

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHAREGPT: Final = {
    "human": "user",
    "gpt": "assistant",
    "model": "assistant",
    "chatgpt": "assistant",
    "observation": "tool",
    "function_response": "tool",
}
_LANGCHAIN: Final = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}
ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_CALLS: Final = frozenset({"function_call", "custom_tool_call", "mcp_call", "tool_call"})
_TEXTS: Final = frozenset({"text", "input_text", "output_text"})
_ERROR: Final = re.compile(
    r"\s*(?:Traceback \(most recent call last\)|(Error)\b|([A-Z]\w*(?:Error|Exception))\b)"
)


@dataclass(frozen=True, slots=True)
class Turn:
    """A person spoke."""

    text: str


@dataclass(frozen=True, slots=True)
class Words:
    """The agent spoke, to a person or to itself."""

    text: str
    agent: str


@dataclass(frozen=True, slots=True)
class Call:
    """The agent called a tool; ``result`` where the same record carries it."""

    call_id: str
    name: str
    args: Any
    agent: str
    result: Any = ABSENT
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A tool answered a call, named by id, by tool name, or by neither."""

    call_id: str
    name: str
    result: Any
    error: str | None


Step = Turn | Words | Call | Reply


def is_message(value: Any) -> bool:
    """Say whether a decoded value can be one message or item of a chat."""
    if not isinstance(value, dict):
        return False
    if _role(value) in ROLES:
        return bool(value.keys() & {"content", "tool_calls", "function_call"})
    if isinstance(value.get("from"), str) and "value" in value:
        return True
    kind = value.get("type")
    if kind == "reasoning":
        return "summary" in value
    return isinstance(kind, str) and bool(value.keys() & {"call_id", "arguments"}) and _is_call_or_reply(kind)


def _role(message: dict[str, Any]) -> str:
    """Return who speaks; LangChain calls the roles types."""
    if "role" in message:
        return text_of(message["role"])
    return _LANGCHAIN.get(text_of(message.get("type")), "") if "content" in message else ""


def _is_call_or_reply(kind: str) -> bool:
    return kind in _CALLS or kind.endswith(("_call", "_call_output"))


def steps(message: dict[str, Any]) -> Iterator[Step]:
    """Yield the steps of one message, in order. System prompts and reasoning hold none."""
    if "role" not in message and isinstance(message.get("from"), str):
        yield from _sharegpt(message)
        return
    kind, role = message.get("type"), _role(message)
    if isinstance(kind, str) and not role:
        yield from _item(message, kind)
        return
    if role in {"tool", "function"}:
        result = result_of(message.get("content", ABSENT))
        name = text_of(message.get("name"))
        yield Reply(text_of(message.get("tool_call_id")), name, result, error_of(result))
    elif role in {"user", "assistant"}:
        yield from _spoken(message, assistant=role == "assistant")


def _spoken(message: dict[str, Any], *, assistant: bool) -> Iterator[Step]:
    agent = text_of(message.get("name")) if assistant else ""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    words = "\n".join(text for block in blocks if (text := _words(block)))
    for block in blocks:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            result = result_of(block.get("content", ABSENT))
            error = error_of(result) or ("tool_error" if block.get("is_error") is True else None)
            yield Reply(text_of(block.get("tool_use_id")), "", result, error)
    if words.strip():
        yield Words(words, agent) if assistant else Turn(words)
    if not assistant:
        return
    for block in blocks:
        if isinstance(block, dict) and block.get("type") == "tool_use":
            yield Call(
                text_of(block.get("id")), text_of(block.get("name")), block.get("input", ABSENT), agent
            )
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            yield _function(call, agent)
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        yield Call("", text_of(legacy.get("name")), args_of(legacy.get("arguments", ABSENT)), agent)


def _function(call: dict[str, Any], agent: str) -> Call:
    inner = call.get("function") or call.get("custom")
    about = inner if isinstance(inner, dict) else call
    args = about.get("arguments", about.get("args", about.get("input", ABSENT)))
    return Call(text_of(call.get("id")), text_of(about.get("name")), args_of(args), agent)


def _item(item: dict[str, Any], kind: str) -> Iterator[Step]:
    """Yield the step of one item of the Responses API."""
    call_id = text_of(item.get("call_id")) or text_of(item.get("id"))
    if kind.endswith("_call_output"):
        result = result_of(item.get("output", ABSENT))
        yield Reply(call_id, "", result, error_of(result))
    elif kind in _CALLS:
        args = args_of(item.get("arguments", item.get("input", ABSENT)))
        result = result_of(item.get("output", ABSENT))
        failed = "tool_error" if item.get("error") else None
        yield Call(call_id, text_of(item.get("name")), args, "", result, failed or error_of(result))
    elif kind.endswith("_call"):
        asked = next((item[name] for name in ("action", "queries", "code", "input") if name in item), ABSENT)
        result = next(
            (item[name] for name in ("output", "outputs", "results", "result") if item.get(name)), ABSENT
        )
        yield Call(call_id, kind.removesuffix("_call"), asked, "", result)


def _sharegpt(message: dict[str, Any]) -> Iterator[Step]:
    said = str(message["from"]).lower()
    role, value = _SHAREGPT.get(said, said), message.get("value")
    if role in {"function_call", "tool_call"}:
        asked = decode.attempt(value) if isinstance(value, str) else value
        for call in asked if isinstance(asked, list) else [asked]:
            if isinstance(call, dict):
                yield _function(call, "")
            else:
                yield Call("", "", value, "")
    elif role in {"tool", "function"}:
        result = result_of(value)
        yield Reply("", "", result, error_of(result))
    elif role in {"user", "assistant"}:
        yield from _spoken({"content": value}, assistant=role == "assistant")


def _words(block: Any) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, dict) and text_of(block.get("type")) in _TEXTS:
        return text_of(block.get("text"))
    return ""


def args_of(value: Any) -> Any:
    """Return arguments as given; an empty text means a call without any, null means they were not exported."""
    if value is None:
        return ABSENT
    return {} if isinstance(value, str) and not value.strip() else value


def result_of(content: Any) -> Any:
    """Return what a tool said: text parts as one text, anything else as it stands; null is no result."""
    if content is None:
        return ABSENT
    parts = content if isinstance(content, list) else []
    if parts and all(isinstance(part, dict) and text_of(part.get("type")) in _TEXTS for part in parts):
        return "\n".join(text_of(part.get("text")) for part in parts)
    return content


def error_of(result: Any) -> str | None:
    """Return the class of a failure that a reply opens with: ``ValueError: ...``, ``Error: ...``, a traceback."""
    found = _ERROR.match(result) if isinstance(result, str) else None
    if found is None:
        return None
    if found[2]:
        return found[2]
    if found[1]:
        return "error"
    last = result.rstrip().rsplit("\n", 1)[-1]
    named = re.match(r"([A-Za-z_][\w.]*)(?::|$)", last)
    return named[1] if named else "error"


def text_of(value: Any) -> str:
    """Return a text as it is, a whole number as text, anything else as ""."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""
