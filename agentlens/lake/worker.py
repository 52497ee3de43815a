"""The child process of `agentlens.lake.workers`: performs tasks until its standard input closes."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from agentlens.errors import LakeError
from agentlens.lake.reading import perform
from agentlens.lake.workers import receive, send

if TYPE_CHECKING:
    from agentlens.lake.reading import Task, TaskRead
    from agentlens.normalise.rows import Normaliser


def main() -> None:
    """Take the normaliser, then one task after the other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt ends
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else may write between the results
    tasks = sys.stdin.buffer
    try:
        normaliser = receive(tasks)
        while True:
            send(results, _done(receive(tasks), normaliser))
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the parent is gone


def _done(task: Task, normaliser: Normaliser) -> TaskRead | LakeError:
    """Perform a task; a disk that is full or a fault of ours goes to the parent, which ends the ingest."""
    try:
        return perform(task, normaliser)
    except Exception as error:  # noqa: BLE001 - told, in one line, by whoever asked
        return LakeError(f"reading failed, nothing was changed: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
