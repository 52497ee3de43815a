"""Formats of one JSON document a run: also several of them, one a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentlens.model.raw import ABSENT
from agentlens.readers.decode import loads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.base import Report
    from agentlens.readers.source import Source

LINE = 1 << 20
"""How far the positions of one line's document lie from those of the next."""


def documents(source: Source, report: Report, record_keys: tuple[str, ...]) -> Iterator[tuple[str, int, Any]]:
    """Yield ``(name, first position, document)``: the source's one document, or each line's.

    ``name`` is the file's without its ending, with ``#`` and the line number where there are several. A single
    document that is damaged gives what is whole under ``record_keys``.
    """
    stem = stem_of(source)
    if len(source.head().values) < 2 or not source.is_lines():
        document = source.document(report, record_keys)
        if document is not ABSENT:
            yield stem, 0, document
        return
    for number, line in source.lines(report):
        document = loads(line, report, number)
        if document is not ABSENT:
            yield f"{stem}#{number}", number * LINE, document


def stem_of(source: Source) -> str:
    """Return the file's name without endings, or the title it was given: what a run is called that has no id."""
    if source.title:
        return source.title
    name = source.path.name if source.name != "stdin" else "stdin"
    for ending in (".gz", ".zst", ".jsonl", ".json", ".ndjson", ".traj"):
        name = name.removesuffix(ending)
    return name
