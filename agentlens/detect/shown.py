"""Which judged handoffs are asked for: everything is judged on whole runs, the selection is of what is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from agentlens.model.select import Selection


def chosen_handoffs(judged: pl.DataFrame, selection: Selection, places: pl.DataFrame | None) -> pl.DataFrame:
    """Return the handoffs of a selection, in the order given.

    Parameters
    ----------
    judged
        Rows of schema `agentlens.model.handoff.HANDOFFS`.
    selection
        Times are those of the delegation; an agent is the author or the recipient.
    places
        ``run_id, trace_id`` of the events of the workflow; needed where one is selected.
    """
    if selection.since is not None:
        judged = judged.filter(pl.col("delegated_at") >= selection.since)
    if selection.until is not None:
        judged = judged.filter(pl.col("delegated_at") < selection.until)
    if selection.agent is not None:
        either = [
            (pl.col(name) == selection.agent) | pl.col(name).str.starts_with(f"{selection.agent}#")
            for name in ("author", "recipient")
        ]
        judged = judged.filter(pl.any_horizontal(either))
    if selection.workflow is not None and places is not None:
        runs, traces = places["run_id"].unique(), places["trace_id"].drop_nulls().unique()
        judged = judged.filter(
            pl.col("run_id").is_in(runs.implode()) | pl.col("trace_id").is_in(traces.implode())
        )
    return judged
