"""The new rows of a change: in memory where they are few, spread over files a bucket where they are many."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from agentlens.lake.names import PLACES
from agentlens.lake.store import aligned, part

if TYPE_CHECKING:
    from pathlib import Path

HELD_ROWS = 80_000
"""Rows held at once, over all buckets, while new rows are spread over them."""

_ROW = "rows"
_NAMES = pl.Schema(
    {"run_id": pl.String(), "session": pl.String(), "source_id": pl.String(), _ROW: pl.Int64()}
)


@dataclass
class Fresh:
    """Rows of the record table in parts, for one new generation of a lake.

    ``schema``: the columns that the rows of a bucket have. ``folder``: where files a bucket may be written.
    """

    paths: list[Path]
    schema: pl.Schema
    folder: Path
    _names: dict[Path, pl.DataFrame] = field(default_factory=dict)
    _held: dict[int, pl.DataFrame] = field(default_factory=dict)

    def add(self, path: Path) -> None:
        """Take in one more part."""
        self.paths.append(path)

    def names(self) -> pl.DataFrame:
        """Return how many ``rows`` each ``(run_id, session, source_id)`` has; every part is looked at once."""
        for path in self.paths:
            if path not in self._names:
                counted = part(path).group_by("run_id", "session", "source_id").agg(pl.len().alias(_ROW))
                self._names[path] = counted.collect().cast({_ROW: pl.Int64})
        return pl.concat([pl.DataFrame(schema=_NAMES), *self._names.values()])

    def rows(self) -> int:
        """Return how many rows there are in all."""
        return int(self.names()[_ROW].sum())

    def spread(self, places: pl.DataFrame, buckets: int) -> None:
        """Give every row the bucket of its run; rows whose run has no place are left out."""
        if not self.paths or places.is_empty():
            return
        lookup = places.select("run_id", "bucket").cast({"bucket": PLACES["bucket"]}).lazy()
        rows = pl.concat([aligned(part(path), self.schema) for path in self.paths])
        placed = rows.join(lookup, on="run_id", how="inner")
        if self.rows() <= HELD_ROWS:
            held = placed.collect().partition_by("bucket", include_key=False, as_dict=True)
            self._held = {int(number): frame for (number,), frame in held.items()}
            return
        placed.sink_ipc(
            pl.PartitionBy(self.folder, key="bucket", include_key=False),
            mkdir=True,
            compression="lz4",
            record_batch_size=max(HELD_ROWS // buckets, 256),
        )

    def of(self, bucket: int) -> list[pl.LazyFrame]:
        """Return the rows that were spread into one bucket."""
        held = self._held.pop(bucket, None)
        if held is not None:
            return [held.lazy()]
        return [part(path) for path in sorted((self.folder / f"bucket={bucket}").glob("*.ipc"))]
