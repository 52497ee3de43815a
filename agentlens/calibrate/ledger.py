"""The ledger of openings: every time a test split was looked at, kept beside the labels of the lake."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from agentlens.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LEDGER = "openings.ndjson"


def entries(folder: Path) -> list[dict[str, str]]:
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


def opening(folder: Path, entry: Mapping[str, str]) -> int:
    """Record that a test split is looked at, and say how many different looks it has had, this one counted.

    The same look (same split, labels, question and rule) is the same opening, however often it is repeated.

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
    return sum(one.get("test_split") == entry.get("test_split") for one in known)
