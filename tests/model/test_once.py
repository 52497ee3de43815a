"""Columns kept as one value are the columns they were."""

from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from agentlens.model.event import LEASE
from agentlens.model.once import nulls, said_once

MANY = 200_000


@pytest.mark.parametrize("rows", [0, 1, 2, 5])
def test_nothing_is_changed(rows):
    """Values, nulls, order and types are what they were, whatever a column says."""
    frame = pl.DataFrame(
        {
            "same": ["a"] * rows,
            "ends": ["a", *"b" * (rows - 2), "a"][:rows],
            "gone": pl.Series([None] * rows, dtype=LEASE),
            "some": [None, *[1] * rows][:rows],
            "zero": [0.0, *[-0.0] * rows][:rows],
            "list": pl.Series([["x"]] * rows, dtype=pl.List(pl.String)),
        }
    )
    kept = said_once(frame)
    assert_frame_equal(kept, frame)
    assert str(kept["zero"].to_list()) == str(frame["zero"].to_list())


def test_a_column_that_says_one_thing_takes_no_room():
    """Two hundred thousand rows of one text are as small as one, and stay so through filter and sort."""
    frame = pl.DataFrame({"at": range(MANY), "who": ["somebody with a long name"] * MANY})
    kept = said_once(frame).filter(pl.col("at") > 1).sort("at", descending=True)
    assert kept.height == MANY - 2
    assert kept.select("who").estimated_size() < 1000
    assert frame.select("who").estimated_size() > MANY


def test_nulls_are_counted():
    """Of a column kept as one value as of any other."""
    frame = said_once(pl.DataFrame({"a": pl.Series([None, None], dtype=pl.String), "b": [1, None]}))
    assert (nulls(frame, "a"), nulls(frame, "b")) == (2, 1)
