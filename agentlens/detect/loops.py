"""The verdict of every action: working, waiting, retrying, stuck, uncertain or failed (SPEC section 3).

Most lanes hold only known values and none of the facts that go before the cycle condition. Their verdicts
follow from suffix lengths alone. The others ("hard" lanes) are judged anew by the full precedence and put
back in their place, so that known lanes pay nothing for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import polars as pl

from agentlens.detect import cycles
from agentlens.detect.lanes import ROW, in_lanes
from agentlens.detect.leases import waits, with_leases
from agentlens.detect.policies import Policies
from agentlens.detect.profile_rules import RuleBook
from agentlens.detect.retries import may_retry, with_retries
from agentlens.detect.rules import Evidence, Rule
from agentlens.detect.unknowns import longest_possible
from agentlens.model.enums import Reason, Verdict
from agentlens.model.event import ACTIONS, EVENTS
from agentlens.model.verdict import VERDICTS

_DECIDED = {
    "verdict": pl.String(),
    "reason": pl.String(),
    "period": ROW(),
    "laps": ROW(),
    "suspect": pl.Boolean(),
    "stalled_events": ROW(),
    "policy_source": pl.String(),
}


def loops(
    events: pl.LazyFrame,
    rule: Rule | RuleBook,
    policies: Policies | None = None,
    actions: Sequence[str] = ACTIONS,
) -> pl.LazyFrame:
    """Judge every action of every lane.

    Parameters
    ----------
    events
        The event table (`agentlens.model.event.EVENTS`) in any order. Columns that are not there are unknown.
    rule
        One rule, or a book with overrides: the rule that matches an event judges that event, on the whole
        lane's sequence.
    policies
        Retry policies and waiting tools for events that carry none.
    actions
        The kinds that take part in cycles.

    Returns
    -------
    LazyFrame
        `agentlens.model.verdict.VERDICTS`, one row an action, sorted by run_id, agent, seq.

    Raises
    ------
    SchemaError, SettingsError
        For missing columns and unknown kinds.

    Examples
    --------
    >>> import polars as pl
    >>> from agentlens.detect.rules import laps
    >>> lane = pl.LazyFrame({"run_id": ["r"] * 4, "seq": range(4), "tool": ["t"] * 4,
    ...                      "action_signature": ["a"] * 4, "progress_fingerprint": ["f"] * 4})
    >>> loops(lane, laps()).collect()["verdict"].to_list()
    ['working', 'working', 'working', 'stuck_loop']
    """
    book, declared = RuleBook.of(rule), policies or Policies()
    lanes = in_lanes(events, actions)
    if not book.overrides:
        return _judged(lanes, book.default, declared).select(_output())
    numbered = lanes.with_columns(book.number().alias("_rule"))
    parts = [
        _judged(numbered, one, declared).filter(pl.col("_rule") == n) for n, one in enumerate(book.rules)
    ]
    return pl.concat(parts).sort("row").select(_output())


def scores(
    events: pl.LazyFrame,
    max_period: int,
    evidence: Evidence = "lap",
    *,
    max_gap_s: float | None = None,
    actions: Sequence[str] = ACTIONS,
) -> pl.LazyFrame:
    """Give what every threshold is compared with: the stretch per period, at least and at most.

    Returns
    -------
    LazyFrame
        ``run_id, agent, seq, at, s_lo_1..s_lo_P, s_hi_1..s_hi_P`` (Int32, events), sorted by lane and seq.
        A rule holds at an event where ``s_lo_p >= T_p`` for some p, does not where ``s_hi_p < T_p`` for all,
        and is unknown otherwise.
    """
    thresholds = tuple(2 * p for p in range(1, max_period + 1))
    rule = Rule(thresholds=thresholds, evidence=evidence, max_gap_s=max_gap_s)
    periods = range(1, max_period + 1)
    lanes = cycles.with_lengths(in_lanes(events, actions), rule)
    known = lanes.with_columns(pl.col(f"S_{p}").alias(f"H_{p}") for p in periods)
    filled = known.map_batches(partial(_fill_unknown, rule=rule))
    return filled.select(
        "run_id",
        "agent",
        "seq",
        "at",
        *(pl.col(f"S_{p}").alias(f"s_lo_{p}") for p in periods),
        *(pl.col(f"H_{p}").alias(f"s_hi_{p}") for p in periods),
    )


def _output() -> list[pl.Expr]:
    return [pl.col(name).cast(dtype) for name, dtype in VERDICTS.items()]


def _judged(lanes: pl.LazyFrame, rule: Rule, policies: Policies) -> pl.LazyFrame:
    """Judge lanes by their known values, then the hard ones among them in full."""
    known = cycles.with_lengths(lanes, rule).with_columns(_condition(rule, "S").alias("_lo"))
    decided = known.with_columns(
        pl.when("_lo")
        .then(pl.lit(str(Verdict.STUCK_LOOP)))
        .otherwise(pl.lit(str(Verdict.WORKING)))
        .alias("verdict"),
        pl.lit(None, dtype=pl.String).alias("reason"),
        *_period_and_laps(rule, pl.col("_lo")),
        (_suspect(rule) & ~pl.col("_lo")).alias("suspect"),
        pl.lit(None, dtype=pl.String).alias("policy_source"),
    )
    kept = [name for name in lanes.collect_schema() if name in EVENTS or name in ("row", "start", "_rule")]
    decided = decided.select(*kept, *(name for name in _DECIDED))
    return decided.map_batches(partial(_judge_hard, rule=rule, policies=policies))


def _condition(rule: Rule, kind: str) -> pl.Expr:
    """Whether the cycle condition holds for some period, by the lengths named ``{kind}_p``."""
    return pl.any_horizontal(_holds(rule, kind, p) for p in range(1, rule.max_period + 1))


def _holds(rule: Rule, kind: str, p: int) -> pl.Expr:
    length = pl.col(f"{kind}_{p}")
    holds = length >= rule.thresholds[p - 1]
    if rule.head_repetitions is None:
        return holds
    return holds | _head_holds(rule, length, p)


def _head_holds(rule: Rule, length: pl.Expr, p: int) -> pl.Expr:
    """While the stretch is the whole lane so far, ``i + 2 - R * p`` windows agree (CALIBRATION 3.2, heads)."""
    so_far = pl.col("row") - pl.col("start") + 1
    return (length == so_far) & (so_far + 1 - (rule.head_repetitions or 0) * p >= rule.confirm)


def _period_and_laps(rule: Rule, stuck: pl.Expr) -> list[pl.Expr]:
    """Period and laps: the loop's where stuck, else those of the actions alone."""
    periods = range(1, rule.max_period + 1)
    period: pl.Expr = pl.lit(None, dtype=ROW)
    laps: pl.Expr = pl.lit(None, dtype=ROW)
    for p in reversed(periods):
        repeats = pl.col(f"L_{p}") >= 2 * p
        period = pl.when(repeats).then(pl.lit(p, dtype=ROW)).otherwise(period)
        laps = pl.when(repeats).then(pl.col(f"L_{p}") // p).otherwise(laps)
    for p in reversed(periods):
        loop = stuck & _holds(rule, "S", p)
        period = pl.when(loop).then(pl.lit(p, dtype=ROW)).otherwise(period)
        laps = pl.when(loop).then(pl.col(f"S_{p}") // p).otherwise(laps)
    return [period.alias("period"), laps.alias("laps")]


def _suspect(rule: Rule) -> pl.Expr:
    """Nearly the cycle condition: one lap short of it."""
    return pl.any_horizontal(
        pl.col(f"S_{p}") >= max(2 * p, threshold - p) for p, threshold in enumerate(rule.thresholds, 1)
    )


def _unknown(evidence: Evidence) -> pl.Expr:
    """Whether a comparison with this event or the one before it may be unknown."""
    holes = [pl.col("action_signature").is_null()]
    versions = ["normaliser_version", "key_id"]
    if evidence != "none":
        holes.append(pl.col("progress_fingerprint").is_null())
        versions.append("fingerprint_version")
    inside = pl.col("row") > pl.col("start")
    return pl.any_horizontal(*holes, *(inside & pl.col(n).ne_missing(pl.col(n).shift(1)) for n in versions))


def _whole_lanes(lanes: pl.DataFrame, flag: pl.Series) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Mask of all rows of the lanes in which `flag` holds somewhere."""
    start = lanes["start"].to_numpy()
    chosen = np.zeros(lanes.height + 1, dtype=bool)
    chosen[start[flag.to_numpy()]] = True
    return chosen[start]


def _taken(lanes: pl.DataFrame, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pl.DataFrame:
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
    """Overwrite columns of `lanes` at the places of `part`."""
    place = part["place"]
    return lanes.with_columns(
        lanes[name].scatter(place, part[name].cast(lanes.schema[name])) for name in names
    )


def _fill_unknown(lanes: pl.DataFrame, *, rule: Rule) -> pl.DataFrame:
    """Correct S and H in the lanes that hold an unknown."""
    flag = lanes.select(_unknown(rule.evidence)).to_series()
    if not flag.any():
        return lanes
    part = _taken(lanes, _whole_lanes(lanes, flag))
    part = cycles.with_lengths(part.lazy(), rule, versions=True).collect()
    part = part.with_columns(longest_possible(part, rule))
    return _put_back(lanes, part, [f"{kind}_{p}" for kind in "SH" for p in range(1, rule.max_period + 1)])


def _judge_hard(lanes: pl.DataFrame, *, rule: Rule, policies: Policies) -> pl.DataFrame:
    """Judge the lanes with unknowns, leases, retries or hard failures by the full precedence."""
    flag = lanes.select(
        _unknown("lap")  # whatever the rule compares, evidence that cannot be compared is not stalled
        | pl.col("lease").is_not_null()
        | waits(policies)
        | may_retry(policies)
        | pl.col("hard_failure").is_not_null()
        | pl.col("reachable").eq(False).fill_null(False)
    ).to_series()
    if not flag.any():
        return lanes
    part = _taken(lanes, _whole_lanes(lanes, flag)).drop(_DECIDED)
    part = cycles.with_lengths(part.lazy(), rule, versions=True).collect()
    part = part.with_columns(longest_possible(part, rule))
    part = with_retries(with_leases(part.lazy(), policies).collect(), policies)
    return _put_back(lanes, _in_full(part, rule), list(_DECIDED))


def _in_full(part: pl.DataFrame, rule: Rule) -> pl.DataFrame:
    """Apply the precedence of SPEC section 3, first line that applies."""
    verdict = pl.col("verdict")
    return (
        part.lazy()
        .with_columns(_condition(rule, "S").alias("_lo"), _condition(rule, "H").alias("_hi"), *_last_holes())
        .with_columns(_verdict().alias("verdict"))
        .with_columns(
            _reason(rule).alias("reason"),
            *_period_and_laps(rule, verdict == str(Verdict.STUCK_LOOP)),
            (_suspect(rule) & (verdict == str(Verdict.WORKING))).alias("suspect"),
            pl.when(verdict == str(Verdict.WAITING))
            .then("lease_source")
            .when(verdict == str(Verdict.RETRYING))
            .then("retry_source")
            .alias("policy_source"),
        )
        .select("place", *_DECIDED)
        .collect()
    )


def _verdict() -> pl.Expr:
    return (
        pl.when(~pl.col("reachable").fill_null(True))
        .then(pl.lit(str(Verdict.UNCERTAIN)))
        .when(pl.col("hard_failure").is_not_null())
        .then(pl.lit(str(Verdict.FAILED_OUTCOME)))
        .when(pl.col("lease_state").eq(str(Reason.LEASE)).fill_null(False))
        .then(pl.lit(str(Verdict.WAITING)))
        .when("retrying")
        .then(pl.lit(str(Verdict.RETRYING)))
        .when(pl.col("_hi") & ~pl.col("_lo"))
        .then(pl.lit(str(Verdict.UNCERTAIN)))
        .when("_lo")
        .then(pl.lit(str(Verdict.STUCK_LOOP)))
        .otherwise(pl.lit(str(Verdict.WORKING)))
    )


def _reason(rule: Rule) -> pl.Expr:
    verdict = pl.col("verdict")
    return (
        pl.when(~pl.col("reachable").fill_null(True))
        .then(pl.lit(str(Reason.UNREACHABLE)))
        .when(verdict == str(Verdict.FAILED_OUTCOME))
        .then("hard_failure")
        .when(verdict == str(Verdict.RETRYING))
        .then(pl.lit(str(Reason.POLICY)))
        .when(verdict == str(Verdict.UNCERTAIN))
        .then(_hole(rule))
        .otherwise("lease_state")
    )


def _last_holes() -> list[pl.Expr]:
    """Row of the last unknown fingerprint and signature so far."""
    return [
        pl.when(pl.col(name).is_null()).then("row").otherwise(pl.lit(-1, dtype=ROW)).cum_max().alias(alias)
        for name, alias in (("progress_fingerprint", "_last_blind"), ("action_signature", "_last_unnamed"))
    ]


def _hole(rule: Rule) -> pl.Expr:
    """What is unknown inside the stretch that would decide: the last ``T_p`` events, p the smallest that may hold."""
    so_far = pl.col("row") - pl.col("start") + 1
    needed: pl.Expr = pl.lit(None, dtype=ROW)
    for p in range(rule.max_period, 0, -1):
        threshold = pl.lit(rule.thresholds[p - 1], dtype=ROW)
        length = pl.col(f"H_{p}")
        if rule.head_repetitions is not None:
            needed = pl.when(_head_holds(rule, length, p)).then(so_far).otherwise(needed)
        needed = pl.when(length >= threshold).then(threshold).otherwise(needed)
    begins = pl.col("row") - needed
    blind = pl.col("_last_blind") > begins if rule.evidence != "none" else pl.lit(False)
    return (
        pl.when(blind)
        .then(pl.lit(str(Reason.MISSING_FINGERPRINT)))
        .when(pl.col("_last_unnamed") > begins)
        .then(pl.lit(str(Reason.MISSING_SIGNATURE)))
        .otherwise(pl.lit(str(Reason.VERSION_CHANGE)))
    )
