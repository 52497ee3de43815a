"""What Gemini CLI says that a tool gave back: the shell's exit code stands in the text, under any status."""

from __future__ import annotations

import re
from typing import Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers.blocks import text_of

_WRAPPED = re.compile(r"\A\s*<untrusted_context>\n?(.*?)\n?</untrusted_context>\s*\Z", re.DOTALL)
_SHELL = re.compile(
    r"\A(?:Command: .*?\n)?(?:Directory: [^\n]*\n)?(?:Stdout|Output): (?P<out>.*?)"
    r"(?:\nStderr: (?P<err>.*?))?(?:\nError: (?P<error>[^\n]*))?(?:\nExit Code: (?P<code>-?\d+|\(none\)))?"
    r"(?:\nSignal: (?P<signal>[^\n]*))?(?:\nBackground PIDs: [^\n]*)?(?:\nProcess Group PGID: [^\n]*)?\s*\Z",
    re.DOTALL,
)
_STUBS: Final = ("<tool_output_masked>", "[Tool output masked", "Output too large. Showing")
_NAMED: Final = (
    (re.compile(r"(?i)file not found|no such file"), "file_not_found"),
    (re.compile(r"(?i)permission denied|denied by policy"), "permission_denied"),
    (re.compile(r"(?i)timed? ?out"), "timeout"),
    (re.compile(r"(?i)tool \"?[^\"\n]{1,80}\"? not found"), "unknown_tool"),
    (re.compile(r"(?i)invalid (?:tool )?param|params must"), "invalid_tool_params"),
)
_NONE: Final = frozenset({"", "(none)", "(empty)"})


def outcome(call: dict[str, Any]) -> tuple[Any, str | None]:
    """Return the result of a recorded call and the class of its failure."""
    status = text_of(call.get("status"))
    result, error = _responses(call.get("result", ABSENT))
    if status == "cancelled":
        return result, "cancelled"
    if status == "error" or error is not None:
        return result, error or failure_of(result)
    return result, None


def failure_of(text: Any, told: str = "") -> str:
    """Name the failure that a text tells of; ``told`` is the name the client gave it, if any."""
    head = text[:400] if isinstance(text, str) else ""
    return told or next((name for pattern, name in _NAMED if pattern.search(head)), "tool_error")


def _responses(value: Any) -> tuple[Any, str | None]:
    if value is None or value is ABSENT or value == []:
        return ABSENT, None
    found: list[Any] = []
    error: str | None = None
    for part in value if isinstance(value, list) else [value]:
        response = part.get("functionResponse") if isinstance(part, dict) else None
        inner = response.get("response") if isinstance(response, dict) else None
        if isinstance(inner, dict) and "error" in inner:
            said = inner["error"]
            said = said.get("message", said) if isinstance(said, dict) else said
            error = failure_of(said)
            found.append(said)
        elif isinstance(inner, dict):
            said, code = shell(inner.get("output", inner))
            error = error or code
            found.append(said)
        else:
            found.append(part.get("text", part) if isinstance(part, dict) else part)
    return (found[0] if len(found) == 1 else found), error


def shell(text: Any) -> tuple[Any, str | None]:
    r"""Return what a command printed and its exit code as a class; any other text as it is.

    >>> shell("Output: no\nExit Code: 2\nProcess Group PGID: 16383")
    ('no', 'exit_2')
    """
    if not isinstance(text, str):
        return text, None
    wrapped = _WRAPPED.match(text)
    body = wrapped[1] if wrapped else text
    if body.lstrip().startswith(_STUBS):
        return None, None
    found = _SHELL.match(body)
    if found is None:
        return body, None
    code = text_of(found["code"])
    error = f"exit_{code}" if code not in {*_NONE, "0"} else None
    if error is None and text_of(found["signal"]) not in _NONE:
        error = "signal"
    if error is None and text_of(found["error"]) not in _NONE:
        error = "command_failed"
    printed = [part for part in (found["out"], found["err"]) if text_of(part) not in _NONE]
    return "\n".join(printed), error
