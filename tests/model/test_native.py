"""Native receipts and branches become typed rows, or are set aside with a reason."""

from __future__ import annotations

import pytest

from agentlens.model.branch import BRANCHES, branches_frame
from agentlens.model.native import FIRST_US, LAST_US, WrongValueError, moment
from agentlens.model.raw import RawBranch, RawReceipt
from agentlens.model.receipt import RECEIPTS, receipts_frame

RECEIPT = {
    "operation_id": "op",
    "handoff_id": "op/1",
    "event": "delegated",
    "at": "2026-01-01T00:00:00Z",
    "author": "lead",
    "expected_artifact": "brief",
}
BRANCH = {"branch_id": "b", "parent_id": "run"}


def receipts(*rows):
    return receipts_frame(
        [RawReceipt(fields=row, position=(at, 0)) for at, row in enumerate(rows, 1)], source="s"
    )


def branches(*rows):
    return branches_frame(
        [RawBranch(fields=row, position=(at, 0)) for at, row in enumerate(rows, 1)], source="s"
    )


@pytest.mark.parametrize(
    ("value", "micros"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01t00:00:00.123456789z", 123_456),
        ("1969-12-31T23:59:59.5Z", -500_000),
        ("1970-01-01 00:00:00+0000", 0),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000_000),
        (0, 0),
        ("0001-01-01T00:00:00Z", FIRST_US),
        (-62_135_596_800, FIRST_US),
        ("9999-12-31T23:59:59.999999Z", LAST_US),
        (1_767_225_600.123456, 1_767_225_600_123_456),
        (None, None),
    ],
)
def test_times_are_exact_microseconds(value, micros):
    """RFC 3339 in its spellings and epoch seconds, to the microsecond."""
    assert moment(value, "at") == micros


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-01T00:00:00",
        "2026-01-01",
        "2026-02-30T00:00:00Z",
        "now",
        "",
        True,
        [],
        float("nan"),
        float("inf"),
        1_767_225_600_000,
        -1e11,
        -62_135_596_801,
        253_402_300_800,
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
    ],
)
def test_what_is_no_time_is_refused(value):
    """A time without zone, a day that does not exist or has no date in UTC, milliseconds: none is guessed at."""
    with pytest.raises(WrongValueError, match=r"^at: "):
        moment(value, "at")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"operation_id": None}, "operation_id: missing"),
        ({"handoff_id": ""}, "handoff_id: empty"),
        ({"author": 7}, "author: expected text, found a number"),
        ({"at": None}, "at: missing"),
        ({"event": ["x"]}, "event: expected text, found a list"),
        ({"deadline": "soon"}, "deadline: expected RFC 3339 time with a zone, or epoch seconds, found text"),
        ({"owner": {}}, "owner: expected text, found an object"),
    ],
)
def test_a_bad_receipt_is_set_aside_and_the_rest_goes_on(change, reason):
    """The fault has line and reason; the values are not repeated; good records stay."""
    typed = receipts(RECEIPT, {**RECEIPT, **change}, RECEIPT)
    assert typed.faults == [(2, reason)]
    assert typed.frame["source"].to_list() == ["s:1", "s:3"]
    assert typed.frame.schema == RECEIPTS


def test_unknown_fields_are_dropped_and_counted():
    """What is not in the contract never reaches the table; its name and count do."""
    typed = receipts({**RECEIPT, "prompt": "text"}, {**RECEIPT, "prompt": "more", "x": 1})
    assert dict(typed.unknown) == {"prompt": 2, "x": 1}
    assert typed.frame.columns == RECEIPTS.names()
    told = receipts({**RECEIPT, "mac": "00"}, {**RECEIPT, "mac": "00", "prompt": "text"})
    assert told.frame["signed"].is_null().to_list() == [False, True]
    typed = branches(
        {**BRANCH, "note": 1, "config": {"pinned": True, "secret": "s"}, "state": [{"key": "k", "old": 1}]}
    )
    assert dict(typed.unknown) == {"note": 1, "config.secret": 1, "state[].old": 1}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("/home/me/brief.md", "a path"),
        ("C:\\brief", "a path"),
        ("https://example.org/x", "an address"),
        ("me@example.org", "an address"),
        ("10.0.0.1:80", "an address"),
        ("sk-" + "a" * 20, "a secret"),
        ("ghp_" + "a" * 36, "a secret"),
    ],
)
def test_identifiers_that_look_like_content_are_warned_about(value, kind):
    """Paths, addresses and secrets are counted by field; the record is kept."""
    typed = receipts({**RECEIPT, "expected_artifact": value})
    assert dict(typed.warned) == {f"expected_artifact: looks like {kind}": 1}
    assert typed.frame.height == 1


def test_plain_identifiers_are_not_warned_about():
    """Opaque ids, file names and digests pass in silence."""
    for value in ("op-7/h1", "brief.md", "a" * 64, "sha256:00", "v1.2.3"):
        assert not receipts({**RECEIPT, "expected_artifact": value}).warned


def test_an_outcome_outside_the_vocabulary_is_unknown():
    """It is evidence of something, but not of what."""
    typed = receipts({**RECEIPT, "event": "outcome_verified", "outcome": "great"})
    assert typed.frame["outcome"].to_list() == ["unknown"]
    assert sum(typed.warned.values()) == 1


def test_lone_surrogates_do_not_cost_a_record():
    """Text no file can hold is mended, not refused."""
    assert receipts({**RECEIPT, "owner": "a\ud800"}).frame["owner"].to_list() == ["a\ufffd"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"branch_id": None}, "branch_id: missing"),
        ({"local": "yes"}, "local: expected true or false, found text"),
        ({"state": {}}, "state: expected a list of objects, found an object"),
        ({"state": [1]}, "state[0]: expected an object, found a number"),
        ({"state": [{"key": 1}]}, "state[0].key: expected text, found a number"),
        ({"required_state": [None]}, "required_state[0]: missing"),
        ({"config": []}, "config: expected an object, found a list"),
        ({"config": {"delta": "x"}}, "config.delta: expected a list of texts, found text"),
        ({"outcome": {"verified": 1}}, "outcome.verified: expected true or false, found a number"),
        ({"at": "x"}, "at: expected RFC 3339 time with a zone, or epoch seconds, found text"),
    ],
)
def test_a_bad_branch_is_set_aside(change, reason):
    """Types are checked inside lists and objects too, and the reason says where."""
    typed = branches({**BRANCH, **change}, BRANCH)
    assert typed.faults == [(1, reason)]
    assert typed.frame.height == 1
    assert typed.frame.schema == BRANCHES


def test_missing_fields_of_a_branch_are_null_and_empty_ones_are_not():
    """An empty list of effects is a statement, a missing one is not."""
    row = branches(BRANCH).frame.row(0, named=True)
    assert (row["effects"], row["config"], row["authority"], row["outcome"]) == (None, None, None, None)
    row = branches({**BRANCH, "effects": [], "config": {}}).frame.row(0, named=True)
    assert row["effects"] == []
    assert row["config"] == {"parent_digest": None, "branch_digest": None, "pinned": None, "delta": None}


def test_values_outside_a_vocabulary_are_not_known():
    """A result, status or edit class nobody defined is null and warned about."""
    typed = branches(
        {
            **BRANCH,
            "edit_class": "x",
            "state": [{"key": "k", "result": "ok"}],
            "effects": [{"status": "done"}],
        }
    )
    row = typed.frame.row(0, named=True)
    assert (row["edit_class"], row["state"][0]["result"], row["effects"][0]["status"]) == (None, None, None)
    assert sum(typed.warned.values()) == 3
