"""Calls that only the words of model spans tell of: what an answer asked for, and what the next prompt says came back.

Traces of programs whose tools are not instrumented hold nothing else. A prompt repeats the whole conversation; only
the replies at its very end are new.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers import decode
from agentlens.readers.blocks import text_of
from agentlens.readers.flat_messages import messages_of, undotted
from agentlens.readers.message_pack import plain
from agentlens.readers.messages import Call, Reply, Words, is_message, steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MEMBERS: Final = (
    "messages", "choices", "output", "generations", "candidates", "contents", "input", "message", "content", "response",
)  # fmt: skip
"""Where a request or an answer keeps its messages, whoever's interface it is."""
_ASKS: Final = ("tool_call", "toolCallId", "tool_use", "function_call", "functionCall", "_call")
_REPLIES: Final = ("tool", "function", "_call_output")
_DEEP: Final = 8
_MOST: Final = 64


def told(facts: Mapping[str, Any]) -> tuple[list[Call], list[Reply]]:
    """Return the calls that a model's answer asks for, and the replies that its prompt ends with.

    >>> prompt = '[{"role": "user", "content": "go"}, {"role": "tool", "tool_call_id": "c", "content": "7"}]'
    >>> calls, replies = told({"input": prompt, "output": {"role": "assistant", "content": "done"}})
    >>> len(calls), [(reply.call_id, reply.result) for reply in replies]
    (0, [('c', '7')])
    """
    flat = facts.get("flat")
    asked, answered = messages_of(flat) if flat else ([], [])
    calls, replies = _calls(answered), _newest(asked)
    for name in ("answer", "output"):
        calls = calls or _calls(undotted(_read(facts.get(name), _ASKS), "assistant"))
    for name in ("messages", "input"):
        replies = replies or _newest(undotted(_read(facts.get(name), _REPLIES), "user"))
    return calls[:_MOST], replies


def _calls(answer: Any) -> list[Call]:
    return [
        step
        for message in _messages(answer)
        if message.get("role", message.get("type")) not in {"user", "human", "tool"}
        for step in steps(message)
        if isinstance(step, Call)
    ]


def _read(value: Any, marks: tuple[str, ...]) -> Any:
    """Decode a text that may hold what is looked for; one that does not name it is not decoded."""
    if isinstance(value, str):
        if value.lstrip()[:1] not in {"{", "["} or not any(mark in value for mark in marks):
            return None
        value = decode.attempt(value)
    return None if value is ABSENT else value


def _messages(value: Any, deep: int = _DEEP) -> list[dict[str, Any]]:
    if not deep:
        return []
    if isinstance(value, list):
        return [message for item in value for message in _messages(item, deep - 1)]
    if not isinstance(value, dict):
        return []
    if "lc" in value:  # as LangChain serialises an object
        value = plain(value)
        if not isinstance(value, dict):
            return []
    if isinstance(value.get("parts"), list):
        return list(_of_parts(value["parts"], text_of(value.get("role"))))
    if is_message(value):
        return [value]
    if isinstance(value.get("toolCallId"), str) and "toolName" in value:  # what the AI SDK's models ask for
        return [{"role": "assistant", "content": [{**value, "type": "tool-call"}]}]
    inner = (
        _messages(value[name], deep - 1) for name in _MEMBERS if isinstance(value.get(name), (list, dict))
    )
    return next((found for found in inner if found), [])


def _of_parts(parts: list[Any], role: str) -> Iterator[dict[str, Any]]:
    """Yield the messages that the parts of one say, in the words of chat lists."""
    for part in parts:
        if not isinstance(part, dict):
            continue
        asked = (
            part if part.get("type") == "tool_call" else part.get("functionCall", part.get("function_call"))
        )
        came = part.get("functionResponse", part.get("function_response"))
        if part.get("type") == "tool_call_response":
            yield _reply(part, part.get("response", part.get("result")))
        elif isinstance(asked, dict):
            function = {"name": asked.get("name"), "arguments": asked.get("arguments", asked.get("args"))}
            yield {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": asked.get("id"), "function": function}],
            }
        elif isinstance(came, dict):
            yield _reply(came, came.get("response"))
        else:
            yield {"role": "user" if role == "user" else "assistant", "content": text_of(part.get("text"))}


def _reply(part: dict[str, Any], result: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": part.get("id"), "name": part.get("name"), "content": result}


def _newest(prompt: Any) -> list[Reply]:
    """Return the replies behind the last thing that the model itself said; those before it were told before."""
    found: list[Reply] = []
    for item in islice(_backwards(prompt, _DEEP), _MOST):
        said = [step for message in _messages(item) for step in steps(message)]
        if any(isinstance(step, (Call, Words)) for step in said):
            break
        found[:0] = [step for step in said if isinstance(step, Reply)]
    return found[-_MOST:]


def _backwards(value: Any, deep: int) -> Iterator[Any]:
    """Yield the messages of a conversation, the last one first."""
    if isinstance(value, list) and deep:
        for item in reversed(value):
            if isinstance(item, list):
                yield from _backwards(item, deep - 1)
            else:
                yield item
    elif isinstance(value, dict) and deep:
        if is_message(value) or "lc" in value or "parts" in value:
            yield value
            return
        held = (value[name] for name in _MEMBERS if isinstance(value.get(name), (list, dict)))
        if (inner := next(held, None)) is not None:
            yield from _backwards(inner, deep - 1)
