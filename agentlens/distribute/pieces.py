"""Pieces: frames on their way through Spark, each one row with its Arrow bytes.

What a worker makes is several tables at once, and what Spark shuffles should be small and keep its types. So a
piece carries a compressed frame that only the next worker opens; Spark sees its table, its key and its size.
"""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens.distribute.types import from_batch, spark_schema, to_batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from agentlens.distribute.types import Schema

PIECES = pl.Schema(
    {"name": pl.String(), "key": pl.Int64(), "place": pl.Int64(), "rows": pl.Int64(), "data": pl.Binary()}
)
"""``name``: of the table. ``key``: what pieces are brought together by. ``place``: their order among one key."""

ROWS = 50_000
"""Most rows of one piece: far below the two gigabytes that one value of Spark may have."""


def packed(name: str, frame: pl.DataFrame, *, key: int = 0, place: int = 0) -> Iterator[dict[str, Any]]:
    """Yield a frame as rows of schema `PIECES`; none where it is empty."""
    for piece in frame.iter_slices(ROWS):
        if piece.height:
            sink = io.BytesIO()
            piece.write_ipc(sink, compression="zstd")
            yield {"name": name, "key": key, "place": place, "rows": piece.height, "data": sink.getvalue()}
            place += 1


def opened(data: bytes) -> pl.DataFrame:
    """Return the frame of one piece."""
    return pl.read_ipc(io.BytesIO(data))


def batches_of(rows: Iterable[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    """Yield pieces as batches for Spark, one a batch: each is large already."""
    for row in rows:
        yield from to_batches(pl.DataFrame([row], schema=PIECES), PIECES)


def arriving(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Yield the pieces that Spark hands to a worker."""
    for batch in batches:
        yield from from_batch(batch, PIECES).iter_rows(named=True)


def table(pieces: Any, name: str, schema: Schema) -> Any:
    """Return one table of the pieces as a Spark frame of its own columns."""
    mine = pieces.filter(pieces["name"] == name).select(*PIECES)
    return mine.mapInArrow(partial(_unpacked, schema=dict(schema)), spark_schema(schema))


def _unpacked(batches: Iterable[pa.RecordBatch], *, schema: Schema) -> Iterator[pa.RecordBatch]:
    for row in arriving(batches):
        yield from to_batches(opened(row["data"]), schema)


def fetched(pieces: Any, name: str, schema: Schema) -> pl.DataFrame:
    """Bring one table to the driver, pieces in the order of key and place."""
    mine = pieces.filter(pieces["name"] == name).select("key", "place", "data")
    rows = sorted(mine.toLocalIterator(), key=lambda row: (row["key"], row["place"]))
    frames = [opened(bytes(row["data"])) for row in rows]
    return pl.concat([pl.DataFrame(schema=schema), *frames])
