"""One writer at a time: a lock on the lake's folder that ends with the process that holds it."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentlens.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK = ".lock"


@contextmanager
def locked(lake: Path) -> Iterator[None]:
    """Hold the lake's write lock. Readers need none: they keep to the files of one manifest.

    Raises
    ------
    LakeError
        Another process is writing, or the folder cannot be written.
    """
    try:
        stream = os.open(lake / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise LakeError(f"{lake}: the lake cannot be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(stream, 32).decode("ascii", "replace").strip()
            who = f"process {owner}" if owner.isdigit() else "another process"
            raise LakeError(f"{lake}: {who} is writing to this lake; try again when it is done") from None
        os.ftruncate(stream, 0)
        os.write(stream, str(os.getpid()).encode())
        yield
        os.ftruncate(stream, 0)
    finally:
        os.close(stream)
