"""agentlens looks back over finished agent runs: real loops, lost handoffs, unsafe resets.

The names below are the whole front door; each is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agentlens._version import __version__ as __version__

if TYPE_CHECKING:
    from agentlens import chart, datasets
    from agentlens.api import health, ingest, loops, make_normaliser, sql
    from agentlens.boundaries import handoffs, resets
    from agentlens.calibrating import calibrate
    from agentlens.comparing import compare
    from agentlens.detect.policies import Policies
    from agentlens.detect.profile_rules import RuleBook
    from agentlens.detect.rules import Rule, laps
    from agentlens.errors import AgentlensError
    from agentlens.explaining import explain
    from agentlens.lake import Lake
    from agentlens.reporting import make_report, write_report

__all__ = [
    "AgentlensError",
    "Lake",
    "Policies",
    "Rule",
    "RuleBook",
    "calibrate",
    "chart",
    "compare",
    "datasets",
    "explain",
    "handoffs",
    "health",
    "ingest",
    "laps",
    "loops",
    "make_normaliser",
    "make_report",
    "resets",
    "sql",
    "write_report",
]

_WHERE = {
    "AgentlensError": "agentlens.errors",
    "Lake": "agentlens.lake",
    "Policies": "agentlens.detect.policies",
    "Rule": "agentlens.detect.rules",
    "RuleBook": "agentlens.detect.profile_rules",
    "laps": "agentlens.detect.rules",
    **dict.fromkeys(("health", "ingest", "loops", "make_normaliser", "sql"), "agentlens.api"),
    **dict.fromkeys(("handoffs", "resets"), "agentlens.boundaries"),
    "calibrate": "agentlens.calibrating",
    "explain": "agentlens.explaining",
    "compare": "agentlens.comparing",
    "make_report": "agentlens.reporting",
    "write_report": "agentlens.reporting",
}
_MODULES = {"chart": "agentlens.chart", "datasets": "agentlens.datasets"}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'agentlens' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
