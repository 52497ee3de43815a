"""What the verbs return: frames with documented schemas, writable and shown well in a notebook."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from agentlens.errors import InputError
from agentlens.in_place import in_place, together
from agentlens.model.verdict import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    import pyarrow.parquet as pq

ROW_GROUP = 100_000


def page_file(out: str | Path) -> Path:
    """Return where a page goes.

    Raises
    ------
    InputError
        When that is no name of a file, or a folder: whatever is put beside a page would lie beside the folder.

    Examples
    --------
    >>> page_file("out/report.html").name
    'report.html'
    """
    page = Path(out)
    if not page.name or page.is_dir():
        what = "is a folder" if str(out) else "no name is given"
        raise InputError.at(str(out) or "the page", what, accepted="a path of a file")
    return page


def write_table(frame: pl.DataFrame, path: Path, metadata: dict[str, str]) -> None:
    """Write one Parquet table with its metadata; the same frame gives the same bytes."""
    with in_place(path) as fresh:
        put_table(frame, fresh, metadata)


def put_table(frame: pl.DataFrame, fresh: Path, metadata: dict[str, str]) -> None:
    """Write a table under a name that `in_place` or `together` gave."""
    frame.write_parquet(fresh, compression="zstd", metadata=metadata)


def shown(name: str, frame: pl.DataFrame, rows: int = 10) -> str:
    """Return the first rows of a table as HTML, with how many there are; a table without rows is one line."""
    count = f"{frame.height:,} {'row' if frame.height == 1 else 'rows'}"
    if frame.is_empty():
        return f"<p><b>{name}</b>: no rows</p>"
    return f"<h4>{name} ({count})</h4>{frame.head(rows)._repr_html_()}"


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Named result tables. ``metadata`` goes into every file: rule, digests, versions, key id."""

    metadata: dict[str, str] = field(default_factory=dict)

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return every table by name."""
        return {
            f.name: value for f in fields(self) if isinstance(value := getattr(self, f.name), pl.DataFrame)
        }

    def write(self, folder: str | Path) -> list[Path]:
        """Write every table as ``<name>.parquet`` into the folder, which is made if it is not there: all or none."""
        out = Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        frames = {out / f"{name}.parquet": frame for name, frame in self.tables().items()}
        with together(frames) as fresh:
            for path, frame in frames.items():
                put_table(frame, fresh[path], self.metadata)
        return list(frames)

    @classmethod
    def concat(cls, parts: Iterable[Self]) -> Self:
        """Put together parts that hold disjoint runs; each table is sorted by its key again."""
        found = list(parts)
        kept: dict[str, Any] = {}
        for f in fields(found[0]):
            values = [getattr(part, f.name) for part in found]
            kept[f.name] = merged(values) if isinstance(values[0], pl.DataFrame) else values[-1]
        return cls(**kept)

    def _repr_html_(self) -> str:
        """Show the first rows of each table: what a notebook displays. Polars escapes what came from a trace."""
        return "".join(shown(name, frame) for name, frame in self.tables().items())


def merged(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Put the same table of several parts together, sorted by its key."""
    frame = pl.concat(frames)
    keys = [name for name in ("run_id", "agent", "seq", "onset_seq") if name in frame.columns]
    return frame.sort(keys, maintain_order=True) if keys and len(frames) > 1 else frame


class RowWriter:
    """Writes one Parquet table piece by piece; the file takes its name when it is whole.

    Set ``metadata`` before leaving the context. After an error nothing is left and an older file stays.
    """

    def __init__(self, path: Path, schema: pl.Schema) -> None:
        self.metadata: dict[str, str] = {}
        self._path = path
        self._fresh = path.with_name(f".{path.name}.new")
        self._schema = schema
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        """Open the file under another name."""
        import pyarrow.parquet as pq

        empty = self._plain(self._schema.to_frame())
        try:
            self._writer = pq.ParquetWriter(self._fresh, empty.schema, compression="zstd")
        except OSError:
            self._fresh.unlink(missing_ok=True)
            raise
        return self

    def add(self, frame: pl.DataFrame) -> None:
        """Append rows."""
        assert self._writer is not None, "the writer is not open"
        self._writer.write_table(self._plain(frame), row_group_size=ROW_GROUP)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish the file and give it its name; take it away after an error."""
        assert self._writer is not None, "the writer is not open"
        try:
            if kind is None:
                self._writer.add_key_value_metadata(self.metadata)
            self._writer.close()
            if kind is None:
                self._fresh.replace(self._path)
        finally:
            self._fresh.unlink(missing_ok=True)

    @staticmethod
    def _plain(frame: pl.DataFrame) -> Any:
        return frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def run_counts(runs: pl.DataFrame) -> pl.DataFrame:
    """Runs by final verdict, worst first: ``verdict, runs, alerts, stuck_events``."""
    return (
        runs.group_by("verdict")
        .agg(pl.len().cast(pl.Int64).alias("runs"), pl.col("alerts").sum(), pl.col("stuck_events").sum())
        .sort("runs", "verdict", descending=[True, False])
    )


def add_tallies(tallies: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Add up tallies (`Loops.tally`) of parts."""
    return (
        pl.concat(tallies).group_by("verdict", "reason").agg(pl.col("events").sum()).sort("verdict", "reason")
    )


@dataclass(frozen=True, kw_only=True)
class Loops(Tables):
    """Result of `agentlens.loops`: one row an action, an episode, a run (schemas in `agentlens.model.verdict`)."""

    verdicts: pl.DataFrame
    episodes: pl.DataFrame
    runs: pl.DataFrame

    def counts(self) -> pl.DataFrame:
        """Runs by final verdict, worst first: ``verdict, runs, alerts, stuck_events``."""
        return run_counts(self.runs)

    def tally(self) -> pl.DataFrame:
        """Actions by verdict and reason: ``verdict, reason, events``."""
        return add_tallies(
            [self.verdicts.group_by("verdict", "reason").agg(pl.len().cast(pl.Int64).alias("events"))]
        )


@dataclass(frozen=True, kw_only=True)
class LoopSums(Tables):
    """Result of `agentlens.loops` with ``out``: all but the verdicts, which are in ``folder``.

    ``tally`` counts the actions by verdict and reason (``verdict, reason, events``).
    """

    episodes: pl.DataFrame
    runs: pl.DataFrame
    tally: pl.DataFrame
    folder: Path | None = None

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return the tables that are held, by name."""
        return {"episodes": self.episodes, "runs": self.runs}

    def counts(self) -> pl.DataFrame:
        """Runs by final verdict, worst first: ``verdict, runs, alerts, stuck_events``."""
        return run_counts(self.runs)

    def verdicts(self) -> pl.LazyFrame:
        """Return the verdicts that were written, lazily; schema `agentlens.model.verdict.VERDICTS`."""
        if self.folder is None:
            return VERDICTS.to_frame().lazy()
        return pl.scan_parquet(self.folder / "verdicts.parquet", glob=False)


@dataclass(frozen=True, kw_only=True)
class Handoffs(Tables):
    """Result of `agentlens.handoffs`: attempts, operations, and claims of success against outcomes."""

    handoffs: pl.DataFrame
    operations: pl.DataFrame
    claims: pl.DataFrame
    cues: pl.DataFrame
    authors: pl.DataFrame


@dataclass(frozen=True, kw_only=True)
class Resets(Tables):
    """Result of `agentlens.resets`: branches with six gates, and what was found around them."""

    branches: pl.DataFrame
    state_keys: pl.DataFrame
    effects: pl.DataFrame
    funnel: pl.DataFrame
    families: pl.DataFrame
    unreceipted: pl.DataFrame
    repeated: pl.DataFrame
    comparison: pl.DataFrame
