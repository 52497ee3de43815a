"""Charts of handoffs: how long acknowledgement takes against its limit, and one operation from receipt to receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import altair as alt
import polars as pl

from agentlens.errors import InputError
from agentlens.model.receipt import ReceiptEvent
from agentlens.report.bars import ROW, WIDTH, chart_of
from agentlens.report.palette import COLOURS, NEUTRAL
from agentlens.report.states import seconds_axis, state_colour
from agentlens.report.words import duration, plural, shortened

if TYPE_CHECKING:
    from agentlens.report.strip import Frame

_IN_TIME, _LATE, _SILENT = "within its limit", "after its limit", "not yet, or never"
_ENDED: Final = {_IN_TIME: COLOURS["working"], _LATE: COLOURS["retrying"], _SILENT: COLOURS["stuck_loop"]}
_PER_DECADE = 6
CLASSES = 6  # urgency classes a chart shows
STEPS = 160  # steps a curve is drawn with
EVENT_MARKS: Final[dict[str, tuple[str, str]]] = {
    ReceiptEvent.DELEGATED.value: ("triangle-right", "#0072b2"),
    ReceiptEvent.ACCEPTED.value: ("circle", "#56b4e9"),
    ReceiptEvent.PROGRESS.value: ("triangle-down", "#0072b2"),
    ReceiptEvent.WAITING.value: ("square", "#e69f00"),
    ReceiptEvent.COMPLETED.value: ("diamond", "#009e73"),
    ReceiptEvent.OUTCOME_VERIFIED.value: ("triangle-up", "#aa3377"),
    ReceiptEvent.REJECTED.value: ("cross", "#d55e00"),
    ReceiptEvent.CANCELLED.value: ("cross", NEUTRAL),
}
"""Shape and colour of each receipt."""


def latencies(handoffs: Frame) -> alt.FacetChart:
    """Draw the distribution of acknowledgement latencies with the limit of each urgency class.

    Parameters
    ----------
    handoffs
        The handoffs table (schema `HANDOFFS`). Handoffs that nobody accepted stand at how long they were silent when
        judged (``as_of``); those without a time of delegation are counted in the subtitle and not drawn. The six
        classes with most handoffs are shown.
    """
    silent = (pl.col("as_of") - pl.col("delegated_at")).dt.total_microseconds()
    timed = (
        handoffs.lazy()
        .select(
            pl.col("urgency").fill_null("(no class)"),
            "ack_limit_us",
            pl.coalesce("ack_latency_us", silent).alias("us"),
            pl.when(pl.col("ack_latency_us").is_null())
            .then(pl.lit(_SILENT))
            .when(pl.col("late_ack"))
            .then(pl.lit(_LATE))
            .otherwise(pl.lit(_IN_TIME))
            .alias("ended"),
        )
        .with_columns(
            bin=((pl.max_horizontal("us", pl.lit(100_000)) / 1e6).log10() * _PER_DECADE)
            .floor()
            .cast(pl.Int64)
        )
        .collect()
    )
    drawn = timed.filter(pl.col("us").is_not_null())
    sizes = drawn.group_by("urgency").len().sort("len", "urgency", descending=[True, False]).head(CLASSES)
    kept = sorted(sizes["urgency"].to_list())
    drawn = drawn.filter(pl.col("urgency").is_in(kept))
    rows = _stacked(drawn)
    limits = drawn.select("urgency", "ack_limit_us").unique().drop_nulls().sort("urgency", "ack_limit_us")
    marks = [
        {"urgency": row["urgency"], "limit_s": row["ack_limit_us"] / 1e6}
        for row in limits.iter_rows(named=True)
    ]
    told = f"{plural(timed.height, 'handoff')}, {_said(timed)}"
    scale = alt.Scale(type="log", nice=False)
    bars = (
        alt.Chart()
        .mark_rect(stroke="#ffffff", strokeWidth=0.5)
        .encode(
            x=alt.X("from_s:Q", scale=scale, axis=seconds_axis("silence after delegation")),
            x2="to_s:Q",
            y=alt.Y("low:Q", title="handoffs", axis=alt.Axis(tickMinStep=1, format=",d", tickCount=4)),
            y2="high:Q",
            color=alt.Color(
                "ended:N",
                scale=alt.Scale(domain=list(_ENDED), range=list(_ENDED.values())),
                title="acknowledged",
            ),
            tooltip=["ended:N", alt.Tooltip("handoffs:Q", format=",d"), "from_s:Q", "to_s:Q"],
        )
    )
    rules = (
        alt.Chart()
        .mark_rule(strokeWidth=2, strokeDash=[5, 3], color="#000000")
        .transform_filter("isValid(datum.limit_s)")
        .encode(x=alt.X("limit_s:Q", scale=scale), tooltip=[alt.Tooltip("limit_s:Q", title="limit, s")])
    )
    chart: Any = (
        alt.layer(bars, rules)
        .properties(width=WIDTH - 160, height=90)
        .facet(
            data=alt.NamedData(name="latencies"),
            row=alt.Row(
                "urgency:N", title="urgency class", header=alt.Header(labelAngle=0, labelAlign="left")
            ),
        )
        .properties(
            title=alt.TitleParams(
                "Time to acknowledgement", subtitle=[told, "dashed: the limit of the class"]
            ),
            description=told,
        )
        .resolve_scale(y="independent")
    )
    chart.datasets = {"latencies": [*rows, *marks]}
    return chart  # type: ignore[no-any-return]


def _stacked(drawn: pl.DataFrame) -> list[dict[str, Any]]:
    """Return one row a class, bin and end, each laid on top of those before it."""
    rank = pl.col("ended").replace_strict({name: n for n, name in enumerate(_ENDED)}, return_dtype=pl.Int64)
    counts = (
        drawn.group_by("urgency", "bin", "ended")
        .agg(pl.len().cast(pl.Int64).alias("handoffs"))
        .with_columns(rank=rank)
        .sort("urgency", "bin", "rank")
        .with_columns(high=pl.col("handoffs").cum_sum().over("urgency", "bin"))
    )
    return [
        {
            "urgency": row["urgency"],
            "from_s": _edge(row["bin"]),
            "to_s": _edge(row["bin"] + 1),
            "ended": row["ended"],
            "handoffs": row["handoffs"],
            "low": row["high"] - row["handoffs"],
            "high": row["high"],
        }
        for row in counts.iter_rows(named=True)
    ]


def _edge(number: int) -> float:
    return float(f"{10 ** (number / _PER_DECADE):.4g}")


def _said(timed: pl.DataFrame) -> str:
    counted = dict(timed["ended"].value_counts().iter_rows())
    parts = [f"{counted.get(name, 0):,} {name}" for name in _ENDED]
    untimed = int(timed["us"].null_count())
    return ", ".join(parts) + (f"; {untimed:,} without times, not drawn" if untimed else "")


def acknowledgement(limits: Frame, curves: Frame) -> alt.FacetChart:
    """Draw the share still silent over time with its band, the calibrated limit and the cap, per urgency class.

    Parameters
    ----------
    limits, curves
        ``limits`` and ``curves`` of `agentlens.calibrate.latency.AckCalibration` (`ACK_LIMITS`, `ACK_CURVE`); ``*`` is
        all classes together.
    """
    table = limits.lazy().sort("urgency").collect()
    head = table.sort("handoffs", "urgency", descending=[True, False]).head(CLASSES)
    kept = head["urgency"].to_list()
    drawn = curves.lazy().filter(pl.col("urgency").is_in(kept)).sort("urgency", "after_us").collect()
    begin = max(int(drawn["after_us"].min() or 1), 1) / 2e6  # type: ignore[arg-type]
    rows: list[dict[str, Any]] = []
    for name in sorted(kept):
        mine = drawn.filter(pl.col("urgency") == name)
        rows.append({"class": _class_name(name), "after_s": begin, **dict.fromkeys(_BAND, 1.0)})
        rows += [
            {
                "class": _class_name(name),
                "after_s": max(row["after_us"], 1) / 1e6,
                **{k: row[k] for k in _BAND},
            }
            for row in _thinned(mine).iter_rows(named=True)
        ]
    marks = [
        {
            "class": _class_name(row["urgency"]),
            "mark": what,
            "at_s": row[column] / 1e6,
            "told": duration(row[column]),
        }
        for row in table.iter_rows(named=True)
        for what, column in (("limit", "limit_us"), ("cap", "cap_us"))
        if row["urgency"] in kept and row[column] is not None
    ]
    x = alt.X(
        "after_s:Q", scale=alt.Scale(type="log", nice=False), axis=seconds_axis("time since delegation")
    )
    base = alt.Chart().transform_filter("isValid(datum.after_s)").encode(x=x)
    band = base.mark_area(interpolate="step-after", opacity=0.25, color="#0072b2").encode(
        y=alt.Y(
            "silent_low:Q",
            title="share still silent",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format="%"),
        ),
        y2="silent_high:Q",
    )
    line = base.mark_line(interpolate="step-after", color="#0072b2").encode(
        y="silent:Q", tooltip=[alt.Tooltip("after_s:Q", format=",.1f"), alt.Tooltip("silent:Q", format=".1%")]
    )
    rules = (
        alt.Chart()
        .transform_filter("isValid(datum.at_s)")
        .mark_rule(strokeWidth=2)
        .encode(
            x=alt.X("at_s:Q"),
            color=alt.Color(
                "mark:N",
                scale=alt.Scale(domain=["limit", "cap"], range=["#d55e00", NEUTRAL]),
                title="",
            ),
            strokeDash=alt.StrokeDash(
                "mark:N", scale=alt.Scale(domain=["limit", "cap"], range=[[1, 0], [4, 3]])
            ),
            tooltip=["mark:N", "told:N"],
        )
    )
    said = [_limit_said(row) for row in table.iter_rows(named=True) if row["urgency"] in kept]
    chart: Any = (
        alt.layer(band, line, rules)
        .properties(width=WIDTH - 160, height=110)
        .facet(
            data=alt.NamedData(name="silence"),
            row=alt.Row("class:N", title="urgency class", header=alt.Header(labelAngle=0, labelAlign="left")),
        )
        .properties(
            title=alt.TitleParams("Silence after delegation, and the limit", subtitle=said),
            description="; ".join(said),
        )
    )
    chart.datasets = {"silence": [*rows, *marks]}
    return chart  # type: ignore[no-any-return]


_BAND = ("silent", "silent_low", "silent_high")


def _thinned(curve: pl.DataFrame) -> pl.DataFrame:
    """Keep the last step of each of many even stretches of logarithmic time: a step holds until the next."""
    if curve.height <= STEPS:
        return curve
    log = pl.max_horizontal("after_us", pl.lit(1)).log10()
    place = ((log - log.min()) / (log.max() - log.min()) * STEPS).floor()
    return curve.group_by(place.alias("place")).agg(pl.all().last()).sort("after_us")


def _class_name(urgency: str) -> str:
    return "all classes" if urgency == "*" else urgency or "(no class)"


def _limit_said(row: dict[str, Any]) -> str:
    limit = "no limit follows" if row["limit_us"] is None else f"limit {duration(row['limit_us'])}"
    borrowed = " (pooled)" if row["pooled"] and row["limit_us"] is not None else ""
    return (
        f"{_class_name(row['urgency'])}: {plural(row['handoffs'], 'handoff')}, {row['acknowledged']:,} acknowledged, "
        f"{row['silent']:,} silent; {limit}{borrowed}"
    )


def operation(receipts: Frame, handoffs: Frame, *, operation_id: str) -> alt.LayerChart:
    """Draw one operation: its attempts one below the other, every receipt at its time.

    The grey bar of an attempt is the time that it may stay unaccepted. The line runs to its newest receipt, in the
    colour of its state, which stands beside the name.

    Parameters
    ----------
    receipts, handoffs
        Tables of the schemas `RECEIPTS` and `HANDOFFS`.
    operation_id
        The operation.

    Raises
    ------
    InputError
        When the handoffs hold no attempt of that operation with a time.
    """
    mine = pl.col("operation_id") == operation_id
    attempts = handoffs.lazy().filter(mine).sort("attempt", "handoff_id").collect()
    told = receipts.lazy().filter(mine).unique().sort("handoff_id", "at", "event").collect()
    timed = told.filter(pl.col("at").is_not_null())
    if timed.is_empty() or attempts.is_empty():
        raise InputError.at(
            f"operation {operation_id!r}",
            "no attempt with a time",
            accepted="an operation_id of the handoffs",
        )
    names = {
        row["handoff_id"]: f"{shortened(row['handoff_id'], 28)} · {row['state']}"
        for row in attempts.iter_rows(named=True)
    }
    points = [
        {
            "attempt": names[row["handoff_id"]],
            "at": _ms(row["at"]),
            "event": row["event"] if row["event"] in EVENT_MARKS else "other",
            "author": row["author"],
            "outcome": row["outcome"],
        }
        for row in timed.iter_rows(named=True)
        if row["handoff_id"] in names
    ]
    lines = [_line(row, names) for row in attempts.iter_rows(named=True)]
    order = list(names.values())
    x = alt.X("at:T", title="time (UTC)", scale=alt.Scale(type="utc"))
    y = alt.Y("attempt:N", sort=order, title=None, axis=alt.Axis(labelLimit=320))
    waits = (
        chart_of("lines")
        .transform_filter("isValid(datum.limit_at)")
        .mark_bar(height=12, color="#dddddd")
        .encode(x=alt.X("delegated_at:T"), x2="limit_at:T", y=y)
    )
    spans = (
        chart_of("lines")
        .transform_filter("isValid(datum.delegated_at)")
        .mark_rule(strokeWidth=3)
        .encode(
            x=alt.X("delegated_at:T"),
            x2="newest_at:T",
            y=y,
            color=state_colour(sorted({row["state"] for row in lines})),
        )
    )
    events = [event for event in EVENT_MARKS if any(point["event"] == event for point in points)]
    marks = (
        chart_of("receipts")
        .mark_point(size=110, filled=True, opacity=1, stroke="#ffffff", strokeWidth=0.5)
        .encode(
            x=x,
            y=y,
            shape=alt.Shape(
                "event:N",
                title="receipt",
                scale=alt.Scale(domain=events, range=[EVENT_MARKS[event][0] for event in events]),
            ),
            fill=alt.Fill(
                "event:N",
                title="receipt",
                scale=alt.Scale(domain=events, range=[EVENT_MARKS[event][1] for event in events]),
            ),
            tooltip=["event:N", "author:N", "outcome:N", alt.Tooltip("at:T", format="%Y-%m-%d %H:%M:%S")],
        )
    )
    said = f"{plural(attempts.height, 'attempt')}, {plural(len(points), 'receipt')}"
    chart: alt.LayerChart = (
        alt.layer(waits, spans, marks)
        .resolve_scale(color="independent")
        .properties(
            title=alt.TitleParams(
                f"Operation {shortened(operation_id, 48)}",
                subtitle=f"{said}; grey: may stay unaccepted so long",
            ),
            width=WIDTH - 160,
            height=ROW * 1.5 * len(order),
            description=f"{said}: " + "; ".join(order),
        )
    )
    chart.datasets = {"lines": lines, "receipts": points}
    return chart


def _line(row: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    begun = _ms(row["delegated_at"])
    limit = row["ack_limit_us"]
    return {
        "attempt": names[row["handoff_id"]],
        "state": row["state"],
        "delegated_at": begun,
        "newest_at": _ms(row["newest_at"]),
        "limit_at": None if begun is None or limit is None else begun + limit // 1000,
    }


def _ms(value: Any) -> int | None:
    """Milliseconds since 1970, as Vega reads times."""
    return None if value is None else round(value.timestamp() * 1000)
