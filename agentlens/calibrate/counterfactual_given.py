"""What a rule might be given otherwise: tools that are polled, and retry policies, as false alerts ask for them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from agentlens.calibrate.truth import Place
from agentlens.detect.lanes import in_lanes
from agentlens.detect.policies import Policies, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentlens.calibrate.calibrate import LoopCalibration

MOST_TOOLS: Final = 6
"""So many tools are tried of each kind: every one is a pass over the data."""


@dataclass(frozen=True, kw_only=True)
class Otherwise:
    """Events and policies under one change of kind ``exemption`` or ``retry``."""

    kind: str
    text: str
    suggested_by: int
    parts: tuple[pl.LazyFrame, ...] = field(repr=False)
    policies: Policies | None = None


def false_alerts(found: LoopCalibration, cell: int) -> pl.DataFrame:
    """Alerts of one cell on healthy events of explore and certify (`agentlens.calibrate.sweep.ALERTS`)."""
    alerts = found.board.sweep.alerts.filter(pl.col("cell") == cell)
    rows = alerts["row"].to_numpy()
    run = found.board.run_of_row[rows]
    false = np.isin(found.truth.place[rows], [Place.HEALTHY_RUN, Place.HEALTHY_PART]) & (run >= 0)
    false[false] = found.board.in_splits(["explore", "certify"])[run[false]]
    return alerts.filter(pl.Series(false))


def given_otherwise(
    found: LoopCalibration,
    cell: int,
    parts: Sequence[pl.LazyFrame],
    policies: Policies | None,
    actions: Sequence[str],
) -> Iterator[Otherwise]:
    """Yield the tools that most false alerts loop over, as polled, and the policies that would cover their failures.

    A policy names the classes of the failed attempts up to those alerts, as many attempts as the longest of them, and
    no gap: the most that any policy of the tool could clear.
    """
    alerts = false_alerts(found, cell)
    if alerts.is_empty():
        return
    rows = pl.concat([in_lanes(part, actions).select("tool", "error_class").collect() for part in parts])
    polled: Counter[str] = Counter()
    failing: Counter[str] = Counter()
    errors: dict[str, set[str]] = {}
    longest: dict[str, int] = {}
    for row, onset, last, period in alerts.select("row", "onset", "last", "period").iter_rows():
        lap = rows[row - period + 1 : row + 1]
        polled.update(tool for tool in lap["tool"].unique().to_list() if tool is not None)
        tool, stretch = rows["tool"][row], rows["error_class"][onset : last + 1]
        if period == 1 and tool is not None and not stretch.has_nulls():
            failing[tool] += 1
            attempts = _attempts(found, rows, row, last)
            errors.setdefault(tool, set()).update(rows["error_class"][last - attempts + 1 : last + 1])
            longest[tool] = max(longest.get(tool, 0), attempts)
    for tool, count in _most(polled):
        yield Otherwise(
            kind="exemption",
            text=f"equal results of {tool} are no evidence (it is polled)",
            suggested_by=count,
            parts=tuple(as_polled(part, tool) for part in parts),
            policies=policies,
        )
    for tool, count in _most(failing):
        classes = tuple(sorted(errors[tool]))
        one = RetryPolicy(errors=classes, interval_s=0.0, max_attempts=longest[tool], tool=tool)
        old = policies or Policies()
        yield Otherwise(
            kind="retry",
            text=f"a retry policy of {tool}: {one.max_attempts} attempts on {', '.join(classes)}",
            suggested_by=count,
            parts=tuple(parts),
            policies=replace(old, retries=(one, *old.retries)),
        )


def as_polled(events: pl.LazyFrame, tool: str) -> pl.LazyFrame:
    """Events in which every result of a tool is news."""
    new = pl.concat_str(pl.lit("polled"), "run_id", "agent", "seq", separator="/", ignore_nulls=True)
    known = pl.when(pl.col("tool").eq_missing(tool)).then(new).otherwise("progress_fingerprint")
    return events.with_columns(progress_fingerprint=known)


def _attempts(found: LoopCalibration, rows: pl.DataFrame, row: int, last: int) -> int:
    """Attempts that failed up to the last stuck event, from the last success of the lane on."""
    start = int(found.board.sweep.lane_start[row])
    failed = rows["error_class"][start : last + 1].is_not_null().to_numpy()
    ended = np.flatnonzero(~failed)
    return int(failed.size if not ended.size else failed.size - 1 - ended[-1])


def _most(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_TOOLS]
