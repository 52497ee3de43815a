"""The verb stays callable although a package has its name."""

from __future__ import annotations

from importlib import import_module

import agentlens
from tests.calibrate.small import labels, lane, lanes


def fleet():
    """Six healthy runs and two stuck ones, with labels."""
    events = lanes(
        *(lane(f"h{i}", "abcdefgh", at=1_000 * i) for i in range(6)),
        *(lane(f"i{i}", "abxxxxxx", at=9_000 + 1_000 * i) for i in range(2)),
    )
    rows = [{"run_id": f"h{i}", "scope": "run", "label": "healthy", "task_group": f"g{i}"} for i in range(6)]
    rows += [
        {"run_id": f"i{i}", "scope": "run", "label": "incident", "task_group": f"j{i}"} for i in range(2)
    ]
    return events, labels(*rows)


def test_the_verb_can_be_called_again_and_after_its_package_is_imported():
    """The second call, and one after an import of a part, give what the first gave."""
    events, told = fleet()
    first = agentlens.calibrate(events, labels=told)
    second = agentlens.calibrate(events, labels=told)
    part = import_module("agentlens.calibrate.sweep")
    third = agentlens.calibrate(events, labels=told)
    assert first.toml() == second.toml() == third.toml()
    assert agentlens.calibrate.sweep is part
