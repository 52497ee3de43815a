"""Loop verdicts on ten million events against a hand-written kernel and the literal detector.

The kernel only computes ``L_p`` and ``V_p`` over known values; the engine also decides leases, retries,
unknowns, reasons, laps and suspicion. Both read the same frame in memory. Each runs in its own process, the
best of three counts.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from agentlens.detect.episodes import episodes
from agentlens.detect.loops import loops
from agentlens.detect.rules import laps
from agentlens.detect.runs import runs
from benchmarks import _fleet

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

PERIODS = 3
REPEATS = 3
LITERAL_RUNS = 2


def run(scale: float = 1.0) -> dict[str, object]:
    """Measure and give ratios: the engine over the kernel (at most 2) and over the literal detector (at least 50)."""
    path = Path(tempfile.gettempdir()) / "agentlens-benchmarks" / f"fleet-{scale:g}"
    if not path.exists():
        _fleet.write(path, scale)
    kernel, engine = _in_process("kernel", path), _in_process("engine", path)
    literal, buckets = _in_process("literal", path), _in_process("buckets", path)
    events = engine["events"]
    rate = events / engine["verdicts_s"]
    measured = {
        "events": f"{int(events):,}",
        "kernel, on integer codes, s": kernel["codes_s"],
        "kernel, on the same columns, s": kernel["columns_s"],
        "engine, full verdicts, s": engine["verdicts_s"],
        "engine, million events a second": rate / 1e6,
        "engine / kernel on codes (limit 2)": engine["verdicts_s"] / kernel["codes_s"],
        "engine / kernel on columns": engine["verdicts_s"] / kernel["columns_s"],
        "engine, from files to files, bucket by bucket, s": buckets["taken_s"],
        "processor time, engine / kernel on codes": engine["verdicts_busy_s"] / kernel["codes_busy_s"],
        "peak memory, bucket by bucket, GB (limit 4)": buckets["peak_gb"],
        "peak memory, all in memory at once, GB": engine["verdicts_peak_gb"],
        "verdicts": json.dumps(engine["tally"]),
    }
    if literal:
        measured["literal detector, events a second"] = literal["rate"]
        measured["engine / literal rate (at least 50)"] = rate / literal["rate"]
    return measured


def _in_process(what: str, path: Path) -> dict[str, float]:
    """Run one part in a fresh process, so that memory and caches are its own."""
    code = f"import sys; from benchmarks.loops import {what} as part; part(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def _best(work: Callable[[], object]) -> tuple[float, float]:
    """Least wall time and least processor time of a few repeats, in seconds."""
    wall, busy = [], []
    for _ in range(REPEATS):
        began, began_busy = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - began)
        busy.append(time.process_time() - began_busy)
    return min(wall), min(busy)


def _peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def engine(path: str) -> None:
    """Time the full verdicts, then episodes and runs."""
    events = pl.read_parquet(Path(path) / "*.parquet")
    taken, busy = _best(lambda: loops(events.lazy(), laps()).collect())
    verdicts_peak = _peak_gb()
    verdicts = loops(events.lazy(), laps()).collect()
    tally = verdicts.group_by("verdict").len().sort("verdict").rows()
    print(
        json.dumps(
            {
                "events": events.height,
                "verdicts_s": taken,
                "verdicts_busy_s": busy,
                "verdicts_peak_gb": verdicts_peak,
                "tally": dict(tally),
            }
        )
    )


def buckets(path: str) -> None:
    """Time verdicts, episodes and runs as the command works: one bucket of whole runs after the other, to files."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        for number, file in enumerate(sorted(Path(path).glob("*.parquet"))):
            verdicts = loops(pl.scan_parquet(file), laps()).collect()
            found = episodes(pl.scan_parquet(file), verdicts.lazy(), laps()).collect()
            summed = runs(pl.scan_parquet(file), verdicts.lazy(), found.lazy()).collect()
            for name, table in (("verdicts", verdicts), ("episodes", found), ("runs", summed)):
                table.write_parquet(Path(out) / f"{name}-{number}.parquet")
    print(json.dumps({"taken_s": time.perf_counter() - began, "peak_gb": _peak_gb()}))


def kernel(path: str) -> None:
    """Time the kernel on integer codes, and with the coding of the columns it needs."""
    columns = ["run_id", "agent", "action_signature", "progress_fingerprint"]
    events = pl.read_parquet(Path(path) / "*.parquet", columns=columns)
    x, f, start = _coded(events)
    codes, codes_busy = _best(lambda: lengths(x, f, start))
    whole, _ = _best(lambda: lengths(*_coded(events)))
    print(json.dumps({"codes_s": codes, "codes_busy_s": codes_busy, "columns_s": whole}))


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


def literal(path: str) -> None:
    """Time the literal detector of the tests on the first runs, where the tests are at hand; check that both agree."""
    try:
        from tests.oracle import lanes, rules, verdicts
    except ImportError:
        print("{}")
        return
    head = (
        pl.scan_parquet(Path(path) / "*.parquet")
        .filter(pl.col("run_id").str.slice(4, 8).str.to_integer() < LITERAL_RUNS)
        .collect()
    )
    events = [
        _plain(row, lanes) for row in head.with_columns(pl.col("at").to_physical()).iter_rows(named=True)
    ]
    began = time.perf_counter()
    found = [
        f.verdict for lane in lanes.lanes(events).values() for f in verdicts.findings(lane, rules.laps())
    ]
    taken = time.perf_counter() - began
    if found != loops(head.lazy(), laps()).collect()["verdict"].to_list():
        raise SystemExit("engine and literal detector disagree")
    print(json.dumps({"rate": len(found) / taken}))


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
