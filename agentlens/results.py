"""What the verbs return: frames with documented schemas, writable and shown well in a notebook."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable


def write_table(frame: pl.DataFrame, path: Path, metadata: dict[str, str]) -> None:
    """Write one Parquet table with its metadata; the same frame gives the same bytes."""
    frame.write_parquet(path, compression="zstd", metadata=metadata)


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
        """Write every table as ``<name>.parquet`` into the folder, which is made if it is not there."""
        out = Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, frame in self.tables().items():
            write_table(frame, path := out / f"{name}.parquet", self.metadata)
            paths.append(path)
        return paths

    @classmethod
    def concat(cls, parts: Iterable[Self]) -> Self:
        """Put together parts that hold disjoint runs; each table is sorted by its key again."""
        found = list(parts)
        kept: dict[str, Any] = {}
        for f in fields(found[0]):
            values = [getattr(part, f.name) for part in found]
            kept[f.name] = _merged(values) if isinstance(values[0], pl.DataFrame) else values[-1]
        return cls(**kept)

    def _repr_html_(self) -> str:
        shown = []
        for name, frame in self.tables().items():
            shown.append(f"<h4>{name} ({frame.height:,} rows)</h4>{frame.head(10)._repr_html_()}")
        return "".join(shown)


def _merged(frames: list[pl.DataFrame]) -> pl.DataFrame:
    frame = pl.concat(frames)
    keys = [name for name in ("run_id", "agent", "seq", "onset_seq") if name in frame.columns]
    return frame.sort(keys, maintain_order=True) if keys and len(frames) > 1 else frame


@dataclass(frozen=True, kw_only=True)
class Loops(Tables):
    """Result of `agentlens.loops`: one row an action, an episode, a run (schemas in `agentlens.model.verdict`)."""

    verdicts: pl.DataFrame
    episodes: pl.DataFrame
    runs: pl.DataFrame

    def counts(self) -> pl.DataFrame:
        """Runs by final verdict, worst first: ``verdict, runs, alerts, stuck_events``."""
        return (
            self.runs.group_by("verdict")
            .agg(pl.len().cast(pl.Int64).alias("runs"), pl.col("alerts").sum(), pl.col("stuck_events").sum())
            .sort("runs", "verdict", descending=[True, False])
        )


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
