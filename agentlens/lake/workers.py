"""Processes that read in parallel, and the same work in this process where there is little of it.

Each is a plain child process that takes tasks on its standard input and ends when that closes: it needs no
guard in the caller's script, shares no threads with it, and outlives it by at most one task.
"""

from __future__ import annotations

import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Protocol, Self, cast

from agentlens.errors import LakeError
from agentlens.lake.reading import Task, TaskRead, perform

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from agentlens.normalise.rows import Normaliser

_LENGTH = struct.Struct("<Q")
_SWITCH: Final = 0.0005
"""Seconds after which the reading thread lets others in. They only pass on what a child waits for; with Python's own
5 ms, at every one of their steps, children stand idle for a quarter of the time."""


def send(stream: IO[bytes], value: object) -> None:
    """Write one length-prefixed value to a process that this one started or was started by."""
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one value; raise EOFError where the other side has closed."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (size,) = _LENGTH.unpack(head)
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)  # noqa: S301 - written by our own child, never by an input


class Reading(Protocol):
    """Whatever performs tasks."""

    def run(self, tasks: Iterable[Task]) -> Iterator[TaskRead]:
        """Perform all tasks; results come in any order."""


class Here:
    """Performs tasks in this process, one after the other."""

    def __init__(self, normaliser: Normaliser) -> None:
        self._normaliser = normaliser

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def run(self, tasks: Iterable[Task]) -> Iterator[TaskRead]:
        """Perform all tasks in order."""
        for task in tasks:
            yield perform(task, self._normaliser)


class Processes:
    """Performs tasks in ``count`` processes: this one and children, which start while the caller still plans."""

    def __init__(self, count: int, normaliser: Normaliser) -> None:
        self._normaliser = normaliser
        self._children = [_start() for _ in range(count - 1)]
        self._switch = sys.getswitchinterval()

    def __enter__(self) -> Self:
        sys.setswitchinterval(min(self._switch, _SWITCH))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.setswitchinterval(self._switch)
        for child in self._children:
            if kind is not None:
                child.kill()
            _close(child)
        for child in self._children:
            child.wait()

    def run(self, tasks: Iterable[Task]) -> Iterator[TaskRead]:
        """Perform all tasks; results come as they are done.

        Raises
        ------
        LakeError
            A process ended early, for instance because memory ran out.
        """
        waiting = _Shared(tasks)
        done: queue.Queue[TaskRead | BaseException | None] = queue.Queue()
        for child in self._children:
            given = (child, self._normaliser, waiting, done)
            threading.Thread(target=_feed, args=given, daemon=True).start()
        running = len(self._children)
        own: Task | None = waiting.take()
        while running or own is not None:
            if own is not None:
                yield perform(own, self._normaliser)
                own = waiting.take()
            while running and (own is None or not done.empty()):
                result = done.get()
                if result is None:
                    running -= 1
                elif isinstance(result, BaseException):
                    raise result
                else:
                    yield result


class _Shared:
    """Tasks that several threads take from."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._tasks = iter(tasks)
        self._gate = threading.Lock()

    def take(self) -> Task | None:
        """Return the next task, None when there are no more."""
        with self._gate:
            return next(self._tasks, None)


def _feed(
    child: subprocess.Popen[bytes],
    normaliser: Normaliser,
    waiting: _Shared,
    done: queue.Queue[TaskRead | BaseException | None],
) -> None:
    """Give one child tasks until there are none; what it finds, or what went wrong, goes into ``done``."""
    try:
        send(cast("IO[bytes]", child.stdin), normaliser)
        while (task := waiting.take()) is not None:
            send(cast("IO[bytes]", child.stdin), task)
            done.put(receive(cast("IO[bytes]", child.stdout)))
    except (EOFError, OSError):
        done.put(_ended_early(child))
    except BaseException as error:  # noqa: BLE001 - raised again where the results are taken
        done.put(error)
    finally:
        done.put(None)


def _start() -> subprocess.Popen[bytes]:
    import agentlens

    root = str(Path(agentlens.__file__).resolve().parents[1])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    # One thread each: the processes are the parallelism, and memory stays small.
    env = os.environ | {"PYTHONPATH": path, "POLARS_MAX_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "agentlens.lake.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,
    )


def _close(child: subprocess.Popen[bytes]) -> None:
    for stream in (child.stdin, child.stdout):
        try:
            if stream is not None:
                stream.close()
        except OSError:  # it has ended already
            pass


def _ended_early(child: subprocess.Popen[bytes]) -> LakeError:
    code = child.wait()
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    return LakeError(
        f"a reading process ended early, {how}; nothing was changed; accepted: enough memory, or fewer --workers"
    )
