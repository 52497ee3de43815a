"""Episodes: one alert on a transition, open until the evidence changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from tests.oracle import cycles
from tests.oracle.lanes import Event, same_evidence
from tests.oracle.rules import Book

if TYPE_CHECKING:
    from tests.oracle.rules import Profile
    from tests.oracle.verdicts import Finding

Lane: TypeAlias = Sequence[Event]


@dataclass(kw_only=True)
class Episode:
    """One stretch of a lane under one loop; ``seq`` values of its ends."""

    period: int
    onset_seq: int
    alert_seq: int
    end_seq: int
    laps: int
    closed_by: str | None = None
    tools: tuple[str, ...] = ()
    tokens: int | None = None
    cost_usd: float | None = None
    lap: tuple[str | None, ...] = ()
    seen: list[Event] = field(default_factory=list)


def is_rotation(a: Sequence[object], b: Sequence[object]) -> bool:
    """Say whether one lap is the other, begun elsewhere."""
    return len(a) == len(b) and any(tuple(a[k:]) + tuple(a[:k]) == tuple(b) for k in range(max(1, len(a))))


def _evidence_changed(event: Event, seen: Sequence[Event]) -> bool:
    """Say whether the fingerprint is known, and known to be none of those of the loop's laps."""
    known = [e for e in seen if e.fingerprint is not None]
    return event.fingerprint is not None and all(same_evidence(event, e) is False for e in known)


def episodes(whole: Lane, lane: Lane, found: Sequence[Finding], rule: Profile | Book) -> list[Episode]:
    """List the episodes of one lane: ``whole`` with its facts, ``lane`` its actions, ``found`` their findings."""
    book = rule if isinstance(rule, Book) else Book(default=rule)
    place = {event.seq: i for i, event in enumerate(lane)}
    done: list[Episode] = []
    current: Episode | None = None
    for event in whole:
        if event.seq not in place:
            if current is not None and event.kind == "verdict" and event.outcome == "passed":
                current.closed_by = "outcome"
                current = None
            continue
        i = place[event.seq]
        judged = found[i]
        stuck = judged.verdict == "stuck_loop"
        lap = tuple(e.signature for e in lane[i + 1 - (judged.period or 0) : i + 1]) if stuck else ()
        continues = current is not None and stuck and is_rotation(lap, current.lap)
        if current is not None:
            reason = None
            if event.milestone is not None:
                reason = "milestone"
            elif event.external_input is True or (not continues and _evidence_changed(event, current.seen)):
                reason = "evidence"
            elif stuck and not continues:
                reason = "other_loop"
            if reason is not None:
                current.closed_by = reason
                current = None
            else:
                current.end_seq = event.seq
        if not stuck:
            continue
        start = i + 1 - cycles.stretch_lo(lane, i, judged.period, book.of(event))
        if current is None:
            current = Episode(
                period=judged.period,
                onset_seq=lane[start].seq,
                alert_seq=event.seq,
                end_seq=event.seq,
                laps=judged.laps,
                tools=tuple(e.tool for e in lane[i + 1 - judged.period : i + 1]),
                lap=lap,
                seen=list(lane[start : i + 1]),
            )
            done.append(current)
        else:
            current.laps = max(current.laps, judged.laps)
            current.seen = [*current.seen, *lane[start : i + 1]]
    for episode in done:
        _add_up(episode, [e for e in whole if episode.onset_seq <= e.seq <= episode.end_seq])
    return done


def _add_up(episode: Episode, inside: Sequence[Event]) -> None:
    """Sum tokens and cost over all events of the lane between onset and end, model calls included."""
    tokens = [n for e in inside for n in (e.tokens_in, e.tokens_out) if n is not None]
    costs = [e.cost_usd for e in inside if e.cost_usd is not None]
    episode.tokens = sum(tokens) if tokens else None
    episode.cost_usd = sum(costs) if costs else None
