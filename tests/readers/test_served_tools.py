"""Tools of MCP servers: two servers may have tools of one name, and a call of one is no repetition of the other's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.readers.merging import of_kind
from tests.readers.test_codex import call, meta, output, row, told

NAMES = ["mcp__docs__search", "mcp__mail__search"]


def test_a_rollout_names_the_server_as_the_space_of_the_tool() -> None:
    """What the model asked for and what the program ran are one action of that name."""
    ends = [
        row(
            "event_msg",
            3,
            type="mcp_tool_call_end",
            call_id=own,
            result={"Ok": {"content": [], "is_error": False}},
        )
        for own in "ab"
    ]
    asked = [
        call("a", {}, namespace="mcp__docs", name="search"),
        call("b", {}, namespace="mcp__mail__", name="search"),
    ]
    found = of_kind(told(meta(), *asked, output("a", "[]"), output("b", "[]"), *ends), "tool")
    assert [one["tool"] for one in found] == NAMES


def test_a_rollout_without_the_call_and_a_stream_give_the_same_names() -> None:
    """Older files have the whole name in the call, the program's own record the server beside the tool."""
    ran = [
        row(
            "event_msg",
            second,
            type="mcp_tool_call_end",
            call_id=server,
            invocation={"server": server, "tool": "search", "arguments": {}},
            result={"Ok": {"content": []}},
        )
        for second, server in enumerate(("docs", "mail"), 1)
    ]
    items = [
        {"id": server, "type": "mcp_tool_call", "server": server, "tool": "search", "arguments": {}}
        for server in ("docs", "mail")
    ]
    stream = [
        {"type": "thread.started", "thread_id": "t"},
        *({"type": "item.completed", "item": one} for one in items),
    ]
    older = [call(name, {}, second, name) for second, name in enumerate(NAMES, 1)]
    for rows in ([meta(), *ran], stream, [meta(), *older]):
        assert [one["tool"] for one in of_kind(told(*rows), "tool")] == NAMES


@pytest.mark.parametrize("space", ["multi_agent_v1", "", None, 7, "mcp__"])
def test_any_other_space_is_no_server(space: Any) -> None:
    """The program's own tools keep their names."""
    found = told(meta(), call("a", {"agent_type": "w"}, name="spawn_agent", namespace=space))
    assert [(one["kind"], one["tool"]) for one in found if one["kind"] == "handoff"] == [
        ("handoff", "spawn_agent")
    ]


def test_calls_that_the_provider_made_name_their_server() -> None:
    """Responses items of the provider's own MCP client."""
    output_items = [
        {
            "type": "mcp_call",
            "id": server,
            "name": "search",
            "server_label": server,
            "arguments": "{}",
            "output": "[]",
        }
        for server in ("docs", "mail")
    ]
    found = told({"object": "response", "output": output_items})
    assert [one["tool"] for one in of_kind(found, "tool")] == NAMES
