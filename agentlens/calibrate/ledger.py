"""The ledger of openings: every time a test split was looked at, kept beside the labels of the lake."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from agentlens.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

LEDGER = "openings.ndjson"


def run_marks(run_ids: Iterable[str]) -> list[str]:
    """Return short digests of run ids, sorted: what the ledger keeps of a test split.

    Examples
    --------
    >>> run_marks(["b", "a"]) == run_marks(["a", "b", "a"])
    True
    """
    names = {run.encode("utf-8", "surrogatepass") for run in run_ids}
    return sorted(hashlib.blake2b(name, digest_size=6).hexdigest() for name in names)


def entries(folder: Path) -> list[dict[str, Any]]:
    """Return the openings so far, oldest first.

    Raises
    ------
    LakeError
        When the ledger is damaged: then nobody knows how often the split was opened.
    """
    path = folder / LEDGER
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines if line]
    except (OSError, ValueError):
        raise LakeError(
            f"{path}: the ledger of openings cannot be read; accepted: it as it was written"
        ) from None
    return [entry for entry in found if isinstance(entry, dict)]


def opening(folder: Path, entry: Mapping[str, Any]) -> int:
    """Record that a test split is looked at, and say how many different looks its runs have had, this one counted.

    A split is known by its runs: a further label, a new split or another reading of the same export does not close
    what was opened. Every earlier look that saw one of ``entry["runs"]`` (`run_marks`) counts. The same look (same
    runs, labels, question and rule) is the same opening, however often it is repeated.

    Raises
    ------
    LakeError
        When the ledger cannot be read or written: then the split stays closed.
    """
    known = entries(folder)
    if dict(entry) not in known:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / LEDGER).open("a", encoding="utf-8") as file:
                file.write(json.dumps(dict(entry), sort_keys=True) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise LakeError(f"{folder}: the opening cannot be recorded: {error.strerror}") from None
        known.append(dict(entry))
    mine = set(entry.get("runs", ()))
    return sum(_saw(one, entry, mine) for one in known)


def _saw(one: Mapping[str, Any], entry: Mapping[str, Any], mine: set[str]) -> bool:
    """Whether a look saw runs of the split; one that was written without its runs is known by its split alone."""
    same = "test_split" in entry and one.get("test_split") == entry["test_split"]
    seen = one.get("runs")
    return same or (isinstance(seen, list) and not mine.isdisjoint(str(run) for run in seen))
