"""OpenHands conversations: V1 events (one a file, in a list, or one a line) and their ``base_state.json``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agentlens.errors import InputError
from agentlens.model.raw import ABSENT
from agentlens.readers.base import Format
from agentlens.readers.blocks import Lane, Spot, count_of, number_of, text_of
from agentlens.readers.decode import attempt
from agentlens.readers.documents import documents
from agentlens.readers.source import Source
from agentlens.readers.stamps import moment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentlens.model.raw import RawEvent
    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head

_KINDS: Final = frozenset(
    {
        "MessageEvent", "ActionEvent", "ObservationEvent", "AgentErrorEvent", "UserRejectObservation", "PauseEvent",
        "InterruptEvent", "Condensation", "CondensationRequest", "CondensationSummaryEvent", "SystemPromptEvent",
        "ConversationStateUpdateEvent", "ConversationErrorEvent", "ACPToolCallEvent", "HookExecutionEvent",
        "TokenEvent", "LLMCompletionLogEvent", "StreamingDeltaEvent",
    }
)  # fmt: skip
_NAMED = re.compile(r"[A-Z]\w{2,60}(?:Event|Observation)")
CUT = re.compile(r"<response clipped>|\[\.\.\. Observation truncated due to length \.\.\.\]")
"""The mark of an output of which the middle was left out."""
_SILENT: Final = frozenset(
    {
        "SystemPromptEvent",
        "SystemPromptUpdateEvent",
        "TokenEvent",
        "LLMCompletionLogEvent",
        "StreamingDeltaEvent",
        "CondensationRequest",
    }
)
_CLAIMS: Final = frozenset({"finish"})
_THOUGHTS: Final = frozenset({"think"})
_HANDOFFS: Final = frozenset({"delegate", "task", "spawn", "delegate_task"})
_STATES: Final = {
    "waiting_for_confirmation": "approval",
    "paused": "wait",
    "stuck": "log",
    "error": "log",
    "finished": "log",
}
_BEGUN = re.compile(
    rb'\s*\[?\s*\{\s*"id"\s*:\s*"[0-9a-f-]{32,36}"\s*,\s*"timestamp"\s*:\s*"[^"]{10,40}"\s*,\s*'
    rb'"source"\s*:\s*"(?:agent|user|environment|hook)"'
)
_NUMBER = re.compile(r"event-(\d{1,9})-")
_BEFORE: Final = 64
"""How many older event files may be looked through for the call that an error names."""


def claim(head: Head) -> int:
    """Claim events by their kind, and the state that stands beside them."""
    if head.magic:
        return 0
    first = head.values[0] if head.values else None
    items = first if isinstance(first, list) else first.get("events") if isinstance(first, dict) else None
    found = items if isinstance(items, list) and items else list(head.values)
    events = [item for item in found[:8] if _is_event(item)]
    if events and len(events) * 2 >= len(found[:8]):
        return 93
    if _is_state(first):
        return 90
    # the kind is written last: a long first event hides it
    return 80 if not head.whole and _BEGUN.match(head.data) else 0


def _is_event(item: Any) -> bool:
    """Tell an event by its kind; one of a later version by the shape of its kind, beside all else that it has."""
    if not isinstance(item, dict):
        return False
    kind, beside = text_of(item.get("kind")), {"id", "timestamp", "source"} & item.keys()
    return (kind in _KINDS and bool(beside)) or (len(beside) == 3 and _NAMED.fullmatch(kind) is not None)


def _is_state(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(item.get("agent"), dict)
        and bool(item.keys() & {"execution_status", "agent_status"})
        and bool(item.keys() & {"workspace", "persistence_dir", "stats", "max_iterations"})
    )


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of one file; all files of a conversation's folder are one run."""
    folder = _conversation(source)
    loose: _Events | None = None  # events that stand one a line, or one a file, belong to one conversation
    for name, base, document in documents(source, report, ("", "events")):
        if _is_state(document):
            yield from _state(document, Spot(lane=Lane(run_id=folder or name), line=base))
            continue
        items = document.get("events", document) if isinstance(document, dict) else document
        if isinstance(items, list):
            events, place = _Events(report, source, Lane(run_id=folder or name)), base
        else:
            loose = loose or _Events(report, source, Lane(run_id=folder or name.partition("#")[0]))
            events, items, place = loose, [items], _place(source, base)
        for number, item in enumerate(items, place):
            if isinstance(item, dict):
                yield from events.event(item, number)
            else:
                report.quarantine(number, f"a {type(item).__name__} where an event was expected", "record")


def _conversation(source: Source) -> str:
    """Return the name of the folder that holds the events' folder, or the state; "" for files elsewhere."""
    folder = source.siblings()
    if folder is None:
        return ""
    if folder.name == "events":
        return folder.parent.name or "events"
    return folder.name if source.path.name.startswith("base_state.json") else ""


def _place(source: Source, base: int) -> int:
    match = _NUMBER.match(source.path.name)
    return int(match[1]) if match else base


@dataclass(slots=True)
class _Events:
    report: Report
    source: Source
    lane: Lane
    actions: dict[str, str] = field(
        default_factory=dict
    )  # call id -> id of the newest action that carries it

    def event(self, item: dict[str, Any], number: int) -> Iterator[RawEvent]:
        kind, own = text_of(item.get("kind")), text_of(item.get("id"))
        at = moment(item.get("timestamp"), self.report)
        spot = Spot(lane=self.lane, line=number, at=at, span=own or None)
        if kind == "ActionEvent":
            yield self._action(item, spot, own)
            yield from self._others(item, spot, own)
        elif kind in {"ObservationEvent", "AgentErrorEvent", "UserRejectObservation"}:
            yield from self._seen(kind, item, spot, own)
        elif kind == "ACPToolCallEvent":
            yield self._acp(item, spot, own)
        elif kind == "MessageEvent":
            if item.get("source") == "user":
                yield spot.event(0, "message", tool="user", external_input=True, identity=own or None)
        elif kind == "Condensation":
            yield spot.event(0, "compaction", tool="condensation", identity=own or None)
        elif kind in {"PauseEvent", "InterruptEvent"}:
            yield spot.event(0, "log", tool=kind, external_input=True, identity=own or None)
        elif kind == "ConversationErrorEvent":
            code = text_of(item.get("code")) or "conversation_error"
            yield spot.event(0, "log", tool=kind, error_class=code, identity=own or None)
        elif kind == "ConversationStateUpdateEvent":
            yield from _status(item, spot, own)
        elif kind == "HookExecutionEvent":
            blocked = item.get("blocked") is True
            yield spot.event(
                0, "log", tool="hook", error_class="blocked" if blocked else None, identity=own or None
            )
        elif kind not in _SILENT:
            self.report.unknown[f"kind {kind!r}"[:80] if kind else "event without a kind"] += 1
            yield spot.event(0, "log", tool=kind[:80], identity=own or None)

    def _action(self, item: dict[str, Any], spot: Spot, own: str) -> RawEvent:
        name, call_id = _tool(item), text_of(item.get("tool_call_id"))
        if call_id and own:
            self.actions[call_id] = own
        kind, target = _meaning(name, item)
        action = item.get("action")
        return spot.event(
            0,
            kind,
            tool=name,
            args=_args(item),
            target=target,
            call_id=call_id or None,
            identity=f"action/{own}" if own else None,
            # an action that the agent's own checks threw away never ran
            open=action is not None,
            error_class="invalid_arguments" if "action" in item and action is None else None,
        )

    def _others(self, item: dict[str, Any], spot: Spot, own: str) -> Iterator[RawEvent]:
        """Yield the handoffs to all but the first of those that one action hands tasks to."""
        for order, name in enumerate(_recipients(item)[1:], 2):
            yield spot.event(
                order, "handoff", tool=_tool(item), target=name, span_id=None, args={"to": name},
                call_id=text_of(item.get("tool_call_id")) or None, identity=f"action/{own}/{name}" if own else None,
            )  # fmt: skip

    def _seen(self, kind: str, item: dict[str, Any], spot: Spot, own: str) -> Iterator[RawEvent]:
        call_id = text_of(item.get("tool_call_id"))
        action = text_of(item.get("action_id")) or self.actions.get(call_id) or self._asked(call_id)
        name = text_of(item.get("tool_name"))
        meaning, target = _meaning(name, item)
        if kind == "ObservationEvent":
            result, error, open_ = _observed(item.get("observation"))
        elif kind == "AgentErrorEvent":
            about = item.get("classification")
            told = text_of(about.get("kind")) if isinstance(about, dict) else ""
            result, error, open_ = item.get("error", ABSENT), told or "agent_error", False
        else:
            result, error, open_ = item.get("rejection_reason", ABSENT), "rejected_by_user", False
        yield spot.event(
            1,
            meaning,
            # a call that never became an action happened when its error was told
            at=spot.at if kind == "AgentErrorEvent" and not action else None,
            span_id=None,
            ended_at=None if open_ else spot.at,
            tool=name,
            result=result,
            error_class=error,
            target=target,
            call_id=call_id or None,
            identity=f"action/{action}" if action else None,
            open=open_,
        )
        if kind == "UserRejectObservation" and item.get("rejection_source", "user") == "user":
            yield spot.event(
                2, "approval", tool=name, target=name, error_class="rejected_by_user", external_input=True,
                call_id=call_id or None, identity=f"approval/{own}" if own else None,
            )  # fmt: skip

    def _asked(self, call_id: str) -> str:
        """Find the action that an error names only by its call, in the newest of the older files beside it."""
        folder = self.source.siblings()
        if folder is None or not call_id:
            return ""
        for _, path in reversed(_older(self.source, folder)):
            try:
                value = attempt(Source.of(path).read())
            except InputError:
                continue
            if (
                isinstance(value, dict)
                and value.get("kind") == "ActionEvent"
                and value.get("tool_call_id") == call_id
            ):
                return text_of(value.get("id"))
        return ""

    def _acp(self, item: dict[str, Any], spot: Spot, own: str) -> RawEvent:
        """A call of an agent that runs elsewhere and reports its calls; one record a change of state."""
        call_id, status = text_of(item.get("tool_call_id")), text_of(item.get("status"))
        ended = status in {"completed", "failed"}
        output = next((item[key] for key in ("raw_output", "content") if item.get(key) is not None), ABSENT)
        failed = status == "failed" or item.get("is_error") is True
        return spot.event(
            0,
            "tool",
            ended_at=spot.at if ended else None,
            at=None if ended else spot.at,
            tool=text_of(item.get("tool_kind")) or text_of(item.get("title")),
            args=item.get("raw_input", ABSENT),
            result=output if ended else ABSENT,
            error_class="tool_error" if failed else None,
            call_id=call_id or None,
            identity=f"acp/{call_id or own}",
            open=not ended,
        )


def _tool(item: dict[str, Any]) -> str:
    call = item.get("tool_call")
    return text_of(item.get("tool_name")) or (text_of(call.get("name")) if isinstance(call, dict) else "")


def _meaning(name: str, item: dict[str, Any]) -> tuple[str, str | None]:
    if name in _CLAIMS:
        return "claim", "success"
    if name in _THOUGHTS:
        return "log", None
    if name in _HANDOFFS:
        args = _args(item)
        asked = args if isinstance(args, dict) else {}
        if _told(item, "command") == "spawn":
            return "tool", None  # agents are made ready; nothing is handed to them yet
        if recipients := _recipients(item):
            return "handoff", recipients[0]
        named = next(
            (asked[key] for key in ("agent", "subagent_type", "agent_type", "ids") if asked.get(key)), None
        )
        named = named[0] if isinstance(named, list) else named
        return "handoff", text_of(named) or None
    return "tool", None


def _told(item: dict[str, Any], name: str) -> Any:
    """Return a member of the arguments; of an observation, of what it says of its action."""
    args, seen = _args(item), item.get("observation")
    return (args if isinstance(args, dict) else {}).get(
        name, seen.get(name) if isinstance(seen, dict) else None
    )


def _recipients(item: dict[str, Any]) -> list[str]:
    """Return those whom one action hands a task each."""
    tasks = _told(item, "tasks") if _tool(item) in _HANDOFFS else None
    tasks = attempt(tasks) if isinstance(tasks, str) else tasks
    return [text_of(name) for name in tasks][:64] if isinstance(tasks, dict) else []


def _args(item: dict[str, Any]) -> Any:
    """What the model asked for; the remarks that the client makes every call carry are no part of it."""
    call = item.get("tool_call")
    asked = call.get("arguments") if isinstance(call, dict) else None
    args = attempt(asked) if isinstance(asked, str) else asked
    if not isinstance(args, dict):
        action = item.get("action")
        if not isinstance(action, dict):
            return ABSENT if asked is None else asked
        return {name: value for name, value in action.items() if name != "kind"}
    remarks = {name for name in ("security_risk", "summary") if name in item}
    return {name: value for name, value in args.items() if name not in remarks}


def _observed(seen: Any) -> tuple[Any, str | None, bool]:
    """Return the result, the class of its failure, and whether the command goes on."""
    if not isinstance(seen, dict):
        return ABSENT, None, False
    content = seen.get("content", seen.get("output", ABSENT))
    if isinstance(content, list) and all(isinstance(part, dict) and "text" in part for part in content):
        content = "\n".join(text_of(part.get("text")) for part in content)
    if isinstance(content, str) and CUT.search(content):
        content = None  # without its middle it is no evidence
    if content is ABSENT:
        content = {name: value for name, value in seen.items() if name not in {"kind", "metadata"}}
    about = seen.get("metadata")
    code = seen.get("exit_code", about.get("exit_code") if isinstance(about, dict) else None)
    code = code if isinstance(code, int) and not isinstance(code, bool) else None
    going_on = code == -1 or seen.get("timeout") is True
    if code is not None and code > 0:
        return content, f"exit_{code}", False
    return content, "tool_error" if seen.get("is_error") is True else None, going_on


def _status(item: dict[str, Any], spot: Spot, own: str) -> Iterator[RawEvent]:
    """A change of the conversation's state; ``stuck`` is the word of a detector of its own."""
    value = item.get("value")
    if item.get("key") == "full_state" and isinstance(value, dict):
        value = value.get("execution_status", value.get("agent_status"))
    elif text_of(item.get("key")) not in {"execution_status", "agent_status"}:
        return
    status = text_of(value)
    if status in _STATES:
        open_ = True if status == "waiting_for_confirmation" else None
        error = status if status in {"stuck", "error"} else None
        yield spot.event(
            0, _STATES[status], tool="execution_status", target=status, open=open_, error_class=error,
            identity=f"status/{own}" if own else None,
        )  # fmt: skip


def _state(state: dict[str, Any], spot: Spot) -> Iterator[RawEvent]:
    """How the conversation ended, and what it spent in all."""
    status = text_of(state.get("execution_status")) or text_of(state.get("agent_status"))
    yield spot.event(
        0, "log", tool="final_status", target=status or None, identity="final_status",
        error_class=status if status in {"stuck", "error"} else None,
    )  # fmt: skip
    llm = state["agent"].get("llm")
    model = text_of(llm.get("model")) or None if isinstance(llm, dict) else None
    stats = state.get("stats")
    usages = stats.get("usage_to_metrics") if isinstance(stats, dict) else None
    for order, (name, usage) in enumerate(sorted(usages.items()) if isinstance(usages, dict) else (), 1):
        if not isinstance(usage, dict):
            continue
        total = usage.get("accumulated_token_usage")
        total = total if isinstance(total, dict) else {}
        yield spot.event(
            order, "model", model=text_of(usage.get("model_name")) or model, identity=f"usage/{name}",
            tokens_in=count_of(total.get("prompt_tokens")), tokens_out=count_of(total.get("completion_tokens")),
            cost_usd=number_of(usage.get("accumulated_cost")), retry_policy=_retries(llm),
        )  # fmt: skip


def _retries(llm: Any) -> dict[str, Any] | None:
    """Return how the client tries a model again, as its settings say: the first attempt counts."""
    tries = count_of(llm.get("num_retries")) if isinstance(llm, dict) else None
    if tries is None:
        return None
    return {
        "errors": ["*"],
        "interval_s": number_of(llm.get("retry_min_wait")),
        "max_attempts": tries + 1,
        "backoff_rate": number_of(llm.get("retry_multiplier")),
        "max_delay_s": number_of(llm.get("retry_max_wait")),
        "jitter": None,
    }


def companions(source: Source) -> list[Path]:
    """Return the older event files that are looked into for the call of an error that names no action."""
    head, folder = source.head().values, source.siblings()
    first = head[0] if head else None
    asks = isinstance(first, dict) and first.get("kind") == "AgentErrorEvent" and not first.get("action_id")
    return [] if folder is None or not asks else [path for _, path in _older(source, folder)]


def _older(source: Source, folder: Path) -> list[tuple[int, Path]]:
    match = _NUMBER.match(source.path.name)
    here = int(match[1]) if match else 0
    return sorted(
        (int(found[1]), path)
        for path in folder.glob("event-*")
        if (found := _NUMBER.match(path.name)) and here - _BEFORE <= int(found[1]) < here
    )


FORMAT = Format(
    name="openhands",
    version=2,
    title="OpenHands V1 conversations (folders of event files, lists, lines; base_state.json)",
    recognised_by="kind ActionEvent, ObservationEvent, MessageEvent, ... beside id and source",
    proved_on="five events of two conversations",
    claim=claim,
    read=read,
    companions=companions,
)
