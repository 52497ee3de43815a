"""What every benchmark measures with: work in a process of its own, and rows that can be compared between commits."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GROWTH = (1, 4, 16)
"""Sizes at which growth is measured, as multiples of the smallest."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement.

    ``part``: what was measured. ``growth``: times the smallest size. ``seconds`` of wall time and ``cpu_s`` of
    processor time over all processes. ``peak_bytes``: most memory held. ``ratios``: this over something else of
    the same run, the target in its name. ``told``: what else is worth reading.
    """

    part: str
    seconds: float | None = None
    cpu_s: float | None = None
    growth: int = 1
    events: int | None = None
    bytes: int | None = None
    peak_bytes: int | None = None
    ratios: dict[str, float] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """Return what is stored: rates are worked out, what was not measured is left out."""
        rates = {
            "events_per_s": _rate(self.events, self.seconds),
            "mb_per_s": _rate(self.bytes, self.seconds, 1e6),
            "peak_mb": None if self.peak_bytes is None else self.peak_bytes / 1e6,
        }
        kept = {"part": self.part, "growth": self.growth, "events": self.events, "bytes": self.bytes}
        kept |= {"seconds": self.seconds, "cpu_s": self.cpu_s, **rates}
        kept |= {"ratios": self.ratios or None, "told": self.told or None}
        return {
            name: round(value, 6) if isinstance(value, float) else value
            for name, value in kept.items()
            if value is not None
        }


def _rate(amount: int | None, seconds: float | None, unit: float = 1.0) -> float | None:
    return None if amount is None or not seconds else amount / unit / seconds


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What work in a process of its own took: the middle of its repeats, the peak of all, and what the last gave."""

    seconds: float
    cpu_s: float
    peak_bytes: int
    told: Any = None

    def row(self, part: str, **facts: Any) -> Row:
        """Return it as a row."""
        return Row(part=part, seconds=self.seconds, cpu_s=self.cpu_s, peak_bytes=self.peak_bytes, **facts)


def alone(work: str, *arguments: Any, repeats: int = 1, family: bool = False) -> Taken:
    """Measure work in a fresh process, so that memory and caches are its own.

    Parameters
    ----------
    work
        ``module:function``. The function gets ``arguments`` (anything JSON can say), makes ready without being
        timed, and returns what is timed: a function without arguments that gives what JSON can say.
    repeats
        How often it is called; the median of wall times and that of processor times count. (The least would be
        steadier, but small sizes are repeated and large ones are not: growth would look worse than it is.)
    family
        Whether it starts processes whose memory counts; then the sum over all of them is watched (shared pages
        count in each), else the process is asked for its own peak.

    Raises
    ------
    RuntimeError
        When the process fails; the message is its last line.
    """
    command = [sys.executable, "-c", "from benchmarks import _measure; _measure.child()"]
    command += [work, json.dumps(arguments), str(repeats)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
    )
    watched = Peak(process.pid) if family else None
    out, err = process.communicate()
    summed = watched.stop() if watched else 0
    if process.returncode:
        said = err.strip().splitlines() or [f"ended with {process.returncode}"]
        raise RuntimeError(f"{work}: {said[-1]}")
    found = json.loads(out.splitlines()[-1])
    found["peak_bytes"] = max(summed, found["peak_bytes"])
    return Taken(**found)


def child() -> None:
    """Do the work named on the command line and say what it took; the other side of `alone`."""
    module, function = sys.argv[1].split(":")
    work = getattr(import_module(module), function)(*json.loads(sys.argv[2]))
    wall, busy, told = [], [], None
    for _ in range(int(sys.argv[3])):
        began, worked = time.perf_counter(), _busy()
        told = work()
        wall.append(time.perf_counter() - began)
        busy.append(_busy() - worked)
    middle = {"seconds": median(wall), "cpu_s": median(busy)}
    print(json.dumps({**middle, "peak_bytes": own_peak(), "told": told}))


def own_peak() -> int:
    """Return the most memory, in bytes, that this process has held.

    Where the system tells it of the process alone it is taken from there: ``ru_maxrss`` begins with what the process
    held that started this one.
    """
    try:
        told = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        told = ""
    held = next((line for line in told.splitlines() if line.startswith("VmHWM:")), "")
    return int(held.split()[1]) * 1024 if held else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _busy() -> float:
    """Processor seconds of this process and of children that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def once(work: Callable[[], object]) -> tuple[float, float]:
    """Wall time and processor time of work in this process, in seconds."""
    began, worked = time.perf_counter(), _busy()
    work()
    return time.perf_counter() - began, _busy() - worked


def growing(measure: Callable[[int, float], Row], full: float) -> Iterator[Row]:
    """Measure at 1x, 4x and 16x, where 16x is ``full``; each row says how much more it took than the smallest.

    The smallest is measured again after each of the others, and the mean of before and after is what they are
    compared with: the speed of a shared machine changes by a third within minutes.

    Parameters
    ----------
    measure
        Takes the multiple and the size, and gives one row.
    """
    small = full / GROWTH[-1]
    before = measure(GROWTH[0], small)
    yield before
    for times in GROWTH[1:]:
        row = measure(times, small * times)
        after = measure(GROWTH[0], small)
        row.ratios.update(_grown(row, (before, after)))
        yield row
        before = after


def _grown(row: Row, around: tuple[Row, Row]) -> dict[str, float]:
    what = {"time": "seconds", "processor time": "cpu_s", "peak memory": "peak_bytes"}
    found = {}
    for said, name in what.items():
        of, *to = (getattr(one, name) for one in (row, *around))
        if of and all(to):
            found[f"{said}, times that of 1x"] = of / mean(to)
    return found


def show(row: Row, *, first: bool) -> None:
    """Print one row with its ratios below it, the first below the names of the columns."""
    for cells in ([_HEADS] if first else []) + [_cells(row.facts())]:
        print("  " + cells[0].ljust(52) + " ".join(map(str.rjust, cells[1:], _WIDTHS)), flush=True)
    for name, value in (row.ratios | row.told).items():
        told = f"{value:,.3f}" if isinstance(value, float) else value
        print(f"      {name}: {told}", flush=True)


_HEADS = ("what", "size", "events", "seconds", "cpu s", "events/s", "MB/s", "peak MB")
_WIDTHS = (5, 12, 10, 10, 12, 8, 8)


def _cells(facts: dict[str, Any]) -> tuple[str, ...]:
    def cell(name: str, form: str) -> str:
        return format(facts[name], form) if name in facts else "–"

    return (
        facts["part"],
        f"{facts['growth']}x",
        *(cell("events", ","), cell("seconds", ",.3f"), cell("cpu_s", ",.3f")),
        *(cell("events_per_s", ",.0f"), cell("mb_per_s", ",.1f"), cell("peak_mb", ",.0f")),
    )


class Peak:
    """Watches the resident memory of a process and its children, summed (shared pages count in each)."""

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self.bytes = max(self.bytes, sum(map(resident, family(self._pid))))

    def stop(self) -> int:
        """Return the peak in bytes."""
        self._stop.set()
        self._thread.join()
        return self.bytes


def family(pid: int) -> list[int]:
    """Return a process and everything it started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(one for child in children for one in family(int(child)))]


def resident(pid: int) -> int:
    """Return the resident bytes of a process, 0 where it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0
