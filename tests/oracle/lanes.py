"""Events of one lane as plain values, and the three-valued comparisons between two of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Truth: TypeAlias = bool | None
"""True, False, or None for "not known"."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A declared retry policy."""

    errors: tuple[str, ...] = ("*",)
    interval_s: float = 0.0
    max_attempts: int = 3
    backoff_rate: float = 1.0
    max_delay_s: float | None = None
    jitter: float | None = None


@dataclass(frozen=True, kw_only=True)
class Lease:
    """A declared wait; the deadline in microseconds."""

    owner: str | None = None
    waits_on: str | None = None
    deadline: int | None = None
    renewals: int | None = None
    max_renewals: int | None = None


@dataclass(frozen=True, kw_only=True)
class Event:
    """One event; times in microseconds."""

    seq: int
    run_id: str = "r"
    agent: str = ""
    kind: str = "tool"
    tool: str = "t"
    signature: str | None = None
    fingerprint: str | None = None
    at: int | None = None
    ended_at: int | None = None
    workflow: str | None = None
    milestone: str | None = None
    external_input: bool | None = None
    error_class: str | None = None
    attempt: int | None = None
    policy: Policy | None = None
    lease: Lease | None = None
    reachable: bool | None = None
    hard_failure: str | None = None
    pause: bool | None = None
    outcome: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    normaliser_version: str | None = "n1"
    fingerprint_version: str | None = "f1"
    key_id: str | None = "k1"


def actions(lane: Iterable[Event], kinds: tuple[str, ...] = ("tool", "handoff")) -> list[Event]:
    """Return the consequential actions of one lane in order."""
    return sorted((e for e in lane if e.kind in kinds), key=lambda e: e.seq)


def lanes(events: Iterable[Event]) -> Mapping[tuple[str, str], list[Event]]:
    """Split events into lanes, each in order, the lanes sorted by name."""
    found: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        found.setdefault((event.run_id, event.agent), []).append(event)
    return {name: sorted(found[name], key=lambda e: e.seq) for name in sorted(found)}


def _same_digests(a: Event, b: Event) -> bool:
    """Say whether two events were digested alike, so that their signatures can be compared at all."""
    return (a.normaliser_version, a.key_id) == (b.normaliser_version, b.key_id)


def same_action(a: Event, b: Event) -> Truth:
    """Compare two actions.

    An unknown action may equal any action of the same tool; actions of different tools are known to differ.
    A comparison across a change of normaliser version or key is unknown.
    """
    if a.signature is not None and b.signature is not None and _same_digests(a, b):
        return a.signature == b.signature
    return None if a.tool == b.tool else False


def same_evidence(a: Event, b: Event) -> Truth:
    """Compare what was seen after two actions; unknown where either is, or across any change of version."""
    if a.fingerprint is None or b.fingerprint is None:
        return None
    if not _same_digests(a, b) or a.fingerprint_version != b.fingerprint_version:
        return None
    return a.fingerprint == b.fingerprint


def changed(event: Event) -> bool:
    """A milestone, and the first action after a human turn, always count as changed evidence."""
    return event.milestone is not None or event.external_input is True


def pause_between(a: Event, b: Event) -> int | None:
    """Microseconds from the end of ``a`` (its start where the end is missing) to the start of ``b``."""
    if b.at is None:
        return None
    before = a.at if a.ended_at is None else a.ended_at
    return None if before is None else b.at - before
