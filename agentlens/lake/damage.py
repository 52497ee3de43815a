"""Why a lake could not be read to its end: asked only after reading has failed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from agentlens.errors import LakeError
from agentlens.lake.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Iterable


def damaged(lake: Path) -> str | None:
    """Return the path, inside the lake, of the first file that is not whole; None where all can be read.

    Every column of every file is read: sizes that are right do not tell that the bytes are (a copy in pieces leaves
    zeros where a piece is missing).
    """
    manifest = Lake.open(lake).manifest
    for path, entry in sorted(manifest.files().items()):
        try:
            rows = pl.read_parquet(lake / path, glob=False, hive_partitioning=False).height
        except (pl.exceptions.PolarsError, OSError):
            return path
        if rows != entry.rows:
            return path
    return None


def why(error: BaseException, places: Iterable[str]) -> str | None:
    """Say what of a lake made reading fail; None where none of the places is a lake that explains it."""
    gone = isinstance(error, FileNotFoundError)
    if not gone and not isinstance(error, pl.exceptions.PolarsError):
        return None
    for place in places:
        try:
            if gone and ".parquet" in str(error) and Lake.open(place):  # Polars cuts long paths
                return (
                    f"{place}: files went while they were read, by a deletion or two ingests; accepted: the same "
                    "command again"
                )
            found = None if gone else damaged(Path(place))
        except (LakeError, OSError, ValueError):
            continue
        if found is not None:
            return (
                f"{place}: {found} is damaged ({str(error).splitlines()[0]}); accepted: a lake copied with all its "
                "files, or one made again from its sources"
            )
    return None
