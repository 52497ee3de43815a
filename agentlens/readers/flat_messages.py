"""Messages of model spans that were flattened into attributes: OpenInference, OpenLLMetry and its older names.

``llm.output_messages.0.message.tool_calls.1.tool_call.function.name`` and ``gen_ai.completion.0.tool_calls.1.name`` are
the same fact; frames of Phoenix hold the same messages as lists with dotted member names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from agentlens.readers import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PROMPTS: Final = ("llm.input_messages.", "gen_ai.prompt.", "llm.prompts.")
_ANSWERS: Final = ("llm.output_messages.", "gen_ai.completion.", "llm.completions.")
FLAT: Final = _PROMPTS + _ANSWERS
"""How the names of such attributes begin; a number and a member follow."""
_COVERS: Final = frozenset({"message", "tool_call", "message_content"})
"""Parts of a name that say what is inside it, and hold nothing else."""
_ROLES: Final = {"model": "assistant", "ai": "assistant", "human": "user"}
_BLOCKS: Final = ('"tool_result"', '"tool_use"')
_MOST: Final = 64


def messages_of(pairs: Iterable[tuple[str, Any]]) -> tuple[list[Any], list[Any]]:
    """Return the last messages of the prompt, and the answer, from flattened ``(name, value)`` attributes.

    Of a long prompt only the end is put together: what stands before it has been told by the spans before.

    >>> asked = "llm.output_messages.0.message.tool_calls.0.tool_call."
    >>> messages_of([(asked + "id", "c1"), (asked + "function.name", "look")])
    ([], [{'tool_calls': [{'id': 'c1', 'function': {'name': 'look'}}], 'role': 'assistant', 'content': None}])
    """
    prompt: dict[int, list[tuple[str, Any]]] = {}
    answer: dict[int, list[tuple[str, Any]]] = {}
    for name, value in pairs:
        lead = next((lead for lead in FLAT if name.startswith(lead)), "")
        number, _, rest = name[len(lead) :].partition(".")
        if lead and number.isdecimal() and len(number) < 9 and not isinstance(value, dict):
            side = prompt if lead in _PROMPTS else answer
            side.setdefault(int(number), []).append((rest, value))
    return list(_built(prompt, "user")), list(_built(answer, "assistant"))


def _built(side: dict[int, list[tuple[str, Any]]], role: str) -> Iterator[dict[str, Any]]:
    for number in sorted(side)[-_MOST:]:
        tree: dict[str, Any] = {}
        for name, value in side[number]:
            _put(tree, name, _tree(value))
        yield _message(_closed(tree), role)


def undotted(value: Any, role: str) -> Any:
    """Return messages whose member names are dotted, or wrapped in what they are, as plain ones; others as they are.

    >>> undotted([{"message.role": "tool", "message.tool_call_id": "c", "message.content": "7"}], "user")
    [{'role': 'tool', 'tool_call_id': 'c', 'content': '7'}]
    """
    if not isinstance(value, list):
        return value
    return [
        _message(_closed(_tree(item)), role) if isinstance(item, dict) and _is_covered(item) else item
        for item in value[-_MOST:]
    ]


def _is_covered(item: dict[str, Any]) -> bool:
    return isinstance(item.get("message"), dict) or any(name.startswith("message.") for name in item)


def _tree(value: Any) -> Any:
    """Return an object with every dotted name as a path."""
    if isinstance(value, list):
        return [_tree(item) for item in value]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for name, inner in value.items():
        if inner is not None:
            told = _tree(inner)
            if name in _COVERS and isinstance(told, dict):
                made.update(told)
            else:
                _put(made, name, told)
    return made


def _put(tree: dict[str, Any], name: str, value: Any) -> None:
    path = [part for part in name.split(".") if part not in _COVERS]
    for part in path[:-1]:
        inner = tree.get(part)
        if not isinstance(inner, dict):
            inner = tree[part] = {}
        tree = inner
    if path:
        tree[path[-1]] = value


def _closed(tree: Any) -> Any:
    """Turn objects whose members are numbers into lists."""
    if isinstance(tree, list):
        return [_closed(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree and all(name.isdecimal() and len(name) < 9 for name in tree):
        return [_closed(tree[name]) for name in sorted(tree, key=int)]
    return {name: _closed(inner) for name, inner in tree.items()}


def _message(told: Any, role: str) -> dict[str, Any]:
    """Return a message in the words of chat lists; without a role it is that of the side it stands on."""
    made: dict[str, Any] = dict(told) if isinstance(told, dict) else {}
    said = made.get("role")
    made["role"] = _ROLES.get(said, said) if isinstance(said, str) and said else role
    if "tool_call_id" in made:
        made["role"] = "tool"
    content, parts = made.get("content"), made.pop("contents", None)
    if isinstance(content, str) and content[:1] == "[" and any(mark in content for mark in _BLOCKS):
        blocks = decode.attempt(content)
        content = blocks if isinstance(blocks, list) else content
    made["content"] = parts if content is None else content
    named, args = made.pop("function_call_name", None), made.pop("function_call_arguments_json", None)
    if named:
        made["function_call"] = {"name": named, "arguments": args}
    return made
