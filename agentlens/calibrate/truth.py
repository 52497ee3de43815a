"""What is true of every action, by the labels: the frame that alerts are held against (CALIBRATION 2.1).

Of several assertions about one run only those of the strongest origin count, of those the newest version. What is
left may not contradict itself. Positions are rows of the sweep's ``actions`` frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from agentlens.calibrate.labels import labels_digest, listed, where_listed
from agentlens.errors import InputError, SettingsError
from agentlens.model.label import Origin, Scope, State

Ints: TypeAlias = NDArray[np.int64]
NO_TIME = -(2**63)
"""Stands for an unknown time: before every other."""


class Place(IntEnum):
    """What an alert on a row is."""

    UNLABELLED = 0
    HEALTHY_RUN = 1
    HEALTHY_PART = 2
    INCIDENT = 3
    LATE = 4
    UNJUDGED = 5


@dataclass(frozen=True, kw_only=True)
class Matching:
    """When an alert belongs to an incident: from ``tol_events`` before the onset to ``grace_events`` after the end."""

    tol_events: int = 0
    grace_events: int = 2

    def __post_init__(self) -> None:
        """Refuse negative margins."""
        for name in ("tol_events", "grace_events"):
            if getattr(self, name) < 0:
                raise SettingsError.value(name, getattr(self, name), "a whole number from 0")


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Labels laid over the actions of a sweep.

    ``runs``: ``run_id, state`` (``healthy``, ``incident``, ``partly`` for runs with healthy stretches only), one row
    a labelled run. ``incidents``: ``incident, run_id, lo, hi, end, start, stop, onset_known, observed_until, kind,
    found_by``, one row an incident and lane it may be in (rows ``start..stop``). ``place`` (`Place`) and ``incident``
    (-1: none) are one value an action; ``onset`` and ``end`` are rows of the incident that it lies in, in its lane.
    """

    runs: pl.DataFrame
    incidents: pl.DataFrame
    place: Ints
    incident: Ints
    onset: Ints
    end: Ints
    excluded: int
    unlabelled: int
    digest: str
    origins: tuple[str, ...]


def strongest(labels: pl.DataFrame) -> pl.DataFrame:
    """Keep of each run (or operation) the labels of its strongest origin, and of those the newest version."""
    order = {str(origin): number for number, origin in enumerate(Origin)}
    about = [pl.coalesce("run_id", "operation_id"), pl.col("scope") == str(Scope.HANDOFF)]
    origin = pl.col("source").replace_strict(order, return_dtype=pl.Int64)
    # versions are numbers as a rule; any other text is older than every number
    version = pl.struct(
        pl.col("label_version").cast(pl.Int64, strict=False).fill_null(-1),
        pl.col("label_version").alias("text"),
    )
    kept = labels.filter(origin == origin.min().over(about))
    return kept.filter(version.rank("dense").over(about) == version.rank("dense").max().over(about))


def lay(labels: pl.DataFrame, actions: pl.DataFrame, spans: pl.DataFrame, matching: Matching) -> Truth:
    """Lay labels over actions.

    Parameters
    ----------
    labels
        `agentlens.model.label.LABELS`; rows of scope ``handoff`` are left to the acknowledgement limits.
    actions
        Of a `agentlens.calibrate.sweep.Sweep`.
    spans
        ``run_id, first_seq, last_seq, first_at, last_at`` of every run there is, all kinds of events.
    matching
        Margins around incidents.

    Raises
    ------
    InputError
        For labels of runs that are not there, onsets outside their run, and labels that contradict each other.
    """
    mine = labels.filter(pl.col("scope") != str(Scope.HANDOFF))
    _refuse_unmatched(mine, spans)
    kept = strongest(mine)
    _refuse_outside(kept, spans)
    excluded = kept.filter(pl.col("label") == str(State.EXCLUDE))["run_id"].unique()
    kept = kept.filter(~pl.col("run_id").is_in(excluded.implode()))
    _refuse_both(kept)
    lanes = _lanes(actions)
    whole = _whole()
    parts = _rows(kept.filter(~whole & (pl.col("label") == str(State.HEALTHY))), lanes, actions)
    incidents = _incidents(
        kept.filter(pl.col("label") == str(State.INCIDENT)), lanes, actions, _lanes_of(parts)
    )
    _refuse_overlaps(parts, incidents)
    covered = _covered(parts, lanes)
    healthy = pl.concat([kept.filter(whole)["run_id"], covered]).unique().sort()
    parts = parts.filter(~pl.col("run_id").is_in(covered.implode()))
    place, incident, onset, end = _places(actions, healthy, incidents, parts, matching)
    place[actions["run_id"].is_in(excluded.implode()).to_numpy()] = Place.UNJUDGED
    runs = _states(kept, healthy)
    seen = set(runs["run_id"]) | set(excluded)
    return Truth(
        runs=runs,
        incidents=incidents,
        place=place,
        incident=incident,
        onset=onset,
        end=end,
        excluded=excluded.len(),
        unlabelled=spans.height - len(seen),
        digest=labels_digest(labels),
        origins=tuple(sorted(set(kept["source"].to_list()))),
    )


def _whole() -> pl.Expr:
    """Labels that assert every lane of a run healthy."""
    said = (pl.col("scope") == str(Scope.RUN)) & (pl.col("label") == str(State.HEALTHY))
    return said & pl.col("agent").is_null()


def _lanes_of(parts: pl.DataFrame) -> pl.DataFrame:
    """``start, stop`` of lanes that are asserted healthy from end to end: such a label speaks for its lane only."""
    whole = (pl.col("lo") == pl.col("start")) & (pl.col("end") == pl.col("stop"))
    return parts.filter(whole & (pl.col("scope") == str(Scope.RUN))).select("start", "stop").unique()


def _covered(parts: pl.DataFrame, lanes: pl.DataFrame) -> pl.Series:
    """Runs of which every lane is asserted healthy by itself: they are healthy runs."""
    left = lanes.join(_lanes_of(parts), on=["start", "stop"], how="anti")["run_id"].unique()
    return parts.filter(~pl.col("run_id").is_in(left.implode()))["run_id"].unique()


def _states(kept: pl.DataFrame, healthy: pl.Series) -> pl.DataFrame:
    ill = kept.filter(pl.col("label") == str(State.INCIDENT))["run_id"].unique().implode()
    state = (
        pl.when(pl.col("run_id").is_in(healthy.implode()))
        .then(pl.lit("healthy"))
        .when(pl.col("run_id").is_in(ill))
        .then(pl.lit("incident"))
        .otherwise(pl.lit("partly"))
    )
    return kept.select(pl.col("run_id").unique().sort()).with_columns(state.alias("state"))


def _refuse_unmatched(labels: pl.DataFrame, spans: pl.DataFrame) -> None:
    missing = labels.join(spans, on="run_id", how="anti")["run_id"].unique().sort().to_list()
    if missing:
        raise InputError.at(
            "labels",
            f"{len(missing):,} runs are not in the data: {listed(missing)}",
            accepted=where_listed(missing, "run_id"),
        )


def _refuse_outside(labels: pl.DataFrame, spans: pl.DataFrame) -> None:
    placed = labels.join(spans, on="run_id", how="left")
    outside = pl.any_horizontal(
        pl.col("onset_seq") > pl.col("last_seq"),
        pl.col("onset_seq") < pl.col("first_seq"),
        pl.col("onset_at") > pl.col("last_at"),
        pl.col("onset_at") < pl.col("first_at"),
    ).fill_null(False)
    bad = placed.filter(outside)
    if bad.height:
        said = [
            f"{run} ({what})" for run, what in bad.select("run_id", _onset_text()).sort("run_id").iter_rows()
        ]
        raise InputError.at(
            "labels",
            f"onset outside the run: {listed(said)}",
            accepted="an onset between the run's first and last event",
        )


def _onset_text() -> pl.Expr:
    said = [
        pl.concat_str(
            *(pl.lit(f"onset_{unit} "), pl.col(f"onset_{unit}"), pl.lit(", run ")),
            *(pl.col(f"first_{unit}"), pl.lit(".."), pl.col(f"last_{unit}")),
        )
        for unit in ("seq", "at")
    ]
    return pl.coalesce(said)


def _refuse_both(labels: pl.DataFrame) -> None:
    """A run asserted healthy as a whole holds no incident."""
    healthy = labels.filter(_whole())["run_id"].unique()
    ill = labels.filter(pl.col("label") == str(State.INCIDENT))["run_id"].unique()
    both = sorted(set(healthy) & set(ill))
    if both:
        raise InputError.at(
            "labels",
            f"healthy and incident at once: {listed(both)}",
            accepted="one assertion a run, or a newer label_version of it",
        )


def _lanes(actions: pl.DataFrame) -> pl.DataFrame:
    """``run_id, agent, start, stop``: rows of each lane, both included."""
    rows = actions.with_row_index("row").select("run_id", "agent", pl.col("row").cast(pl.Int64))
    return (
        rows.group_by("run_id", "agent")
        .agg(start=pl.col("row").min(), stop=pl.col("row").max())
        .sort("start")
    )


def named_lane() -> pl.Expr:
    """Whether a label's ``agent`` means ``agent_lane``: none is any, and a name may stand without its instance mark."""
    own = pl.col("agent").is_null() | (pl.col("agent") == pl.col("agent_lane"))
    return own | pl.col("agent_lane").str.starts_with(pl.col("agent") + "#")


def _rows(labels: pl.DataFrame, lanes: pl.DataFrame, actions: pl.DataFrame) -> pl.DataFrame:
    """Rows ``lo..end`` of each label and lane it may be about, ``hi`` the last row the onset may be."""
    numbered = labels.with_row_index("incident").with_columns(pl.col("incident").cast(pl.Int64))
    pairs = numbered.join(lanes, on="run_id", how="inner", suffix="_lane")
    pairs = pairs.filter(named_lane()).sort("incident", "start")
    seq = actions["seq"].to_numpy()
    at = actions["at"].to_physical().fill_null(NO_TIME).to_numpy()
    _refuse_untimed(pairs, at)
    found: dict[str, list[int]] = {"lo": [], "hi": [], "end": []}
    facts = pairs.select(
        "start",
        "stop",
        "onset_seq",
        "onset_hi_seq",
        "end_seq",
        *(pl.col(n).to_physical() for n in ("onset_at", "end_at")),
    )
    for start, stop, onset, onset_hi, end, onset_at, end_at in facts.iter_rows():
        mine = slice(start, stop + 1)
        lo = _first(seq[mine], onset, at[mine], onset_at)
        hi = lo if onset_hi is None else int(np.searchsorted(seq[mine], onset_hi, side="right")) - 1
        last = _last(seq[mine], end, at[mine], end_at)
        found["lo"].append(start + lo)
        found["hi"].append(start + max(hi, lo))
        found["end"].append(start + last)
    known = pl.col("onset_seq").is_not_null() | pl.col("onset_at").is_not_null()
    placed = pairs.with_columns(
        *(pl.Series(n, v, dtype=pl.Int64) for n, v in found.items()), known.alias("onset_known")
    )
    return placed.filter(pl.col("lo") <= pl.col("end"))


def _refuse_untimed(pairs: pl.DataFrame, at: Ints) -> None:
    """A place given by time alone needs a time on some action of the lanes it may be in; other lanes do not matter."""
    by_time = pl.any_horizontal(
        pl.col(f"{edge}_at").is_not_null() & pl.col(f"{edge}_seq").is_null() for edge in ("onset", "end")
    )
    asked = pairs.filter(by_time)
    timed = [bool((at[a : b + 1] != NO_TIME).any()) for a, b in asked.select("start", "stop").iter_rows()]
    known = asked.with_columns(pl.Series("timed", timed, dtype=pl.Boolean))
    bad = known.filter(~pl.col("timed").any().over("incident"))["run_id"].unique().sort().to_list()
    if bad:
        raise InputError.at(
            "labels",
            f"onset_at or end_at, but no action there has a time: {listed(bad)}",
            accepted="onset_seq and end_seq for runs without times",
        )


def _first(seq: Ints, onset: int | None, when: Ints, onset_at: int | None) -> int:
    if onset is not None:
        return int(np.searchsorted(seq, onset))
    if onset_at is not None:
        later = np.flatnonzero(when >= onset_at)
        return int(later[0]) if later.size else seq.size
    return 0


def _last(seq: Ints, end: int | None, when: Ints, end_at: int | None) -> int:
    if end is not None:
        return int(np.searchsorted(seq, end, side="right")) - 1
    if end_at is not None:
        before = np.flatnonzero((when != NO_TIME) & (when <= end_at))
        return int(before[-1]) if before.size else -1
    return seq.size - 1


def _incidents(
    labels: pl.DataFrame, lanes: pl.DataFrame, actions: pl.DataFrame, well: pl.DataFrame
) -> pl.DataFrame:
    """Incidents as rows; a step is an incident of one event whose end is not known. Weak onsets are no onsets.

    An incident of the run as a whole may be in any lane but those asserted healthy (`well`), if another is left.
    """
    placed = _rows(labels, lanes, actions)
    ill = placed.join(well.with_columns(well=True), on=["start", "stop"], how="left", maintain_order="left")
    elsewhere = pl.col("well").fill_null(False) & pl.col("agent").is_null()
    placed = ill.filter(~elsewhere | elsewhere.all().over("incident")).drop("well")
    lost = labels.with_row_index("incident").filter(~pl.col("incident").is_in(placed["incident"].implode()))
    lost = lost.filter(pl.col("scope") != str(Scope.RUN))
    if lost.height:
        said = lost["run_id"].unique().sort().to_list()
        raise InputError.at(
            "labels",
            f"no action lies inside the incident of {listed(said)}",
            accepted="an interval with an action in it",
        )
    known = pl.col("onset_known") & (pl.col("source") != str(Origin.WEAK))
    return placed.select(
        "incident",
        "run_id",
        "lo",
        "hi",
        "end",
        "start",
        "stop",
        known.alias("onset_known"),
        "observed_until",
        "kind",
        "found_by",
    ).sort("lo", "incident")


def _refuse_overlaps(parts: pl.DataFrame, incidents: pl.DataFrame) -> None:
    both = parts.join(incidents, on="run_id", suffix="_i")
    clash = both.filter((pl.col("lo") <= pl.col("end_i")) & (pl.col("lo_i") <= pl.col("end")))
    if clash.height:
        said = clash["run_id"].unique().sort().to_list()
        raise InputError.at(
            "labels",
            f"healthy and incident at once: {listed(said)}",
            accepted="stretches that do not overlap",
        )


def _places(
    actions: pl.DataFrame,
    healthy: pl.Series,
    incidents: pl.DataFrame,
    parts: pl.DataFrame,
    matching: Matching,
) -> tuple[Ints, Ints, Ints, Ints]:
    """What an alert on each row would be, of which incident, and that incident's onset and end in the lane."""
    place = np.full(actions.height, int(Place.UNLABELLED), dtype=np.int64)
    incident = np.full(actions.height, -1, dtype=np.int64)
    onset, ends = incident.copy(), incident.copy()
    place[actions["run_id"].is_in(healthy.implode()).to_numpy()] = Place.HEALTHY_RUN
    judged = pl.concat([incidents["run_id"], parts["run_id"]]).unique()
    place[actions["run_id"].is_in(judged.implode()).to_numpy()] = Place.UNJUDGED
    for (start, stop), group in incidents.group_by("start", "stop", maintain_order=True):
        first = int(group["lo"].min() or 0)  # type: ignore[arg-type]
        place[start:first], place[first : stop + 1] = Place.HEALTHY_PART, Place.LATE
    for number, lo, end, start, stop in incidents.select(
        "incident", "lo", "end", "start", "stop"
    ).iter_rows():
        rows = np.arange(max(start, lo - matching.tol_events), min(stop, end + matching.grace_events) + 1)
        free = rows[incident[rows] < 0]  # an event of two incidents belongs to the earlier one
        place[free], incident[free] = Place.INCIDENT, number
        onset[free], ends[free] = lo, end
    for lo, end in parts.select("lo", "end").iter_rows():
        place[lo : end + 1], incident[lo : end + 1] = Place.HEALTHY_PART, -1
    return place, incident, onset, ends
