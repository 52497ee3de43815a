"""The timeline: one lane, event by event, as letters, evidence, verdicts and the brackets of its episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from agentlens.report.bars import ROW, chart_of, verdict_colour
from agentlens.report.palette import COLOURS, EVIDENCE, INK, NEUTRAL
from agentlens.report.strip import strip
from agentlens.report.words import plural, shortened

if TYPE_CHECKING:
    from agentlens.report.strip import Frame, Strip

STEP = 18  # pixels an event
_LOOP = COLOURS["stuck_loop"]


def timeline(
    events: Frame,
    verdicts: Frame,
    episodes: Frame | None = None,
    *,
    run_id: str,
    agent: str | None = None,
    max_events: int = 60,
) -> alt.VConcatChart:
    """Draw one lane: every action with its verdict, what it showed, and the brackets of its episodes.

    Equal letters are equal actions. A diamond is evidence not seen before in this lane, a circle is evidence
    seen before, a cross is evidence that is not known. A bracket runs from the onset to the end of an episode, the
    triangle is its alert.

    Parameters
    ----------
    events, verdicts, episodes
        Tables of the schemas `EVENTS`, `VERDICTS` and `EPISODES`, lazy or not.
    run_id, agent
        The lane; with no agent the one with most stuck events.
    max_events
        How many actions to show; a longer lane is shown from shortly before its first onset.

    Raises
    ------
    InputError
        When no event of that run or lane was judged.
    """
    lane = strip(events, verdicts, episodes, run_id=run_id, agent=agent, max_events=max_events)
    domain = [row["seq"] for row in lane.steps]
    axis = alt.X("seq:O", title="event (seq)", axis=_event_axis(domain))
    rows = {"steps": [_step_row(row) for row in lane.steps]}
    if lane.episodes:
        rows["episodes"] = [_bracket_row(row, domain) for row in lane.episodes]
    parts: list[Any] = [_actions(lane), _evidence(lane, axis)]
    if lane.episodes:
        parts.insert(0, _brackets(lane))
    shown = plural(lane.total, "action")
    if lane.last - lane.first + 1 < lane.total:
        shown = f"actions {lane.first:,} to {lane.last:,} of {lane.total:,}"
    of = f"{shortened(lane.run_id, 48)}" + (f", {shortened(lane.agent, 32)}" if lane.agent else "")
    title = alt.TitleParams(
        f"Run {of}", subtitle=f"{shown}, {plural(len(lane.episodes), 'episode')}", anchor="start"
    )
    chart: alt.VConcatChart = (
        alt.vconcat(*parts, spacing=6, description=_told(lane))
        .properties(title=title)
        .resolve_scale(x="shared", color="independent", shape="independent")
    )
    chart.datasets = rows  # set last, as it is: every step above would have copied it
    return chart


_SHOWN = ("seq", "at", "tool", "letter", "verdict", "reason", "evidence", "stalled")
_BRACKET_SHOWN = ("loop", "onset", "alert", "end", "closed_by")


def _event_axis(domain: list[int]) -> alt.Axis:
    every = max(len(domain) // 12, 1)
    return alt.Axis(values=domain[::every], labelAngle=0, ticks=False)


def _size(lane: Strip) -> int:
    return max(len(lane.steps), 12) * STEP


def _actions(lane: Strip) -> alt.LayerChart:
    tools = list(dict.fromkeys(row["tool"] for row in lane.steps))
    base = chart_of("steps").encode(
        x=alt.X("seq:O", title=None, axis=None),
        y=alt.Y("tool:N", sort=tools, title=None, axis=alt.Axis(labelLimit=160)),
        tooltip=[alt.Tooltip(f"{name}:N") for name in _SHOWN],
    )
    tiles = base.mark_rect(stroke=None).encode(color=verdict_colour(legend=True))
    ink = alt.Color("ink:N", scale=None)
    letters = base.mark_text(fontSize=11).encode(text="letter:N", color=ink)
    layers: alt.LayerChart = (tiles + letters).properties(width=_size(lane), height=ROW * len(tools))
    return layers


def _step_row(row: dict[str, Any]) -> dict[str, Any]:
    """Facts of one event as text: nothing of a trace reaches a chart as anything else."""
    at = row["at"]
    return {
        "seq": row["seq"],
        "at": None if at is None else at.isoformat(),
        "tool": row["tool"],
        "letter": row["letter"],
        "verdict": row["verdict"],
        "reason": row["reason"],
        "evidence": row["evidence"],
        "stalled": row["stalled_events"],
        "ink": INK[row["verdict"]],
        "row": "evidence",
    }


def _evidence(lane: Strip, axis: alt.X) -> alt.Chart:
    scale = alt.Scale(domain=list(EVIDENCE), range=list(EVIDENCE.values()))
    points: alt.Chart = (
        chart_of("steps")
        .mark_point(size=60, color=NEUTRAL, strokeWidth=1.6)
        .encode(
            x=axis,
            y=alt.Y("row:N", title=None, axis=alt.Axis(ticks=False, domain=False)),
            shape=alt.Shape("evidence:N", scale=scale, title="evidence"),
            fill=alt.condition(alt.datum.evidence == "new", alt.value(NEUTRAL), alt.value("transparent")),
            tooltip=[alt.Tooltip("seq:Q"), alt.Tooltip("evidence:N")],
        )
        .properties(width=_size(lane), height=ROW)
    )
    return points


def _brackets(lane: Strip) -> alt.LayerChart:
    base = chart_of("episodes").encode(
        x=alt.X("from:O", title=None, axis=None),
        y=alt.Y("row:N", title=None, axis=alt.Axis(ticks=False, domain=False)),
        tooltip=[alt.Tooltip(f"{name}:N") for name in _BRACKET_SHOWN],
    )
    bars = base.mark_rule(strokeWidth=3, color=_LOOP).encode(x2="to:O")
    ends = base.mark_tick(thickness=3, height=14, opacity=1, color=_LOOP)
    closing = ends.encode(x=alt.X("to:O"))
    alerts = (
        chart_of("episodes")
        .transform_filter("isValid(datum.alerted)")
        .mark_point(shape="triangle-down", size=110, filled=True, color=_LOOP, yOffset=-7, opacity=1)
        .encode(
            x=alt.X("alerted:O"),
            y=alt.Y("row:N"),
            tooltip=["alert:N", "loop:N"],
        )
    )
    layers: alt.LayerChart = alt.layer(bars, ends, closing, alerts).properties(width=_size(lane), height=ROW)  # type: ignore[assignment]
    return layers


def _bracket_row(row: dict[str, Any], domain: list[int]) -> dict[str, Any]:
    alert = row["alert_seq"]
    return {
        "row": "episode",
        "from": next((seq for seq in domain if seq >= row["onset_seq"]), domain[-1]),
        "to": next((seq for seq in reversed(domain) if seq <= row["end_seq"]), domain[0]),
        "alerted": alert if alert in set(domain) else None,
        "loop": f"period {row['period']}, {plural(row['laps'], 'lap')}",
        "onset": row["onset_seq"],
        "alert": alert,
        "end": row["end_seq"],
        "closed_by": row["closed_by"] or "open at the end",
    }


def _told(lane: Strip) -> str:
    """Say in words what the picture shows."""
    said = [f"{plural(lane.total, 'action')} of run {lane.run_id}"]
    said += [
        f"a loop of period {row['period']} from event {row['onset_seq']} to {row['end_seq']},"
        f" {plural(row['laps'], 'lap')}, alert at event {row['alert_seq']},"
        f" closed by {row['closed_by'] or 'nothing'}"
        for row in lane.episodes
    ]
    return "; ".join(said)
