"""Two files of results beside each other: what became faster, what slower."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_SAID = ("seconds", "cpu_s", "events_per_s", "mb_per_s", "peak_mb")


def compare(before: Path, after: Path) -> list[tuple[str, str, float, float]]:
    """Return ``(measurement, what, before, after)`` for all that both files measured; the last of a kind counts."""
    old, new = _read(before), _read(after)
    found = []
    for key in old:
        if key in new:
            one, other = _numbers(old[key]), _numbers(new[key])
            name = f"{key[0]}, {key[1]}, {key[2]}x (scale {key[3]:g})"
            found += [(name, what, one[what], other[what]) for what in one if what in other]
    return found


def show(before: Path, after: Path) -> None:
    """Print them, each with after / before; ratios within one run are the ones to trust on a busy machine."""
    shown = None
    for name, what, old, new in compare(before, after):
        if name != shown:
            print(shown := name)
        times = f"{new / old:8.2f} times" if old else ""
        print(f"  {what:<60} {old:>16,.3f} {new:>16,.3f} {times}")
    if shown is None:
        print("nothing that both files measured at the same scale")


def _read(path: Path) -> dict[tuple[str, str, int, float], dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return {(row["benchmark"], row["part"], row["growth"], row["scale"]): row for row in rows}


def _numbers(row: dict[str, Any]) -> dict[str, float]:
    told = {**row.get("ratios", {}), **row.get("told", {})}
    plain = {name: row[name] for name in _SAID if name in row}
    return plain | {k: v for k, v in told.items() if isinstance(v, int | float) and not isinstance(v, bool)}
