"""Ids that are whole numbers stay exact, whatever the fast decoder makes of them."""

from __future__ import annotations

import json

import pytest

from tests.readers.reading import records

BIG = (1 << 127) + 12_345_678_901_234_567


def _request(trace: int, **span: object) -> dict:
    operation = {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}}
    made = {
        "traceId": trace,
        "spanId": "00000000000000aa",
        "name": "execute_tool x",
        "attributes": [operation],
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [made | span]}]}]}


@pytest.mark.parametrize(
    "wrap", [lambda r: r, lambda r: [r], lambda r: {"trace": r}, lambda r: [{"data": [r]}]]
)
def test_whole_numbers_of_128_bits(wrap):
    """Two traces whose ids differ in the last digit only are two traces, on lines of every shape."""
    lines = [json.dumps(wrap(_request(BIG + step))).encode() for step in range(3)]
    found, report = records(b"\n".join(lines), format="otlp-json")
    assert [event.trace_id for event in found] == [f"{BIG + step:032x}" for step in range(3)]
    assert report.faults == []


def test_deep_nesting_costs_only_its_line():
    """A line of a thousand brackets is set aside; the lines around it are read."""
    good = json.dumps(_request(BIG)).encode()
    deep = b'{"resourceSpans": ' + b"[" * 900 + b"]" * 900 + b"}"
    found, report = records(b"\n".join([good, deep, good]), format="otlp-json")
    assert len(found) == 2
    assert [fault.position for fault in report.faults] == [2]
