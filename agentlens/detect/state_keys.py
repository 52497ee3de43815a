"""Which state must come back after a reset, and did it (SPEC section 5, gate 2)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from agentlens.errors import InputError, SettingsError
from agentlens.model.reset import STATE_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DRIFTING: Final = ("tool_registry",)
"""Keys whose acknowledged drift always passes."""

FAIL, UNKNOWN, DRIFT, EXACT = 0, 1, 2, 3
"""Status of one key, the worst first."""


@dataclass(frozen=True, kw_only=True)
class StateKeys:
    """State that must come back, written down before any run.

    The TOML file has a table ``[default]`` for every branch and ``[workflow.NAME]`` tables, each with
    ``required``; ``drift`` at the top names keys whose acknowledged drift passes, beside `DRIFTING`.

    Examples
    --------
    >>> StateKeys(required={"": ("workspace",)}, drift=("clock",)).drifting
    ('clock', 'tool_registry')
    """

    required: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    drift: tuple[str, ...] = ()

    @property
    def drifting(self) -> tuple[str, ...]:
        """Keys whose acknowledged drift passes."""
        return tuple(sorted({*DRIFTING, *self.drift}))

    @property
    def by_workflow(self) -> pl.LazyFrame:
        """Columns ``workflow`` and ``more``: the keys a workflow requires beside those of everyone."""
        rows = [(name, sorted(keys)) for name, keys in sorted(self.required.items()) if name]
        return pl.LazyFrame(rows, schema={"workflow": pl.String(), "more": pl.List(pl.String)}, orient="row")

    @classmethod
    def load(cls, path: Path) -> StateKeys:
        """Read the file.

        Raises
        ------
        InputError
            When it cannot be read or is no TOML.
        SettingsError
            For a table or value that is not accepted.
        """
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as wrong:
            raise InputError.at(
                str(path), f"cannot be read as TOML ({wrong})", accepted="a TOML file"
            ) from wrong
        known = {"default", "workflow", "drift"}
        for name in table:
            if name not in known:
                raise SettingsError.unknown(f"table in {path}", name, known)
        workflows = _table(table.get("workflow", {}), f"{path}: workflow")
        required = {name: _required(value, f"{path}: workflow.{name}") for name, value in workflows.items()}
        if "default" in table:
            required[""] = _required(table["default"], f"{path}: default")
        return cls(required=required, drift=_names(table.get("drift", []), f"{path}: drift"))


def _table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingsError.value(where, value, "a table")
    return value


def _required(value: object, where: str) -> tuple[str, ...]:
    table = _table(value, where)
    for name in table:
        if name != "required":
            raise SettingsError.unknown(f"setting in {where}", name, ["required"])
    return _names(table.get("required", []), f"{where}.required")


def _names(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise SettingsError.value(where, value, "a list of names")
    return tuple(value)


def _missing(digest: pl.Expr) -> pl.Expr:
    """No digest, or an empty one: neither is evidence."""
    return digest.fill_null("") == ""


def key_status(part: Callable[[str], pl.Expr], drifting: tuple[str, ...]) -> pl.Expr:
    """Status of one reported key; ``part`` gives its member of a name.

    Evidence before and a test after are both needed. `exact` must be borne out by equal digests.
    """
    result = part("result")
    tested = ~_missing(part("before")) & ~_missing(part("restored"))
    may_drift = part("key").is_in(drifting)
    return (
        pl.when(result.is_null())
        .then(UNKNOWN)
        .when(result.is_in(["partial", "failed"]) | ((result == "drift_acknowledged") & ~may_drift))
        .then(FAIL)
        .when(~tested)
        .then(UNKNOWN)
        .when(result == "drift_acknowledged")
        .then(DRIFT)
        .when(part("before") == part("restored"))
        .then(EXACT)
        .otherwise(FAIL)
        .cast(pl.Int8)
    )


def with_required(branches: pl.LazyFrame, keys: StateKeys) -> pl.LazyFrame:
    """Add ``required``: keys of the receipt and of the file, sorted where the file adds some; null where none."""
    everyone = list(keys.required.get("", ()))
    own = pl.col("required_state")
    if not keys.required:
        required = own
    else:
        branches = branches.join(keys.by_workflow, on="workflow", how="left")
        filed = pl.concat_list(
            own.fill_null(pl.lit([], dtype=pl.List(pl.String))),
            pl.lit(everyone, dtype=pl.List(pl.String)),
            pl.col("more").fill_null(pl.lit([], dtype=pl.List(pl.String))),
        )
        required = filed.list.unique().list.sort()
    found = branches.with_columns(required=pl.when(required.list.len() > 0).then(required))
    return found if not keys.required else found.drop("more")


def tested(keys: StateKeys) -> pl.Expr:
    """``tested``: each reported key with its status, a list of structs of ``key`` and ``status``."""
    element = pl.element().struct
    status = key_status(element.field, keys.drifting)
    return pl.col("state").list.eval(pl.struct(element.field("key"), status=status)).alias("tested")


def restored_in_order() -> pl.Expr:
    """Worst status of a receipt that reports exactly the keys it requires, in the same order; else null.

    Most receipts do, and need no look-up by key.
    """
    status = pl.col("tested").list.eval(pl.element().struct.field("status"))
    return pl.when(pl.col("required_state") == _reported()).then(status.list.min())


def restored(branches: pl.LazyFrame) -> pl.LazyFrame:
    """Add ``restore``: the worst status over the ``required`` keys, null where none is required or reported."""
    required = pl.col("required")
    # A key that is reported twice counts with the worse status: lists of the keys that reach each status.
    among = {
        level: required.list.set_intersection(_keys_where(_status() == level)).list.len() > 0
        for level in (FAIL, UNKNOWN, DRIFT)
    }
    absent = required.list.set_difference(_reported()).list.len() > 0
    return branches.with_columns(
        restore=pl.when(required.is_null() | pl.col("tested").is_null())
        .then(None)
        .when(among[FAIL])
        .then(FAIL)
        .when(absent | among[UNKNOWN])
        .then(UNKNOWN)
        .when(among[DRIFT])
        .then(DRIFT)
        .otherwise(EXACT)
        .cast(pl.Int8)
    )


def first_lost() -> pl.Expr:
    """The first required key that did not come back, else the first that is not reported."""
    required = pl.col("required")
    lost = required.list.set_intersection(_keys_where(_status() < DRIFT))
    return pl.coalesce(smallest(lost), smallest(required.list.set_difference(_reported())))


def smallest(names: pl.Expr) -> pl.Expr:
    """The smallest name of each list; `list.min` compares text many times slower."""
    return names.list.eval(pl.element().min()).list.first()


def _status() -> pl.Expr:
    return pl.element().struct.field("status")


def _reported() -> pl.Expr:
    return pl.col("tested").list.eval(pl.element().struct.field("key"))


def _keys_where(condition: pl.Expr) -> pl.Expr:
    return pl.col("tested").list.eval(pl.element().struct.field("key").filter(condition))


def state_key_rows(branches: pl.LazyFrame, keys: StateKeys) -> pl.LazyFrame:
    """One row a branch and key, required or reported (schema `STATE_KEYS`), sorted.

    ``branches`` has ``branch_id``, ``state`` and ``required``.
    """
    reported = (
        branches.select("branch_id", "state")
        .filter(pl.col("state").list.len() > 0)
        .explode("state", empty_as_null=False)
        .unnest("state")
    )
    required = (
        branches.select("branch_id", key="required")
        .drop_nulls()
        .explode("key", empty_as_null=False)
        .unique()
        .with_columns(required=pl.lit(True))
    )
    rows = reported.join(required, on=["branch_id", "key"], how="full", coalesce=True)
    status = key_status(pl.col, keys.drifting)
    return (
        rows.with_columns(code=status, required=pl.col("required").fill_null(value=False))
        .with_columns(
            status=pl.col("code").replace_strict(
                {FAIL: "fail", UNKNOWN: "unknown", DRIFT: "pass", EXACT: "pass"}, return_dtype=pl.String
            ),
            reason=_key_reason(keys.drifting),
        )
        .select(STATE_KEYS.names())
        .unique()
        .sort("branch_id", "key", "result", "before", "restored", nulls_last=True)
    )


def _key_reason(drifting: tuple[str, ...]) -> pl.Expr:
    """Why a key does not pass; null where it does, ``drift`` where only an acknowledged drift does."""
    result, code = pl.col("result"), pl.col("code")
    return (
        pl.when(code == EXACT)
        .then(None)
        .when(code == DRIFT)
        .then(pl.lit("drift"))
        .when(result.is_null())
        .then(pl.lit("no_evidence"))
        .when((result == "drift_acknowledged") & ~pl.col("key").is_in(drifting))
        .then(pl.lit("drift_not_allowed"))
        .when(result.is_in(["partial", "failed"]))
        .then(pl.lit("restore_") + result)
        .when(_missing(pl.col("before")))
        .then(pl.lit("no_evidence_before"))
        .when(_missing(pl.col("restored")))
        .then(pl.lit("no_test_after"))
        .otherwise(pl.lit("digests_differ"))
    )
