"""Inspect logs: a zip of samples (``.eval``), or one JSON document. Each sample and epoch is a run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.enums import Outcome
from agentlens.model.raw import ABSENT
from agentlens.readers.archive import archive, content, members
from agentlens.readers.base import Format
from agentlens.readers.blocks import Lane, Spot, text_of
from agentlens.readers.decode import loads
from agentlens.readers.documents import stem_of
from agentlens.readers.inspect_events import Events, outcome
from agentlens.readers.messages import Call, Reply, steps
from agentlens.readers.stamps import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.model.raw import RawEvent
    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head, Source

_MEMBERS: Final = (b"_journal/start.json", b"header.json", b"samples/", b"summaries.json")
_SAMPLE = re.compile(r"samples/[^/]+\.json")
_LAST_WORD = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Timeout))\b(?!.*\n\S)", re.DOTALL)
_PASSED: Final = frozenset({"c", "correct", "pass", "passed", "true", "yes"})
_FAILED: Final = frozenset({"i", "incorrect", "fail", "failed", "false", "no"})
SAMPLE: Final = 1 << 20
"""How far the positions of one sample lie from those of the next."""


def claim(head: Head) -> int:
    """Claim an archive by the names of its members, a document by its ``eval``."""
    if head.magic == "zip":
        return 92 if any(name in head.data for name in _MEMBERS) else 0
    first = head.values[0] if head.values and not head.magic else None
    about = first.get("eval") if isinstance(first, dict) else None
    if isinstance(about, dict) and about.keys() & {"task", "task_id"} and "model" in about:
        return 95
    return 0


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of every sample."""
    log = _Log(report, {}, stem_of(source).removesuffix(".eval"))
    if source.head().magic == "zip":
        yield from _archived(source, report, log)
        return
    document = source.document(report, ("samples",))
    if not isinstance(document, dict) or not isinstance(document.get("eval"), dict):
        if document is not ABSENT:
            report.quarantine(0, "no log: an object with an eval was expected", "record")
        return
    samples = document.get("samples")
    log = _Log(report, document, log.name)
    for number, sample in enumerate(samples if isinstance(samples, list) else ()):
        yield from log.sample(sample, number)


def _archived(source: Source, report: Report, log: _Log) -> Iterator[RawEvent]:
    """A log that was killed has no header: its journal's start says the same."""
    with archive(source, report) as opened:
        if opened is None:
            return
        found = {info.filename: info for info in members(opened, report)}
        for name in ("header.json", "_journal/start.json"):
            data = content(opened, found[name], report) if name in found else None
            header = loads(data, report, found[name].header_offset, "byte") if data is not None else ABSENT
            if isinstance(header, dict):
                log = _Log(report, header, log.name)
                break
        number = 0
        for name, info in found.items():
            if not _SAMPLE.fullmatch(name):
                continue
            data = content(opened, info, report)
            sample = ABSENT if data is None else loads(data, report, info.header_offset, "byte")
            if sample is not ABSENT:
                yield from log.sample(sample, number)
            number += 1


@dataclass(frozen=True, slots=True)
class _Log:
    """What holds for all samples."""

    report: Report
    header: dict[str, Any]
    name: str

    @property
    def about(self) -> dict[str, Any]:
        about = self.header.get("eval")
        return about if isinstance(about, dict) else {}

    def sample(self, sample: Any, number: int) -> Iterator[RawEvent]:
        """Yield the events of one sample, attempts that were given up included."""
        base = number * SAMPLE
        if not isinstance(sample, dict):
            self.report.quarantine(base, "a sample that is no object", "record")
            return
        about = self.about
        task = text_of(about.get("task"))
        own = text_of(sample.get("id"))
        evaluation = next(
            (text for key in ("eval_id", "run_id") if (text := text_of(about.get(key)))), self.name
        )
        lane = Lane(run_id=self._run_id(sample, f"{own or number}", evaluation))
        versions = about.get("packages")
        common = {
            "workflow": task or None,
            "task_group": f"{task}/{own}" if own else None,
            "agent_version": text_of(versions.get("inspect_ai")) or None
            if isinstance(versions, dict)
            else None,
        }
        for place, event in enumerate(self._events(sample, lane)):
            if event.identity is None and evaluation != self.name:  # a copy of the log tells the same sample
                event.identity = f"place/{place}"
            event.position = (base + event.position[0], event.position[1])
            for name, value in common.items():
                setattr(event, name, value)
            yield event

    def _run_id(self, sample: dict[str, Any], own: str, evaluation: str) -> str:
        """Name one execution of a sample.

        A retried evaluation has a new id, keeps that of its task, and copies the samples that were done into its own
        log, with their ids; those that failed it carries out anew, under other ids.
        """
        name = f"{own}_epoch_{text_of(sample.get('epoch')) or 1}"
        task, execution = text_of(self.about.get("task_id")), text_of(sample.get("uuid"))
        return f"{task}/{name}/{execution}" if task and execution else f"{evaluation}/{name}"

    def _events(self, sample: dict[str, Any], lane: Lane) -> Iterator[RawEvent]:
        kept = sample.get("transcript")
        kept = kept if isinstance(kept, dict) else {}
        attached = sample.get("attachments") or kept.get("content")
        walker = Events(self.report, lane, attached if isinstance(attached, dict) else {})
        yield from self._given_up(sample, walker)
        spot = Spot(lane=lane, line=walker.place)
        yield spot.event(0, "message", tool="user", external_input=True)
        events = sample.get("events") or kept.get("events")
        yield from walker.walk(events if isinstance(events, list) else [])
        if not walker.calls:  # logs that keep no events keep the messages
            yield from _spoken(sample.get("messages"), walker)
        yield from self._ended(sample, walker)

    def _given_up(self, sample: dict[str, Any], walker: Events) -> Iterator[RawEvent]:
        """Attempts at the whole sample that ended in an error: what they did, they did, in lanes of their own."""
        tried = sample.get("error_retries")
        for number, attempt in enumerate(tried if isinstance(tried, list) else (), 1):
            if not isinstance(attempt, dict):
                continue
            events = attempt.get("events")
            lane = Lane(run_id=walker.lane.run_id, agent=f"attempt-{number}")
            inner = Events(self.report, lane, walker.attachments, place=walker.place)
            yield from inner.walk(events if isinstance(events, list) else [])
            walker.place = inner.place + 1
            spot = Spot(lane=walker.lane, line=walker.place)
            yield spot.event(0, "retry", tool="sample", attempt=number, error_class=_error(attempt))

    def _ended(self, sample: dict[str, Any], walker: Events) -> Iterator[RawEvent]:
        spot = Spot(lane=walker.lane, line=walker.place + 1)
        limit, failure = sample.get("limit"), sample.get("error")
        if isinstance(failure, dict):
            yield spot.event(0, "log", tool="sample_error", error_class=_error(failure))
        if isinstance(limit, dict):
            yield spot.event(1, "log", tool="limit", error_class=f"limit_{text_of(limit.get('type'))}")
        if not failure and not limit and _stopped(sample.get("output")):
            yield spot.event(2, "claim", tool="final_message", target="success")
        scores = sample.get("scores")
        if not isinstance(scores, dict):
            scores = {"score": sample["score"]} if isinstance(sample.get("score"), dict) else {}
        for order, (name, score) in enumerate(scores.items(), 3):
            value = score.get("value") if isinstance(score, dict) else score
            judged = Outcome.UNKNOWN if failure else verdict(value)
            yield spot.event(
                order,
                "verdict",
                tool=text_of(name),
                target=text_of(name),
                outcome=str(judged),
                at=moment(sample.get("completed_at")),
                identity=f"verdict/{name}",
            )


def verdict(value: Any) -> Outcome:
    """Read a score: a one or C is passed, a zero or I failed; a part, no answer, several values say neither.

    >>> str(verdict("C")), str(verdict(0.0)), str(verdict(0.5))
    ('passed', 'failed', 'unknown')
    """
    if isinstance(value, (bool, int, float)):
        return Outcome.PASSED if value == 1 else Outcome.FAILED if value == 0 else Outcome.UNKNOWN
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in {"1", "1.0"} or word in _PASSED:
        return Outcome.PASSED
    return Outcome.FAILED if word in {"0", "0.0"} or word in _FAILED else Outcome.UNKNOWN


def _stopped(output: Any) -> bool:
    """Say whether the last answer of the model ended of its own accord, without a call."""
    choices = output.get("choices") if isinstance(output, dict) else None
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = first.get("message")
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    return first.get("stop_reason") == "stop" and not calls


def _error(failure: dict[str, Any]) -> str:
    for said in (text_of(failure.get("traceback")), text_of(failure.get("message"))):
        if named := _LAST_WORD.findall(said[-2000:]):
            return str(named[-1]).rpartition(".")[2]
    return "error"


def _spoken(messages: Any, walker: Events) -> Iterator[RawEvent]:
    """The calls of a log without events, from its messages; an answer without its call is an unknown action."""
    waiting: dict[str, RawEvent] = {}
    for message in messages if isinstance(messages, list) else ():
        if not isinstance(message, dict):
            continue
        walker.place += 1
        spot = Spot(lane=walker.lane, line=walker.place)
        if message.get("role") == "tool":
            call_id = text_of(message.get("tool_call_id"))
            result, error = outcome(walker.expand(message.get("content", ABSENT)), message.get("error"))
            event = waiting.pop(call_id, None) or spot.event(
                0, "tool", tool=text_of(message.get("function")), call_id=call_id or None
            )
            event.result, event.error_class, event.open = result, error, False
            yield event
            if error == "approval":
                yield spot.event(1, "approval", tool=event.tool, target=event.tool, error_class="rejected")
            continue
        for order, step in enumerate(steps(_as_chat(message))):
            if isinstance(step, Call):
                found = spot.event(
                    order,
                    "tool",
                    tool=step.name,
                    args=walker.expand(step.args),
                    call_id=step.call_id or None,
                    open=True,
                )
                waiting[step.call_id or f"{walker.place}/{order}"] = found
            elif isinstance(step, Reply):
                walker.report.unknown["reply inside a message"] += 1
    yield from waiting.values()


def _as_chat(message: dict[str, Any]) -> dict[str, Any]:
    """Inspect writes a call's name where chat lists write an object around it."""
    calls = message.get("tool_calls")
    if message.get("role") != "assistant" or not isinstance(calls, list):
        return {"role": message.get("role"), "content": None}
    named = [
        {**call, "name": call.get("function")}
        if isinstance(call, dict) and isinstance(call.get("function"), str)
        else call
        for call in calls
    ]
    plain = [
        {k: v for k, v in call.items() if k != "function"} if isinstance(call, dict) else call
        for call in named
    ]
    return {"role": "assistant", "content": None, "tool_calls": plain}


FORMAT = Format(
    name="inspect",
    version=4,
    title="Inspect logs (.eval archives and .json)",
    recognised_by="members header.json, _journal/, samples/ in a zip; or an eval with task and model",
    proved_on="three logs of the tool's own tests",
    claim=claim,
    read=read,
)
