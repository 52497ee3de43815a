"""One act of handing over that a trace tells of twice: by the tool, and by the caller's span of the agent."""

from __future__ import annotations

import polars as pl


def pairs(handoffs: pl.DataFrame) -> pl.DataFrame:
    """Return which caller's span tells of the same act as which tool.

    The caller's span stands directly below the tool's, or beside it (below the same span, and not begun before it), and
    names the same addressee, or one of them names none.

    Parameters
    ----------
    handoffs
        ``handoff`` (an id), ``run_id, span_id`` (null for the caller's side), ``parent_span_id, target, at``.

    Returns
    -------
    pl.DataFrame
        ``above`` (the tool's handoff) and ``handoff`` (the caller's), one row a pair.

    Examples
    --------
    >>> rows = {"handoff": [1, 2], "run_id": ["r", "r"], "span_id": ["s1", None], "parent_span_id": ["t", "s1"]}
    >>> pairs(pl.DataFrame(rows | {"target": ["writer", "writer"], "at": [0, 1]})).rows()
    [(1, 2)]
    """
    tool = pl.col("span_id").is_not_null()
    outer = handoffs.filter(tool).select(
        "run_id", "span_id", beside="parent_span_id", above="handoff", asked="target", asked_at="at"
    )
    inner = handoffs.filter(~tool).drop_nulls("parent_span_id").drop("span_id")
    same = pl.col("asked").is_null() | pl.col("target").is_null() | (pl.col("asked") == pl.col("target"))
    below = (
        inner.join(outer, left_on=["run_id", "parent_span_id"], right_on=["run_id", "span_id"])
        .filter(same)
        .sort("above", "at", "handoff", nulls_last=True)
        .unique("above", keep="first", maintain_order=True)
        .select("above", "handoff")
    )
    siblings = (
        inner.join(below, on="handoff", how="anti")
        .join(outer, left_on=["run_id", "parent_span_id"], right_on=["run_id", "beside"])
        .join(below, on="above", how="anti")
        .filter(same, pl.col("asked_at") <= pl.col("at"))
        .sort("at", "handoff", "asked_at", "above", descending=[False, False, True, False])
        .select("above", "handoff")
    )
    return pl.concat([below, _one_each(siblings)])


def _one_each(siblings: pl.DataFrame) -> pl.DataFrame:
    """Give each caller's span, in order of time, the newest handoff before it that no other has been given."""
    given: dict[object, object] = {}
    callers: set[object] = set()
    for above, caller in siblings.iter_rows():
        if above not in given and caller not in callers:
            given[above] = caller
            callers.add(caller)
    return pl.DataFrame(list(given.items()), schema=siblings.schema, orient="row")
