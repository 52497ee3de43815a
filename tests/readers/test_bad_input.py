"""Broken exports: never an exception, never a lost good record, never silence."""

from __future__ import annotations

import copy
import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.readers import chat, jaeger, langfuse, langsmith, mlflow, native, otel_sdk, otlp, phoenix
from agentlens.readers.base import Format, Report
from agentlens.readers.source import Source
from tests.readers import test_jaeger, test_langfuse, test_langsmith, test_mlflow, test_otel_sdk, test_phoenix
from tests.readers.reading import said
from tests.readers.spans_made import SMALL, agent, attributes, request, span, tool

if TYPE_CHECKING:
    from pathlib import Path

RAISED = {
    "name": "exception",
    "attributes": attributes({"exception.type": "KeyError", "exception.message": "A"}),
}
ROOT = span(9, "run", {"openinference.span.kind": "AGENT", "input.value": '{"messages": [{"role": "user"}]}'})
NATIVE = [
    {
        "run_id": "r",
        "seq": n,
        "at": 1791187200 + n,
        "tool": "t",
        "args": {"q": n, "deep": [{"a": None}]},
        "result": "x" * n,
        "retry_policy": {"errors": ["*"], "interval_s": 1, "max_attempts": 3, "backoff_rate": 2},
        "lease": {"owner": "o", "deadline": "2026-10-05T08:00:00Z"},
    }
    for n in range(5)
]
CHATS = [
    {
        "task_id": n,
        "reward": n % 2,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {
                "role": "assistant",
                "content": "on it",
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"n": 1}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": f"Error: {n}"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "d", "name": "g", "input": {"n": n}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "d", "content": "ok"}]},
        ],
    }
    for n in range(5)
]
PAIRS = [
    {
        "request": {"model": "m", "messages": one["messages"][:3]},
        "response": {"choices": [{"message": one["messages"][3]}], "usage": {"prompt_tokens": 3}},
    }
    for one in CHATS
]
SPANS = [
    SMALL,
    request(
        tool(
            5,
            "get",
            '{"id": 1}',
            status={"code": 2, "message": "no"},
            events=[RAISED],
            links=[{"traceId": "a" * 32}],
        )
    ),
    request(span(6, "handoff to B", {"openinference.span.kind": "TOOL"}, parent=1)),
    request(tool(7, "transfer_to_agent", {"agent_name": "C"}, {"a": [1, 2.5, True]})),
    request(ROOT, resource={"service.name": "s", "session.id": "x"}),
]
CASES = [
    pytest.param(native.FORMAT, NATIVE, id="native"),
    pytest.param(chat.FORMAT, CHATS, id="chat"),
    pytest.param(otlp.FORMAT, SPANS, id="otlp"),
    pytest.param(
        jaeger.FORMAT, [test_jaeger.ONE, test_jaeger.span(3, "x", test_jaeger.SEARCH, parent=1)], id="jaeger"
    ),
    pytest.param(otel_sdk.FORMAT, test_otel_sdk.ROWS, id="otel-sdk"),
    pytest.param(phoenix.FORMAT, [test_phoenix.rest(*one) for one in test_phoenix.PLAIN], id="phoenix"),
    pytest.param(phoenix.FORMAT, test_phoenix.rows(), id="phoenix-frame"),
    pytest.param(mlflow.FORMAT, test_mlflow.TRACES, id="mlflow"),
    pytest.param(langfuse.FORMAT, [test_langfuse.exported(one) for one in test_langfuse.ROWS], id="langfuse"),
    pytest.param(langsmith.FORMAT, test_langsmith.RUNS, id="langsmith"),
]
WRONG: list[Any] = [
    None,
    0,
    -1,
    2**70,
    1.5,
    1e300,
    "",
    "x",
    "\ud800",
    True,
    [],
    [1],
    [None],
    {},
    {"a": 1},
    [{}],
    [[]],
]


def read(found: Format, data: bytes, folder: Path) -> tuple[list[dict[str, Any]], Report]:
    """Read without the net that turns a failing reader into a fault."""
    path = folder / "export"
    path.write_bytes(data)
    report = Report()
    return [said(record) for record in found.read(Source.of(path), report)], report


def lines(rows: list[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.mark.parametrize(("found", "rows"), CASES)
def test_cut_anywhere_the_whole_lines_give_the_same(found: Format, rows: list[Any], tmp_path: Path) -> None:
    """Every cut but one at a line end leaves one fault, on the line that was cut."""
    data = lines(rows)
    ends = [index for index, byte in enumerate(data) if byte == 10]
    for cut in range(ends[0] + 2, len(data), max(1, len(data) // 150)):
        whole = sum(end <= cut for end in ends)
        records, report = read(found, data[:cut], tmp_path)
        assert records == read(found, lines(rows[:whole]), tmp_path)[0] or cut in ends
        assert [fault.position for fault in report.faults] == (
            [whole + 1] if data[cut - 1] != 10 and cut not in ends else []
        )


@pytest.mark.parametrize("cut", range(40, 4000, 97))
def test_a_cut_document_gives_its_whole_spans(cut: int, tmp_path: Path) -> None:
    """A single document is cut like lines are: whole spans before the cut, a fault at it."""
    data = json.dumps(
        {"resourceSpans": [group for one in SPANS for group in one["resourceSpans"]]}, indent=1
    ).encode()
    full = [record for record in read(otlp.FORMAT, data, tmp_path)[0] if "span_id" in record]
    records, report = read(otlp.FORMAT, data[:cut], tmp_path)
    kept = [record for record in records if "span_id" in record]
    assert [record["span_id"] for record in kept] == [record["span_id"] for record in full[: len(kept)]]
    begun = data[:cut].count(b'"traceId": "5b8')
    assert begun - 1 <= len(kept) <= begun or not kept
    assert report.faults


@pytest.mark.parametrize(("found", "rows"), CASES)
@pytest.mark.parametrize("seed", range(4))
def test_wrong_types_cost_at_most_their_own_line(
    found: Format, rows: list[Any], seed: int, tmp_path: Path
) -> None:
    """Any value of one line may be of any type: the events of the other lines are the same."""
    rng = random.Random(seed)
    for _ in range(60):
        row = rng.randrange(len(rows))
        broken = copy.deepcopy(rows)
        broken[row] = _mutated(broken[row], rng)
        records, _ = read(found, lines(broken), tmp_path)
        others, _ = read(
            found, lines([other if index != row else None for index, other in enumerate(rows)]), tmp_path
        )
        missing = [record for record in others if _key(record) not in map(_key, records)]
        assert not missing, broken[row]


def test_wrong_types_in_requests_that_continue_one_another_never_raise(tmp_path: Path) -> None:
    """Lines of pairs complete one another, so a broken one may change its neighbours, but nothing stops."""
    rng = random.Random(11)
    for _ in range(150):
        broken = copy.deepcopy(PAIRS)
        row = rng.randrange(len(broken))
        broken[row] = _mutated(broken[row], rng)
        assert read(chat.FORMAT, lines(broken), tmp_path)[0]


def _key(record: dict[str, Any]) -> str:
    return json.dumps({**record, "identity": None, "run_id": None, "open": None}, sort_keys=True, default=str)


def _mutated(value: Any, rng: random.Random) -> Any:
    """Replace one value somewhere inside."""
    places: list[tuple[Any, Any]] = []

    def walk(item: Any) -> None:
        for key in (
            list(item) if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
        ):
            places.append((item, key))
            walk(item[key])

    walk(value)
    holder, key = rng.choice(places)
    holder[key] = copy.deepcopy(rng.choice(WRONG))
    return value


@pytest.mark.parametrize(("found", "rows"), CASES)
def test_lines_that_are_no_records_are_reported_one_by_one(
    found: Format, rows: list[Any], tmp_path: Path
) -> None:
    """Bare values, words, blank lines and broken JSON between good lines."""
    bad = [b"42", b'"text"', b"[1]", b"warning: x", b'{"a": ', b"[" * 3000, b"\xff\xfe", b"null", b"{}"]
    mixed = []
    for index, row in enumerate(rows):
        mixed += [json.dumps(row).encode(), b"", bad[index % len(bad)], bad[(index + 4) % len(bad)]]
    records, report = read(found, b"\n".join(mixed), tmp_path)
    assert len(records) == len(read(found, lines(rows), tmp_path)[0])
    places = {position for index in range(len(rows)) for position in (4 * index + 3, 4 * index + 4)}
    assert {fault.position for fault in report.faults} <= places
    assert len(report.faults) >= len(places) - 2  # an empty object or null may hold nothing at all


def test_surrogates_nan_and_big_ids_cost_nothing(tmp_path: Path) -> None:
    """Each is mended, counted, and read."""
    trace = 2**127 + 1
    line = (
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": T, "spanId": S, "name": "a \\ud83d",'
        ' "startTimeUnixNano": 1544712660000000123, "attributes": [{"key": "gen_ai.operation.name", "value":'
        ' {"stringValue": "execute_tool"}}, {"key": "gen_ai.tool.name", "value": {"stringValue": "t\\udc00"}},'
        ' {"key": "x", "value": {"doubleValue": NaN}}]}]}]}]}'
    )
    line = line.replace("T,", f"{trace},").replace("S,", f"{2**63 + 5},")
    (record,), report = read(otlp.FORMAT, line.encode(), tmp_path)
    assert record["trace_id"] == f"{trace:032x}"
    assert record["span_id"] == f"{2**63 + 5:016x}"
    assert record["at"] == 1_544_712_660_000_000
    assert record["tool"] == "t\ufffd"
    assert report.repaired == {"lone surrogate": 2, "NaN": 1}


def test_a_line_of_twenty_mebibytes_is_read(tmp_path: Path) -> None:
    """A result of that size is one event among others."""
    big = request(tool(5, "cat", "{}", "y" * (20 << 20)))
    records, report = read(otlp.FORMAT, lines([SMALL, big, SMALL]), tmp_path)
    assert [len(record.get("result", "")) for record in records if record["kind"] == "tool"] == [
        6,
        4,
        20 << 20,
        6,
        4,
    ]
    assert not report.faults


@pytest.mark.parametrize("found", [native.FORMAT, chat.FORMAT, otlp.FORMAT], ids=lambda found: found.name)
@pytest.mark.parametrize(
    "data", [b"", b"\n\n", b"words", b"{", b"[", b"\x00" * 99, b"\xef\xbb\xbf", b"[[]]", b"{}"]
)
def test_a_forced_format_on_anything_is_a_report(found: Format, data: bytes, tmp_path: Path) -> None:
    """Whatever the user forces, there is an answer."""
    records, report = read(found, data, tmp_path)
    assert not records
    assert report.faults or data == b"{}" or b"[" in data
    assert all(fault.reason for fault in report.faults)


def test_spans_across_lines_need_no_order(tmp_path: Path) -> None:
    """Parents may come last, in another line, or never."""
    rows = [request(tool(2, "a", "{}", "1")), request(agent(1, "A"))]
    one, two = (read(otlp.FORMAT, lines(order), tmp_path)[0] for order in (rows, rows[::-1]))
    assert sorted(map(str, one)) == sorted(map(str, two))
