"""OpenHands V0 trajectories: one list of actions and observations, numbered, tied by ``cause``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers.base import Format
from agentlens.readers.blocks import Lane, Spot, count_of, number_of, text_of
from agentlens.readers.documents import documents
from agentlens.readers.openhands import CUT
from agentlens.readers.stamps import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.model.raw import RawEvent
    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head, Source

_TOOLS: Final = {"run": "execute_bash", "run_ipython": "execute_ipython_cell", "call_tool_mcp": "mcp"}
_SILENT: Final = frozenset(
    {
        "system",
        "recall",
        "change_agent_state",
        "think",
        "null",
        "initialize",
        "start",
        "send_pr",
        "push",
        "pause",
        "resume",
    }
)
_NO_ARGS: Final = frozenset(
    {
        "thought", "confirmation_state", "security_risk", "blocking", "hidden", "keep_prompt", "is_static", "cwd",
        "impl_source", "image_urls", "file_urls", "wait_for_response", "tool_call_metadata", "include_extra",
        "kernel_init_code", "return_axtree",
    }
)  # fmt: skip
_RAISED: Final = re.compile(
    r"(?:\w{1,80}\.){0,8}([A-Z]\w{0,80}(?:Error|Exception|Timeout|Interrupt))(?=[:(]|$)"
)
_LISTS: Final = ("trajectory", "history")


def claim(head: Head) -> int:
    """Claim a list of numbered events with an action or an observation each."""
    first = head.values[0] if head.values and not head.magic else None
    items = _items(first)
    if items is None and isinstance(first, dict) and head.lines:
        items = list(head.values)
    known = [item for item in items or () if _is_event(item)]
    return 88 if known and len(known) * 2 >= len(items or ()) else 0


def _items(document: Any) -> list[Any] | None:
    if isinstance(document, list):
        return document
    if isinstance(document, dict):
        return next((document[key] for key in _LISTS if isinstance(document.get(key), list)), None)
    return None


def _is_event(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(item.get("id"), int)
        and bool(item.keys() & {"action", "observation"})
        and "source" in item
    )


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of one trajectory."""
    loose: _Events | None = None  # events that stand one a line belong to one run
    for name, base, document in documents(source, report, ("", *_LISTS), _LISTS):
        items = _items(document)
        if items is not None:
            run = text_of(document.get("instance_id")) if isinstance(document, dict) else ""
            events = _Events(report=report, lane=Lane(run_id=run or name))
            events.totals = any("llm_metrics" in item for item in _flat(items) if isinstance(item, dict))
        elif _is_event(document):
            loose = loose or _Events(report=report, lane=Lane(run_id=name.partition("#")[0]))
            events, items = loose, [document]
        else:
            report.quarantine(base, "no trajectory: a list of events was expected", "record")
            continue
        for number, item in _in_order(list(_flat(items)), base):
            if isinstance(item, dict):
                yield from events.event(item, number)
            else:
                report.quarantine(number, f"a {type(item).__name__} where an event was expected", "record")
        if isinstance(document, dict):
            yield from _evaluated(document, Spot(lane=events.lane, line=base + len(items)))


def _evaluated(document: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
    """What an evaluation says beside the history: how it broke off, and what the tests said of the work.

    A false answer of tests that broke off or never came to an end says nothing.
    """
    if failure := text_of(document.get("error")):
        named = _RAISED.match(failure)
        yield spot.event(90, "log", tool="error", error_class=named[1] if named else "error")
    tested = document.get("test_result")
    nested = tested.get("report") if isinstance(tested, dict) else None
    report = next((one for one in (document.get("report"), nested) if isinstance(one, dict)), {})
    resolved = report.get("resolved")
    if isinstance(resolved, bool):
        broken = not resolved and (report.get("error_eval") is True or report.get("test_timeout") is True)
        outcome = "passed" if resolved else "unknown" if broken else "failed"
        yield spot.event(91, "verdict", tool="report", target="report", outcome=outcome)


def _flat(items: list[Any]) -> Iterator[Any]:
    """Yield events; old evaluation files hold pairs of an action and its observation."""
    for item in items:
        yield from item if isinstance(item, list) and item else (item,)


def _in_order(items: list[Any], base: int) -> list[tuple[int, Any]]:
    """Return events with their places, in the order of their numbers where every one has its own."""
    placed = list(enumerate(items, base))
    ids = [item.get("id") if isinstance(item, dict) else None for item in items]
    if all(isinstance(own, int) for own in ids) and len(set(ids)) == len(ids):
        placed.sort(key=lambda one: one[1]["id"])
    return placed


@dataclass(slots=True)
class _Events:
    report: Report
    lane: Lane
    around: list[Lane] = field(default_factory=list)  # lanes of those whose delegate is at work
    spent: float = 0.0
    tokens: tuple[int, int] = (0, 0)
    totals: bool = False  # metrics are told, in which every answer of the model is counted
    answers: set[str] = field(default_factory=set)
    calls: dict[int, tuple[str, str | None, str]] = field(default_factory=dict)  # kind, target, tool

    def event(self, item: dict[str, Any], number: int) -> Iterator[RawEvent]:
        spot = Spot(lane=self.lane, line=number, at=moment(item.get("timestamp"), self.report))
        yield from self._usage(item, spot)
        if "observation" in item:
            yield from self._seen(item, spot)
        elif "action" in item:
            yield from self._done(item, spot)
        else:
            self.report.unknown["event without action or observation"] += 1

    def _usage(self, item: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
        """Metrics are running totals of the whole run."""
        metrics = item.get("llm_metrics")
        if not isinstance(metrics, dict):
            yield from () if self.totals else self._answer(item, spot)
            return
        self.totals = True
        total = metrics.get("accumulated_token_usage")
        total = total if isinstance(total, dict) else {}
        into, out = (count_of(total.get(name)) for name in ("prompt_tokens", "completion_tokens"))
        cost = number_of(metrics.get("accumulated_cost")) or 0.0
        new = (max((into or 0) - self.tokens[0], 0), max((out or 0) - self.tokens[1], 0))
        dearer = round(max(cost - self.spent, 0.0), 9)
        if not any(new) and not dearer:
            return
        self.tokens = (max(into or 0, self.tokens[0]), max(out or 0, self.tokens[1]))
        self.spent = max(cost, self.spent)
        yield spot.event(
            0, "model", model=text_of(total.get("model")) or None, cost_usd=dearer,
            tokens_in=None if into is None else new[0], tokens_out=None if out is None else new[1],
            identity=f"usage/{text_of(item.get('id')) or spot.line}",
        )  # fmt: skip

    def _answer(self, item: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
        """The model's answer that an action came from; every call in it carries the same."""
        about = item.get("tool_call_metadata")
        answer = about.get("model_response") if isinstance(about, dict) and "action" in item else None
        answer = answer if isinstance(answer, dict) else {}
        usage, own = answer.get("usage"), text_of(answer.get("id"))
        if not isinstance(usage, dict) or own in self.answers:
            return
        self.answers.update({own} - {""})
        yield spot.event(
            0, "model", model=text_of(answer.get("model")) or None, identity=f"answer/{own}" if own else None,
            tokens_in=count_of(usage.get("prompt_tokens")), tokens_out=count_of(usage.get("completion_tokens")),
        )  # fmt: skip

    def _done(self, item: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
        action, own = text_of(item.get("action")), item.get("id")
        given = item.get("args")
        given = given if isinstance(given, dict) else {}
        if action == "message":
            if item.get("source") == "user":
                yield spot.event(1, "message", tool="user", external_input=True, identity=f"event/{own}")
            return
        if action in _SILENT:
            return
        if action in {"condensation", "condensation_request"}:
            if action == "condensation":
                yield spot.event(1, "compaction", tool=action, identity=f"event/{own}")
            return
        kind, target = "tool", None
        if action in {"finish", "reject"}:
            done = action == "finish" and text_of(given.get("task_completed")) not in {"false", "partial"}
            kind, target = "claim", "success" if done else "failure"
        elif action == "delegate":
            kind, target = "handoff", text_of(given.get("agent")) or None
        about = item.get("tool_call_metadata")
        about = about if isinstance(about, dict) else {}
        name = text_of(about.get("function_name")) or _TOOLS.get(action, action)
        name = text_of(given.get("name")) or name if action == "call_tool_mcp" else name
        refused = given.get("confirmation_state") == "rejected"
        if isinstance(own, int) and not isinstance(own, bool):
            self.calls[own] = (kind, target, name)
        yield spot.event(
            1,
            kind,
            tool=name,
            args={key: value for key, value in given.items() if key not in _NO_ARGS},
            target=target,
            call_id=text_of(about.get("tool_call_id")) or None,
            identity=f"action/{own}",
            error_class="rejected_by_user" if refused else None,
            open=kind != "claim" and not refused,
        )
        if kind == "handoff" and not refused and count_of(own) is not None:
            self.around.append(self.lane)
            self.lane = Lane(
                run_id=self.lane.run_id,
                agent=target or "delegate",
                instance=f"action/{own}",
                parent_agent=self.lane.agent,
            )

    def _seen(self, item: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
        name, cause = text_of(item.get("observation")), count_of(item.get("cause"))
        if (
            name == "delegate" and cause is None and self.lane.instance
        ):  # it names no cause: its call is the one at work
            cause = count_of(int(self.lane.instance.removeprefix("action/")))
        extras = item.get("extras")
        extras = extras if isinstance(extras, dict) else {}
        if name == "agent_state_changed":
            yield from _state(text_of(extras.get("agent_state")), spot, item)
        elif name == "error" and (cause is None or cause not in self.calls):
            stuck = "stuck in a loop" in text_of(item.get("content")).lower()
            told = text_of(extras.get("error_id")) or "error"
            yield spot.event(1, "log", tool="error", error_class="stuck" if stuck else told)
        elif cause is not None and cause in self.calls:
            kind, target, tool = self.calls[cause]
            if kind == "handoff" and self.around:  # the delegate is done: its master goes on
                self.lane = self.around.pop()
                spot = replace(spot, lane=self.lane)
            seen = item.get("content", ABSENT)
            if isinstance(seen, str) and CUT.search(seen):
                seen = None
            going = _code(extras) == -1
            yield spot.event(
                1, kind, at=None, ended_at=None if going else spot.at, tool=tool, target=target, result=seen,
                error_class=_failure(name, extras, text_of(item.get("content"))), open=going,
                identity=f"action/{cause}",
            )  # fmt: skip
            if name == "user_rejected":
                yield spot.event(
                    2, "approval", tool="user", error_class="rejected_by_user", external_input=True
                )


def _state(state: str, spot: Spot, item: dict[str, Any]) -> Iterator[RawEvent]:
    waits = {
        "awaiting_user_confirmation": ("approval", "user"),
        "awaiting_user_input": ("wait", "user"),
        "user_rejected": ("approval", "user"),
    }
    own = text_of(item.get("id")) or spot.line
    if state in waits:
        kind, target = waits[state]
        refused = "rejected_by_user" if state == "user_rejected" else None
        yield spot.event(
            1, kind, tool="agent_state", target=target, open=refused is None, error_class=refused,
            external_input=True if refused else None, identity=f"state/{own}",
        )  # fmt: skip
    elif state in {"error", "stopped", "rate_limited", "user_confirmed"}:
        extras = item.get("extras")
        why = text_of(extras.get("reason")).lower() if isinstance(extras, dict) else ""
        error = (
            "stuck" if state == "error" and "stuck in a loop" in why else state
        )  # a detector of its own said so
        yield spot.event(
            1, "log", tool="agent_state", target=state, error_class=None if state == "user_confirmed" else error,
            external_input=True if state == "user_confirmed" else None, identity=f"state/{own}",
        )  # fmt: skip


def _code(extras: dict[str, Any]) -> int | None:
    about = extras.get("metadata")
    code = extras.get("exit_code", about.get("exit_code") if isinstance(about, dict) else None)
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _failure(name: str, extras: dict[str, Any], said: str) -> str | None:
    if name == "user_rejected":
        return "rejected_by_user"
    if name == "error":
        missing = "file_not_found" if said.lower().startswith("file not found") else "error"
        return text_of(extras.get("error_id")) or missing
    code = _code(extras)
    return (
        f"exit_{code}" if code is not None and code > 0 else "error" if extras.get("error") is True else None
    )


FORMAT = Format(
    name="openhands-v0",
    version=3,
    title="OpenHands V0 trajectories (trajectory.json, evaluation output lines)",
    recognised_by="a list of events with integer id, source, and an action or an observation",
    proved_on="files made by hand after the source",
    claim=claim,
    read=read,
)
