"""Which run each run id as read belongs to, over all sources: a later file may bring a trace's session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from agentlens.lake.store import bucket_of, forgotten_mark
from agentlens.normalise.assemble import run_names

if TYPE_CHECKING:
    from collections.abc import Collection

SESSIONS = pl.Schema({"run_id": pl.String(), "session": pl.String(), "source_id": pl.String()})
"""One row a pair that a source names; ``run_id`` is as read (a trace id)."""

PLACES = pl.Schema({"run_id": pl.String(), "run": pl.String(), "bucket": pl.Int64()})
"""One row a run id as read: the run it belongs to, and that run's bucket."""


@dataclass(frozen=True)
class Names:
    """Sessions before and after a change."""

    before: pl.DataFrame
    after: pl.DataFrame

    def moved(self) -> pl.DataFrame:
        """Return ``(run_id, run)`` of run ids that belonged to another run before: ``run`` is that one."""
        old, new = run_names(self.before), run_names(self.after)
        both = old.join(new, on="run_id", how="full", coalesce=True, suffix="_new")
        was, becomes = pl.coalesce("named", "run_id"), pl.coalesce("named_new", "run_id")
        return both.filter(was != becomes).select("run_id", was.alias("run")).sort("run_id")

    def places(self, run_ids: pl.Series, buckets: int, forgotten: Collection[str]) -> pl.DataFrame:
        """Place run ids as read (schema `PLACES`); those of forgotten runs are left out."""
        ids = pl.DataFrame({"run_id": run_ids.unique().sort()}, schema={"run_id": pl.String})
        named = ids.join(run_names(self.after), on="run_id", how="left", maintain_order="left").select(
            "run_id", run=pl.coalesce("named", "run_id")
        )
        runs = named["run"].to_list()
        placed = named.with_columns(
            bucket=pl.Series([bucket_of(run, buckets) for run in runs], dtype=pl.Int64)
        )
        if not forgotten:
            return placed
        gone = set(forgotten)
        kept = [
            forgotten_mark(run) not in gone and forgotten_mark(read) not in gone
            for read, run in placed.select("run_id", "run").iter_rows()
        ]
        return placed.filter(pl.Series(kept, dtype=pl.Boolean))
