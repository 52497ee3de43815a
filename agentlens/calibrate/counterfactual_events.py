"""The stuck events of every episode, and what each of them stands on (CALIBRATION section 5, item 7).

A change of the rule, of a policy or of what is known leaves some stuck events and takes others away. An episode is
cleared when none is left; else its alert moves to the first that is. So a change is a mask over stuck events, and both
what it clears and what it costs are read off the mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agentlens.detect import cycles
from agentlens.detect.lanes import in_lanes
from agentlens.detect.profile_rules import RuleBook
from agentlens.detect.retries import is_sleep, streaks
from agentlens.model.enums import Verdict
from agentlens.model.event import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.detect.policies import Policies
    from agentlens.detect.rules import Rule

Bits: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.int64]

_LANE = ["run_id", "agent"]
_KEY = [*_LANE, "seq"]

STUCK = pl.Schema(
    {
        "episode": pl.Int64(),
        "run_id": pl.String(),
        "agent": pl.String(),
        "seq": pl.Int64(),
        "row": pl.Int64(),
        "at": pl.Int64(),
        "excess": pl.Int64(),
        "least_period": pl.Int64(),
    }
)
"""One row a stuck event, sorted by episode and seq. ``row``: of the lanes' frame. ``at``: microseconds. ``excess``: the
largest ``S_p - T_p``; ``least_period``: the smallest p that holds."""

HELD = pl.Schema(
    {
        "event": pl.Int64(),
        "row": pl.Int64(),
        "period": pl.Int64(),
        "stretch": pl.Int64(),
        "threshold": pl.Int64(),
        "excess": pl.Int64(),
        "compares": pl.Boolean(),
    }
)
"""One row a stuck event (its position in `STUCK`) and period that holds at it. ``threshold``: T_p of a stretch that
does not begin with its lane. ``compares``: the rule looks at evidence."""


@dataclass(frozen=True, kw_only=True)
class StuckEvents:
    """Stuck events with their episodes and the lanes they stand in.

    ``episodes``: `agentlens.model.verdict.EPISODES` with ``episode``, its number. ``lanes``: what
    `agentlens.detect.lanes.in_lanes` gives of the lanes with an episode.
    """

    episodes: pl.DataFrame
    lanes: pl.DataFrame
    stuck: pl.DataFrame
    held: pl.DataFrame

    @classmethod
    def of(
        cls,
        events: pl.LazyFrame,
        episodes: pl.DataFrame,
        verdicts: pl.DataFrame,
        rule: Rule | RuleBook,
        *,
        actions: Sequence[str] = ACTIONS,
    ) -> StuckEvents:
        """Measure the stuck events again, for every period of the rule that judged them."""
        book = RuleBook.of(rule)
        numbered = (
            episodes.sort(*_LANE, "alert_seq")
            .with_row_index("episode")
            .with_columns(pl.col("episode").cast(pl.Int64))
        )
        lanes = in_lanes(events.join(numbered.lazy().select(_LANE).unique(), on=_LANE, how="semi"), actions)
        frame = lanes.with_columns(book.number().alias("_rule")).collect(engine="in-memory")
        stuck = _with_episode(verdicts.filter(pl.col("verdict") == str(Verdict.STUCK_LOOP)), numbered)
        parts = [_held(frame, stuck, number, one) for number, one in enumerate(book.rules)]
        held = pl.concat([HELD.to_frame().drop("event"), *parts])
        best = held.group_by("row").agg(pl.col("excess").max(), least_period=pl.col("period").min())
        rows = frame.select(*_KEY, pl.col("row").cast(pl.Int64), pl.col("at").to_physical().cast(pl.Int64))
        found = stuck.join(rows, on=_KEY).join(best, on="row").sort("episode", "seq").select(STUCK.names())
        numbers = found.select("row", event=pl.int_range(pl.len(), dtype=pl.Int64))
        return cls(
            episodes=numbered,
            lanes=frame,
            stuck=found.cast(STUCK),
            held=held.join(numbers, on="row").select(HELD.names()).sort("event", "period"),
        )

    @property
    def of_episode(self) -> Ints:
        """Number of the episode of each stuck event."""
        return self.stuck["episode"].to_numpy()

    def left(self, kept: Bits) -> Bits:
        """Which episodes still have a stuck event."""
        found = np.zeros(self.episodes.height, dtype=bool)
        found[self.of_episode[kept]] = True
        return found


def _with_episode(stuck: pl.DataFrame, episodes: pl.DataFrame) -> pl.DataFrame:
    """Each stuck event belongs to the latest episode of its lane that has begun to alert."""
    begun = episodes.select(*_LANE, "episode", seq="alert_seq").sort("seq")
    return (
        stuck.select(_KEY)
        .sort("seq")
        .join_asof(begun, on="seq", by=_LANE, strategy="backward", check_sortedness=False)
        .drop_nulls("episode")
    )


def _held(lanes: pl.DataFrame, stuck: pl.DataFrame, number: int, rule: Rule) -> pl.DataFrame:
    """Periods that hold at the stuck events which this rule judged (`HELD` without ``event``)."""
    known = cycles.with_lengths(lanes.lazy(), rule, versions=True).filter(pl.col("_rule") == number)
    mine = known.join(stuck.lazy().select(_KEY), on=_KEY, how="semi")
    so_far = (pl.col("row") - pl.col("start") + 1).cast(pl.Int64)
    parts = []
    for p, threshold in enumerate(rule.thresholds, 1):
        stretch = pl.col(f"S_{p}").cast(pl.Int64)
        asked = pl.lit(threshold, dtype=pl.Int64)
        if rule.head_repetitions is not None:
            head = rule.head_repetitions * p + rule.confirm - 1
            whole = stretch == so_far
            asked = pl.when(whole).then(pl.min_horizontal(asked, pl.lit(head))).otherwise(asked)
        parts.append(
            mine.select(
                pl.col("row").cast(pl.Int64),
                period=pl.lit(p, dtype=pl.Int64),
                stretch=stretch,
                threshold=pl.lit(threshold, dtype=pl.Int64),
                excess=stretch - asked,
                compares=pl.lit(rule.evidence != "none"),
            ).filter(pl.col("excess") >= 0)
        )
    return pl.concat(parts).collect(engine="in-memory")


def tools_of_laps(found: StuckEvents) -> dict[str, Bits]:
    """For each tool of a loop: the stuck events that would be left if its equal results were no evidence.

    An event of the tool then counts as changed evidence, and a stretch of two laps meets it twice; so a period goes on
    holding only where the tool is not in its lap.
    """
    tools = found.lanes["tool"]
    names = found.episodes["tools"].explode(empty_as_null=False).drop_nulls().unique().sort()
    row, period = found.held["row"].to_numpy(), found.held["period"].to_numpy()
    event, compares = found.held["event"].to_numpy(), found.held["compares"].to_numpy()
    kept = {}
    for name in names.to_list():
        count = np.concatenate([[0], np.cumsum(tools.eq_missing(name).to_numpy())])
        outside = (count[row + 1] == count[row - period + 1]) | ~compares
        kept[name] = np.zeros(found.stuck.height, dtype=bool)
        kept[name][event[outside]] = True
    return kept


RETRIED = pl.Schema(
    {
        "tool": pl.String(),
        "errors": pl.List(pl.String()),
        "attempts": pl.Int64(),
        "least_gap_us": pl.Int64(),
    }
)
"""What a policy must allow for a stuck event to be a retry: error classes, largest number and shortest gap so far of
the failed attempts it ends; null where it ends none or one, carries a policy of its own, or times are missing."""


def retried(found: StuckEvents, policies: Policies) -> pl.DataFrame:
    """What each stuck event would need of a retry policy of its tool (`RETRIED`, one row a stuck event)."""
    lanes = found.lanes
    awake = lanes.select(~is_sleep(policies)).to_series()
    tried = streaks(lanes.filter(awake))
    later = pl.col("place") > pl.col("streak")
    gaps = pl.when(later).then("gap_us")
    told = tried.select(
        pl.col("row").cast(pl.Int64),
        "tool",
        "error_class",
        "streak",
        "workflow",
        later=later,
        own=pl.col("retry_policy").is_not_null(),
        attempts=pl.col("k").cum_max().over("streak"),
        least_gap_us=gaps.cum_min().over("streak"),
        untimed=(later & pl.col("gap_us").is_null()).cum_max().over("streak"),
    )
    row = np.arange(lanes.height)
    newest = np.maximum.accumulate(np.where(awake.to_numpy(), row, -1))
    newest = np.where(newest >= lanes["start"].to_numpy(), newest, -1)
    asked = found.stuck.select(
        event=pl.int_range(pl.len()), row=pl.Series(newest[found.stuck["row"].to_numpy()])
    )
    bounded = pl.any_horizontal(
        pl.lit(value=False),
        *(
            (pl.col("tool") == policy.tool)
            & (pl.col("workflow") == policy.workflow)
            & (pl.lit("*" in policy.errors) | pl.col("error_class").is_in(list(policy.errors)))
            for policy in policies.retries
            if policy.tool is not None and policy.workflow is not None
        ),
    ).fill_null(value=False)
    usable = pl.col("later") & ~pl.col("own") & ~pl.col("untimed") & ~bounded
    joined = asked.join(told.filter(usable), on="row", how="left").sort("event")
    classes = _classes_so_far(told, joined)
    return joined.with_columns(errors=classes).select(RETRIED.names()).cast(RETRIED)


def _classes_so_far(told: pl.DataFrame, asked: pl.DataFrame) -> pl.Series:
    """Error classes of the streak up to each event; few attempts bring a new one."""
    firsts = told.group_by("streak", "error_class").agg(since=pl.col("row").min())
    pairs = asked.select("event", "row", "streak").drop_nulls().join(firsts, on="streak")
    found = pairs.filter(pl.col("since") <= pl.col("row")).group_by("event").agg(pl.col("error_class").sort())
    return asked.select("event").join(found, on="event", how="left", maintain_order="left")["error_class"]


def ages(found: StuckEvents, handoffs: pl.DataFrame) -> Ints:
    """Age in microseconds of the youngest open handoff of each stuck event's lane; -1 where there is none.

    ``handoffs``: ``run_id, author, delegated_at, accepted_at, closed_at`` of `agentlens.model.handoff.HANDOFFS`. Open:
    delegated by the lane, not yet accepted, rejected or cancelled.
    """
    sent = handoffs.drop_nulls(["run_id", "delegated_at"]).select(
        "run_id",
        agent="author",
        began=pl.col("delegated_at").to_physical(),
        over=pl.min_horizontal(pl.col("accepted_at").to_physical(), pl.col("closed_at").to_physical()),
    )
    numbered = found.stuck.select("run_id", "agent", "at", event=pl.int_range(pl.len(), dtype=pl.Int64))
    pairs = numbered.drop_nulls("at").join(sent, on=_LANE)
    is_open = (pl.col("began") <= pl.col("at")) & (pl.col("over").is_null() | (pl.col("over") > pl.col("at")))
    youngest = pairs.filter(is_open).group_by("event").agg(age=(pl.col("at") - pl.col("began")).min())
    joined = numbered.select("event").join(youngest, on="event", how="left", maintain_order="left")
    return joined["age"].fill_null(-1).cast(pl.Int64).to_numpy()
