"""What a report was made from, so that somebody else can make it again: versions, digests, openings, the command."""

from __future__ import annotations

import shlex
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

LIBRARIES: Final = ("polars", "numpy", "scipy", "altair", "vl-convert-python")
"""Distributions whose version can change a number or a picture of the page."""


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that numbers and pictures come from, as one line of a stamp."""
    return {"libraries": ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)}


def profile_stamp(profile: Mapping[str, Any] | None) -> dict[str, str]:
    """Return what a profile says of its making: plan, seed, splits, and how often its test split was looked at."""
    made = profile.get("made", {}) if profile else {}
    told = {"plan": "plan", "split seed": "seed", "splits": "splits"}
    stamp = {name: str(made[key]) for name, key in told.items() if made.get(key) is not None}
    if "test_openings" in made:
        kept = profile["profile"].get("test_split", True) if profile else True
        stamp["test split opened"] = str(made["test_openings"]) + ("" if kept else " (none was kept)")
    return stamp


def command(data: object, settings: Mapping[str, Any], verb: str = "report") -> str:
    """Return the command that makes the page again. Paths are named without their folders: those are of one machine.

    Parameters
    ----------
    data
        What was read: a path, or a frame, which no command can name.
    settings
        Options by name, as the verb's function takes them; None, False and empty ones are left out.

    Examples
    --------
    >>> command("/somewhere/lake", {"labels": "a b.csv", "base_rate": None, "reveal": True})
    "agentlens report lake --labels 'a b.csv' --reveal"
    """
    words = ["agentlens", verb, _word(data) if isinstance(data, str | Path) else "DATA"]
    for name, value in settings.items():
        if value is None or value is False or (isinstance(value, str) and not value):
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(_word(value))
    return shlex.join(words)


def _word(value: object) -> str:
    if isinstance(value, tuple | list):
        return ",".join(str(one) for one in value)
    if isinstance(value, Path) or (isinstance(value, str) and "://" not in value and Path(value).name):
        return Path(value).name
    return str(value) if isinstance(value, str | int | float) else "FILE"
