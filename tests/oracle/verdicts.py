"""The verdict at each event: the first line of the contract that applies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tests.oracle import cycles
from tests.oracle.exemptions import File, lease_of, lease_refused, retry_inside_policy
from tests.oracle.lanes import Event, same_evidence
from tests.oracle.rules import Book

if TYPE_CHECKING:
    from tests.oracle.rules import Profile

Lane: TypeAlias = Sequence[Event]

NO_FILE = File()


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What is said of one event."""

    verdict: str
    reason: str | None = None
    period: int | None = None
    laps: int | None = None
    suspect: bool = False
    stalled_events: int = 0
    policy_source: str | None = None


def _stalled(lane: Lane, i: int) -> int:
    """Events just before this one, without a break, whose known fingerprint equals this one's."""
    count = 0
    while i - count - 1 >= 0 and same_evidence(lane[i - count - 1], lane[i]) is True:
        count += 1
    return count


def _repetition(lane: Lane, i: int, rule: Profile) -> tuple[int | None, int | None]:
    """Smallest period with two laps of known actions, and its laps."""
    for p in range(1, len(rule.thresholds) + 1):
        stretch = cycles.actions_lo(lane, i, p, rule.max_gap_s)
        if stretch >= 2 * p:
            return p, stretch // p
    return None, None


def _suspect(lane: Lane, i: int, rule: Profile) -> bool:
    return any(
        cycles.stretch_lo(lane, i, p, rule) >= max(2 * p, threshold - p)
        for p, threshold in enumerate(rule.thresholds, 1)
    )


def _why_unknown(lane: Lane, i: int, rule: Profile) -> str:
    """Name what is missing in the stretch that may be a loop, at the smallest period that may be one."""
    p = next(
        p
        for p in range(1, len(rule.thresholds) + 1)
        if cycles.reaches(cycles.stretch_hi(lane, i, p, rule), i, p, rule)
    )
    start = i + 1 - min(cycles.stretch_hi(lane, i, p, rule), rule.thresholds[p - 1])
    stretch = lane[start : i + 1]
    if rule.evidence != "none" and any(e.fingerprint is None for e in stretch):
        return "missing_fingerprint"
    if any(e.signature is None for e in stretch):
        return "missing_signature"
    return "version_change"


def finding(lane: Lane, i: int, rule: Profile, file: File = NO_FILE) -> Finding:
    """Judge event ``i`` of a lane of actions."""
    event = lane[i]
    period, laps = _repetition(lane, i, rule)
    stalled = _stalled(lane, i)

    def said(verdict: str, reason: str | None, **more) -> Finding:
        return Finding(
            **{
                "verdict": verdict,
                "reason": reason,
                "period": period,
                "laps": laps,
                "stalled_events": stalled,
                **more,
            }
        )

    if event.reachable is False:
        return said("uncertain", "unreachable")
    if event.hard_failure is not None:
        return said("failed_outcome", event.hard_failure)
    refused = None
    lease, lease_source = lease_of(lane, i, file)
    if lease is not None:
        refused = lease_refused(lane, i, file)
        if refused is None:
            return said("waiting", "lease", policy_source=lease_source)
    source = retry_inside_policy(lane, i, file)
    if source is not None:
        return said("retrying", "policy", policy_source=source)
    condition = cycles.cycle_condition(lane, i, rule)
    if condition is None:
        return said("uncertain", _why_unknown(lane, i, rule))
    if condition:
        p = cycles.loop_period(lane, i, rule)
        return said("stuck_loop", refused, period=p, laps=cycles.stretch_lo(lane, i, p, rule) // p)
    return said("working", refused, suspect=_suspect(lane, i, rule))


def findings(lane: Lane, rule: Profile | Book, file: File = NO_FILE) -> list[Finding]:
    """Judge every event of a lane of actions, each by its own rule."""
    book = rule if isinstance(rule, Book) else Book(default=rule)
    return [finding(lane, i, book.of(event), file) for i, event in enumerate(lane)]


SEVERITY = ("working", "waiting", "retrying", "uncertain", "stuck_loop", "failed_outcome")


def run_verdict(last_of_lanes: Sequence[str]) -> str:
    """A run's final verdict is the worst of its lanes' last ones."""
    return max(last_of_lanes, key=SEVERITY.index)
