"""Formats of one JSON document a run: also several of them, one a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentlens.model.raw import ABSENT
from agentlens.readers.decode import loads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.base import Report
    from agentlens.readers.source import Head, Source

LINE = 1 << 20
"""How far the positions of one line's document lie from those of the next."""


def documents(
    source: Source, report: Report, record_keys: tuple[str, ...], holds: tuple[str, ...] = ()
) -> Iterator[tuple[str, int, Any]]:
    """Yield ``(name, first position, document)``: the source's one document, each line's, or each of an array.

    ``name`` is the file's without its ending, with ``#`` and the number of the line or element where there are
    several. A single document that is damaged gives what is whole under ``record_keys``. ``holds``: members by which
    an array of documents is told from one that is itself an array, for a document has a list there.
    """
    stem = stem_of(source)
    if len(source.head().values) < 2 or not source.is_lines():
        document = source.document(report, record_keys)
        if isinstance(document, list) and any(_is_holder(item, holds) for item in document):
            for number, item in enumerate(document, 1):
                if item is not None:
                    yield f"{stem}#{number}", number * LINE, item
        elif document is not ABSENT:
            yield stem, 0, document
        return
    for number, line in source.lines(report):
        document = loads(line, report, number)
        if document is not ABSENT:
            yield f"{stem}#{number}", number * LINE, document


def first_document(head: Head, holds: tuple[str, ...]) -> Any:
    """Return the first document of a source, also where it stands in an array of them; None where there is none."""
    first = head.values[0] if head.values and not head.magic else None
    return first[0] if isinstance(first, list) and first and _is_holder(first[0], holds) else first


def _is_holder(item: Any, holds: tuple[str, ...]) -> bool:
    return isinstance(item, dict) and any(isinstance(item.get(name), list) for name in holds)


def stem_of(source: Source) -> str:
    """Return the file's name without endings, or the title it was given: what a run is called that has no id."""
    if source.title:
        return source.title
    name = source.path.name if source.name != "stdin" else "stdin"
    for ending in (".gz", ".zst", ".jsonl", ".json", ".ndjson", ".traj"):
        name = name.removesuffix(ending)
    return name
