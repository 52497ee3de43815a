"""Decisions of reviewers as CSV: blank out, filled in back, every bad row named."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from agentlens.errors import InputError
from agentlens.model.label import State

if TYPE_CHECKING:
    from collections.abc import Mapping

DECISIONS: Final = ("incident", "healthy", "unsure")
COLUMNS: Final = (
    "item",
    "run_id",
    "agent",
    "decision",
    "onset_seq",
    "onset_hi_seq",
    "end_seq",
    "kind",
    "reviewer",
)
"""Columns of the CSV, out and back."""
_PLACES: Final = ("onset_seq", "onset_hi_seq", "end_seq")
_NUMBERS: Final = ("item", *_PLACES)
_FORMULA: Final = tuple("=+-@\t\r'")


def read_decisions(path: str | Path) -> pl.DataFrame:
    """Read one CSV of decisions (`COLUMNS`); rows without a decision are left out.

    Raises
    ------
    InputError
        When it cannot be read or a row is none; the message names the row.
    """
    where = Path(path)
    try:
        table = csv.DictReader(io.StringIO(where.read_text(encoding="utf-8-sig")))
        rows, heads = list(table), table.fieldnames or ()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError.at(str(path), f"cannot be read ({error})", accepted="a CSV of decisions") from None
    if missing := [name for name in COLUMNS if name not in heads]:
        raise InputError.at(f"{path}:1", f"no column {missing[0]}", accepted=", ".join(COLUMNS))
    found = []
    for number, row in enumerate(rows, 2):
        if missing := [name for name in COLUMNS if row[name] is None]:
            raise InputError.at(f"{path}:{number}", f"no column {missing[0]}", accepted=", ".join(COLUMNS))
        told = {name: from_cell(str(row[name]).strip()) for name in COLUMNS}
        if not told["decision"]:
            continue
        if told["decision"] not in DECISIONS:
            raise InputError.at(
                f"{path}:{number}", f"decision {told['decision']!r}", accepted=", ".join(DECISIONS)
            )
        if not told["reviewer"]:
            raise InputError.at(f"{path}:{number}", "no reviewer", accepted="a name or a pseudonym")
        found.append(_placed_row(told, f"{path}:{number}"))
    schema = {name: pl.Int64 if name in _NUMBERS else pl.String for name in COLUMNS}
    return pl.DataFrame(found, schema=schema)


def _placed_row(told: Mapping[str, str], where: str) -> dict[str, Any]:
    """Read the numbers of a decision; places are those of an incident, and in order."""
    numbers = {name: _number(told[name], where, name) for name in _NUMBERS}
    places = {name: numbers[name] for name in _PLACES}
    given = {name: place for name, place in places.items() if place is not None}
    if given and told["decision"] != str(State.INCIDENT):
        said = f"{next(iter(given))} beside the decision {told['decision']}"
        raise InputError.at(where, said, accepted="places of incidents")
    if given and "onset_seq" not in given:
        raise InputError.at(
            where, f"{next(iter(given))} without onset_seq", accepted="an onset, and what comes after it"
        )
    if list(given.values()) != sorted(given.values()):
        raise InputError.at(
            where,
            "places out of order",
            accepted="onset_seq, onset_hi_seq and end_seq, none below the one before",
        )
    return {**told, **numbers}


def _number(text: str, where: str, name: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise InputError.at(where, f"{name} {text!r}", accepted="a whole number from 0")
    return int(text)


def to_cell(text: str) -> str:
    """Text as a CSV cell that no spreadsheet takes for a formula.

    >>> to_cell("=1+1"), from_cell(to_cell("=1+1"))
    ("'=1+1", '=1+1')
    """
    return f"'{text}" if text.startswith(_FORMULA) else text


def from_cell(text: str) -> str:
    """Take back what `to_cell` added."""
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text


def blank(key: pl.DataFrame) -> str:
    """Return the CSV of a queue with every decision left open."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(COLUMNS)
    for item, run, agent in key.select("item", "run_id", "agent").iter_rows():
        writer.writerow([item, to_cell(run), to_cell(agent), *[""] * (len(COLUMNS) - 3)])
    return out.getvalue()
