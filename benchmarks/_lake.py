"""A large lake, written straight in the lake's own layout: seeded runs of very different lengths, one of them huge.

What ingest would make of the same events, without records (no source is behind them) and without its time.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from agentlens.lake import manifest as manifests
from agentlens.lake.manifest import BucketEntry, Manifest
from agentlens.lake.store import write
from agentlens.model.event import EVENTS
from agentlens.model.record import RECORDS
from benchmarks import _fleet

EVENTS_A_RUN = 200
"""Mean length of a run; lengths are lognormal, as agents' are."""
SPREAD = 1.2
HUGE_SHARE = 0.05
"""Share of all events that one single run has."""
BUCKET_ROWS = 100_000


def kept(events: int) -> Path:
    """Return a lake of so many events in the temporary folder, made if it is not there from an earlier time."""
    path = Path(tempfile.gettempdir()) / "agentlens-benchmarks" / f"lake-{events}"
    if not (path / "manifest.json").exists():
        shutil.rmtree(path, ignore_errors=True)
        write_lake(path, events)
    return path


def write_lake(path: Path, events: int, seed: int = 7) -> None:
    """Write a lake of about ``events`` events; a run every `EVENTS_A_RUN` and one of a twentieth of all."""
    path.mkdir(parents=True)
    empty = write(path, "records/empty.parquet", pl.DataFrame(schema=RECORDS))
    buckets = max(4, 1 << (events // BUCKET_ROWS - 1).bit_length())
    entries = {}
    for number in range(buckets):
        rng = np.random.default_rng([seed, number])
        lengths = _lengths(rng, events / buckets * (1 - HUGE_SHARE))
        if number == buckets // 2:
            lengths = np.append(lengths, int(events * HUGE_SHARE))
        frame = _fleet.frame(rng, number * 1_000_000, lengths)
        missing = [pl.lit(None, dtype=t).alias(n) for n, t in EVENTS.items() if n not in frame.columns]
        whole = frame.with_columns(missing).select(list(EVENTS)).sort("run_id", "agent", "seq")
        entry = write(path, f"events/bucket={number:04}/part.parquet", whole)
        entries[number] = BucketEntry(records=empty, events=entry, runs=len(lengths))
    manifests.save(path, Manifest(generation=1, bucket_count=buckets, buckets=entries))


def _lengths(rng: np.random.Generator, events: float) -> np.ndarray:
    """Lengths of the runs of one bucket, about ``events`` together."""
    runs = max(1, round(events / EVENTS_A_RUN))
    drawn = rng.lognormal(np.log(EVENTS_A_RUN) - SPREAD**2 / 2, SPREAD, runs)
    return np.maximum(4, np.round(drawn * events / drawn.sum())).astype(np.int64)
