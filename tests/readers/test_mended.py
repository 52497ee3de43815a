"""What Python writes and JSON does not know (``NaN``, half a surrogate pair) hides no format and loses no record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agentlens.readers.base import Report
from agentlens.readers.head import HEAD_BYTES
from agentlens.readers.source import Source

if TYPE_CHECKING:
    from pathlib import Path

RECORD = {"resourceSpans": [], "score": float("nan"), "text": "x\ud800y"}


def written(folder: Path, text: str) -> Source:
    path = folder / "export.json"
    path.write_text(text)
    return Source.of(path)


def test_a_line_with_nan_is_recognised(tmp_path: Path) -> None:
    """The first lines are looked at as they will be read."""
    source = written(tmp_path, f"{json.dumps(RECORD)}\n" * 2)
    assert source.is_lines()
    mended = {"resourceSpans": [], "score": None, "text": "x\ufffdy"}
    assert source.head().values == (mended, mended)


def test_the_start_of_a_long_document_with_nan_is_recognised(tmp_path: Path) -> None:
    """Its head, closed behind the last whole member, is decoded the same way."""
    source = written(tmp_path, json.dumps([RECORD] * 2_000, indent=1))
    assert source.size() > HEAD_BYTES
    assert not source.is_lines()
    assert source.head().values[0][0]["resourceSpans"] == []


def test_a_first_line_longer_than_the_head_may_hold_nan(tmp_path: Path) -> None:
    """Whether the source is lines is told from the whole line."""
    line = json.dumps(RECORD | {"pad": "x" * HEAD_BYTES})
    assert written(tmp_path, f"{line}\n{line}\n").is_lines()


def test_records_with_nan_before_the_cut_are_kept_and_counted(tmp_path: Path) -> None:
    """Of a document that was cut off, the whole records are decoded like those of a whole one."""
    whole = json.dumps({"spans": [{"n": 1, "v": float("nan")}, {"n": 2, "t": "\ud800"}, {"n": 3}]})
    report = Report()
    value = written(tmp_path, whole[:-5]).document(report, ("spans",))
    assert value == {"spans": [{"n": 1, "v": None}, {"n": 2, "t": "\ufffd"}]}
    assert report.repaired == {"NaN": 1, "lone surrogate": 1}
    assert len(report.faults) == 1
