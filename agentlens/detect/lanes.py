"""Lanes: the actions of each agent instance in order, with the row numbers that the cycle formulas stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from agentlens.errors import SchemaError, SettingsError
from agentlens.model.enums import Kind
from agentlens.model.event import ACTIONS, EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

ROW = pl.Int32
"""Type of row numbers: a frame of lanes holds fewer than 2**31 actions."""

LANE = ("run_id", "agent")

PIECE = 400_000
"""Rows that are judged at a time, more where one lane is longer."""

_Rows: TypeAlias = npt.NDArray[np.int32]
REQUIRED = ("run_id", "seq", "tool")
"""Columns without which nothing can be judged."""

COLUMNS = (
    "run_id",
    "agent",
    "seq",
    "at",
    "ended_at",
    "workflow",
    "tool",
    "external_input",
    "action_signature",
    "progress_fingerprint",
    "milestone",
    "error_class",
    "attempt",
    "retry_policy",
    "lease",
    "reachable",
    "hard_failure",
    "pause",
    "normaliser_version",
    "fingerprint_version",
    "key_id",
)
"""What the cycle formulas and what goes before them look at, beside ``kind``."""

_COMPARED = ("action_signature", "progress_fingerprint", "milestone", "external_input")


def conform(events: pl.LazyFrame, columns: Iterable[str]) -> pl.LazyFrame:
    """Select `columns` of the event table in its types; absent ones are null (``agent`` is "").

    Raises
    ------
    SchemaError
        When a required column is absent or a column cannot be of its type.
    """
    given = events.collect_schema()
    for name in REQUIRED:
        if name not in given:
            raise SchemaError(f"events: column {name!r} is missing; accepted: the columns of the event table")
    return events.select(_typed(name, given) for name in columns)


def _typed(name: str, given: pl.Schema) -> pl.Expr:
    wanted = EVENTS[name]
    if name not in given:
        absent: str | None = {"agent": "", "kind": str(Kind.TOOL)}.get(name)
        return pl.lit(absent, dtype=wanted).alias(name)
    column = pl.col(name)
    if isinstance(wanted, pl.Struct) and isinstance(given[name], pl.Struct) and given[name] != wanted:
        column = _struct(name, wanted, given[name])  # type: ignore[arg-type]
    elif given[name] != wanted:
        column = column.cast(wanted)
    return column.fill_null("") if name == "agent" else column


def _struct(name: str, wanted: pl.Struct, given: pl.Struct) -> pl.Expr:
    there = {field.name for field in given.fields}
    parts = [
        pl.col(name).struct.field(field.name).cast(field.dtype)
        if field.name in there
        else pl.lit(None, dtype=field.dtype).alias(field.name)
        for field in wanted.fields
    ]
    return pl.when(pl.col(name).is_not_null()).then(pl.struct(parts)).alias(name)


def in_lanes(events: pl.LazyFrame, actions: Sequence[str] = ACTIONS) -> pl.LazyFrame:
    """Actions in lane order with ``row`` (its number in the frame) and ``start`` (that of the first of its lane).

    Parameters
    ----------
    events
        The event table in any order; columns that are not there count as unknown.
    actions
        The kinds that take part in cycles.

    Returns
    -------
    LazyFrame sorted by run_id, agent, seq; ``row`` and ``start`` are Int32.

    Raises
    ------
    SettingsError
        When a kind is not known.
    """
    check_kinds(actions)
    taken = conform(events, (*COLUMNS, "kind")).filter(pl.col("kind").is_in(list(actions))).drop("kind")
    schema = {**{name: EVENTS[name] for name in COLUMNS}, "row": ROW(), "start": ROW()}
    return taken.map_batches(lambda frame: numbered(*ordered(frame)), schema=pl.Schema(schema))


def lane_by_lane(
    events: pl.LazyFrame,
    actions: Sequence[str],
    judge: Callable[[pl.DataFrame], pl.DataFrame],
    schema: pl.Schema,
) -> pl.LazyFrame:
    """Apply `judge` to the lanes of `in_lanes`, a few hundred thousand rows of whole lanes at a time.

    What `judge` computes on the way is as large as one such piece and stays in the processor's caches; only
    its result is as long as the input. It gets an eager frame and gives one of `schema`, in the same order.
    """
    check_kinds(actions)

    def pieces(frame: pl.DataFrame) -> pl.DataFrame:
        found = [judge(piece) for piece in _pieces(frame, tuple(actions))]
        return pl.concat(found, rechunk=False) if found else schema.to_frame()

    return conform(events, (*COLUMNS, "kind")).map_batches(pieces, schema=schema)


def check_kinds(actions: Sequence[str]) -> None:
    """Refuse kinds that are not known."""
    for kind in actions:
        if kind not in tuple(Kind):
            raise SettingsError.unknown("kind of action", kind, tuple(Kind))


def _pieces(frame: pl.DataFrame, actions: tuple[str, ...]) -> Iterator[pl.DataFrame]:
    """Cut a frame at lane boundaries, in lane order, and number the actions of each piece."""
    frame, starts = ordered(frame)
    begin = 0
    while begin < frame.height:
        after = int(np.searchsorted(starts, begin + PIECE))
        end = int(starts[after]) if after < len(starts) else frame.height
        piece = frame[begin:end]
        if not (taken := piece["kind"].is_in(list(actions))).all():
            piece = piece.filter(taken)
        piece = piece.drop("kind")
        if piece.height == end - begin:
            yield numbered(piece, starts[int(np.searchsorted(starts, begin)) : after] - begin)
        elif piece.height:
            yield numbered(piece, _starts(_opens(piece)))
        begin = end


def ordered(frame: pl.DataFrame) -> tuple[pl.DataFrame, _Rows]:
    """Order by lane and seq, and give the first row of each lane; sorting is skipped where it would change nothing."""
    opens = _opens(frame)
    if not _is_ordered(frame, opens):
        frame = frame.sort(*LANE, "seq", maintain_order=True)
        opens = _opens(frame)
    return frame, _starts(opens)


def _starts(opens: pl.Series) -> _Rows:
    return np.flatnonzero(opens.to_numpy()).astype(np.int32)


def numbered(frame: pl.DataFrame, starts: _Rows) -> pl.DataFrame:
    """Number the rows of an ordered frame, and name the first of each lane."""
    lengths = np.diff(starts, append=np.int32(frame.height))
    # Columns read from several files lie in as many pieces; those compared with themselves, shifted, lie in one.
    return frame.with_columns(
        *frame.select(_COMPARED).rechunk(),
        pl.int_range(frame.height, dtype=ROW, eager=True).alias("row"),
        pl.Series("start", np.repeat(starts, lengths), dtype=ROW),
    )


def _opens(frame: pl.DataFrame) -> pl.Series:
    """Whether a row is the first of a lane."""
    differs = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in LANE)
    return frame.select(differs | (pl.int_range(pl.len()) == 0)).to_series()


def _is_ordered(frame: pl.DataFrame, opens: pl.Series) -> bool:
    inside = frame.select((pl.col("seq").diff() >= 0).fill_null(True)).to_series() | opens
    if not inside.all():
        return False
    lanes = frame.select(LANE).filter(opens)
    run, agent = (pl.col(name) for name in LANE)
    later = (run > run.shift(1)) | ((run == run.shift(1)) & (agent > agent.shift(1)))
    return bool(lanes.select(later.fill_null(True).all()).item())


def reached(flag: pl.Expr) -> pl.Expr:
    """Number of the last row at or before each where `flag` holds, -1 before the first; lanes are not looked at."""
    return pl.when(flag).then(pl.col("row")).otherwise(pl.lit(-1, dtype=ROW)).cum_max()


def previous(name: str) -> pl.Expr:
    """Value of the row before in the same lane; null at its first."""
    return pl.when(pl.col("row") > pl.col("start")).then(pl.col(name).shift(1))
