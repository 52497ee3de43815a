"""Spark: the analyses over a lake that one machine cannot hold, from a notebook session or the command line.

Every function takes a classic `SparkSession` and leaves its settings alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentlens.distribute.engine import start
from agentlens.model.event import ACTIONS
from agentlens.model.select import Selection, parse_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    import polars as pl

    from agentlens.calibrate.grid import Cell
    from agentlens.detect.handoff_limits import HandoffLimits
    from agentlens.detect.policies import Policies
    from agentlens.detect.profile_rules import RuleBook
    from agentlens.detect.receipts_auth import AuthorKeys
    from agentlens.detect.rules import Rule
    from agentlens.distribute.tables import SparkTables
    from agentlens.lake.report import IngestReport
    from agentlens.normalise.rows import Normaliser

__all__ = ["events", "handoffs", "ingest", "loops", "start", "sweep"]


def loops(
    session: Any,
    path: str,
    *,
    rule: Rule | RuleBook | None = None,
    policies: Policies | None = None,
    actions: Sequence[str] = ACTIONS,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    workflow: str | None = None,
    agent: str | None = None,
) -> SparkTables:
    """Judge every action of every lane of a lake.

    Parameters
    ----------
    session
        A `SparkSession`.
    path
        Folder of a lake on any path Spark reaches (``s3a://``, ``hdfs://``, ``file:///``).
    rule, policies, actions, since, until, workflow, agent
        As for `agentlens.loops`; a rule is a `Rule` or a `RuleBook`, default ``laps((4, 3, 2))``.

    Returns
    -------
    SparkTables
        ``verdicts``, ``episodes``, ``runs``: to the row those of the local call.

    Raises
    ------
    AgentlensError
        The lake cannot be opened, or a setting is not accepted.
    """
    from agentlens.detect.rules import laps
    from agentlens.distribute.lakes import SparkLake
    from agentlens.distribute.loops import judged

    lake = SparkLake.open(session, path)
    selection = Selection.parse(since, until, workflow, agent)
    return judged(lake, laps() if rule is None else rule, policies, actions, selection)


def handoffs(
    session: Any,
    path: str,
    *,
    limits: HandoffLimits | None = None,
    as_of: str | datetime | None = None,
    keys: AuthorKeys | None = None,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    workflow: str | None = None,
    agent: str | None = None,
) -> SparkTables:
    """Judge every handoff of a lake: native receipts, and those inferred from its events.

    Parameters
    ----------
    session, path
        As for `loops`.
    limits, as_of, keys, since, until, workflow, agent
        As for `agentlens.handoffs`.

    Returns
    -------
    SparkTables
        ``handoffs``, ``operations``, ``claims``, ``cues``, ``authors``: to the row those of the local call.

    Raises
    ------
    AgentlensError
        The lake cannot be opened, or a setting is not accepted.
    """
    from agentlens.detect.handoff_limits import HandoffLimits as Limits
    from agentlens.distribute.handoffs import judged
    from agentlens.distribute.lakes import SparkLake

    moment = parse_time(as_of, "--as-of") if isinstance(as_of, str) else as_of
    selection = Selection.parse(since, until, workflow, agent)
    lake = SparkLake.open(session, path)
    return judged(lake, limits or Limits(), as_of=moment, keys=keys, selection=selection)


def ingest(
    session: Any,
    *sources: str,
    into: str,
    normaliser: Normaliser,
    key_file: str | Path | None = None,
    format: str | None = None,  # noqa: A002 - the word users know
    sql: str | None = None,
    forgotten: str | None = None,
) -> IngestReport:
    """Read trace exports into a lake on any path Spark reaches; what is there already and unchanged is left alone.

    Parameters
    ----------
    session
        As for `loops`.
    sources
        Files, folders (read through) and patterns. Paths of scheme ``file`` must be there on every worker; the
        files beside a source, which some readers look into, are seen only there.
    into
        Folder of the lake; made if it is not there.
    normaliser
        From `agentlens.make_normaliser`. Its key is not sent: every worker must have the same one (``key_file``,
        ``AGENTLENS_KEY``).
    format, sql, forgotten
        As for `agentlens.ingest`; ``sql`` is the text of the mapping, ``forgotten`` any path Spark reaches.

    Returns
    -------
    IngestReport
        That of the local call, and the same lake to the row.

    Raises
    ------
    AgentlensError
        Nothing can be read, the lake cannot be written, or a worker lacks the key; the lake is as it was.
    """
    from agentlens.distribute.ingest import ingested
    from agentlens.lake.plan import Settings
    from agentlens.readers import registry

    if format is not None:
        registry.named(format)
    settings = Settings(normaliser=normaliser, format=format, sql=sql)
    key = None if key_file is None else str(key_file)
    return ingested(session, sources, into, settings, key, forgotten)


def sweep(
    session: Any,
    path: str,
    cells: Sequence[Cell],
    *,
    runs: Sequence[str] | None = None,
    policies: Policies | None = None,
    actions: Sequence[str] = ACTIONS,
) -> SparkTables:
    """Say what every rule of a grid does on every run of a lake.

    Parameters
    ----------
    session, path
        As for `loops`.
    cells
        From `agentlens.calibrate.grid.classes`.
    runs
        Only these runs, such as the labelled ones; None: all.
    policies, actions
        As for `agentlens.calibrate.sweep.sweep`.

    Returns
    -------
    SparkTables
        ``alerts``, ``doubts``, ``totals``: to the row `agentlens.distribute.sweeps.sweep_tables` of the local sweep.
    """
    from agentlens.distribute.lakes import SparkLake
    from agentlens.distribute.sweeps import swept

    return swept(SparkLake.open(session, path), cells, runs=runs, policies=policies, actions=actions)


def events(session: Any, path: str, runs: Sequence[str]) -> pl.DataFrame:
    """Bring the events of some runs of a lake to this machine, whole: what `agentlens.calibrate` takes beside labels.

    Returns
    -------
    DataFrame
        Schema `agentlens.model.event.EVENTS`, sorted by run_id, agent, seq.
    """
    from agentlens.distribute.lakes import SparkLake
    from agentlens.distribute.sweeps import events_of

    return events_of(SparkLake.open(session, path), runs)
