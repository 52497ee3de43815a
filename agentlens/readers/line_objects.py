"""One JSON object a line: what most exports of agents are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentlens.model.raw import ABSENT
from agentlens.readers.decode import loads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.base import Report
    from agentlens.readers.source import Source


def line_objects(source: Source, report: Report) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield line number and object; a line that is no JSON, or no object, is set aside with its reason."""
    for number, line in source.lines(report):
        value = loads(line, report, number)
        if value is ABSENT:
            continue
        if not isinstance(value, dict):
            report.quarantine(number, f"a {type(value).__name__} where a record was expected")
            continue
        yield number, value
