"""Selections by time, workflow and agent."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.errors import SettingsError
from agentlens.model.event import TIME
from agentlens.model.select import Selection, parse_time

EVENTS = pl.DataFrame(
    {
        "run_id": ["r", "r", "r", "s"],
        "agent": ["a", "a#2", "ab", "a"],
        "workflow": ["w", None, None, "v"],
        "at": [parse_time("2026-01-01"), parse_time("2026-01-02"), None, parse_time("2026-01-03")],
    },
    schema_overrides={"at": TIME},
).lazy()


def rows(**chosen: str) -> list[tuple[str, str]]:
    return (
        Selection.parse(**chosen)
        .apply(EVENTS)
        .select("run_id", "agent")
        .collect()
        .sort("run_id", "agent")
        .rows()
    )


def test_agent_name_takes_in_its_instances_and_no_longer_name() -> None:
    """``a`` is ``a`` and ``a#2``, never ``ab``."""
    assert rows(agent="a") == [("r", "a"), ("r", "a#2"), ("s", "a")]


def test_a_workflow_keeps_whole_runs() -> None:
    """The workflow stands on one event of a run and holds for all of them."""
    assert rows(workflow="w") == [("r", "a"), ("r", "a#2"), ("r", "ab")]


def test_until_is_exclusive_and_untimed_events_are_outside() -> None:
    """An event without a time is in no time range."""
    assert rows(since="2026-01-01", until="2026-01-03") == [("r", "a"), ("r", "a#2")]


def test_a_time_that_is_none_names_what_is_accepted() -> None:
    """The error says what would have been read."""
    with pytest.raises(SettingsError, match="RFC 3339"):
        Selection.parse(since="yesterday")


def test_a_time_without_a_date_in_utc_is_refused() -> None:
    """A zone may carry the first or last year out of those that have a date."""
    with pytest.raises(SettingsError, match="RFC 3339"):
        Selection.parse(since="0001-01-01T00:00:00+14:00")
