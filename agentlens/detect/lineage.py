"""Which receipt of a branch stands, and where the branch hangs in its family (SPEC section 5, gate 1)."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.int64]
Bits: TypeAlias = NDArray[np.bool_]

_NONE: Final = -1


def standing(branches: pl.LazyFrame) -> pl.LazyFrame:
    """One receipt a branch, sorted by branch: the newest, then the last in its file.

    A receipt that was written stands over any that a trace only suggests, whatever their times; those are then
    left out of account. Adds ``moved``: some receipt of the branch names another parent or fork point.
    """
    # Sorted, receipts of one branch are neighbours: that is found without a search, and nothing is sorted later.
    branch = pl.col("branch_id")
    again = (branch == branch.shift(1)) | (branch == branch.shift(-1))
    rows = (
        branches.sort("branch_id", maintain_order=True)
        .with_row_index("row")
        .with_columns(again=again.fill_null(value=False))
        .cache()
    )
    stands = rows.join(_last_of_repeated(rows), on="row", how="left", maintain_order="left")
    return (
        stands.filter(~pl.col("again") | pl.col("moved").is_not_null())
        .with_columns(pl.col("moved").fill_null(value=False))
        .drop("row", "again")
    )


def _last_of_repeated(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Number of the row that stands for each branch with several receipts, and ``moved``."""
    # A source is file and line; "the last in its file" compares lines as numbers, so only the file is text.
    file = pl.col("source").str.replace(r":\d+$", "")
    repeated = rows.filter("again").select(
        "row",
        "branch_id",
        "parent_id",
        "fork_point",
        "at",
        "order",
        file=file,
        inferred=pl.col("inferred").fill_null(value=False),
    )
    weakest = pl.col("inferred") & ~pl.col("inferred").all().over("branch_id")
    ordered = (
        repeated.filter(~weakest)
        .sort("at", "file", "order", nulls_last=False)
        .group_by("branch_id", maintain_order=True)
    )
    return ordered.agg(
        row=pl.col("row").last(),
        moved=(pl.col("parent_id").min() != pl.col("parent_id").max()).fill_null(value=False)
        | (pl.col("fork_point").min() != pl.col("fork_point").max()).fill_null(value=False),
    ).select("row", "moved")


def lineage(branches: pl.LazyFrame) -> pl.LazyFrame:
    """Add ``family``, ``depth``, ``cyclic`` and ``refused`` to branches, one row each.

    A branch that names itself as parent is invalid by itself; for those below it, it is the top of the lineage.
    ``cyclic``: going up from here reaches a cycle of two or more. ``family`` is then its smallest member. What a trace
    suggests moves nothing that was written: an inferred branch that closes a cycle with written ones is ``refused``,
    and for the others it is the top of the lineage.
    """
    ties = {"family": pl.String(), "depth": pl.Int64(), "cyclic": pl.Boolean(), "refused": pl.Boolean()}
    schema = pl.Schema({**branches.collect_schema(), **ties})
    return branches.map_batches(
        lambda frame: frame.hstack(_climb(frame.select("branch_id", "parent_id", "inferred"))),
        schema=schema,
        streamable=False,
    )


def _climb(frame: pl.DataFrame) -> pl.DataFrame:
    """Climb all lineages at once; one row each, in the same order."""
    numbered = frame.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    found = numbered.join(
        numbered.select(parent_id="branch_id", above="row"), on="parent_id", how="left", maintain_order="left"
    )
    up = found["above"].fill_null(_NONE).to_numpy().copy()
    up[up == np.arange(len(up))] = _NONE
    top, steps, cyclic = _doubling(up)
    refused = np.zeros(len(up), dtype=bool)
    if cyclic.any() and (suggested := frame["inferred"].fill_null(value=False).to_numpy()).any():
        refused[_closing(up, np.flatnonzero(cyclic), suggested)] = True
        up[refused] = _NONE
        top, steps, cyclic = _doubling(up)
    ids = frame["branch_id"]
    parents = frame.select(pl.when(~pl.Series(refused)).then("parent_id"))["parent_id"]
    top_id, top_parent = ids.gather(top), parents.gather(top)
    told = pl.DataFrame({"top": top_id, "above": top_parent, "steps": steps, "cyclic": cyclic})
    is_below = (pl.col("above") != pl.col("top")).fill_null(value=False)
    lines = told.select(
        family=pl.coalesce("above", "top"),
        depth=pl.when(~pl.col("cyclic")).then(pl.col("steps") + is_below.cast(pl.Int64)),
        cyclic="cyclic",
        refused=pl.Series(refused),
    )
    if not cyclic.any():
        return lines
    names = ids.to_list()
    cycles = {int(at): min(names[one] for one in _cycle(up, int(at))) for at in np.flatnonzero(cyclic)}
    places = pl.Series(list(cycles), dtype=pl.Int64)
    return lines.with_columns(lines["family"].scatter(places, pl.Series(list(cycles.values()))))


def _doubling(up: Rows) -> tuple[Rows, Rows, Bits]:
    """Top of each row's lineage, the steps up to it, and whether there is none: the step doubles each time."""
    jump = up.copy()
    steps = (jump != _NONE).astype(np.int64)
    top = np.where(jump == _NONE, np.arange(len(jump)), jump)
    for _ in range(max(1, len(jump)).bit_length() + 1):
        moving = jump != _NONE
        if not moving.any():
            break
        steps[moving] += steps[jump[moving]]
        top[moving] = top[jump[moving]]
        jump = np.where(moving, jump[jump], _NONE)
    return top, steps, jump != _NONE


def _closing(up: Rows, cyclic: Rows, suggested: Bits) -> list[int]:
    """Rows that a trace suggests, on cycles that some written row is on too."""
    closing: list[int] = []
    known: set[int] = set()
    for at in cyclic.tolist():
        if at in known:
            continue
        cycle = _cycle(up, at)
        if not known.isdisjoint(cycle):
            continue
        known.update(cycle)
        mine = [row for row in cycle if suggested[row]]
        if len(mine) < len(cycle):
            closing += mine
    return closing


def _cycle(up: Rows, at: int) -> list[int]:
    """Rows on the cycle that is reached from here."""
    seen: set[int] = set()
    while at not in seen:
        seen.add(at)
        at = int(up[at])
    cycle, first = [at], at
    while (at := int(up[at])) != first:
        cycle.append(at)
    return cycle
