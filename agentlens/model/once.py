"""Columns that say one thing take the room of one value."""

from __future__ import annotations

import polars as pl


def said_once(frame: pl.DataFrame) -> pl.DataFrame:
    """Keep each column that says the same in all rows as one value; rows and schema are what they were.

    Polars carries such a column through filters, sorts and joins as one value. In a table of events most columns
    are of this kind: whose key it is, which reader, whatever an export does not tell.

    >>> said_once(pl.DataFrame({"a": [1, 1], "b": [1, 2]})).to_dict(as_series=False)
    {'a': [1, 1], 'b': [1, 2]}
    """
    if frame.is_empty():
        return frame
    once = [column.name for column in frame.iter_columns() if _says_one_thing(column)]
    return frame.with_columns(pl.lit(frame[name].head(1)).first().alias(name) for name in once)


def _says_one_thing(column: pl.Series) -> bool:
    """Say whether all values are the same. Of lists and structs only that they are null is looked for."""
    nulls = column.null_count()
    if nulls or column.dtype.is_nested():
        return nulls == len(column)
    first = column.head(1)
    return bool((first == column.tail(1)).all()) and bool((column == first).all())
