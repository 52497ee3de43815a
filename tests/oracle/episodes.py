"""Episodes: one alert on a transition, open until the evidence changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from tests.oracle import cycles
from tests.oracle.lanes import Event, same_action, same_evidence
from tests.oracle.rules import Book

if TYPE_CHECKING:
    from tests.oracle.rules import Profile
    from tests.oracle.verdicts import Finding

Lane: TypeAlias = Sequence[Event]


@dataclass(kw_only=True)
class Episode:
    """One stretch of a lane under one loop, from its onset to the event that closes it (or the lane's last action)."""

    period: int
    onset_seq: int
    alert_seq: int
    end_seq: int
    laps: int = 0
    closed_by: str | None = None
    tools: tuple[str, ...] = ()
    tokens: int | None = None
    cost_usd: float | None = None
    lap: Lane = ()
    seen: list[Event] = field(default_factory=list)


def is_rotation(a: Sequence[object], b: Sequence[object]) -> bool:
    """Say whether one lap is the other, begun elsewhere."""
    return len(a) == len(b) and any(tuple(a[k:]) + tuple(a[:k]) == tuple(b) for k in range(max(1, len(a))))


def may_be_rotation(a: Lane, b: Lane) -> bool:
    """Say whether one lap is the other, begun elsewhere, or cannot be told from it across a change of version."""
    return len(a) == len(b) and any(
        all(same_action(x, y) is not False for x, y in zip([*a[k:], *a[:k]], b, strict=True))
        for k in range(len(a))
    )


def _evidence_changed(event: Event, seen: Sequence[Event]) -> bool:
    """Say whether the fingerprint is known to be none of those of the loop's laps.

    It is compared with those it can be compared with. Where it can be with none (all of them unknown, or made
    in another version), nothing is known and the episode stays open.
    """
    compared = [same for e in seen if (same := same_evidence(event, e)) is not None]
    return bool(compared) and not any(compared)


def _closed_by(event: Event, judged: Finding, lap: Lane, current: Episode) -> str | None:
    """Say what ends the episode at this event; a stuck event whose lap is a rotation of the episode's never does."""
    stuck = judged.verdict == "stuck_loop"
    if stuck and may_be_rotation(lap, current.lap):
        return None
    if _evidence_changed(event, current.seen):
        return "evidence"
    if event.milestone is not None:
        return "milestone"
    return "other_loop" if stuck else None


def episodes(whole: Lane, lane: Lane, found: Sequence[Finding], rule: Profile | Book) -> list[Episode]:
    """List the episodes of one lane: ``whole`` with its facts, ``lane`` its actions, ``found`` their findings."""
    book = rule if isinstance(rule, Book) else Book(default=rule)
    place = {event.seq: i for i, event in enumerate(lane)}
    done: list[Episode] = []
    current: Episode | None = None
    for event in whole:
        if event.seq not in place:
            if current is not None and event.kind == "verdict" and event.outcome == "passed":
                current.closed_by, current.end_seq = "outcome", event.seq
                current = None
            continue
        i = place[event.seq]
        judged = found[i]
        p = judged.period if judged.verdict == "stuck_loop" else 0
        lap = lane[i + 1 - p : i + 1]
        if current is not None:
            current.end_seq = event.seq
            current.closed_by = _closed_by(event, judged, lap, current)
            current = None if current.closed_by else current
        if judged.verdict != "stuck_loop":
            continue
        stretch = lane[i + 1 - cycles.stretch_lo(lane, i, p, book.of(event)) : i + 1]
        if current is None:
            current = Episode(
                period=p,
                onset_seq=stretch[0].seq,
                alert_seq=event.seq,
                end_seq=event.seq,
                tools=tuple(e.tool for e in lap),
                lap=lap,
            )
            done.append(current)
        current.laps = judged.laps
        current.seen += stretch
    for episode in done:
        _add_up(episode, [e for e in whole if episode.onset_seq <= e.seq <= episode.end_seq])
    return done


def _add_up(episode: Episode, inside: Sequence[Event]) -> None:
    """Sum tokens and cost over all events of the lane between onset and end, model calls included."""
    tokens = [n for e in inside for n in (e.tokens_in, e.tokens_out) if n is not None]
    costs = [e.cost_usd for e in inside if e.cost_usd is not None]
    episode.tokens = sum(tokens) if tokens else None
    episode.cost_usd = sum(costs) if costs else None
