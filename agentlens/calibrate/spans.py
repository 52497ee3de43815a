"""Facts of each run that calibration needs: where it begins and ends, and what ties it to other runs."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import polars as pl

from agentlens.calibrate.splits import task_groups
from agentlens.model.event import ACTIONS, EVENTS, TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SPANS = pl.Schema(
    {
        "run_id": pl.String(),
        "first_seq": pl.Int64(),
        "last_seq": pl.Int64(),
        "first_at": TIME,
        "last_at": TIME,
        "workflow": pl.String(),
        "task_group": pl.String(),
        "parent_run_id": pl.String(),
        "content": pl.String(),
        "agents": pl.List(pl.String()),
    }
)
"""One row a run, sorted. ``content``: digest of its actions in order, null where they are few or some are unknown.
``agents``: its lanes, sorted, those without an action too."""

LEAST_ACTIONS = 8
"""Shorter runs are not taken for copies of one another: short runs are alike by nature."""


def run_spans(parts: Iterable[pl.LazyFrame], actions: Sequence[str] = ACTIONS) -> pl.DataFrame:
    """Sum up every run of the parts (`SPANS`)."""
    return pl.concat([SPANS.to_frame(), *(_spans(part, actions) for part in parts)]).sort("run_id")


def _spans(events: pl.LazyFrame, actions: Sequence[str]) -> pl.DataFrame:
    given = events.collect_schema()
    names = ("run_id", "agent", "seq", "at", "ended_at", "kind", "workflow", "task_group", "parent_run_id")
    typed = (
        pl.col(name).cast(EVENTS[name]) if name in given else pl.lit(None, dtype=EVENTS[name]).alias(name)
        for name in (*names, "action_signature")
    )
    facts = events.select(typed).with_columns(pl.col("kind").fill_null("tool"), pl.col("agent").fill_null(""))
    acts = pl.col("kind").is_in(list(actions))
    signatures = pl.col("action_signature").filter(acts)
    frame = (
        facts.sort("run_id", "agent", "seq")
        .group_by("run_id", maintain_order=True)
        .agg(
            pl.col("seq").min().alias("first_seq"),
            pl.col("seq").max().alias("last_seq"),
            pl.col("at").min().alias("first_at"),
            pl.max_horizontal(pl.col("at").max(), pl.col("ended_at").max()).alias("last_at"),
            *(pl.col(name).drop_nulls().min() for name in ("workflow", "task_group", "parent_run_id")),
            pl.when((signatures.len() >= LEAST_ACTIONS) & (signatures.null_count() == 0))
            .then(signatures.str.join("\n"))
            .alias("content"),
            pl.col("agent").unique().sort().alias("agents"),
        )
        .collect()
    )
    digests = [
        text and hashlib.blake2b(text.encode(), digest_size=16).hexdigest() for text in frame["content"]
    ]
    return frame.with_columns(pl.Series("content", digests, dtype=pl.String)).select(list(SPANS)).cast(SPANS)


def groups_of(spans: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """Tie runs into task groups: by the task that labels or events name, and the parent run.

    Equal content ties only runs whose task nobody names: where the task is named, the name decides.
    """
    links: list[tuple[str, str]] = []
    named = pl.concat(
        [spans.select("run_id", "task_group"), labels.select("run_id", "task_group")]
    ).drop_nulls()
    unnamed = spans.join(named, on="run_id", how="anti")
    for kind, frame in (
        ("task", named),
        ("run", spans.select("run_id", "parent_run_id")),
        ("content", unnamed.select("run_id", "content")),
    ):
        links += [(run, f"{kind}:{key}") for run, key in frame.drop_nulls().unique().iter_rows()]
    return task_groups(spans["run_id"].to_list(), links)
