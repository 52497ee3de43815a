"""Handoffs told twice count once, and a queue's consumer tells of delivery."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.detect.handoffs import handoffs
from agentlens.detect.inferred import inferred_receipts
from tests.detect.test_inferred import hand, rules, span, told, trace

TOOL = hand(0, "writer", span_id="s1", trace_id="r", ended_at=40, open=False)


def caller(second, to="writer", parent="s1", **more):
    """The caller's side of an agent: it stands in the lane around it, with its own span as the call."""
    return hand(second, to, "s2", parent_span_id=parent, trace_id="r", ended_at=30, open=False, **more)


def test_a_tool_and_the_callers_span_below_it_are_one_handoff():
    """Tool, caller's span, agent's own span: one handoff, taken by the agent below."""
    events = trace(TOOL, caller(1), span(2, "writer", 29, parent_span_id="s2", span_id="s3"))
    assert told(events) == {
        "r/lead/0": [("delegated", 0, "lead"), ("accepted", 2, "writer"), ("completed", 29, "writer")]
    }
    assert rules(events) == {"r/lead/0": "span.child"}


def test_a_tool_that_names_nobody_has_the_addressee_of_the_callers_span():
    """``transfer_to_agent`` without a readable argument is known by what stands below it."""
    receipts = inferred_receipts(trace({**TOOL, "target": None}, caller(1))).collect()
    assert receipts.select("event", "recipient").rows() == [("delegated", "writer")]


def test_what_the_caller_saw_fail_failed():
    """The failure is told by the inner span, the tool's ended well."""
    events = trace(TOOL, caller(1, error_class="timeout"))
    assert [event for event, _, _ in told(events)["r/lead/0"]] == ["delegated", "rejected"]


@pytest.mark.parametrize("other", [caller(1, to="editor"), caller(1, parent="s9"), caller(1, parent=None)])
def test_another_addressee_or_place_is_another_handoff(other):
    """Only the caller's span directly below, to the same addressee, is the same act."""
    assert len(told(trace(TOOL, other))) == 2


def beside(second, to="writer", own="s1"):
    """The tool that hands over, below the turn ``t``."""
    return hand(second, to, own, span_id=own, parent_span_id="t", trace_id="r", ended_at=second, open=False)


def test_a_callers_span_beside_the_tool_is_the_same_handoff():
    """Tool and caller's span stand below one turn: one handoff, taken by the agent below the caller's span."""
    own = span(3, "writer", 29, parent_span_id="s2", span_id="s3")
    events = trace(beside(0), caller(1, parent="t"), own)
    assert [row[0] for row in told(events)["r/lead/0"]] == ["delegated", "accepted", "completed"]
    assert (len(told(events)), rules(events)) == (1, {"r/lead/0": "span.child"})


def test_each_callers_span_belongs_to_one_tool():
    """Two handoffs and two callers are two; a caller that began before the tool, or to another, is one more."""
    twice = [
        beside(0),
        beside(1, own="s4"),
        caller(2, parent="t"),
        {**caller(3, parent="t"), "call_id": "s5"},
    ]
    for order in (twice, twice[::-1]):
        assert len(told(trace(*order))) == 2
    assert len(told(trace(beside(2), caller(1, parent="t")))) == 2
    assert len(told(trace(beside(0), caller(1, to="editor", parent="t")))) == 2
    assert len(told(trace(beside(0), caller(1, parent="t"), {**caller(2, parent="t"), "call_id": "s6"}))) == 2


def consumer(second, link="s1", **more):
    """A queue's consumer in a trace of its own."""
    given = {
        "run_id": "q",
        "agent": "worker",
        "kind": "accept",
        "span_id": "c1",
        "parent_run_id": "r",
        **more,
    }
    return {"trace_id": "q", "call_id": link, "at": second, **given}


def test_a_consumer_that_links_to_a_handoff_took_delivery():
    """Delivered and accepted when it was taken out of the queue; what came of it is not seen."""
    events = trace({**TOOL, "open": None, "ended_at": None}, consumer(7))
    assert told(events) == {"r/lead/0": [("delegated", 0, "lead"), ("accepted", 7, "writer")]}
    assert rules(events) == {"r/lead/0": "link.consumer"}
    (row,) = handoffs(inferred_receipts(events)).select("ack_latency_us", "inferred").collect().rows()
    assert row == (7_000_000, True)


def test_the_agent_below_a_consumer_took_the_handoff():
    """Its own start and end count, under the rule of links."""
    agent = span(8, "writer", 20, run_id="q", trace_id="q", parent_span_id="c1", span_id="a1")
    events = trace(TOOL, consumer(7), agent)
    assert told(events)["r/lead/0"][1:] == [("accepted", 8, "writer"), ("completed", 20, "writer")]
    assert set(rules(events).values()) == {"span.link"}


def test_a_link_to_the_producer_below_the_handoff_counts():
    """Messaging conventions link the consumer to the producer's span, which stands below what handed over."""
    producer = {"kind": "log", "at": 1, "span_id": "p1", "parent_span_id": "s1", "trace_id": "r"}
    events = trace({**TOOL, "open": None}, producer, consumer(9, link="p1"))
    assert told(events)["r/lead/0"][1] == ("accepted", 9, "writer")


def test_a_consumer_of_another_message_takes_nothing():
    """A link to a span of another trace, or to no handoff, is no acceptance."""
    events = trace({**TOOL, "open": None}, consumer(7, parent_run_id="other"), consumer(8, link="s7"))
    assert told(events) == {"r/lead/0": [("delegated", 0, "lead")]}


def test_of_several_deliveries_the_first_counts():
    """A queue may deliver twice; and neither order nor a second trace changes the answer."""
    twice = [consumer(9, run_id="q2", trace_id="q2"), consumer(7)]
    for order in (twice, twice[::-1]):
        assert told(trace({**TOOL, "open": None}, *order))["r/lead/0"][1] == ("accepted", 7, "writer")


def test_nothing_to_tell_is_no_receipt():
    """No handoff, no receipt, whatever consumers there are."""
    assert (
        inferred_receipts(trace(consumer(7)))
        .collect()
        .equals(inferred_receipts(trace(consumer(7)).filter(pl.lit(value=False))).collect())
    )
