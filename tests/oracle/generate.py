"""Seeded random lanes, small enough in alphabet that loops, near loops and unknown loops happen by themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeAlias

from tests.oracle import rules
from tests.oracle.exemptions import Declared, File, Waiting
from tests.oracle.lanes import Event, Lease, Policy

_SECOND = 1_000_000
_STEPS_US = (
    0,
    500_000,
    999_998,
    999_999,
    1_000_000,
    1_999_998,
    1_999_999,
    2_000_000,
    4_000_000,
    8_000_000,
    30_000_000,
)
_FLAVOURS = (
    "unknown_signature",
    "unknown_fingerprint",
    "changed",
    "lease",
    "error",
    "version",
    "pause",
    "no_time",
    "hard",
    "facts",
    "busy",
    "handoff",
    "backwards",
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One named rule with its arguments, and what is changed afterwards; builds the same rule on both sides."""

    builder: str
    arguments: dict[str, Any]
    changes: dict[str, Any]

    def build(self, module: Any) -> Any:
        """Build the rule with the builders of ``module``."""
        return replace(getattr(module, self.builder)(**self.arguments), **self.changes)


def setting(random: Random) -> Setting:
    """Draw one rule."""
    builder = random.choice(
        ("laps", "laps", "laps", "full_window", "equal_surprise", "openhands", "gemini_cli", "same_call")
    )
    arguments: dict[str, Any] = {}
    if builder == "laps":
        periods = random.randint(1, 6)
        counts = [random.randint(2, 4)]
        while len(counts) < periods:  # T_p never falls: (p+1) * c' >= p * c
            p = len(counts)
            counts.append(random.choice([c for c in (2, 3, 4) if (p + 1) * c >= p * counts[-1]]))
        arguments = {"laps": tuple(counts), "confirm": random.randint(1, 3)}
        if random.random() < 0.3:
            arguments = {}
    elif builder == "full_window":
        arguments = {
            "window": random.randint(4, 9),
            "max_period": random.randint(1, 5),
            "min_repetitions": random.randint(2, 3),
            "confirm": random.randint(1, 3),
            "short_starts": random.random() < 0.6,
        }
    elif builder == "equal_surprise":
        arguments = {"k": random.randint(1, 6), "max_period": random.randint(1, 6)}
    elif builder == "same_call":
        arguments = {"n": random.randint(2, 5)}
    changes: dict[str, Any] = {}
    if builder in {"laps", "full_window", "equal_surprise"} and random.random() < 0.45:
        changes["evidence"] = random.choice(("constant", "constant", "none"))
    if random.random() < 0.2:
        changes["max_gap_s"] = random.choice((1.0, 2.0, 8.0))
    return Setting(builder=builder, arguments=arguments, changes=changes)


Drawn: TypeAlias = tuple[Setting, tuple[tuple[dict[str, str], Setting], ...]]


def book(random: Random) -> Drawn:
    """Draw a default rule and, now and then, overrides by tool, agent and workflow."""
    about = (
        {"tool": "read"},
        {"agent": "a1"},
        {"workflow": "w"},
        {"tool": "read", "workflow": "w"},
        {"agent": "a1", "tool": "search"},
    )
    count = random.randint(1, 3) if random.random() < 0.25 else 0
    return setting(random), tuple((names, setting(random)) for names in random.sample(about, count))


def literal_book(drawn: Drawn) -> rules.Book:
    """Build the literal rules of a drawing."""
    default, overrides = drawn
    return rules.Book(
        default=default.build(rules),
        overrides=tuple(rules.Override(rule=one.build(rules), **names) for names, one in overrides),
    )


def policy(random: Random) -> Policy:
    """Draw one retry policy."""
    return Policy(
        errors=random.choice((("*",), ("rate_limit",), ("rate_limit", "timeout"), ("timeout",))),
        interval_s=random.choice((0.0, 0.5, 1.0, 1.0, 2.0)),
        max_attempts=random.randint(1, 6),
        backoff_rate=random.choice((1.0, 1.0, 1.5, 2.0)),
        max_delay_s=random.choice((None, None, 1.0, 3.0)),
        jitter=random.choice((None, 0.0, 0.25, 0.5)),
    )


def _lease(random: Random, at: int | None) -> Lease:
    if random.random() < 0.05:
        return Lease()
    ahead = random.choice((-5, 0, 10, 40, 40, 90)) * _SECOND
    return Lease(
        owner=random.choice((None, "", "ops", "ops", "ops", "bob")),
        waits_on=random.choice((None, "approval", "approval")),
        deadline=None if random.random() < 0.1 else (at or 0) + ahead,
        renewals=random.choice((None, None, None, 0, 2, 4)),
        max_renewals=random.choice((None, None, 0, 1, 5)),
    )


def _pattern(random: Random) -> list[tuple[str, str, str]]:
    """Draw one lap: tool, signature and fingerprint of each step."""
    lap = []
    still = random.random() < 0.5
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4, 5, 6))):
        tool = random.choice(("read", "read", "search"))
        lap.append((tool, f"{tool}:{random.choice('ab')}", "e0" if still else f"e{random.randint(0, 2)}"))
    return lap


def _steps(random: Random, length: int) -> list[tuple[str, str, str]]:
    """Chain repeated laps, with a step changed here and there."""
    steps: list[tuple[str, str, str]] = []
    while len(steps) < length:
        lap = _pattern(random)
        steps += (lap * 8)[: random.randint(1, 8 * len(lap))]
    noise = random.choice((0.0, 0.0, 0.0, 0.05, 0.2))
    return [random.choice(_pattern(random)) if random.random() < noise else step for step in steps[:length]]


def _decorate(random: Random, event: Event, flavour: set[str], held: dict[str, Any]) -> Event:
    """Add unknowns, leases, errors and other facts in the flavours of the lane."""
    new: dict[str, Any] = {}
    chance = random.random
    if "unknown_signature" in flavour and chance() < 0.2:
        new["signature"] = None
    if "unknown_fingerprint" in flavour and chance() < 0.25:
        new["fingerprint"] = None
    if "changed" in flavour and chance() < 0.08:
        new["milestone"] = random.choice(("half", ""))
    if "changed" in flavour and chance() < 0.08:
        new["external_input"] = random.choice((True, True, False))
    if "lease" in flavour and chance() < 0.5:
        keeps = held.get("lease") is not None and chance() < 0.6
        lease = replace(held["lease"]) if keeps else _lease(random, event.at)
        if keeps and chance() < 0.5 and lease.deadline is not None:
            lease = replace(lease, deadline=lease.deadline + random.choice((-1, 5, 20)) * _SECOND)
        new["lease"] = held["lease"] = lease
    if "error" in flavour:
        new["error_class"] = random.choice((None, "rate_limit", "rate_limit", "rate_limit", "timeout"))
        if chance() < 0.8:
            new["policy"] = held.setdefault("policy", policy(random)) if chance() < 0.9 else policy(random)
        if chance() < 0.1:
            new["attempt"] = random.choice((0, 1, 1, 2, 3, 4))
    if "version" in flavour and chance() < 0.12:
        held[random.choice(("normaliser_version", "key_id", "fingerprint_version"))] = random.choice(
            ("v1", "v2")
        )
    if "hard" in flavour and chance() < 0.06:
        new["hard_failure"] = random.choice(("outcome_failed", "permission_lost"))
    if "hard" in flavour and chance() < 0.08:
        new["reachable"] = random.choice((False, True))
    if "handoff" in flavour and chance() < 0.2:
        new["kind"] = "handoff"
    if "backwards" in flavour and event.at is not None and chance() < 0.2:
        new["at"] = event.at - random.choice((1, 2 * _SECOND, 60 * _SECOND))
    if "busy" in flavour:
        new |= {
            "tokens_in": random.choice((None, 10)),
            "tokens_out": 3,
            "cost_usd": random.choice((None, 0.25)),
        }
    versions = {
        name: held[name] for name in ("normaliser_version", "key_id", "fingerprint_version") if name in held
    }
    return replace(event, **versions, **new)


def _step_us(random: Random, out: list[Event], steady: int) -> int:
    """Draw the time to the next start: steady, any, or just what the policy in hand asks for, give or take 1 us."""
    newest = out[-1]
    if newest.policy is not None and newest.error_class is not None and random.random() < 0.7:
        tries = random.randint(0, 3) if random.random() < 0.3 else _trailing_errors(out) - 1
        wanted = newest.policy.interval_s * newest.policy.backoff_rate**tries * _SECOND
        lasted = 0 if newest.ended_at is None or newest.at is None else newest.ended_at - newest.at
        return max(0, int(wanted) + lasted + random.choice((-2, -1, 0, 0, 0, 1, 500_000)))
    return steady if random.random() < 0.6 else random.choice(_STEPS_US)


def _trailing_errors(out: list[Event]) -> int:
    count = 0
    for event in reversed(out):
        if event.error_class is None:
            break
        count += 1
    return count


def _fact(random: Random, event: Event) -> Event:
    """Draw a record beside the actions: a model call, or a judgement from outside."""
    if random.random() < 0.5:
        return replace(event, kind="model", tool="m", tokens_in=7, cost_usd=0.5)
    return replace(
        event, kind="verdict", tool="tests", outcome=random.choice(("passed", "failed", "unknown"))
    )


def lane(seed: int | str, *, run_id: str = "r", agent: str = "") -> list[Event]:
    """Draw one lane of 4 to 28 events."""
    random = Random(f"lane {seed}")
    flavour = set(random.sample(_FLAVOURS, random.choice((0, 1, 1, 2, 2, 3, 4, 8))))
    held: dict[str, Any] = {}
    at = 1_760_000_000 * _SECOND
    steady = random.choice(_STEPS_US)
    out: list[Event] = []
    steps = _steps(random, random.randint(4, 28))
    if "error" in flavour and random.random() < 0.6:  # attempts of one action, mostly
        steps = [steps[0] if random.random() < 0.85 else step for step in steps]
    for tool, signature, fingerprint in steps:
        timed = not ("no_time" in flavour and random.random() < 0.2)
        lasts = random.choice((None, None, 0, 500_000, 1_000_000))
        event = Event(
            seq=len(out),
            run_id=run_id,
            agent=agent,
            workflow="w",
            tool=tool,
            signature=signature,
            fingerprint=fingerprint,
            at=at if timed else None,
            ended_at=at + lasts if timed and lasts is not None else None,
        )
        out.append(_decorate(random, event, flavour, held))
        at += _step_us(random, out, steady)
        if "pause" in flavour and random.random() < 0.3:
            pause = replace(
                event,
                seq=len(out),
                tool="sleep",
                signature="sleep:2",
                at=at if timed else None,
                ended_at=None,
            )
            out.append(replace(pause, pause=True, fingerprint=random.choice((fingerprint, "slept"))))
            at += _SECOND
        if "facts" in flavour and random.random() < 0.2:
            plain = Event(seq=len(out), run_id=run_id, agent=agent, workflow="w", at=at)
            out.append(_fact(random, plain))
    stride, first = random.choice(((1, 0), (1, 0), (3, 1), (10, 100)))
    return [replace(event, seq=first + event.seq * stride) for event in out]


def file(seed: int | str) -> File:
    """Draw what a policies file may say; mostly nothing."""
    random = Random(f"file {seed}")
    if random.random() < 0.6:
        return File()
    about = (
        {"tool": "read"},
        {"tool": "search", "workflow": "w"},
        {"workflow": "w"},
        {},
        {"tool": "search", "workflow": "x"},
    )
    retries = tuple(
        Declared(policy=policy(random), **names) for names in random.sample(about, random.randint(0, 3))
    )
    waits = tuple(
        Waiting(tool=tool, owner="ops", longest_wait_s=random.choice((0.0, 5.0, 20.0)), workflow=workflow)
        for tool, workflow in random.sample(
            (("search", None), ("search", "w"), ("read", "x")), random.randint(0, 2)
        )
    )
    sleeps = frozenset({"search"}) if random.random() < 0.15 else frozenset()
    return File(retries=retries, waits=waits, sleeps=sleeps)
