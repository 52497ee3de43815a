"""Values of columns as small integers, where they are compared many times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

if TYPE_CHECKING:
    from typing import TypeAlias

Codes: TypeAlias = npt.NDArray[np.int32]


def codes_of(frame: pl.DataFrame, *names: str) -> Codes:
    """Integer codes of the values of one or several columns taken together; null is a value.

    Examples
    --------
    >>> codes_of(pl.DataFrame({"tool": ["read", "edit", "read"]}), "tool").tolist()
    [1, 2, 1]
    """
    code = np.zeros(frame.height, dtype=np.int32)
    for name in names:
        column = frame[name]
        if column.ne_missing(column.head(1)).any():
            one = column.cast(pl.Categorical).to_physical().cast(pl.Int64).fill_null(-1).to_numpy() + 1
            pair = code.astype(np.int64) * (int(one.max()) + 1) + one
            code = (np.unique(pair, return_inverse=True)[1] if code.any() else one).astype(np.int32)
    return code
