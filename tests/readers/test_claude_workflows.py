"""Sub-agents that a workflow of Claude Code starts: their files stand deeper, under the session that began it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from agentlens.lake.direct import read_file
from agentlens.readers.claude_code import FORMAT
from agentlens.readers.source import Source
from tests.readers.lanes_made import NORMALISER

if TYPE_CHECKING:
    from pathlib import Path


def line(kind: str, second: int, content: list[Any], session: str = "s1", **more: Any) -> dict[str, Any]:
    message = {"id": f"m{second}", "role": kind, "content": content, "model": "m"}
    return {
        "type": kind, "uuid": f"u{second}", "parentUuid": f"u{second - 1}" if second else None, "sessionId": session,
        "isSidechain": False, "timestamp": f"2026-06-28T09:00:{second:02}.000Z", "message": message, **more,
    }  # fmt: skip


def used(call: str, name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": given}


@pytest.mark.parametrize("session", ["s1", "s1#agent-a7"])
def test_a_workflow_and_its_sub_agents_are_one_session(session: str, tmp_path: Path) -> None:
    """What only began is no evidence; the sub-agent's lane belongs to the session, whatever mark its name carries."""
    launched = "Workflow launched in background. Task ID: task_1"
    main = [
        line("user", 0, [{"type": "text", "text": "go"}]),
        line("assistant", 1, [used("t1", "Workflow", scriptPath="/x.js")]),
        line("user", 2, [{"type": "tool_result", "tool_use_id": "t1", "content": launched}]),
    ]
    side = [
        line("assistant", 10, [used("t2", "Bash", command="ls")], session, isSidechain=True, agentId="a7")
    ]
    folder = tmp_path / "s1" / "subagents" / "workflows" / "wf_1"
    folder.mkdir(parents=True)
    files = {tmp_path / "s1.jsonl": main, folder / "agent-a7.jsonl": side}
    for path, rows in files.items():
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = read_file(tmp_path, NORMALISER).events.filter(pl.col("kind") == "tool").collect()
    assert found.select("run_id", "agent", "tool", "progress_fingerprint").rows() == [
        ("s1", "", "Workflow", None),
        ("s1", "subagent", "Bash", None),
    ]
    assert FORMAT.companions is not None
    assert list(FORMAT.companions(Source.of(folder / "agent-a7.jsonl"))) == [tmp_path / "s1.jsonl"]
