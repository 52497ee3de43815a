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
    # expressions all through: a Series taken from the frame would have room for every row again
    missing = dict(zip(frame.columns, frame.null_count().row(0), strict=True))
    once = {name for name, count in missing.items() if count == frame.height}
    likely = [name for name, dtype in frame.schema.items() if not missing[name] and _compares(dtype)]
    for other in (pl.all().last(), pl.all()):  # most columns differ in their first and last row already
        same = frame.select(likely).select((pl.all().first() == other).all())
        likely = [name for name, yes in same.to_dict(as_series=False).items() if yes == [True]]
    once.update(likely)
    first = frame.head(1)
    return frame.with_columns(
        pl.lit(first[name]).first().alias(name) for name in frame.columns if name in once
    )


def _compares(dtype: pl.DataType) -> bool:
    """Whether values that compare as equal are written alike: 0.0 and -0.0 are not."""
    return not dtype.is_nested() and not dtype.is_float()


def nulls(frame: pl.DataFrame, name: str) -> int:
    """Count the nulls of one column, without making room for one that is kept as one value."""
    return int(frame.select(pl.col(name).null_count()).item())
