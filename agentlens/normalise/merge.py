"""Records of one action become one row; records said twice are counted once."""

from __future__ import annotations

import polars as pl

from agentlens.model.event import ACTIONS, CONTENT
from agentlens.model.record import RECORDS

KEY = ("run_id", "identity")
LATER = ("record_at", "seq_given", "position", "position_in", "source_id")
"""Which of two records is the later one: by time, then the export's number, then where it stands.

No part of it depends on the order in which sources were ingested; time stands first so that the lines of a
file may come in any order.
"""
PLACE = ("source", "source_id", "position", "position_in")
"""Where a record stands; the row of a merged action keeps the place of its first record."""

_TEXT_DEFAULTS = ("agent", "tool")  # "" in these is "not said here", which never hides what was said


def with_record_time(records: pl.DataFrame) -> pl.DataFrame:
    """Add ``record_at``, the newest time that a record carries itself."""
    return records.with_columns(record_at=pl.max_horizontal("at", "ended_at"))


def merge(records: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Merge records that share ``(run_id, identity)``.

    Parameters
    ----------
    records
        `RECORDS` rows (and `CONTENT`), any order, run ids final.

    Returns
    -------
    merged, dropped
        One row an identity, and all rows without one; and, per ``source_id``, how many rows said exactly
        what another had said (``dropped``) and how many were folded into another (``folded``).
    """
    records = with_record_time(records)
    twice = (
        records.select(KEY)
        .filter(pl.col("identity").is_not_null() & pl.col("identity").hash().is_duplicated())
        .group_by(KEY)
        .agg(pl.len().alias("n"))
        .filter(pl.col("n") > 1)
        .select(KEY)
    )
    if twice.is_empty():
        return records, _counts(records.clear(), "dropped", "folded")
    shared = records.join(twice, on=KEY, how="semi", maintain_order="left").sort(
        *KEY, *LATER, nulls_last=[False] * (len(KEY) + len(LATER))
    )
    said = [name for name in records.columns if name not in PLACE]
    kept = shared.unique(subset=said, keep="first", maintain_order=True)
    whole = kept.group_by(KEY, maintain_order=True).agg(_folded(kept.columns)).select(records.columns)
    single = records.join(twice, on=KEY, how="anti", maintain_order="left")
    dropped = shared.join(kept, on=[*PLACE[1:]], how="anti")
    folded = kept.join(whole, on=[*PLACE[1:]], how="anti")
    return pl.concat([single, whole]), _counts(dropped, "dropped", "folded", folded)


_SPANS = "otlp"
"""Readers of spans recognise a call that nested instrumentations tell twice by themselves, but a large file is
read in ranges, and the two spans may stand in two of them."""


def join_twins(records: pl.DataFrame) -> pl.DataFrame:
    """Give a span right inside a span of the same call that one's identity, where no reader saw both.

    The same call: same kind and tool, and signatures that do not differ. Of several spans inside only the
    first is the same call, the next is another attempt.
    """
    asks = pl.col("reader").str.starts_with(_SPANS) & pl.col("kind").is_in(["tool", "model"])
    told = ("kind", "tool", "span_id", "parent_span_id", "action_signature", "at", "position", "position_in")
    asked = asks & pl.col("identity").is_not_null() & pl.col("span_id").is_not_null()
    calls = records.select(*KEY, "reader", *told).filter(asked).drop("reader")
    same = ["run_id", "kind", "tool"]
    around = calls.filter(pl.col("span_id").is_in(pl.col("parent_span_id").unique().implode()))
    within = calls.filter(pl.col("parent_span_id").is_in(around["span_id"].unique().implode()))
    pairs = within.join(
        around.select(*same, "span_id", outer="identity", outer_signature="action_signature"),
        left_on=[*same, "parent_span_id"],
        right_on=[*same, "span_id"],
        how="inner",
    ).filter(
        pl.col("identity") != pl.col("outer"),
        (pl.col("action_signature") == pl.col("outer_signature")).fill_null(True),
    )
    if pairs.is_empty():
        return records
    known = calls.group_by(KEY).agg(pl.col("span_id").n_unique().alias("n")).filter(pl.col("n") > 1)
    twins = (
        pairs.join(known, on=KEY, how="anti")
        .join(known, left_on=["run_id", "outer"], right_on=KEY, how="anti")
        .sort("run_id", "outer", "at", "position", "position_in", "identity", nulls_last=True)
        .unique(["run_id", "outer"], keep="first", maintain_order=True)
        .unique(KEY, keep="first", maintain_order=True)
        .select(*KEY, "outer")
    )
    return (
        records.join(twins, on=KEY, how="left", maintain_order="left")
        .with_columns(identity=pl.coalesce("outer", "identity"))
        .drop("outer")
    )


def disputed(records: pl.DataFrame) -> pl.DataFrame:
    """Count, per ``source_id``, the runs that another source of the same format tells otherwise.

    They share the run's name and nothing else: at least half of the actions that both number alike are different
    calls. Spans are named all over the world, and left out.

    Parameters
    ----------
    records
        `RECORDS` rows, run ids final, not merged yet.

    Returns
    -------
    pl.DataFrame
        ``source_id, disputed``, sorted.
    """
    placed = pl.col("identity").is_not_null() & ~pl.col("identity").str.starts_with("span:")
    told = records.lazy().filter(
        placed & pl.col("kind").is_in(ACTIONS) & pl.col("action_signature").is_not_null()
    )
    by = ["run_id", "reader"]
    several = told.group_by(by).agg(n=pl.col("source_id").n_unique()).filter(pl.col("n") > 1)
    runs = (
        told.join(several, on=by, how="semi")
        .group_by(*by, "identity")
        .agg(sources=pl.col("source_id").n_unique(), calls=pl.col("action_signature").n_unique())
        .filter(pl.col("sources") > 1)
        .group_by(by)
        .agg(share=(pl.col("calls") > 1).mean())
        .filter(pl.col("share") >= 0.5)
    )
    rows = told.join(runs, on=by, how="semi").group_by("source_id")
    return rows.agg(disputed=pl.col("run_id").n_unique().cast(pl.Int64)).sort("source_id").collect()


def _folded(columns: list[str]) -> list[pl.Expr]:
    """Say for each column which record's value stands."""
    return [_stands(name) for name in columns if name not in KEY]


def _stands(name: str) -> pl.Expr:
    column = pl.col(name)
    if name in PLACE:
        return column.first()
    if name in _TEXT_DEFAULTS:
        return pl.coalesce(column.filter(column != "").last(), column.drop_nulls().last())
    if name == "kind":  # ``tool`` is what a record that only carries a result calls itself
        return pl.coalesce(column.filter(column != "tool").last(), column.last())
    if name == "open":  # a start and its end: the end says that it is no longer open
        return column.min()
    if name in {"external_input", "has_given"}:
        return column.max()
    return column.drop_nulls().last()


def _counts(dropped: pl.DataFrame, one: str, other: str, folded: pl.DataFrame | None = None) -> pl.DataFrame:
    return (
        pl.concat(
            [
                dropped.select("source_id", pl.lit(1).alias(one), pl.lit(0).alias(other)),
                (dropped.clear() if folded is None else folded).select(
                    "source_id", pl.lit(0).alias(one), pl.lit(1).alias(other)
                ),
            ]
        )
        .group_by("source_id")
        .agg(pl.col(one, other).sum().cast(pl.Int64))
        .sort("source_id")
    )


def columns_of(records: pl.DataFrame) -> list[str]:
    """Return the columns that are carried through: those of `RECORDS`, and of `CONTENT` where present."""
    return [*RECORDS.names(), *(name for name in CONTENT if name in records.columns)]
