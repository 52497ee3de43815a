"""ATIF trajectories (Harbor, Terminal-Bench): one JSON document a run, versions 1.0 to 1.8."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers.base import Format
from agentlens.readers.blocks import (
    Lane,
    Spot,
    count_of,
    error_class,
    identity,
    kind_of,
    number_of,
    result_of,
    text_of,
)
from agentlens.readers.decode import attempt
from agentlens.readers.documents import documents, first_document
from agentlens.readers.stamps import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.model.raw import RawEvent
    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head, Source

_VERSION = re.compile(r"(?:ATIF-)?v?1\.\d{1,2}")
_NAMED = re.compile(rb'"schema_version"\s*:\s*"ATIF-v1\.')
_COUNTED = re.compile(r"functions\.[^:]{1,80}:(\d{1,9})", re.ASCII)
_FINISH: Final = frozenset({"finish", "submit", "task_complete", "mark_task_complete", "attempt_completion"})
_FAILURE = re.compile(r"<tool_use_error>|(?:Error: )?Exit code [1-9]")
_TERMINAL: Final = "terminal"
"""Tool of an agent that writes its commands into the message instead of calling a tool."""
_HOLDS: Final = ("steps",)


def claim(head: Head) -> int:
    """Claim a document that names an ATIF version, or has one's keys beside a version of that shape."""
    if head.magic:
        return 0
    if _NAMED.search(head.data):
        return 95
    first = first_document(head, _HOLDS)
    if not isinstance(first, dict) or not isinstance(first.get("steps"), list):
        return 0
    version = text_of(first.get("schema_version"))
    return 85 if _VERSION.fullmatch(version) and ({"agent", "session_id"} & first.keys()) else 0


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of one trajectory and of those embedded in it, in order of their steps."""
    for name, base, document in documents(source, report, ("steps", ""), _HOLDS):
        if not isinstance(document, dict) or not isinstance(document.get("steps"), list):
            report.quarantine(base, "no trajectory: an object with a list of steps was expected", "record")
            continue
        own = text_of(document.get("trajectory_id"))
        run_id = text_of(document.get("session_id")) or own or name
        lane = Lane(run_id=run_id)
        yield from _Trajectory(
            report=report, document=document, lane=lane, own=own or name, base=base
        ).events()


@dataclass(slots=True)
class _Trajectory:
    """One trajectory: the run's own, or one of a sub-agent inside it."""

    report: Report
    document: dict[str, Any]
    lane: Lane
    own: str  # tells steps of a continued trajectory from those of the first part
    base: int = 0  # number of its first step in the file
    calls: dict[str, str] = field(default_factory=dict)  # sub-trajectory id -> call that asked for it
    last: dict[str, Any] | None = None

    def events(self) -> Iterator[RawEvent]:
        steps = _in_asked_order(self.document["steps"])
        children = self._children()
        for index, step in enumerate(steps, self.base):
            if not isinstance(step, dict):
                self.report.quarantine(index, f"a {type(step).__name__} where a step was expected", "record")
            elif step.get("is_copied_context") is True:
                self.report.repaired["step copied from an earlier trajectory"] += 1
            else:
                yield from self._step(step, index, children)
        yield from self._final(self.base + len(steps))
        base = self.base + len(steps) + 1
        for name, child in children.items():
            if isinstance(child.get("steps"), list):
                yield from self._child(name, child, base)
                base += len(child["steps"]) + 1

    def _children(self) -> dict[str, dict[str, Any]]:
        found = self.document.get("subagent_trajectories")
        named: dict[str, dict[str, Any]] = {}
        for number, child in enumerate(found if isinstance(found, list) else ()):
            if isinstance(child, dict):
                name = text_of(child.get("trajectory_id")) or text_of(child.get("session_id"))
                named.setdefault(name or f"{self.own}/{number}", child)
        return named

    def _child(self, name: str, child: dict[str, Any], base: int) -> Iterator[RawEvent]:
        lane = Lane(
            run_id=self.lane.run_id,
            agent=_agent_name(child) or "subagent",
            instance=name,
            parent_agent=self.lane.agent,
        )
        first = next((step for step in child["steps"] if isinstance(step, dict)), {})
        spot = Spot(lane=lane, line=base, at=moment(first.get("timestamp"), self.report))
        yield spot.event(0, "accept", call_id=self.calls.get(name), identity=f"accept/{name}")
        inner = _Trajectory(report=self.report, document=child, lane=lane, own=name, base=base)
        yield from inner.events()

    def _step(self, step: dict[str, Any], index: int, children: dict[str, Any]) -> Iterator[RawEvent]:
        agent = self.document.get("agent")
        version = text_of(agent.get("version")) if isinstance(agent, dict) else ""
        at = moment(step.get("timestamp"), self.report)
        spot = Spot(lane=self.lane, line=index, at=at, version=version or None)
        where = f"{self.own}/{text_of(step.get('step_id')) or index}"
        source = step.get("source")
        if source == "user":
            if self.lane.instance is None:
                yield spot.event(0, "message", tool="user", external_input=True, identity=where)
        elif source == "agent":
            self.last = step
            yield from self._agent(step, spot, where, children)
        else:
            yield from self._system(step, spot, where, children)

    def _agent(
        self, step: dict[str, Any], spot: Spot, where: str, children: dict[str, Any]
    ) -> Iterator[RawEvent]:
        yield from self._model(step, spot, where)
        calls = _dicts(step.get("tool_calls"))
        results = _results(step)
        paired, rest = _pair(calls, results)
        for order, (call, result) in enumerate(paired, 1):
            yield self._call(step, call, result, spot=spot, where=where, order=order, children=children)
        for order, result in enumerate(rest, len(calls) + 1):
            if calls:
                self.report.repaired["result that names no call of its step"] += 1
                yield spot.event(order, "log", tool="observation", identity=f"{where}//{order}")
            else:
                yield self._spoken(step, result, spot, where, order)

    def _model(self, step: dict[str, Any], spot: Spot, where: str) -> Iterator[RawEvent]:
        metrics = step.get("metrics")
        if not isinstance(metrics, dict):
            return
        into, out = count_of(metrics.get("prompt_tokens")), count_of(metrics.get("completion_tokens"))
        measured = bool(into or out)
        yield spot.event(
            0,
            "model",
            model=text_of(step.get("model_name")) or _model_name(self.document),
            tokens_in=into if measured else None,
            tokens_out=out if measured else None,
            cost_usd=number_of(metrics.get("cost_usd")),
            identity=f"{where}/model",
        )

    def _call(
        self,
        step: dict[str, Any],
        call: dict[str, Any],
        result: dict[str, Any] | None,
        *,
        spot: Spot,
        where: str,
        order: int,
        children: dict[str, Any],
    ) -> RawEvent:
        name, call_id = text_of(call.get("function_name")), text_of(call.get("tool_call_id"))
        args = call.get("arguments", ABSENT)
        kind, target = kind_of(name, args) if "claude" in _agent_name(self.document) else ("tool", None)
        if name in _FINISH:
            kind, target = "claim", "success"
        found = None if result is None else _refs(result)
        if found:
            kind, target = "handoff", target or self._delegate(found, call_id, children)
        content, error = _outcome(step, result)
        return spot.event(
            order,
            kind,
            tool=name,
            args=args,
            result=content,
            error_class=error,
            target=target,
            call_id=call_id or None,
            open=result is None,
            external_input=True
            if kind in {"wait", "approval"} and result is not None and not error
            else None,
            identity=identity(where, f"{call_id}/{order}"),
        )

    def _spoken(
        self, step: dict[str, Any], result: dict[str, Any], spot: Spot, where: str, order: int
    ) -> RawEvent:
        """An action that stands in the message: its commands where they can be read, else unknown."""
        said = attempt(text_of(step.get("message")))
        commands = said.get("commands") if isinstance(said, dict) else None
        args = {"commands": commands} if isinstance(commands, list) else ABSENT
        content, error = _outcome(step, result)
        return spot.event(
            order,
            "tool",
            tool=_TERMINAL,
            args=args,
            result=content,
            error_class=error,
            open=False,
            identity=identity(where, f"/{order}"),
        )

    def _system(
        self, step: dict[str, Any], spot: Spot, where: str, children: dict[str, Any]
    ) -> Iterator[RawEvent]:
        extra = step.get("extra")
        managed = extra.get("context_management") if isinstance(extra, dict) else None
        if isinstance(managed, dict) and managed.get("type") == "compaction":
            boundary = text_of(managed.get("boundary")) or None
            yield spot.event(0, "compaction", target=boundary, identity=where)
        else:
            yield spot.event(0, "log", tool="system", identity=where)
        order = 0
        for result in _results(step):
            for ref in _refs(result):
                order += 1
                target = self._delegate([ref], f"{where}/{order}", children)
                yield spot.event(
                    order,
                    "handoff",
                    tool="subagent",
                    target=target,
                    call_id=f"{where}/{order}",
                    identity=f"{where}/{order}",
                )

    def _delegate(self, refs: list[dict[str, Any]], call_id: str, children: dict[str, Any]) -> str:
        """Return the addressee of a handoff: the agent where its trajectory is at hand, else its id."""
        names = [text_of(ref.get("trajectory_id")) or text_of(ref.get("session_id")) for ref in refs]
        for name in names:
            self.calls.setdefault(name, call_id)
        child = children.get(names[0])
        return (_agent_name(child) if isinstance(child, dict) else "") or names[0]

    def _final(self, index: int) -> Iterator[RawEvent]:
        """An agent that stops of its own accord says by that that it is done."""
        last = self.last
        if last is None or text_of(self.document.get("continued_trajectory_ref")):
            return
        spot = Spot(lane=self.lane, line=index, at=moment(last.get("timestamp")))
        if _is_claim(last):
            yield spot.event(0, "claim", tool="final_message", target="success", identity=f"{self.own}/claim")


def _in_asked_order(steps: list[Any]) -> list[Any]:
    """Put parallel calls back into the order they were asked in.

    The Claude Code converter writes one step a call, in the order the results came, which is a race. Where
    the ids count the calls of a session (``functions.Read:3``), neighbours of one time are sorted by them.
    """
    ordered: list[Any] = []
    for _, group in groupby(steps, key=_asked_at):
        ordered.extend(sorted(group, key=_count_in_id))
    return ordered


def _asked_at(step: Any) -> tuple[Any, bool]:
    counted = isinstance(step, dict) and step.get("timestamp") is not None and _count_in_id(step) >= 0
    return (str(step["timestamp"]) if counted else None, counted)


def _count_in_id(step: Any) -> int:
    calls = _dicts(step.get("tool_calls")) if isinstance(step, dict) else []
    match = _COUNTED.fullmatch(text_of(calls[0].get("tool_call_id"))) if len(calls) == 1 else None
    return int(match.group(1)) if match else -1


def _is_claim(step: dict[str, Any]) -> bool:
    said = attempt(text_of(step.get("message")))
    if isinstance(said, dict) and isinstance(said.get("task_complete"), bool):
        return said["task_complete"] is True
    extra = step.get("extra")
    reason = extra.get("stop_reason") if isinstance(extra, dict) else None
    return not step.get("tool_calls") and not _results(step) and text_of(reason) in {"", "end_turn", "stop"}


def _pair(
    calls: list[dict[str, Any]], results: list[dict[str, Any]]
) -> tuple[list[tuple[dict[str, Any], dict[str, Any] | None]], list[dict[str, Any]]]:
    """Give each call its result: by id, a repeated id in order; results without an id in order, if they fit."""
    left = list(results)
    paired: list[tuple[dict[str, Any], dict[str, Any] | None]] = []
    for call in calls:
        wanted = call.get("tool_call_id")
        match = next((result for result in left if wanted and result.get("source_call_id") == wanted), None)
        if match is not None:
            left.remove(match)
        paired.append((call, match))
    nameless = [result for result in left if not result.get("source_call_id")]
    waiting = [place for place, (_, result) in enumerate(paired) if result is None]
    if nameless and len(nameless) == len(waiting):
        for place, result in zip(waiting, nameless, strict=True):
            paired[place] = (paired[place][0], result)
            left.remove(result)
    return paired, left


def _outcome(step: dict[str, Any], result: dict[str, Any] | None) -> tuple[Any, str | None]:
    """Return what came back and the class of the failure it tells of.

    The Claude Code converter glues a printed copy of its bookkeeping (durations included) to the text; the
    tool's own words stand beside it and are taken instead.
    """
    if result is None:
        return ABSENT, None
    extra = step.get("extra")
    extra = extra if isinstance(extra, dict) else {}
    meta = extra.get("metadata") or extra.get("tool_result_metadata")
    raw = meta.get("raw_tool_result") if isinstance(meta, dict) else None
    own = isinstance(raw, dict) and raw.get("tool_use_id") == result.get("source_call_id")
    content = raw.get("content") if own and isinstance(raw, dict) else result.get("content", ABSENT)
    content = result_of(content)
    text = content if isinstance(content, str) else ""
    failed = extra.get("tool_result_is_error") is True or (
        own and isinstance(raw, dict) and raw.get("is_error") is True
    )
    return content, error_class(text) if failed or _FAILURE.match(text.lstrip()) else None


def _results(step: dict[str, Any]) -> list[dict[str, Any]]:
    observation = step.get("observation")
    return _dicts(observation.get("results")) if isinstance(observation, dict) else []


def _refs(result: dict[str, Any]) -> list[dict[str, Any]]:
    found = result.get("subagent_trajectory_ref")
    return [
        ref
        for ref in _dicts([found] if isinstance(found, dict) else found)
        if text_of(ref.get("trajectory_id")) or text_of(ref.get("session_id"))
    ]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _agent_name(document: dict[str, Any]) -> str:
    agent = document.get("agent")
    return text_of(agent.get("name")) if isinstance(agent, dict) else ""


def _model_name(document: dict[str, Any]) -> str | None:
    agent = document.get("agent")
    return (text_of(agent.get("model_name")) or None) if isinstance(agent, dict) else None


FORMAT = Format(
    name="atif",
    version=3,
    title="ATIF trajectory (Harbor, Terminal-Bench)",
    recognised_by='"schema_version": "ATIF-v1.x", or that version without the name beside steps and agent',
    proved_on="46 benchmark trials and three golden files (1.2, 1.5, 1.7)",
    claim=claim,
    read=read,
    rank=60,
)
