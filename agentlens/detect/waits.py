"""Declared waits of handoffs: which are honoured, until when (SPEC section 4, rules 4 and 6)."""

from __future__ import annotations

import polars as pl

from agentlens.detect.receipt_facts import RANK
from agentlens.detect.receipt_times import NUMBER


def honoured_waits(rows: pl.LazyFrame, wait_limit_us: int) -> pl.LazyFrame:
    """One row a handoff that ever waited: when its honoured waits ended, and the wait it stands in.

    A wait is honoured when it names a reason or an owner and its deadline (or, without one, ``wait_limit``) lies
    after it. It ends at its next receipt or its deadline, the earlier. ``wait_end``: the newest end not after
    ``as_of``. ``wait_until``, ``wait_owner``, ``wait_open``: deadline, owner and lack of a deadline of the newest
    receipt, where that is an honoured wait.
    """
    is_wait = pl.col("rank") == RANK["waiting"]
    # Receipts beside a wait matter only by where they stand; what a wait says is read from its own.
    waited = rows.filter(is_wait).select(NUMBER).unique()
    own = rows.select(NUMBER, "t", "rank").join(waited, on=NUMBER, how="semi")
    told = rows.filter(is_wait).select(NUMBER, "t", "rank", "reason", "owner", "at", "deadline", "as_of")
    steps = own.unique().sort(NUMBER, "t", "rank")
    is_same = pl.col(NUMBER) == pl.col(NUMBER).shift(-1)
    following = steps.with_columns(following=pl.when(is_same).then(pl.col("t").shift(-1)))
    waits = told.join(following, on=[NUMBER, "t", "rank"], how="left")
    until = pl.coalesce(pl.col("deadline").cast(pl.Int64), pl.col("t") + wait_limit_us)
    named = (pl.col("reason").fill_null("") != "") | (pl.col("owner").fill_null("") != "")
    honoured = waits.with_columns(until=until).filter(
        named & pl.col("at").is_not_null() & (pl.col("until") > pl.col("t"))
    )
    end = pl.min_horizontal("following", "until")
    stands = pl.col("following").is_null()
    return (
        honoured.with_columns(end=end, open=pl.col("deadline").is_null())
        .group_by(NUMBER)
        .agg(
            wait_end=pl.col("end").filter(pl.col("end") <= pl.col("as_of")).max(),
            wait_until=pl.col("until").filter(stands).max(),
            wait_dated=pl.col("until").filter(stands & ~pl.col("open")).max(),
            wait_owner=pl.col("owner").filter(stands).min(),
        )
    )
