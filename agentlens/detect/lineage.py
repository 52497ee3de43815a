"""Which receipt of a branch stands, and where the branch hangs in its family (SPEC section 5, gate 1)."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

_NONE: Final = -1


def standing(branches: pl.LazyFrame) -> pl.LazyFrame:
    """One receipt a branch: the newest, then the last in its file.

    Adds ``moved``: some receipt of the branch names another parent or fork point.
    """
    rows = branches.with_row_index("row")
    # A source is file and line; "the last in its file" compares lines as numbers, so only the file is text.
    file = pl.col("source").str.replace(r":\d+$", "")
    order = rows.select("branch_id", "parent_id", "fork_point", "at", "order", "row", file=file).sort(
        "at", "file", "order", nulls_last=False
    )
    kept = order.group_by("branch_id", maintain_order=True).agg(
        row=pl.col("row").last(),
        moved=(pl.col("parent_id").min() != pl.col("parent_id").max()).fill_null(value=False)
        | (pl.col("fork_point").min() != pl.col("fork_point").max()).fill_null(value=False),
    )
    return rows.join(kept.select("row", "moved"), on="row").drop("row")


def lineage(branches: pl.LazyFrame) -> pl.LazyFrame:
    """Add ``family``, ``depth`` and ``cyclic`` to branches, one row each.

    A branch that names itself as parent is invalid by itself; for those below it, it is the top of the lineage.
    ``cyclic``: going up from here reaches a cycle of two or more. ``family`` is then its smallest member.
    """
    schema = {"family": pl.String(), "depth": pl.Int64(), "cyclic": pl.Boolean()}
    ties = branches.select("branch_id", "parent_id").map_batches(
        _climb, schema={"branch_id": pl.String(), **schema}, streamable=False
    )
    return branches.join(ties, on="branch_id", how="left")


def _climb(frame: pl.DataFrame) -> pl.DataFrame:
    """Climb all lineages at once, doubling the step each time."""
    numbered = frame.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    above = numbered.join(
        numbered.select(parent_id="branch_id", above="row"), on="parent_id", how="left", maintain_order="left"
    )
    jump = above["above"].fill_null(_NONE).to_numpy().copy()
    jump[jump == np.arange(len(jump))] = _NONE
    up = jump.copy()
    steps = (jump != _NONE).astype(np.int64)
    top = np.where(jump == _NONE, np.arange(len(jump)), jump)
    for _ in range(max(1, len(jump)).bit_length() + 1):
        moving = jump != _NONE
        if not moving.any():
            break
        steps[moving] += steps[jump[moving]]
        top[moving] = top[jump[moving]]
        jump = np.where(moving, jump[jump], _NONE)
    cyclic = jump != _NONE
    ids = frame["branch_id"].to_list()
    parents = frame["parent_id"].gather(top).to_list() if len(frame) else []
    family = [
        _cycle_name(ids, up, at) if cyclic[at] else (parents[at] if parents[at] is not None else ids[top[at]])
        for at in range(len(ids))
    ]
    below = [parents[at] is not None and parents[at] != ids[top[at]] for at in range(len(ids))]
    depth = [None if cyclic[at] else int(steps[at]) + below[at] for at in range(len(ids))]
    return pl.DataFrame(
        {"branch_id": ids, "family": family, "depth": depth, "cyclic": cyclic},
        schema={"branch_id": pl.String(), "family": pl.String(), "depth": pl.Int64(), "cyclic": pl.Boolean()},
    )


def _cycle_name(ids: list[str], up: np.ndarray, at: int) -> str:
    """Smallest id on the cycle that is reached from here."""
    seen: set[int] = set()
    while at not in seen:
        seen.add(at)
        at = int(up[at])
    first, smallest = at, ids[at]
    while (at := int(up[at])) != first:
        smallest = min(smallest, ids[at])
    return smallest
