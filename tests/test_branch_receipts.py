"""The writer of branch receipts: only the contract, readable back, judged as the page says."""

from __future__ import annotations

import json
import os

import polars as pl
import pytest

from agentlens import receipts
from agentlens.detect.resets import resets
from agentlens.model import branch as model
from agentlens.model.raw import RawBranch

ONE = {
    "branch_id": "run-1b",
    "parent_id": "run-1",
    "fork_point": "c1",
    "at": "2026-01-01T00:00:00Z",
    "required_state": ["memory"],
    "state": [{"key": "memory", "before": "d", "restored": "d", "result": "exact"}],
    "effects": [{"operation_id": "t", "kind": "ticket", "status": "reconciled", "decision_id": None}],
    "edit_class": "plan",
    "local": True,
    "authority": {"operator": "me"},
    "config": {"parent_digest": "c", "branch_digest": "c", "pinned": True, "delta": []},
}


def read(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    raw = [RawBranch(fields=json.loads(line), position=(at, 0)) for at, line in enumerate(lines, 1)]
    return model.branches_frame(raw, source="branches.ndjson")


def test_what_is_written_is_read_and_judged(tmp_path):
    """A receipt before and one after the resumption: no fault, no unknown field, and the newest stands."""
    path = tmp_path / "branches.ndjson"
    receipts.append_branch(path, **ONE)
    first = read(path)
    assert (first.faults, dict(first.unknown), dict(first.warned)) == ([], {}, {})
    assert resets(first.frame.lazy()).collect()["state"].to_list() == ["ready_to_resume"]
    ended = {"resumed": True, "final_answer": True, "outcome": {"receipt_id": "o", "verified": True}}
    receipts.append_branch(path, **{**ONE, "at": "2026-01-01T00:01:00Z"}, **ended)
    assert resets(read(path).frame.lazy()).collect()["state"].to_list() == ["verified"]


def test_contract_of_writer_and_reader_is_one():
    """Writer and reader know the same fields, members and words."""
    native = [name for name in model.BRANCHES if name not in ("inferred", "rule", "order", "source")]
    assert list(receipts.BRANCH_FIELDS) == native
    for name, shape in model.BRANCHES.items():
        inner = shape.inner if isinstance(shape, pl.List) else shape
        if isinstance(inner, pl.Struct):
            told = receipts.BRANCH_FIELDS[name]
            members = told[0] if isinstance(told, list) else told
            assert list(members) == [field.name for field in inner.fields]
    assert (receipts.RESULTS, receipts.STATUSES, receipts.EDIT_CLASSES) == (
        model.RESULTS,
        model.STATUSES,
        model.EDIT_CLASSES,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": "secret"}, "not in the contract: prompt"),
        ({"parent_id": None}, "missing: parent_id"),
        ({"edit_class": "small"}, "edit_class: 'small' is not one of none, detail"),
        ({"local": 1}, "local: expected true or false"),
        ({"state": [{"key": "k", "result": "ok"}]}, r"state\[0\].result: 'ok' is not one of exact"),
        ({"state": [{"key": "k", "value": "v"}]}, r"state\[0\]: not in the contract: value"),
        ({"effects": {"operation_id": "t"}}, "effects: expected a list"),
        ({"config": "c"}, "config: expected an object"),
        ({"fork_point": ""}, "fork_point: expected text"),
        ({"checkpoints": ["c", 3]}, r"checkpoints\[1\]: expected text"),
        ({"at": "yesterday"}, "at: expected an RFC 3339 time"),
    ],
)
def test_what_is_not_the_contract_is_refused(tmp_path, change, message):
    """One line says what is wrong, and nothing is written."""
    path = tmp_path / "branches.ndjson"
    with pytest.raises(ValueError, match=message):
        receipts.append_branch(path, **{**ONE, **change})
    assert not path.exists()


def test_a_field_of_none_is_not_written(tmp_path):
    """None at any depth is left out, and a new file is for its owner alone."""
    path = tmp_path / "branches.ndjson"
    told = receipts.append_branch(path, **{**ONE, "edit_class": None})
    assert "edit_class" not in told
    assert "decision_id" not in told["effects"][0]
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600
