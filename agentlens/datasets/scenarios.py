"""What is planted: one small function a scenario, and what the default rule should make of it.

Every function writes one run into a `Script` and returns its `Truth`. Onsets follow the convention of the
labels: the first event of the first lap, not the first repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from agentlens.datasets.story import Call, Script, Truth

if TYPE_CHECKING:
    from agentlens.datasets.worlds import World

Plant: TypeAlias = Callable[[Script, "World"], Truth]
HEALTHY = Truth(label="healthy")
ANY = ("code", "desk", "press")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One thing to plant.

    ``alerts``: whether the default rule alerts on it. A healthy scenario that alerts is a false positive
    planted on purpose, a silent incident a miss planted on purpose. ``verdict``: a verdict that must occur
    in the run. ``worlds``: where it can be written down. ``weight``: how often it comes in a fleet.
    """

    name: str
    plant: Plant
    alerts: bool
    verdict: str
    worlds: tuple[str, ...] = ANY
    weight: int = 1


def steady_work(script: Script, world: World) -> Truth:
    """Different steps with different evidence."""
    _work(script, world, script.draws.between(8, 22))
    return HEALTHY


def paging(script: Script, world: World) -> Truth:
    """One tool again and again, with a new cursor and new rows each time."""
    _work(script, world, script.draws.between(1, 3))
    for i in range(script.draws.between(5, 12)):
        script.do(world.page(script.draws, i))
    return HEALTHY


def moving_poll(script: Script, world: World) -> Truth:
    """The same question to a running job whose answer moves."""
    _work(script, world, script.draws.between(2, 5))
    for percent in range(5, 100, script.draws.between(9, 14)):
        script.do(world.poll(f"running {percent} %"), gap_ms=20_000)
    script.do(world.poll("done"))
    return HEALTHY


def silent_poll(script: Script, world: World) -> Truth:
    """The same question to a job that says only "running", and then is done: activity, but it looks stuck."""
    _work(script, world, script.draws.between(2, 5))
    for _ in range(script.draws.between(5, 8)):
        script.do(world.poll("running"), gap_ms=30_000)
    script.do(world.poll("done"))
    _work(script, world, 2)
    return HEALTHY


def leased_poll(script: Script, world: World) -> Truth:
    """The same unmoving question, under a lease that names an owner and a deadline ahead."""
    _work(script, world, script.draws.between(2, 4))
    lease = {"owner": "print-shop", "waits_on": "print-77", "deadline_ms": script.now + 1_800_000}
    for _ in range(script.draws.between(5, 8)):
        script.do(world.poll("queued"), gap_ms=60_000, lease=lease)
    script.do(world.poll("printed"))
    return HEALTHY


def retry_in_policy(script: Script, world: World) -> Truth:
    """Two refusals, each waited out as the policy asks, and then an answer."""
    _work(script, world, script.draws.between(2, 6))
    policy = _policy(5)
    for attempt, gap in enumerate((1_500, 2_050, 4_100), 1):
        script.do(world.refused("rate_limit"), gap_ms=gap, retry_policy=policy, attempt=attempt)
    script.do(world.served(script.draws), gap_ms=8_200, retry_policy=policy, attempt=4)
    _work(script, world, 2)
    return HEALTHY


def retry_storm(script: Script, world: World) -> Truth:
    """Refusal after refusal, without waiting and beyond the budget."""
    _work(script, world, script.draws.between(2, 6))
    onset = len(script)
    for attempt in range(1, script.draws.between(7, 11)):
        refused = world.refused("rate_limit")
        script.do(refused, gap_ms=120, retry_policy=_policy(3), attempt=attempt)
    return _incident(onset, script)


def same_call(script: Script, world: World) -> Truth:
    """One call over and over, seeing the same each time."""
    _work(script, world, script.draws.between(2, 10))
    call = world.probe(script.draws)
    onset = len(script)
    for i in range(script.draws.between(6, 14)):
        _stray(script, world, i)
        script.do(call)
    return _incident(onset, script)


def ring(script: Script, world: World, *, period: int) -> Truth:
    """A round of ``period`` calls that changes nothing, now and then broken by a stray step."""
    _work(script, world, script.draws.between(2, 8))
    onset = _go_round(script, world, period)
    return _incident(onset, script)


def edit_and_revert(script: Script, world: World) -> Truth:
    """A change and its reverse, in turn: evidence changes at every step and is the same one lap later."""
    _work(script, world, script.draws.between(3, 8))
    undo = world.undo(script.draws)
    onset = len(script)
    for i in range(2 * script.draws.between(4, 6)):
        _stray(script, world, i)
        script.do(undo[i % 2])
    return _incident(onset, script)


def recovered(script: Script, world: World) -> Truth:
    """A loop that ends when new evidence comes, and work that goes on."""
    _work(script, world, script.draws.between(2, 6))
    call = world.probe(script.draws)
    onset = len(script)
    for _ in range(script.draws.between(5, 8)):
        script.do(call)
    end = len(script) - 1
    _work(script, world, script.draws.between(4, 8))
    return Truth(label="incident", onset=onset, end=end)


def redacted(script: Script, world: World) -> Truth:
    """The same write again and again, its result hidden by the exporter: nobody can say."""
    _work(script, world, script.draws.between(2, 5))
    write = world.write(script.draws)
    hidden = Call(write.tool, write.args, "[REDACTED]")
    for _ in range(script.draws.between(5, 7)):
        script.do(hidden)
    return HEALTHY


def approval_in_time(script: Script, world: World) -> Truth:
    """Asking a named owner for approval, answered before the deadline."""
    _work(script, world, script.draws.between(3, 6))
    _ask(script, wait_ms=3_600_000, times=script.draws.between(4, 6))
    script.do(
        Call("approval_state", {"page": "current"}, {"state": "approved"}, evidence="approval:approved")
    )
    _work(script, world, 2)
    return HEALTHY


def approval_expired(script: Script, world: World) -> Truth:
    """The same asking, going on after the deadline has passed: a loop from there on."""
    _work(script, world, script.draws.between(3, 6))
    _ask(script, wait_ms=500_000, times=script.draws.between(9, 11))
    late = next(
        i for i, s in enumerate(script.steps) if "lease" in s.facts and s.start_ms >= _deadline(script)
    )
    return _incident(late, script)


def asked_again(script: Script, world: World) -> Truth:
    """A person asks for the same thing several times; each time it is done once."""
    _work(script, world, script.draws.between(2, 5))
    call = world.probe(script.draws)
    for _ in range(script.draws.between(5, 7)):
        script.say(script.draws.pick(("Look again, please.", "And now?", "Once more, I changed nothing.")))
        script.do(call)
    return HEALTHY


def fresh_pair(script: Script, world: World) -> Truth:
    """The same two questions in turn, one of which is answered with something new each lap."""
    _work(script, world, script.draws.between(2, 5))
    for i in range(script.draws.between(4, 7)):
        script.do(world.look(script.draws, i))
        script.do(world.poll(f"running {7 * i} %"))
    return HEALTHY


def three_checks(script: Script, world: World) -> Truth:
    """One failing check repeated three times in a row, then mended: suspicious, and not a loop."""
    _work(script, world, script.draws.between(3, 6))
    check = world.check(script.draws, passed=False)
    for _ in range(3):
        script.do(check)
    _work(script, world, script.draws.between(3, 5))
    script.do(world.check(script.draws, passed=True))
    return HEALTHY


def wandering(script: Script, world: World) -> Truth:
    """Ever new arguments, ever the same evidence: stalled, though no call repeats."""
    _work(script, world, script.draws.between(3, 6))
    onset = len(script)
    for i in range(script.draws.between(9, 14)):
        script.do(world.wander(script.draws, i))
    return _incident(onset, script)


def delegated(script: Script, world: World) -> Truth:
    """Work given to another agent, who does it."""
    _work(script, world, script.draws.between(2, 5))
    script.hand_over(world.delegate(script.draws), world.helper_agent)
    _work(script, world, script.draws.between(4, 8))
    script.give_back()
    _work(script, world, 2)
    return HEALTHY


def delegated_loop(script: Script, world: World) -> Truth:
    """Work given to another agent, who goes round in two steps."""
    _work(script, world, script.draws.between(2, 5))
    script.hand_over(world.delegate(script.draws), world.helper_agent)
    _work(script, world, script.draws.between(1, 3))
    onset = _go_round(script, world, 2)
    end = len(script) - 1
    script.give_back()
    _work(script, world, 2)
    return Truth(label="incident", onset=onset, end=end)


def unchecked_claim(script: Script, world: World) -> Truth:
    """A change, a check that fails, another change, and "all done" without looking again."""
    _work(script, world, script.draws.between(4, 9))
    script.do(world.check(script.draws, passed=False))
    script.do(world.undo(script.draws)[0])
    script.claim("All done: the change is in and everything passes.")
    return Truth(label="incident")


def checked_claim(script: Script, world: World) -> Truth:
    """A change, a check that passes, and "all done"."""
    _work(script, world, script.draws.between(4, 9))
    script.do(world.undo(script.draws)[0])
    script.do(world.check(script.draws, passed=True))
    script.claim("All done, and the whole check passes.")
    return HEALTHY


def _work(script: Script, world: World, n: int) -> None:
    for _ in range(n):
        script.do(world.work(script.draws, len(script)))


def _stray(script: Script, world: World, i: int) -> None:
    """Now and then put a foreign step before the i-th of a loop, never before its first."""
    if i and script.strays():
        _work(script, world, 1)


def _go_round(script: Script, world: World, period: int) -> int:
    calls = world.ring(script.draws, period)
    onset = len(script)
    if script.draws.chance(0.3):  # a first lap, then a stray step before the round settles
        for call in calls:
            script.do(call)
        _work(script, world, 1)
    for i in range(period * script.draws.between(4, 6) + script.draws.below(period)):
        _stray(script, world, i)
        script.do(calls[i % period])
    return onset


def _ask(script: Script, *, wait_ms: int, times: int) -> None:
    lease = {"owner": "duty-editor", "waits_on": "approval", "deadline_ms": script.now + wait_ms}
    asked = Call("approval_state", {"page": "current"}, {"state": "pending"}, evidence="approval:pending")
    for _ in range(times):
        script.do(asked, gap_ms=95_000, lease=lease)


def _deadline(script: Script) -> int:
    return max(int(step.facts["lease"]["deadline_ms"]) for step in script.steps if "lease" in step.facts)


def _incident(onset: int, script: Script) -> Truth:
    return Truth(label="incident", onset=onset, end=len(script) - 1)


def _policy(attempts: int) -> dict[str, object]:
    return {"errors": ["rate_limit"], "interval_s": 2.0, "max_attempts": attempts, "backoff_rate": 2.0}


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(name="steady_work", plant=steady_work, alerts=False, verdict="working", weight=5),
    Scenario(name="paging", plant=paging, alerts=False, verdict="working", weight=2),
    Scenario(name="moving_poll", plant=moving_poll, alerts=False, verdict="working", weight=2),
    Scenario(
        name="silent_poll", plant=silent_poll, alerts=True, verdict="stuck_loop", worlds=("code", "desk")
    ),
    Scenario(
        name="leased_poll", plant=leased_poll, alerts=False, verdict="waiting", worlds=("press",), weight=2
    ),
    Scenario(
        name="retry_in_policy",
        plant=retry_in_policy,
        alerts=False,
        verdict="retrying",
        worlds=("press",),
        weight=2,
    ),
    Scenario(
        name="retry_unsaid", plant=retry_in_policy, alerts=False, verdict="working", worlds=("code", "desk")
    ),
    Scenario(name="retry_storm", plant=retry_storm, alerts=True, verdict="stuck_loop", weight=2),
    Scenario(name="same_call", plant=same_call, alerts=True, verdict="stuck_loop", weight=3),
    Scenario(name="ring_2", plant=partial(ring, period=2), alerts=True, verdict="stuck_loop", weight=2),
    Scenario(name="ring_3", plant=partial(ring, period=3), alerts=True, verdict="stuck_loop"),
    Scenario(name="ring_4", plant=partial(ring, period=4), alerts=False, verdict="working"),
    Scenario(
        name="ring_5",
        plant=partial(ring, period=5),
        alerts=False,
        verdict="working",
        worlds=("code", "press"),
    ),
    Scenario(
        name="ring_6",
        plant=partial(ring, period=6),
        alerts=False,
        verdict="working",
        worlds=("desk", "press"),
    ),
    Scenario(name="edit_and_revert", plant=edit_and_revert, alerts=True, verdict="stuck_loop", weight=2),
    Scenario(name="recovered", plant=recovered, alerts=True, verdict="stuck_loop"),
    Scenario(name="redacted", plant=redacted, alerts=False, verdict="uncertain"),
    Scenario(
        name="approval_in_time", plant=approval_in_time, alerts=False, verdict="waiting", worlds=("press",)
    ),
    Scenario(
        name="approval_expired", plant=approval_expired, alerts=True, verdict="stuck_loop", worlds=("press",)
    ),
    Scenario(name="asked_again", plant=asked_again, alerts=False, verdict="working", weight=2),
    Scenario(name="fresh_pair", plant=fresh_pair, alerts=False, verdict="working"),
    Scenario(name="three_checks", plant=three_checks, alerts=False, verdict="working"),
    Scenario(name="wandering", plant=wandering, alerts=False, verdict="working"),
    Scenario(name="delegated", plant=delegated, alerts=False, verdict="working"),
    Scenario(name="delegated_loop", plant=delegated_loop, alerts=True, verdict="stuck_loop"),
    Scenario(
        name="unchecked_claim",
        plant=unchecked_claim,
        alerts=False,
        verdict="working",
        worlds=("code",),
        weight=2,
    ),
    Scenario(
        name="checked_claim", plant=checked_claim, alerts=False, verdict="working", worlds=("code",), weight=2
    ),
)
"""Every scenario, in a fixed order."""
