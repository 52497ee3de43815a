"""Outcome files beside a trace."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.readers import registry
from agentlens.readers.source import Source
from tests.readers.merging import merged, of_kind
from tests.readers.reading import records

if TYPE_CHECKING:
    from pathlib import Path

SUMMARY = "===== 2 failed, 1 passed in 0.10s =====\n"


def harbor(folder: Path, reward: Any = 0.0, **more: Any) -> Path:
    document = {
        "task_name": "sort-it",
        "trial_name": "sort-it__x",
        "agent_info": {"name": "agent-x", "version": "1"},
        "verifier_result": {"rewards": {"reward": reward}},
        "exception_info": None,
        "agent_execution": {"started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:01:00Z"},
        "verifier": {"started_at": "2026-01-01T00:01:00Z", "finished_at": "2026-01-01T00:02:00Z"},
        **more,
    }
    path = folder / "result.json"
    path.write_text(json.dumps(document))
    return path


def verdict(path: Path) -> dict[str, Any]:
    (event,) = of_kind(merged(records(path)[0]), "verdict")
    return event


def kept(folder: Path, name: str, text: str) -> None:
    path = folder / "verifier" / name
    path.parent.mkdir(exist_ok=True)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)


@pytest.mark.parametrize(
    ("reward", "files", "outcome"),
    [
        (1.0, {}, "passed"),
        (1, {"test-stdout.txt": "uvx: command not found"}, "passed"),
        (0.0, {"test-stdout.txt": SUMMARY}, "failed"),
        (0.0, {"test-stdout.txt.gz": SUMMARY}, "failed"),
        (0.0, {"test-stdout.txt": "curl: (7) Failed to connect\nuvx: command not found"}, "unknown"),
        (0.0, {"test-stdout.txt": "noise", "ctrf.json": '{"results": {"summary": {"tests": 3}}}'}, "failed"),
        (0.0, {"ctrf.json": '{"results": {"summary": {"tests": 0}}}'}, "unknown"),
        (0.0, {"ctrf.json": "cut {"}, "unknown"),
        (0.0, {}, "failed"),
        (0.4, {}, "unknown"),
        (None, {}, "unknown"),
        ("1", {}, "unknown"),
    ],
)
def test_a_zero_fails_only_where_the_tests_ran(
    tmp_path: Path, reward: Any, files: dict[str, str], outcome: str
) -> None:
    """The report or the summary tells that they ran; with neither file the harness's word stands."""
    for name, text in files.items():
        kept(tmp_path, name, text)
    assert verdict(harbor(tmp_path, reward))["outcome"] == outcome


def test_the_verdict_goes_to_the_run_of_the_trace_beside_it(tmp_path: Path) -> None:
    """The session id is read from the trajectory or the stream; without one the trial names the run."""
    path = harbor(tmp_path)
    assert verdict(path)["run_id"] == "sort-it__x"
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "claude-code.txt").write_text('{"type":"system","session_id":"s-2"}\n')
    assert verdict(path)["run_id"] == "s-2"
    (tmp_path / "agent" / "trajectory.json.gz").write_bytes(
        gzip.compress(b'{"schema_version": "ATIF-v1.2", "session_id": "s-1"}')
    )
    assert verdict(path)["run_id"] == "s-1"


def test_task_times_and_exceptions_come_along(tmp_path: Path) -> None:
    """The verdict stands at the end of the tests, the agent's work has its own span."""
    path = harbor(tmp_path, exception_info={"exception_type": "AgentTimeoutError", "exception_message": "x"})
    events = merged(records(path)[0])
    (span,), (found,) = of_kind(events, "agent"), of_kind(events, "verdict")
    assert (span["tool"], span["ended_at"] - span["at"]) == ("agent-x", 60_000_000)
    assert (found["at"] - span["ended_at"], found["task_group"], found["target"]) == (
        60_000_000,
        "sort-it",
        "harbor",
    )
    assert found["error_class"] == "AgentTimeoutError"


@pytest.mark.parametrize(
    ("resolved", "mode", "outcome"),
    [
        (True, "unset", "passed"),
        (False, "unset", "failed"),
        (False, "agent_timeout", "failed"),
        (False, "parse_error", "unknown"),
        (None, "test_timeout", "unknown"),
        ("yes", "unset", "unknown"),
    ],
)
def test_terminal_bench_says_resolved_or_why_it_cannot(
    tmp_path: Path, resolved: Any, mode: str, outcome: str
) -> None:
    """A test run that timed out or could not be read says nothing of the work."""
    path = tmp_path / "a.hard.results.json"
    path.write_text(
        json.dumps({"trial_name": "a.1-of-1", "task_id": "a", "is_resolved": resolved, "failure_mode": mode})
    )
    (tmp_path / "a.stream.jsonl").write_text('{"session_id": "other"}')
    found = verdict(path)
    assert (found["outcome"], found["run_id"], found["task_group"]) == (outcome, "a.1-of-1", "a")
    (tmp_path / "a.hard.stream.jsonl").write_text('{"session_id": "mine"}')
    assert verdict(path)["run_id"] == "mine"


@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, [None], True])
def test_a_wrong_type_anywhere_is_never_an_exception(tmp_path: Path, junk: Any) -> None:
    """Each field is replaced in turn; a verdict, if any, is then one of the three."""
    document = json.loads(harbor(tmp_path).read_text())
    for field in document:
        path = tmp_path / "result.json"
        path.write_text(json.dumps({**document, field: junk}))
        found, report = records(path, "harness")
        assert not any("reader stopped" in fault.reason for fault in report.faults)
        assert all(
            event["outcome"] in {"passed", "failed", "unknown"} for event in of_kind(merged(found), "verdict")
        )


def test_the_kimi_trials(shared: Path) -> None:
    """Of 49 trials 33 are verified, 1 passed and 32 failed; 16 test scripts could not start."""
    folder = shared / "traces" / "terminal-bench-kimi"
    outcomes = Counter()
    labels = _labels(folder / "labels.csv")
    for path in sorted(folder.glob("*/result.json")):
        assert registry.sniff(Source.of(path).head()).name == "harness"
        found = verdict(path)
        outcomes[found["outcome"]] += 1
        label = labels[path.parent.name]
        expected = (
            "passed"
            if float(label["reward"]) == 1
            else "failed"
            if label["verifier_ran"] == "true"
            else "unknown"
        )
        assert found["outcome"] == expected
        assert found["run_id"] != path.parent.name
    assert outcomes == {"passed": 1, "failed": 32, "unknown": 16}


def test_the_claude_code_trials(shared: Path) -> None:
    """46 claim success; 45 of them have an outcome, 34 failed; 9 made no call at all, and failed.

    The 46th (`c4--build-initramfs-qemu`) ended in a test timeout: its outcome is unknown.
    """
    folder = shared / "traces" / "terminal-bench-claude-code" / "runs"
    seen: Counter[tuple[bool, str, bool]] = Counter()
    unknown = []
    for path in sorted(folder.glob("*.results.json")):
        name = path.name.removesuffix(".results.json")
        stream = next(entry for entry in folder.iterdir() if entry.name.startswith(f"{name}.stream"))
        events, found = merged(records(stream)[0]), verdict(path)
        assert {event["run_id"] for event in events} == {found["run_id"]}
        claims = any(event["target"] == "success" for event in of_kind(events, "claim"))
        seen[claims, found["outcome"], bool(of_kind(events, "tool", "handoff", "wait", "approval"))] += 1
        if found["outcome"] == "unknown":
            unknown.append(name)
    assert seen == {
        (True, "passed", True): 11,
        (True, "failed", True): 25,
        (True, "failed", False): 9,
        (True, "unknown", True): 1,
        (False, "passed", True): 1,
        (False, "failed", True): 2,
    }
    assert unknown == ["c4--build-initramfs-qemu"]


def _labels(path: Path) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            found.setdefault(row["run_id"], {})[row["label"]] = row["value"]
    return found
