"""Receipts and branches out of traces: which rule found what, and what stays unknown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from agentlens.detect.handoffs import handoffs
from agentlens.detect.inferred import inferred_branches, inferred_receipts
from agentlens.detect.resets import resets
from agentlens.model.branch import BRANCHES
from agentlens.model.event import EVENTS
from agentlens.model.receipt import RECEIPTS

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(second):
    return None if second is None else START + timedelta(seconds=second)


def trace(*rows):
    """Events, numbered in their lane, times in seconds; the run is ``r`` unless told otherwise."""
    places: dict[tuple[str, str], int] = {}
    full = []
    for given in rows:
        row = {"run_id": "r", "agent": "lead", "kind": "tool", "tool": "", "source": "t", **given}
        lane = (row["run_id"], row["agent"])
        places[lane] = seq = places.get(lane, -1) + 1
        full.append({**row, "seq": seq, "at": at(row.get("at")), "ended_at": at(row.get("ended_at"))})
    return pl.DataFrame(full, schema=EVENTS).lazy()


def hand(second, to, call=None, **more):
    return {"kind": "handoff", "tool": "handoff", "at": second, "target": to, "call_id": call, **more}


def span(second, name, end=None, **more):
    return {
        "kind": "agent",
        "agent": name,
        "tool": name.split("#")[0],
        "at": second,
        "ended_at": end,
        "open": end is None,
        **more,
    }


def told(events):
    """Receipts per handoff as ``(event, second, author)`` and the rule."""
    rows = inferred_receipts(events).collect()
    assert rows.schema == RECEIPTS
    assert rows["inferred"].all()
    assert not rows["verifiable"].any()
    found: dict[str, list] = {}
    for row in rows.iter_rows(named=True):
        second = None if row["at"] is None else int((row["at"] - START).total_seconds())
        found.setdefault(row["operation_id"], []).append((row["event"], second, row["author"]))
    return found


def rules(events):
    return dict(
        inferred_receipts(events)
        .select("operation_id", "rule")
        .unique()
        .sort("operation_id")
        .collect()
        .iter_rows()
    )


def test_explicit_start_is_matched_by_call_id():
    """The start that carries the call's id accepts it, whatever it is called; its return is the completion."""
    events = trace(
        hand(0, "worker", "c1", open=False, ended_at=30),
        {"kind": "accept", "agent": "worker#2", "at": 5, "call_id": "c1"},
    )
    assert told(events) == {
        "r/lead/0": [("delegated", 0, "lead"), ("accepted", 5, "worker"), ("completed", 30, "worker")]
    }
    assert rules(events) == {"r/lead/0": "accept.call"}


def test_repeated_call_ids_are_matched_in_order():
    """Of two calls with one id, the first start belongs to the first."""
    events = trace(
        hand(0, "w", "c"),
        {"kind": "accept", "agent": "w", "at": 1, "call_id": "c"},
        hand(10, "w", "c"),
        {"kind": "accept", "agent": "w#2", "at": 12, "call_id": "c"},
    )
    starts = [
        receipt[1] for receipts in told(events).values() for receipt in receipts if receipt[0] == "accepted"
    ]
    assert starts == [1, 12]


def test_a_start_in_another_run_is_found_through_its_parent():
    """A child that runs under its own id names the parent run."""
    events = trace(
        hand(0, "w", "c"),
        {"kind": "accept", "run_id": "child", "agent": "", "at": 3, "call_id": "c", "parent_run_id": "r"},
        {"run_id": "child", "agent": "", "at": 9},
    )
    assert told(events)["r/lead/0"] == [("delegated", 0, "lead"), ("accepted", 3, "w"), ("progress", 9, "w")]


def test_a_call_that_only_launches_is_no_completion():
    """A background child whose call returns as it starts has not completed."""
    events = trace(
        hand(0, "w", "c", open=False, ended_at=2),
        {"kind": "accept", "agent": "w", "at": 2, "call_id": "c"},
        {"agent": "w", "at": 40},
    )
    assert told(events)["r/lead/0"] == [("delegated", 0, "lead"), ("accepted", 2, "w"), ("progress", 40, "w")]


def test_agent_span_below_the_handoff_is_the_child():
    """The span tree is an id: it wins over the order of names."""
    events = trace(
        hand(0, "w", span_id="s1"),
        hand(1, "w", span_id="s2"),
        span(3, "w", 9, parent_span_id="s2"),
        span(4, "w#2", 8, parent_span_id="s1"),
    )
    assert told(events)["r/lead/0"][1:] == [("accepted", 4, "w"), ("completed", 8, "w")]
    assert set(rules(events).values()) == {"span.child"}


@pytest.mark.parametrize(
    ("asked", "began", "accepted"),
    [
        ([0, 10], [2, 12], [2, 12]),
        ([0, 1], [2, 3], [2, 3]),
        ([0, 10], [12], [None, 12]),
        ([0, 1, 20], [2, 3], [2, 3, None]),
        ([5], [2], [None]),
    ],
)
def test_agent_spans_of_the_addressee_are_matched_in_order(asked, began, accepted):
    """One span answers one handoff: the oldest open one while enough are left, else the one asked last."""
    events = trace(
        *[hand(second, "w") for second in asked],
        *[span(second, f"w#{second}", second + 1) for second in began],
    )
    found = told(events)
    starts = [
        next((t for e, t, _ in found[f"r/lead/{n}"] if e == "accepted"), None) for n in range(len(asked))
    ]
    assert starts == accepted


def test_a_name_alone_is_no_match():
    """An agent of that name in another run, or one that began before, accepts nothing."""
    events = trace(hand(5, "w"), span(6, "w", 7, run_id="other"), span(1, "w", 2))
    assert [receipt[0] for receipt in told(events)["r/lead/0"]] == ["delegated"]


def test_a_handoff_that_does_not_say_to_whom_goes_to_the_next_other_agent():
    """Without addressee the next agent that begins took it, but never the giver."""
    events = trace(hand(0, None), span(1, "lead", 2), span(3, "w", 9), span(4, "v", 5))
    assert told(events)["r/lead/0"][1:] == [("accepted", 3, "w"), ("completed", 9, "w")]


def test_next_turn_of_the_addressee_before_the_giver_asks_again():
    """Without spans or ids, the addressee's next turn is the acceptance, unless the giver moved on first."""
    events = trace(hand(0, "w"), hand(10, "w"), {"agent": "w", "kind": "message", "at": 12})
    found = told(events)
    assert [e for e, _, _ in found["r/lead/0"]] == ["delegated"]
    assert found["r/lead/1"][1][:2] == ("accepted", 12)


def test_errors_reject_and_are_the_reason():
    """A call or child that fails ends as rejected with its error class, never as completed."""
    events = trace(
        hand(0, "w", "c", open=False, ended_at=4, error_class="permission_denied"),
        {"kind": "accept", "agent": "w", "at": 1, "call_id": "c"},
        hand(10, "v"),
        span(11, "v", 15, error_class="timeout"),
    )
    rows = inferred_receipts(events).filter(pl.col("event") == "rejected").collect()
    assert rows.select("author", "reason").rows() == [("w", "permission_denied"), ("v", "timeout")]
    assert handoffs(inferred_receipts(events)).collect()["state"].to_list() == ["rejected", "rejected"]


def test_waits_of_the_child_carry_owner_and_deadline():
    """A wait in the child's lane is a waiting receipt; who is waited for stands in for a missing owner."""
    lease = {"owner": "editor", "waits_on": "x", "deadline": at(500), "renewals": 0, "max_renewals": 3}
    events = trace(
        hand(0, "w", "c"),
        {"kind": "accept", "agent": "w", "at": 1, "call_id": "c"},
        {"kind": "wait", "agent": "w", "tool": "ask", "at": 5, "target": "user", "lease": lease},
        hand(6, "v", "d"),
        {"kind": "accept", "agent": "v", "at": 7, "call_id": "d"},
        {"kind": "approval", "agent": "v", "tool": "plan", "at": 9, "target": "user"},
    )
    rows = handoffs(inferred_receipts(events)).collect()
    assert rows.select("state", "reason", "wait_owner").rows() == [
        ("waiting", None, "editor"),
        ("waiting", "no_deadline", "user"),
    ]


def test_only_a_verdict_from_outside_verifies():
    """A verdict in the child's lane or below its span counts, one of the whole run does not."""
    start = {"kind": "accept", "agent": "w", "at": 1, "call_id": "c"}
    call = hand(0, "w", "c", open=False, ended_at=20)
    verdict = {"kind": "verdict", "outcome": "passed", "target": "tests", "at": 30}
    inside = handoffs(inferred_receipts(trace(call, start, {**verdict, "agent": "w"}))).collect()
    assert inside.select("state", "outcome").row(0) == ("verified", "passed")
    outside = handoffs(inferred_receipts(trace(call, start, verdict))).collect()
    assert outside.select("state", "reason").row(0) == ("uncertain", "verification_unavailable")
    below = trace(hand(0, "w"), span(1, "w", 5, span_id="s"), {**verdict, "agent": "", "parent_span_id": "s"})
    assert handoffs(inferred_receipts(below)).collect()["state"].item() == "verified"


def test_without_times_nothing_is_timed():
    """A trace without times tells who answered, never how late: uncertain, with the reason."""
    events = trace(
        hand(None, "w", "c1", open=False),
        {"kind": "accept", "agent": "w", "call_id": "c1"},
        hand(None, "w", "c2", open=True),
        hand(None, "w", "c3", open=True),
        {"kind": "accept", "agent": "w", "call_id": "c3"},
    )
    rows = handoffs(inferred_receipts(events)).collect()
    assert rows.select("state", "reason", "accepted", "completed", "ack_latency_us").rows() == [
        ("uncertain", "verification_unavailable", True, True, None),
        ("uncertain", "never_accepted", False, False, None),
        ("uncertain", "no_time", True, False, None),
    ]


def test_a_start_without_time_is_implied_by_a_timed_return():
    """Where only the return proves that the child ran, the completion stands in for the acceptance."""
    events = trace(
        hand(0, "w", "c", open=False, ended_at=60),
        {"kind": "accept", "agent": "w", "at": None, "call_id": "c"},
    )
    row = handoffs(inferred_receipts(events)).collect().row(0, named=True)
    assert (row["implied_ack"], row["ack_latency_us"], row["reason"]) == (
        True,
        60_000_000,
        "verification_unavailable",
    )


def test_unanswered_handoffs_of_a_timed_trace_are_orphaned():
    """With times, a delegation nobody took is orphaned once the limit has passed."""
    rows = handoffs(inferred_receipts(trace(hand(0, "w"), {"at": 200}, hand(300, "v")))).collect()
    assert rows["state"].to_list() == ["orphaned", "delegated"]


def test_forks_and_rewinds_are_branches_that_are_never_ready():
    """A fork of another run keeps its id, a rewind is named after its place; both stay restore_uncertain."""
    events = trace(
        {"run_id": "b", "kind": "fork", "target": "m7", "parent_run_id": "a", "reader": "claude_code"},
        {"run_id": "b", "kind": "claim", "target": "success"},
        {"kind": "fork", "target": "m3", "at": 3, "reader": "claude_code"},
        {"kind": "reset", "target": None, "reader": "gemini"},
    )
    found = inferred_branches(events).collect()
    assert found.schema == BRANCHES
    assert found.select("branch_id", "parent_id", "fork_point", "final_answer", "rule").rows() == [
        ("b", "a", "m7", True, "claude_code.fork"),
        ("r@lead/0", "r", "m3", None, "claude_code.fork"),
        ("r@lead/1", "r", None, None, "gemini.reset"),
    ]
    states = resets(found.lazy(), events=events).collect()
    assert states.select("state", "gate_2", "gate_4", "gate_5").rows() == [
        ("restore_uncertain", "unknown", "unknown", "unknown"),
        ("restore_uncertain", "unknown", "unknown", "unknown"),
        ("invalid_lineage", "unknown", "unknown", "unknown"),
    ]


def test_no_events_give_no_receipts():
    """Empty input has the full schema."""
    none = pl.LazyFrame(schema=EVENTS)
    assert inferred_receipts(none).collect().schema == RECEIPTS
    assert inferred_branches(none).collect().schema == BRANCHES


def test_an_agent_that_links_to_the_handoff_took_it():
    """A link names the span that asked, in whatever run the agent works; its end is the completion."""
    events = trace(
        hand(1, "writer", trace_id="t1", span_id="s2"),
        hand(2, "writer", trace_id="t1", span_id="s3"),
        span(5, "writer", 9, run_id="q", trace_id="t2", parent_run_id="t1", call_id="s2", span_id="s4"),
        {"run_id": "q", "agent": "writer", "at": 6},
    )
    assert told(events) == {
        "r/lead/0": [
            ("delegated", 1, "lead"),
            ("accepted", 5, "writer"),
            ("progress", 6, "writer"),
            ("completed", 9, "writer"),
        ],
        "r/lead/1": [("delegated", 2, "lead")],
    }
    assert rules(events) == {"r/lead/0": "span.link", "r/lead/1": "handoff"}


def test_the_callers_side_of_an_agent_is_matched_by_its_own_span():
    """The agent's own span stands right below the caller's, whose id the handoff keeps as its call."""
    events = trace(
        hand(1, "writer", "s2", ended_at=2, open=False, trace_id="t1", parent_span_id="s1"),
        span(3, "writer", 7, trace_id="t1", parent_span_id="s2", span_id="s3"),
    )
    (found,) = told(events).values()
    assert rules(events) == {"r/lead/0": "span.child"}
    assert [event for event, *_ in found] == ["delegated", "accepted", "completed"]
