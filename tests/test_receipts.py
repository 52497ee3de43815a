"""The receipt writer: only the contract, durable, readable back, signed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest

from agentlens import receipts
from agentlens.detect.handoffs import handoffs
from agentlens.detect.receipts_auth import AuthorKeys
from agentlens.model.raw import RawReceipt
from agentlens.model.receipt import FIELDS, OUTCOMES, ReceiptEvent, receipts_frame
from agentlens.model.receipt import canonical as model_canonical

ONE = {
    "operation_id": "op-1",
    "handoff_id": "op-1/1",
    "event": "delegated",
    "author": "lead",
    "recipient": "writer",
    "expected_artifact": "brief",
    "at": "2026-01-01T00:00:00Z",
}


def read(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    raw = [RawReceipt(fields=json.loads(line), position=(at, 0)) for at, line in enumerate(lines, 1)]
    return receipts_frame(raw, source="receipts.ndjson")


def test_what_is_written_is_what_is_read(tmp_path):
    """Each appended receipt is one line that the reader types without fault, unknown field or warning."""
    path = tmp_path / "receipts.ndjson"
    receipts.append(path, **ONE)
    receipts.append(path, **{**ONE, "event": "accepted", "author": "writer", "at": 1767225610})
    typed = read(path)
    assert typed.frame["event"].to_list() == ["delegated", "accepted"]
    assert (typed.faults, dict(typed.unknown), dict(typed.warned)) == ([], {}, {})
    assert typed.frame["at"].to_list()[1] == datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)


def test_contract_of_writer_and_reader_is_one():
    """Writer and reader know the same fields, events, outcomes and canonical form."""
    assert (*receipts.FIELDS, "mac") == FIELDS
    assert tuple(ReceiptEvent) == receipts.EVENTS
    assert set(receipts.OUTCOMES) == OUTCOMES
    odd = {**ONE, "reason": "naïve \u2028 ☃", "at": 1.25, "mac": "x"}
    assert receipts.canonical(odd).decode() == model_canonical(odd)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": "x"}, "not in the contract: prompt"),
        ({"mac": "00"}, "not in the contract: mac"),
        ({"author": None}, "missing: author"),
        ({"expected_artifact": None}, "missing: expected_artifact"),
        ({"event": "done"}, "event: 'done'"),
        ({"event": "outcome_verified"}, "outcome: belongs"),
        ({"outcome": "passed"}, "outcome: belongs"),
        ({"event": "outcome_verified", "outcome": "fine"}, "outcome: 'fine'"),
        ({"at": "2026-01-01T00:00:00"}, "at: a time needs its zone"),
        ({"at": datetime(2026, 1, 1)}, "at: a time needs its zone"),  # noqa: DTZ001
        ({"at": "yesterday"}, "at: expected an RFC 3339 time"),
        ({"at": True}, "at: expected a time"),
        ({"at": float("nan")}, "at: expected a time"),
        ({"deadline": 1767225610000}, "deadline: expected a time"),
        ({"at": -1e11}, "at: expected a time"),
        ({"at": 253_402_300_800}, "at: expected a time"),
        ({"at": "0001-01-01T00:00:00+14:00"}, "at: expected a time in the years 1 to 9999"),
        ({"deadline": "9999-12-31T23:59:59-14:00"}, "deadline: expected a time in the years 1 to 9999"),
        ({"reason": "x" * 513}, "reason: expected text"),
        ({"owner": ""}, "owner: expected text"),
        ({"owner": "\ud800"}, "owner: not encodable"),
        ({"operation_id": 7}, "operation_id: expected text"),
    ],
)
def test_what_is_not_in_the_contract_is_refused_and_nothing_is_written(tmp_path, change, message):
    """A refused receipt leaves no file behind and says which field is wrong."""
    path = tmp_path / "receipts.ndjson"
    with pytest.raises(ValueError, match="^" + message.replace("'", "['\"]")):
        receipts.append(path, **{**ONE, **change})
    assert not path.exists()


def test_time_is_now_where_none_is_given_and_utc_in_any_case(tmp_path):
    """Without ``at`` a receipt carries the present moment; other zones are turned into UTC."""
    path = tmp_path / "r"
    before = datetime.now(UTC)
    now = receipts.append(path, **{**ONE, "at": None})["at"]
    assert before <= datetime.fromisoformat(now) <= datetime.now(UTC)
    east = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert receipts.append(path, **{**ONE, "at": east})["at"] == "2026-01-01T00:00:00Z"


def test_signed_receipts_authenticate_and_altered_ones_name_themselves(tmp_path):
    """The mac the writer makes is the mac the judgement checks; a changed letter is found and named."""
    path = tmp_path / "receipts.ndjson"
    receipts.append(path, key=b"s3cret", **ONE)
    keys = AuthorKeys({"lead": b"s3cret"})
    sound = handoffs(read(path).frame.lazy(), keys=keys).collect()
    assert sound["state"].item() == "delegated"
    path.write_text(path.read_text().replace('"writer"', '"intruder"'))
    altered = handoffs(read(path).frame.lazy(), keys=keys).collect()
    assert (altered["state"].item(), altered["disagreement"].item()) == ("uncertain", "author_not_authentic")
    assert altered["failing_receipts"].item().to_list() == ["receipts.ndjson:1"]


def test_a_torn_last_line_costs_one_record_only(tmp_path):
    """After a crash that cut a line short, the next receipt starts on a line of its own."""
    path = tmp_path / "receipts.ndjson"
    path.write_bytes(b'{"operation_id": "op-0", "ha')
    receipts.append(path, **ONE)
    lines = path.read_bytes().splitlines()
    assert len(lines) == 2
    assert json.loads(lines[1])["operation_id"] == "op-1"


def test_writers_side_by_side_never_mix_lines(tmp_path):
    """Receipts of eight threads all arrive whole."""
    path = tmp_path / "receipts.ndjson"

    def write(author: str) -> None:
        for number in range(10):
            receipts.append(path, **{**ONE, "author": author, "handoff_id": f"{author}/{number}"})

    threads = [threading.Thread(target=write, args=(f"a{number}" * 40,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({json.loads(line)["handoff_id"] for line in path.read_bytes().splitlines()}) == 80


def test_each_receipt_is_forced_to_disk(tmp_path, monkeypatch):
    """The file is synced for every receipt, and the folder too when the file is new."""
    synced = []
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: (synced.append(os.fstat(handle).st_mode), real(handle))[1]
    )
    receipts.append(tmp_path / "r", **ONE)
    receipts.append(tmp_path / "r", **ONE)
    assert len(synced) == 3
    assert (tmp_path / "r").stat().st_mode & 0o777 == 0o600


def test_writer_needs_the_standard_library_only():
    """The module can be loaded from its file with no other package to be had."""
    code = (
        "import runpy, sys; names = runpy.run_path(sys.argv[1]); "
        "print(sorted(m for m in sys.modules if m.split('.')[0] in {'polars', 'numpy', 'agentlens', 'orjson'}), 'append' in names)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, receipts.__file__],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[] True"
