"""The label store of a lake: Parquet parts named by their content, added to and never edited."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from polars.exceptions import PolarsError

from agentlens.calibrate.labels import conform_labels, labels_digest
from agentlens.errors import LakeError
from agentlens.in_place import in_place
from agentlens.model.label import LABELS

if TYPE_CHECKING:
    from agentlens.lake import Lake


class LabelStore:
    """Labels beside the events they are about. Adding the same rows twice changes nothing."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    @classmethod
    def of(cls, lake: Lake) -> LabelStore:
        """Return the store of a lake; its folder is made by the first `add`."""
        return cls(lake.labels_folder)

    def add(self, labels: pl.DataFrame) -> Path | None:
        """Append rows (`LABELS`) as one part, whole or not at all; None where all of them are there already.

        Raises
        ------
        LakeError
            When the folder cannot be written.
        """
        new = conform_labels(labels).join(self.read(), on=list(LABELS), how="anti", nulls_equal=True).unique()
        if new.is_empty():
            return None
        new = new.sort(list(LABELS))
        path = self.folder / f"{labels_digest(new)}.parquet"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with in_place(path) as fresh:
                new.write_parquet(fresh, compression="zstd")
        except OSError as error:
            raise LakeError(f"{self.folder}: labels cannot be written: {error.strerror}") from None
        return path

    def read(self) -> pl.DataFrame:
        """Return every row of every part, sorted.

        Raises
        ------
        LakeError
            When a part is damaged or is not what its name says.
        """
        parts = [self._part(path) for path in sorted(self.folder.glob("*.parquet"))]
        return pl.concat([LABELS.to_frame(), *parts]).unique().sort(list(LABELS))

    def _part(self, path: Path) -> pl.DataFrame:
        try:
            part = pl.read_parquet(path).select(pl.col(name).cast(dtype) for name, dtype in LABELS.items())
        except (OSError, PolarsError):
            raise LakeError(f"{path}: this part of the label store cannot be read") from None
        if labels_digest(part) != path.stem:
            raise LakeError(f"{path}: this part of the label store was changed after it was written")
        return part
