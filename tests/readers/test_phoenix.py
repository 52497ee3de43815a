"""Phoenix: frames and REST answers are the run of the OTLP export they were made from."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.readers.lanes_made import judged
from tests.readers.reading import events, records, said
from tests.readers.spans_made import T0, TRACE, lines, request, respelled, sid
from tests.readers.spans_made import span as otlp_span

if TYPE_CHECKING:
    from pathlib import Path

PLAIN: list[tuple[int, str, dict[str, Any], int | None]] = [
    (
        1,
        "support",
        {"openinference.span.kind": "AGENT", "agent.name": "Triage", "session.id": "thread_7"},
        None,
    ),
    (
        2,
        "search",
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "search",
            "input.value": '{"q": "a"}',
            "output.value": "3 hits",
        },
        1,
    ),
    (
        3,
        "handoff to Refunds",
        {"openinference.span.kind": "TOOL", "input.value": "Triage", "output.value": "Refunds"},
        1,
    ),
    (
        4,
        "generation",
        {"openinference.span.kind": "LLM", "llm.model_name": "m", "llm.token_count.prompt": 7},
        1,
    ),
]
OTLP = request(
    *(otlp_span(number, name, plain, parent=parent) for number, name, plain, parent in PLAIN), resource={}
)


def when(number: int, more: int = 0) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=(T0 + number * 10**9 + more) // 1000)
    return (at + timedelta(microseconds=123_456)).isoformat()


def rest(number: int, name: str, plain: dict[str, Any], parent: int | None) -> dict[str, Any]:
    """Return a span of the REST interface: the kind stands beside the attributes, not in them."""
    return {
        "id": f"U3Bhbjo{number}",
        "name": name,
        "context": {"trace_id": TRACE, "span_id": sid(number)},
        "span_kind": plain["openinference.span.kind"],
        "parent_id": None if parent is None else sid(parent),
        "start_time": when(number),
        "end_time": when(number, 500_000_000),
        "status_code": "OK",
        "status_message": "",
        "attributes": {key: value for key, value in plain.items() if key != "openinference.span.kind"},
        "events": [],
    }


def framed(number: int, name: str, plain: dict[str, Any], parent: int | None) -> dict[str, Any]:
    """Return a row of a span frame: every attribute is a column of its own."""
    one = rest(number, name, plain, parent)
    context = one.pop("context")
    del one["id"], one["attributes"]
    one |= {f"context.{key}": value for key, value in context.items()}
    return one | {f"attributes.{key}": value for key, value in plain.items()}


def rows() -> list[dict[str, Any]]:
    found = [framed(*one) for one in PLAIN]
    names = dict.fromkeys(key for row in found for key in row)
    return [{name: row.get(name) for name in names} for row in found]


def parquet(folder: Path) -> bytes:
    frame = pl.DataFrame(
        rows(), schema_overrides={"attributes.llm.token_count.prompt": pl.Float64}
    ).with_columns(pl.col("start_time", "end_time").str.to_datetime(time_unit="ns", time_zone="UTC"))
    frame.write_parquet(folder / "f")
    return (folder / "f").read_bytes()


def made(shape: str, folder: Path) -> bytes:
    if shape == "parquet":
        return parquet(folder)
    if shape == "lines":
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows())
    if shape == "csv":
        flat = pl.DataFrame(rows()).drop("events")
        return flat.write_csv().encode()
    if shape == "rest":
        return json.dumps([rest(*one) for one in PLAIN]).encode()
    if shape == "rest page":
        return json.dumps({"data": [rest(*one) for one in PLAIN], "next_cursor": None}).encode()
    (group,) = respelled(OTLP, "snake_case")["resource_spans"]
    spans = group["scope_spans"][0]["spans"]
    for span in spans:
        for name in ("start_time_unix_nano", "end_time_unix_nano"):
            span[name] = int(span[name])
    return json.dumps({"data": spans, "next_cursor": None}).encode()


def told(data: bytes) -> list[dict[str, Any]]:
    return sorted(map(said, events(data)), key=lambda one: one["span_id"])


@pytest.mark.parametrize("shape", ["parquet", "lines", "csv", "rest", "rest page", "otlpv1"])
def test_every_shape_is_the_same_run_as_its_otlp_form(shape: str, tmp_path: Path) -> None:
    """Frames, with counts that became floats; REST spans, without their kind; bare OTLP spans with every null."""
    assert told(made(shape, tmp_path)) == told(lines(OTLP))


def test_an_exception_gives_class_and_result() -> None:
    """As in any other export of the span."""
    exception = {
        "name": "exception",
        "timestamp": when(2),
        "attributes": {"exception.type": "KeyError", "exception.message": "A-404"},
    }
    plain = {"openinference.span.kind": "TOOL", "tool.name": "search", "input.value": "{}"}
    row = rest(2, "search", plain, 1) | {"status_code": "ERROR", "events": [exception]}
    (event,) = events(json.dumps([row]).encode())
    assert (event.error_class, event.result, event.open) == ("KeyError", "A-404", False)


def test_labels_joined_to_a_frame_are_verdicts() -> None:
    """They are about the span of their row; a score without a label is none."""
    row = framed(*PLAIN[1]) | {
        "eval.correct.label": "incorrect",
        "eval.correct.score": 0,
        "eval.tone.label": None,
    }
    found = [event for event in events(json.dumps(row).encode() + b"\n") if event.kind == "verdict"]
    assert [(event.target, event.outcome, event.parent_span_id) for event in found] == [
        ("correct", "failed", sid(2))
    ]


def test_attributes_may_be_nested_objects() -> None:
    """Other versions do not flatten them."""
    row = rest(*PLAIN[1])
    row["attributes"] = {
        "tool": {"name": "search"},
        "input": {"value": '{"q": "a"}'},
        "output": {"value": "3 hits"},
    }
    (nested,), (flat,) = events(json.dumps([row]).encode()), events(json.dumps([rest(*PLAIN[1])]).encode())
    assert said(nested) == said(flat)


def test_a_row_without_a_trace_is_set_aside() -> None:
    """By its line."""
    data = b"".join(json.dumps(row | {"context.trace_id": None}).encode() + b"\n" for row in rows()[:1])
    found, report = records(data + json.dumps(rows()[1]).encode())
    assert [event.span_id for event in found] == [sid(2)]
    assert [fault.position for fault in report.faults] == [1]


@pytest.mark.parametrize("name", ["spans.parquet", "spans_df.jsonl", "spans_rest.json"])
def test_the_real_exports_are_the_real_otlp_run(name: str, shared: Path) -> None:
    """Phoenix was fed with it: same lanes, signatures, evidence and verdicts; times agree to its last digit."""
    otlp = shared / "samples/otlp-json/support-openinference.otlp.jsonl"
    path = shared / "samples/phoenix" / name
    assert judged(path).equals(judged(otlp))
    digit = 1000 if name == "spans_df.jsonl" else 1
    times = {event.span_id: event.at for event in events(otlp)}
    spans = [event for event in events(path) if event.span_id is not None]
    assert all(abs(event.at - times[event.span_id]) <= digit for event in spans)  # type: ignore[operator]
