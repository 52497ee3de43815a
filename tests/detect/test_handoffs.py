"""Each state of a handoff, and for each the one field that moves it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from agentlens.detect.handoff_limits import HandoffLimits
from agentlens.detect.handoffs import handoffs
from agentlens.detect.operations import operations
from agentlens.detect.receipts_auth import AuthorKeys, authors, verify_macs
from agentlens.errors import InputError, SettingsError
from agentlens.model.handoff import HANDOFFS, OPERATIONS
from agentlens.model.raw import RawReceipt
from agentlens.model.receipt import RECEIPTS, receipts_frame
from agentlens.receipts import sign

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def r(event, at, author=None, **more):
    """One receipt of the one handoff, by the giver or the worker as the event suggests."""
    giver = event in {"delegated", "cancelled"}
    return {
        "operation_id": "op",
        "handoff_id": "op/1",
        "event": event,
        "at": at,
        "author": author or ("lead" if giver else "worker"),
        "expected_artifact": "brief",
        **({"recipient": "worker"} if event == "delegated" else {}),
        **more,
    }


def typed(receipts):
    found = receipts_frame(
        [RawReceipt(fields=one, position=(at, 0)) for at, one in enumerate(receipts, 1)], source="r"
    )
    assert found.faults == []
    return found.frame.lazy()


def judged(receipts, as_of=None, limits=None, keys=None):
    moment = None if as_of is None else EPOCH + timedelta(seconds=as_of)
    return handoffs(typed(receipts), limits or HandoffLimits(), as_of=moment, keys=keys).collect()


def state(receipts, as_of=None, **limits):
    row = judged(receipts, as_of, HandoffLimits(**limits)).row(0, named=True)
    return row["state"], row["reason"]


D, A = r("delegated", 0), r("accepted", 10)
DONE, PASSED = r("completed", 100), r("outcome_verified", 110, "checker", outcome="passed")
FAILED, UNCLEAR = {**PASSED, "outcome": "failed"}, {**PASSED, "outcome": "unknown"}
WAIT = r("waiting", 50, owner="editor", deadline=500)


@pytest.mark.parametrize(
    ("receipts", "as_of", "expected"),
    [
        # verified, and the fields that take it away
        ([D, A, DONE, PASSED], None, ("verified", None)),
        ([D, A, DONE, FAILED], None, ("failed_outcome", "verification_failed")),
        ([D, A, DONE, UNCLEAR], None, ("uncertain", "verification_unknown")),
        ([D, A, DONE, PASSED], 105, ("failed_outcome", "never_verified")),
        ([D, A, DONE, FAILED, {**PASSED, "at": 111}], None, ("verified", None)),
        ([D, A, DONE, PASSED, {**FAILED, "at": 111}], None, ("failed_outcome", "verification_failed")),
        ([D, A, DONE, PASSED, FAILED], None, ("uncertain", None)),
        ([D, A, DONE, PASSED, r("cancelled", 120)], None, ("verified", None)),
        # a claim alone is never a result
        ([D, A, DONE], None, ("failed_outcome", "never_verified")),
        ([D, A], 100, ("working", None)),
        # ends by agreement
        ([D, r("rejected", 5)], None, ("rejected", None)),
        ([D, A, r("cancelled", 50)], None, ("cancelled", None)),
        ([D, A, r("cancelled", 50), r("progress", 60)], None, ("working", None)),
        ([D, A, DONE, r("cancelled", 100)], None, ("cancelled", None)),
        # waiting, while it is honoured
        ([D, A, WAIT], 499, ("waiting", None)),
        ([D, A, WAIT], 500, ("working", None)),
        ([D, A, {**WAIT, "owner": None}], 499, ("working", None)),
        ([D, A, {**WAIT, "owner": None, "reason": "approval"}], 499, ("waiting", None)),
        ([D, A, {**WAIT, "deadline": None}], 499, ("waiting", "no_deadline")),
        ([D, A, {**WAIT, "deadline": None}], 49 + 86_400, ("waiting", "no_deadline")),
        ([D, A, {**WAIT, "deadline": None}], 50 + 86_400, ("working", None)),
        ([D, A, {**WAIT, "deadline": None}], 951 + 86_400, ("stuck", None)),
        ([D, A, WAIT, r("progress", 60)], 499, ("working", None)),
        # orphaned from the first moment after the limit on
        ([D], 120, ("delegated", None)),
        ([D], 121, ("orphaned", None)),
        ([D, r("delegated", 100)], 121, ("orphaned", None)),
        ([D, A], 121, ("working", None)),
        ([D, r("progress", 60)], 121, ("working", None)),
        ([D, r("progress", 60, "stranger")], 121, ("orphaned", None)),
        ([{**D, "recipient": None}, r("progress", 60, "stranger")], 121, ("working", None)),
        ([{**D, "recipient": None}, r("progress", 60, "lead")], 121, ("orphaned", None)),
        # stuck when the newest sign of work is older than the window
        ([D, A], 910, ("working", None)),
        ([D, A], 911, ("stuck", None)),
        ([D, A, r("progress", 300)], 1200, ("working", None)),
        ([D, A, r("progress", 300)], 1201, ("stuck", None)),
        ([D, A, WAIT], 1400, ("working", None)),
        ([D, A, WAIT], 1401, ("stuck", None)),
        ([D, A, {**WAIT, "owner": None}], 1400, ("stuck", None)),
        ([D, A, WAIT, r("cancelled", 60), D], 961, ("cancelled", None)),
        # receipts that disagree
        ([A], None, ("uncertain", None)),
        ([D, A, r("accepted", 12, "other")], None, ("uncertain", None)),
        ([D, {**A, "author": "other"}], None, ("uncertain", None)),
        ([{**D, "recipient": None}, {**A, "author": "other"}], None, ("working", None)),
        ([D, {**A, "expected_artifact": "poem"}], None, ("uncertain", None)),
        ([D, {**A, "expected_artifact": None}], None, ("working", None)),
        ([D, {**A, "event": "approved"}], None, ("uncertain", None)),
        ([{**D, "at": 20}, {**A, "at": 15}], None, ("working", None)),
        ([{**D, "at": 20}, {**A, "at": 14.999999}], None, ("uncertain", None)),
        ([D, A, r("progress", 4)], None, ("uncertain", None)),
        ([D, A, DONE, {**PASSED, "at": 94}], None, ("uncertain", None)),
        ([D, A, DONE, {**PASSED, "at": 95}], None, ("verified", None)),
    ],
)
def test_state_of_one_handoff(receipts, as_of, expected):
    """Every rule, and its neighbours that differ in one field."""
    assert state(receipts, as_of) == expected


def test_a_wait_at_the_end_of_the_calendar_ends_with_it():
    """The limit of a wait without a deadline may lie past the last date there is; what is shown does not."""
    late = 253_402_300_000
    row = judged([{**D, "at": late}, {**A, "at": late}, {**WAIT, "at": late, "deadline": None}])
    assert row.select("state", "reason").row(0) == ("waiting", "no_deadline")
    assert row["wait_until"].item().isoformat() == "9999-12-31T23:59:59.999999+00:00"


def test_limits_move_the_border():
    """Each limit shifts its own border, to the microsecond, and no other."""
    assert state([D], 31, ack_limit_s=30) == ("orphaned", None)
    assert state([D], 30, ack_limit_s=30) == ("delegated", None)
    assert state([{**D, "urgency": "page"}], 31, ack_limits={"page": 30}) == ("orphaned", None)
    assert state([{**D, "urgency": "batch"}], 31, ack_limits={"page": 30}) == ("delegated", None)
    assert state([D, A], 61, evidence_window_s=50) == ("stuck", None)
    assert state([D, A, DONE], 129.9, verification_limit_s=30) == ("working", None)
    assert state([D, A, DONE], 130, verification_limit_s=30) == ("failed_outcome", "never_verified")
    assert state([{**D, "at": 20}, {**A, "at": 14}], None, clock_skew_s=6) == ("working", None)
    assert state([D, A, {**WAIT, "deadline": None}], 100, wait_limit_s=50) == ("working", None)


def test_a_handoff_without_a_receipt_yet_is_left_out():
    """Receipts after the moment do not exist yet."""
    assert judged([{**D, "at": 10}], as_of=9).height == 0


def test_acknowledgement_and_outcome_are_told_apart():
    """A late acknowledgement stays late when the result is verified."""
    row = judged([D, {**A, "at": 130}, {**DONE, "at": 140}, {**PASSED, "at": 150}]).row(0, named=True)
    assert (row["state"], row["late_ack"], row["ack_latency_us"]) == ("verified", True, 130_000_000)
    row = judged([D, A]).row(0, named=True)
    assert (row["late_ack"], row["implied_ack"], row["clock_skew"]) == (False, False, False)
    row = judged([D, r("progress", 40)]).row(0, named=True)
    assert (row["ack_latency_us"], row["implied_ack"]) == (40_000_000, True)
    row = judged([D]).row(0, named=True)
    assert (row["ack_latency_us"], row["late_ack"], row["accepted"]) == (None, None, False)


def test_clock_skew_inside_the_tolerance_is_shown():
    """An acceptance three seconds before the delegation is negative latency and marked."""
    row = judged([{**D, "at": 20}, {**A, "at": 17}]).row(0, named=True)
    assert (row["state"], row["clock_skew"], row["ack_latency_us"]) == ("working", True, -3_000_000)


def test_disagreements_are_named():
    """The column says in which ways the receipts disagree."""
    row = judged([D, A, r("accepted", 12, "other"), {**DONE, "expected_artifact": "poem"}]).row(0, named=True)
    assert row["disagreement"] == "two_acceptors,other_acceptor,artifact_changed"


def test_urgency_is_that_of_the_first_delegation():
    """A second delegation of the same handoff does not change the limit that runs."""
    row = judged([{**D, "urgency": "page"}, {**D, "at": 50, "urgency": "batch"}]).row(0, named=True)
    assert row["urgency"] == "page"
    row = judged([{**D, "urgency": "page", "at": 60}, {**D, "at": 50, "urgency": "batch"}]).row(0, named=True)
    assert row["urgency"] == "batch"


def test_operation_has_the_state_of_the_handoff_delegated_last():
    """A late receipt of an old attempt does not make that attempt the newest."""
    second = [{**D, "handoff_id": "op/2", "at": 200}, {**A, "handoff_id": "op/2", "at": 210}]
    late = r("progress", 300)
    told = judged([D, late, *second])
    rolled = operations(told.lazy()).collect()
    assert rolled.select("handoff_id", "state", "attempts", "accepted_attempts").row(0) == (
        "op/2",
        "working",
        2,
        2,
    )
    assert rolled.schema == OPERATIONS


def test_outputs_have_their_schema_and_order():
    """Columns, types and order are those documented, for no rows too."""
    told = judged([{**D, "operation_id": "b"}, {**D, "operation_id": "a"}])
    assert told.schema == HANDOFFS
    assert told["operation_id"].to_list() == ["a", "b"]
    none = handoffs(pl.LazyFrame(schema=RECEIPTS)).collect()
    assert (none.height, none.schema) == (0, HANDOFFS)
    assert operations(none.lazy()).collect().schema == OPERATIONS


@pytest.mark.parametrize(
    ("receipts", "as_of", "limits", "expected"),
    [
        ([D], 200, {}, ("ask_retry_limit", "lead", 1, 120_000_000)),
        ([D], 200, {"retry_limit": 3}, ("redeliver_if_idempotent", "lead", 2, 120_000_000)),
        ([D], 200, {"retry_limit": 1}, ("stop_redelivery", "lead", 0, 120_000_000)),
        ([D, A, WAIT], 100, {"retry_limit": 3}, ("route_request", "editor", 0, 400_000_000)),
        ([D, A], 2000, {}, ("recover_once", "lead", 1, 900_000_000)),
        ([D, A, DONE], None, {}, ("run_verifier", "lead", 1, 900_000_000)),
        ([D, A, DONE, FAILED], None, {}, ("ask_for_artifact", "lead", 1, 900_000_000)),
        ([A], None, {}, ("ask_first", "operator", 1, 900_000_000)),
        ([D, A], None, {}, (None, None, None, None)),
    ],
)
def test_suggestions_are_bounded(receipts, as_of, limits, expected):
    """Each suggestion names authority, attempts and time, and none is given where nothing is wrong."""
    row = judged(receipts, as_of, HandoffLimits(**limits)).row(0, named=True)
    assert (row["suggestion"], row["authority"], row["attempt_limit"], row["time_limit_us"]) == expected
    assert (row["success_evidence"] is None) == (expected[0] is None)


KEYS = AuthorKeys({"lead": b"one", "worker": b"two"})


def signed(receipt, key):
    return {**receipt, "mac": sign(receipt, key)}


@pytest.mark.parametrize(
    ("receipts", "failing"),
    [
        ([signed(D, b"one"), signed(A, b"two")], None),
        ([signed(D, b"one"), signed(A, b"one")], ["r:2"]),
        ([signed(D, b"one"), A], ["r:2"]),
        ([{**signed(D, b"one"), "recipient": "other"}], ["r:1"]),
        ([{**signed(D, b"one"), "handoff_id": "op/2"}], ["r:1"]),
        ([{**signed(D, b"one"), "at": 0.5}], ["r:1"]),
        ([{**D, "mac": "not hex"}], ["r:1"]),
        ([signed(D, b"one"), {**A, "author": "stranger", "mac": "00"}, {**PASSED, "at": 20}], None),
    ],
)
def test_authentication(receipts, failing):
    """Forged, altered, replayed and unsigned receipts of authors with a key are named; others are accepted."""
    row = judged(receipts, keys=KEYS).row(0, named=True)
    assert row["failing_receipts"] == failing
    assert ("author_not_authentic" in (row["disagreement"] or "")) == (failing is not None)
    assert (row["state"] == "uncertain") or failing is None


@pytest.mark.parametrize(
    ("receipt", "as_written", "stored"),
    [
        (signed(D, b"one"), "valid", "valid"),
        (signed({**D, "note": "x"}, b"one"), "valid", "forged"),
        ({**signed(D, b"one"), "note": "x"}, "forged", "forged"),
        ({**signed(D, b"one"), "note": None}, "forged", "forged"),
        ({**signed({**D, "note": "x"}, b"one"), "note": "y"}, "forged", "forged"),
    ],
)
def test_a_signature_is_over_the_record_as_written(receipt, as_written, stored):
    """A field added after signing is noticed; where its text may not be kept, no signature over it is proof."""
    raw = [RawReceipt(fields=receipt, position=(1, 0))]
    for whole, expected in ((True, as_written), (False, stored)):
        frame = receipts_frame(raw, source="r", as_written=whole).frame
        assert verify_macs(frame.lazy(), KEYS).collect()["auth"].item() == expected


def test_macs_are_ignored_without_keys_and_case_does_not_matter():
    """Without keys nothing is authenticated; a mac in capitals is the same mac."""
    forged = {**D, "mac": "00"}
    assert judged([forged]).row(0, named=True)["state"] == "delegated"
    loud = signed(D, b"one")
    assert (
        judged([{**loud, "mac": loud["mac"].upper()}], keys=KEYS).row(0, named=True)["state"] == "delegated"
    )


def test_authors_are_counted_over_distinct_receipts():
    """A repeated receipt is counted once, whatever line it stands on."""
    receipts = [signed(D, b"one"), signed(D, b"one"), A, {**PASSED, "mac": None}]
    counted = authors(typed(receipts), KEYS).collect()
    assert counted.rows() == [("checker", 0, 0, 1, 0), ("lead", 1, 0, 0, 0), ("worker", 0, 1, 0, 0)]


def test_key_files(tmp_path):
    """TOML and JSON, plain and hexadecimal keys; keys are not shown; bad files say what is accepted."""
    path = tmp_path / "keys"
    path.write_text('[keys]\nlead = "secret"\nworker = "hex:00ff"\n')
    keys = AuthorKeys.load(path)
    assert keys.keys == {"lead": b"secret", "worker": b"\x00\xff"}
    assert "secret" not in repr(keys)
    path.write_text('{"lead": "secret"}')
    assert AuthorKeys.load(path).keys == {"lead": b"secret"}
    for bad in (
        "",
        "lead = 1",
        'lead = "hex:xyz"',
        'lead = "hex:"',
        'lead = "hex: "',
        "lead",
        'lead = ""',
        "[1]",
    ):
        path.write_text(bad)
        with pytest.raises(InputError, match="accepted: "):
            AuthorKeys.load(path)


def test_limits_are_checked_and_loaded(tmp_path):
    """Limits are refused when they make no sense, and a file with an unknown setting names the nearest."""
    for wrong in (
        {"ack_limit_s": -1},
        {"clock_skew_s": float("nan")},
        {"ack_limits": {"page": "x"}},
        {"retry_limit": 0},
    ):
        with pytest.raises(SettingsError, match="is not allowed"):
            HandoffLimits(**wrong)
    path = tmp_path / "limits.toml"
    path.write_text("[handoffs]\nack_limit_s = 30\nack_limits = { page = 5 }\n")
    limits = HandoffLimits.load(path)
    assert (limits.ack_limit_s, limits.ack_limits) == (30, {"page": 5})
    assert (
        limits.digest
        == HandoffLimits(ack_limit_s=30, ack_limits={"page": 5}).digest
        != HandoffLimits().digest
    )
    path.write_text("[handoffs]\nack_limits_s = 30\n")
    with pytest.raises(SettingsError, match="did you mean 'ack_limit"):
        HandoffLimits.load(path)
    path.write_text("x = 1\n")
    with pytest.raises(SettingsError, match=r"\[handoffs\]"):
        HandoffLimits.load(path)
    with pytest.raises(InputError):
        HandoffLimits.load(tmp_path / "none.toml")


def test_reference_cases(shared):
    """The reference receipts get exactly their states and reasons."""
    lines = (shared / "cases" / "receipts.ndjson").read_text().splitlines()
    expected = [
        json.loads(line) for line in (shared / "cases" / "receipts.expected.ndjson").read_text().splitlines()
    ]
    moment = datetime.fromisoformat(expected[0]["as_of"])
    told = handoffs(typed(map(json.loads, lines)), as_of=moment).collect()
    assert told.select("handoff_id", "state", "reason").rows() == [
        (row["handoff_id"], row["state"], row["reason"]) for row in expected
    ]


def test_any_question_may_be_asked_of_the_result():
    """Selecting, filtering, joining and counting on top of the judgement gives what the whole table says."""
    lazy = handoffs(typed([D, A, DONE, r("delegated", 5, handoff_id="op/2")]))
    whole = lazy.collect()
    assert lazy.select("state").collect().equals(whole.select("state"))
    assert lazy.select(pl.len()).collect().item() == whole.height
    failed = pl.col("state") == "failed_outcome"
    assert lazy.filter(failed).select("handoff_id", "reason").collect().rows() == [("op/1", "never_verified")]
    assert lazy.join(lazy, on=["operation_id", "handoff_id"]).collect().height == whole.height
    assert pl.concat([lazy, lazy]).collect(engine="in-memory").height == 2 * whole.height
