"""Which events an analysis looks at: by time, workflow and agent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from agentlens.errors import SettingsError

_ACCEPTED = "RFC 3339 such as 2026-10-05T08:00:00Z, or YYYY-MM-DD"


def parse_time(text: str, name: str = "time") -> datetime:
    """Read RFC 3339 or ``YYYY-MM-DD`` (midnight UTC; a time without a zone is UTC).

    Raises
    ------
    SettingsError
        If the text is neither.

    Examples
    --------
    >>> parse_time("2026-10-05T08:00:00Z").isoformat()
    '2026-10-05T08:00:00+00:00'
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError.value(name, text, _ACCEPTED) from None
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:  # its zone carries it out of the years that have a date
        raise SettingsError.value(name, text, _ACCEPTED) from None


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What to keep. Events without a time are outside any time limit; a workflow keeps whole runs."""

    since: datetime | None = None
    until: datetime | None = None
    workflow: str | None = None
    agent: str | None = None

    def __post_init__(self) -> None:
        """Refuse limits of time between which nothing can be."""
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise SettingsError.value(
                "until", self.until.isoformat(), f"a time after {self.since.isoformat()}"
            )

    @classmethod
    def parse(
        cls,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        workflow: str | None = None,
        agent: str | None = None,
    ) -> Selection:
        """Build from text as typed; raise `SettingsError` for a time that can not be read or an empty span."""
        return cls(
            since=parse_time(since, "since") if isinstance(since, str) else since,
            until=parse_time(until, "until") if isinstance(until, str) else until,
            workflow=workflow,
            agent=agent,
        )

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self == Selection()

    def apply(self, events: pl.LazyFrame) -> pl.LazyFrame:
        """Return the selected rows of an event frame (columns ``run_id, agent, at, workflow``)."""
        if self.workflow is not None:
            kept = events.filter(pl.col("workflow") == self.workflow).select("run_id").unique()
            events = events.join(kept, on="run_id", how="semi")
        if self.since is not None:
            events = events.filter(pl.col("at") >= self.since)
        if self.until is not None:
            events = events.filter(pl.col("at") < self.until)
        if self.agent is not None:
            events = events.filter(
                (pl.col("agent") == self.agent) | pl.col("agent").str.starts_with(f"{self.agent}#")
            )
        return events
