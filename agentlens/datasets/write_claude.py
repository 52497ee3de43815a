"""Planted coding runs as Claude Code sessions: one JSONL file a session, one more for each sub-agent."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentlens.datasets.draws import Draws
from agentlens.datasets.records import stamp, tokens

if TYPE_CHECKING:
    from agentlens.datasets.story import PlantedRun, Step

PROJECT = "-srv-tidewatch"
_SAID = ("Let me look at that.", "That should settle it.", "Now the next step.", "I see what is wrong here.")


@dataclass(slots=True, kw_only=True)
class _Transcript:
    """One growing file: every line names the one before it as its parent."""

    run: PlantedRun
    draws: Draws
    side: str | None = None  # sub-agent id; None for the session itself
    lines: list[str] = field(default_factory=list)
    parent: str | None = None

    def add(self, kind: str, ms: int, message: dict[str, Any], **more: Any) -> None:
        own = self.draws.uuid()
        line = {
            "parentUuid": self.parent,
            "isSidechain": self.side is not None,
            "userType": "external",
            "cwd": "/srv/tidewatch",
            "sessionId": self.run.run_id,
            "version": self.run.agent_version,
            "gitBranch": "main",
            **({"agentId": self.side} if self.side else {}),
            "type": kind,
            "message": message,
            "uuid": own,
            "timestamp": stamp(self.run.start_ms + ms),
            **more,
        }
        self.lines.append(json.dumps(line, separators=(",", ":"), ensure_ascii=False))
        self.parent = own


def claude_files(run: PlantedRun) -> dict[str, list[str]]:
    """Return the lines of every file of one session, by path below the projects folder."""
    draws = Draws("claude", run.run_id)
    main = _Transcript(run=run, draws=draws)
    files = {f"{PROJECT}/{run.run_id}.jsonl": main.lines}
    snapshot = {"messageId": draws.uuid(), "trackedFileBackups": {}, "timestamp": stamp(run.start_ms)}
    first = {"type": "file-history-snapshot", "messageId": snapshot["messageId"], "snapshot": snapshot}
    main.lines.append(json.dumps(first, separators=(",", ":")))
    main.add("user", 0, {"role": "user", "content": run.prompt})
    side: _Transcript | None = None
    open_task: tuple[str, Step] | None = None
    for seq, step in enumerate(run.steps):
        if open_task and step.agent == "" and side:
            _returned(main, side, open_task)
            open_task, side = None, None
        if step.kind == "handoff" and step.call:
            call_id = _asked(main, seq, step)
            side = _Transcript(run=run, draws=draws.child("side", seq), side=draws.hex(8))
            files[f"{PROJECT}/{run.run_id}/subagents/agent-{side.side}.jsonl"] = side.lines
            side.add("user", step.end_ms, {"role": "user", "content": step.call.args["prompt"]})
            open_task = (call_id, step)
        elif step.kind == "turn":
            main.add("user", step.start_ms, {"role": "user", "content": step.text})
        elif step.kind == "claim":
            _said(main, seq, step)
        elif step.call:
            where = side or main
            _answered(where, _asked(where, seq, step), step)
    if open_task and side:
        _returned(main, side, open_task)
    return files


def _assistant(to: _Transcript, seq: int, step: Step, contents: list[dict[str, Any]], stop: str) -> None:
    """Write one response: a line a block, all with the id and the usage of the whole."""
    tokens_in, tokens_out = tokens(seq, step)
    own, request = f"msg_01{to.draws.hex(22)}", f"req_01{to.draws.hex(22)}"
    for content in contents:
        message = {
            "id": own,
            "type": "message",
            "role": "assistant",
            "model": to.run.model,
            "content": [content],
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {"input_tokens": tokens_in, "output_tokens": tokens_out},
        }
        to.add("assistant", step.start_ms, message, requestId=request)


def _asked(to: _Transcript, seq: int, step: Step) -> str:
    assert step.call is not None
    call_id = f"toolu_01{to.draws.hex(22)}"
    content = {"type": "tool_use", "id": call_id, "name": step.call.tool, "input": dict(step.call.args)}
    said = [{"type": "text", "text": to.draws.pick(_SAID)}] if to.draws.chance(0.25) else []
    _assistant(to, seq, step, [*said, content], "tool_use")
    return call_id


def _answered(to: _Transcript, call_id: str, step: Step) -> None:
    assert step.call is not None
    text = "" if step.call.result is None else str(step.call.result)
    content: dict[str, Any] = {"tool_use_id": call_id, "type": "tool_result", "content": text}
    if step.call.error:
        content["is_error"] = True
    result: Any = f"Error: {text}" if step.call.error else _structured(step, text)
    to.add("user", step.end_ms, {"role": "user", "content": [content]}, toolUseResult=result)


def _structured(step: Step, text: str) -> dict[str, Any]:
    assert step.call is not None
    if step.call.tool == "Bash":
        return {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
    return {"type": "text", "content": text}


def _returned(main: _Transcript, side: _Transcript, task: tuple[str, Step]) -> None:
    """Close a task: the sub-agent's last word, then its result in the session."""
    call_id, step = task
    assert step.call is not None
    answer = str(step.call.result)
    last = _last_ms(side)
    said = {"type": "text", "text": answer}
    message = {
        "id": f"msg_01{side.draws.hex(22)}",
        "type": "message",
        "role": "assistant",
        "model": side.run.model,
        "content": [said],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 2_000, "output_tokens": 60},
    }
    side.add("assistant", last + 600, message)
    content = {"tool_use_id": call_id, "type": "tool_result", "content": [said]}
    result = {
        "status": "completed",
        "prompt": step.call.args["prompt"],
        "agentId": side.side,
        "content": [said],
        "totalDurationMs": last + 600 - step.start_ms,
        "totalTokens": 9_000,
        "totalToolUseCount": sum(bool(one.agent) for one in side.run.steps),
    }
    main.add("user", last + 650, {"role": "user", "content": [content]}, toolUseResult=result)


def _last_ms(side: _Transcript) -> int:
    steps = [step for step in side.run.steps if step.agent]
    return max((step.end_ms for step in steps), default=0)


def _said(to: _Transcript, seq: int, step: Step) -> None:
    _assistant(to, seq, step, [{"type": "text", "text": step.text}], "end_turn")
