"""Seeded made-up fleets that come with their truth: data to try, to test and to calibrate on."""

from agentlens.datasets.fleet import SEED, Fleet, fleet
from agentlens.datasets.handoffs import Handoffs, handoffs
from agentlens.datasets.lanes import LaneModel, SyntheticLanes, synthetic_lanes
from agentlens.datasets.latencies import SyntheticHandoffs, Urgency, synthetic_handoffs
from agentlens.datasets.scenarios import SCENARIOS, Scenario
from agentlens.datasets.write import fleet_files, write_fleet

__all__ = [
    "SCENARIOS",
    "SEED",
    "Fleet",
    "Handoffs",
    "LaneModel",
    "Scenario",
    "SyntheticHandoffs",
    "SyntheticLanes",
    "Urgency",
    "fleet",
    "fleet_files",
    "handoffs",
    "synthetic_handoffs",
    "synthetic_lanes",
    "write_fleet",
]
