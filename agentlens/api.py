"""The verbs as Python functions. What the command line prints is made from what these return."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeGuard, Unpack, overload

from agentlens.data import Data, action_kinds, default_normaliser, is_there, open_data
from agentlens.judging import loop_parts as loop_parts  # noqa: PLC0414 - the other verbs take it from here
from agentlens.judging import write_loops
from agentlens.model.select import Selection
from agentlens.results import Loops

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    import polars as pl

    from agentlens.data import Opened
    from agentlens.detect.policies import Policies
    from agentlens.detect.profile_rules import RuleBook
    from agentlens.detect.rules import Rule
    from agentlens.lake import IngestReport
    from agentlens.normalise.rows import Normaliser
    from agentlens.results import LoopSums


def make_normaliser(
    *,
    key_file: str | Path | None = None,
    tables: Sequence[str | Path] = (),
    keep_content: bool = False,
    fingerprint: str = "observed",
) -> Normaliser:
    """Build the normaliser that ingest and direct reading use.

    Raises
    ------
    SettingsError
        For a fingerprint that is not defined, or a table that can not be read.
    """
    from agentlens.normalise.digest import Key
    from agentlens.normalise.rows import Normaliser
    from agentlens.normalise.tables import Tables

    return Normaliser(
        key=Key.load(file=Path(key_file) if key_file else None),
        tables=Tables.load(*(Path(path) for path in tables)),
        keep_content=keep_content,
        fingerprint=fingerprint,
    )


def ingest(
    *sources: str | Path,
    into: str | Path,
    format: str | None = None,  # noqa: A002 - the word users type
    sql: str | Path | None = None,
    normaliser: Normaliser | None = None,
    workers: int | None = None,
    progress: Any = None,
    dry_run: bool = False,
    forgotten: str | Path | None = None,
) -> IngestReport:
    """Read trace exports into a lake; what is there already and unchanged is left alone.

    Parameters
    ----------
    sources
        Files, folders, globs, or ``-`` for standard input; ``.gz`` and ``.zst`` are opened.
    into
        The lake's folder; made if it is not there.
    format, sql
        Force a format, or read through a DuckDB SELECT that yields the canonical columns.
    normaliser
        From `make_normaliser`; by default the user's key and the shipped tables.
    forgotten
        A lake, of any schema version, that the new one is made in place of: what was deleted from it is left out.

    Raises
    ------
    InputError
        If nothing could be read.
    LakeError
        If the lake is locked, damaged or of another version.
    """
    from agentlens import lake

    return lake.ingest(
        [str(source) for source in sources],
        Path(into),
        format=format,
        sql=mapping(sql),
        normaliser=normaliser or default_normaliser(),
        workers=workers,
        progress=progress,
        dry_run=dry_run,
        forgotten=forgotten,
    )


def mapping(sql: str | Path | None) -> str | None:
    """Return the text of a ``--sql`` mapping: a file, a shipped name, or the query itself."""
    from agentlens.readers.sql import mapping_text

    return None if sql is None else mapping_text(sql)


def rule_book(rule: Rule | RuleBook | str | Path | None) -> RuleBook:
    """Take a rule, a named rule, one with arguments (``"laps(4, 2, 2)"``), or a rule file (also a profile).

    None is the default rule.

    Raises
    ------
    SettingsError
        For a name that is neither a rule nor a file.
    """
    from agentlens.detect.profile_rules import RuleBook
    from agentlens.detect.rule_text import is_rule_text, rule_table_of
    from agentlens.detect.rules import Rule as RuleClass
    from agentlens.detect.rules import laps

    if rule is None:
        return RuleBook.of(laps())
    if isinstance(rule, RuleBook | RuleClass):
        return RuleBook.of(rule)
    there = is_there(rule)
    if isinstance(rule, str) and is_rule_text(rule) and not there:
        return RuleBook.from_mapping({"default": rule_table_of(rule)})
    if not there and Path(rule).suffix == "":
        return RuleBook.from_mapping({"default": {"rule": str(rule)}})
    return RuleBook.load(Path(rule))


def versions_of(opened: Opened) -> dict[str, str]:
    """Return the versions of the events and, where a lake holds labels, of its labels."""
    found = opened.versions()
    if opened.lake is None or not opened.lake.labels_folder.is_dir():
        return found
    from agentlens.calibrate.label_store import LabelStore
    from agentlens.calibrate.labels import labels_digest

    told = LabelStore.of(opened.lake).read()
    return found if told.is_empty() else {**found, "labels": labels_digest(told)}


def has_versions(rule: object) -> TypeGuard[str | Path]:
    """Whether a rule is a file, which may name the versions it was made for; finding those of the data is a scan."""
    return isinstance(rule, str | Path) and is_there(rule) and Path(rule).is_file()


def refuse_other_versions(
    rule: object, found: Mapping[str, str], *, any_version: bool = False, needs_rule: bool = True
) -> None:
    """Refuse a profile that was made for data of other versions; a rule file without versions is let through.

    ``found`` may hold settings too (`agentlens.calibrate.profile.settings_of`). Where only the limits of handoffs are
    used, ``needs_rule`` is not set: they hold whether a loop rule was feasible or not.

    Raises
    ------
    SettingsError
        When a version differs and ``any_version`` is not set.
    """
    if has_versions(rule):
        from agentlens.calibrate.profile import check_profile

        check_profile(rule, found, any_version=any_version, needs_rule=needs_rule)


def check_rules(
    opened: Opened,
    rules: Iterable[object],
    actions: Iterable[str],
    policies: Policies | None,
    *,
    any_version: bool = False,
    labels: bool = True,
) -> None:
    """Refuse each rule that is a file made for other data, labels or settings (`refuse_other_versions`).

    ``labels`` is not set where more of them are what comes of the work.
    """
    from agentlens.calibrate.profile import settings_of

    files = [rule for rule in rules if has_versions(rule)]
    if files and not any_version:
        here = (versions_of(opened) if labels else opened.versions()) | settings_of(actions, policies)
    for rule in files:
        refuse_other_versions(rule, {} if any_version else here, any_version=any_version)


class LoopSettings(TypedDict, total=False):
    """What `loops` takes beside the data and where to write."""

    rule: Rule | RuleBook | str | Path | None
    policies: Policies | str | Path | None
    actions: str | Sequence[str]
    any_version: bool
    since: str | datetime | None
    until: str | datetime | None
    workflow: str | None
    agent: str | None
    normaliser: Normaliser | None
    format: str | None
    sql: str | Path | None


@overload
def loops(data: Data, *, out: None = None, **settings: Unpack[LoopSettings]) -> Loops: ...


@overload
def loops(data: Data, *, out: str | Path, **settings: Unpack[LoopSettings]) -> LoopSums: ...


def loops(
    data: Data,
    *,
    out: str | Path | None = None,
    rule: Rule | RuleBook | str | Path | None = None,
    policies: Policies | str | Path | None = None,
    actions: str | Sequence[str] = ("tool", "handoff"),
    any_version: bool = False,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    workflow: str | None = None,
    agent: str | None = None,
    normaliser: Normaliser | None = None,
    format: str | None = None,  # noqa: A002 - the word users type
    sql: str | Path | None = None,
) -> Loops | LoopSums:
    """Judge every action of every lane.

    Parameters
    ----------
    data
        A lake (or its folder), a trace export, or a frame with the columns of `agentlens.model.event.EVENTS`.
    out
        A folder to write the tables into while a lake is judged bucket after bucket: for lakes whose verdicts do
        not fit into memory. See `agentlens.judging.write_loops` for the order of rows.
    rule
        A `Rule`, a rule book, a name (``laps``, ``openhands``, ...) or a TOML file; default ``laps((4, 3, 2))``.
    policies
        Declared retry policies and waiting tools (TOML), where the export carries none.
    actions
        Kinds of events that take part in cycles.
    any_version
        Use a profile although its versions are not those of the data.
    since, until, workflow, agent
        Which events are looked at.

    Returns
    -------
    Loops or LoopSums
        Frames ``verdicts``, ``episodes``, ``runs``; schemas in `agentlens.model.verdict`. With ``out`` the verdicts
        are in the folder, and ``verdicts()`` gives them lazily.

    Raises
    ------
    AgentlensError
        For settings or data that can not be used; the message says what would be accepted.
    """
    from agentlens.detect.policies import Policies as PoliciesClass

    selection = Selection.parse(since, until, workflow, agent)
    opened = open_data(data, selection, normaliser=normaliser, format=format, sql=sql)
    loaded = PoliciesClass.load(Path(policies)) if isinstance(policies, str | Path) else policies
    kinds = action_kinds(actions)
    check_rules(opened, [rule], kinds, loaded, any_version=any_version)
    parts = loop_parts(opened, rule_book(rule), loaded, kinds)
    return Loops.concat(parts) if out is None else write_loops(parts, out)


def health(
    data: Data,
    *,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    workflow: str | None = None,
    agent: str | None = None,
    normaliser: Normaliser | None = None,
    format: str | None = None,  # noqa: A002 - the word users type
    sql: str | Path | None = None,
) -> pl.DataFrame:
    """Say per tool where signatures never repeat, evidence always or never changes, or fingerprints are missing."""
    from agentlens.normalise.health import health as judge

    selection = Selection.parse(since, until, workflow, agent)
    return judge(open_data(data, selection, normaliser=normaliser, format=format, sql=sql).events()).collect()


def sql(lake: str | Path, query: str) -> pl.DataFrame:
    """Run one SELECT over a lake's tables (``events``, ``receipts``, ``branches``, ``records``), read-only, offline."""
    from agentlens.lake import Lake

    return Lake.open(Path(lake)).sql(query)
