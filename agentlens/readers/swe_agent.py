"""SWE-agent ``.traj`` files: one list of actions with what was seen after each; no times."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers.base import Format
from agentlens.readers.blocks import count_of, number_of, text_of
from agentlens.readers.decode import attempt
from agentlens.readers.documents import documents, first_document
from agentlens.readers.messages import error_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head, Source

_SHELL: Final = "bash"
_OWN: Final = frozenset(
    {
        "open", "goto", "scroll_up", "scroll_down", "create", "edit", "insert", "append", "submit", "search_dir",
        "search_file", "find_file", "set_cursors", "str_replace_editor", "undo_edit", "view_image", "skip",
        "exit_forfeit", "exit_cost", "exit_context", "exit_format", "exit_error", "exit_total_execution_time",
        "debug_start", "debug_continue", "debug_step", "debug_add_breakpoint", "debug_stop", "decompile",
        "disassemble", "connect_start", "connect_sendline", "connect_stop", "connect_exec", "click_mouse",
        "open_site", "close_site", "navigate_back", "navigate_forward", "screenshot_site",
    }
)  # fmt: skip
"""Commands that the agent's interface defines; a line that begins with any other word went to the shell."""
_STOPS: Final = frozenset(
    {
        "exit_cost", "exit_context", "exit_format", "exit_error", "exit_total_execution_time",
        "exit_command_timeout", "exit_environment_error", "exit_api",
    }
)  # fmt: skip
"""What the program that runs the agent writes as the action of the step at which it stopped."""
_STEP: Final = frozenset({"action", "observation"})
_FAILURES: Final = (
    ("EXECUTION TIMED OUT", "timeout"),
    ("was cancelled because it took more than", "timeout"),
    ("COMMAND TIMED OUT", "timeout"),
    ("Your bash command contained syntax errors and was NOT executed", "syntax_error"),
    ("' is not supported by this environment", "not_supported"),
    ("Your proposed edit has introduced new syntax error", "edit_rejected"),
    ("COMMAND FAILED TO EXECUTE", "command_failed"),
    (": command not found", "command_failed"),
)
_BEGUN = re.compile(rb'"trajectory"\s*:\s*\[\s*\{\s*"(?:action|observation|response|thought|query)"\s*:')
_LOOKED_AT: Final = 600
_SUBMITTED: Final = "submitted"
_HOLDS: Final = (
    "trajectory",
    "attempts",
)


def claim(head: Head) -> int:
    """Claim a document whose trajectory is a list of actions with observations."""
    if head.magic:
        return 0
    if not head.whole and _BEGUN.search(head.data):
        return 85
    first = first_document(head, _HOLDS)
    if not isinstance(first, dict):
        return 0
    attempts = first.get("attempts")
    nested = attempts[0] if isinstance(attempts, list) and attempts else None
    for found in (first, nested):
        steps = found.get("trajectory") if isinstance(found, dict) else None
        if isinstance(steps, list) and steps and isinstance(steps[0], dict) and steps[0].keys() >= _STEP:
            return 92
    return 60 if first.keys() >= {"trajectory", "history", "info"} else 0


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the actions of one trajectory; the history beside it, demonstrations included, repeats them."""
    for name, base, document in documents(source, report, ("trajectory", ""), _HOLDS):
        about = document if isinstance(document, dict) else {}
        found = about.get("attempts")
        attempts = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
        several = [one for one in attempts if isinstance(one.get("trajectory"), list)]
        parts = several or [about]
        if not several and not isinstance(about.get("trajectory"), list):
            report.quarantine(base, "no trajectory: an object with a list of steps was expected", "record")
            continue
        begin = base
        for number, part in enumerate(parts, 1):
            # of a run that was tried anew, each attempt is a lane: the world was set up again
            lane = f"attempt-{number}" if several else ""
            yield from _Trajectory(report, part, about, name, lane, begin).events()
            begin += len(part["trajectory"]) + 2


@dataclass(frozen=True, slots=True)
class _Trajectory:
    report: Report
    part: dict[str, Any]
    about: dict[str, Any]
    run_id: str
    lane: str
    base: int

    def event(self, index: int, kind: str, **facts: Any) -> RawEvent:
        order = facts.pop("order", 0)
        return RawEvent(
            run_id=self.run_id,
            agent=self.lane,
            position=(self.base + index, order),
            kind=kind,
            identity=f"{self.lane}/{self.base + index}/{order}",
            task_group=_task(self.about) or None,
            **facts,
        )

    def events(self) -> Iterator[RawEvent]:
        steps = self.part["trajectory"]
        for index, step in enumerate(steps):
            if not isinstance(step, dict):
                self.report.quarantine(self.base + index, "a step that is no object", "record")
                continue
            yield self._step(step, index)
        yield from self._final(len(steps))

    def _step(self, step: dict[str, Any], index: int) -> RawEvent:
        line = text_of(step.get("action")).strip(" \t\r\n")
        seen = step.get("observation", ABSENT)
        error = _error(seen)
        if not line:
            return self.event(index, "log", tool="no_action", error_class=error, seq=index)
        word = line.split(None, 1)[0]
        if word in _STOPS and word == line:
            return self.event(index, "log", tool=word, seq=index)
        own = word in _OWN
        return self.event(
            index,
            "tool",
            tool=word if own else _SHELL,
            args=line if own else {"command": line},
            result=None if seen is ABSENT else seen,
            error_class=error,
            seq=index,
            open=seen is ABSENT or seen is None,
        )

    def _final(self, index: int) -> Iterator[RawEvent]:
        info = self.part.get("info")
        info = info if isinstance(info, dict) else {}
        stats = info.get("model_stats")
        stats = stats if isinstance(stats, dict) else {}
        into, out = count_of(stats.get("tokens_sent")), count_of(stats.get("tokens_received"))
        cost = number_of(stats.get("instance_cost"))
        if into or out or cost:
            yield self.event(
                index, "model", model=_model(self.about), tokens_in=into, tokens_out=out, cost_usd=cost
            )
        status = text_of(info.get("exit_status"))
        if status == _SUBMITTED:
            yield self.event(index, "claim", order=1, tool="submit", target="success")
        elif status:  # "submitted (exit_cost)" too: handed in by the program that stopped the agent
            inner = re.search(r"\((\w+)\)", status)
            yield self.event(
                index, "log", order=1, tool="exit", error_class=inner[1] if inner else status[:80]
            )


def _error(seen: Any) -> str | None:
    if not isinstance(seen, str):
        return None
    head = seen[:_LOOKED_AT]
    return next((name for words, name in _FAILURES if words in head), None) or error_of(seen)


def _task(about: dict[str, Any]) -> str:
    problem = _replayed(about).get("problem_statement")
    return text_of(problem.get("id")) if isinstance(problem, dict) else ""


def _model(about: dict[str, Any]) -> str | None:
    agent = _replayed(about).get("agent")
    model = agent.get("model") if isinstance(agent, dict) else None
    return (text_of(model.get("name")) or None) if isinstance(model, dict) else None


def _replayed(about: dict[str, Any]) -> dict[str, Any]:
    config = about.get("replay_config")
    config = attempt(config) if isinstance(config, str) else config
    return config if isinstance(config, dict) else {}


FORMAT = Format(
    name="swe-agent",
    version=2,
    title="SWE-agent trajectories (.traj)",
    recognised_by="a trajectory of steps with action and observation",
    proved_on="13 demonstrations and model runs of three versions",
    claim=claim,
    read=read,
)
