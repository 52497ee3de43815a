"""One row a run: its final verdict and its sums, counted event by event."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tests.oracle.episodes import Episode
from tests.oracle.lanes import Event
from tests.oracle.verdicts import Finding, run_verdict

Judged: TypeAlias = tuple[Sequence[Event], Sequence[Event], Sequence[Finding], Sequence[Episode]]
"""One lane: all its events, its actions, their findings, its episodes."""


@dataclass(kw_only=True)
class Run:
    """What is said of a run; sums are None where no event says anything."""

    verdict: str | None
    lanes: int
    events: int
    alerts: int
    first_alert_seq: int | None
    stuck_events: int
    stuck_us: int | None
    uncertain_events: int
    stalled_events: int
    tokens: int | None
    cost_usd: float | None
    loop_tokens: int | None
    loop_cost_usd: float | None


def total(values: Iterable[float | None]) -> float | None:
    """Sum the values that are there; None where there is none."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _tokens(event: Event) -> float | None:
    return total((event.tokens_in, event.tokens_out))


def _stuck_us(lane: Sequence[Event], i: int) -> int | None:
    """Time from a stuck event to the next action of its lane, for the last action to its own end."""
    until = lane[i + 1].at if i + 1 < len(lane) else lane[i].ended_at
    start = lane[i].at
    return None if until is None or start is None else max(0, until - start)


def _first_alert(lanes: Sequence[Judged]) -> int | None:
    """Sequence number of the earliest alert; alerts without a time come last."""
    alerts = [
        (event.at is None, event.at or 0, event.agent, event.seq)
        for whole, _, _, told in lanes
        for event in whole
        if event.seq in {episode.alert_seq for episode in told}
    ]
    return min(alerts)[-1] if alerts else None


def run(lanes: Sequence[Judged]) -> Run:
    """Sum up the lanes of one run."""
    whole = [event for events, *_ in lanes for event in events]
    inside = [
        event
        for events, _, _, told in lanes
        for event in events
        if any(e.onset_seq <= event.seq <= e.end_seq for e in told)
    ]
    acted = [(lane, found) for _, lane, found, _ in lanes if lane]
    every = [one for _, found in acted for one in found]
    stuck = [(lane, i) for lane, found in acted for i in range(len(lane)) if found[i].verdict == "stuck_loop"]
    return Run(
        verdict=run_verdict([found[-1].verdict for _, found in acted]) if acted else None,
        lanes=len(acted),
        events=len(every),
        alerts=sum(len(told) for *_, told in lanes),
        first_alert_seq=_first_alert(lanes),
        stuck_events=len(stuck),
        stuck_us=total(_stuck_us(lane, i) for lane, i in stuck),
        uncertain_events=sum(one.verdict == "uncertain" for one in every),
        stalled_events=max((one.stalled_events for one in every), default=0),
        tokens=total(map(_tokens, whole)),
        cost_usd=total(event.cost_usd for event in whole),
        loop_tokens=total(map(_tokens, inside)),
        loop_cost_usd=total(event.cost_usd for event in inside),
    )
