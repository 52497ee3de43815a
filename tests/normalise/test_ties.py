"""Spans that began in one tick of their export's clock."""

from __future__ import annotations

import itertools

import pytest

import agentlens
from agentlens.normalise.assemble import assemble
from tests.normalise.test_assemble import at, column, records

SPANS = {"trace_id": "t", "reader": "langfuse"}


def span(own: str, tool: str, above: str | None = None, **more: object) -> dict:
    return {"span_id": own, "parent_span_id": above, "tool": tool, "at": at(0), "ended_at": at(1)} | more


TREE = [
    span("1", "root", kind="agent"),
    span("2", "turn", "1", kind="log"),
    span("3", "", "2", kind="model", ended_at=at(0)),
    span("4", "alpha", "2", action_signature="x"),
    span("5", "alpha", "2", action_signature="y"),
    span("6", "beta", "2"),
    {"kind": "approval", "tool": "beta?", "parent_span_id": "6", "at": at(0)},
]


@pytest.mark.parametrize("places", list(itertools.permutations(range(len(TREE))))[::211])
def test_a_span_stands_behind_the_one_around_it_wherever_it_is_written(places):
    """Then what took no time, then calls by tool and signature: the place in the file decides nothing."""
    rows = [TREE[place] | {"position": n, "source_id": f"s{n % 2}"} for n, place in enumerate(places, 1)]
    assert column(records(*rows, **SPANS), "tool", "seq") == [
        ("root", 0),
        ("turn", 1),
        ("", 2),
        ("alpha", 3),
        ("alpha", 4),
        ("beta", 5),
        ("beta?", 6),
    ]


def test_calls_side_by_side_are_the_same_lap_however_they_ended():
    """Six laps of two parallel calls, written as they ended, are one loop."""
    rows = []
    for lap in range(6):
        calls = [
            span(f"{tool}{lap}", tool, action_signature=tool, at=at(lap), ended_at=at(lap + 0.5))
            for tool in "ab"
        ]
        rows += calls if lap % 3 else calls[::-1]
    seen = [row | {"observed_fingerprint": f"saw {row['tool']}"} for row in rows]
    found = agentlens.loops(assemble(records(*seen, **SPANS)), rule=agentlens.laps((4, 3, 2))).verdicts
    assert found["verdict"].to_list() == ["working"] * 5 + ["stuck_loop"] * 7


def test_circles_of_spans_end():
    """Spans that enclose each other have some order, the same from either side."""
    rows = [span("1", "a", "2"), span("2", "b", "1"), span("3", "c", "3")]
    expected = column(records(*rows, **SPANS), "tool")
    assert sorted(expected) == ["a", "b", "c"]
    turned = [row | {"position": n} for n, row in enumerate(rows[::-1], 1)]
    assert column(records(*turned, **SPANS), "tool") == expected


@pytest.mark.parametrize(
    ("common", "tools"),
    [
        ({"trace_id": "t", "reader": "native"}, "ba"),
        ({"trace_id": "t", "reader": "sql"}, "ba"),
        ({"reader": "codex"}, "ba"),
        (SPANS, "ab"),
        (SPANS | {"at": None}, "ba"),
    ],
    ids=["native", "mapped", "lines", "spans", "no times"],
)
def test_only_spans_are_put_in_order(common, tools):
    """Lines stand in the order in which things happened, and a table in the order that its author gave it."""
    rows = [span("1", "b"), span("2", "a")]
    rows = [{name: value for name, value in row.items() if name not in common} for row in rows]
    assert column(records(*rows, **common), "tool") == list(tools)


def test_numbers_of_the_export_come_first():
    """A lane that its numbers order is left alone, another one of the same file is not."""
    rows = [
        span("1", "b", agent="x", seq_given=1),
        span("2", "a", agent="x", seq_given=2),
        span("3", "b", agent="y"),
        span("4", "a", agent="y"),
    ]
    assert column(records(*rows, **SPANS), "agent", "tool") == [
        ("x", "b"),
        ("x", "a"),
        ("y", "a"),
        ("y", "b"),
    ]
