"""Two rules on the same runs."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.calibrate.compare import COMPARISON, compare_rules
from agentlens.errors import SchemaError


def test_groups_not_runs_are_discordant() -> None:
    """Ten runs of one task that differ are one discordant group."""
    runs = pl.DataFrame(
        {"task_group": ["a"] * 10 + ["b"] * 2, "x": [True] * 10 + [False] * 2, "y": [False] * 12}
    )
    found = compare_rules(runs, "x", "y")
    assert found.schema == COMPARISON
    assert found.select("groups", "only_first", "only_second", "mcnemar_p").rows() == [(2, 1, 0, 1.0)]


def test_a_constant_difference_is_certain() -> None:
    """Eight tasks, each one event later under the second rule."""
    runs = pl.DataFrame({"task_group": list("abcdefgh"), "x": list(range(8)), "y": [k + 1 for k in range(8)]})
    row = compare_rules(runs, "x", "y", draws=100).row(0, named=True)
    assert (row["difference"], row["difference_low"], row["difference_high"]) == (-1.0, -1.0, -1.0)
    assert row["mcnemar_p"] == row["sign_flip_p"] == 2 / 2**8


def test_a_run_with_one_answer_is_left_out() -> None:
    """Both rules answer for the same runs, or neither does."""
    runs = pl.DataFrame({"task_group": ["a", "b"], "x": [1.0, None], "y": [1.0, 5.0]})
    assert compare_rules(runs, "x", "y")["groups"].item() == 1


def test_nothing_in_common_gives_nulls() -> None:
    """No groups, no difference."""
    runs = pl.DataFrame({"task_group": ["a"], "x": [None], "y": [1.0]}, schema_overrides={"x": pl.Float64})
    row = compare_rules(runs, "x", "y").row(0, named=True)
    assert (row["groups"], row["difference"], row["mcnemar_p"]) == (0, None, 1.0)


def test_a_missing_column_is_named() -> None:
    """One clear line."""
    with pytest.raises(SchemaError, match="pairs lack y"):
        compare_rules(pl.DataFrame({"task_group": ["a"], "x": [1]}), "x", "y")
