"""Large files of lines are read in ranges: together they say what the whole file says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.readers import registry
from agentlens.readers.base import Report
from agentlens.readers.source import Source
from tests.readers import test_jaeger, test_langfuse, test_mlflow, test_otel_sdk, test_phoenix
from tests.readers.reading import said

if TYPE_CHECKING:
    from pathlib import Path

ROWS: dict[str, list[Any]] = {
    "jaeger": [test_jaeger.ONE, test_jaeger.span(3, "x", test_jaeger.SEARCH, parent=1)],
    "langfuse": [test_langfuse.exported(one) for one in test_langfuse.ROWS],
    "mlflow": test_mlflow.TRACES,
    "otel-sdk": test_otel_sdk.ROWS,
    "phoenix": test_phoenix.rows(),
}


def read(source: Source, name: str) -> list[tuple[int, dict[str, Any]]]:
    found = registry.named(name).read(source, Report())
    return [(record.position[0], said(record)) for record in found]


@pytest.mark.parametrize("name", sorted(ROWS))
def test_ranges_give_the_events_of_the_whole(name: str, tmp_path: Path) -> None:
    """The same lines, by the same numbers; only formats that need no neighbours say that they may be cut."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in ROWS[name]))
    parts = list(Source.of(path).split(len(path.read_bytes()) // 3))
    assert len(parts) > 1
    assert registry.named(name).lines
    assert [one for part in parts for one in read(part, name)] == read(Source.of(path), name)


@pytest.mark.parametrize("shape", ["csv", "parquet", "rest"])
def test_what_is_no_file_of_lines_is_not_cut(shape: str, tmp_path: Path) -> None:
    """Whatever its format says."""
    path = tmp_path / "x"
    path.write_bytes(test_phoenix.made(shape, tmp_path))
    assert list(Source.of(path).split(50)) == [Source.of(path)]
