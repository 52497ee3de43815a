"""One run that came through several readers: whose word stands."""

from __future__ import annotations

import polars as pl

from agentlens.model.event import ACTIONS

_STEP = ("wait", *ACTIONS)  # what an agent did; told by both readers, it would count twice
_LANE_OF_READER = ("run_id", "place", "agent")


def prefer_readers(records: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Of a run that came through several readers keep the steps of the best one, and lanes that it lacks.

    The reader of larger ``reader_rank`` is better, then the one with more actions, then the first by name.
    Of each other kind of record (a verdict, model calls, messages) the best reader that has any keeps its
    rows: what only the other knows stays, what both tell is not counted twice. A lane that only another
    reader has (`untold_lanes`) keeps all its rows.

    Parameters
    ----------
    records
        `RECORDS` rows, merged, agents inherited, instances not yet marked.

    Returns
    -------
    kept, elsewhere
        The rows that stay, in their order; and per ``source_id`` how many were left out because another
        export tells them (``elsewhere``), sorted.
    """
    if records.select(pl.col("reader").n_unique()).item() < 2:
        return records, _counted(records.clear())
    readers = records.group_by("run_id", "reader").agg(
        rank=pl.col("reader_rank").max(), actions=pl.col("kind").is_in(ACTIONS).sum()
    )
    several = readers.filter(pl.len().over("run_id") > 1)
    if several.is_empty():
        return records, _counted(records.clear())
    order = several.sort("run_id", "rank", "actions", "reader", descending=[False, True, True, False])
    order = order.select("run_id", "reader", place=pl.int_range(pl.len()).over("run_id"))
    group = pl.when(pl.col("kind").is_in(_STEP)).then(pl.lit("step")).otherwise("kind")
    placed = records.join(
        order, on=["run_id", "reader"], how="left", maintain_order="left", nulls_equal=True
    ).with_columns(group=group)
    lanes = untold_lanes(placed).with_columns(untold=pl.lit(True))
    acting = pl.when(pl.col("kind").is_in(ACTIONS)).then("place").min().over("run_id", "group")
    best = pl.coalesce(acting, pl.col("place").min().over("run_id", "group"))  # one that only waits is not it
    judged = placed.join(lanes, on=_LANE_OF_READER, how="left", maintain_order="left").with_columns(
        stays=pl.col("place").is_null() | (pl.col("place") == best) | pl.col("untold").is_not_null()
    )
    kept = judged.filter("stays").select(records.columns)
    return kept, _counted(judged.filter(~pl.col("stays")))


def untold_lanes(placed: pl.DataFrame) -> pl.DataFrame:
    """Return the lanes with actions that the best reader of their run does not tell.

    Only where the names of lanes correspond, that is, both readers have actions in a lane of one name; and
    only of the next best such reader, for the lanes of a third may be those of the second under other
    names. The best reader may also tell a lane under another name, or inside its parent's: a lane is told
    where it has actions of the same signatures to spare for at least half of the lane's.

    Parameters
    ----------
    placed
        Records with ``place``: 0 for the best reader of a run, then 1, 2; null where there is only one.

    Returns
    -------
    pl.DataFrame
        ``run_id, place, agent``, sorted.
    """
    actions = placed.filter(pl.col("kind").is_in(ACTIONS) & pl.col("place").is_not_null()).select(
        *_LANE_OF_READER, "action_signature", best=pl.col("place").min().over("run_id")
    )
    stands = actions.filter(pl.col("place") == pl.col("best"))
    others = actions.filter(pl.col("place") > pl.col("best"))
    named = stands.select("run_id", "agent").unique()
    common = others.join(named, on=["run_id", "agent"], how="semi")
    own = (
        others.join(named, on=["run_id", "agent"], how="anti")
        .join(common, on=["run_id", "place"], how="semi")
        .filter(pl.col("place") == pl.col("place").min().over("run_id"))
    )
    same = ("run_id", "action_signature")
    told = (
        _numbered(own, (*_LANE_OF_READER, "action_signature"), "n")
        .join(_numbered(stands, same, "there"), on=same, how="left", nulls_equal=True)
        .join(
            _numbered(common, (*same, "place"), "matched"), on=(*same, "place"), how="left", nulls_equal=True
        )
        .with_columns(spare=pl.col("there").fill_null(0) - pl.col("matched").fill_null(0))
        .with_columns(told=pl.min_horizontal("n", pl.col("spare").clip(lower_bound=0)))
    )
    return (
        told.group_by(_LANE_OF_READER)
        .agg(pl.col("n", "told").sum())
        .filter(2 * pl.col("told") < pl.col("n"))
        .select(_LANE_OF_READER)
        .sort(_LANE_OF_READER)
    )


def _numbered(actions: pl.DataFrame, by: tuple[str, ...], name: str) -> pl.DataFrame:
    return actions.group_by(by).agg(pl.len().cast(pl.Int64).alias(name))


def _counted(left_out: pl.DataFrame) -> pl.DataFrame:
    return left_out.group_by("source_id").agg(pl.len().cast(pl.Int64).alias("elsewhere")).sort("source_id")
