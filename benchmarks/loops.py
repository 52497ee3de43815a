"""Loop verdicts of a whole lake beside a hand-written kernel, a plain scan and the literal detector.

The kernel only computes ``L_p`` and ``V_p`` over known values, from columns that are in memory already; the scan only
reads the columns that the detector looks at. The engine does both and decides leases, retries, unknowns, reasons,
laps, suspicion, episodes and runs. A tenth of the runs has such facts, and one run a twentieth of all events.
``--scale 10`` is 100 million events in half a million runs. Lakes are kept in the temporary folder for the next time.
"""

from __future__ import annotations

import tempfile
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from agentlens.data import PART_ROWS
from agentlens.detect.columns import JUDGED
from agentlens.detect.loops import loops
from agentlens.detect.rules import laps
from agentlens.lake import Lake
from benchmarks._lake import kept
from benchmarks._measure import Row, Taken, alone, growing, once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType

EVENTS = 10_000_000
PERIODS = 3
LITERAL_RUNS = 4
TIMED_AGAIN = 20_000_000
"""Lakes of fewer events are measured three times."""


def run(scale: float = 1.0) -> Iterator[Row]:
    """Measure lakes of up to ``scale`` x 10 million events, and the writing of all verdicts of the largest."""
    literal = _literal(kept(int(EVENTS * scale / 16)))
    yield from growing(lambda times, events: _judging(times, int(events), literal), EVENTS * scale)
    largest = kept(int(EVENTS * scale))
    wrote = alone("benchmarks.loops:files", str(largest))
    yield wrote.row("lake to written verdicts", growth=16, events=wrote.told)


def _judging(times: int, events: int, literal: float | None) -> Row:
    lake = str(kept(events))
    repeats = 3 if events < TIMED_AGAIN else 1
    kernel, scan, taken = (
        alone(f"benchmarks.loops:{what}", lake, repeats=repeats) for what in ("kernel", "scan", "tables")
    )
    coded, codes = kernel.told["columns_s"], kernel.told["codes_s"]
    ratios = {
        "time / (NumPy kernel on the same columns + Parquet scan) (at most 2)": taken.seconds
        / (coded + scan.seconds),
        "time / (NumPy kernel on ready codes + Parquet scan)": taken.seconds / (codes + scan.seconds),
        "processor time / (NumPy kernel on the same columns + Parquet scan)": taken.cpu_s
        / (kernel.told["columns_cpu_s"] + scan.cpu_s),
    }
    if literal:
        ratios["events/s / those of the literal detector (at least 50)"] = (
            taken.told["events"] / taken.seconds / literal
        )
    seconds = {
        "NumPy kernel on the same columns, s": coded,
        "on ready codes, s": codes,
        "scan, s": scan.seconds,
    }
    return _row(taken, times, ratios, seconds)


def _row(taken: Taken, times: int, ratios: dict[str, float], seconds: dict[str, float]) -> Row:
    told = dict(taken.told)
    return taken.row(
        "lake to episodes and runs (peak at most 4,000 MB)",
        growth=times,
        events=told.pop("events"),
        bytes=told.pop("bytes"),
        ratios=ratios,
        told={**told, **seconds},
    )


def tables(path: str) -> Callable[[], dict[str, Any]]:
    """Judge a lake as ``agentlens loops`` does: verdicts of every event, episodes, runs."""
    from agentlens.api import loop_parts, rule_book
    from agentlens.data import open_data
    from agentlens.judging import gather
    from agentlens.model.select import Selection

    def work() -> dict[str, Any]:
        opened = open_data(path, Selection())
        found = gather(loop_parts(opened, rule_book(None)))
        entries = [bucket.events for bucket in Lake.open(path).manifest.buckets.values()]
        counted = dict(found.tally.group_by("verdict").agg(pl.col("events").sum()).sort("verdict").rows())
        return {
            "events": sum(entry.rows for entry in entries),
            "bytes": sum(entry.bytes for entry in entries),
            "runs": found.runs.height,
            "episodes": found.episodes.height,
            "verdicts": counted,
        }

    return work


def files(path: str) -> Callable[[], int]:
    """Judge a lake and write all tables, as ``agentlens loops --out`` does."""
    import agentlens

    def work() -> int:
        with tempfile.TemporaryDirectory() as folder:
            return int(agentlens.loops(path, out=folder).tally["events"].sum())

    return work


def scan(path: str) -> Callable[[], None]:
    """Read the columns that the detector looks at, as much at a time as it does."""

    def work() -> None:
        for _, part in Lake.open(path).parts(PART_ROWS):
            part.select(JUDGED).collect()

    return work


def kernel(path: str) -> Callable[[], dict[str, float]]:
    """Time the kernel on the four columns that it needs, with and without coding them; reading them is not counted."""

    def work() -> dict[str, float]:
        coded, codes = [0.0, 0.0], [0.0, 0.0]
        for _, part in Lake.open(path).parts(PART_ROWS):
            events = part.select("run_id", "agent", "action_signature", "progress_fingerprint").collect()
            clocks = [(time.perf_counter(), time.process_time())]
            made = _coded(events)
            clocks.append((time.perf_counter(), time.process_time()))
            lengths(*made)
            clocks.append((time.perf_counter(), time.process_time()))
            for which in (0, 1):
                coded[which] += clocks[2][which] - clocks[0][which]
                codes[which] += clocks[2][which] - clocks[1][which]
        return {
            "columns_s": coded[0],
            "columns_cpu_s": coded[1],
            "codes_s": codes[0],
            "codes_cpu_s": codes[1],
        }

    return work


def _coded(events: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Integer codes of signatures and fingerprints, and the first row of each row's lane."""
    x, f, run, agent = (
        events[name].cast(pl.Categorical).to_physical().fill_null(0).to_numpy()
        for name in ("action_signature", "progress_fingerprint", "run_id", "agent")
    )
    opens = np.flatnonzero(np.concatenate([[True], (run[1:] != run[:-1]) | (agent[1:] != agent[:-1])]))
    start = np.repeat(opens, np.diff(opens, append=events.height))
    return x, f, start


def lengths(x: np.ndarray, f: np.ndarray, start: np.ndarray) -> list[np.ndarray]:
    """``L_p`` and ``V_p`` for every period from cumulative maxima over known values."""
    row = np.arange(len(x))
    found = []
    for values in (x, f):
        for p in range(1, PERIODS + 1):
            cut = np.full(len(x), -1)
            cut[p:] = np.where(values[p:] != values[:-p], row[:-p], -1)
            np.maximum(cut, start - 1, out=cut)
            found.append(row - np.maximum.accumulate(cut))
    return found


def _literal(lake: Path) -> float | None:
    """Events a second of the literal detector of the tests on a few runs, if the tests are at hand; both must agree."""
    try:
        from tests.oracle import lanes, rules, verdicts
    except ImportError:
        return None
    _, part = next(Lake.open(lake).parts(PART_ROWS))
    runs = part.select("run_id").unique().sort("run_id").head(LITERAL_RUNS).collect()["run_id"]
    head = part.filter(pl.col("run_id").is_in(runs.to_list())).collect()
    events = [
        _plain(row, lanes)
        for row in head.with_columns(pl.col("at", "ended_at").to_physical()).iter_rows(named=True)
    ]
    told = []
    taken, _ = once(
        lambda: told.append(
            [
                f.verdict
                for lane in lanes.lanes(events).values()
                for f in verdicts.findings(lane, rules.laps())
            ]
        ),
    )
    if told[0] != loops(head.lazy(), laps()).collect()["verdict"].to_list():
        raise SystemExit("engine and literal detector disagree")
    return len(told[0]) / taken


def _plain(row: dict[str, Any], lanes: ModuleType) -> object:
    """One event as the literal detector takes it."""
    renamed = {"signature": "action_signature", "fingerprint": "progress_fingerprint"}
    facts = {name: row.get(renamed.get(name, name)) for name in lanes.Event.__dataclass_fields__}
    policy, lease = row["retry_policy"], row["lease"]
    facts["policy"] = policy and lanes.Policy(**{**policy, "errors": tuple(policy["errors"])})
    facts["lease"] = lease and lanes.Lease(
        **{**lease, "deadline": round(lease["deadline"].timestamp() * 1_000_000)}
    )
    return lanes.Event(**facts)
