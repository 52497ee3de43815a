"""A handoff that a tool and the caller's span of the agent tell of is one action, one receipt, one acceptance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from agentlens.detect.inferred import inferred_receipts
from agentlens.lake.direct import read_file
from tests.readers.lanes_made import NORMALISER
from tests.readers.spans_made import agent, lines, request, span, tool

if TYPE_CHECKING:
    from pathlib import Path


def caller(number: int, name: str, parent: int, **more: Any) -> dict[str, Any]:
    return agent(number, name, parent=parent, kind=3, **more)


@pytest.mark.parametrize("where", ["below", "beside"])
@pytest.mark.parametrize("order", [1, -1])
def test_one_act_is_one_handoff(where: str, order: int, tmp_path: Path) -> None:
    """Twice handed over and twice called: two handoffs, whatever order the spans stand in."""
    spans = [agent(1, "lead")]
    for n in (2, 12):
        spans += [
            tool(n, "transfer_to_writer", "{}", "ok"),
            caller(n + 1, "writer", n if where == "below" else 1),
            agent(n + 2, "writer", parent=n + 1),
            tool(n + 3, "draft", "{}", "x", parent=n + 2),
        ]
    path = tmp_path / "spans.jsonl"
    path.write_bytes(lines(request(*spans[::order])))
    events = read_file(path, NORMALISER).events.collect()
    told = events.filter(pl.col("kind") == "handoff")
    assert (
        told.select("agent", "tool", "target", "open").rows()
        == [("lead", "transfer_to_writer", "writer", False)] * 2
    )
    receipts = inferred_receipts(events.lazy()).collect()
    assert receipts.filter(pl.col("event") == "delegated").height == 2
    assert receipts.filter(pl.col("event") == "accepted")["rule"].to_list() == ["span.child"] * 2


def test_what_only_the_caller_saw_is_kept(tmp_path: Path) -> None:
    """The tool ended well, the call below it failed; a call that nothing else tells of is a handoff itself."""
    failed = {"status": {"code": 2, "message": "late"}}
    spans = [
        agent(1, "lead"),
        tool(2, "transfer_to_writer", "{}", "ok"),
        caller(3, "writer", 2, **failed),
        caller(4, "editor", 1),
        span(5, "chat m", {"gen_ai.operation.name": "chat"}, parent=1),
    ]
    path = tmp_path / "spans.jsonl"
    path.write_bytes(lines(request(*spans)))
    told = read_file(path, NORMALISER).events.filter(pl.col("kind") == "handoff").collect()
    assert told.select("target", "error_class").rows() == [("writer", "unknown"), ("editor", None)]
