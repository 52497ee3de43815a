"""What of the event table the loop detector looks at; nothing else needs to be read."""

from __future__ import annotations

from agentlens.detect import episodes, lanes, runs
from agentlens.model.event import EVENTS

JUDGED = tuple(name for name in EVENTS if name in {*lanes.COLUMNS, "kind", *episodes.FACTS, *runs.FACTS})
"""Columns that `loops`, `episodes` and `runs` need, in the order of the event table."""
