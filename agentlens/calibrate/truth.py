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

from agentlens.calibrate.incidents import one_each
from agentlens.calibrate.label_faults import (
    means_lane,
    refuse,
    refuse_both,
    refuse_faults,
    refuse_overlaps,
    whole_runs,
)
from agentlens.calibrate.labels import labels_digest
from agentlens.errors import SettingsError
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
    a labelled run. ``incidents``: ``incident, run_id, lo, hi, end, start, stop, watched, onset_known, end_known,
    observed_until, kind, found_by``, one row an incident and lane it may be in (rows ``start..stop``); its first event
    is one of ``lo..hi``, and it was watched up to row ``watched``. ``place`` (`Place`) and ``incident`` (-1: none) are
    one value an action; ``onset``, ``onset_hi`` and ``end`` are rows of the incident that it lies in, in its lane.
    ``excluded``: runs that are left out whole. ``actionless``: incidents of lanes without any action, which no rule
    can see: they are in no count but this. ``repeated``: labels of an incident that another label tells of, too.
    """

    runs: pl.DataFrame
    incidents: pl.DataFrame
    place: Ints
    incident: Ints
    onset: Ints
    onset_hi: Ints
    end: Ints
    excluded: int
    actionless: int
    repeated: int
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
    kept = strongest(mine)
    refuse_faults(mine, kept, spans)
    left_out = pl.col("label") == str(State.EXCLUDE)
    whole = (pl.col("scope") == str(Scope.RUN)) & pl.col("agent").is_null()
    excluded = kept.filter(left_out & whole)["run_id"].unique()
    kept = kept.filter(~pl.col("run_id").is_in(excluded.implode()))
    refuse_both(kept)
    lanes = _lanes(actions)
    holes = _rows(kept.filter(left_out), lanes, actions)
    parts = _rows(kept.filter(~whole_runs() & (pl.col("label") == str(State.HEALTHY))), lanes, actions)
    ill = kept.filter(pl.col("label") == str(State.INCIDENT))
    told = _incidents(ill, lanes, actions, _lanes_of(parts))
    refuse_overlaps(parts, told)
    incidents = one_each(told)
    covered = _covered(parts, lanes)
    healthy = pl.concat([kept.filter(whole_runs())["run_id"], covered]).unique().sort()
    parts = parts.filter(~pl.col("run_id").is_in(covered.implode()))
    place, incident, rows = _places(actions, healthy, incidents, parts, matching)
    place[actions["run_id"].is_in(excluded.implode()).to_numpy()] = Place.UNJUDGED
    for lo, end in holes.select("lo", "end").iter_rows():
        place[lo : end + 1] = Place.UNJUDGED
    runs = _states(kept.filter(~left_out), healthy.filter(~healthy.is_in(holes["run_id"].implode())))
    seen = set(runs["run_id"]) | set(excluded)
    return Truth(
        runs=runs,
        incidents=incidents,
        place=place,
        incident=incident,
        **rows,
        excluded=excluded.len(),
        actionless=ill.height - told["incident"].n_unique(),
        repeated=told["incident"].n_unique() - incidents["incident"].n_unique(),
        unlabelled=spans.height - len(seen),
        digest=labels_digest(labels),
        origins=tuple(sorted(set(kept["source"].to_list()))),
    )


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
    return pl.col("agent").is_null() | means_lane("agent", "agent_lane")


def _rows(labels: pl.DataFrame, lanes: pl.DataFrame, actions: pl.DataFrame) -> pl.DataFrame:
    """Rows ``lo..end`` of each label and lane it may be about, ``hi`` the last row the onset may be.

    ``watched``: the last row of the lane that somebody saw. Nothing is asserted of what came after it.
    """
    numbered = labels.with_row_index("incident").with_columns(pl.col("incident").cast(pl.Int64))
    pairs = numbered.join(lanes, on="run_id", how="inner", suffix="_lane")
    pairs = pairs.filter(named_lane()).sort("incident", "start")
    seq = actions["seq"].to_numpy()
    at = actions["at"].to_physical().fill_null(NO_TIME).to_numpy()
    _refuse_untimed(pairs, at)
    found: dict[str, list[int]] = {"lo": [], "hi": [], "end": [], "watched": []}
    facts = pairs.select(
        "start",
        "stop",
        "onset_seq",
        "onset_hi_seq",
        "end_seq",
        *(pl.col(n).to_physical() for n in ("onset_at", "end_at", "observed_until")),
        _is_one_event(),
    )
    for start, stop, onset, onset_hi, end, onset_at, end_at, until, one in facts.iter_rows():
        mine = slice(start, stop + 1)
        lo = _first(seq[mine], onset, at[mine], onset_at)
        hi = lo if onset_hi is None else int(np.searchsorted(seq[mine], onset_hi, side="right")) - 1
        watched = _last(seq[mine], None, at[mine], until if (at[mine] != NO_TIME).any() else None)
        last = min(_last(seq[mine], onset if one else end, at[mine], end_at), watched)
        found["lo"].append(start + lo)
        found["hi"].append(start + min(max(hi, lo), max(last, lo)))
        found["end"].append(start + last)
        found["watched"].append(start + watched)
    known = pl.col("onset_seq").is_not_null() | pl.col("onset_at").is_not_null()
    placed = pairs.with_columns(
        *(pl.Series(n, v, dtype=pl.Int64) for n, v in found.items()), known.alias("onset_known")
    )
    placed = placed.filter(pl.col("lo") <= pl.col("end"))
    lost = numbered.filter(~pl.col("incident").is_in(placed["incident"].implode()))
    lost = lost.filter(pl.col("scope") != str(Scope.RUN))
    if lost.height:
        said = lost["run_id"].unique().sort().to_list()
        refuse("no action lies inside the stretch of", said, "a stretch with an action in it")
    return placed


def _is_one_event() -> pl.Expr:
    """A step that is no incident is one event; as an incident it is the first, and the last is not known."""
    return (pl.col("scope") == str(Scope.STEP)) & (pl.col("label") != str(State.INCIDENT))


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
        what = "onset_at or end_at, but no action there has a time"
        refuse(what, bad, "onset_seq and end_seq for runs without times")


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
    known = pl.col("onset_known") & (pl.col("source") != str(Origin.WEAK))
    return placed.select(
        "incident",
        "run_id",
        "lo",
        "hi",
        "end",
        "start",
        "stop",
        "watched",
        known.alias("onset_known"),
        (pl.col("end_seq").is_not_null() | pl.col("end_at").is_not_null()).alias("end_known"),
        "observed_until",
        "kind",
        "found_by",
    ).sort("lo", "incident")


def _places(
    actions: pl.DataFrame,
    healthy: pl.Series,
    incidents: pl.DataFrame,
    parts: pl.DataFrame,
    matching: Matching,
) -> tuple[Ints, Ints, dict[str, Ints]]:
    """What an alert on each row would be, of which incident, and that incident's onset and end in the lane."""
    place = np.full(actions.height, int(Place.UNLABELLED), dtype=np.int64)
    incident = np.full(actions.height, -1, dtype=np.int64)
    facts = {name: incident.copy() for name in ("onset", "onset_hi", "end")}
    place[actions["run_id"].is_in(healthy.implode()).to_numpy()] = Place.HEALTHY_RUN
    judged = pl.concat([incidents["run_id"], parts["run_id"]]).unique()
    place[actions["run_id"].is_in(judged.implode()).to_numpy()] = Place.UNJUDGED
    for (start, stop), group in incidents.group_by("start", "stop", maintain_order=True):
        first = int(group["lo"].min() or 0)  # type: ignore[arg-type]
        place[start:first], place[first : stop + 1] = Place.HEALTHY_PART, Place.LATE
    known = incidents.select("incident", "lo", "hi", "end", "start", "stop")
    for number, lo, hi, end, start, stop in known.iter_rows():
        rows = np.arange(max(start, lo - matching.tol_events), min(stop, end + matching.grace_events) + 1)
        free = rows[incident[rows] < 0]  # an event of two incidents belongs to the earlier one
        place[free], incident[free] = Place.INCIDENT, number
        facts["onset"][free], facts["onset_hi"][free], facts["end"][free] = lo, hi, end
    for lo, end in parts.select("lo", "end").iter_rows():
        place[lo : end + 1], incident[lo : end + 1] = Place.HEALTHY_PART, -1
    return place, incident, facts
