"""Native NDJSON: every field as SPEC section 8 has it, and nothing lost in silence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.model.branch import branches_frame
from agentlens.model.raw import ABSENT, RawBranch, RawEvent, RawReceipt
from agentlens.model.receipt import receipts_frame
from tests.readers.reading import events, records, said

if TYPE_CHECKING:
    from pathlib import Path

EVENT = {"run_id": "r", "tool": "t", "args": {"a": 1}, "seq": 3}
RECEIPT = {"operation_id": "o", "handoff_id": "h", "event": "delegated", "at": 1, "author": "a"}
BRANCH = {"branch_id": "b", "parent_id": "p", "fork_point": "c"}


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def one(**more: Any) -> RawEvent:
    (event,) = events(lines({**EVENT, **more}))
    return event


def fault(**more: Any) -> str:
    found, report = records(lines({**EVENT, **more}, EVENT))
    assert len(found) == 1
    assert report.faults[0].position == 1
    return report.faults[0].reason


def test_events_receipts_and_branches_may_share_a_file() -> None:
    """Each line says what it is by its fields."""
    found, report = records(lines(EVENT, RECEIPT, BRANCH))
    assert [type(record) for record in found] == [RawEvent, RawReceipt, RawBranch]
    assert [record.position for record in found] == [(1, 0), (2, 0), (3, 0)]
    assert found[1].fields == RECEIPT
    assert report.records == 3


def test_an_array_of_records_is_read_too() -> None:
    """Whoever writes JSON by hand writes one document."""
    found, _ = records(json.dumps([EVENT, BRANCH], indent=1).encode())
    assert [type(record) for record in found] == [RawEvent, RawBranch]


def test_every_field_is_read() -> None:
    """As it stands, typed, with times in microseconds."""
    full = {
        "agent": "a",
        "at": "2026-10-05T08:00:00.25Z",
        "ended_at": 1791187201.5,
        "result": "x",
        "progress_fingerprint": "f",
        "milestone": "m",
        "error_class": "e",
        "attempt": 2,
        "retry_policy": {"errors": ["*"], "interval_s": 2, "max_attempts": 4, "backoff_rate": 2.0},
        "lease": {"owner": "me", "deadline": "2026-10-05T10:00:00+02:00"},
        "external_input": True,
        "reachable": False,
        "hard_failure": "permission_lost",
        "workflow": "w",
        "model": "g",
        "agent_version": "1",
        "tokens_in": 5,
        "tokens_out": 6.0,
        "cost_usd": 0.5,
        "trace_id": "tr",
        "span_id": "sp",
        "call_id": "ca",
    }
    told = said(one(**full))
    assert told == {
        **full,
        "run_id": "r",
        "kind": "tool",
        "tool": "t",
        "args": {"a": 1},
        "seq": 3,
        "has_fingerprint": True,
        "identity": "call:ca",
        "at": 1791187200250000,
        "ended_at": 1791187201500000,
        "retry_policy": {
            "errors": ["*"],
            "interval_s": 2.0,
            "max_attempts": 4,
            "backoff_rate": 2.0,
            "max_delay_s": None,
            "jitter": None,
        },
        "lease": {
            "owner": "me",
            "waits_on": None,
            "deadline": 1791187200000000,
            "renewals": None,
            "max_renewals": None,
        },
    }


def test_what_is_not_there_is_not_invented() -> None:
    """No time, no result; arguments of null are arguments that were not exported, {} is not."""
    assert one().at is None
    assert one().result is ABSENT
    assert one(args=None).args is ABSENT
    assert one(args={}).args == {}
    assert one(result="").result == ""
    assert one().reachable is None


def test_a_fingerprint_of_null_is_still_given() -> None:
    """The key decides for the whole run, not the value."""
    assert (one().has_fingerprint, one(progress_fingerprint=None).has_fingerprint) == (False, True)


@pytest.mark.parametrize(
    ("more", "identity"),
    [
        ({}, None),
        ({"call_id": "c"}, "call:c"),
        ({"span_id": "s"}, "span:s"),
        ({"call_id": "c", "span_id": "s"}, "call:c"),
    ],
)
def test_a_call_id_or_a_span_id_is_an_identity(more: dict[str, Any], identity: str | None) -> None:
    """Records of one call are merged; records without either never are."""
    assert one(**more).identity == identity


@pytest.mark.parametrize(
    "at", [1791187200, 1791187200.0, "2026-10-05T08:00:00Z", "2026-10-05t10:00:00.000+02:00"]
)
def test_one_instant_in_every_writing(at: Any) -> None:
    """RFC 3339 with any zone, or epoch seconds."""
    assert one(at=at).at == 1_791_187_200_000_000


def test_epoch_seconds_are_exact_to_the_microsecond() -> None:
    """A double holds them, so none may be lost in reading it."""
    assert one(at=1791187200.123457).at == 1_791_187_200_123_457


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"at": "yesterday"}, "at: expected RFC 3339"),
        ({"at": "2026-10-05T08:00:00"}, "at: expected RFC 3339 time with a zone"),
        ({"at": True}, "at: expected"),
        ({"at": 1791187200000}, "milliseconds"),
        ({"seq": "3"}, "seq: expected a whole number, found text"),
        ({"seq": 2**63}, "seq: expected"),
        ({"attempt": 0}, "attempt: expected a number from 1 on"),
        ({"tokens_in": -1}, "tokens_in: expected a count"),
        ({"cost_usd": "free"}, "cost_usd: expected a number"),
        ({"external_input": "yes"}, "external_input: expected true or false"),
        ({"hard_failure": "other"}, "outcome_failed, permission_lost"),
        ({"retry_policy": "3 times"}, "retry_policy: expected an object"),
        ({"retry_policy": {"errors": "*"}}, "retry_policy.errors: expected a list of texts"),
        ({"lease": {"deadline": "soon"}}, "lease.deadline: expected"),
        ({"agent": 4.0}, "agent: expected text"),
        ({"agent": True}, "agent: expected text"),
        ({"trace_id": 1.5}, "trace_id: expected text, found a number"),
        ({"span_id": {"a": 1}}, "span_id: expected text, found an object"),
        ({"call_id": False}, "call_id: expected text, found true or false"),
        ({"tool": ["t"]}, "tool: expected text"),
        ({"tool": None}, "tool: missing, and no action_signature"),
        ({"run_id": None}, "run_id: missing"),
        ({"run_id": ""}, "run_id: empty"),
        ({"kind": "thing"}, "kind: expected one of"),
    ],
)
def test_a_field_of_the_wrong_type_sets_the_record_aside(more: dict[str, Any], reason: str) -> None:
    """With line and reason, and the record behind it is read."""
    assert reason in fault(**more)


@pytest.mark.parametrize("row", [42, "text", [1], {}, {"a": 1}, None])
def test_what_is_no_record_is_set_aside(row: Any) -> None:
    """Bare values and foreign objects cost only themselves."""
    found, report = records(lines(EVENT, row, EVENT))
    assert (len(found), [fault.position for fault in report.faults]) == (2, [2])


def test_a_whole_number_as_run_id_is_its_text() -> None:
    """Task numbers are natural names; the repair is counted."""
    found, report = records(lines({**EVENT, "run_id": 17}))
    assert found[0].run_id == "17"
    assert report.repaired == {"run_id: number read as text": 1}


@pytest.mark.parametrize(
    "name",
    ["run_id", "agent", "trace_id", "span_id", "parent_span_id", "call_id", "instance", "session", "target",
     "parent_run_id", "parent_agent", "task_group"],
)  # fmt: skip
@pytest.mark.parametrize("number", [0, 7, 2**53 + 1, 2**64, 2**128 - 1])
def test_a_whole_number_as_a_name_is_its_digits(name: str, number: int) -> None:
    """Ids are numbers in some stores, of 128 bits too: none is rounded, none costs its record."""
    found, report = records(lines({**EVENT, name: number}))
    assert getattr(found[0], name) == str(number)
    assert report.repaired == {f"{name}: number read as text": 1}
    assert report.faults == []


def test_a_whole_number_names_the_owner_of_a_lease_a_receipt_and_a_branch() -> None:
    """The same holds inside a lease and for the other two native records."""
    assert one(lease={"owner": 2**64, "waits_on": 3}).lease["owner"] == str(2**64)  # type: ignore[index]
    found, _ = records(
        lines(
            {**RECEIPT, "operation_id": 2**64, "handoff_id": 5, "trace_id": 2**127},
            {**BRANCH, "branch_id": 9},
        )
    )
    receipts = receipts_frame([found[0]], source="s")  # type: ignore[list-item]
    assert receipts.frame.select("operation_id", "handoff_id", "trace_id").row(0) == (
        str(2**64),
        "5",
        str(2**127),
    )
    assert branches_frame([found[1]], source="s").frame["branch_id"].to_list() == ["9"]  # type: ignore[list-item]


def test_a_signature_stands_for_tool_and_arguments() -> None:
    """An exporter may digest at home."""
    (event,) = events(lines({"run_id": "r", "action_signature": "s"}))
    assert (event.action_signature, event.tool, event.args) == ("s", "", ABSENT)


def test_unknown_fields_are_counted_and_kept_aside() -> None:
    """In ``extra``, where only --keep-content looks."""
    found, report = records(lines({**EVENT, "note": "n"}, {**EVENT, "note": 1, "z": 2}))
    assert report.unknown == {"note": 2, "z": 1}
    assert [event.extra for event in found] == [{"note": "n"}, {"note": 1, "z": 2}]


def test_facts_that_are_no_tool_call_have_a_kind() -> None:
    """A message, a verdict and a handoff can be written natively."""
    found = events(
        lines(
            {"run_id": "r", "kind": "message", "external_input": True},
            {"run_id": "r", "kind": "verdict", "outcome": "passed", "target": "tests"},
            {"run_id": "r", "kind": "handoff", "tool": "handoff", "target": "B"},
        )
    )
    assert [(event.kind, event.outcome, event.target) for event in found] == [
        ("message", None, None),
        ("verdict", "passed", "tests"),
        ("handoff", None, "B"),
    ]


def test_the_reference_cases_are_read_whole(shared: Path) -> None:
    """157 events, 26 receipts and 9 branches, without a fault or an unknown field."""
    for name, count in {"events": 157, "receipts": 26, "branches": 9}.items():
        found, report = records(shared / f"cases/{name}.ndjson")
        assert (len(found), report.faults, report.unknown) == (count, [], {})


def test_what_speaks_of_a_call_is_no_part_of_it() -> None:
    """A wait for a call and the start of who was called name the call, and stay records of their own."""
    rows = [
        {"run_id": "r", "tool": "t", "call_id": "c"},
        {"run_id": "r", "kind": "wait", "target": "t", "call_id": "c"},
        {"run_id": "r", "kind": "handoff", "tool": "t", "call_id": "c"},
    ]
    found = events("\n".join(map(json.dumps, rows)).encode())
    assert [event.identity for event in found] == ["call:c", "wait:call:c", "call:c"]
