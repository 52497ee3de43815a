"""Column types on both sides: a frame's schema as Spark's and as Arrow's, and frames out of batches and into them.

Spark has no unsigned integers, no durations and no null type; the tables of the model have none either, and a
schema that has one is refused here. Times are microseconds since 1970 in UTC on both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from agentlens.errors import SchemaError
from agentlens.model.event import TIME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Schema = pl.Schema | Mapping[str, pl.DataType]

_SIMPLE: dict[Any, tuple[str, pa.DataType]] = {
    pl.String: ("string", pa.large_string()),
    pl.Binary: ("binary", pa.large_binary()),
    pl.Boolean: ("boolean", pa.bool_()),
    pl.Int8: ("tinyint", pa.int8()),
    pl.Int16: ("smallint", pa.int16()),
    pl.Int32: ("int", pa.int32()),
    pl.Int64: ("bigint", pa.int64()),
    pl.Float32: ("float", pa.float32()),
    pl.Float64: ("double", pa.float64()),
}
_TIME = ("timestamp", pa.timestamp("us", "UTC"))
ROWS = 20_000
"""Rows of one batch that goes back to Spark."""


def _types(name: str, dtype: Any) -> tuple[str, pa.DataType]:
    if dtype == TIME:
        return _TIME
    if isinstance(dtype, pl.List):
        ddl, arrow = _types(name, dtype.inner)
        return f"array<{ddl}>", pa.list_(arrow)
    if isinstance(dtype, pl.Struct):
        inner = {field.name: _types(f"{name}.{field.name}", field.dtype) for field in dtype.fields}
        ddl = ", ".join(f"{_quoted(key)}: {found}" for key, (found, _) in inner.items())
        return f"struct<{ddl}>", pa.struct([pa.field(key, found) for key, (_, found) in inner.items()])
    kind = dtype if isinstance(dtype, type) else type(dtype)
    if kind not in _SIMPLE:
        raise SchemaError(f"column {name!r} is {dtype}, which Spark has no type for; accepted: {_accepted()}")
    return _SIMPLE[kind]


def _accepted() -> str:
    return ", ".join(sorted(kind.__name__ for kind in _SIMPLE)) + ", times in UTC, lists and structs of these"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def spark_schema(schema: Schema) -> str:
    """Return a frame's schema as Spark writes it.

    Raises
    ------
    SchemaError
        A column is of a type that Spark does not have.

    Examples
    --------
    >>> spark_schema({"run_id": pl.String(), "laps": pl.Int64()})
    '`run_id` string, `laps` bigint'
    """
    return ", ".join(f"{_quoted(name)} {_types(name, dtype)[0]}" for name, dtype in schema.items())


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return a frame's schema as Arrow's, in types that Spark takes."""
    return pa.schema([pa.field(name, _types(name, dtype)[1]) for name, dtype in schema.items()])


def to_batches(frame: pl.DataFrame, schema: Schema, rows: int = ROWS) -> Iterator[pa.RecordBatch]:
    """Yield a frame as batches for Spark, exactly these columns."""
    wanted = arrow_schema(schema)
    for piece in frame.select(list(schema)).iter_slices(rows):
        table = piece.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(wanted)
        yield from table.combine_chunks().to_batches()


def from_batch(batch: pa.RecordBatch, schema: Schema) -> pl.DataFrame:
    """Return a batch as a frame of exactly these columns and types; a column that it lacks is null."""
    frame = pl.from_arrow(batch)
    assert isinstance(frame, pl.DataFrame)
    return frame.select(
        pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in schema.items()
    )
