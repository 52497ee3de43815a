"""First and last time of each transition of each handoff, in one pass over the receipts.

A group of receipts is a place in an array here: that is several times faster than an aggregation per transition,
because each receipt is looked at once and most handoffs have one receipt of a kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Places = NDArray[np.int64]

NUMBER: Final = "number"
"""Number of a handoff: that of its first receipt, which is thereby found without a search."""

RANKS: Final = 16  # room for a rank beside a time in one integer
OUTCOMES: Final = 4  # and for an outcome

_VERIFIED: Final = 5  # rank of `outcome_verified`
_KINDS: Final = 9  # eight transitions, and those that are none

_NEVER: Final = np.iinfo(np.int64).min
_NOT_YET: Final = np.iinfo(np.int64).max

SEEN: Final = {
    "delegated": pl.Int64(),
    "accepted_first": pl.Int64(),
    "work_first": pl.Int64(),
    "completed_first": pl.Int64(),
    "verified_first": pl.Int64(),
    "closed": pl.Int64(),
    "completed_last": pl.Int64(),
    "sign": pl.Int64(),
    "newest": pl.Int64(),
    "newest_outcome": pl.Int64(),
    "unknown_event": pl.Boolean(),
    "untimed": pl.Boolean(),
    "inferred": pl.Boolean(),
    "unverifiable": pl.Boolean(),
    "expected_artifact": pl.String(),
    "trace_id": pl.String(),
    "artifact_other": pl.String(),
}
"""What is seen of a handoff.

``work_first``: the first of progress, waiting and completed. ``sign``: the last of accepted and progress. ``closed``:
the first of rejected and cancelled. ``newest``: time and rank of the newest receipt in one integer; ``newest_outcome``
likewise with the outcome. ``expected_artifact``, ``trace_id``: the smallest that a receipt names; ``artifact_other``:
the largest, where receipts do not all say the same.
"""

_FLAGS: Final = ("untimed", "inferred", "unverifiable")
_TEXTS: Final = ("expected_artifact", "trace_id")
_ASKED: Final = (NUMBER, "t", "rank", "outcome_code", *_FLAGS, *_TEXTS)


def with_seen(rows: pl.LazyFrame, kept: tuple[str, ...]) -> pl.LazyFrame:
    """One row a handoff, in the order of ``number``: columns ``kept`` of its first receipt, then `SEEN`.

    Parameters
    ----------
    rows
        All receipts in the order in which they are numbered: ``number`` (UInt32), ``t`` (Int64), ``rank`` (Int64,
        0 to 8 in the order of life, 8 for an unknown transition), ``outcome_code`` (Int64, looked at
        on a verification), ``untimed``, ``inferred``, ``unverifiable``, ``expected_artifact``, ``trace_id``.
    kept
        Columns of the first receipt; ``number`` is one of them.
    """
    types = rows.collect_schema()
    schema = pl.Schema({**{name: types[name] for name in kept}, **SEEN})
    asked = rows.select(*dict.fromkeys((*kept, *_ASKED)))
    return asked.map_batches(lambda frame: _seen(frame, kept), schema=schema, streamable=False)


def _seen(frame: pl.DataFrame, kept: tuple[str, ...]) -> pl.DataFrame:
    number = frame[NUMBER].to_numpy()
    is_head = number == np.arange(len(number), dtype=number.dtype)
    count = int(is_head.sum())
    place = np.empty(len(number), np.int64)
    place[is_head] = np.arange(count)
    place = place[number]
    heads = _with_texts(frame, frame.filter(pl.Series(is_head)).select(*kept, *_TEXTS))
    flags = [_any(frame[name], place, count) for name in _FLAGS]
    dated = frame["t"].is_not_null()
    if not dated.all():  # a receipt that stands nowhere has no part in first and last
        frame, place = frame.filter(dated), place[dated.to_numpy()]
    return heads.hstack([*_times(frame, place, count), *flags]).select(*kept, *SEEN)


def _with_texts(frame: pl.DataFrame, heads: pl.DataFrame) -> pl.DataFrame:
    """Texts are compared, which is slow, only where some receipt says other than the first."""
    number = frame[NUMBER]
    first = (pl.col(name).gather(NUMBER) for name in _TEXTS)
    differs = frame.select(pl.col(name).ne_missing(of) for name, of in zip(_TEXTS, first, strict=True))
    several = number.filter(differs[_TEXTS[0]] | differs[_TEXTS[1]]).unique()
    compared = frame.select(NUMBER, *_TEXTS).filter(number.is_in(several.implode())).group_by(NUMBER)
    least = compared.agg(pl.col(_TEXTS).min(), artifact_other=pl.col("expected_artifact").max())
    places = heads[NUMBER].search_sorted(least[NUMBER])
    blank = pl.Series("artifact_other", [None], dtype=pl.String).new_from_index(0, heads.height)
    told = heads.with_columns(blank)
    return told.with_columns(told[name].scatter(places, least[name]) for name in (*_TEXTS, "artifact_other"))


def _any(flag: pl.Series, place: Places, count: int) -> pl.Series:
    found = np.zeros(count, np.bool_)
    found[place[flag.fill_null(value=False).to_numpy()]] = True
    return pl.Series(flag.name, found)


def _times(frame: pl.DataFrame, place: Places, count: int) -> list[pl.Series]:
    t, rank = frame["t"].to_numpy(), frame["rank"].to_numpy()
    slot = place * _KINDS + rank
    first, last = np.full(count * _KINDS, _NOT_YET), np.full(count * _KINDS, _NEVER)
    np.minimum.at(first, slot, t)
    np.maximum.at(last, slot, t)
    newest, newest_outcome = np.full(count, _NEVER), np.full(count, _NEVER)
    np.maximum.at(newest, place, t * RANKS + rank)
    judged = (rank == _VERIFIED) & frame["outcome_code"].is_not_null().to_numpy()
    said = frame["outcome_code"].fill_null(0).to_numpy()[judged]
    np.maximum.at(newest_outcome, place[judged], t[judged] * OUTCOMES + said)
    delegated, accepted, progress, waiting, completed, verified, rejected, cancelled, _ = first.reshape(
        -1, _KINDS
    ).T
    of_last = last.reshape(-1, _KINDS).T
    found = {
        "delegated": delegated,
        "accepted_first": accepted,
        "work_first": np.minimum(np.minimum(progress, waiting), completed),
        "completed_first": completed,
        "verified_first": verified,
        "closed": np.minimum(rejected, cancelled),
        "completed_last": of_last[4],
        "sign": np.maximum(of_last[1], of_last[2]),
        "newest": newest,
        "newest_outcome": newest_outcome,
    }
    unknown = pl.Series("unknown_event", of_last[_KINDS - 1] != _NEVER)
    return [*(_known(name, times) for name, times in found.items()), unknown]


def _known(name: str, times: Places) -> pl.Series:
    """Nulls where nothing of the kind was received."""
    given = pl.Series(name, times)
    return given.set((given == _NOT_YET) | (given == _NEVER), None)
