"""One row a run: its final verdict, alerts, stuck time, tokens and cost."""

from __future__ import annotations

import polars as pl

from agentlens.detect.episodes import dollars, nano_cost, tokens
from agentlens.detect.lanes import LANE
from agentlens.model.enums import Verdict
from agentlens.model.event import EVENTS
from agentlens.model.verdict import RUNS

_WORST = pl.Enum([str(verdict) for verdict in Verdict])
FACTS = ("run_id", "agent", "seq", "at", "ended_at", "workflow", "tokens_in", "tokens_out", "cost_usd")


def runs(events: pl.LazyFrame, verdicts: pl.LazyFrame, episodes: pl.LazyFrame) -> pl.LazyFrame:
    """Sum up every run.

    Parameters
    ----------
    events, verdicts, episodes
        The event table, and what `loops` and `episodes` gave for it.

    Returns
    -------
    LazyFrame
        `agentlens.model.verdict.RUNS`, sorted by run_id. ``verdict`` is the worst of the last verdicts of its
        lanes, null for a run without actions. ``stuck_us`` runs from each stuck event to the next action of
        its lane (for the last to its own end), null where no such time is known. ``stalled_events`` is the
        longest run of unchanged evidence. ``loop_tokens`` and ``loop_cost_usd`` count events inside any
        episode once. ``first_alert_seq`` is that of the earliest alert.
    """
    given = events.collect_schema()
    facts = events.select(
        pl.col(name) if name in given else pl.lit(None, dtype=EVENTS[name]).alias(name) for name in FACTS
    ).with_columns(pl.col("agent").fill_null(""), tokens().alias("_tokens"), nano_cost().alias("_nano"))
    return (
        _whole(facts)
        .join(_judged(facts, verdicts), on="run_id", how="left")
        .join(_alerted(episodes), on="run_id", how="left")
        .join(_in_loops(facts, episodes), on="run_id", how="left")
        .with_columns(
            pl.col(
                "lanes", "events", "alerts", "stuck_events", "uncertain_events", "stalled_events"
            ).fill_null(0),
            *(dollars(pl.col(f"_{name}")).alias(name) for name in ("cost_usd", "loop_cost_usd")),
        )
        .select(pl.col(name).cast(dtype) for name, dtype in RUNS.items())
        .sort("run_id")
    )


def _sum(name: str) -> pl.Expr:
    """Sum that is null where nothing is known."""
    return pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum())


def _whole(facts: pl.LazyFrame) -> pl.LazyFrame:
    return facts.group_by("run_id").agg(
        pl.col("workflow").min(),
        pl.col("at").min().alias("started_at"),
        pl.max_horizontal(pl.col("at").max(), pl.col("ended_at").max()).alias("ended_at"),
        _sum("_tokens").alias("tokens"),
        _sum("_nano").alias("_cost_usd"),
    )


def _judged(facts: pl.LazyFrame, verdicts: pl.LazyFrame) -> pl.LazyFrame:
    """Sum up the verdicts of each run; they stand in the order of `loops`, every lane in one piece."""
    stuck = pl.col("verdict") == str(Verdict.STUCK_LOOP)
    last = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(-1)) for name in LANE)
    until = pl.when(~pl.col("_last")).then(pl.col("at").shift(-1)) - pl.col("at")
    return (
        verdicts.with_columns(last.alias("_last"))
        .with_columns(
            pl.when(stuck).then(until.dt.total_microseconds().clip(lower_bound=0)).alias("_stuck_us"),
            pl.when("_last").then(pl.col("verdict").cast(_WORST).to_physical()).alias("_rank"),
        )
        .group_by("run_id")
        .agg(
            pl.col("_last").sum().alias("lanes"),
            pl.len().alias("events"),
            pl.col("_rank").max().alias("_worst"),
            stuck.sum().alias("stuck_events"),
            _sum("_stuck_us").alias("_between_us"),
            (pl.col("verdict") == str(Verdict.UNCERTAIN)).sum().alias("uncertain_events"),
            pl.col("stalled_events").max(),
        )
        .join(_own_ends(facts, verdicts.filter(stuck & last)), on="run_id", how="left")
        .with_columns(
            pl.col("_worst")
            .replace_strict(dict(enumerate(map(str, Verdict))), return_dtype=pl.String)
            .alias("verdict"),
            pl.when(pl.col("_between_us").is_not_null() | pl.col("_own_us").is_not_null())
            .then(pl.col("_between_us").fill_null(0) + pl.col("_own_us").fill_null(0))
            .alias("stuck_us"),
        )
    )


def _own_ends(facts: pl.LazyFrame, ends: pl.LazyFrame) -> pl.LazyFrame:
    """Time of the stuck events that end their lanes, by their own end."""
    key = [*LANE, "seq"]
    lasting = (pl.col("ended_at") - pl.col("at")).dt.total_microseconds().clip(lower_bound=0)
    return (
        facts.filter(pl.col("ended_at").is_not_null() & pl.col("at").is_not_null())
        .select(*key, "at", "ended_at")
        .join(ends.select(key), on=key, how="semi")
        .with_columns(lasting.alias("_lasting"))
        .group_by("run_id")
        .agg(_sum("_lasting").alias("_own_us"))
    )


def _alerted(episodes: pl.LazyFrame) -> pl.LazyFrame:
    return (
        episodes.sort("run_id", "alert_at", "agent", "alert_seq", nulls_last=True)
        .group_by("run_id", maintain_order=True)
        .agg(
            pl.len().alias("alerts"),
            pl.col("alert_seq").first().alias("first_alert_seq"),
            pl.col("alert_at").first().alias("first_alert_at"),
        )
    )


def _in_loops(facts: pl.LazyFrame, episodes: pl.LazyFrame) -> pl.LazyFrame:
    """Tokens and cost of the events inside any episode of their lane."""
    spans = (
        episodes.select(*LANE, "onset_seq", "end_seq")
        .sort(*LANE, "onset_seq", "end_seq")
        .with_columns(pl.col("end_seq").cum_max().over(LANE).alias("_until"))
        .sort("onset_seq")
    )
    return (
        facts.filter(pl.col("_tokens").is_not_null() | pl.col("_nano").is_not_null())
        .select(*LANE, "seq", "_tokens", "_nano")
        .join(spans, on=LANE, how="semi")
        .sort("seq")
        .join_asof(spans, left_on="seq", right_on="onset_seq", by=list(LANE), check_sortedness=False)
        .filter(pl.col("seq") <= pl.col("_until"))
        .group_by("run_id")
        .agg(_sum("_tokens").alias("loop_tokens"), _sum("_nano").alias("_loop_cost_usd"))
    )
