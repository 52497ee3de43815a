"""Label files: CSV, NDJSON or Parquet into `agentlens.model.label.LABELS`, every bad row named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from polars.exceptions import PolarsError

from agentlens.errors import InputError
from agentlens.model.label import LABELS, Origin, Scope, State
from agentlens.model.label import labels_digest as labels_digest  # noqa: PLC0414 - where it is looked for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

READERS = {".csv": "CSV", ".ndjson": "NDJSON", ".jsonl": "NDJSON", ".parquet": "Parquet"}
_REQUIRED = ("scope", "label")
_CLOSED = {"scope": tuple(Scope), "label": tuple(State), "source": tuple(Origin)}
_COUNTS = ("onset_seq", "onset_hi_seq", "end_seq")
_QUERIES = {
    "run_id": "SELECT DISTINCT run_id FROM events",
    "operation_id": "SELECT DISTINCT operation_id FROM receipts",
}
_TIMES = ("onset_at", "end_at", "observed_until")
SHOWN = 5
"""How many bad rows a message lists before it says how many more there are."""
LISTED = 50
"""How many runs or operations it lists."""
_LONGEST = 80


def read_labels(path: str | Path) -> pl.DataFrame:
    """Read a label file.

    Returns
    -------
    DataFrame
        `LABELS`, in the order of the file, equal rows once; ``source`` is ``human`` where the file has no such column.

    Raises
    ------
    InputError
        When the file cannot be read, has columns that are not known, or rows that cannot be labels; the
        message lists the rows.
    """
    where = Path(path)
    kind = READERS.get(where.suffix.lower())
    if kind is None:
        raise InputError.at(str(path), "the ending says no format of labels", accepted=", ".join(READERS))
    try:
        raw = _raw(where, kind)
    except (OSError, PolarsError) as error:
        what = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise InputError.at(
            str(path), f"cannot be read as {kind}: {what}", accepted=f"a {kind} file of labels"
        ) from None
    found = conform_labels(raw, str(path))
    if found.is_empty():
        raise InputError.at(
            str(path), "holds no label", accepted="a row a label below the names of the columns"
        )
    return found


def _raw(path: Path, kind: str) -> pl.DataFrame:
    if kind == "Parquet":
        return pl.read_parquet(path)
    if kind == "NDJSON":
        return pl.read_ndjson(path, infer_schema_length=None)
    return pl.read_csv(path, infer_schema=False)


def conform_labels(raw: pl.DataFrame, where: str = "labels") -> pl.DataFrame:
    """Bring a frame of labels into `LABELS` and check each row by itself.

    Raises
    ------
    InputError
        See `read_labels`; ``where`` goes in front of the message.
    """
    strange = sorted(set(raw.columns) - set(LABELS))
    if strange:
        raise InputError.at(
            where, f"unknown column {', '.join(map(repr, strange))}", accepted=", ".join(LABELS)
        )
    missing = [name for name in _REQUIRED if name not in raw.columns]
    if missing:
        raise InputError.at(where, f"no column {' and '.join(missing)}", accepted="run_id, scope, label, ...")
    nested = [name for name in raw.columns if raw.schema[name].is_nested()]
    if nested:
        raise InputError.at(
            where, f"{', '.join(nested)} holds objects or lists", accepted="plain text, numbers or times"
        )
    frame = raw.select(_typed(name, raw.schema.get(name)) for name in LABELS)
    _refuse(where, frame, _lost(raw, frame))
    # a handoff has no lane that an empty name could mean
    nameless = (pl.col("scope") == str(Scope.HANDOFF)) & (pl.col("agent") == "")
    frame = frame.with_columns(agent=pl.when(nameless.fill_null(value=False)).then(None).otherwise("agent"))
    if "source" not in raw.columns:
        frame = frame.with_columns(source=pl.lit(str(Origin.HUMAN)))
    frame = frame.with_columns(
        pl.col("source").fill_null(str(Origin.HUMAN)), pl.col("label_version").fill_null("1")
    )
    _refuse(where, frame, _faults())
    return frame.unique(maintain_order=True)


def _typed(name: str, given: pl.DataType | None) -> pl.Expr:
    wanted = LABELS[name]
    if given is None:
        return pl.lit(None, dtype=wanted).alias(name)
    column = pl.col(name)
    if given == pl.String():
        # an empty agent is the lane without a name; no agent is null, in CSV a field without quotes
        said = column.str.strip_chars()
        column = pl.when((said != "") | ((column == "") & (name == "agent"))).then(said)
        if name in _TIMES:
            # a shorter number in text is more likely a mistake than a second of 1970
            digits = pl.when(column.str.contains(r"^\d{9,11}(\.\d+)?$")).then(column)
            return _in_reach(pl.coalesce(_time(column), _epoch(digits))).alias(name)
    elif name in _TIMES:
        known = given.is_numeric() or given == pl.Date or isinstance(given, pl.Datetime)
        at = _epoch(column) if given.is_numeric() else column.cast(wanted, strict=False)
        return (_in_reach(at) if known else pl.lit(None, dtype=wanted)).alias(name)
    elif name in _COUNTS and given.is_float():
        column = pl.when(column == column.floor()).then(column)
    elif name in _COUNTS and not given.is_numeric():
        return pl.lit(None, dtype=wanted).alias(name)
    return column.cast(wanted, strict=False).alias(name)


def _epoch(seconds: pl.Expr) -> pl.Expr:
    """Epoch seconds, as in native records."""
    micros = (seconds.cast(pl.Float64, strict=False) * 1_000_000).round().cast(pl.Int64, strict=False)
    return micros.cast(LABELS["onset_at"])


def _in_reach(at: pl.Expr) -> pl.Expr:
    """Years of four digits: others can not be written down again."""
    return pl.when(at.dt.year().is_between(1, 9999)).then(at)


def _time(column: pl.Expr) -> pl.Expr:
    """RFC 3339; a time without a zone is UTC."""
    zoned = column.str.replace(r"^(\d{4}-\d\d-\d\d) ", "${1}T").str.replace(r"[zZ]$", "+00:00")
    zoned = pl.when(zoned.str.contains(r"[+-]\d\d:?\d\d$")).then(zoned).otherwise(zoned + "+00:00")
    return zoned.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%z", time_unit="us", time_zone="UTC", strict=False)


def _lost(raw: pl.DataFrame, frame: pl.DataFrame) -> Iterable[tuple[str, pl.Expr | pl.Series]]:
    """Values that were there and could not be read as their type."""
    for name in (*_COUNTS, *_TIMES):
        if name in raw.columns:
            given = raw[name].cast(pl.String, strict=False).fill_null("").str.strip_chars() != ""
            wanted = "whole number" if name in _COUNTS else "time (RFC 3339)"
            yield f"{name} is no {wanted}", given & frame[name].is_null()


def _faults() -> Iterable[tuple[str, pl.Expr]]:
    for name, values in _CLOSED.items():
        fault = ~pl.col(name).is_in([str(v) for v in values]).fill_null(False)
        yield f"{name} is none of {', '.join(values)}", fault
    yield from _misplaced()
    placed = pl.col("onset_seq").is_not_null() | pl.col("onset_at").is_not_null()
    yield "an interval needs onset_seq or onset_at", (pl.col("scope") == str(Scope.INTERVAL)) & ~placed
    yield "a step needs onset_seq", (pl.col("scope") == str(Scope.STEP)) & pl.col("onset_seq").is_null()
    unsure = pl.col("onset_hi_seq").is_not_null()
    yield "onset_hi_seq needs onset_seq", unsure & pl.col("onset_seq").is_null()
    yield "onset_hi_seq is before onset_seq", pl.col("onset_hi_seq") < pl.col("onset_seq")
    yield (
        "the end is before the onset",
        (pl.col("end_seq") < pl.max_horizontal("onset_seq", "onset_hi_seq"))
        | (pl.col("end_at") < pl.col("onset_at")),
    )
    yield "observed_until is before the onset", pl.col("observed_until") < pl.col("onset_at")


def _misplaced() -> Iterable[tuple[str, pl.Expr]]:
    """Columns that a scope needs, and those that would say something there that nobody reads."""
    scope, incident = pl.col("scope"), pl.col("label") == str(State.INCIDENT)
    handoff = scope == str(Scope.HANDOFF)
    yield "run_id is missing", ~handoff & pl.col("run_id").is_null()
    yield "operation_id is missing (scope handoff)", handoff & pl.col("operation_id").is_null()
    yield "scope handoff has no run_id or agent", handoff & _any("run_id", "agent")
    yield "operation_id and handoff_id need scope handoff", ~handoff & _any("operation_id", "handoff_id")
    ends = _any("end_seq", "end_at")
    stretch = _any("onset_seq", "onset_hi_seq", "onset_at") | ends
    yield "a handoff has no onset or end", handoff & stretch
    whole = (scope == str(Scope.RUN)) & ~incident
    yield "a run is healthy or excluded whole; a stretch of it is scope interval", whole & stretch
    yield "a step has no end; scope interval has", (scope == str(Scope.STEP)) & ends
    yield "onset_hi_seq is for incidents", ~incident & pl.col("onset_hi_seq").is_not_null()


def _any(*names: str) -> pl.Expr:
    return pl.any_horizontal(pl.col(name).is_not_null() for name in names)


def _refuse(where: str, frame: pl.DataFrame, faults: Iterable[tuple[str, pl.Expr | pl.Series]]) -> None:
    for what, fault in faults:
        bad = frame.with_row_index("_row", offset=1).filter(fault)
        if bad.height:
            rows = ", ".join(str(row) for row in bad["_row"].head(SHOWN).to_list())
            more = f" and {bad.height - SHOWN:,} more" if bad.height > SHOWN else ""
            raise InputError.at(where, f"row {rows}{more}: {what}", accepted="rows such as r1, run, healthy")


def listed(names: Sequence[str], limit: int = LISTED) -> str:
    r"""Name many on one line and say how many more there are; what a terminal would obey is written as an escape.

    Examples
    --------
    >>> listed(["a", "b\\n", "c"], 2)
    'a, b\\n and 1 more'
    >>> len(listed(["x" * 3000]))
    80
    """
    said = ", ".join(_visible(name) for name in names[:limit])
    return said + (f" and {len(names) - limit:,} more" if len(names) > limit else "")


def where_listed(names: Sequence[str], what: str) -> str:
    """What is accepted instead of ids that match nothing; where not all were named, how to see those that there are."""
    shown = f"; agentlens sql LAKE '{_QUERIES[what]}' --json lists them"
    return f"each {what} of the data" + (shown if len(names) > LISTED else "")


def _visible(name: str) -> str:
    """The name cut to a length one can read, what is not printable as its escape: ids are text of strangers."""
    short = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in short)
