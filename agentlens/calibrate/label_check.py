"""Labels beside the runs they are about: which belong to a selection, and whether they can hold at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from agentlens.calibrate.spans import run_spans
from agentlens.calibrate.sweep import ACTION_ROWS
from agentlens.calibrate.truth import Matching, lay, named_lane
from agentlens.detect.lanes import in_lanes
from agentlens.model.event import ACTIONS, EVENTS
from agentlens.model.label import Scope

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_labels(
    labels: pl.DataFrame, parts: Sequence[pl.LazyFrame], actions: Sequence[str] = ACTIONS
) -> None:
    """Refuse labels that no calibration on these events would take.

    Parameters
    ----------
    labels
        `agentlens.model.label.LABELS`; rows about handoffs are not looked at.
    parts
        Event tables that hold disjoint whole runs.
    actions
        Kinds of events that take part in cycles.

    Raises
    ------
    InputError
        For runs that are not there, places outside their run, and contradictions: as `agentlens.calibrate.truth.lay`.
    """
    mine = labels.filter(pl.col("scope") != str(Scope.HANDOFF))
    asked = mine.select("run_id").unique().lazy()
    kept = [part.join(asked, on="run_id", how="semi").collect().lazy() for part in parts]
    lanes = [in_lanes(part, actions).select(list(ACTION_ROWS)).collect() for part in kept]
    lay(mine, pl.concat([ACTION_ROWS.to_frame(), *lanes]), run_spans(kept, actions), Matching())


def selected_labels(
    labels: pl.DataFrame, whole: Sequence[pl.LazyFrame], kept: Sequence[pl.LazyFrame]
) -> tuple[pl.DataFrame, int]:
    """Return the labels of runs and lanes that were selected, and how many of others were left out.

    Labels of runs that are in neither stay: they are an error, not a matter of selection.

    Parameters
    ----------
    labels
        `agentlens.model.label.LABELS`.
    whole, kept
        Event tables before and after the selection. A label whose onset lies in no kept lane of its run is one of a
        lane that was not selected.
    """
    rows = labels.with_row_index("row")
    there, left = _lanes(whole), _lanes(kept)
    elsewhere = pl.concat([_about(rows, there), _about(rows, left)]).unique(keep="none")
    inside = ~pl.col("row").is_in(elsewhere["row"].implode())
    return rows.filter(inside).drop("row"), elsewhere.height


def _lanes(parts: Sequence[pl.LazyFrame]) -> pl.DataFrame:
    """``run_id, agent, last_seq`` of every lane."""
    empty = pl.DataFrame(schema={name: EVENTS[name] for name in ("run_id", "agent", "seq")})
    names = [part.collect_schema().names() for part in parts]
    typed = [
        part.select(
            pl.col("run_id").cast(pl.String),
            pl.col("agent").cast(pl.String).fill_null("") if "agent" in given else pl.lit("").alias("agent"),
            pl.col("seq").cast(EVENTS["seq"]),
        ).collect()
        for part, given in zip(parts, names, strict=True)
    ]
    return pl.concat([empty, *typed]).group_by("run_id", "agent").agg(last_seq=pl.col("seq").max())


def _about(rows: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    """Rows of labels that are about one of the lanes."""
    pairs = rows.select("row", "run_id", "agent", "onset_seq").join(
        lanes, on="run_id", how="inner", suffix="_lane"
    )
    reached = (pl.col("onset_seq") <= pl.col("last_seq")).fill_null(True)
    return pairs.filter(named_lane() & reached).select("row").unique()
