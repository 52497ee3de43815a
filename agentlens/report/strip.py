"""The rows behind a timeline: one lane, each action with its letter, its evidence and its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from agentlens.errors import InputError
from agentlens.model.verdict import EPISODES

if TYPE_CHECKING:
    from typing import Any

Frame: TypeAlias = pl.DataFrame | pl.LazyFrame

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
BEFORE = 6  # events shown ahead of the first onset when a lane is too long to show whole


@dataclass(frozen=True, kw_only=True)
class Strip:
    """One lane ready to draw.

    ``steps``: seq, tool, letter (one a distinct signature, in order of appearance), evidence (new, seen before,
    unknown), verdict, reason, at, stalled. ``episodes``: those of the lane that touch the window. ``first`` to
    ``last`` of ``total`` actions are shown.
    """

    run_id: str
    agent: str
    steps: list[dict[str, Any]]
    episodes: list[dict[str, Any]]
    first: int
    last: int
    total: int


def strip(
    events: Frame,
    verdicts: Frame,
    episodes: Frame | None,
    *,
    run_id: str,
    agent: str | None,
    max_events: int,
    around: int | None = None,
) -> Strip:
    """Cut one lane out of the tables.

    Parameters
    ----------
    events, verdicts, episodes
        Tables of the schemas `EVENTS`, `VERDICTS` and `EPISODES`.
    run_id, agent
        The lane; with no agent the one with most stuck events, then most uncertain ones, then the first by name.
    max_events
        How many actions to show at most; a longer lane is shown from shortly before its first onset.
    around
        A seq to show a longer lane from shortly before instead.

    Raises
    ------
    InputError
        When no event of that run or lane was judged.
    """
    judged = _lazy(verdicts).filter(pl.col("run_id") == run_id).collect()
    lane = agent if agent is not None else _worst_lane(judged, run_id)
    judged = judged.filter(pl.col("agent") == lane).sort("seq")
    if judged.is_empty():
        raise InputError.at(
            f"run {run_id!r}", f"no judged event of agent {agent!r}", accepted="a lane of the verdicts"
        )
    rows = _steps(_lazy(events).filter((pl.col("run_id") == run_id) & (pl.col("agent") == lane)), judged)
    found = _episodes(episodes, run_id, lane)
    start = _window_start(rows, found, max_events, around)
    shown = rows.slice(start, max_events)
    low, high = shown["seq"].min(), shown["seq"].max()
    touching = found.filter((pl.col("onset_seq") <= high) & (pl.col("end_seq") >= low))
    return Strip(
        run_id=run_id,
        agent=lane,
        steps=shown.to_dicts(),
        episodes=touching.to_dicts(),
        first=start + 1,
        last=start + shown.height,
        total=rows.height,
    )


def _lazy(frame: Frame) -> pl.LazyFrame:
    return frame.lazy()


def _worst_lane(judged: pl.DataFrame, run_id: str) -> str:
    if judged.is_empty():
        raise InputError.at(f"run {run_id!r}", "no judged event", accepted="a run_id of the verdicts")
    lanes = judged.group_by("agent").agg(
        stuck=(pl.col("verdict") == "stuck_loop").sum(), unclear=(pl.col("verdict") == "uncertain").sum()
    )
    return str(lanes.sort("stuck", "unclear", "agent", descending=[True, True, False])["agent"][0])


def _steps(events: pl.LazyFrame, judged: pl.DataFrame) -> pl.DataFrame:
    seen = pl.col("progress_fingerprint").is_first_distinct()
    facts = events.select("seq", "tool", "action_signature", "progress_fingerprint").collect()
    evidence = (
        pl.when(pl.col("progress_fingerprint").is_null())
        .then(pl.lit("unknown"))
        .when(seen)
        .then(pl.lit("new"))
        .otherwise(pl.lit("seen before"))
        .alias("evidence")
    )
    columns = ("seq", "at", "verdict", "reason", "period", "laps", "stalled_events")
    rows = (
        judged.select(columns).join(facts, on="seq", how="left", maintain_order="left").with_columns(evidence)
    )
    letters = _letters(rows["action_signature"])
    return rows.with_columns(pl.Series("letter", letters, pl.String)).drop(
        "action_signature", "progress_fingerprint"
    )


def _letters(signatures: pl.Series) -> list[str]:
    """Name each distinct action A, B, ... Z, A2, ...; "?" where the action is not known."""
    names: dict[str, str] = {}
    letters = []
    for signature in signatures:
        if signature is not None and signature not in names:
            turn, at = divmod(len(names), len(LETTERS))
            names[signature] = LETTERS[at] + (str(turn + 1) if turn else "")
        letters.append("?" if signature is None else names[signature])
    return letters


def _episodes(episodes: Frame | None, run_id: str, agent: str) -> pl.DataFrame:
    if episodes is None:
        return pl.DataFrame(schema=EPISODES)
    mine = (pl.col("run_id") == run_id) & (pl.col("agent") == agent)
    return _lazy(episodes).filter(mine).sort("onset_seq").collect()


def _window_start(rows: pl.DataFrame, episodes: pl.DataFrame, max_events: int, around: int | None) -> int:
    if rows.height <= max_events or (episodes.is_empty() and around is None):
        return 0
    onset = int((rows["seq"] < (episodes["onset_seq"][0] if around is None else around)).sum())
    return max(0, min(onset - BEFORE, rows.height - max_events))
