"""OTLP protobuf: the same tables as OTLP JSON, whole spans out of what was cut."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from agentlens.readers import otlp_proto
from agentlens.readers.base import Report
from agentlens.readers.source import Source
from agentlens.readers.wire import Wire, WireError
from tests.readers.lanes_made import judged
from tests.readers.proto_made import fixed, part, prefixed, request, varint, whole
from tests.readers.proto_made import span as encoded
from tests.readers.reading import events, records, said
from tests.readers.spans_made import SMALL, TRACE, attributes, lines, sid, span, tool
from tests.readers.spans_made import request as made

if TYPE_CHECKING:
    from pathlib import Path

FULL = made(
    tool(
        5,
        "get",
        '{"id": 1}',
        status={"code": 2, "message": "no such order"},
        events=[{"name": "exception", "attributes": attributes({"exception.type": "KeyError"})}],
        links=[{"traceId": "a" * 32}],
    ),
    span(6, "handoff to B", {"openinference.span.kind": "TOOL"}, parent=1),
    tool(7, "set", {"n": -3, "f": 2.5, "on": True, "deep": [{"a": ["x"]}]}, [1, "two", False]),
    span(1, "run", {"openinference.span.kind": "AGENT", "agent.name": "A", "input.value": "go"}),
    resource={"service.name": "s", "service.version": "2", "session.id": "thread"},
)


def told(data: bytes) -> list[dict[str, Any]]:
    return sorted(
        (said(event) for event in events(data)), key=lambda one: (one.get("span_id", ""), one["kind"])
    )


@pytest.mark.parametrize("one", [SMALL, FULL], ids=["small", "full"])
def test_protobuf_and_json_give_the_same_events(one: dict[str, Any]) -> None:
    """Ids, nanoseconds, every kind of attribute value, status, exceptions and links."""
    assert told(request(one)) == told(lines(one))


def test_length_prefixed_messages_are_read_one_by_one() -> None:
    """Protobuf, zstd-compressed protobuf and compressed JSON may follow one another."""
    packed = [
        zstandard.compress(request(FULL)),
        zstandard.compress(json.dumps(made(tool(9, "x", "{}", "1"))).encode()),
    ]
    found, report = records(prefixed(request(SMALL), *packed))
    assert sorted(event.span_id or "" for event in found if event.kind == "tool") == [
        sid(n) for n in (2, 3, 5, 7, 9)
    ]
    assert {event.position[0] for event in found} == {1, 2, 3}
    assert not report.faults


@pytest.mark.parametrize("packed", [False, True])
def test_prefixed_files_are_recognised(packed: bool, tmp_path: Path) -> None:
    """By what stands behind the first length."""
    path = tmp_path / "traces.proto"
    one = request(SMALL)
    path.write_bytes(prefixed(zstandard.compress(one) if packed else one))
    assert otlp_proto.claim(Source.of(path).head()) >= 80


def test_an_evaluation_that_came_as_a_log_is_a_verdict() -> None:
    """Log requests have the shape of span requests; their records begin with a time."""
    evaluation = {
        "timeUnixNano": "1796066000000000000",
        "traceId": TRACE,
        "spanId": sid(2),
        "eventName": "gen_ai.evaluation.result",
        "attributes": attributes(
            {"gen_ai.evaluation.name": "tests", "gen_ai.evaluation.score.label": "pass"}
        ),
    }
    one = {"resourceLogs": [{"resource": {"attributes": []}, "scopeLogs": [{"logRecords": [evaluation]}]}]}
    assert told(request(one)) == told(lines(one))
    (event,) = events(request(one))
    assert (event.kind, event.outcome, event.parent_span_id) == ("verdict", "passed", sid(2))


@pytest.mark.parametrize("cut", range(60, 700, 7))
def test_a_cut_file_gives_its_whole_spans(cut: int, tmp_path: Path) -> None:
    """Those before the cut are the same, the cut is told by its byte, and nothing is raised."""
    spans = [tool(n, "t", f'{{"n": {n}}}', "r") for n in range(2, 8)]
    data = request(made(*spans))
    path = tmp_path / "x.pb"
    path.write_bytes(data[:cut])
    report = Report()
    found = [said(event) for event in otlp_proto.read(Source.of(path), report)]  # type: ignore[arg-type]
    assert found == [said(event) for event in events(data)][: len(found)]
    assert len(found) == sum(data.index(one) + len(one) <= cut for one in map(encoded, spans))
    assert [fault.unit for fault in report.faults] == ["byte"]
    assert report.faults[0].position < cut


def test_a_cut_in_a_prefixed_file_is_told_by_its_place_in_the_file() -> None:
    """The messages before it are whole."""
    data = prefixed(request(SMALL), request(SMALL))
    found, report = records(data[:-20])
    assert sum(event.kind == "tool" for event in found) == 4
    assert report.faults[0].position == len(data) // 2
    assert all(len(data) // 2 <= fault.position < len(data) for fault in report.faults)


def test_damaged_spans_cost_only_themselves() -> None:
    """A span whose inside is no protobuf is set aside; its neighbours stand."""
    good, bad = (
        request(made(tool(2, "a", "{}", "1"))),
        part(1, part(2, part(2, part(1, bytes.fromhex(TRACE)) + b"\x0f"))),
    )
    found, report = records(good + bad + good)
    assert [event.kind for event in found] == ["tool", "tool"]
    assert len(report.faults) == 1
    assert report.faults[0].position >= len(good)


@pytest.mark.parametrize(
    "body", [whole(1, 3), fixed(5, 9), b"\x00\x01", varint(9 << 3 | 3), b"\xff" * 12, part(9, b"\x80")]
)
def test_wrong_wire_types_are_no_spans(body: bytes) -> None:
    """Each is one fault of the span it stands in."""
    wire = Wire(part(1, part(2, part(2, part(1, bytes.fromhex(TRACE)) + body))))
    assert [group["scopeSpans"] for group in wire.groups(0, len(wire.data))] == [[{}]]
    assert len(wire.faults) == 1


def test_values_may_not_nest_without_end() -> None:
    """Arrays inside arrays stop at a depth that no real attribute has."""
    body = b""
    for _ in range(100):
        body = part(5, part(1, body))
    wire = Wire(part(1, part(2, part(2, part(9, part(1, b"k") + part(2, body))))))
    assert len(list(wire.groups(0, len(wire.data)))) == 1
    assert wire.faults == [(wire.faults[0][0], "a record that is not OTLP: nested too deeply")]
    with pytest.raises(WireError):
        wire._message("value", 0, len(body), 0)


@pytest.mark.parametrize(
    "data", [b"\n", b"\n\x05hello", b"words here\n", b"\x00\x00\x00\x05hello there", b"\n\n\n"]
)
def test_other_bytes_are_not_claimed(data: bytes, tmp_path: Path) -> None:
    """Neither short text nor what only begins like a message."""
    path = tmp_path / "x"
    path.write_bytes(data)
    assert otlp_proto.claim(Source.of(path).head()) == 0
    report = Report()
    assert not list(otlp_proto.read(Source.of(path), report))
    assert report.faults


def test_flipped_bytes_never_raise(tmp_path: Path) -> None:
    """Whatever a disk does to a file, there is a report."""
    rng = random.Random(5)
    data = request(FULL)
    path = tmp_path / "x.pb"
    for number in range(200):
        broken = bytearray(data if number % 2 else prefixed(data))
        for _ in range(rng.randrange(1, 5)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        path.write_bytes(broken)
        list(otlp_proto.read(Source.of(path), Report()))


def test_real_protobuf_is_the_run_of_the_real_json(shared: Path) -> None:
    """Two exports of one run, by the tools themselves."""
    samples = shared / "samples"
    proto, plain = (
        samples / "otlp-proto/support-openinference.pb",
        samples / "otlp-json/support-openinference.otlp.jsonl",
    )
    assert told(proto.read_bytes()) == told(plain.read_bytes())
    assert judged(proto).equals(judged(plain))
