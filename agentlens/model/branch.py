"""Branch receipts: a run resumed from a checkpoint of its parent (SPEC section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from agentlens.model.event import TIME
from agentlens.model.native import (
    Typed,
    WrongValueError,
    count_unknown,
    flag,
    moment,
    named,
    part,
    parts,
    required,
    text,
    texts,
    warn_identifiers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentlens.model.raw import RawBranch

STATE_KEY = pl.Struct({"key": pl.String, "before": pl.String, "restored": pl.String, "result": pl.String})
EFFECT = pl.Struct(
    {"operation_id": pl.String, "kind": pl.String, "status": pl.String, "decision_id": pl.String}
)
AUTHORITY = pl.Struct({"operator": pl.String, "decision_id": pl.String, "approved": pl.Boolean})
CONFIG = pl.Struct(
    {
        "parent_digest": pl.String,
        "branch_digest": pl.String,
        "pinned": pl.Boolean,
        "delta": pl.List(pl.String),
    }
)
OUTCOME = pl.Struct({"receipt_id": pl.String, "verified": pl.Boolean})

BRANCHES = pl.Schema(
    {
        "branch_id": pl.String(),
        "parent_id": pl.String(),
        "at": TIME,
        "fork_point": pl.String(),
        "checkpoints": pl.List(pl.String),
        "local": pl.Boolean(),
        "required_state": pl.List(pl.String),
        "state": pl.List(STATE_KEY),
        "effects": pl.List(EFFECT),
        "edit_class": pl.String(),
        "authority": AUTHORITY,
        "config": CONFIG,
        "resumed": pl.Boolean(),
        "final_answer": pl.Boolean(),
        "outcome": OUTCOME,
        "inferred": pl.Boolean(),
        "rule": pl.String(),
        "order": pl.Int64(),
        "source": pl.String(),
    }
)
"""One row a branch receipt; of several for one branch the newest stands, then the last in its file.

``branch_id`` and ``parent_id`` are run ids. A null is a field the receipt does not have. ``order``: the line in
its file. ``inferred``: read out of a trace, by ``rule``.
"""

RESULTS: Final = ("exact", "partial", "drift_acknowledged", "failed")
STATUSES: Final = ("reverted", "reconciled", "pending", "irreversible")
LOW_RISK: Final = ("none", "detail", "simplify", "plan")
EDIT_CLASSES: Final = (*LOW_RISK, "recipients", "budget", "permissions", "production_target", "destructive")

_NATIVE: Final = frozenset(BRANCHES) - {"inferred", "rule", "order", "source"}


def branches_frame(raw: Iterable[RawBranch], *, source: str) -> Typed:
    """Typed branch receipts of one source (schema `BRANCHES`), in the order given.

    Only ``branch_id`` is required: a missing field makes a gate unknown, it does not make the record
    unreadable. A value of a wrong type sets the record aside. A result, status or edit class outside its
    vocabulary becomes null and is warned about, so that its gate is unknown. Fields outside the contract are
    dropped and counted.
    """
    typed = Typed(frame=pl.DataFrame(schema=BRANCHES))
    rows = []
    for record in raw:
        try:
            rows.append(_row(record.fields, typed, f"{source}:{record.position[0]}", record.position[0]))
        except WrongValueError as wrong:
            typed.faults.append((record.position[0], str(wrong)))
    integers = {name: pl.Int64() if dtype == TIME else dtype for name, dtype in BRANCHES.items()}
    typed.frame = pl.DataFrame(rows, schema=integers).cast({"at": TIME})
    return typed


def _row(fields: Mapping[str, Any], typed: Typed, source: str, order: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "branch_id": required(named(fields.get("branch_id"), "branch_id"), "branch_id"),
        "parent_id": named(fields.get("parent_id"), "parent_id"),
        "at": moment(fields.get("at"), "at"),
        "fork_point": named(fields.get("fork_point"), "fork_point"),
        "checkpoints": texts(fields.get("checkpoints"), "checkpoints"),
        "local": flag(fields.get("local"), "local"),
        "required_state": texts(fields.get("required_state"), "required_state"),
        "state": _list(fields, "state", STATE_KEY),
        "effects": _list(fields, "effects", EFFECT),
        "edit_class": text(fields.get("edit_class"), "edit_class"),
        "authority": _part(fields, "authority", AUTHORITY),
        "config": _part(fields, "config", CONFIG),
        "resumed": flag(fields.get("resumed"), "resumed"),
        "final_answer": flag(fields.get("final_answer"), "final_answer"),
        "outcome": _part(fields, "outcome", OUTCOME),
    }
    _count(fields, row, typed)
    _close("result", row["state"], RESULTS, typed)
    _close("status", row["effects"], STATUSES, typed)
    _close("edit_class", [row], EDIT_CLASSES, typed)
    return {**row, "inferred": False, "order": order, "source": source}


def _typed_part(value: Mapping[str, Any], name: str, shape: pl.Struct) -> dict[str, Any]:
    """Read the members of an object as its shape says; others are left out (and counted elsewhere)."""
    found: dict[str, Any] = {}
    for member in shape.fields:
        where, given = f"{name}.{member.name}", value.get(member.name)
        if member.dtype == pl.String:
            found[member.name] = text(given, where)
        elif member.dtype == pl.Boolean:
            found[member.name] = flag(given, where)
        else:
            found[member.name] = texts(given, where)
    return found


def _part(fields: Mapping[str, Any], name: str, shape: pl.Struct) -> dict[str, Any] | None:
    value = part(fields.get(name), name)
    return None if value is None else _typed_part(value, name, shape)


def _list(fields: Mapping[str, Any], name: str, shape: pl.Struct) -> list[dict[str, Any]] | None:
    values = parts(fields.get(name), name)
    if values is None:
        return None
    return [_typed_part(value, f"{name}[{at}]", shape) for at, value in enumerate(values)]


def _count(fields: Mapping[str, Any], row: Mapping[str, Any], typed: Typed) -> None:
    """Count dropped fields and odd identifiers, inside objects and lists too."""
    count_unknown(fields, _NATIVE, typed.unknown)
    warn_identifiers(row, typed.warned)
    for name, shape in (("authority", AUTHORITY), ("config", CONFIG), ("outcome", OUTCOME)):
        _count_in([fields.get(name)], name, shape, typed)
    _count_in(fields.get("state"), "state[]", STATE_KEY, typed)
    _count_in(fields.get("effects"), "effects[]", EFFECT, typed)


def _count_in(values: Any, name: str, shape: pl.Struct, typed: Typed) -> None:
    known = frozenset(member.name for member in shape.fields)
    for value in values or ():
        if isinstance(value, dict):
            count_unknown(value, known, typed.unknown, f"{name}.")
            warn_identifiers({f"{name}.{key}": value[key] for key in value if key in known}, typed.warned)


def _close(name: str, rows: list[dict[str, Any]] | None, accepted: tuple[str, ...], typed: Typed) -> None:
    """Null a value outside its vocabulary: what it means is not known."""
    for row in rows or ():
        if row[name] is not None and row[name] not in accepted:
            typed.warned[f"{name}: not one of {', '.join(accepted)}; read as not known"] += 1
            row[name] = None
