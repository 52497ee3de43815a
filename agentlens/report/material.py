"""What a report is made from, and the sums its parts share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from agentlens.model.enums import Verdict
from agentlens.model.event import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentlens.detect.policies import Policies
    from agentlens.detect.profile_rules import RuleBook

NANO: Final = 1_000_000_000
RUN_FACTS: Final = ("model", "agent_version", "trace_id")
UNNAMED: Final = "(not exported)"


@dataclass(frozen=True, kw_only=True)
class Material:
    """Judged data and how they were judged.

    ``events`` (schema `EVENTS`), ``verdicts``, ``episodes``, ``runs`` as of `agentlens.loops`; ``boundaries``: the
    tables of `agentlens.handoffs` and `agentlens.resets` by name; ``health``: warnings by tool. ``link``: template of
    an address with ``{trace_id}`` and ``{run_id}``. ``revealed``: raw content by run, lane and seq, empty unless
    asked for. ``stamp``: what all of it was made from. ``policies``: those that verdicts
    were given under. ``selected``: whether the data are a selection, so that labels may speak of more. ``arguments``:
    digests of the arguments of events (``run_id, agent, seq, kind, source``) by run, lane and seq, for those whose
    source is at hand; None where the data name no source.
    """

    events: pl.LazyFrame
    verdicts: pl.DataFrame
    episodes: pl.DataFrame
    runs: pl.DataFrame
    boundaries: Mapping[str, pl.DataFrame]
    health: pl.DataFrame
    book: RuleBook
    actions: tuple[str, ...] = ACTIONS
    link: str | None = None
    revealed: Mapping[tuple[str, str, int], str] = field(default_factory=dict)
    stamp: Mapping[str, str] = field(default_factory=dict)
    policies: Policies | None = None
    selected: bool = False
    arguments: Callable[[pl.DataFrame], Mapping[tuple[str, str, int], str]] | None = None


EPISODE_FACTS: Final = ("stuck_us", "loop_events", "workflow", *RUN_FACTS)
"""What `costed` adds to an episode: its time and actions from onset to end, and facts of its run."""


def costed(made: Material) -> pl.DataFrame:
    """Episodes with `EPISODE_FACTS`, the costliest first.

    By cost, tokens, time and actions in that order; a measure that is exported for fewer than half of them comes
    later. What is not exported ranks last: unknown is not free, and the page sorts by every column.
    """
    inside = (
        made.verdicts.lazy()
        .select("run_id", "agent", "seq")
        .join(made.episodes.lazy().select("run_id", "agent", "onset_seq", "end_seq"), on=["run_id", "agent"])
        .filter(pl.col("seq").is_between("onset_seq", "end_seq"))
        .group_by("run_id", "agent", "onset_seq")
        .agg(pl.len().cast(pl.Int64).alias("loop_events"))
    )
    spent = (pl.col("end_at") - pl.col("onset_at")).dt.total_microseconds().alias("stuck_us")
    measures = made.episodes.with_columns(spent)
    told = sorted(
        ("cost_usd", "tokens", "stuck_us"), key=lambda name: 2 * measures[name].count() < measures.height
    )
    rank = [*told, "loop_events"]
    return (
        measures.lazy()
        .join(inside, on=["run_id", "agent", "onset_seq"], how="left")
        .join(run_facts(made).lazy(), on="run_id", how="left")
        .sort(*rank, "run_id", "agent", "onset_seq", descending=[True] * 4 + [False] * 3, nulls_last=True)
        .collect()
    )


def run_facts(made: Material) -> pl.DataFrame:
    """``run_id, workflow, model, agent_version, trace_id``: the first known value of each, sorted by run."""
    order = made.events.sort("run_id", "agent", "seq")
    first = [pl.col(name).drop_nulls().first() for name in ("workflow", *RUN_FACTS)]
    return order.group_by("run_id").agg(first).sort("run_id").collect()


def known_sum(name: str) -> pl.Expr:
    """Sum that is null where nothing is known, rather than 0."""
    return pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name)


def known_cost(name: str = "cost_usd") -> pl.Expr:
    """Sum of dollars in whole nano-dollars, so that the order of addition changes nothing."""
    nano = (pl.col(name) * NANO).round().cast(pl.Int64)
    return (pl.when(nano.is_not_null().any()).then(nano.sum()) / NANO).alias(name)


def lane_facts(made: Material) -> pl.DataFrame:
    """One row a lane: its agent without instance mark, model, version, workflow, counts of verdicts, episodes."""
    verdict = pl.col("verdict")
    judged = made.verdicts.group_by("run_id", "agent").agg(
        pl.len().cast(pl.Int64).alias("actions"),
        (verdict == Verdict.STUCK_LOOP).sum().cast(pl.Int64).alias("stuck"),
        (verdict == Verdict.UNCERTAIN).sum().cast(pl.Int64).alias("uncertain"),
    )
    found = (
        costed(made)
        .group_by("run_id", "agent")
        .agg(
            pl.len().cast(pl.Int64).alias("episodes"),
            known_sum("tokens"),
            known_cost(),
            known_sum("stuck_us"),
        )
    )
    first = [pl.col(name).drop_nulls().first() for name in ("workflow", "model", "agent_version")]
    facts = made.events.sort("run_id", "agent", "seq").group_by("run_id", "agent").agg(first).collect()
    return (
        judged.join(found, on=["run_id", "agent"], how="left")
        .join(facts, on=["run_id", "agent"], how="left")
        .with_columns(
            pl.col("episodes").fill_null(0), pl.col("agent").str.replace(r"#\d+$", "").alias("name")
        )
        .sort("run_id", "agent")
    )


def by_fact(lanes: pl.DataFrame, fact: str) -> pl.DataFrame:
    """Sum lanes up by one fact of theirs, most episodes first."""
    return (
        lanes.with_columns(pl.col(fact).replace("", None).fill_null(UNNAMED))
        .group_by(fact)
        .agg(
            pl.col("run_id").n_unique().cast(pl.Int64).alias("runs"),
            pl.col("run_id").filter(pl.col("episodes") > 0).n_unique().cast(pl.Int64).alias("flagged_runs"),
            pl.col("actions", "episodes", "stuck", "uncertain").sum(),
            known_sum("tokens"),
            known_cost(),
            known_sum("stuck_us"),
        )
        .with_columns((pl.col("flagged_runs") / pl.col("runs")).alias("flagged_share"))
        .sort("episodes", "stuck", fact, descending=[True, True, False])
    )


def as_cell(value: Any) -> str:
    """Text of a value of a trace; a dash for none."""
    return "–" if value is None or value == "" else str(value)
