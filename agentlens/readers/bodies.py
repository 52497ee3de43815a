r"""Results that tell in their own members that a tool failed, while whatever carried them says nothing of it.

Only members that stand for an outcome count (an exit code, an error flag, an error beside nothing but what
explains it) and a first line that is an exit code. Prose and documents that mention errors are results.
"""

from __future__ import annotations

import re
from typing import Any, Final

from agentlens.readers import decode

_EXIT: Final = re.compile(r"\s*(?:Error: )?Exit code:? (-?\d{1,4})\s*(?:\n|$)", re.IGNORECASE)
_CODES: Final = ("exit_code", "exitCode", "exit_status", "returncode", "return_code")
_FLAGS: Final = ("isError", "is_error")
_CLASS: Final = re.compile(r"\s*((?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Timeout))(?:[:(]|\s*$)")
_MODULE: Final = re.compile(r"(?:[A-Za-z_<][\w<>]*[.$])+([A-Z]\w*)")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{1,59}")
_MARKS: Final = ("rror", *_CODES)
_AROUND: Final = frozenset(
    {
        "error", "message", "code", "status", "status_code", "statusCode", "success", "ok", "detail", "details",
        "type", "result", "data", "content", "output", "traceback", "error_code",
        "error_type", "error_message", "request_id", "retry_after", "hint",
    }
)  # fmt: skip
"""Members that may stand beside ``error`` where it is the outcome, and not a field of what was looked up."""
_DATA: Final = ("result", "data", "content", "output")
_STATUS: Final = {401: "auth", 403: "auth", 408: "timeout", 429: "rate_limit", 529: "overloaded"}
_SERVER: Final = range(500, 600)
_FAILING: Final = range(400, 600)
_DEEP: Final = 3


def class_name(error: str) -> str:
    """Return the name of an exception's class without the module it is in; anything else as it is.

    >>> class_name("openai.RateLimitError"), class_name("java.net.SocketTimeoutException"), class_name("http.500")
    ('RateLimitError', 'SocketTimeoutException', 'http.500')
    """
    found = _MODULE.fullmatch(error)
    return found[1] if found else error


def failure_in(result: Any) -> str | None:
    r"""Return the class of the failure that a result tells in its own members; None where it tells of none.

    >>> failure_in('{"stdout": "", "exit_code": 3}'), failure_in("Exit code: 2\nno such file")
    ('exit_3', 'exit_2')
    >>> failure_in({"error": {"code": 429}}), failure_in({"error": "TimeoutError: too slow"})
    ('rate_limit', 'TimeoutError')
    >>> failure_in({"title": "Common errors", "error": "a field of a record"}) is None
    True
    """
    return _in(result, _DEEP)


def _in(result: Any, deep: int) -> str | None:
    if isinstance(result, str):
        if result.lstrip()[:1] != "{":
            return _leading(result)
        if not any(mark in result for mark in _MARKS):
            return None
        result = decode.attempt(result)
    if not deep:
        return None
    if isinstance(result, list) and len(result) == 1:
        return _in(result[0], deep - 1)
    return _of(result, deep) if isinstance(result, dict) else None


def _leading(text: str) -> str | None:
    found = _EXIT.match(text[:64])
    return exit_class(int(found[1])) if found else None


def _of(body: dict[str, Any], deep: int) -> str | None:
    for holder in (body, body.get("metadata"), body.get("outcome")):
        if isinstance(holder, dict) and (code := _exit_code(holder)) is not None:
            return exit_class(code)
    told = _told(body)
    if any(body.get(flag) is True for flag in _FLAGS):
        return told or _in(body.get("structuredContent"), deep - 1) or "tool_error"
    return told if _is_outcome(body) else None


def _exit_code(holder: dict[str, Any]) -> int | None:
    found = next((holder[name] for name in _CODES if name in holder), None)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def exit_class(code: int) -> str | None:
    """Name a failing exit code; 0 is none."""
    return f"exit_{code}" if code else None


def _is_outcome(body: dict[str, Any]) -> bool:
    """Say whether ``error`` is the outcome of the call: nothing beside it but what explains it."""
    return "jsonrpc" in body or (body.keys() <= _AROUND and not any(body.get(name) for name in _DATA))


def _told(body: dict[str, Any]) -> str | None:
    error = body.get("error")
    if error is True:
        return "tool_error"
    if isinstance(error, str):
        if not error.strip():
            return None
        found = _CLASS.match(error)
        return (
            class_name(found[1])
            if found
            else status_class(body.get("status_code", body.get("code"))) or "tool_error"
        )
    if not isinstance(error, dict) or not error:
        return None
    named = error.get("type", error.get("name"))
    known = status_class(error.get("code", error.get("status")))
    if known is None and isinstance(named, str) and _WORD.fullmatch(named):
        return class_name(named)
    return known or "tool_error"


def status_class(status: Any) -> str | None:
    """Name a failing HTTP status (400 to 599), given as a number or as its digits; None for anything else.

    >>> status_class(429), status_class("503"), status_class(404), status_class(200)
    ('rate_limit', 'server_error', 'http_404', None)
    """
    if isinstance(status, str) and status.isdecimal() and len(status) == 3:
        status = int(status)
    if not isinstance(status, int) or isinstance(status, bool) or status not in _FAILING:
        return None
    return _STATUS.get(status) or ("server_error" if status in _SERVER else f"http_{status}")
