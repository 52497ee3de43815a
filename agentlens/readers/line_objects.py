"""One JSON object a line: what most exports of agents are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson

from agentlens.model.raw import ABSENT
from agentlens.readers.base import Report
from agentlens.readers.decode import loads
from agentlens.readers.head import BOM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.source import Source


def object_lines(source: Source, report: Report | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a source; of a file that is one array of such lines, its elements, numbered from 1."""
    start = source.head().data.removeprefix(BOM).lstrip()
    if start[:1] != b"[" or source.is_lines():
        yield from source.lines(report)
        return
    document = source.document(Report() if report is None else report, ("",))
    for number, value in enumerate(document if isinstance(document, list) else [], 1):
        if value is not None:
            yield number, _dumped(value)


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer of more than 64 bits
        return json.dumps(value).encode()


def line_objects(source: Source, report: Report) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield line number and object; a line that is no JSON, or no object, is set aside with its reason."""
    for number, line in object_lines(source, report):
        value = loads(line, report, number)
        if value is ABSENT:
            continue
        if not isinstance(value, dict):
            report.quarantine(number, f"a {type(value).__name__} where a record was expected")
            continue
        yield number, value
