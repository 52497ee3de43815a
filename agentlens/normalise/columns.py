"""Columns from Python values: what does not fit a column's type becomes null, never an error."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from agentlens.model.event import CONTENT
from agentlens.model.native import FIRST_US, LAST_US
from agentlens.model.record import RECORDS

_TYPES: Final[dict[str, pl.DataType]] = {**RECORDS, **CONTENT}
_PHYSICAL: Final[dict[str, pl.DataType]] = {
    name: pl.Int64() if isinstance(dtype, pl.Datetime) else dtype for name, dtype in _TYPES.items()
}
_WHOLE: Final = frozenset({int, type(None)})
_LOW, _HIGH = -(2**63), 2**63


def column(name: str, values: list[Any] | tuple[Any, ...]) -> pl.Series:
    """Build a column of the record table.

    Parameters
    ----------
    name : str
        A column of ``RECORDS`` or ``CONTENT``.
    values : sequence
        Times as integer microseconds; one outside the years 1 to 9999 of UTC becomes null.

    >>> column("tokens_in", [1, None, "many", 2**70]).to_list()
    [1, None, None, None]

    """
    dtype, physical = _TYPES[name], _PHYSICAL[name]
    # Polars would take True for 1 and 1.7 for 1
    exact = not isinstance(physical, pl.Int64) or set(map(type, values)) <= _WHOLE
    try:
        series = pl.Series(name, values if exact else _all_fitting(values, physical), dtype=physical)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        series = pl.Series(name, _all_fitting(values, physical), dtype=physical)
    return series if dtype == physical else _dated(series).cast(dtype)


def _dated(times: pl.Series) -> pl.Series:
    """Null the times that have no date in UTC; whoever shows them could not."""
    there = times.is_between(FIRST_US, LAST_US)
    return times if there.all() else times.set(~there, None)


def is_blank(values: list[Any] | tuple[Any, ...]) -> bool:
    """Whether there is nothing in a column; then a typed null stands for it."""
    return values.count(None) == len(values)


def _all_fitting(values: list[Any] | tuple[Any, ...], dtype: pl.DataType) -> list[Any]:
    return [_fitting(value, dtype) for value in values]


def _fitting(value: Any, dtype: pl.DataType) -> Any:
    if isinstance(dtype, pl.String):
        return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else None
    if isinstance(dtype, pl.Boolean):
        return value if isinstance(value, bool) else None
    if isinstance(dtype, pl.Float64):
        try:
            return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        except OverflowError:
            return None
    if isinstance(dtype, pl.Struct):
        if not isinstance(value, dict):
            return None
        return {field.name: _fitting(value.get(field.name), _instance(field.dtype)) for field in dtype.fields}
    if isinstance(dtype, pl.List):
        inner = _instance(dtype.inner)
        items = value if isinstance(value, list) else []
        return [item for item in (_fitting(item, inner) for item in items) if item is not None]
    # integers, and times as integers
    return value if type(value) is int and _LOW <= value < _HIGH else None


def _instance(dtype: Any) -> pl.DataType:
    made = dtype() if isinstance(dtype, type) else dtype
    assert isinstance(made, pl.DataType)
    return made
