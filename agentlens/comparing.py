"""Two rules on the same runs, or two agent versions or periods under one rule, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from agentlens.api import check_rules, loop_parts, rule_book
from agentlens.calibrate.bootstrap import FEW_GROUPS, statistic_interval
from agentlens.calibrate.compare import compare_rules
from agentlens.calibrate.intervals import clopper_pearson
from agentlens.calibrate.spans import groups_of, run_spans
from agentlens.calibrate.truth import Matching, Place, lay, strongest
from agentlens.data import Data, Opened, action_kinds, open_data
from agentlens.detect.lanes import in_lanes
from agentlens.errors import InputError, SettingsError
from agentlens.model.event import EVENTS
from agentlens.model.label import LABELS, Scope
from agentlens.model.select import Selection, parse_time
from agentlens.reporting import counted, known_labels, silent
from agentlens.results import Loops, Tables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from agentlens.detect.policies import Policies
    from agentlens.detect.profile_rules import RuleBook
    from agentlens.detect.rules import Rule
    from agentlens.normalise.rows import Normaliser
    from agentlens.reporting import Progress

DRAWS: Final = 2_000

SIDES = pl.Schema(
    {
        "measure": pl.String(),
        "runs_first": pl.Int64(),
        "runs_second": pl.Int64(),
        "groups": pl.Int64(),
        "first": pl.Float64(),
        "second": pl.Float64(),
        "difference": pl.Float64(),
        "low": pl.Float64(),
        "high": pl.Float64(),
        "p_value": pl.Float64(),
        "paired": pl.Boolean(),
        "thin": pl.Boolean(),
    }
)
"""One row a measure. ``first``, ``second``: means over task groups of the runs' means; ``difference``: second minus
first, with cluster-bootstrap limits. ``paired``: over ``groups`` that both sides have, with the p-value of a sign flip;
else sides of different tasks, whose groups are drawn apart (no p-value). ``thin``: fewer than 20
groups, on one side where they are drawn apart."""

TOTALS = pl.Schema(
    {
        "side": pl.String(),
        "runs": pl.Int64(),
        "groups": pl.Int64(),
        "actions": pl.Int64(),
        "flagged_runs": pl.Int64(),
        "episodes": pl.Int64(),
        "stuck_us": pl.Int64(),
        "loop_tokens": pl.Int64(),
        "loop_cost_usd": pl.Float64(),
        "uncertain_events": pl.Int64(),
    }
)
"""One row a side: sums over its runs; null where no export says."""

MEASURES: Final = {
    "flagged": "share of runs with an alert",
    "episodes": "episodes per run",
    "stuck_s": "seconds stuck per run",
    "loop_tokens": "tokens in loops per run",
    "loop_cost_usd": "dollars in loops per run",
    "uncertain": "share of runs with uncertain actions",
    "false_alarm": "false-alarm rate per healthy run",
    "detected": "share of incident runs detected",
}
"""What is compared, in order; the last two need labels."""


@dataclass(frozen=True, kw_only=True)
class Comparison(Tables):
    """Result of `compare`: ``measures`` (`SIDES`), ``totals`` (`TOTALS`), and the runs of both sides one by one."""

    measures: pl.DataFrame
    totals: pl.DataFrame
    runs: pl.DataFrame
    names: tuple[str, str] = ("first", "second")

    def html(self, *, link: str | None = None) -> str:
        """Return one self-contained page.

        Parameters
        ----------
        link
            Address in a trace viewer, with ``{trace_id}`` or ``{run_id}``, put on each run that is listed.

        Raises
        ------
        SettingsError
            When that is no address.
        """
        from agentlens.report.comparison import comparison_page

        stamp = dict(sorted(self.metadata.items()))
        return comparison_page(self.measures, self.totals, self.runs, self.names, stamp, link=link)


def compare(
    data: Data,
    *,
    rule: Rule | RuleBook | str | Path | None = None,
    against: Rule | RuleBook | str | Path | None = None,
    versions: tuple[str, str] | None = None,
    at: str | datetime | None = None,
    labels: str | Path | pl.DataFrame | None = None,
    policies: Policies | str | Path | None = None,
    actions: str | Sequence[str] = ("tool", "handoff"),
    any_version: bool = False,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    workflow: str | None = None,
    agent: str | None = None,
    normaliser: Normaliser | None = None,
    format: str | None = None,  # noqa: A002 - the word users type
    sql: str | Path | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare two rules (``against``), two agent ``versions``, or the time before and after ``at``.

    Parameters
    ----------
    rule
        The first rule, or the one that both sides are judged by.
    against
        The second rule; both judge the same runs, so every difference is paired.
    versions
        Two values of ``agent_version``, older first.
    at
        A time; runs belong to the side in which they started. Runs without times belong to neither.
    labels
        With them false-alarm rates and detection are compared too: a file, a frame, ``"weak"``, ``"none"``; by default
        those that the lake keeps.
    any_version
        Use profiles although their versions, labels or settings are not those of the data.
    progress
        Called as ``progress(done, total, what)`` while sides are judged.

    Raises
    ------
    SettingsError
        When not exactly one of ``against``, ``versions`` and ``at`` is given; when a profile was made for other data.
    InputError
        When a side has no run.
    """
    if sum(given is not None for given in (against, versions, at)) != 1:
        raise SettingsError(
            "compare: exactly one comparison; accepted: --against RULE, --versions A,B or --at TIME"
        )
    selection = Selection.parse(since, until, workflow, agent)
    opened = open_data(data, selection, normaliser=normaliser, format=format, sql=sql)
    kinds = action_kinds(actions)
    loaded = _policies(policies)
    check_rules(opened, [rule, against], kinds, loaded, any_version=any_version)
    tell = progress or silent
    size = len(opened.parts)
    first = Loops.concat(counted(loop_parts(opened, rule_book(rule), loaded, kinds), size, tell, "one side"))
    events = opened.events()
    spans = run_spans(opened.parts, kinds)
    told = _labels(labels, opened, spans, partial=not selection.is_all)
    groups = groups_of(spans, strongest(told))
    judged = _Labelled.of(events, told, spans, kinds)
    traces = _traces(events)
    one = _per_run(first, groups, judged, traces)
    meta = {key: value for key, value in first.metadata.items() if value}
    if against is not None:
        judged_again = loop_parts(opened, rule_book(against), loaded, kinds)
        second = Loops.concat(counted(judged_again, size, tell, "other side"))
        names = _names(first, second)
        other = _per_run(second, groups, judged, traces)
        meta |= {"second_rule": second.metadata["rule"], "second_rule_digest": second.metadata["rule_digest"]}
    else:
        names, one, other = _sides(one, events, versions, at)
    tell(0, None, "differences")
    return Comparison(
        measures=_measures(one, other, paired=against is not None),
        totals=pl.concat([_totals(name, side) for name, side in zip(names, (one, other), strict=True)]),
        runs=pl.concat(
            [side.with_columns(pl.lit(n).alias("side")) for n, side in zip(names, (one, other), strict=True)]
        ).sort("run_id", "side"),
        names=names,
        metadata={**meta, "first": names[0], "second": names[1]},
    )


def _policies(policies: Policies | str | Path | None) -> Policies | None:
    from agentlens.detect.policies import Policies as PoliciesClass

    return PoliciesClass.load(Path(policies)) if isinstance(policies, str | Path) else policies


def _labels(
    labels: str | Path | pl.DataFrame | None, opened: Opened, spans: pl.DataFrame, *, partial: bool
) -> pl.DataFrame:
    told = known_labels(labels, opened)
    if told is None:
        return LABELS.to_frame()
    mine = told.filter(pl.col("scope") != str(Scope.HANDOFF))
    return mine.join(spans, on="run_id", how="semi") if partial else mine


def _names(first: Loops, second: Loops) -> tuple[str, str]:
    names = [side.metadata["rule"] for side in (first, second)]
    if names[0] == names[1]:
        names = [
            f"{name} {side.metadata['rule_digest'][:6]}"
            for name, side in zip(names, (first, second), strict=True)
        ]
    return names[0], names[1]


@dataclass(frozen=True, kw_only=True)
class _Labelled:
    """``states``: ``run_id, state``; ``places``: what an alert at each action would be."""

    states: pl.DataFrame
    places: pl.DataFrame

    @classmethod
    def of(
        cls, events: pl.LazyFrame, labels: pl.DataFrame, spans: pl.DataFrame, kinds: tuple[str, ...]
    ) -> _Labelled:
        rows = in_lanes(events, kinds).select("run_id", "agent", "seq", "at", "ended_at").collect()
        truth = lay(labels, rows, spans, Matching())
        place = pl.Series("place", truth.place)
        return cls(
            states=truth.runs, places=rows.select("run_id", "agent", pl.col("seq").alias("alert_seq"), place)
        )


def _traces(events: pl.LazyFrame) -> pl.DataFrame:
    """``run_id, trace_id``: the first trace of each run that names one."""
    if "trace_id" not in events.collect_schema().names():
        return pl.DataFrame(schema={name: EVENTS[name] for name in ("run_id", "trace_id")})
    named = events.filter(pl.col("trace_id").is_not_null())
    return named.group_by("run_id").agg(pl.col("trace_id").sort_by("agent", "seq").first()).collect()


def _per_run(side: Loops, groups: pl.DataFrame, labelled: _Labelled, traces: pl.DataFrame) -> pl.DataFrame:
    alerts = side.episodes.select("run_id", "agent", "alert_seq").join(
        labelled.places, on=["run_id", "agent", "alert_seq"], how="left"
    )
    hits = alerts.group_by("run_id").agg(
        wrong=pl.col("place").is_in([int(Place.HEALTHY_RUN), int(Place.HEALTHY_PART)]).any(),
        right=(pl.col("place") == int(Place.INCIDENT)).any(),
    )
    healthy, ill = pl.col("state") == "healthy", pl.col("state") == "incident"
    return (
        side.runs.filter(pl.col("events") > 0)
        .join(groups, on="run_id", how="left")
        .join(labelled.states, on="run_id", how="left")
        .join(hits, on="run_id", how="left")
        .join(traces, on="run_id", how="left")
        .with_columns(
            (pl.col("alerts") > 0).alias("flagged"),
            pl.col("alerts").alias("episodes"),
            (_spent("stuck_us", "started_at") / 1_000_000).alias("stuck_s"),
            _spent("loop_tokens", "tokens"),
            _spent("loop_cost_usd", "cost_usd"),
            (pl.col("uncertain_events") > 0).alias("uncertain"),
            pl.when(healthy).then(pl.col("wrong").fill_null(value=False)).alias("false_alarm"),
            pl.when(ill).then(pl.col("right").fill_null(value=False)).alias("detected"),
        )
        .sort("run_id")
        .select(
            "run_id",
            "task_group",
            "workflow",
            "started_at",
            "state",
            "events",
            "stuck_us",
            "uncertain_events",
            *MEASURES,
            "trace_id",
        )
    )


def _spent(column: str, exported: str) -> pl.Expr:
    """What went into loops: nothing where there was none and the export says what the run took at all."""
    none = (pl.col("alerts") == 0) & pl.col(exported).is_not_null()
    return pl.when(none).then(0).otherwise(pl.col(column)).alias(column)


def _sides(
    runs: pl.DataFrame, events: pl.LazyFrame, versions: tuple[str, str] | None, at: str | datetime | None
) -> tuple[tuple[str, str], pl.DataFrame, pl.DataFrame]:
    if versions is not None:
        known = (
            events.sort("run_id", "agent", "seq")
            .group_by("run_id")
            .agg(pl.col("agent_version").drop_nulls().first())
            .collect()
        )
        found = sorted(known["agent_version"].drop_nulls().unique())
        for version in versions:
            if version not in found:
                raise SettingsError.unknown("agent version", version, found)
        sides = [
            runs.join(known.filter(pl.col("agent_version") == version), on="run_id", how="semi")
            for version in versions
        ]
        return (versions[0], versions[1]), sides[0], sides[1]
    when = parse_time(at, "--at") if isinstance(at, str) else at
    sides = [runs.filter(pl.col("started_at") < when), runs.filter(pl.col("started_at") >= when)]
    first, last = runs.select(
        low=pl.col("started_at").min().dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
        high=pl.col("started_at").max().dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
    ).row(0)
    for name, side in zip(("before", "after"), sides, strict=True):
        if side.is_empty():
            within = "runs with times" if first is None else f"a time after {first} and up to {last}"
            raise InputError.at(f"--at {at}", f"no run with a time {name} it", accepted=within)
    return ("before", "after"), sides[0], sides[1]


def _totals(name: str, side: pl.DataFrame) -> pl.DataFrame:
    def known(column: str, value: pl.Expr) -> pl.Expr:
        return pl.when(pl.col(column).is_not_null().any()).then(value).alias(column)

    nano = (pl.col("loop_cost_usd") * 1e9).round().cast(pl.Int64).sum() / 1e9
    row = side.select(
        pl.lit(name).alias("side"),
        pl.len().alias("runs"),
        pl.col("task_group").n_unique().alias("groups"),
        pl.col("events").sum().alias("actions"),
        pl.col("flagged").sum().alias("flagged_runs"),
        pl.col("episodes").sum(),
        pl.col("stuck_us").sum(),
        known("loop_tokens", pl.col("loop_tokens").sum()),
        known("loop_cost_usd", nano),
        pl.col("uncertain_events").sum(),
    )
    return row.select(pl.col(column).cast(dtype) for column, dtype in TOTALS.items())


def _measures(one: pl.DataFrame, other: pl.DataFrame, *, paired: bool) -> pl.DataFrame:
    rows = []
    for measure in MEASURES:
        sides = [side.filter(pl.col(measure).is_not_null()) for side in (one, other)]
        if not sides[0].height or not sides[1].height:
            continue
        facts: dict[str, Any] = {
            "measure": measure,
            "runs_first": sides[0].height,
            "runs_second": sides[1].height,
        }
        rows.append(
            facts
            | (_paired(measure, *sides, by="run_id" if paired else "task_group") or _apart(measure, *sides))
        )
    return pl.DataFrame(rows, schema=SIDES)


def _paired(measure: str, one: pl.DataFrame, other: pl.DataFrame, *, by: str) -> dict[str, Any] | None:
    """Compare group by group; None where the two sides share no task at all."""
    first, second = (
        side.group_by(by).agg(
            pl.col("task_group").first().alias("group"), pl.col(measure).cast(pl.Float64).mean()
        )
        for side in (one, other)
    )
    pairs = first.join(second, on=by, suffix="_then").sort(by)
    if pairs.is_empty():
        return None
    named = pairs.select(pl.col("group").alias("task_group"), first=measure, second=f"{measure}_then")
    row = compare_rules(named, "second", "first", draws=DRAWS).row(0, named=True)
    low, high = row["difference_low"], row["difference_high"]
    change = named.group_by("task_group").agg((pl.col("second") - pl.col("first")).mean()).to_series(1)
    if change.n_unique() == 1:
        low, high = _around(change[0], change.len()) if _is_share(measure, one) else (None, None)
    return {
        "groups": row["groups"],
        "first": row["second"],
        "second": row["first"],
        "difference": row["difference"],
        "low": low,
        "high": high,
        "p_value": row["sign_flip_p"],
        "paired": True,
        "thin": row["thin"],
    }


def _apart(measure: str, one: pl.DataFrame, other: pl.DataFrame) -> dict[str, Any]:
    """Compare sides of different tasks: their groups are drawn apart."""
    means = [
        side.group_by("task_group")
        .agg(pl.col(measure).cast(pl.Float64).mean())
        .sort("task_group")[measure]
        .to_numpy()
        for side in (one, other)
    ]
    size = means[0].size

    def difference(weight: Any) -> float:
        mine, theirs = weight[:size], weight[size:]
        if not mine.sum() or not theirs.sum():
            return float("nan")
        return float(theirs @ means[1] / theirs.sum() - mine @ means[0] / mine.sum())

    found = statistic_interval(difference, size + means[1].size, draws=DRAWS)
    low, high = found.low, found.high
    if any(_one_value(values) for values in means):
        low, high = _square_and_add(*means) if _is_share(measure, one) else (None, None)
    return {
        "groups": size + means[1].size,
        "first": float(means[0].mean()),
        "second": float(means[1].mean()),
        "difference": found.value,
        "low": low,
        "high": high,
        "p_value": None,
        "paired": False,
        "thin": min(size, means[1].size) < FEW_GROUPS,
    }


def _is_share(measure: str, side: pl.DataFrame) -> bool:
    return side.schema[measure] == pl.Boolean


def _around(change: float, groups: int) -> tuple[float, float]:
    """Limits of a difference in shares that is the same in every group: drawn again it would have no spread."""
    others = clopper_pearson(0, groups).high or 0.0  # so many groups at most may be otherwise
    return max(-1.0, change - others), min(1.0, change + others)


def _one_value(values: NDArray[np.float64]) -> bool:
    return bool((values == values[0]).all())


def _square_and_add(one: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float]:
    """Limits of a difference of shares from those of each (Newcombe 1998, method 10).

    Draws of a side on which every group says the same have no spread, though few groups prove little.
    """
    (first, low, high), (second, least, most) = (_share_limits(values) for values in (one, other))
    change = second - first
    return change - hypot(second - least, high - first), change + hypot(most - second, first - low)


def _share_limits(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean over groups and its limits: exact where all groups agree (all or none), else by drawing groups."""
    mean = float(values.mean())
    if _one_value(values):
        exact = clopper_pearson(round(mean * values.size), values.size)
        return mean, min(mean, exact.low or 0.0), max(mean, 1.0 if exact.high is None else exact.high)
    found = statistic_interval(lambda weight: float(weight @ values / weight.sum()), values.size, draws=DRAWS)
    return mean, mean if found.low is None else found.low, mean if found.high is None else found.high
