"""Outcome files that a benchmark harness writes beside a trace: what something outside the agent says of it.

Harbor's ``result.json`` (with ``verifier/`` beside it) and terminal-bench's ``results.json``. The verdict goes
to the run of the trace beside the file; without one, to a run named like the trial.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agentlens.errors import InputError
from agentlens.model.enums import Outcome
from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers.base import Format
from agentlens.readers.blocks import number_of, text_of
from agentlens.readers.decode import attempt
from agentlens.readers.source import Source
from agentlens.readers.stamps import moment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head

_SESSION = re.compile(rb'"session_?[iI]d"\s*:\s*"([^"\\]{1,200})"')
_COMPRESSED: Final = ("", ".gz", ".zst")
_HARBOR_TRACES: Final = (
    "agent/trajectory.json",
    "agent/claude-code.txt",
    "agent/claude-code.jsonl",
    "trajectory.json",
)
_TERMINAL_BENCH_TRACES: Final = (
    "agent-logs/claude-code.jsonl",
    "agent-logs/trajectory.json",
    "trajectory.json",
)
_TEST_REPORT: Final = "verifier/ctrf.json"
_TEST_OUTPUT: Final = "verifier/test-stdout.txt"
_RESULT_NAMES: Final = (".results.json", ".result.json")
_TRACE_ENDS: Final = (".stream.jsonl", ".jsonl", ".trajectory.json", ".txt")
_RAN = re.compile(
    rb"=+ .*\b\d+ (?:passed|failed|error)s?\b.* in [0-9.]+s|^Ran \d+ tests? in |^# (?:pass|fail) \d+|^test result: ",
    re.MULTILINE,
)
_UNREAD_MODES: Final = frozenset(
    {"test_timeout", "parse_error", "unknown_agent_error", "agent_installation_failed"}
)


def claim(head: Head) -> int:
    """Claim a document with the keys of a trial's outcome."""
    first = head.values[0] if head.values and not head.magic else None
    if not isinstance(first, dict):
        return 0
    keys = first.keys()
    if {"trial_name", "is_resolved"} <= keys:
        return 95
    if {"trial_name", "task_name"} <= keys and ({"verifier_result", "agent_info", "config"} & keys):
        return 95
    return 0


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the verdict of one trial, and the span of the agent's work where it is told."""
    document = source.document(report)
    if document is ABSENT:
        return
    if not isinstance(document, dict):
        report.quarantine(0, "no outcome: an object was expected", "byte")
        return
    if "is_resolved" in document:
        yield from _terminal_bench(document, source)
    elif "trial_name" in document:
        yield from _harbor(document, source, report)
    else:
        report.quarantine(0, "no outcome: neither is_resolved nor trial_name is there", "byte")


def _harbor(document: dict[str, Any], source: Source, report: Report) -> Iterator[RawEvent]:
    folder = source.siblings()
    run_id = _session_beside(folder, _HARBOR_TRACES) or text_of(document.get("trial_name"))
    exception = document.get("exception_info")
    failure = text_of(exception.get("exception_type")) if isinstance(exception, dict) else ""
    info = document.get("agent_info")
    trial = _Trial(
        run_id=run_id,
        grader="harbor",
        task=text_of(document.get("task_name")) or None,
        error=failure or None,
        agent=text_of(info.get("name")) if isinstance(info, dict) else "",
    )
    yield from trial.span(_times(document, "agent_execution"))
    began, ended = _times(document, "verifier")
    yield trial.verdict(_harbor_outcome(document, folder, report), began, ended)


def _harbor_outcome(document: dict[str, Any], folder: Path | None, report: Report) -> Outcome:
    """A full reward passes and a zero fails, unless the test script could not start: then it says nothing.

    That it ran is told by its report (``ctrf.json``) or the summary in its output. Where neither file was
    kept, the harness's word stands. A reward between zero and one has no pass mark here: unknown.
    """
    reward = _reward(document)
    if reward is None:
        return Outcome.UNKNOWN
    if reward >= 1:
        return Outcome.PASSED
    if reward > 0:
        return Outcome.UNKNOWN
    ran = _tests_ran(folder)
    if ran is False:
        report.repaired["reward of a test script that could not start"] += 1
    return Outcome.UNKNOWN if ran is False else Outcome.FAILED


def _reward(document: dict[str, Any]) -> float | None:
    result = document.get("verifier_result")
    if not isinstance(result, dict):
        return None
    rewards = result.get("rewards")
    if not isinstance(rewards, dict):
        return number_of(result.get("reward"))
    values = [number_of(value) for value in rewards.values()]
    return number_of(rewards["reward"]) if "reward" in rewards else values[0] if len(values) == 1 else None


def _tests_ran(folder: Path | None) -> bool | None:
    """Say whether the test script got as far as running tests; None where nothing tells."""
    if folder is None:
        return None
    report = _peek(folder, _TEST_REPORT)
    if report is not None and _counts_tests(attempt(report)):
        return True
    output = _peek(folder, _TEST_OUTPUT)
    if output is not None:
        return _RAN.search(output) is not None
    return None if report is None else False


def _counts_tests(report: Any) -> bool:
    results = report.get("results") if isinstance(report, dict) else None
    if not isinstance(results, dict):
        return False
    summary = results.get("summary")
    return bool(results.get("tests")) or (isinstance(summary, dict) and bool(summary.get("tests")))


def _terminal_bench(document: dict[str, Any], source: Source) -> Iterator[RawEvent]:
    mode = text_of(document.get("failure_mode"))
    resolved = document.get("is_resolved")
    if resolved is True:
        outcome = Outcome.PASSED
    elif resolved is False and mode not in _UNREAD_MODES:
        outcome = Outcome.FAILED
    else:
        outcome = Outcome.UNKNOWN
    trial = _Trial(
        run_id=_session_beside(source.siblings(), _terminal_bench_traces(source))
        or text_of(document.get("trial_name"))
        or source.path.name,
        grader="terminal-bench",
        task=text_of(document.get("task_id")) or None,
        error=None if mode in {"", "unset", "none"} else mode,
    )
    yield from trial.span((moment(document.get("agent_started_at")), moment(document.get("agent_ended_at"))))
    yield trial.verdict(
        outcome, moment(document.get("test_started_at")), moment(document.get("test_ended_at"))
    )


def _terminal_bench_traces(source: Source) -> tuple[str, ...]:
    """Name the traces that may stand beside an outcome: those called like it, or those of its folder."""
    name = source.path.name
    stem = next((name.removesuffix(end) for end in _RESULT_NAMES if name.endswith(end)), None)
    return _TERMINAL_BENCH_TRACES if stem is None else tuple(stem + end for end in _TRACE_ENDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    run_id: str
    grader: str
    task: str | None
    error: str | None
    agent: str = ""

    def span(self, times: tuple[int | None, int | None]) -> Iterator[RawEvent]:
        """Yield when the agent worked."""
        if times != (None, None):
            yield RawEvent(
                run_id=self.run_id,
                kind="agent",
                tool=self.agent or "agent",
                at=times[0],
                ended_at=times[1],
                task_group=self.task,
                identity=f"trial/{self.grader}/agent",
            )

    def verdict(self, outcome: Outcome, began: int | None, ended: int | None) -> RawEvent:
        """Return the verdict, at the time when it was reached."""
        return RawEvent(
            run_id=self.run_id,
            position=(0, 1),
            kind="verdict",
            tool=self.grader,
            target=self.grader,
            outcome=str(outcome),
            error_class=self.error,
            at=began if ended is None else ended,
            task_group=self.task,
            identity=f"trial/{self.grader}/verdict",
        )


def _times(document: dict[str, Any], name: str) -> tuple[int | None, int | None]:
    span = document.get(name)
    if not isinstance(span, dict):
        return None, None
    return moment(span.get("started_at")), moment(span.get("finished_at"))


def _session_beside(folder: Path | None, names: tuple[str, ...]) -> str | None:
    """Return the session that a trace beside the outcome belongs to, read from its first 64 KiB."""
    for source in _beside(folder, names):
        try:
            found = _SESSION.search(source.head().data)
        except InputError:
            continue
        if found:
            return found.group(1).decode("utf-8", "replace")
    return None


def _peek(folder: Path, name: str) -> bytes | None:
    for source in _beside(folder, (name,)):
        try:
            return source.read()
        except InputError:
            continue
    return None


def companions(source: Source) -> Iterator[Path]:
    """Yield the files that say which session a trial was and whether its tests ran."""
    names = (*_HARBOR_TRACES, *_terminal_bench_traces(source), _TEST_REPORT, _TEST_OUTPUT)
    for found in _beside(source.siblings(), names):
        yield found.path


def _beside(folder: Path | None, names: tuple[str, ...]) -> Iterator[Source]:
    if folder is None:
        return
    for name in names:
        for end in _COMPRESSED:
            path = folder / (name + end)
            if path.is_file():
                yield Source.of(path)


FORMAT = Format(
    name="harness",
    version=1,
    title="outcome of a benchmark trial (Harbor result.json, terminal-bench results.json)",
    recognised_by="trial_name with is_resolved, or with task_name and a verifier result",
    proved_on="98 trials of two harnesses",
    claim=claim,
    read=read,
    rank=10,
    companions=companions,
)
