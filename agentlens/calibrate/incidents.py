"""Labels that tell of one incident: those that overlap in one lane are one: it is found once, or missed once."""

from __future__ import annotations

from typing import Any, TypeAlias

import polars as pl

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = list[Row]


def one_each(incidents: pl.DataFrame) -> pl.DataFrame:
    """Join incidents that overlap in one lane.

    Parameters
    ----------
    incidents
        ``incident, run_id, lo, hi, end, start, stop, watched, onset_known, end_known, observed_until, kind,
        found_by``: a row a label and lane it may be in (`agentlens.calibrate.truth.Truth`).

    Returns
    -------
    DataFrame
        The same columns, sorted by ``lo, incident``. A joined incident has the smallest number, begins where the
        earliest of its labels says, ends where the last known end is, and was watched as long as anybody watched;
        its kinds and finders are listed.

    Notes
    -----
    A label that does not say where (no onset, or no agent in a run of several lanes) is about an incident that another
    one does place, where they overlap: it adds none and moves none. So a label of a whole run does not make one
    incident of two stretches, or of incidents in two lanes. An end that is not known is the lane's: a later label
    of the lane then overlaps.
    """
    several = incidents.group_by("run_id").agg(pl.col("incident").n_unique()).filter(pl.col("incident") > 1)
    if several.is_empty():
        return incidents
    asked = incidents.join(several, on="run_id", how="semi", maintain_order="left")
    joined: Rows = []
    for (_run,), group in asked.group_by("run_id", maintain_order=True):
        joined += _of_run(group.to_dicts())
    alone = incidents.join(several, on="run_id", how="anti", maintain_order="left")
    return pl.concat([alone, pl.DataFrame(joined, schema=incidents.schema)]).sort("lo", "incident")


def _of_run(rows: Rows) -> Rows:
    labels: dict[int, Rows] = {}
    for row in rows:
        labels.setdefault(row["incident"], []).append(row)
    kept: Rows = []
    for exact in (0, 1, 2, 3):
        new = [each for each in labels.values() if _vague(each) == exact and not _overlap(each, kept)]
        for told in _joined(new):
            kept += _merged([row for each in told for row in each])
    return kept


def _vague(label: Rows) -> int:
    """How little a label says of its place: 0 onset and lane, 1 no lane, 2 no onset, 3 neither."""
    return 2 * (not label[0]["onset_known"]) + (len(label) > 1)


def _overlap(one: Rows, other: Rows) -> bool:
    return any(
        a["start"] == b["start"] and a["lo"] <= b["end"] and b["lo"] <= a["end"] for a in one for b in other
    )


def _joined(labels: list[Rows]) -> list[list[Rows]]:
    """Labels that overlap, by however many steps, together."""
    sets: list[list[Rows]] = []
    for label in labels:
        touched = [each for each in sets if any(_overlap(label, one) for one in each)]
        rest = [each for each in sets if all(each is not other for other in touched)]
        sets = [*rest, [one for each in touched for one in each] + [label]]
    return sets


def _merged(rows: Rows) -> Rows:
    """One row a lane of labels that are one incident."""
    lanes: dict[int, Rows] = {}
    for row in rows:
        lanes.setdefault(row["start"], []).append(row)
    number = min(row["incident"] for row in rows)
    return [_one(number, lanes[start]) for start in sorted(lanes)]


def _one(number: int, rows: Rows) -> Row:
    ended = [row for row in rows if row["end_known"]]
    watched = max(row["watched"] for row in rows)
    seen = [row["observed_until"] for row in rows if row["watched"] == watched and row["observed_until"]]
    return {
        **rows[0],
        "incident": number,
        "lo": min(row["lo"] for row in rows),
        # by the assertion of the earliest it had begun by then
        "hi": min(row["hi"] for row in rows),
        "end": max(row["end"] for row in ended or rows),
        "watched": watched,
        "onset_known": any(row["onset_known"] for row in rows),
        "end_known": bool(ended),
        "observed_until": max(seen, default=None),
        **{name: _listed(rows, name) for name in ("kind", "found_by")},
    }


def _listed(rows: Rows, name: str) -> str | None:
    return ", ".join(sorted({row[name] for row in rows if row[name] is not None})) or None
