"""What Codex says of one call, in the wordings of its versions: outputs, commands, states of child threads."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.native import LAST_US
from agentlens.model.raw import ABSENT
from agentlens.readers.blocks import count_of, served, text_of
from agentlens.readers.decode import attempt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.model.raw import RawEvent
    from agentlens.readers.blocks import Spot

_HEADER = re.compile(
    r"(?:Chunk ID: [^\n]*\n)?"
    r"(?:Exit code: (?P<exit>-?\d{1,6})\n)?"
    r"(?:Wall time: [^\n]*\n)?"
    r"(?:Process exited with code (?P<code>-?\d{1,6})\n)?"
    r"(?P<running>Process running with session ID [^\n]*\n)?"
    r"(?:Original token count: \d+\n)?"
    r"(?P<lines>Total output lines: \d+\n)?"
    r"Output:\n"
)
_CUT = re.compile(r"…\d+ (?:tokens|chars|bytes|lines) truncated…|\[\.\.\. omitted \d+ of \d+ lines \.\.\.\]")
_REFUSED = re.compile(r"(?i)(?:exec command|patch|command|apply_patch)?\s*(?:was )?rejected by (?:the )?user")
_FAILURES: Final = (
    ("unsupported ", "unsupported_call"),
    ("unknown tool", "unsupported_call"),
    ("failed to parse function arguments", "bad_arguments"),
    ("aborted by user", "interrupted"),
    ("aborted", "interrupted"),
    ("execution error", "execution_error"),
    ("failed in sandbox", "sandbox_denied"),
    ("sandbox denied", "sandbox_denied"),
    ("command timed out", "timeout"),
    ("apply_patch verification failed", "patch_failed"),
    ("err: ", "tool_error"),
    ("collab ", "tool_error"),
)
_SHELLS: Final = frozenset({"bash", "sh", "zsh"})


@dataclass(frozen=True, slots=True)
class Output:
    """What came back: the text without its header, the class of a failure, whether the process goes on."""

    result: Any
    error: str | None = None
    running: bool = False


def output_of(value: Any) -> Output:
    r"""Read the output of a call.

    >>> output_of("Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 2\nOutput:\nno").error
    'exit_2'
    """
    if value is None or value is ABSENT:
        return Output(ABSENT)
    if isinstance(value, list):
        value = "\n".join(text_of(part.get("text")) for part in value if isinstance(part, dict))
    if isinstance(value, dict):
        return _object(value)
    if not isinstance(value, str):
        return Output(value)
    decoded = attempt(value) if value.startswith("{") else ABSENT
    if isinstance(decoded, dict) and isinstance(decoded.get("metadata"), dict) and "output" in decoded:
        return _object(decoded)
    header = _HEADER.match(value)
    if header is None or not header[0][:-8]:
        return Output(_whole(value), _refusal(value))
    code = header["code"] or header["exit"]
    body = None if header["lines"] else _whole(value[header.end() :])
    return Output(body, exit_class(code), running=header["running"] is not None)


def _object(value: dict[str, Any]) -> Output:
    meta = value.get("metadata")
    code = meta.get("exit_code") if isinstance(meta, dict) else None
    text = value.get("output", value.get("content", ABSENT))
    error = exit_class(code)
    if error is None and value.get("success") is False:
        error = _refusal(text_of(text)) or "tool_error"
    return Output(_whole(text) if isinstance(text, str) else text, error)


def _whole(text: str) -> str | None:
    """A text of which the middle was taken out is no evidence."""
    return None if _CUT.search(text) else text


def _refusal(text: str) -> str | None:
    head = text[:300].lstrip().lower()
    if _REFUSED.match(head):
        return "rejected_by_user"
    return next((name for start, name in _FAILURES if head.startswith(start)), None)


def exit_class(code: Any) -> str | None:
    """Name a failing exit code."""
    if isinstance(code, bool) or code is None or text_of(code) in {"", "0"}:
        return None
    return f"exit_{text_of(code)}"


def script_of(command: Any) -> str | None:
    """Return the script that a shell was given, else the words of the command as one line.

    >>> script_of("/bin/bash -lc 'ls -1'"), script_of(["ls", "a b"])
    ('ls -1', "ls 'a b'")
    """
    if isinstance(command, str):
        return _script_of_line(command)
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        return _script(command) or shlex.join(command)
    return None


@lru_cache(maxsize=4096)
def _script_of_line(line: str) -> str:
    """The same, for a line; splitting is slow, and a command is told when it starts and when it ends."""
    try:
        return _script(shlex.split(line)) or line
    except ValueError:
        return line


def _script(words: list[str]) -> str | None:
    shell = words[0].rsplit("/", 1)[-1] if words else ""
    return words[2] if len(words) == 3 and shell in _SHELLS and words[1] in {"-c", "-lc"} else None


def child_states(spot: Spot, states: Any, roles: dict[str, str], asked: dict[str, str]) -> Iterator[RawEvent]:
    """Yield what the giver knows of its child threads, and the end of the handoffs that started them.

    A child that was only made (``pending_init``) has accepted nothing, and its call has only launched it.
    ``asked``: identity of the handoff by child thread.
    """
    for thread, state in states.items() if isinstance(states, dict) else ():
        name, said = _state(state)
        if name not in _BEGUN:
            continue
        role = roles.get(thread, "subagent")
        error = "child_failed" if name in {"errored", "failed"} else None
        yield spot.event(
            0,
            "agent",
            agent=role,
            instance=thread,
            parent_agent=spot.lane.agent,
            tool=role,
            at=None,
            span_id=thread,
            parent_span_id=f"spawn/{thread}",
            identity=f"agent/{thread}",
            open=name == "running",
            error_class=error,
        )
        if thread in asked and name != "running":
            yield spot.event(
                1,
                "handoff",
                at=None,
                ended_at=spot.at,
                result=said,
                error_class=error,
                span_id=f"spawn/{thread}",
                identity=asked.pop(thread),
                open=False,
            )


_BEGUN: Final = frozenset({"running", "completed", "errored", "failed", "interrupted", "shutdown"})


def _state(state: Any) -> tuple[str, Any]:
    """Return the name of a state and the child's last words, in either spelling."""
    if isinstance(state, str):
        return state, ABSENT
    if not isinstance(state, dict):
        return "", ABSENT
    name = text_of(state.get("status"))
    said = state.get("message") if name else next(iter(state.values()), None)
    return name or next(iter(state), ""), said if isinstance(said, str) else ABSENT


def result_of(kind: str, item: dict[str, Any]) -> tuple[Any, str | None]:
    """Return what the program that ran a call printed, and the class of its failure."""
    declined = "rejected_by_user" if item.get("status") == "declined" else None
    if kind == "CommandExecution":
        printed = item.get("aggregated_output")
        if not isinstance(printed, str):
            printed = text_of(item.get("stdout")) + text_of(item.get("stderr"))
        return output_of(printed).result, declined or exit_class(item.get("exit_code"))
    failed = item.get("status") == "failed" or item.get("success") is False
    if kind == "FileChange":
        return ABSENT, declined or ("patch_failed" if failed else None)
    result = item.get("result", ABSENT)
    if isinstance(result, dict) and len(result) == 1 and result.keys() & {"Ok", "Err"}:
        failed, result = failed or "Err" in result, next(iter(result.values()))
    if isinstance(result, dict):
        failed = failed or result.get("is_error") is True or result.get("isError") is True
        result = result.get("content", result)
    return result, "tool_error" if failed or item.get("error") else None


def unasked_of(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    """What was run, where the call itself is not in the file."""
    if kind == "CommandExecution":
        script = script_of(item.get("command"))
        return {"tool": "exec_command", "args": ABSENT if script is None else {"cmd": script}}
    if kind == "McpToolCall":
        about = item.get("invocation")
        about = about if isinstance(about, dict) else item
        return {
            "tool": served(about.get("server"), about.get("tool")),
            "args": about.get("arguments", ABSENT),
        }
    return {"tool": "apply_patch"}


def lease_of(args: Any, at: int | None) -> dict[str, Any] | None:
    """Waiting for named children until a time that was set is a lease of theirs."""
    asked = attempt(args) if isinstance(args, str) else args
    if not isinstance(asked, dict) or at is None:
        return None
    targets = asked.get("targets", asked.get("ids"))
    owner = text_of(targets[0]) if isinstance(targets, list) and targets else ""
    limit = count_of(asked.get("timeout_ms"))
    if not owner or limit is None:
        return None
    return {"owner": owner, "waits_on": "agent", "deadline": min(at + limit * 1000, LAST_US)}


def spawn_of(meta: dict[str, Any]) -> dict[str, Any]:
    """Return what the first line of a child thread says of how it was started."""
    found: Any = meta.get("source")
    for key in ("subagent", "thread_spawn"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def error_name(payload: dict[str, Any]) -> str:
    """Name an error by the class that the client gives it."""
    info = payload.get("codex_error_info")
    name = info if isinstance(info, str) else next(iter(info), "") if isinstance(info, dict) else ""
    return text_of(name) or "error"
