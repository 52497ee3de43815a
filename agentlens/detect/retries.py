"""Retries inside policy: the trailing failed attempts of one action (SPEC section 3, line 4)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from agentlens.detect.codes import NONE, SOURCE
from agentlens.detect.policies import SLEEPING_TOOLS, Policies, RetryPolicy
from agentlens.detect.retry_gaps import TOLERANCE_US, kept_by_newest, least_gap_us
from agentlens.model.event import RETRY_POLICY

_Bool = npt.NDArray[np.bool_]
_READ = (
    *("row", "start", "tool", "workflow", "at", "ended_at", "action_signature", "error_class", "attempt"),
    *("retry_policy", "normaliser_version", "key_id"),
)
_SETTINGS = ("interval_s", "backoff_rate", "max_delay_s", "jitter")


def is_sleep(policies: Policies) -> pl.Expr:
    """Whether an event is an explicit sleep, which neither breaks a streak nor counts."""
    names = [*SLEEPING_TOOLS, *policies.sleeping_tools]
    return pl.col("pause").fill_null(False) | pl.col("tool").is_in(names).fill_null(False)


def may_retry(policies: Policies) -> pl.Expr:
    """Whether an event is a failed attempt that some policy might cover."""
    failed = pl.col("error_class").is_not_null()
    return failed if policies.retries else failed & pl.col("retry_policy").is_not_null()


def retrying(lanes: pl.DataFrame, policies: Policies) -> pl.DataFrame:
    """``retrying`` (Boolean) and ``retry_source`` (code) for lanes numbered by `in_lanes`.

    An explicit sleep after attempts is judged as the newest of them.
    """
    awake = lanes.select(~is_sleep(policies)).to_series()
    tried = streaks(lanes.select(_READ).filter(awake)).with_columns(_chosen(policies).alias("policy"))
    inside = np.zeros(lanes.height, dtype=bool)
    inside[tried["row"].to_numpy()] = _inside_policy(tried)
    row = lanes["row"].to_numpy()
    newest = np.maximum.accumulate(np.where(awake.to_numpy(), row, -1))
    found = (newest >= lanes["start"].to_numpy()) & inside[newest.clip(0)]
    carried = lanes["retry_policy"].is_not_null().to_numpy()[newest.clip(0)]
    source = np.where(found, np.where(carried, SOURCE["event"], SOURCE["file"]), NONE)
    return pl.DataFrame({"retrying": found, "retry_source": source.astype(np.uint8)})


def streaks(awake: pl.DataFrame) -> pl.DataFrame:
    """Failed attempts with their streak (number of its first row here), their number k and the gap before each."""
    before = {
        name: pl.col(name).shift(1) for name in ("action_signature", "normaliser_version", "key_id", "start")
    }
    tried = pl.col("action_signature").is_not_null() & pl.col("error_class").is_not_null()
    goes_on = pl.all_horizontal(
        pl.col("start") == before["start"],
        pl.col("_tried").shift(1),
        pl.col("action_signature") == before["action_signature"],
        *(pl.col(name).eq_missing(before[name]) for name in ("normaliser_version", "key_id")),
        pl.col("attempt").ne_missing(1),
    ).fill_null(False)
    gap = pl.col("at") - pl.coalesce(pl.col("ended_at").shift(1), pl.col("at").shift(1))
    return (
        awake.with_columns(tried.alias("_tried"))
        .with_columns(goes_on.alias("_goes_on"), gap.dt.total_microseconds().alias("gap_us"))
        .filter("_tried")
        .with_columns(pl.int_range(pl.len()).alias("place"))
        .with_columns(pl.when(~pl.col("_goes_on")).then("place").forward_fill().alias("streak"))
        .with_columns(pl.col("attempt").fill_null(pl.col("place") - pl.col("streak") + 1).alias("k"))
    )


def _chosen(policies: Policies) -> pl.Expr:
    """The policy an attempt carries, else the file's for its tool, workflow and error class."""
    declared: pl.Expr = pl.lit(None, dtype=RETRY_POLICY)
    for policy in reversed(policies.by_precedence()):
        declared = pl.when(_covers(policy)).then(_literal(policy)).otherwise(declared)
    return pl.coalesce(pl.col("retry_policy"), declared)


def _covers(policy: RetryPolicy) -> pl.Expr:
    tests = [pl.lit("*" in policy.errors) | pl.col("error_class").is_in(list(policy.errors))]
    named = [name for name in ("tool", "workflow") if getattr(policy, name) is not None]
    tests.extend(pl.col(name).eq_missing(getattr(policy, name)) for name in named)
    return pl.all_horizontal(tests)


def _literal(policy: RetryPolicy) -> pl.Expr:
    facts = {field.name: getattr(policy, field.name) for field in RETRY_POLICY.fields}
    facts["errors"] = list(policy.errors)
    return pl.lit(pl.Series([facts], dtype=RETRY_POLICY)).first()


def _inside_policy(streaks: pl.DataFrame) -> _Bool:
    """Whether every attempt of the streak so far keeps the policy of the newest one, and there are two at least."""
    place = np.arange(streaks.height)
    first = streaks["streak"].to_numpy()
    policy = streaks["policy"]
    same_as_before = policy.eq_missing(policy.shift(1)).to_numpy()
    keeps = _keeps(streaks, policy)
    broken = np.maximum.accumulate(np.where(keeps, -1, place)) if streaks.height else place
    changed = (
        np.maximum.accumulate(np.where(same_as_before | (place == first), -1, place))
        if streaks.height
        else place
    )
    inside = (place > first) & (broken < first)
    begins, lengths = np.unique(first, return_counts=True)
    changing = np.isin(begins, first[changed >= first])
    for begin, length in zip(begins[changing].tolist(), lengths[changing].tolist(), strict=True):
        inside[begin : begin + length] = kept_by_newest(streaks.slice(begin, length))
    return inside


def _keeps(attempts: pl.DataFrame, policy: pl.Series) -> _Bool:
    """Whether each attempt keeps the policy in its row: error class, number, and from the second on the gap."""
    facts = attempts.select(
        "error_class",
        "gap_us",
        pl.col("k").cast(pl.Float64),
        (pl.col("place") > pl.col("streak")).alias("later"),
    ).with_columns(policy.struct.unnest())
    known = facts.select(
        covered=(
            pl.col("errors").list.contains(pl.col("error_class")) | pl.col("errors").list.contains("*")
        ).fill_null(False),
        in_budget=(pl.col("k") <= pl.col("max_attempts")).fill_null(False),
    )
    least = least_gap_us(*(facts[name].to_numpy() for name in ("k", *_SETTINGS)))
    gap = facts["gap_us"].cast(pl.Float64).to_numpy()
    spaced = gap + TOLERANCE_US >= least  # false where either is not known
    first = ~facts["later"].to_numpy()
    return np.asarray(known["covered"].to_numpy() & known["in_budget"].to_numpy() & (spaced | first))
