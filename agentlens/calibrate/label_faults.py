"""Labels that can not hold on the runs there are: each fault is one line that names the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import polars as pl

from agentlens.calibrate.labels import listed, where_listed
from agentlens.errors import InputError
from agentlens.model.label import Scope, State
from agentlens.plural import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

_BOTH = "healthy and incident at once"


def refuse(what: str, named: Sequence[str], accepted: str) -> NoReturn:
    """Raise the one line of a fault.

    Raises
    ------
    InputError
        Always.
    """
    raise InputError.at("labels", f"{what}: {listed(named)}", accepted=accepted)


def refuse_faults(labels: pl.DataFrame, kept: pl.DataFrame, spans: pl.DataFrame) -> None:
    """Refuse labels of runs and lanes that are not there, and places outside their run.

    Parameters
    ----------
    labels, kept
        `agentlens.model.label.LABELS`: every one about runs, and of each run the strongest, whose places count.
    spans
        `agentlens.calibrate.spans.SPANS`.

    Raises
    ------
    InputError
        The message lists them.
    """
    _refuse_unmatched(labels, spans)
    _refuse_strange_agents(labels, spans)
    _refuse_outside(kept, spans)
    _refuse_unwatched(kept, spans)


def means_lane(agent: str, lane: str) -> pl.Expr:
    """Whether a label's ``agent`` column means a ``lane`` column; a name may stand without its instance mark.

    The empty name is that of the lane of events without an agent, and of no other.
    """
    marked = (pl.col(agent) != "") & pl.col(lane).str.starts_with(pl.col(agent) + "#")
    return (pl.col(agent) == pl.col(lane)) | marked


def whole_runs() -> pl.Expr:
    """Labels that assert every lane of a run healthy."""
    said = (pl.col("scope") == str(Scope.RUN)) & (pl.col("label") == str(State.HEALTHY))
    return said & pl.col("agent").is_null()


def refuse_both(labels: pl.DataFrame) -> None:
    """A run asserted healthy as a whole holds no incident."""
    healthy = labels.filter(whole_runs())["run_id"].unique()
    ill = labels.filter(pl.col("label") == str(State.INCIDENT))["run_id"].unique()
    both = sorted(set(healthy) & set(ill))
    if both:
        refuse(_BOTH, both, "one assertion a run, or a newer label_version of it")


def refuse_overlaps(parts: pl.DataFrame, incidents: pl.DataFrame) -> None:
    """No action lies in a healthy stretch and an incident at once (``run_id, lo, end``: rows)."""
    both = parts.join(incidents, on="run_id", suffix="_i")
    clash = both.filter((pl.col("lo") <= pl.col("end_i")) & (pl.col("lo_i") <= pl.col("end")))
    if clash.height:
        refuse(_BOTH, clash["run_id"].unique().sort().to_list(), "stretches that do not overlap")


def _refuse_unmatched(labels: pl.DataFrame, spans: pl.DataFrame) -> None:
    missing = labels.join(spans, on="run_id", how="anti")["run_id"].unique().sort().to_list()
    if missing:
        refuse(f"{plural(len(missing), 'run')} not in the data", missing, where_listed(missing, "run_id"))


def _refuse_strange_agents(labels: pl.DataFrame, spans: pl.DataFrame) -> None:
    named = labels.select("run_id", "agent").drop_nulls().unique()
    lanes = spans.select("run_id", pl.col("agents").alias("lane")).explode("lane")
    known = named.join(lanes, on="run_id").filter(means_lane("agent", "lane"))
    strange = named.join(known, on=["run_id", "agent"], how="anti").sort("run_id", "agent")
    if strange.height:
        there = lanes.filter(pl.col("run_id") == strange["run_id"][0])["lane"].sort().to_list()
        refuse(
            f"{plural(strange.height, 'agent')} not in the run",
            [f"{_named(agent)} (run {run})" for run, agent in strange.iter_rows()],
            f"no agent, or one of the run: {listed([_named(lane) for lane in there])}",
        )


def _named(agent: str) -> str:
    """The name, or two quotes for the lane that has none."""
    return agent or '""'


def _refuse_outside(labels: pl.DataFrame, spans: pl.DataFrame) -> None:
    placed = labels.join(spans, on="run_id", how="left")
    for name, unit, what, accepted in (
        ("onset_seq", "seq", "onset", "an onset"),
        ("onset_at", "at", "onset", "an onset"),
        ("onset_hi_seq", "seq", "last onset", "a last onset"),
        # a time after the last event is natural for an end: runs are also ended from outside
        ("end_seq", "seq", "end", "an end"),
    ):
        first, last = f"first_{unit}", f"last_{unit}"
        bad = placed.filter((pl.col(name) > pl.col(last)) | (pl.col(name) < pl.col(first))).sort("run_id")
        if bad.height:
            said = bad.select("run_id", *(pl.col(n).cast(pl.String) for n in (name, first, last)))
            named = [f"{run} ({name} {at}, run {low}..{high})" for run, at, low, high in said.iter_rows()]
            refuse(f"{what} outside the run", named, f"{accepted} between the run's first and last event")


def _refuse_unwatched(labels: pl.DataFrame, spans: pl.DataFrame) -> None:
    placed = labels.join(spans, on="run_id", how="left")
    bad = placed.filter(pl.col("observed_until") < pl.col("first_at"))["run_id"].unique().sort().to_list()
    if bad:
        refuse("observed_until is before the run", bad, "a time after the run's first event")
