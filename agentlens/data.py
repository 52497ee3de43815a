"""Where an analysis takes its events from: a lake, an export read directly, or a frame."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from agentlens.errors import InputError, LakeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from agentlens.lake import Lake
    from agentlens.model.select import Selection
    from agentlens.normalise.rows import Normaliser
    from agentlens.readers.base import Report

Data: TypeAlias = "str | Path | Lake | Opened | pl.LazyFrame | pl.DataFrame"
"""What every analysis takes: a lake (or its folder), a trace export, or a frame of events."""


PART_ROWS = 400_000
"""Events of a lake that are looked at together: enough that a query costs little beside them."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """Data made ready.

    ``parts`` hold whole runs each; ``rows`` says how many each has at most, where that is known beforehand.
    ``report`` is set where a file was read directly.
    """

    parts: tuple[pl.LazyFrame, ...]
    rows: tuple[int, ...] = ()
    receipts: pl.LazyFrame | None = None
    branches: pl.LazyFrame | None = None
    lake: Lake | None = None
    report: Report | None = None

    def events(self) -> pl.LazyFrame:
        """Return all events as one lazy frame."""
        return pl.concat(each(self.parts))

    def versions(self) -> dict[str, str]:
        """Return the versions and the key id found on the events, comma-separated where there are several."""
        found = []
        for part in self.parts:
            kept = [name for name in VERSIONS if name in part.collect_schema().names()]
            found.append(versions_in(part.select(kept).collect()))
        return told_versions(found)


VERSIONS = ("normaliser_version", "fingerprint_version", "key_id")


def versions_in(events: pl.DataFrame) -> dict[str, set[str]]:
    """Return the versions and key ids of some events."""
    found: dict[str, set[str]] = {}
    for name in VERSIONS:
        if name in events.columns and events.height:
            column = events[name]
            same = column.eq_missing(column.head(1)).all()  # as nearly always, and cheaper than a set
            found[name] = set((column.head(1) if same else column.unique()).drop_nulls())
    return found


def told_versions(found: Iterable[Mapping[str, set[str]]]) -> dict[str, str]:
    """Put those of several parts together, comma-separated where there are several."""
    kept = list(found)
    every = {name: {value for one in kept for value in one.get(name, ())} for name in VERSIONS}
    return {name: ",".join(sorted(values)) for name, values in every.items()}


def is_there(path: str | Path) -> bool:
    """Whether a path exists; a text that no file system takes as a name (too long) names nothing."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def is_lake(path: Path) -> bool:
    """Whether a folder holds a lake's manifest.

    Raises
    ------
    LakeError
        It holds the files of a lake and no manifest.
    """
    if not path.is_dir():
        return False
    if (path / "manifest.json").is_file():
        return True
    from agentlens.lake.folder import CUT, is_cut

    if is_cut(path):
        raise LakeError(CUT.format(lake=path))
    return False


def open_data(
    data: Data,
    selection: Selection,
    *,
    normaliser: Normaliser | None = None,
    format: str | None = None,  # noqa: A002 - the word users type
    sql: str | Path | None = None,
) -> Opened:
    """Open a lake, read an export directly, or take a frame.

    Raises
    ------
    InputError
        If the path does not exist, or nothing in it can be read.
    LakeError
        If a lake is damaged or of another version.
    """
    from agentlens.lake import Lake, read_file

    if isinstance(data, Opened):
        return replace(data, parts=tuple(selection.apply(part) for part in data.parts))
    if isinstance(data, pl.DataFrame | pl.LazyFrame):
        _check_types(data.lazy())
        return Opened(parts=(selection.apply(data.lazy()),))
    if isinstance(data, str | Path):
        path = Path(data)
        if str(data) != "-" and not is_there(path):
            raise InputError.at(
                str(data), "no such file or folder", accepted="a lake's folder or a trace export"
            )
        if not is_lake(path):
            from agentlens.api import mapping

            events, receipts, branches, report = read_file(
                data, normaliser or default_normaliser(), format=format, sql=mapping(sql)
            )
            return Opened(
                parts=(selection.apply(events),), receipts=receipts, branches=branches, report=report
            )
        data = Lake.open(path)
    told = list(data.parts(PART_ROWS))
    return Opened(
        parts=tuple(selection.apply(part) for _, part in told),
        rows=tuple(rows for rows, _ in told),
        receipts=data.receipts(),
        branches=data.branches(),
        lake=data,
    )


def _check_types(events: pl.LazyFrame) -> None:
    """Refuse a frame with a column that can not be of the event table's type; the message names it."""
    from agentlens.errors import SchemaError
    from agentlens.model.event import EVENTS

    for name, given in events.collect_schema().items():
        wanted = EVENTS.get(name)
        if wanted is None or given == wanted or given.is_nested():
            continue
        try:
            events.select(pl.col(name).cast(wanted)).collect()
        except pl.exceptions.PolarsError:
            raise SchemaError(
                f"events: column {name!r} is {given} and holds values that are no {wanted}; accepted: {wanted}"
            ) from None


def default_normaliser() -> Normaliser:
    """Return the user's own key and the shipped tables; a key that had to be made is announced.

    Warns
    -----
    UserWarning
        When the key was made just now: digests of two keys can not be compared.
    """
    from agentlens.api import make_normaliser

    made = make_normaliser()
    if made.key.made:
        warnings.warn(f"a digest key was made ({made.key.origin}); keep it", UserWarning, stacklevel=3)
    return made


def action_kinds(text: str | Sequence[str]) -> tuple[str, ...]:
    """Read ``tool,handoff``; names are checked against the kinds there are."""
    from agentlens.errors import SettingsError
    from agentlens.model.enums import Kind

    names = [name.strip() for name in text.split(",")] if isinstance(text, str) else list(text)
    for name in names:
        if name not in list(Kind):
            raise SettingsError.unknown("action kind", name, [str(kind) for kind in Kind])
    return tuple(names)


def each(parts: Sequence[pl.LazyFrame]) -> Iterator[pl.LazyFrame]:
    """Go through the parts; one empty part where there are none, so that results keep their columns."""
    from agentlens.model.event import EVENTS

    yield from parts or [pl.LazyFrame(schema=EVENTS)]
