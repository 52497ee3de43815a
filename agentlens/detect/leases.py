"""Leases: which declared waits are in force (SPEC section 3, line 3)."""

from __future__ import annotations

import polars as pl

from agentlens.detect.lanes import previous
from agentlens.detect.policies import Policies, WaitingTool
from agentlens.model.enums import Reason

MAX_RENEWALS = 3
"""Renewals that a lease may have where its record does not say."""

_FIELDS = ("owner", "waits_on", "deadline", "renewals", "max_renewals")


def with_leases(lanes: pl.LazyFrame, policies: Policies) -> pl.LazyFrame:
    """Add ``lease_state``: null without a lease, ``lease`` while one is in force, else why it is not honoured.

    Also ``lease_source``: ``event`` or ``file``. ``renewals`` is the larger of what the record declares and
    what is seen: later deadlines for the same owner and thing waited for on consecutive events.
    """
    return (
        lanes.with_columns(_own(name) for name in _FIELDS)
        .with_columns(pl.any_horizontal(pl.col(_name(f)).is_not_null() for f in _FIELDS).alias("_own_lease"))
        .with_columns(*_declared(policies.waits))
        .with_columns((pl.col("_own_lease") | pl.col("_file_lease")).alias("_leased"))
        .with_columns(_continues().alias("_continues"))
        .with_columns(
            (pl.col("_continues") & (pl.col(_name("deadline")) > previous(_name("deadline"))))
            .fill_null(False)
            .alias("_later")
        )
        .with_columns(pl.col("_later").cast(pl.Int64).cum_sum().alias("_renewed"))
        .with_columns(_seen_renewals().alias("_seen"))
        .with_columns(
            _state().alias("lease_state"),
            pl.when(pl.col("_leased"))
            .then(pl.when(pl.col("_own_lease")).then(pl.lit("event")).otherwise(pl.lit("file")))
            .alias("lease_source"),
        )
        .drop(
            "_own_lease",
            "_file_lease",
            "_leased",
            "_continues",
            "_later",
            "_renewed",
            "_seen",
            "_untimed",
            *map(_name, _FIELDS),
        )
    )


def waits(policies: Policies) -> pl.Expr:
    """Whether the policies file names the tool of an event as one that waits."""
    return pl.any_horizontal(pl.lit(False), *(_is_such(wait) for wait in policies.waits))


def _name(field: str) -> str:
    return f"_lease_{field}"


def _own(field: str) -> pl.Expr:
    return pl.col("lease").struct.field(field).alias(_name(field))


def _is_such(wait: WaitingTool) -> pl.Expr:
    such = pl.col("tool").eq_missing(wait.tool)
    return such if wait.workflow is None else such & pl.col("workflow").eq_missing(wait.workflow)


def _declared(waiting: tuple[WaitingTool, ...]) -> list[pl.Expr]:
    """Fill the lease of events of waiting tools that carry none; a tool in one workflow goes before a tool in all."""
    owner, waits_on = pl.col(_name("owner")), pl.col(_name("waits_on"))
    deadline = pl.col(_name("deadline"))
    missing = ~pl.col("_own_lease")
    free = missing
    began = pl.col("at").first().over("start", "tool", "action_signature")
    filed = pl.lit(False)
    for wait in sorted(waiting, key=lambda w: w.workflow is None):
        such = free & _is_such(wait)
        owner = pl.when(such).then(pl.lit(wait.owner)).otherwise(owner)
        waits_on = pl.when(such).then(pl.lit(wait.waits_on or wait.tool)).otherwise(waits_on)
        end = began + pl.duration(microseconds=round(wait.longest_wait_s * 1_000_000))
        deadline = pl.when(such).then(end).otherwise(deadline)
        free = free & ~_is_such(wait)
        filed = filed | such
    return [
        (filed & began.is_null()).alias("_untimed"),
        owner.alias(_name("owner")),
        waits_on.alias(_name("waits_on")),
        deadline.alias(_name("deadline")),
        filed.alias("_file_lease"),
    ]


def _continues() -> pl.Expr:
    """Whether the event before carries a lease of the same owner on the same thing."""
    same = [pl.col(_name(f)).eq_missing(previous(_name(f))) for f in ("owner", "waits_on")]
    return pl.all_horizontal(pl.col("_leased"), previous("_leased").fill_null(False), *same)


def _seen_renewals() -> pl.Expr:
    """Renewals since the lease began: the running count less its value where the run of such events began."""
    began = pl.when(pl.col("_continues")).then(None).otherwise(pl.col("_renewed")).forward_fill()
    return pl.col("_renewed") - began


def _state() -> pl.Expr:
    owner, deadline, at = pl.col(_name("owner")), pl.col(_name("deadline")), pl.col("at")
    renewals = pl.max_horizontal(pl.col(_name("renewals")).fill_null(0), pl.col("_seen"))
    allowed = pl.col(_name("max_renewals")).fill_null(MAX_RENEWALS)
    return (
        pl.when(~pl.col("_leased"))
        .then(None)
        .when(owner.fill_null("") == "")
        .then(pl.lit(str(Reason.LEASE_NO_OWNER)))
        .when(deadline.is_null() & ~pl.col("_untimed"))
        .then(pl.lit(str(Reason.LEASE_NO_DEADLINE)))
        .when(at.is_null() | pl.col("_untimed"))
        .then(pl.lit(str(Reason.LEASE_NO_TIME)))
        .when(deadline <= at)
        .then(pl.lit(str(Reason.LEASE_EXPIRED)))
        .when(renewals > allowed)
        .then(pl.lit(str(Reason.LEASE_RENEWED_TOO_OFTEN)))
        .otherwise(pl.lit(str(Reason.LEASE)))
    )
