"""Where an analysis takes its events from: a lake, an export read directly, or a frame."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from agentlens.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentlens.lake import Lake
    from agentlens.model.select import Selection
    from agentlens.normalise.rows import Normaliser
    from agentlens.readers.base import Report

Data: TypeAlias = "str | Path | Lake | Opened | pl.LazyFrame | pl.DataFrame"
"""What every analysis takes: a lake (or its folder), a trace export, or a frame of events."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """Data made ready. ``report`` is set where a file was read directly."""

    parts: tuple[pl.LazyFrame, ...]
    receipts: pl.LazyFrame | None = None
    branches: pl.LazyFrame | None = None
    lake: Lake | None = None
    report: Report | None = None

    def events(self) -> pl.LazyFrame:
        """Return all events as one lazy frame."""
        return pl.concat(each(self.parts))

    def versions(self) -> dict[str, str]:
        """Return the versions and the key id found on the events, comma-separated where there are several."""
        names = ("normaliser_version", "fingerprint_version", "key_id")
        found: dict[str, set[str]] = {name: set() for name in names}
        for part in self.parts:
            kept = [name for name in names if name in part.collect_schema().names()]
            for row in part.select(kept).unique().collect().iter_rows(named=True):
                for name, value in row.items():
                    if value is not None:
                        found[name].add(value)
        return {name: ",".join(sorted(values)) for name, values in found.items()}


def is_lake(path: Path) -> bool:
    """Whether a folder holds a lake's manifest."""
    return path.is_dir() and (path / "manifest.json").is_file()


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
        if str(data) != "-" and not path.exists():
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
    return Opened(
        parts=tuple(selection.apply(part) for part in data.buckets()),
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
