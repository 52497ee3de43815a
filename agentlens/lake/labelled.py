"""Labels of deleted runs and handoffs: taken out of the parts of a lake's label store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from agentlens.lake.forgotten import honoured
from agentlens.model.label import LABELS, labels_digest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class LabelPart:
    """One part of a label store with what is to stand in its place, None where nothing of it is left."""

    path: Path
    fresh: Path | None
    gone: int

    def put_in_place(self) -> int:
        """Let the new part stand for the old one; return how many labels went. It needs no room on the disk."""
        if self.fresh is not None:
            self.fresh.replace(self.path.with_name(self.fresh.name))
        if self.fresh is None or self.fresh.name != self.path.name:
            self.path.unlink()
        return self.gone


def label_parts(store: Path, marks: Collection[str], aside: Path) -> Iterator[LabelPart]:
    """Write the parts that name something deleted anew, into the folder ``aside``.

    ``marks``: digests of all that was ever deleted from the lake. A part is named by the digest of its labels.
    """
    for path in sorted(store.glob("**/*.parquet")):
        rows = pl.read_parquet(path, glob=False, hive_partitioning=False)
        kept = honoured(rows, "labels", marks)
        if kept.height == rows.height:
            continue
        fresh = None
        if kept.height:
            whole = set(LABELS) <= set(kept.columns)
            fresh = aside / (f"{labels_digest(kept)}.parquet" if whole else path.name)
            kept.write_parquet(fresh, compression="zstd")
        yield LabelPart(path=path, fresh=fresh, gone=rows.height - kept.height)
