"""Leases: which declared waits are in force (SPEC section 3, line 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from agentlens.detect.codes import REASON, SOURCE, code
from agentlens.model.enums import Reason

if TYPE_CHECKING:
    from agentlens.detect.policies import Policies, WaitingTool

MAX_RENEWALS = 3
"""Renewals that a lease may have where its record does not say."""

_FIELDS = ("owner", "waits_on", "deadline", "renewals", "max_renewals")


def may_wait(policies: Policies) -> pl.Expr:
    """Whether an event carries a lease, or the policies file names its tool as one that waits."""
    return pl.any_horizontal(pl.col("lease").is_not_null(), *(_is_such(wait) for wait in policies.waits))


def waiting(lanes: pl.DataFrame, policies: Policies) -> pl.DataFrame:
    """``lease_state`` and ``lease_source`` (codes) for lanes numbered by `in_lanes`.

    The state is that of `Reason`: ``lease`` while one is in force, else why it is not honoured, 0 without
    one. Renewals are the larger of what the record declares and what is seen: later deadlines for the same
    owner and thing waited for on consecutive events.
    """
    leased = (
        lanes.lazy()
        .filter(may_wait(policies))
        .select("row", "start", "at", "tool", "workflow", "action_signature", *map(_own, _FIELDS))
        .with_columns(pl.any_horizontal(pl.col(_FIELDS).is_not_null()).alias("own"))
        .with_columns(*_declared(policies.waits))
        .filter(pl.col("own") | pl.col("filed"))
        .with_columns(_continues().alias("continues"))
        .with_columns(pl.col("deadline").gt(pl.col("deadline").shift(1)).fill_null(False).alias("later"))
        .with_columns((pl.col("continues") & pl.col("later")).cast(pl.Int64).cum_sum().alias("renewed"))
        .with_columns(_seen_renewals().alias("seen"))
        .select(
            "row",
            _state(),
            pl.when("own").then(code(SOURCE["event"])).otherwise(code(SOURCE["file"])).alias("source"),
        )
        .collect(engine="in-memory")
    )
    state, source = np.zeros(lanes.height, dtype=np.uint8), np.zeros(lanes.height, dtype=np.uint8)
    place = leased["row"].to_numpy()
    state[place], source[place] = leased["state"].to_numpy(), leased["source"].to_numpy()
    return pl.DataFrame({"lease_state": state, "lease_source": source})


def _own(field: str) -> pl.Expr:
    return pl.col("lease").struct.field(field).alias(field)


def _is_such(wait: WaitingTool) -> pl.Expr:
    such = pl.col("tool").eq_missing(wait.tool)
    return such if wait.workflow is None else such & pl.col("workflow").eq_missing(wait.workflow)


def _declared(waits: tuple[WaitingTool, ...]) -> list[pl.Expr]:
    """Fill the lease of events of waiting tools that carry none; a tool in one workflow goes before a tool in all."""
    owner, waits_on, deadline = pl.col("owner"), pl.col("waits_on"), pl.col("deadline")
    filed, free = pl.lit(False), ~pl.col("own")
    # grouping is only paid for where the file names a waiting tool
    began = pl.col("at").first().over("start", "tool", "action_signature") if waits else pl.col("at")
    for wait in sorted(waits, key=lambda w: w.workflow is None):
        such = free & _is_such(wait)
        owner = pl.when(such).then(pl.lit(wait.owner)).otherwise(owner)
        waits_on = pl.when(such).then(pl.lit(wait.waits_on or wait.tool)).otherwise(waits_on)
        end = began + pl.duration(microseconds=round(wait.longest_wait_s * 1_000_000))
        deadline = pl.when(such).then(end).otherwise(deadline)
        filed, free = filed | such, free & ~_is_such(wait)
    return [
        filed.alias("filed"),
        (filed & began.is_null()).alias("untimed"),
        owner.alias("owner"),
        waits_on.alias("waits_on"),
        deadline.alias("deadline"),
    ]


def _continues() -> pl.Expr:
    """Whether the event before in the lane carries a lease of the same owner on the same thing."""
    neighbours = (pl.col("row") == pl.col("row").shift(1) + 1) & (pl.col("start") == pl.col("start").shift(1))
    same = [pl.col(name).eq_missing(pl.col(name).shift(1)) for name in ("owner", "waits_on")]
    return pl.all_horizontal(neighbours.fill_null(False), *same)


def _seen_renewals() -> pl.Expr:
    """Renewals since the lease began: the running count less its value where the run of such events began."""
    began = pl.when(pl.col("continues")).then(None).otherwise(pl.col("renewed")).forward_fill()
    return pl.col("renewed") - began


def _state() -> pl.Expr:
    at, deadline, untimed = pl.col("at"), pl.col("deadline"), pl.col("untimed")
    renewals = pl.max_horizontal(pl.col("renewals").fill_null(0), pl.col("seen"))
    return (
        pl.when(pl.col("owner").fill_null("") == "")
        .then(code(REASON[Reason.LEASE_NO_OWNER]))
        .when(deadline.is_null() & ~untimed)
        .then(code(REASON[Reason.LEASE_NO_DEADLINE]))
        .when(at.is_null() | untimed)
        .then(code(REASON[Reason.LEASE_NO_TIME]))
        .when(deadline <= at)
        .then(code(REASON[Reason.LEASE_EXPIRED]))
        .when(renewals > pl.col("max_renewals").fill_null(MAX_RENEWALS))
        .then(code(REASON[Reason.LEASE_RENEWED_TOO_OFTEN]))
        .otherwise(code(REASON[Reason.LEASE]))
        .alias("state")
    )
