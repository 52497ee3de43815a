"""A file takes its name when it is whole: whatever ends the writing, an older one stays until then."""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


@contextmanager
def in_place(path: Path) -> Iterator[Path]:
    """Give the name to write under; what stands there at the end takes the place of ``path`` in one step.

    A link stays a link to the new file. What is no file (a pipe, ``/dev/stdout``) is written as it is.

    Raises
    ------
    OSError
        It cannot be written, whichever library found out; nothing is left of the attempt.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> page = pathlib.Path(tempfile.mkdtemp(), "page.html")
    >>> with in_place(page) as fresh:
    ...     written = fresh.write_text("whole")
    >>> [file.name for file in page.parent.iterdir()]
    ['page.html']
    """
    if path.exists() and not path.is_file():
        yield path
        return
    target = path.resolve()
    fresh = target.with_name(f".{target.name}.new")
    try:
        yield fresh
        _durable(fresh)
        fresh.replace(target)
    except pl.exceptions.ComputeError as error:  # how Polars tells of a disk that is full
        raise OSError(errno.EIO, f"writing failed: {error}", str(path)) from None
    finally:
        fresh.unlink(missing_ok=True)


@contextmanager
def together(paths: Iterable[Path]) -> Iterator[dict[Path, Path]]:
    """Give names to write several files under; once all of them are written they take their places, the first last.

    Raises
    ------
    OSError
        One cannot be written: older ones stay, all of them, and nothing is left of the attempt.
    """
    with ExitStack() as held:
        yield {path: held.enter_context(in_place(path)) for path in paths}


def write_text(path: Path, text: str) -> None:
    """Write one text file in UTF-8, whole or not at all; see `in_place`."""
    with in_place(path) as fresh:
        put_text(fresh, text)


def put_text(fresh: Path, text: str) -> None:
    """Write text in UTF-8 under a name that `in_place` or `together` gave."""
    fresh.write_text(text, encoding="utf-8", newline="\n")


def _durable(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
