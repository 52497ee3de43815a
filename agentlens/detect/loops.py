"""The verdict of every action: working, waiting, retrying, stuck, uncertain or failed (SPEC section 3).

Most lanes hold only known values and none of the facts that go before the cycle condition. Their verdicts
follow from suffix lengths alone; the others are judged in full (`agentlens.detect.hard_lanes`), so that
known lanes pay nothing for them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from agentlens.detect import codes, cycles
from agentlens.detect.codes import code
from agentlens.detect.conditions import condition, period_and_laps, suspect
from agentlens.detect.hard_lanes import STUCK, WORKING, fill_unknown, judge_hard
from agentlens.detect.lanes import ROW, lane_by_lane
from agentlens.detect.policies import Policies
from agentlens.detect.profile_rules import RuleBook
from agentlens.detect.rules import Evidence, Rule
from agentlens.model.event import ACTIONS
from agentlens.model.verdict import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEY = ("run_id", "agent", "seq", "at")


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
        `agentlens.model.verdict.VERDICTS`, one row an action, sorted by run_id, agent, seq. ``reason`` is that
        of the verdict; on ``working`` and ``stuck_loop`` it says why a lease was not honoured.

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
    judge = partial(_judge, book=RuleBook.of(rule), policies=policies or Policies())
    return lane_by_lane(events, actions, judge, VERDICTS)


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
        A rule without heads holds at an event where ``s_lo_p >= T_p`` for some p, does not where
        ``s_hi_p < T_p`` for all, and is unknown otherwise.
    """
    thresholds = tuple(2 * p for p in range(1, max_period + 1))
    rule = Rule(thresholds=thresholds, evidence=evidence, max_gap_s=max_gap_s)
    periods = range(1, max_period + 1)
    named = {f"s_{kind}_{p}": f"{column}_{p}" for kind, column in (("lo", "S"), ("hi", "H")) for p in periods}

    def judge(lanes: pl.DataFrame) -> pl.DataFrame:
        known = cycles.with_lengths(lanes.lazy(), rule).with_columns(
            pl.col(f"S_{p}").alias(f"H_{p}") for p in periods
        )
        filled = fill_unknown(known.collect(engine="in-memory"), rule=rule)
        return filled.select(*_KEY, *(pl.col(column).alias(name) for name, column in named.items()))

    schema = {**{name: VERDICTS[name] for name in _KEY}, **dict.fromkeys(named, ROW())}
    return lane_by_lane(events, actions, judge, pl.Schema(schema))


def _judge(lanes: pl.DataFrame, *, book: RuleBook, policies: Policies) -> pl.DataFrame:
    """Judge whole lanes by the rule or rules of a book."""
    if not book.overrides:
        return _worded(_judged(lanes, book.default, policies))
    numbered = lanes.with_columns(book.number().alias("_rule"))
    asked = numbered["_rule"].unique().sort()
    parts = [_judged(numbered, book.rules[n], policies).filter(pl.col("_rule") == n) for n in asked]
    return _worded(pl.concat(parts).sort("row"))


def _judged(lanes: pl.DataFrame, rule: Rule, policies: Policies) -> pl.DataFrame:
    """Judge lanes by their known values, then the hard ones among them in full."""
    known = cycles.with_lengths(lanes.lazy(), rule).with_columns(condition(rule, "S").alias("_lo"))
    decided = known.select(
        *lanes.columns,
        pl.when("_lo").then(STUCK).otherwise(WORKING).alias("verdict"),
        code(codes.NONE).alias("reason"),
        *period_and_laps(rule, pl.col("_lo")),
        (suspect(rule) & ~pl.col("_lo")).alias("suspect"),
        "stalled_events",
        code(codes.NONE).alias("policy_source"),
    )
    return judge_hard(decided.collect(engine="in-memory"), rule=rule, policies=policies)


def _worded(decided: pl.DataFrame) -> pl.DataFrame:
    """Give the columns of `VERDICTS` in words; a period of 0 is none.

    Lazily, like every look at a wide frame here: an eager one first brings all columns into equal pieces.
    """
    cycle = pl.col("period") > 0
    worded = {
        "verdict": codes.verdict_words(),
        "reason": codes.reason_words(),
        "policy_source": codes.source_words(),
        "period": pl.when(cycle).then("period"),
        "laps": pl.when(cycle).then("laps"),
    }
    columns = [worded.get(name, pl.col(name)).cast(dtype).alias(name) for name, dtype in VERDICTS.items()]
    return decided.lazy().select(columns).collect(engine="in-memory")
