"""The shipped fleet as files: three real export formats, receipts, branches and labels."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from agentlens.datasets.branches import branches
from agentlens.datasets.fleet import RUNS, SEED, START_MS, WORLDS, fleet
from agentlens.datasets.handoffs import handoffs
from agentlens.datasets.records import native_events, stamp
from agentlens.datasets.write_claude import claude_files
from agentlens.datasets.write_otlp import otlp_lines

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from agentlens.datasets.fleet import Fleet

COLUMNS = (
    "run_id",
    "agent",
    "operation_id",
    "handoff_id",
    "scope",
    "onset_seq",
    "onset_hi_seq",
    "end_seq",
    "onset_at",
    "end_at",
    "observed_until",
    "label_version",
    "label",
    "kind",
    "source",
    "reviewer",
    "found_by",
    "task_group",
)
DAY_MS = 86_400_000

POLICIES = """\
# What the exports do not say, and the people who run the agents know. Read by: agentlens loops --policies FILE

[[wait]]
tool = "payment_state"
owner = "payment-provider"
waits_on = "reversal"
longest_wait_s = 1800

[[retry]]
tool = "quote_group"
errors = ["rate_limit"]
interval_s = 2.0
backoff_rate = 2.0
max_attempts = 5
"""

README = """\
# A made-up fleet with its truth

Nothing here was recorded from anyone: `agentlens.datasets.write_fleet` makes every byte of it from one seed, and a
test holds this folder to that.

- `claude-code/`: sessions of a coding agent on a harbour service, with sub-agents
- `otlp/`: spans of a ferry line's passenger desk, OTLP JSON lines with GenAI attributes, one file a day
- `native/`: events of a press office, with leases and retry policies; receipts of its handoffs; branches of its runs
- `labels.csv`: what was planted in each run and handoff; times everywhere, positions where the export has them
- `policies.toml`: a wait and a retry policy that two tools of the passenger desk have and no span says

Some of it is planted to be missed by the default rule (rounds of four to six steps, work that stalls without
repeating) and some to be a false alarm (a job that says only "running" until it is done).
"""


def fleet_files(*, seed: int = SEED, runs: int = RUNS, label_noise: float = 0.0) -> dict[str, bytes]:
    """Return the content of every file of a fleet by its path, the same bytes for the same arguments.

    ``claude-code/``: sessions and sub-agents; ``otlp/``: spans, one file a day; ``native/``: ``events.ndjson``,
    ``receipts.ndjson`` and ``branches.ndjson``; ``labels.csv``: SPEC section 8; ``policies.toml``: what the exports
    do not say. Positions (``onset_seq``) are given
    only for native runs: an export without a sequence of its own is labelled by time.
    """
    planted = fleet(seed=seed, runs=runs, label_noise=label_noise)
    passed = handoffs(seed=seed, start_ms=START_MS)
    press = [run for run in planted.runs if run.world == "press"]
    files: dict[str, Iterable[str]] = {}
    for run in planted.runs:
        if run.world == "code":
            files |= {f"claude-code/{path}": lines for path, lines in claude_files(run).items()}
    files |= _spans(planted)
    files["native/events.ndjson"] = [_json(row) for run in press for row in native_events(run)]
    files["native/receipts.ndjson"] = [_json(row) for row in passed.receipts]
    files["native/branches.ndjson"] = [_json(row) for row in branches(press[:18], seed=seed)]
    texts = {path: "".join(f"{line}\n" for line in lines) for path, lines in files.items()}
    texts["labels.csv"] = _labels(planted, passed.labels)
    texts |= {"README.md": README, "policies.toml": POLICIES}
    return {path: texts[path].encode() for path in sorted(texts)}


def write_fleet(folder: Path, seed: int = SEED, *, runs: int = RUNS, label_noise: float = 0.0) -> list[Path]:
    """Write a fleet below ``folder`` in real export formats; return the paths written, sorted.

    Raises
    ------
    SettingsError
        As `fleet` does.
    OSError
        When the folder cannot be written.
    """
    written = []
    for path, content in fleet_files(seed=seed, runs=runs, label_noise=label_noise).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        written.append(target)
    return written


def _spans(planted: Fleet) -> dict[str, list[str]]:
    files: dict[str, list[str]] = {}
    for run in planted.runs:
        if run.world == "desk":
            day = stamp(run.start_ms // DAY_MS * DAY_MS)[:10]
            files.setdefault(f"otlp/spans-{day}.jsonl", []).extend(otlp_lines(run))
    return files


def _labels(planted: Fleet, handed: list[dict[str, Any]]) -> str:
    world = {run.run_id: run.world for run in planted.runs}
    sequenced = {w.name for w in WORLDS if w.format == "native"}
    out = io.StringIO()
    sheet = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    sheet.writeheader()
    for row in planted.labels.iter_rows(named=True):
        if world[row["run_id"]] not in sequenced:
            row |= {"onset_seq": None, "end_seq": None}
        times = {name: _stamp(row[name]) for name in ("onset_at", "end_at")}
        sheet.writerow(row | times | {"label_version": "1"})
    for row in handed:
        sheet.writerow(row | {"label_version": "1"})
    return out.getvalue()


def _stamp(at: Any) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json(row: dict[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False)
