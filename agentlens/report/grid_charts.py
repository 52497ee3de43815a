"""The heat map of full windows: a rate by threshold and period, what is certified, and where rules lie on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import altair as alt
import polars as pl

from agentlens.errors import SettingsError
from agentlens.report.bars import WIDTH, chart_of
from agentlens.report.palette import PERIODS
from agentlens.report.states import layered
from agentlens.report.words import plural, shortened

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from agentlens.report.strip import Frame

METRICS: Final = {"fpr": "false-positive rate per healthy run", "detection": "share of incidents detected"}
_EDGES: Final = {"left": (-1, 0), "right": (1, 0), "below": (0, -1), "above": (0, 1)}
_OUTLINE: Final = "#d55e00"


def sweep(
    rates: Frame,
    *,
    metric: str = "fpr",
    evidence: str = "lap",
    named: Sequence[int] = (),
    certified: Collection[tuple[int, int]] = (),
) -> alt.LayerChart:
    """Draw a rate over the grid of full windows: threshold across, largest period down.

    Parameters
    ----------
    rates
        The rates table (schema `RATES`). Only rules with one threshold for all periods are tiles. Several may share
        a tile (they differ at the head of a lane): the worst of them is shown.
    metric
        ``fpr`` or ``detection``.
    evidence
        The evidence mode that is drawn.
    named
        Cells drawn over the tiles, one point a period at its threshold: the rule in force, rules that others ship.
    certified
        Tiles, as largest period and threshold, that are outlined (see `certified_tiles`).

    Raises
    ------
    SettingsError
        For another metric.
    """
    if metric not in METRICS:
        raise SettingsError.unknown("metric", metric, METRICS)
    table = rates.lazy().collect()
    tiles = _tiles(table, metric, evidence)
    held = {(row["period"], row["threshold"]) for row in tiles} & set(certified)
    points = _points(table, named)
    total = 0 if table.is_empty() else int(table["healthy_runs" if metric == "fpr" else "incidents"][0] or 0)
    noun = "healthy run" if metric == "fpr" else "incident"
    told = f"{plural(len(tiles), 'tile')}, each over {plural(total, noun)}; evidence: {evidence}"
    told += f"; outlined: {plural(len(held), 'certified tile')}" if held else ""
    domain = sorted({row["threshold"] for row in [*tiles, *points]})
    periods = sorted({row["period"] for row in [*tiles, *points]}, reverse=True)
    x = alt.X(
        "threshold:O",
        title="threshold T, events",
        scale=alt.Scale(domain=domain),
        axis=alt.Axis(labelAngle=0, labelOverlap=True),
    )
    y = alt.Y("period:O", title="largest period, events", scale=alt.Scale(domain=periods))
    colour = alt.Color(
        "rate:Q",
        title=None,
        scale=alt.Scale(scheme="viridis", reverse=metric == "fpr", domainMin=0),
        legend=alt.Legend(format="%"),
    )
    tip = ["threshold:O", "period:O", alt.Tooltip("rate:Q", format=".2%"), "rules:Q"]
    layers: list[Any] = [chart_of("sweep").mark_rect(stroke="#ffffff44").encode(x, y, colour, tooltip=tip)]
    layers += [_edge(side) for side in _EDGES] if held else []
    layers += _marks(points) if points else []
    chart: alt.LayerChart = layered(
        *layers,
        title=alt.TitleParams(METRICS[metric].capitalize(), subtitle=told),
        width=WIDTH - 60,
        height=260,
        description=_described(told, points),
    ).resolve_scale(color="independent")
    edges = {"edges": _edges(held)} if held else {}
    chart.datasets = {"sweep": tiles, **edges, **({"points": points} if points else {})}
    return chart


def certified_tiles(
    tiles: Iterable[tuple[int, int]], rules: Iterable[Sequence[int]], *, nested: bool = True
) -> list[tuple[int, int]]:
    """Return the tiles (largest period, threshold) that certified rules vouch for, sorted.

    Such a window looks for no longer period and asks for no shorter stretch than the rule: it alarms only where the
    rule does, so on no more healthy runs, and a limit that holds for the rule holds for it.

    Parameters
    ----------
    rules
        Thresholds of the certified rules, ``T_1..T_P`` each.
    nested
        False where the limit is of a share of alarms, which a stricter rule need not keep: then only the rules
        themselves are certified.

    Examples
    --------
    >>> certified_tiles([(1, 4), (2, 4), (2, 6), (4, 8)], [(4, 6, 6)])
    [(1, 4), (2, 6)]
    """
    held = [tuple(rule) for rule in rules]
    if nested:
        return sorted({(q, t) for q, t in tiles if any(q <= len(rule) and t >= rule[q - 1] for rule in held)})
    return sorted({(q, t) for q, t in tiles if (t,) * q in held})


def _tiles(table: pl.DataFrame, metric: str, evidence: str) -> list[dict[str, Any]]:
    flat = pl.col("thresholds").list.min() == pl.col("thresholds").list.max()
    worst = pl.col(metric).max() if metric == "fpr" else pl.col(metric).min()
    tiles = (
        table.filter(flat & (pl.col("evidence") == evidence) & pl.col(metric).is_not_null())
        .group_by(
            pl.col("thresholds").list.first().alias("threshold"),
            pl.col("thresholds").list.len().cast(pl.Int64).alias("period"),
        )
        .agg(worst.alias("rate"), pl.len().cast(pl.Int64).alias("rules"))
        .sort("threshold", "period")
    )
    return [{**row, "rate": round(row["rate"], 4)} for row in tiles.iter_rows(named=True)]


def _points(table: pl.DataFrame, named: Sequence[int]) -> list[dict[str, Any]]:
    told = {row["cell"]: row for row in table.iter_rows(named=True) if row["cell"] in set(named)}
    return [
        {"rule": shortened(told[cell]["rule"], 36), "period": period, "threshold": threshold}
        for cell in dict.fromkeys(named)
        if cell in told
        for period, threshold in enumerate(told[cell]["thresholds"], 1)
    ]


def _edges(held: set[tuple[int, int]]) -> list[dict[str, Any]]:
    """Sides of certified tiles that border on something else."""
    return [
        {"period": q, "threshold": t, "side": side}
        for q, t in sorted(held)
        for side, (across, up) in _EDGES.items()
        if (q + up, t + across) not in held
    ]


def _edge(side: str) -> alt.Chart:
    """One side of each tile that has it: a line from corner to corner."""
    across, up = _EDGES[side]
    start = {"x": 0.0 if across <= 0 else 1.0, "y": 1.0 if up <= 0 else 0.0}
    end = {"x": start["x"] if across else 1.0, "y": start["y"] if up else 0.0}
    edge: alt.Chart = (
        chart_of("edges")
        .transform_filter(f"datum.side == '{side}'")
        .mark_rule(color=_OUTLINE, strokeWidth=3)
        .encode(
            x=alt.X("threshold:O", bandPosition=start["x"]),
            x2=alt.X2("threshold:O", bandPosition=end["x"]),
            y=alt.Y("period:O", bandPosition=start["y"]),
            y2=alt.Y2("period:O", bandPosition=end["y"]),
        )
    )
    return edge


def _marks(points: list[dict[str, Any]]) -> list[Any]:
    names = list(dict.fromkeys(row["rule"] for row in points))
    colour = alt.Color(
        "rule:N",
        title="rule, one point a period",
        scale=alt.Scale(domain=names, range=[PERIODS[place % len(PERIODS)] for place in range(len(names))]),
        legend=alt.Legend(labelLimit=260, orient="bottom", columns=2, symbolOpacity=1),
    )
    base = chart_of("points").encode(x="threshold:O", y="period:O", detail="rule:N")
    line = base.mark_line(color="#ffffff", strokeWidth=1.5, opacity=0.8).encode(order="period:Q")
    dots = base.mark_point(filled=True, size=90, opacity=1, stroke="#ffffff", strokeWidth=1.5).encode(
        color=colour, tooltip=["rule:N", "period:O", "threshold:O"]
    )
    return [line, dots]


def _described(told: str, points: list[dict[str, Any]]) -> str:
    by_rule: dict[str, list[str]] = {}
    for row in points:
        by_rule.setdefault(row["rule"], []).append(str(row["threshold"]))
    return "; ".join([told, *(f"{rule}: T {', '.join(found)}" for rule, found in by_rule.items())])
