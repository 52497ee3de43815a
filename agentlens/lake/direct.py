"""Reading sources without a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from agentlens.errors import AgentlensError, InputError
from agentlens.lake.plan import only_one, source_id
from agentlens.lake.reading import Gathered, Native, Piece, batches, format_of
from agentlens.lake.titles import Titles
from agentlens.model.branch import BRANCHES
from agentlens.model.event import CONTENT
from agentlens.model.receipt import RECEIPTS
from agentlens.model.record import RECORDS
from agentlens.normalise.assemble import assemble
from agentlens.readers.base import Report
from agentlens.readers.source import Source, expand

if TYPE_CHECKING:
    from pathlib import Path

    from agentlens.normalise.rows import Normaliser


class Direct(NamedTuple):
    """What was read: frames as a lake would give them, and what could not be read."""

    events: pl.LazyFrame
    receipts: pl.LazyFrame
    branches: pl.LazyFrame
    report: Report


def read_file(
    path: str | Path | Source,
    normaliser: Normaliser,
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    sql: str | None = None,
) -> Direct:
    """Read one file, or every file of a folder or pattern, into memory, assembled.

    Raises
    ------
    InputError
        Nothing can be read. Of several files, those that cannot be read are faults of the report.
    SettingsError
        Both a format and a mapping are given.
    """
    only_one(format, sql)
    sources = [path] if isinstance(path, Source) else Titles().give(expand([path]))
    report = Report()
    records: list[pl.DataFrame] = []
    tables: dict[str, list[pl.DataFrame]] = {"receipts": [], "branches": []}
    refused: list[str] = []
    gathered = Gathered(normaliser, records.append)
    for source in sources:
        piece = Piece(source=source, source_id=source_id(source.name), format=format, sql=sql)
        native = Native(as_written=True)
        try:
            found = format_of(piece)
            for events in batches(piece, found, report, native):
                gathered.add(piece, found, events)
            for name, frame in native.typed(piece, report):
                tables[name].append(frame.drop("source_id"))
        except AgentlensError as error:
            refused.append(str(error))
            report.quarantine(0, str(error), "record")
    gathered.flush()
    if len(refused) == len(sources):
        raise InputError(refused[0] if refused else f"{path}: holds no file; accepted: a trace export")
    schema = pl.Schema({**RECORDS, **(CONTENT if normaliser.keep_content else {})})
    every = pl.concat([pl.DataFrame(schema=schema), *records])
    return Direct(
        events=assemble(every.lazy()),
        receipts=pl.concat([pl.DataFrame(schema=RECEIPTS), *tables["receipts"]]).lazy(),
        branches=pl.concat([pl.DataFrame(schema=BRANCHES), *tables["branches"]]).lazy(),
        report=report,
    )
