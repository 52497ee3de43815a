"""From raw events to rows of the record table."""

from __future__ import annotations

import pickle

import polars as pl
import pytest

from agentlens.model.event import CONTENT
from agentlens.model.raw import RawEvent
from agentlens.model.record import RECORDS
from agentlens.normalise import Key
from tests.normalise.norm import TABLES, frame, normaliser

FULL = RawEvent(
    run_id="r1",
    position=(12, 3),
    agent="coder",
    instance="i1",
    seq=4,
    at=1_700_000_000_000_001,
    ended_at=1_700_000_000_500_000,
    tool="Bash",
    args={"command": "rm -rf build"},
    result="",
    milestone="m1",
    error_class=" timeout ",
    attempt=2,
    retry_policy={"errors": ["*"], "interval_s": 1, "max_attempts": 3},
    lease={"owner": "ann", "deadline": 1_700_000_001_000_000, "renewals": 1},
    external_input=True,
    reachable=False,
    workflow="w",
    model="m",
    agent_version="2",
    tokens_in=10,
    tokens_out=20,
    cost_usd=0.25,
    trace_id="t",
    span_id="s",
    parent_span_id="p",
    call_id="c",
    session="z",
    identity="id",
    open=False,
    target="x",
    outcome="passed",
    parent_run_id="r0",
    parent_agent="lead",
    task_group="g",
    extra={"k": 1},
)


def test_schema_with_and_without_content():
    """Columns and types are those of the record table, also for no events at all."""
    for events in ((FULL,), ()):
        assert frame(*events).schema == RECORDS
        assert frame(*events, keep_content=True).schema == pl.Schema({**RECORDS, **CONTENT})


def test_every_fact_arrives():
    """What the reader said is in the row; times are microseconds, leases and policies typed."""
    (row,) = frame(FULL).to_dicts()
    assert (row["run_id"], row["agent"], row["instance"], row["seq_given"]) == ("r1", "coder", "i1", 4)
    assert row["at"].microsecond == 1
    assert row["lease"]["deadline"] > row["at"]
    assert row["retry_policy"]["errors"] == ["*"]
    assert (row["error_class"], row["attempt"], row["milestone"]) == ("timeout", 2, "m1")
    assert (row["change"], row["reset"], row["pause"], row["external"]) == (True, "rm_rf", False, False)
    assert (row["source"], row["position"], row["position_in"]) == ("log.jsonl:12.3", 12, 3)
    assert (row["source_id"], row["reader"], row["reader_rank"]) == ("sid", "native", 10)
    assert (row["cost_usd"], row["tokens_in"], row["tokens_out"]) == (0.25, 10, 20)
    assert (row["outcome"], row["target"], row["parent_run_id"], row["parent_agent"]) == (
        "passed",
        "x",
        "r0",
        "lead",
    )
    assert row["normaliser_version"] == f"n1-{TABLES.version}"
    assert row["observed_version"] == f"observed.1-{TABLES.version}"
    assert row["key_id"] == Key.public_demo().key_id


def test_no_content_without_asking():
    """No argument, result or secret is in any column."""
    secret = "sk-verysecret"
    rows = frame(
        {"tool": "Bash", "args": {"command": f"echo {secret}"}, "result": secret, "extra": {"k": secret}},
        {"tool": "web", "args": secret, "result": {"a": secret}},
    )
    assert secret not in str(rows.to_dicts())
    assert secret not in rows.write_json()


def test_content_when_asked():
    """Canonical arguments and results, and unknown fields, stand beside the digests."""
    (row,) = frame(
        {
            "tool": "Bash",
            "args": {"command": "ls|wc", "description": "x"},
            "result": "a\r\n",
            "extra": {"k": 1.0},
        },
        keep_content=True,
    ).to_dicts()
    assert (row["args_text"], row["result_text"], row["extra"]) == ('{"command":"ls | wc"}', "a", '{"k":1}')


def test_content_changes_no_digest():
    """Keeping content or not, digests are the same."""
    columns = ["action_signature", "observed_fingerprint"]
    assert frame(FULL).select(columns).equals(frame(FULL, keep_content=True).select(columns))


def test_kinds_that_are_no_actions():
    """Model calls have no signature and no facts of tools; a message with text has a signature for chat-only agents."""
    rows = frame(
        {"kind": "model", "tokens_in": 5},
        {"kind": "message", "args": "hello", "tool": "message"},
        {"kind": "handoff", "tool": "handoff", "args": {"to": "x"}},
        {"kind": "agent", "tool": "Write"},
    )
    assert [s is None for s in rows["action_signature"]] == [True, False, False, True]
    assert rows["change"].to_list() == [None] * 4


def test_given_signature_stands():
    """A signature that the record carries is not replaced."""
    rows = frame(
        {"tool": "a", "action_signature": "sig-1"}, {"tool": "a", "action_signature": "sig-2", "args": {}}
    )
    assert rows["action_signature"].to_list() == ["sig-1", "sig-2"]


def test_hard_failures():
    """The record's own stands, else error classes that the table names; a missing file permission is none."""
    rows = frame(
        {"tool": "a", "error_class": "permission_revoked"},
        {"tool": "a", "error_class": "permission_denied"},
        {"tool": "a", "error_class": "x", "hard_failure": "outcome_failed"},
    )
    assert rows["hard_failure"].to_list() == ["permission_lost", None, "outcome_failed"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tokens_in", "many"), ("tokens_in", 1.5), ("tokens_in", True), ("tokens_in", 2**70), ("at", "noon"),
        ("at", -(2**80)), ("cost_usd", "x"), ("cost_usd", 10**400), ("workflow", 5), ("workflow", ["a"]),
        ("lease", "x"), ("lease", {"owner": 3, "deadline": "soon"}), ("retry_policy", {"errors": "all", "jitter": "x"}),
        ("external_input", 1), ("open", "yes"), ("seq", "1"), ("agent", 7), ("trace_id", b"x"),
    ],
)  # fmt: skip
def test_wrong_types_become_null(name, value):
    """A value of a wrong type is null and its neighbours are untouched."""
    rows = frame({"tool": "a", name: value, "span_id": "s"}, {"tool": "b", "span_id": "t"})
    assert rows["span_id"].to_list() == ["s", "t"]
    column = {"seq": "seq_given"}.get(name, name)
    first = rows[column].to_list()[0]
    assert first is None or (isinstance(first, dict) and not any(v for v in first.values()))


def test_lone_surrogates_are_replaced():
    """Text that cannot be stored is stored with a replacement."""
    rows = frame({"tool": "a\ud83d", "workflow": "w\ud83d", "args": {"x": "\ud83d"}, "result": "\ud83d"})
    assert rows["workflow"].to_list() == ["w?"]
    assert rows["action_signature"].item() is not None


def test_same_input_same_rows_in_any_process():
    """A pickled normaliser gives the same bytes, and remembers nothing on the way."""
    made = normaliser()
    one = frame(FULL, made=made)
    assert made._calls
    copy = pickle.loads(pickle.dumps(made))
    assert not copy._calls
    assert frame(FULL, made=copy).equals(one)


def test_error_class_is_short():
    """A whole traceback as error class is cut to what names a class."""
    assert len(frame({"tool": "a", "error_class": "E" * 10_000})["error_class"].item()) == 128
    assert frame({"tool": "a", "error_class": " "})["error_class"].item() is None
