"""From records to events: what each source said becomes what happened.

The steps, each cheap where it has nothing to do: the run id of a trace with one session is the session;
agents are inherited from enclosing spans; records of one action are merged and repetitions dropped; where no
tool of a trace left a record, what its models asked for is what was done; of two readers of one run the better
one stands, with lanes that only the other has; instances of one name are told apart; lanes are ordered and
numbered; the fingerprint of each run is chosen; a human turn is carried to the next action.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from agentlens.errors import SchemaError
from agentlens.model.event import CONTENT, EVENTS
from agentlens.model.once import nulls, said_once
from agentlens.model.record import RECORDS
from agentlens.normalise.asked import promote
from agentlens.normalise.evidence import carry_external, choose, fill_run_facts
from agentlens.normalise.handed import hand_over_once
from agentlens.normalise.lanes import inherit_agents, mark_instances, order
from agentlens.normalise.merge import columns_of, disputed, join_twins, merge
from agentlens.normalise.prefer import prefer_readers

_DECIDED = ("identity", "session", "reader_rank")
"""Columns that no later step looks at, once what is one action and whose word stands is decided."""


@dataclass(frozen=True)
class Assembled:
    """Events, and per ``source_id`` how many records were ``dropped`` (said twice) and ``folded`` into one.

    ``elsewhere``: per ``source_id`` how many were left out because a better export of their run tells them.
    ``disputed``: per ``source_id`` how many of its runs another source tells otherwise.
    """

    events: pl.DataFrame
    counts: pl.DataFrame
    elsewhere: pl.DataFrame
    disputed: pl.DataFrame


def assemble(records: pl.LazyFrame) -> pl.LazyFrame:
    """Make the event table of whole runs from their records.

    Parameters
    ----------
    records
        `RECORDS` rows, with the `CONTENT` columns or without, in any order. All records of a run must be
        there; they are collected, so a lake calls this one bucket at a time.

    Returns
    -------
    pl.LazyFrame
        `EVENTS` (and `CONTENT` where it was there), sorted by ``run_id, agent, seq``. The same records give
        the same rows, in whatever order they come.

    Raises
    ------
    SchemaError
        A column of `RECORDS` is missing.
    """
    return assembled(records.collect()).events.lazy()


def assembled(records: pl.DataFrame) -> Assembled:
    """Do the work of `assemble` on a frame at hand, and count what was dropped and folded."""
    missing = [name for name in RECORDS if name not in records.columns]
    if missing:
        raise SchemaError(f"records lack the columns {', '.join(missing)}; accepted: the record table")
    # one name throughout: a large run is there once or twice, not once a step
    records = said_once(records.select(columns_of(records)))
    # agents first: merging keeps one of two spans, and those below the other still look for theirs
    records = inherit_agents(with_sessions(records))
    otherwise = disputed(records)
    records, counts = merge(join_twins(records))
    records, elsewhere = prefer_readers(promote(records))
    records = hand_over_once(records)
    records = order(mark_instances(records.drop(_DECIDED)))
    records = _finished(fill_run_facts(carry_external(choose(records))))
    return Assembled(records, counts, elsewhere, otherwise)


def sessions_of(records: pl.LazyFrame) -> pl.LazyFrame:
    """Return the distinct ``(run_id, session)`` pairs of runs that name a session, sorted."""
    return records.filter(pl.col("session").is_not_null()).select("run_id", "session").unique().sort(pl.all())


def run_names(sessions: pl.DataFrame) -> pl.DataFrame:
    """Return ``(run_id, named)``: the session of each run id as read that has exactly one."""
    return (
        sessions.group_by("run_id")
        .agg(pl.col("session").n_unique().alias("n"), pl.col("session").min().alias("named"))
        .filter(pl.col("n") == 1)
        .select("run_id", "named")
        .sort("run_id")
    )


def with_sessions(records: pl.DataFrame) -> pl.DataFrame:
    """Replace the run id of a trace with exactly one session by that session."""
    if nulls(records, "session") == len(records):
        return records
    names = run_names(sessions_of(records.lazy()).collect())
    return records.with_columns(pl.col("run_id").replace(names["run_id"], names["named"]))


def _finished(ordered: pl.DataFrame) -> pl.DataFrame:
    filled = ordered.with_columns(
        pl.col("reachable").fill_null(True), pl.col("agent").fill_null(""), pl.col("tool").fill_null("")
    )
    schema = dict(EVENTS) | {name: dtype for name, dtype in CONTENT.items() if name in ordered.columns}
    events = filled.select(pl.col(name).cast(dtype) for name, dtype in schema.items())
    return events.sort("run_id", "agent", "seq", maintain_order=True)
