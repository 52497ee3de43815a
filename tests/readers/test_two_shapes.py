"""One run through two shapes of its format: the same lanes, signatures, evidence and verdicts."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.readers import claude, proto_made, test_atif, test_inspect_ai, test_langfuse, test_phoenix
from tests.readers.lanes_made import judged
from tests.readers.spans_made import agent, document, lines, request, respelled, tool

if TYPE_CHECKING:
    from pathlib import Path

LOOP = 5
"""Calls that see the same each time: one more than the default rule lets pass."""
SPANS = request(
    agent(1, "Finder"),
    *(tool(n, "search", '{"q": "größe"}', "no rows") for n in range(2, 2 + LOOP)),
    agent(20, "Writer", parent=1),
    tool(21, "save", '{"to": "a"}', "", parent=20),
    tool(22, "save", '{"to": "b"}', None, parent=20, status={"code": 2, "message": "disk full"}),
)


def told(data: bytes, folder: Path, name: str = "a") -> pl.DataFrame:
    """Return the judged lanes of a file of these bytes; the run's own name is that of the file in no shape."""
    path = folder / name
    path.write_bytes(data)
    return judged(path)


def stuck(frame: pl.DataFrame) -> list[str]:
    return frame.filter(pl.col("verdict") == "stuck_loop")["agent"].unique().to_list()


@pytest.mark.parametrize(
    "shape", ["protobuf", "prefixed", "document", "tempo", "snake_case", "base64", "turned"]
)
def test_spans_in_any_spelling(shape: str, tmp_path: Path) -> None:
    """Text and bytes, Tempo's names, one request or several, children first or last."""
    turned = copy.deepcopy(SPANS)
    turned["resourceSpans"][0]["scopeSpans"][0]["spans"].reverse()
    data = {
        "protobuf": lambda: proto_made.request(SPANS),
        "prefixed": lambda: proto_made.prefixed(proto_made.request(SPANS)),
        "document": lambda: document(SPANS),
        "turned": lambda: lines(turned),
    }.get(shape, lambda: lines(respelled(SPANS, shape)))()
    plain = told(lines(SPANS), tmp_path, "plain")
    assert stuck(plain) == ["Finder"]
    assert told(data, tmp_path).equals(plain)


@pytest.mark.parametrize("shape", ["parquet", "lines", "csv", "rest", "otlpv1"])
def test_phoenix_and_the_spans_it_was_fed_with(shape: str, tmp_path: Path) -> None:
    """A frame loses links and digits of times, no call and no result."""
    plain = told(lines(test_phoenix.OTLP), tmp_path, "plain")
    assert plain.height
    assert told(test_phoenix.made(shape, tmp_path), tmp_path, f"a.{shape}").equals(plain)


@pytest.mark.parametrize("shape", ["lines", "array", "csv", "parquet"])
def test_a_langfuse_download_and_its_bulk_exports(shape: str, tmp_path: Path) -> None:
    """Objects there, text here; nothing there, an empty text here."""
    plain = told(test_langfuse.made("download", tmp_path), tmp_path, "plain")
    assert plain.height
    assert told(test_langfuse.made(shape, tmp_path), tmp_path, f"a.{shape}").equals(plain)


def test_an_inspect_archive_and_its_document(tmp_path: Path) -> None:
    """Also where the archive was never finished."""
    events = [test_inspect_ai.tool(2 * n, "no rows") for n in range(1, 1 + LOOP)]
    one = test_inspect_ai.sample(*events, scores={"includes": {"value": "I"}})
    plain = told(test_inspect_ai.document(one), tmp_path, "plain")
    assert stuck(plain) == [""]
    for header in (True, False):
        assert told(test_inspect_ai.zipped(one, header=header), tmp_path).equals(plain)


def test_a_trajectory_and_the_stream_it_was_made_from(tmp_path: Path) -> None:
    """The stream has no times and the trajectory no records of its own for results: the actions are the same."""
    stream: list[Any] = [{"type": "system", "subtype": "init", "session_id": "s-1"}]
    steps: list[Any] = [test_atif.step(1, "user", message="go")]
    for n in range(1, 1 + LOOP):
        stream += [
            claude.said_in_stream(f"m{n}", claude.asked(f"c{n}", "Grep", pattern="größe")),
            claude.answered_in_stream(claude.came(f"c{n}", "no rows")),
        ]
        seen = test_atif.saw({"source_call_id": f"c{n}", "content": "no rows"})
        call = test_atif.called(f"c{n}", "Grep", pattern="größe")
        steps.append(test_atif.step(n + 1, tool_calls=[call], observation=seen))
    whole = test_atif.document(*steps) | {"agent": {"name": "claude-code", "version": "2"}}
    facts = (
        "run_id",
        "agent",
        "kind",
        "tool",
        "action_signature",
        "progress_fingerprint",
        "error_class",
        "verdict",
    )
    streamed = told(claude.lines(*stream), tmp_path, "stream").select(facts)
    assert stuck(streamed) == [""]
    assert told(json.dumps(whole).encode(), tmp_path).select(facts).equals(streamed)
