"""The lake's folder while it is written: made, locked, cleared of what killed ingests left."""

from __future__ import annotations

import re
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from agentlens.errors import LakeError
from agentlens.lake import manifest as manifests
from agentlens.lake.lock import LOCK, locked
from agentlens.lake.store import ASIDE, FOLDERS, sweep

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentlens.lake.manifest import Manifest

LABELS = "labels"
"""Folder of the label store inside a lake; ingest never touches it."""


@contextmanager
def opened(lake: Path) -> Iterator[Manifest | None]:
    """Hold the lake's lock, and leave no empty folder behind where nothing was read."""
    try:
        made = not lake.exists()
        lake.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LakeError(f"{lake}: cannot be made a lake: {error.strerror}") from None
    known = {LOCK, manifests.MANIFEST, f".{manifests.MANIFEST}.new", LABELS, *FOLDERS}
    if not made and not (lake / manifests.MANIFEST).exists():
        foreign = sorted(path.name for path in lake.iterdir() if not _ours(path.name, known))
        if foreign:
            raise LakeError(
                f"{lake}: holds {foreign[0]!r} and is no lake; accepted: a lake, or a new or empty folder"
            )
    try:
        with locked(lake):
            yield from _cleared(lake)
    except (OSError, pl.exceptions.ComputeError) as error:
        what = getattr(error, "strerror", None) or _plainly(str(error))
        raise LakeError(f"{lake}: writing failed, the lake is as it was: {what}") from None
    except MemoryError:
        raise LakeError(
            f"{lake}: memory ran out, the lake is as it was; accepted: more memory, or fewer --workers"
        ) from None
    except pl.exceptions.PanicException as error:  # no room for a thread of the engine, most often
        raise LakeError(f"{lake}: the engine stopped, the lake is as it was: {error}") from None
    finally:
        if made and not (lake / manifests.MANIFEST).exists():
            shutil.rmtree(lake, ignore_errors=True)


def _cleared(lake: Path) -> Iterator[Manifest | None]:
    """Clear what a killed ingest left, give the manifest, and leave no files behind where none came of it."""
    left = sorted(lake.glob(f"{ASIDE}*"))
    held = manifests.load(lake)
    if held is None:
        if is_cut(lake):
            raise LakeError(CUT.format(lake=lake))
        sweep(lake, None)
    for folder in left:
        shutil.rmtree(folder, ignore_errors=True)
    try:
        yield held
    finally:
        if held is None and not (lake / manifests.MANIFEST).exists():
            sweep(lake, None)


CUT = (
    "{lake}: holds files of a lake but no manifest.json, as a copy that was cut off does; accepted: a lake copied with "
    "all its files, or a new or empty folder"
)


def is_cut(lake: Path) -> bool:
    """Whether a folder without a manifest holds what may be left of a whole lake."""
    found = (
        path.relative_to(lake).as_posix() for name in FOLDERS for path in (lake / name).rglob("*.parquet")
    )
    return cut_off(found, killed=any(lake.glob(f"{ASIDE}*")))


def cut_off(paths: Iterable[str], *, killed: bool) -> bool:
    """Whether files, by their paths in a folder without a manifest, may be what is left of a whole lake.

    A first ingest that was ``killed`` leaves files too: all of the first generation, beside a folder of its parts.
    """
    generations = {found["generation"] for path in paths if (found := _STORED.fullmatch(path))}
    return bool(generations - {"000001"}) or (bool(generations) and not killed)


_STORED = re.compile(
    rf"(?:{'|'.join(FOLDERS)})/(?:bucket=\d{{4}}/)?g(?P<generation>\d{{6}})(?:\.parquet|/.+\.parquet)"
)
"""Files of a lake: as the local ingest names them, and as Spark does, in a folder a generation."""


def _plainly(text: str) -> str:
    """Say what the Parquet writer means when it cannot write on: it keeps the system's words to itself."""
    return f"no room on the disk, most likely ({text})" if "transport error" in text else text


def _ours(name: str, known: set[str]) -> bool:
    return name in known or name.startswith(ASIDE)


@contextmanager
def aside(lake: Path) -> Iterator[Path]:
    """Give a folder for parts, on the lake's own disk."""
    folder = Path(tempfile.mkdtemp(prefix=ASIDE, dir=lake))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
