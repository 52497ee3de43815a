"""Deleting runs from a lake: from every table and every file, and proof that they are gone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from agentlens.errors import LakeError, SettingsError
from agentlens.lake import manifest as manifests
from agentlens.lake.folder import aside, opened
from agentlens.lake.forgotten import operation_mark, without_lost_sources
from agentlens.lake.labelled import LabelPart, label_parts
from agentlens.lake.lake import Lake
from agentlens.lake.rewrite import QUARANTINE, Change, rewrite
from agentlens.lake.store import forgotten_mark, sweep
from agentlens.model.select import parse_time
from agentlens.normalise.assemble import run_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import date, datetime

_OWN_COLUMNS = ("run_id", "session", "trace_id", "branch_id")
"""Columns in which a row says whose it is."""
_PARENT_COLUMNS = ("parent_run_id", "parent_id")
"""Columns in which a row of another run names its parent; a digest stands there for a deleted one."""


@dataclass(frozen=True, kw_only=True)
class ForgetReport:
    """What `forget` deleted.

    ``again``: asked for, and deleted before. ``rows``: by table; ``source_names``: files of which nothing is left, so
    that their names went too. ``checked``: Parquet files read afterwards to prove that nothing is left.
    """

    runs: tuple[str, ...]
    rows: dict[str, int]
    checked: int
    again: tuple[str, ...] = ()


def forget(
    lake: str | Path,
    *,
    run_id: str | Sequence[str] | None = None,
    before: str | date | datetime | None = None,
) -> ForgetReport:
    """Delete runs by name, or all whose last event is before a time, from records, events, receipts and labels.

    Files of the generation before are deleted at once, so analyses that are under way may end with an error.
    A source of which no other row is left goes with them: its name, and what was set aside of it. Where another run
    names a deleted one as its parent, a digest takes the place of the id. Digests of the deleted ids stay in the
    manifest: ingesting the same sources again brings neither the runs nor those names back. The files that were
    ingested are not touched.

    Parameters
    ----------
    lake
        Folder of the lake.
    run_id
        The run to delete, or several: all of them or, where one is not there, none. Trace ids that belong to a run's
        session go with it.
    before
        RFC 3339 or ``YYYY-MM-DD``. Runs without any time are kept. Handoffs whose newest receipt is earlier
        go too.

    Raises
    ------
    SettingsError
        Not exactly one of ``run_id`` and ``before`` is given, or the time cannot be read.
    LakeError
        There is no such run and never was one, no such lake, or the lake is locked.
    """
    wanted = [run_id] if isinstance(run_id, str) else [*(run_id or ())]
    if bool(wanted) == (before is not None):
        raise SettingsError("forget takes either a run or a time; accepted: exactly one of run_id and before")
    folder = Path(lake)
    until = None if before is None else _time(before)
    Lake.open(folder)  # says what is wrong before anything is made
    with opened(folder):
        found = Lake.open(folder)
        again = [one for one in wanted if forgotten_mark(one) in found.manifest.forgotten]
        runs = _chosen(found, wanted, until)
        ids = _all_ids(found, runs)
        old = _old_operations(found, until)
        rows = _count(found, ids)
        with aside(folder) as parts:
            change = Change(aside=parts, dropped_runs=frozenset(ids), dropped_operations=frozenset(old))
            made = rewrite(folder, found.manifest, change)
            for name in ("receipts", "branches"):
                rows[name] = _height(found.manifest, name) - _height(made, name)
            gone = {*map(forgotten_mark, ids), *map(operation_mark, old)}
            marks = sorted({*made.forgotten, *gone})
            made, names = without_lost_sources(folder, replace(made, forgotten=marks, retired=[]), QUARANTINE)
            rows["source_names"] = len(names)
            labels = [*label_parts(found.labels_folder, marks, parts)]  # written now, in place after the lake
            manifests.save(folder, made)
            rows["labels"] = _in_place(folder, labels)
        sweep(folder, made)
        checked = _prove(folder, ids, names)
    new = tuple(run for run in runs if run not in again)
    return ForgetReport(runs=new, rows=rows, checked=checked, again=tuple(sorted(set(again))))


def _time(before: str | date | datetime) -> datetime:
    return parse_time(before if isinstance(before, str) else before.isoformat(), "before")


def _chosen(lake: Lake, wanted: Sequence[str], until: datetime | None) -> list[str]:
    if until is None:
        return sorted({run for one in wanted for run in _named(lake, one)})
    last = pl.max_horizontal("at", "ended_at").max()
    old = lake.events().group_by("run_id").agg(last.alias("last")).filter(pl.col("last") < until)
    return sorted(old.collect()["run_id"].to_list())


def _named(lake: Lake, run_id: str) -> set[str]:
    """Return a run and those that go by its name."""
    if forgotten_mark(run_id) in lake.manifest.forgotten:
        return {run_id}  # once more: a deletion that was killed may have left labels
    named = run_names(lake.sessions().collect()).filter(pl.col("run_id") == run_id)["named"].to_list()
    mine = pl.col("run_id").is_in([run_id, *named])
    runs = lake.events().filter(mine).select(pl.col("run_id").unique()).collect()
    receipts = lake.receipts().filter(pl.any_horizontal(pl.col("run_id", "trace_id") == run_id))
    branches = lake.branches().filter(pl.col("branch_id") == run_id)
    if runs.is_empty() and not receipts.collect().height and not branches.collect().height:
        raise LakeError(f"{lake.path}: no run {run_id!r}; accepted: a run_id of its events")
    return {*runs["run_id"].to_list(), run_id}


def _old_operations(lake: Lake, until: datetime | None) -> list[str]:
    """Return the handoffs whose newest receipt is earlier."""
    if until is None:
        return []
    newest = lake.receipts().group_by("operation_id").agg(pl.col("at").max())
    return sorted(newest.filter(pl.col("at") < until).collect()["operation_id"].to_list())


def _all_ids(lake: Lake, runs: Iterable[str]) -> list[str]:
    """Return the ids of runs with those of the traces that make them up."""
    named = run_names(lake.sessions().collect())
    own = named.filter(pl.col("named").is_in(list(runs)))["run_id"].to_list()
    traces = (
        lake.events()
        .filter(pl.col("run_id").is_in(list(runs)))
        .select(pl.col("trace_id").drop_nulls().unique())
        .collect()["trace_id"]
        .to_list()
    )
    return sorted({*runs, *own, *traces})


def _count(lake: Lake, ids: list[str]) -> dict[str, int]:
    gone = pl.col("run_id").is_in(ids)
    tables = {"events": lake.events(), "records": lake.records()}
    return {name: int(frame.filter(gone).select(pl.len()).collect().item()) for name, frame in tables.items()}


def _height(manifest: manifests.Manifest, table: str) -> int:
    entry = manifest.tables.get(table)
    return 0 if entry is None else entry.rows


def _in_place(folder: Path, labels: list[LabelPart]) -> int:
    """Put the parts of the label store in place and return how many labels went."""
    try:
        return sum(one.put_in_place() for one in labels)
    except OSError as error:
        raise LakeError(
            f"{folder}: deleted, but not all of its labels yet: {error.strerror}; accepted: the same command again"
        ) from None


def _prove(folder: Path, ids: list[str], names: list[str]) -> int:
    """Read every file of the folder; raise `LakeError` if one still names a deleted run, or its source."""
    checked = 0
    for path in sorted(folder.glob("**/*.parquet")):
        rows = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        for column, values in _naming(rows.collect_schema(), ids, names):
            left = rows.filter(pl.col(column).is_in(values)).select(pl.len()).collect().item()
            if left:
                raise LakeError(f"{path}: {left} rows still name a deleted run in {column}; run forget again")
        checked += 1
    made = manifests.load(folder)
    if made is None or not set(names).isdisjoint(made.sources):
        raise LakeError(
            f"{folder / manifests.MANIFEST}: still names the source of a deleted run; run forget again"
        )
    return checked


def _naming(schema: pl.Schema, ids: list[str], names: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the columns of a table that may name a run or a source, with what must not stand there."""
    for column in sorted(set(schema) & {*_OWN_COLUMNS, *_PARENT_COLUMNS}):
        yield column, ids
    if "source" in schema:
        yield "source", names
