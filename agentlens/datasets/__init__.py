"""Seeded made-up fleets that come with their truth: data to try, to test and to calibrate on."""

from agentlens.datasets.fleet import SEED, Fleet, fleet
from agentlens.datasets.handoffs import Handoffs, handoffs
from agentlens.datasets.scenarios import SCENARIOS, Scenario
from agentlens.datasets.write import fleet_files, write_fleet

__all__ = [
    "SCENARIOS",
    "SEED",
    "Fleet",
    "Handoffs",
    "Scenario",
    "fleet",
    "fleet_files",
    "handoffs",
    "write_fleet",
]
