"""One chat message, in any of the usual dialects, as the steps it holds: turns, words, calls and replies."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers import decode
from agentlens.readers.blocks import tool_of
from agentlens.readers.bodies import class_name, failure_in

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
_SERVED: Final = frozenset(
    {"mcp_call", "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"}
)
"""Calls that the provider itself carries out: their status is that of the action, not of the asking."""
_APPROVAL: Final = "mcp_approval_request"
_APPROVED: Final = "mcp_approval_response"
_USES: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_ASKED: Final = ("action", "operation", "queries", "code", "input")
_TEXTS: Final = frozenset({"text", "input_text", "output_text"})
_TAGGED: Final = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
_RESPONSE: Final = re.compile(r"<tool_response>\s*(.*?)\s*(?:</tool_response>|\Z)", re.DOTALL)
_ERROR: Final = re.compile(
    r"\s*(?:Traceback \(most recent call last\)|(Error)(?::\s*([A-Z]\w*(?:Error|Exception))\b|\b)"
    r"|([A-Z]\w*(?:Error|Exception))\b)"
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
    """The agent called a tool; ``result`` where the same record carries it.

    ``done``: it is known to have ended, though the record may not carry a result. ``approval``: what was asked
    for is the leave to call it.
    """

    call_id: str
    name: str
    args: Any
    agent: str
    result: Any = ABSENT
    error: str | None = None
    done: bool = False
    approval: bool = False


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
    if kind == _APPROVED:
        return "approval_request_id" in value
    return isinstance(kind, str) and bool(value.keys() & {"call_id", "arguments"}) and _is_call_or_reply(kind)


def _role(message: dict[str, Any]) -> str:
    """Return who speaks; LangChain calls the roles types."""
    if "role" in message:
        return text_of(message["role"])
    return _LANGCHAIN.get(text_of(message.get("type")), "") if "content" in message else ""


def _is_call_or_reply(kind: str) -> bool:
    return kind in _CALLS or kind.endswith(("_call", "_call_output")) or kind == _APPROVAL


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
        if several := _parts_of_results(message.get("content")):
            yield from several
            return
        result = result_of(message.get("content", ABSENT))
        name = text_of(message.get("name"))
        yield Reply(text_of(message.get("tool_call_id")), name, result, failure_of(result))
    elif role in {"user", "assistant"}:
        yield from _spoken(message, assistant=role == "assistant")


def _spoken(message: dict[str, Any], *, assistant: bool) -> Iterator[Step]:
    agent = text_of(message.get("name")) if assistant else ""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    words = "\n".join(text for block in blocks if (text := _words(block)))
    for block in blocks:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            yield _block_reply(block)
    calls, legacy = message.get("tool_calls"), message.get("function_call")
    if assistant:
        yield from _said(words, agent, tagged=not calls and not legacy)
    else:
        yield from _heard(words)
        return
    for block in blocks:
        if not isinstance(block, dict):
            continue
        kind = text_of(block.get("type"))
        if kind in _USES:
            yield Call(
                text_of(block.get("id")), text_of(block.get("name")), block.get("input", ABSENT), agent
            )
        elif kind == "tool-call":  # as the AI SDK spells it
            args = args_of(block.get("input", block.get("args", ABSENT)))
            yield Call(text_of(block.get("toolCallId")), text_of(block.get("toolName")), args, agent)
        elif kind.endswith("_tool_result"):  # of a tool that the provider ran, in the same message
            yield _block_reply(block)
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            yield _function(call, agent)
    if isinstance(legacy, dict):
        yield Call("", text_of(legacy.get("name")), args_of(legacy.get("arguments", ABSENT)), agent)


def _block_reply(block: dict[str, Any]) -> Reply:
    result = result_of(block.get("content", ABSENT))
    error = failure_of(result) or ("tool_error" if block.get("is_error") is True else None)
    if error is None and isinstance(result, dict) and text_of(result.get("type")).endswith("_result_error"):
        error = text_of(result.get("error_code")) or "tool_error"
    return Reply(text_of(block.get("tool_use_id")), "", result, error)


def _parts_of_results(content: Any) -> list[Reply]:
    """Return the replies that one message of the AI SDK holds, each a part with its call's id."""
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    found = []
    for part in parts:
        if part.get("type") != "tool-result":
            continue
        told = part.get("output", part.get("result", ABSENT))
        failed = part.get("isError") is True
        if isinstance(told, dict) and "value" in told and isinstance(told.get("type"), str):
            failed = failed or told["type"].startswith("error")
            told = told["value"]
        result = result_of(told)
        error = failure_of(result) or ("tool_error" if failed else None)
        found.append(Reply(text_of(part.get("toolCallId")), text_of(part.get("toolName")), result, error))
    return found


def _said(words: str, agent: str, *, tagged: bool) -> Iterator[Step]:
    """Yield what the agent said, and the calls it wrote between tags, as models do that have no field for them."""
    found = _TAGGED.findall(words) if tagged and "<tool_call>" in words else []
    spoken = _TAGGED.sub("", words) if found else words
    if spoken.strip():
        yield Words(spoken, agent)
    for text in found:
        asked = decode.attempt(text)
        yield _function(asked, agent) if isinstance(asked, dict) else Call("", "", text, agent)


def _heard(words: str) -> Iterator[Step]:
    """Yield a turn, or the replies that stand in its place between tags."""
    if words.lstrip().startswith("<tool_response>"):
        yield from _responses(words)
    elif words.strip():
        yield Turn(words)


def _responses(words: str) -> Iterator[Step]:
    for text in _RESPONSE.findall(words):
        yield Reply("", "", text, failure_of(text))


def _function(call: dict[str, Any], agent: str) -> Call:
    inner = call.get("function") or call.get("custom")
    about = inner if isinstance(inner, dict) else call
    args = about.get("arguments", about.get("args", about.get("input", ABSENT)))
    return Call(text_of(call.get("id")), text_of(about.get("name")), args_of(args), agent)


def _item(item: dict[str, Any], kind: str) -> Iterator[Step]:
    """Yield the step of one item of the Responses API."""
    call_id = text_of(item.get("call_id")) or text_of(item.get("id"))
    if kind == _APPROVED:
        refused = "rejected_by_user" if item.get("approve") is False else None
        yield Reply(text_of(item.get("approval_request_id")), "", ABSENT, refused)
    elif kind == _APPROVAL:
        yield Call(call_id, tool_of(item), args_of(item.get("arguments", ABSENT)), "", approval=True)
    elif kind.endswith("_call_output"):
        result = result_of(item.get("output", ABSENT))
        error = _shell_end(result) or failure_of(result)
        yield Reply(call_id, "", result, error or _status_error(item))
    elif kind in _CALLS:
        args = args_of(item.get("arguments", item.get("input", ABSENT)))
        result = result_of(item.get("output", ABSENT))
        failed = "tool_error" if item.get("error") else None
        error = failed or failure_of(result)
        yield _asked(Call(call_id, tool_of(item), args, "", result, error), item, kind)
    elif kind.endswith("_call"):
        asked = next((item[name] for name in _ASKED if name in item), ABSENT)
        result = next(
            (item[name] for name in ("output", "outputs", "results", "result") if item.get(name)), ABSENT
        )
        yield _asked(Call(call_id, kind.removesuffix("_call"), asked, "", result), item, kind)


def _asked(call: Call, item: dict[str, Any], kind: str) -> Call:
    """Add what the status of a call that the provider carries out tells of its end."""
    if kind not in _SERVED:
        return call
    error = call.error or _status_error(item)
    return replace(call, error=error, done=error is not None or item.get("status") == "completed")


def _status_error(item: dict[str, Any]) -> str | None:
    return "tool_error" if item.get("status") == "failed" else None


def _shell_end(output: Any) -> str | None:
    """Return how the last failing command of a shell call ended."""
    ends = (
        [part.get("outcome") for part in output if isinstance(part, dict)] if isinstance(output, list) else []
    )
    told = [
        "timeout" if end.get("type") == "timeout" else failure_in(end)
        for end in ends
        if isinstance(end, dict)
    ]
    return next((error for error in reversed(told) if error), None)


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
        if isinstance(value, str) and value.lstrip().startswith("<tool_response>"):
            yield from _responses(value)
            return
        result = result_of(value)
        yield Reply("", "", result, failure_of(result))
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


def failure_of(result: Any) -> str | None:
    """Return the class of a failure that a reply tells in its members, else the one that it opens with."""
    return failure_in(result) or error_of(result)


def error_of(result: Any) -> str | None:
    """Return the class of a failure that a reply opens with: ``ValueError: ...``, ``Error: ...``, a traceback."""
    found = _ERROR.match(result) if isinstance(result, str) else None
    if found is None:
        return None
    if found[3] or found[2]:
        return found[3] or found[2]
    if found[1]:
        return "error"
    last = result.rstrip().rsplit("\n", 1)[-1]
    named = re.match(r"([A-Za-z_][\w.]*)(?::|$)", last)
    return class_name(named[1]) if named else "error"


def text_of(value: Any) -> str:
    """Return a text as it is, a whole number as text, anything else as ""."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""
