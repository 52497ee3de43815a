"""Was a handoff accepted, and was its result verified (SPEC section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from agentlens.detect.handoff_limits import HandoffLimits, to_us
from agentlens.detect.receipt_facts import (
    attempts,
    differing_outcomes,
    failing_receipts,
    first_urgency,
    handoff_facts,
    implied_acceptance,
    inferred_from,
    newest_event,
    newest_outcome,
    newest_time,
    receipt_rows,
)
from agentlens.detect.receipt_times import NUMBER
from agentlens.detect.receipts_auth import verify_macs
from agentlens.detect.suggest import next_step, suggested
from agentlens.detect.waits import honoured_waits
from agentlens.model.event import TIME
from agentlens.model.handoff import DISAGREEMENTS, HANDOFFS
from agentlens.model.native import LAST_US

if TYPE_CHECKING:
    from datetime import datetime

    from agentlens.detect.receipts_auth import AuthorKeys

_DEFAULT: Final = HandoffLimits()


def handoffs(
    receipts: pl.LazyFrame,
    limits: HandoffLimits = _DEFAULT,
    *,
    as_of: datetime | None = None,
    keys: AuthorKeys | None = None,
) -> pl.LazyFrame:
    """Judge every handoff at one moment.

    Parameters
    ----------
    receipts
        Rows of schema `RECEIPTS`, in any order, with any repetitions.
    limits
        Time limits; acknowledgement limits per urgency class.
    as_of
        The moment; receipts after it are ignored. The newest time in the data where None.
    keys
        Keys of authors; where given, receipts are authenticated.

    Returns
    -------
    pl.LazyFrame
        Schema `HANDOFFS`, sorted by operation and handoff; handoffs with no receipt yet are left out.

    Examples
    --------
    >>> from agentlens.model.raw import RawReceipt
    >>> from agentlens.model.receipt import receipts_frame
    >>> one = {"operation_id": "op", "handoff_id": "op/1", "event": "delegated", "author": "lead"}
    >>> told = [RawReceipt(fields={**one, "at": 0}), RawReceipt(fields={**one, "operation_id": "x", "at": 121})]
    >>> handoffs(receipts_frame(told, source="r").frame.lazy()).collect()["state"].to_list()
    ['orphaned', 'delegated']
    """
    moment = None if as_of is None else pl.lit(as_of, dtype=TIME)
    rows = receipt_rows(receipts, moment).cache()
    facts = handoff_facts(rows).cache()
    rare = [
        implied_acceptance(rows, facts),
        differing_outcomes(rows),
        honoured_waits(rows, to_us(limits.wait_limit_s)),
        first_urgency(rows, facts),
        inferred_from(rows),
        attempts(facts),
    ]
    if keys is not None:
        rare.append(failing_receipts(verify_macs(rows, keys)))
    told = _with_rare(facts, rare, rows, signed=keys is not None)
    judged = (
        told.with_columns(_parties())
        .with_columns(ack_limit_us=_ack_limit(limits), disagreement=_disagreement(to_us(limits.clock_skew_s)))
        .with_columns(state=_state(limits), attempt=pl.col("attempt").fill_null(1))
        .with_columns(next_step(limits), reason=_reason())
        .with_columns(suggested(limits))
    )
    # in the order of the facts, which are sorted by handoff
    return judged.select(_outputs(limits)).cast(dict(HANDOFFS))  # type: ignore[arg-type]


def _with_rare(
    facts: pl.LazyFrame, rare: list[pl.LazyFrame], rows: pl.LazyFrame, *, signed: bool
) -> pl.LazyFrame:
    """Join the facts that few handoffs have, in one join."""
    empty = pl.LazyFrame(schema={NUMBER: pl.get_index_type(), **_RARE})
    found = pl.concat([empty, *rare], how="diagonal").group_by(NUMBER).agg(map(_that_is_there, _RARE))
    told = facts.join(found, on=NUMBER, how="left", maintain_order="left")
    if not signed:
        return told.with_columns(unsigned=pl.lit(None, dtype=pl.Boolean))
    without = rows.group_by(NUMBER).agg(unsigned=pl.col("mac").is_null().any())
    return told.join(without, on=NUMBER, how="left", maintain_order="left")


_RARE: Final = {
    "implied_first": pl.Int64(),
    "outcomes_differ": pl.Boolean(),
    "wait_end": pl.Int64(),
    "wait_until": pl.Int64(),
    "wait_dated": pl.Int64(),
    "wait_owner": pl.String(),
    "first_urgency": pl.String(),
    "failing_receipts": pl.List(pl.String),
    "rule": pl.String(),
    "run_id": pl.String(),
    "attempt": pl.Int64(),
}


def _that_is_there(name: str) -> pl.Expr:
    """The value that is there: each rare fact comes from one row at most."""
    column = pl.col(name)
    return column.drop_nulls().first() if isinstance(_RARE[name], pl.List) else column.max()


def _parties() -> list[pl.Expr]:
    """Acceptance, explicit or implied, and the urgency that counts."""
    return [
        pl.coalesce("accepted_first", "implied_first").alias("accepted_at"),
        (pl.col("accepted_first").is_null() & pl.col("implied_first").is_not_null()).alias("implied_ack"),
        pl.coalesce("first_urgency", "urgency").alias("urgency"),
        pl.col("as_of").alias("now"),
        newest_event().alias("newest_event"),
        newest_outcome().alias("outcome"),
    ]


def _ack_limit(limits: HandoffLimits) -> pl.Expr:
    """Acknowledgement limit of the handoff's urgency class, in microseconds."""
    default = to_us(limits.ack_limit_s)
    if not limits.ack_limits:
        return pl.lit(default, dtype=pl.Int64)
    return pl.col("urgency").replace_strict(limits.ack_limits_us, default=default, return_dtype=pl.Int64)


def _before(early: str, late: str, by_us: int) -> pl.Expr:
    """``early`` should not lie before ``late``, and does, by more than this; false where either is missing."""
    return (~pl.col("untimed") & (pl.col(late) - pl.col(early) > by_us)).fill_null(value=False)


def _disagreements(skew_us: int) -> dict[str, pl.Expr]:
    """Each way in which receipts can disagree, as a boolean; the names are `DISAGREEMENTS`."""
    accepter, taker = pl.col("accepter"), pl.col("taker")
    other = (taker != accepter) | (pl.col("taker_other") != accepter)
    found = (
        pl.col("delegated").is_null(),
        accepter != pl.col("accepter_other"),
        other,
        pl.col("expected_artifact") != pl.col("artifact_other"),
        pl.col("unknown_event"),
        _before("accepted_first", "delegated", skew_us),
        _before("work_first", "accepted_first", skew_us),
        _before("verified_first", "completed_first", skew_us),
        pl.col("outcomes_differ"),
        pl.col("failing_receipts").is_not_null(),
    )
    return {name: each.fill_null(value=False) for name, each in zip(DISAGREEMENTS, found, strict=True)}


def _disagreement(skew_us: int) -> pl.Expr:
    """Names of the disagreements, joined by commas; null where receipts agree."""
    found = _disagreements(skew_us)
    names = [pl.when(each).then(pl.lit(name)) for name, each in found.items()]
    return pl.when(pl.any_horizontal(*found.values())).then(
        pl.concat_str(names, separator=",", ignore_nulls=True)
    )


def _state(limits: HandoffLimits) -> pl.Expr:
    """The first rule that applies, in the order of SPEC section 4."""
    now = pl.col("now")
    outcome, newest = pl.col("outcome"), pl.col("newest_event")
    signs = pl.max_horizontal("sign", "accepted_at", "wait_end")
    unaccepted = pl.col("accepted_at").is_null()
    return (
        pl.when(pl.col("disagreement").is_not_null())
        .then(pl.lit("uncertain"))
        .when(outcome == "passed")
        .then(pl.lit("verified"))
        .when(outcome == "failed")
        .then(pl.lit("failed_outcome"))
        .when(newest.is_in(["rejected", "cancelled"]))
        .then(newest)
        .when(outcome == "unknown")
        .then(pl.lit("uncertain"))
        .when(_unverified(to_us(limits.verification_limit_s)))
        .then(pl.when("unverifiable").then(pl.lit("uncertain")).otherwise(pl.lit("failed_outcome")))
        .when("untimed")
        .then(pl.lit("uncertain"))
        .when((newest == "waiting") & (pl.col("wait_until") > now))
        .then(pl.lit("waiting"))
        .when(unaccepted & (now - pl.col("delegated") > pl.col("ack_limit_us")))
        .then(pl.lit("orphaned"))
        .when(unaccepted)
        .then(pl.lit("delegated"))
        .when(now - signs > to_us(limits.evidence_window_s))
        .then(pl.lit("stuck"))
        .otherwise(pl.lit("working"))
    )


def _unverified(limit_us: int) -> pl.Expr:
    """Completed, no outcome at all, and the limit has passed; without times only a limit of zero has."""
    passed = pl.col("now") - pl.col("completed_last") >= limit_us
    return pl.col("completed_last").is_not_null() & pl.when("untimed").then(pl.lit(limit_us == 0)).otherwise(
        passed
    )


def _reason() -> pl.Expr:
    """What the state alone does not say."""
    state, outcome = pl.col("state"), pl.col("outcome")
    undecided = (state == "uncertain") & pl.col("disagreement").is_null()
    return (
        pl.when(state == "failed_outcome")
        .then(
            pl.when(outcome == "failed")
            .then(pl.lit("verification_failed"))
            .otherwise(pl.lit("never_verified"))
        )
        .when((state == "waiting") & ~(pl.col("wait_dated") > pl.col("now")).fill_null(value=False))
        .then(pl.lit("no_deadline"))
        .when(undecided & (outcome == "unknown"))
        .then(pl.lit("verification_unknown"))
        .when(undecided & pl.col("unverifiable") & pl.col("completed_last").is_not_null())
        .then(pl.lit("verification_unavailable"))
        .when(undecided & pl.col("accepted_at").is_null())
        .then(pl.lit("never_accepted"))
        .when(undecided)
        .then(pl.lit("no_time"))
    )


def _outputs(limits: HandoffLimits) -> list[pl.Expr]:
    """Columns of `HANDOFFS` out of the facts."""
    timed = ~pl.col("untimed")
    latency = pl.when(timed).then(pl.col("accepted_at") - pl.col("delegated"))
    skew = to_us(limits.clock_skew_s)
    tolerated = [
        ("accepted_first", "delegated"),
        ("work_first", "accepted_first"),
        ("verified_first", "completed_first"),
    ]
    made = {
        "ack_latency_us": latency,
        "late_ack": latency > pl.col("ack_limit_us"),
        "clock_skew": pl.any_horizontal(
            *(_before(early, late, 0) & ~_before(early, late, skew) for early, late in tolerated)
        ),
        "author": pl.col("giver"),
        "recipient": pl.col("taker"),
        "accepted": pl.col("accepted_at").is_not_null(),
        "completed": pl.col("completed_last").is_not_null(),
        "as_of": pl.col("now").cast(TIME),
        **{
            name: pl.when(timed).then(source).cast(TIME)
            for name, source in {
                "delegated_at": pl.col("delegated"),
                "accepted_at": pl.col("accepted_at"),
                "completed_at": pl.col("completed_last"),
                "verified_at": pl.col("newest_verified"),
                "closed_at": pl.col("closed"),
                "newest_at": newest_time(),
                # a wait without a deadline, at the end of the calendar, has an end that no date can show
                "wait_until": pl.col("wait_until").clip(upper_bound=LAST_US),
            }.items()
        },
    }
    return [made.get(name, pl.col(name)).alias(name) for name in HANDOFFS]
