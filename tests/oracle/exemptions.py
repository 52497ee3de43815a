"""Leases in force and retries inside policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.oracle.lanes import Event, Lease, Policy, pause_between, same_action

Lane: TypeAlias = Sequence[Event]


@dataclass(frozen=True, kw_only=True)
class Declared:
    """One retry policy of a policies file, for a tool and a workflow (None: any) and the classes it names."""

    policy: Policy
    tool: str | None = None
    workflow: str | None = None

    def applies(self, event: Event) -> bool:
        """Say whether the declaration is about this attempt."""
        return (
            self.tool in (None, event.tool)
            and self.workflow in (None, event.workflow)
            and ("*" in self.policy.errors or event.error_class in self.policy.errors)
        )

    @property
    def rank(self) -> int:
        """Tool and workflow before tool, before workflow, before any."""
        return (self.tool is None) * 2 + (self.workflow is None)


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A tool of a policies file that waits: for whom, and how long at most."""

    tool: str
    owner: str
    longest_wait_s: float
    workflow: str | None = None

    def applies(self, event: Event) -> bool:
        """Say whether the event is such a wait."""
        return self.tool == event.tool and self.workflow in (None, event.workflow)


@dataclass(frozen=True, kw_only=True)
class File:
    """What a policies file says."""

    retries: tuple[Declared, ...] = ()
    waits: tuple[Waiting, ...] = ()
    sleeps: frozenset[str] = field(default_factory=frozenset)


def lease_of(lane: Lane, i: int, file: File) -> tuple[Lease | None, str | None]:
    """Return the lease an event carries, else the one the file gives to waiting tools, and where it came from.

    A lease that says nothing at all is none. The file's lease runs from the first event of the lane with the
    tool and signature of this one (arguments that were never exported count as one signature).
    """
    event = lane[i]
    if event.lease is not None and event.lease != Lease():
        return event.lease, "event"
    named = sorted((w for w in file.waits if w.applies(event)), key=lambda w: w.workflow is None)
    if not named:
        return None, None
    began = next(e.at for e in lane if (e.tool, e.signature) == (event.tool, event.signature))
    deadline = None if began is None else began + round(named[0].longest_wait_s * 1_000_000)
    return Lease(owner=named[0].owner, waits_on=event.tool, deadline=deadline), "file"


def seen_renewals(lane: Lane, i: int, file: File) -> int:
    """Count later deadlines for the same owner and thing waited for on consecutive events up to ``i``."""
    seen = 0
    for j in range(i, 0, -1):
        here, before = lease_of(lane, j, file)[0], lease_of(lane, j - 1, file)[0]
        if here is None or before is None or (here.owner, here.waits_on) != (before.owner, before.waits_on):
            break
        if here.deadline is not None and before.deadline is not None and here.deadline > before.deadline:
            seen += 1
    return seen


def lease_refused(lane: Lane, i: int, file: File) -> str | None:
    """Why the lease at ``i`` is not honoured; None when it is in force."""
    event = lane[i]
    lease, source = lease_of(lane, i, file)
    if not lease.owner:
        return "lease_no_owner"
    if lease.deadline is None and source == "event":
        return "lease_no_deadline"
    if lease.deadline is None or event.at is None:
        return "lease_no_time"
    if not lease.deadline > event.at:
        return "lease_expired"
    allowed = 3 if lease.max_renewals is None else lease.max_renewals
    if max(lease.renewals or 0, seen_renewals(lane, i, file)) > allowed:
        return "lease_renewed_too_often"
    return None


def _is_sleep(event: Event, file: File) -> bool:
    return event.pause is True or event.tool in {"sleep", "wait"} | file.sleeps


def streak(lane: Lane, i: int, file: File) -> list[Event]:
    """Return the trailing failed attempts of one action up to ``i``, oldest first.

    Sleeps between or after attempts neither break the streak nor count. It begins after the last success of
    the action, or at attempt 1 where that is given.
    """
    trailing = [e for e in lane[: i + 1] if not _is_sleep(e, file)]
    if not trailing or trailing[-1].signature is None:
        return []
    newest = trailing[-1]
    found: list[Event] = []
    for event in reversed(trailing):
        is_same = event is newest or same_action(event, newest) is True
        if not is_same or event.error_class is None:
            break
        found.append(event)
        if event.attempt == 1:
            break
    return found[::-1]


def policy_of(event: Event, file: File) -> tuple[Policy | None, str | None]:
    """Return the policy carried by the newest attempt, else the one the file declares, and where it came from."""
    if event.policy is not None:
        return event.policy, "event"
    fitting = sorted((d for d in file.retries if d.applies(event)), key=lambda d: d.rank)
    return (fitting[0].policy, "file") if fitting else (None, None)


def _required_gap_us(policy: Policy, k: int) -> float:
    delay_s = policy.interval_s * policy.backoff_rate ** (k - 2)
    if policy.max_delay_s is not None:
        delay_s = min(delay_s, policy.max_delay_s)
    return delay_s * (1 - (policy.jitter or 0.0)) * 1_000_000


def _attempt_is_fine(attempts: Sequence[Event], position: int, policy: Policy) -> bool:
    event = attempts[position]
    if "*" not in policy.errors and event.error_class not in policy.errors:
        return False
    k = position + 1 if event.attempt is None else event.attempt
    if k > policy.max_attempts:
        return False
    if position == 0:
        return True
    gap = pause_between(attempts[position - 1], event)
    return gap is not None and gap + 1 >= _required_gap_us(policy, k)


def retry_inside_policy(lane: Lane, i: int, file: File) -> str | None:
    """Return where the policy came from (``event`` or ``file``) when ``i`` is inside it, else None."""
    attempts = streak(lane, i, file)
    if len(attempts) < 2:
        return None
    policy, source = policy_of(attempts[-1], file)
    if policy is None or not all(_attempt_is_fine(attempts, k, policy) for k in range(len(attempts))):
        return None
    return source
