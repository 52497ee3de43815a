"""Failures that a result tells in its own members."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentlens.readers.bodies import failure_in, status_class
from tests.readers.reading import tools
from tests.readers.spans_made import attributes, lines, request, tool

FAILED: list[tuple[Any, str]] = [
    ("Exit code: 2\nstderr: bad", "exit_2"),
    ("Exit code 127", "exit_127"),
    ({"stdout": "", "exit_code": 3}, "exit_3"),
    ({"stdout": "", "stderr": "bad", "returncode": -9}, "exit_-9"),
    ({"output": "x", "metadata": {"exit_code": 1}}, "exit_1"),
    ({"content": [], "isError": True}, "tool_error"),
    ({"error": {"code": 429, "message": "Too many requests"}}, "rate_limit"),
    ({"error": {"code": 503}}, "server_error"),
    ({"error": {"type": "overloaded_error", "message": "x"}, "type": "error"}, "overloaded_error"),
    ({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no method"}}, "tool_error"),
    ({"error": "TimeoutError: too slow"}, "TimeoutError"),
    ({"error": "no such city", "result": None}, "tool_error"),
]
FINE: list[Any] = [
    "Exit code: 0\nfine",
    "The last lines say: Exit code: 2",
    "An error is an error",
    "Exit code: 2 means that nothing matched",
    {"stdout": "Error: x", "exit_code": 0},
    {"isError": False, "content": [{"type": "text", "text": "error"}]},
    {"error": None, "result": 3},
    {"error": "", "message": "fine"},
    {"error": {}, "rows": []},
    {"id": 7, "title": "Checkout", "error": "a field of the ticket that was looked up"},
    {"result": {"rows": 3}, "error": "one source was slow"},
    [{"error": "a"}, {"error": "b"}],
    {"exit_code": True},
    None,
    7,
]


@pytest.mark.parametrize(("body", "error"), FAILED)
def test_a_body_that_tells_of_a_failure_has_its_class(body: Any, error: str) -> None:
    """As an object and as its text alike."""
    assert failure_in(body) == error
    assert failure_in(body if isinstance(body, str) else json.dumps(body)) == error


@pytest.mark.parametrize("body", FINE)
def test_a_body_that_only_speaks_of_errors_is_a_result(body: Any) -> None:
    """Prose, looked-up records and partial answers are none."""
    assert failure_in(body) is None
    assert failure_in(body if isinstance(body, str) else json.dumps(body)) is None


def test_hostile_bodies_are_no_failure_and_no_crash() -> None:
    """Deep nesting, digits without end, odd types of every member."""
    assert failure_in('{"error":' * 5000) is None
    assert failure_in("Exit code: " + "9" * 5000) is None
    assert failure_in([[[[[{"exit_code": 2}]]]]]) is None
    for odd in ([], {}, 0, "", "2", 1.5, None):
        assert failure_in({"exit_code": odd, "metadata": odd, "outcome": odd, "isError": odd}) is None
        assert status_class(odd) is None


def test_a_span_that_ended_well_still_has_the_failure_of_its_result() -> None:
    """Under the attribute names of every dialect; a failure that the span names itself stands."""
    body = '{"stdout": "", "stderr": "bad", "exit_code": 2}'
    other = tool(3, "bash", "{}", "{}")
    other["attributes"] = attributes(
        {"openinference.span.kind": "TOOL", "tool.name": "bash", "input.value": "{}", "output.value": body}
    )
    named = tool(4, "bash", "{}", body)
    named["status"] = {"code": 2}
    named["attributes"] += attributes({"error.type": "TimeoutError"})
    found = tools(lines(request(tool(2, "bash", "{}", body), other, named)))
    assert [event.error_class for event in found] == ["exit_2", "exit_2", "TimeoutError"]
    assert found[0].result == body
