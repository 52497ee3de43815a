"""Tables of records: the same rows from lines, arrays, CSV, Parquet, and documents one behind the other."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agentlens.readers.base import Report
from agentlens.readers.source import Source
from agentlens.readers.tabular import columns, rows

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [{"id": "a", "note": 'two\nlines, "quoted"'}, {"id": "b", "note": "x"}]


def read(data: bytes, folder: Path, *keys: str) -> tuple[list[dict[str, Any]], Report]:
    path = folder / "table"
    path.write_bytes(data)
    report = Report()
    return [row for _, _, row in rows(Source.of(path), report, *keys)], report


@pytest.mark.parametrize(
    "data",
    [
        b"".join(json.dumps(row).encode() + b"\n" for row in ROWS),
        json.dumps(ROWS).encode(),
        json.dumps(ROWS, indent=2).encode(),
        json.dumps({"data": ROWS, "next": None}).encode(),
        b"\n".join(json.dumps(row, indent=4).encode() for row in ROWS),
        b",\n".join(json.dumps(row, indent=4).encode() for row in ROWS) + b",\n",
        b'\xef\xbb\xbfid,note\r\na,"two\nlines, ""quoted"""\r\nb,x\r\n',
    ],
    ids=["lines", "array", "long array", "envelope", "documents", "documents with commas", "csv"],
)
def test_every_shape_gives_the_same_rows(data: bytes, tmp_path: Path) -> None:
    """Also where a console exporter wrote one document of several lines for each record."""
    found, report = read(data, tmp_path, "data")
    assert found == ROWS
    assert not report.faults


def test_parquet_rows_keep_their_types(tmp_path: Path) -> None:
    """Times stay times, lists and structures stay such, nulls are not there."""
    at = datetime(2026, 10, 5, 8, tzinfo=UTC)
    frame = pl.DataFrame(
        {"a.b": [1.0, None], "at": [at, at], "deep": [[{"x.y": "z"}], []]},
        schema_overrides={"at": pl.Datetime("ns", "UTC")},
    )
    frame.write_parquet(tmp_path / "f")
    assert columns(Source.of(tmp_path / "f").head()) == {"a.b", "at", "deep"}
    report = Report()
    found = [row for _, _, row in rows(Source.of(tmp_path / "f"), report)]
    assert found == [{"a.b": 1.0, "at": at, "deep": [{"x.y": "z"}]}, {"at": at, "deep": []}]


@pytest.mark.parametrize("cut", [4, 100, 300])
def test_a_broken_parquet_file_is_a_report(cut: int, tmp_path: Path) -> None:
    """Its columns stand at its end: without it nothing can be read, and that is said."""
    pl.DataFrame({"a": ["x" * 50] * 9, "b": range(9)}).write_parquet(tmp_path / "f")
    found, report = read((tmp_path / "f").read_bytes()[:cut], tmp_path)
    assert not found
    assert report.faults[0].reason.startswith("not readable as Parquet")
    assert columns(Source.of(tmp_path / "table").head()) == frozenset()


def test_a_csv_row_of_another_length_is_set_aside(tmp_path: Path) -> None:
    """It is not known which of its fields is missing."""
    found, report = read(b"id,note\na,x\nb\nc,,z\nd,y\n", tmp_path)
    assert [row["id"] for row in found] == ["a", "d"]
    assert [(fault.position, fault.unit) for fault in report.faults] == [(2, "row"), (3, "row")]


@pytest.mark.parametrize("cell", ["{}", "[1, 2]", '{"a": 1}'])
def test_json_inside_csv_is_no_json_file(cell: str, tmp_path: Path) -> None:
    """Nor is a line of words in front of JSON a table."""
    quoted = f"say\n{cell}\n".replace('"', '""')
    found, _ = read(f'id,note\na,"{quoted}"\n'.encode(), tmp_path)
    assert found == [{"id": "a", "note": f"say\n{cell}\n"}]
    found, report = read(b"warning: slow, very slow\n" + b'{"id": "a"}\n{"id": "b"}\n', tmp_path)
    assert found == [{"id": "a"}, {"id": "b"}]
    assert [fault.position for fault in report.faults] == [1]


def test_documents_behind_a_damaged_one_are_found_again(tmp_path: Path) -> None:
    """A process may die while it writes, and its successor goes on in the same file."""
    good = json.dumps({"id": 1}, indent=2).encode()
    found, report = read(good + b"\n" + good + b'\n{\n  "id": \n' + good + b'\n{\n  "id": 1', tmp_path)
    assert found == [{"id": 1}] * 3
    assert [fault.position for fault in report.faults] == [3, 5]


def test_what_is_no_record_is_reported_and_nothing_else(tmp_path: Path) -> None:
    """Null is the place of a record set aside before; anything else is said."""
    found, report = read(b'[{"id": 1}, null, 3, "x", {"id": 2}]', tmp_path)
    assert found == [{"id": 1}, {"id": 2}]
    assert [fault.position for fault in report.faults] == [3, 4]


def test_parquet_text_that_is_no_text_is_a_report(tmp_path: Path) -> None:
    """A damaged page would otherwise end in a panic of another library."""
    offsets = pa.py_buffer(b"\0\0\0\0\1\0\0\0\3\0\0\0")
    broken = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"a\xff\xfe"))
    pq.write_table(pa.table({"id": broken, "note": ["x", "y"]}), tmp_path / "f")
    found, report = read((tmp_path / "f").read_bytes(), tmp_path)
    assert not found
    assert "UTF8" in report.faults[0].reason


def test_an_index_without_a_name_is_a_column_like_any(tmp_path: Path) -> None:
    """Data frames are written with one."""
    found, _ = read(b",id,note\n0,a,x\n1,b,y\n", tmp_path)
    assert [row["id"] for row in found] == ["a", "b"]
