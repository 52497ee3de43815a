"""What the receipts of one handoff say together: times of each transition, and where they disagree.

Everything here is a minimum, a maximum or an "any" over the receipts of a handoff, so that neither the order in
which receipts arrive nor how often one is repeated can change an answer. What needs pairs of receipts (waits,
implied acceptance, outcomes that differ) is looked for only in the handoffs that can have it.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from agentlens.detect.receipt_times import NUMBER, OUTCOMES, RANKS, with_seen
from agentlens.model.receipt import ReceiptEvent

HANDOFF: Final = ("operation_id", "handoff_id")

_EVENTS: Final = [str(event) for event in ReceiptEvent]
RANK: Final = {event: rank for rank, event in enumerate(_EVENTS)}
"""Place of each transition in the order of life, which breaks ties of time."""

_UNKNOWN_RANK: Final = len(_EVENTS)
_OUTCOMES: Final = ["unknown", "failed", "passed"]


def receipt_rows(receipts: pl.LazyFrame, as_of: pl.Expr | None) -> pl.LazyFrame:
    """Receipts not after ``as_of`` with ``number``, ``t`` (microseconds, or position where untimed) and ``rank``.

    ``as_of`` is the newest time in the data where none is given. Untimed receipts, which only a trace without
    times yields, are never after it.
    """
    known = pl.col("event").cast(pl.Enum(_EVENTS), strict=False).to_physical()
    at = pl.col("at").cast(pl.Int64)
    rows = receipts.with_columns(
        as_of=(pl.col("at").max() if as_of is None else as_of).cast(pl.Datetime("us", "UTC")).cast(pl.Int64),
        t=pl.coalesce(at, "order"),
        rank=known.fill_null(_UNKNOWN_RANK).cast(pl.Int64),
    )
    if as_of is not None:
        rows = rows.filter((at <= pl.col("as_of")) | pl.col("at").is_null())
    numbered = rows.with_row_index(NUMBER)
    return numbered.with_columns(pl.col(NUMBER).min().over(HANDOFF))


def handoff_facts(rows: pl.LazyFrame) -> pl.LazyFrame:
    """One row a handoff: first and last times per transition, the parties, and what was seen at all.

    Sorted by `HANDOFF`, where there are few columns to sort; the joins that follow keep this order.
    """
    outcome = pl.col("outcome").cast(pl.Enum(_OUTCOMES), strict=False).to_physical()
    asked = rows.with_columns(
        outcome_code=outcome.fill_null(0).cast(pl.Int64),
        untimed=pl.col("at").is_null(),
        unverifiable=pl.col("verifiable").not_(),
    )
    facts = with_seen(asked, (NUMBER, *HANDOFF, "as_of")).sort(HANDOFF)
    for more in (_of_delegations(rows), _of_acceptances(rows)):
        facts = facts.join(more, on=NUMBER, how="left", maintain_order="left")
    return facts.with_columns(newest_verified=pl.col("newest_outcome") // OUTCOMES)


def _of_delegations(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Giver, taker and urgency as the delegations of a handoff name them, and where they stand."""
    return _smallest_and_largest(
        rows.filter(pl.col("rank") == RANK["delegated"]),
        {"giver": "author", "taker": "recipient", "urgency": "urgency", "source": "source"},
        {"taker_other": "recipient", "urgency_other": "urgency"},
    )


def _of_acceptances(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Who accepted, and who else."""
    accepted = rows.filter(pl.col("rank") == RANK["accepted"])
    return _smallest_and_largest(accepted, {"accepter": "author"}, {"accepter_other": "author"})


def _smallest_and_largest(
    rows: pl.LazyFrame, smallest: dict[str, str], largest: dict[str, str]
) -> pl.LazyFrame:
    """Smallest and largest text per handoff; the one receipt that most handoffs have needs no comparison."""
    again = pl.col(NUMBER).is_duplicated()
    single = rows.filter(~again).select(NUMBER, **smallest, **largest)
    repeated = rows.filter(again).group_by(NUMBER)
    compared = repeated.agg(
        **{name: pl.col(column).min() for name, column in smallest.items()},
        **{name: pl.col(column).max() for name, column in largest.items()},
    )
    return pl.concat([single, compared])


def newest_event() -> pl.Expr:
    """Name of the newest transition: largest time, ties by lifecycle order."""
    names = dict(enumerate([*_EVENTS, "unknown"]))
    return (pl.col("newest") % RANKS).replace_strict(names, return_dtype=pl.String)


def newest_time() -> pl.Expr:
    """Time of the newest transition."""
    return pl.col("newest") // RANKS


def newest_outcome() -> pl.Expr:
    """Outcome that the newest `outcome_verified` gives; null without one."""
    names = dict(enumerate(_OUTCOMES))
    return (pl.col("newest_outcome") % OUTCOMES).replace_strict(names, return_dtype=pl.String)


def implied_acceptance(rows: pl.LazyFrame, facts: pl.LazyFrame) -> pl.LazyFrame:
    """First later receipt of the recipient, in handoffs nobody accepted explicitly.

    Where no recipient is named, it is whoever but the giver reports work.
    """
    silent = facts.filter(
        pl.col("accepted_first").is_null()
        & pl.col("delegated").is_not_null()
        & (newest_time() >= pl.col("delegated"))
        & pl.min_horizontal("work_first", "verified_first").is_not_null()
    ).select(
        NUMBER,
        "delegated",
        "giver",
        named=pl.col("taker").is_not_null(),
    )
    work = [RANK[event] for event in ("progress", "waiting", "completed")]
    later = rows.filter(pl.col("rank").is_in([*work, RANK["outcome_verified"]])).join(silent, on=NUMBER)
    takers = rows.filter(pl.col("rank") == RANK["delegated"]).select(NUMBER, "recipient").drop_nulls()
    by_recipient = later.filter("named").join(
        takers, left_on=[NUMBER, "author"], right_on=[NUMBER, "recipient"], how="semi"
    )
    by_anyone = later.filter(
        ~pl.col("named") & (pl.col("author") != pl.col("giver")) & pl.col("rank").is_in(work)
    )
    implied = pl.concat([by_recipient, by_anyone]).filter(pl.col("t") >= pl.col("delegated"))
    return implied.group_by(NUMBER).agg(implied_first=pl.col("t").min())


def differing_outcomes(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Handoffs in which two outcomes of the same time differ (``outcomes_differ`` is true)."""
    verified = rows.filter(pl.col("rank") == RANK["outcome_verified"])
    outcomes = verified.filter(pl.col(NUMBER).is_duplicated()).select(
        NUMBER, "t", outcome=pl.col("outcome").fill_null("unknown")
    )
    per_time = outcomes.unique().group_by(NUMBER, "t").agg(pl.len())
    return (
        per_time.filter(pl.col("len") > 1).select(NUMBER).unique().with_columns(outcomes_differ=pl.lit(True))
    )


def first_urgency(rows: pl.LazyFrame, facts: pl.LazyFrame) -> pl.LazyFrame:
    """Urgency at the first delegation, where delegations of one handoff name different ones."""
    several = facts.filter(pl.col("urgency") != pl.col("urgency_other")).select(NUMBER, "delegated")
    firsts = rows.join(several, on=NUMBER).filter(
        (pl.col("rank") == RANK["delegated"]) & (pl.col("t") == pl.col("delegated"))
    )
    return firsts.group_by(NUMBER).agg(first_urgency=pl.col("urgency").min())


def failing_receipts(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Sources of the receipts whose author failed authentication, per handoff."""
    forged = rows.filter(pl.col("auth") == "forged")
    return forged.group_by(NUMBER).agg(failing_receipts=pl.col("source").unique().sort())


def inferred_from(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Rule and run of the receipts that were read out of a trace."""
    inferred = rows.filter(pl.col("inferred"))
    return inferred.group_by(NUMBER).agg(pl.col("rule").min(), pl.col("run_id").min())


def attempts(facts: pl.LazyFrame) -> pl.LazyFrame:
    """Which attempt of its operation a handoff is, by first delegation and then by id, where there are several.

    ``facts`` are sorted by id, so that attempts of one operation are neighbours.
    """
    operation = pl.col("operation_id")
    first = (operation != operation.shift(1)).fill_null(value=True)
    runs = facts.select(
        NUMBER,
        started=pl.coalesce("delegated", newest_time()),
        operation=first.cum_sum(),
        single=first & first.shift(-1, fill_value=True),
    )
    several = runs.filter(~pl.col("single")).sort("operation", "started", maintain_order=True)
    nth = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("operation")
    return several.select(NUMBER, attempt=nth)
