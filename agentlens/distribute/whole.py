"""Whole runs out of the batches of one partition, a bounded number of rows at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from agentlens.distribute.types import from_batch
from agentlens.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentlens.distribute.types import Schema

CHUNK_ROWS = 200_000
"""Rows of whole runs that are judged at once; memory is these, or those of the longest run where it has more."""


def whole_runs(
    batches: Iterable[pa.RecordBatch], schema: Schema, *, by: str = "run_id", least: int | None = None
) -> Iterator[pl.DataFrame]:
    """Put the runs of a partition together over its batches.

    Parameters
    ----------
    batches
        Rows in ascending order of ``by``; a run may begin in one batch and end in any later one.
    schema
        Columns and types of the frames.
    by
        The column that names what stays whole.
    least
        Frames are given on from so many rows (`CHUNK_ROWS`); only the last may be smaller.

    Yields
    ------
    DataFrame
        Whole runs each; no run is in two frames.

    Raises
    ------
    EngineError
        The rows are not in order, so that no end of a run could be told.
    """
    least = CHUNK_ROWS if least is None else least
    done: list[pl.DataFrame] = []
    open_run: list[pl.DataFrame] = []
    rows, last = 0, None
    for batch in batches:
        frame = from_batch(batch, schema)
        if frame.is_empty():
            continue
        names = frame[by]
        if not names.is_sorted() or (last is not None and names[0] < last):
            raise EngineError(
                f"a partition's rows are not in the order of {by}; accepted: a lake that ingest wrote"
            )
        last = names[-1]
        begins = int(names.search_sorted(last, side="left"))  # of the run that the next batch may go on with
        if begins == 0 and open_run and open_run[-1][by][-1] == last:
            open_run.append(frame)
            continue
        done += [*open_run, frame[:begins]]
        rows += sum(piece.height for piece in open_run) + begins
        open_run = [frame[begins:]]
        if rows >= least:
            yield pl.concat(done)
            done, rows = [], 0
    if done or open_run:
        yield pl.concat([*done, *open_run])


@dataclass(frozen=True, kw_only=True)
class Runs:
    """How a worker gets whole runs out of what Spark hands it: rows in order, or the bytes of whole bucket files.

    ``rows``: of one batch read out of a file.
    """

    schema: Schema
    files: bool
    rows: int
    least: int

    def frames(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
        """Yield frames of whole runs; see `whole_runs`."""
        if not self.files:
            yield from whole_runs(batches, self.schema, least=self.least)
            return
        for batch in batches:
            for content in batch.column("content"):
                yield from whole_runs(self._decoded(content.as_buffer()), self.schema, least=self.least)

    def _decoded(self, content: pa.Buffer) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one Parquet file; only the columns asked for are decoded."""
        file = pq.ParquetFile(pa.BufferReader(content))
        there = set(file.schema_arrow.names)
        wanted = [name for name in self.schema if name in there]
        yield from file.iter_batches(batch_size=self.rows, columns=wanted)
