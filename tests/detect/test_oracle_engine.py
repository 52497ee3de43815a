"""The engine and the literal detector agree on every event of random lanes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle import generate, sides
from tests.oracle.lanes import lanes

if TYPE_CHECKING:
    from tests.oracle.exemptions import File
    from tests.oracle.lanes import Event


def draw(batch: int, size: int) -> tuple[generate.Drawn, File, list[Event]]:
    """Draw rules, a policies file and many lanes; every third lane joins the run before it."""
    drawn = generate.book(Random(f"book {batch}"))
    events: list[Event] = []
    for k in range(size):
        run = f"{batch:04d}-{k - (k % 3 == 2):04d}"
        events += generate.lane(f"{batch} {k}", run_id=run, agent=f"a{k % 3}")
    return drawn, generate.file(batch), events


def compare(batch: int, size: int) -> dict[str, int]:
    """Fail with the first lane on which the two differ, its rules and its events; count what was seen."""
    drawn, file, events = draw(batch, size)
    mine, theirs = sides.literal(events, drawn, file), sides.engine(events, drawn, file)
    by_lane = lanes(events)
    for what, said in mine.items():
        for key in sorted(said.keys() | theirs[what].keys()):
            if said.get(key) != theirs[what].get(key):
                shown = "\n".join(str(e) for e in by_lane.get(key[:2], ()))
                differ = f"literal {said.get(key)}\nengine  {theirs[what].get(key)}"
                pytest.fail(
                    f"{what} {sides.COLUMNS[what]} at {key}\n{differ}\n{drawn}\n{file}\n{shown}",
                    pytrace=False,
                )
    return sides.tally(mine)


def test_random_lanes_reach_every_verdict():
    """The lanes are not idle: every verdict, every reason and every way to close an episode occurs."""
    seen: dict[Any, int] = {}
    for batch in range(16):
        drawn, file, events = draw(batch, 12)
        for name, count in sides.tally(sides.literal(events, drawn, file)).items():
            seen[name] = seen.get(name, 0) + count
    assert {"stuck_loop", "uncertain", "retrying", "waiting", "working", "failed_outcome"} <= seen.keys()
    assert {"missing_fingerprint", "missing_signature", "version_change", "policy", "lease"} <= seen.keys()
    assert {
        "closed by evidence",
        "closed by milestone",
        "closed by other_loop",
        "closed by None",
    } <= seen.keys()


@pytest.mark.parametrize("batch", range(12))
def test_engine_agrees_with_the_literal_detector(batch):
    """Verdict, reason, period, laps, suspicion, stall, episodes and runs agree on thirty lanes a rule book."""
    compare(batch, 30)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(1000, 1200))
def test_engine_agrees_on_twenty_thousand_lanes(batch):
    """Two hundred rule books, a hundred lanes each."""
    compare(batch, 100)
