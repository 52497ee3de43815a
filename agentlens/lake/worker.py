"""The child process of `agentlens.lake.workers`: performs tasks until its standard input closes."""

from __future__ import annotations

import os
import signal
import sys

from agentlens.lake.reading import perform
from agentlens.lake.workers import receive, send


def main() -> None:
    """Take the normaliser, then one task after the other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt ends
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else may write between the results
    tasks = sys.stdin.buffer
    try:
        normaliser = receive(tasks)
        while True:
            send(results, perform(receive(tasks), normaliser))
    except (EOFError, BrokenPipeError, FileNotFoundError):
        os._exit(0)  # the parent is gone, and with it the folder of parts


if __name__ == "__main__":
    main()
