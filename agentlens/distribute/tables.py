"""What a distributed analysis returns: its tables as Spark frames, made once, written or fetched as wanted."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import polars as pl
import pyarrow as pa

from agentlens.distribute import pieces
from agentlens.distribute.engine import told
from agentlens.distribute.files import Files
from agentlens.distribute.types import arrow_schema, spark_schema, to_batches
from agentlens.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VERSIONS: Final = pl.Schema(
    {"normaliser_version": pl.String(), "fingerprint_version": pl.String(), "key_id": pl.String()}
)
"""A table that analyses make beside their own: the versions found on the events."""


@dataclass(frozen=True, kw_only=True)
class Derived:
    """A small table that is made on this machine from what the workers counted: ``piece``, of ``schema``."""

    piece: str
    schema: pl.Schema
    made: Callable[[pl.DataFrame], pl.DataFrame]
    result: pl.Schema


@dataclass(frozen=True, kw_only=True)
class SparkTables:
    """Result tables of one analysis.

    ``made`` are its pieces, kept on the executors' disks from the first use until `close`. ``schemas``: by table
    name, those of the local result. ``keys``: the columns that the local result is sorted by. ``facts``: what the
    metadata says besides versions. ``derived``: tables that are small whatever the data. ``parts``: of ``made``, where
    it is put together from several.
    """

    made: Any
    schemas: dict[str, pl.Schema]
    keys: dict[str, tuple[str, ...]]
    facts: Mapping[str, str]
    derived: Mapping[str, Derived] = field(default_factory=dict)
    parts: tuple[Any, ...] = ()

    @property
    def names(self) -> list[str]:
        """Every table there is."""
        return [*self.schemas, *self.derived]

    @cached_property
    def metadata(self) -> dict[str, str]:
        """Settings and versions, as the local result has them; runs the analysis."""
        with told("judging"):
            seen = pieces.fetched(self.made, "versions", VERSIONS)
        found = {name: seen[name].drop_nulls().unique().sort().to_list() for name in VERSIONS}
        return {**self.facts, **{name: ",".join(values) for name, values in found.items()}}

    def __getitem__(self, name: str) -> Any:
        """Return one table as a Spark frame, in no order.

        Raises
        ------
        SettingsError
            There is no such table.
        """
        self._check(name)
        if name in self.derived:
            schema = self.derived[name].result
            rows = pa.Table.from_batches(to_batches(self.fetch(name), schema), arrow_schema(schema))
            return self.made.sparkSession.createDataFrame(rows, spark_schema(schema))
        return pieces.table(self.made, name, self.schemas[name])

    def fetch(self, name: str) -> pl.DataFrame:
        """Bring one table to this machine, sorted: the rows, types and order of the local result."""
        self._check(name)
        small = self.derived.get(name)
        with told(f"fetching {name}"):
            if small is not None:
                return small.made(pieces.fetched(self.made, small.piece, small.schema))
            frame = pieces.fetched(self.made, name, self.schemas[name])
        return frame.sort(self.keys[name], maintain_order=True, nulls_last=True)

    def _check(self, name: str) -> None:
        if name not in self.names:
            raise SettingsError.unknown("table", name, self.names)

    def write(self, path: str) -> list[str]:
        """Write every table as Parquet into ``<path>/<name>.parquet``, a folder of parts each, and the metadata.

        The path is any that Spark reaches. What stands under these names is replaced.
        """
        files, written = Files(self.made.sparkSession, path), []
        for name in self.names:
            written.append(f"{path.rstrip('/')}/{name}.parquet")
            with told(written[-1]):
                self[name].write.mode("overwrite").parquet(files.at(f"{name}.parquet"))
        text = json.dumps(self.metadata, indent=2, sort_keys=True) + "\n"
        files.write("metadata.json", text.encode("utf-8", "backslashreplace"))
        return written

    def close(self) -> None:
        """Give the executors' disk back."""
        for part in self.parts or (self.made,):
            part.unpersist()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def kept(made: Any) -> Any:
    """Have pieces made once: they go to the executors' disks at the first use."""
    from pyspark.storagelevel import StorageLevel

    return made.persist(StorageLevel.DISK_ONLY)
