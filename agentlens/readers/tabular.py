"""Exports that are tables of records: JSON lines, JSON arrays, CSV and Parquet, one row at a time."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers import decode
from agentlens.readers.inflate import FREE_BYTES, RATIO_LIMIT, Damage, opened
from agentlens.readers.source import unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.base import Report
    from agentlens.readers.source import Head, Source

_BATCH: Final = 1024
_FIELD_LIMIT: Final = 1 << 30
_COLUMN: Final = re.compile(r"(?:[A-Za-z_][\w.]*)?")  # the column of an index may have no name
_BETWEEN: Final = " \t\r\n\x1e,\ufeff"
_DECODER: Final = json.JSONDecoder(parse_constant=lambda _: None)


def columns(head: Head) -> frozenset[str]:
    """Return the column names of a Parquet or CSV file; none for anything else."""
    if head.magic == "parquet":
        return _parquet_columns(head)
    if head.magic:
        return frozenset()
    first = head.data.decode("utf-8", "replace").lstrip("\ufeff").splitlines()[:1]
    try:
        names = next(csv.reader(first), [])
    except csv.Error:
        return frozenset()
    return frozenset(names) if len(names) > 1 and all(map(_COLUMN.fullmatch, names)) else frozenset()


def records_of(head: Head, *keys: str) -> list[dict[str, Any]]:
    """Return the first records of a JSON source: its lines, its array, or the array under one of ``keys``."""
    found: list[dict[str, Any]] = []
    for value in head.values:
        found += [item for item in _items(value, keys)[:8] if isinstance(item, dict)]
    return found


def rows(source: Source, report: Report, *keys: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield ``(position, place in it, row)``; the position is the line, or the row where there are no lines.

    A JSON document is an array of rows, an object with one under one of ``keys``, or a row itself; several
    documents may follow one another.
    """
    head = source.head()
    if head.magic == "parquet":
        yield from ((number, 0, row) for number, row in _parquet_rows(source, report))
    elif columns(head):
        yield from ((number, 0, row) for number, row in _csv_rows(source, report))
    else:
        yield from json_rows(source, report, *keys)


def json_rows(source: Source, report: Report, *keys: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield the rows of a JSON source, as `rows` does."""
    lines = source.is_lines()
    number = 0
    for line, value in _lines(source, report) if lines else _documents(source, report, keys):
        for place, item in enumerate(_items(value, keys)):
            number += 1
            where = (line, place) if lines else (number, 0)
            if isinstance(item, dict):
                yield *where, item
            elif item is not None:
                reason = f"a {type(item).__name__} where a record was expected"
                report.quarantine(where[0], reason, "line" if lines else "record")


def _items(value: Any, keys: tuple[str, ...]) -> list[Any]:
    if isinstance(value, list):
        inside = [_inside(item, keys) for item in value]
        if any(found is None for found in inside):
            return value
        return [item for found in inside for item in found or ()]  # an array of documents
    found = _inside(value, keys)
    return [value] if found is None else found


def _inside(value: Any, keys: tuple[str, ...]) -> list[Any] | None:
    """Return the array that a document holds under one of ``keys``; None where it holds none."""
    told = (value.get(key) for key in keys) if isinstance(value, dict) else ()
    return next((found for found in told if isinstance(found, list)), None)


def _lines(source: Source, report: Report) -> Iterator[tuple[int, Any]]:
    for number, line in source.lines(report):
        value = decode.loads(line, report, number)
        if value is not ABSENT:
            yield number, value


def _documents(source: Source, report: Report, keys: tuple[str, ...]) -> Iterator[tuple[int, Any]]:
    """Yield the one document, or each of several that were written one behind the other."""
    if _is_followed(source.head()):
        yield from ((0, value) for value in _concatenated(source.read(report), report))
        return
    value = source.document(report, ("", *keys))
    if value is not ABSENT:
        yield 0, value


def _is_followed(head: Head) -> bool:
    """Say whether another document follows the first: console exporters write one a span, over several lines."""
    start = head.data.decode("utf-8", "replace").lstrip(_BETWEEN)
    if start[:1] != "{":
        return False
    try:
        _, place = _DECODER.raw_decode(start)
    except (ValueError, RecursionError):
        return False
    return start[place:].lstrip(_BETWEEN)[:1] == "{"


def _concatenated(data: bytes, report: Report) -> Iterator[Any]:
    """Yield the documents of a file; behind a damaged one, those that begin a line are found again."""
    text = data.decode("utf-8", "replace")
    place, number = 0, 0
    while True:
        while place < len(text) and text[place] in _BETWEEN:
            place += 1
        if place >= len(text):
            return
        number += 1
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            reason = (
                str(error) if isinstance(error, RecursionError) else decode.reason_of(error, text[place:])
            )
            report.quarantine(number, reason, "record")
            place = text.find("\n{", place + 1)
            if place < 0:
                return
            continue
        yield value


def _csv_rows(source: Source, report: Report) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a CSV file by the names of its first; an empty field is not there."""
    csv.field_size_limit(_FIELD_LIMIT)
    try:
        raw = source.path.open("rb")
    except OSError as error:
        raise unreadable(source.name, error) from error
    with raw:
        reader = csv.reader(io.TextIOWrapper(opened(raw), "utf-8-sig", "replace", newline=""))
        names: list[str] | None = None
        number = 0
        while True:
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                number += 1
                report.quarantine(number, f"not valid CSV: {error}", "row")
                continue
            except (Damage, OSError) as error:
                report.quarantine(number + 1, f"reading stopped: {error}", "row")
                return
            if names is None:
                names = fields
                continue
            number += 1
            if fields and len(fields) != len(names):
                report.quarantine(number, f"{len(fields)} fields under {len(names)} names", "row")
            elif fields:
                yield number, {name: field for name, field in zip(names, fields, strict=True) if field != ""}


def _parquet_columns(head: Head) -> frozenset[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if head.path is None:
        return frozenset()
    try:
        return frozenset(pq.read_schema(head.path).names)
    except (OSError, ValueError, pa.ArrowException):
        return frozenset()


def _parquet_rows(source: Source, report: Report) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a Parquet file in batches; what is null is not there."""
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with source.path.open("rb") as raw:
            plain = raw.read(4) == b"PAR1"
        with pq.ParquetFile(source.path if plain else pa.BufferReader(source.read(report))) as file:
            size = sum(file.metadata.row_group(at).total_byte_size for at in range(file.num_row_groups))
            if size > FREE_BYTES and size > RATIO_LIMIT * source.size():
                report.quarantine(0, f"the data grows more than {RATIO_LIMIT} times when decompressed", "row")
                return
            for batch in file.iter_batches(_BATCH):
                batch.validate(full=True)  # a damaged page may hold text that is none
                frame = pl.DataFrame(pl.from_arrow(batch.replace_schema_metadata(None)))
                for row in frame.iter_rows(named=True):
                    number += 1
                    yield number, {name: value for name, value in row.items() if value is not None}
    except (OSError, ValueError, pa.ArrowException, pl.exceptions.PolarsError) as error:
        reason = str(error).partition("\n")[0]
        report.quarantine(number + 1, f"not readable as Parquet: {reason}", "row")
    except pl.exceptions.PanicException as error:
        report.quarantine(number + 1, f"a column of a type that is not known here: {error}", "row")
