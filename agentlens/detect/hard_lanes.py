"""Lanes that suffix lengths alone do not decide: unknown values, leases, retries, hard failures.

They are taken out whole, judged by the full precedence of SPEC section 3 and put back in their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from agentlens.detect import codes, cycles
from agentlens.detect.codes import code
from agentlens.detect.conditions import condition, head_holds, period_and_laps, so_far, suspect
from agentlens.detect.lanes import ROW
from agentlens.detect.leases import may_wait, waiting
from agentlens.detect.retries import may_retry, retrying
from agentlens.detect.unknowns import longest_possible
from agentlens.model.enums import Reason, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.detect.policies import Policies
    from agentlens.detect.rules import Evidence, Rule

Mask: TypeAlias = npt.NDArray[np.bool_]

DECIDED = ("verdict", "reason", "period", "laps", "suspect", "stalled_events", "policy_source")
"""What is decided of an event, as codes and numbers without nulls."""

WORKING, WAITING, RETRYING, UNCERTAIN, STUCK, FAILED = (code(codes.VERDICT[verdict]) for verdict in Verdict)


def judge_hard(lanes: pl.DataFrame, *, rule: Rule, policies: Policies) -> pl.DataFrame:
    """Correct the columns `DECIDED` of the hard lanes among `lanes`."""
    flag = _mask(
        lanes,
        unknown("lap")  # whatever the rule compares, evidence that cannot be compared is not stalled
        | may_wait(policies)
        | may_retry(policies)
        | pl.col("hard_failure").is_not_null()
        | pl.col("reachable").eq(False).fill_null(False),
    )
    if not flag.any():
        return lanes
    part = _taken(lanes, _whole_lanes(lanes, flag)).drop(DECIDED)
    part = cycles.with_lengths(part.lazy(), rule, versions=True).collect(engine="in-memory")
    part = pl.concat(
        [part, longest_possible(part, rule), waiting(part, policies), retrying(part, policies)],
        how="horizontal",
    )
    return _put_back(lanes, _in_full(part, rule), DECIDED)


def fill_unknown(lanes: pl.DataFrame, *, rule: Rule) -> pl.DataFrame:
    """Correct ``S_p`` and ``H_p`` of the lanes that hold an unknown."""
    flag = _mask(lanes, unknown(rule.evidence))
    if not flag.any():
        return lanes
    part = _taken(lanes, _whole_lanes(lanes, flag))
    part = cycles.with_lengths(part.lazy(), rule, versions=True).collect(engine="in-memory")
    part = part.with_columns(longest_possible(part, rule))
    return _put_back(lanes, part, [f"{kind}_{p}" for kind in "SH" for p in range(1, rule.max_period + 1)])


def unknown(evidence: Evidence) -> pl.Expr:
    """Whether a comparison with this event, or of it with the one before, may be unknown."""
    holes = [pl.col("action_signature").is_null()]
    versions = ["normaliser_version", "key_id"]
    if evidence != "none":
        holes.append(pl.col("progress_fingerprint").is_null())
        versions.append("fingerprint_version")
    inside = pl.col("row") > pl.col("start")
    return pl.any_horizontal(*holes, *(inside & pl.col(n).ne_missing(pl.col(n).shift(1)) for n in versions))


def _mask(lanes: pl.DataFrame, condition: pl.Expr) -> pl.Series:
    return lanes.lazy().select(flag=condition).collect(engine="in-memory")["flag"]


def _whole_lanes(lanes: pl.DataFrame, flag: pl.Series) -> Mask:
    """Mask of all rows of the lanes in which `flag` holds somewhere."""
    start = lanes["start"].to_numpy()
    chosen = np.zeros(lanes.height, dtype=bool)
    chosen[start[flag.to_numpy()]] = True
    return np.asarray(chosen[start])


def _taken(lanes: pl.DataFrame, mask: Mask) -> pl.DataFrame:
    """Take whole lanes out and number their rows anew; the old numbers stay in ``place``."""
    part = lanes.filter(pl.Series(mask))
    opens = (part["row"] == part["start"]).to_numpy()
    starts = np.flatnonzero(opens).astype(np.int32)
    return part.with_columns(
        pl.col("row").alias("place"),
        pl.int_range(part.height, dtype=ROW, eager=True).alias("row"),
        pl.Series("start", np.repeat(starts, np.diff(starts, append=np.int32(part.height))), dtype=ROW),
    )


def _put_back(lanes: pl.DataFrame, part: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Overwrite columns of `lanes`, none of them with nulls, at the places of `part`."""
    place = part["place"].to_numpy()
    columns = []
    for name in names:
        values = lanes[name].to_numpy(writable=True)
        values[place] = part[name].to_numpy()
        columns.append(pl.Series(name, values, dtype=lanes.schema[name]))
    return lanes.with_columns(columns)


def _in_full(part: pl.DataFrame, rule: Rule) -> pl.DataFrame:
    """Apply the precedence, first line that applies."""
    verdict = pl.col("verdict")
    return (
        part.lazy()
        .with_columns(condition(rule, "S").alias("_lo"), condition(rule, "H").alias("_hi"), *_last_holes())
        .with_columns(_verdict().alias("verdict"))
        .with_columns(
            _reason(rule).alias("reason"),
            *period_and_laps(rule, verdict == STUCK),
            (suspect(rule) & (verdict == WORKING)).alias("suspect"),
            pl.when(verdict == WAITING)
            .then("lease_source")
            .when(verdict == RETRYING)
            .then("retry_source")
            .otherwise(code(codes.NONE))
            .alias("policy_source"),
        )
        .select("place", *DECIDED)
        .collect(engine="in-memory")
    )


def _verdict() -> pl.Expr:
    return (
        pl.when(~pl.col("reachable").fill_null(True))
        .then(UNCERTAIN)
        .when(pl.col("hard_failure").is_not_null())
        .then(FAILED)
        .when(pl.col("lease_state") == codes.REASON[Reason.LEASE])
        .then(WAITING)
        .when("retrying")
        .then(RETRYING)
        .when(pl.col("_hi") & ~pl.col("_lo"))
        .then(UNCERTAIN)
        .when("_lo")
        .then(STUCK)
        .otherwise(WORKING)
    )


def _reason(rule: Rule) -> pl.Expr:
    verdict = pl.col("verdict")
    return (
        pl.when(~pl.col("reachable").fill_null(True))
        .then(_because(Reason.UNREACHABLE))
        .when(verdict == FAILED)
        .then(code(codes.AS_RECORDED))
        .when(verdict == RETRYING)
        .then(_because(Reason.POLICY))
        .when(verdict == UNCERTAIN)
        .then(_hole(rule))
        .otherwise("lease_state")
    )


def _because(reason: Reason) -> pl.Expr:
    return code(codes.REASON[reason])


def _last_holes() -> list[pl.Expr]:
    """Row of the last unknown fingerprint and signature so far."""
    return [
        pl.when(pl.col(name).is_null()).then("row").otherwise(pl.lit(-1, dtype=ROW)).cum_max().alias(alias)
        for name, alias in (("progress_fingerprint", "_last_blind"), ("action_signature", "_last_unnamed"))
    ]


def _hole(rule: Rule) -> pl.Expr:
    """What is unknown inside the stretch that would decide: the last ``T_p`` events, p the smallest that may hold."""
    needed: pl.Expr = pl.lit(None, dtype=ROW)
    for p in range(rule.max_period, 0, -1):
        threshold, length = pl.lit(rule.thresholds[p - 1], dtype=ROW), pl.col(f"H_{p}")
        if rule.head_repetitions is not None:
            needed = pl.when(head_holds(rule, length, p)).then(so_far()).otherwise(needed)
        needed = pl.when(length >= threshold).then(threshold).otherwise(needed)
    begins = pl.col("row") - needed
    blind = pl.col("_last_blind") > begins if rule.evidence != "none" else pl.lit(False)
    return (
        pl.when(blind)
        .then(_because(Reason.MISSING_FINGERPRINT))
        .when(pl.col("_last_unnamed") > begins)
        .then(_because(Reason.MISSING_SIGNATURE))
        .otherwise(_because(Reason.VERSION_CHANGE))
    )
