"""Several runs in one file: an array of documents, or of wrapped records, is read as they are one a file or line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from agentlens.lake.direct import read_file
from agentlens.readers import registry
from agentlens.readers.source import Source
from tests.readers.lanes_made import NORMALISER

if TYPE_CHECKING:
    from pathlib import Path

TOLD = (
    "run_id",
    "agent",
    "seq",
    "kind",
    "tool",
    "target",
    "action_signature",
    "progress_fingerprint",
    "open",
    "at",
)


def atif(name: str) -> dict[str, Any]:
    call = {"tool_call_id": "c", "function_name": "bash", "arguments": {"cmd": name}}
    step = {"step_id": 1, "source": "agent", "message": "", "tool_calls": [call]}
    return {
        "schema_version": "ATIF-v1.4",
        "agent": {"name": "x", "version": "1"},
        "session_id": name,
        "steps": [step],
    }


def swe(name: str) -> dict[str, Any]:
    step = {"action": f"ls {name}", "observation": "a", "response": "", "thought": "", "state": "{}"}
    return {"environment": "e", "trajectory": [step], "history": [], "info": {"exit_status": "x"}}


def mini(name: str) -> dict[str, Any]:
    rows = [{"role": "user", "content": "t"}, {"role": "assistant", "content": f"```bash\nls {name}\n```"}]
    return {
        "info": {"mini_version": "1"},
        "messages": rows,
        "trajectory_format": "mini-swe-agent-1",
        "instance_id": name,
    }


def sdk(name: str) -> dict[str, Any]:
    told = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "f",
        "gen_ai.tool.args": f'{{"a": "{name}"}}',
    }
    one = {
        "name": "f", "context": {"trace_id": name * 32, "span_id": name * 16}, "parent_id": None,
        "start_time": "2026-01-01T00:00:00Z", "end_time": "2026-01-01T00:00:01Z", "status": {}, "attributes": told,
    }  # fmt: skip
    return {"spans": [one]}


def jaeger(name: str) -> dict[str, Any]:
    tags = [{"key": key, "value": value} for key, value in (("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "f"), ("gen_ai.tool.args", name))]  # fmt: skip
    one = {"traceID": name * 32, "spanID": name * 16, "operationName": "f", "startTime": 1_790_000_000_000_000, "duration": 5, "tags": tags}  # fmt: skip
    return {"data": [{"traceID": name * 32, "spans": [one], "processes": {}}]}


def transcript(name: str) -> dict[str, Any]:
    said = [{"role": "human", "content": name}, {"role": "Orchestrator (-> WebSurfer)", "content": f"open {name}"},
            {"role": "WebSurfer", "content": "done"}]  # fmt: skip
    return {"history": said, "question": "q"}


@pytest.mark.parametrize(
    ("document", "reader"),
    [
        (atif, "atif"),
        (swe, "swe-agent"),
        (mini, "mini-swe-agent"),
        (sdk, "otel-sdk"),
        (jaeger, "jaeger"),
        (transcript, "transcript"),
    ],
)
def test_an_array_of_runs_is_read_like_its_elements(document: Any, reader: str, tmp_path: Path) -> None:
    """As many actions as files of one run each, in runs of their own; a cut array gives what is whole."""
    columns = ("kind", "agent", "tool", "target", "action_signature")

    def told(text: str, name: str) -> pl.DataFrame:
        path = tmp_path / f"{name}.json"
        path.write_text(text)
        assert registry.sniff(Source.of(path).head()).name == reader
        return read_file(path, NORMALISER).events.collect()

    single = pl.concat([told(json.dumps(document(name)), f"one-{name}") for name in "ab"])
    assert single.filter(pl.col("kind").is_in(["tool", "handoff"])).height == 2
    for text in (
        json.dumps([document("a"), document("b")], indent=1),
        json.dumps([document("a"), document("b")]),
    ):
        several = told(text, "several")
        assert several.select(columns).sort(columns).equals(single.select(columns).sort(columns))
        assert several["run_id"].n_unique() == 2
        cut = told(text[:-3], "cut")
        assert cut.filter(pl.col("kind").is_in(["tool", "handoff"])).height >= 1


@pytest.mark.parametrize(
    ("folder", "pattern"),
    [
        ("claude-code", "*.jsonl"),
        ("codex", "*.jsonl"),
        ("gemini-cli", "stream.jsonl"),
        ("openclaw", "*.jsonl"),
    ],
)
def test_lines_that_someone_put_into_one_array_are_those_lines(
    folder: str, pattern: str, shared: Path, tmp_path: Path
) -> None:
    """As ``jq -s`` writes them, over many lines or on one."""
    for path in sorted((shared / "samples" / folder).glob(pattern)):
        rows = []
        for line in path.read_text("utf-8").splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                continue
        name = registry.sniff(Source.of(path).head()).name
        wanted = read_file(path, NORMALISER).events.collect()
        for indent in (None, 1):
            copy = tmp_path / f"{indent}" / path.name
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(json.dumps(rows, indent=indent))
            assert registry.sniff(Source.of(copy).head()).name == name
            assert read_file(copy, NORMALISER).events.collect().select(TOLD).equals(wanted.select(TOLD))
