"""Episodes: maximal stretches of one lane under one loop; their first stuck event is the alert (SPEC section 3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from agentlens.detect import cycles
from agentlens.detect.lanes import LANE, conform, numbered, ordered
from agentlens.detect.profile_rules import RuleBook
from agentlens.detect.symbols import codes_of
from agentlens.model.enums import Kind, Outcome, Verdict
from agentlens.model.verdict import EPISODES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.detect.rules import Rule
    from agentlens.detect.symbols import Codes

NANO = 1_000_000_000
"""Cost is summed as integer nano-dollars, so that the order of addition does not matter."""

_KEY = (*LANE, "seq")
FACTS = (
    *_KEY,
    *("kind", "at", "ended_at", "workflow", "tool", "external_input", "milestone", "outcome"),
    *("action_signature", "progress_fingerprint", "normaliser_version", "fingerprint_version", "key_id"),
    *("tokens_in", "tokens_out", "cost_usd"),
)
_VERSIONS = ("normaliser_version", "key_id")
_Int = npt.NDArray[np.int64]


def episodes(events: pl.LazyFrame, verdicts: pl.LazyFrame, rule: Rule | RuleBook) -> pl.LazyFrame:
    """Join stuck events into episodes.

    Parameters
    ----------
    events
        The event table, all kinds: tokens and cost of model calls inside an episode count, and an event of
        kind ``verdict`` with outcome ``passed`` in the same lane closes it.
    verdicts
        What `agentlens.detect.loops.loops` gave for these events under `rule`.
    rule
        The same rule or book.

    Returns
    -------
    LazyFrame
        `agentlens.model.verdict.EPISODES`, sorted by run_id, agent, alert_seq. An episode runs from the first
        event of its first lap to the event that closes it (the lane's last action while it is open).
        ``closed_by`` is ``evidence`` (a known fingerprint that is none of those of the loop's laps),
        ``milestone``, ``outcome``, ``other_loop`` (the alert of another loop), or null. ``laps`` is the count
        at the last stuck event; ``tools``, ``lap_signatures`` and ``lap_fingerprints`` are the lap at the
        alert. ``tokens`` and ``cost_usd`` are null where no event inside says any.
    """
    find = partial(_find, verdicts=verdicts.select(*_KEY, "verdict", "period"), book=RuleBook.of(rule))
    return conform(events, FACTS).map_batches(find, schema=EPISODES)


def _find(events: pl.DataFrame, *, verdicts: pl.LazyFrame, book: RuleBook) -> pl.DataFrame:
    """Find the episodes; lanes are matched one by one, so that their rows need not be."""
    judged, judged_lane, names = _numbered_lanes(verdicts.collect(engine="in-memory"))
    facts, facts_lane, others = _numbered_lanes(events)
    stuck = np.zeros(names.height, dtype=bool)
    stuck[judged_lane[judged["verdict"].eq(str(Verdict.STUCK_LOOP)).to_numpy()]] = True
    both = others.join(names.filter(pl.Series(stuck)), on=LANE, suffix="_judged").sort("_lane")
    told = _of_lanes(facts, facts_lane, both["_lane"], others.height)
    mine = _of_lanes(judged, judged_lane, both["_lane_judged"], names.height)
    keys = ["_lane", "seq"]
    found = told.lazy().select(keys).join(mine.lazy(), on=keys, how="left", maintain_order="left")
    if (matched := found.collect(engine="in-memory")).height != told.height:  # the same seq twice in a lane
        once = mine.lazy().unique(keys, keep="first", maintain_order=True)
        matched = told.lazy().select(keys).join(once, on=keys, how="left", maintain_order="left").collect()
    return _walk(told.with_columns(matched["verdict"], matched["period"]), book)


def _numbered_lanes(frame: pl.DataFrame) -> tuple[pl.DataFrame, _Int, pl.DataFrame]:
    """Rows in order, the number of each row's lane, and the lanes by number (``run_id, agent, _lane``)."""
    frame, starts = ordered(frame)
    lanes = frame.select(LANE)[starts.tolist()].with_row_index("_lane")
    counts = np.diff(starts, append=np.int32(frame.height))
    return frame, np.repeat(np.arange(len(starts)), counts), lanes


def _of_lanes(frame: pl.DataFrame, lane: _Int, chosen: pl.Series, lanes: int) -> pl.DataFrame:
    """Rows of the chosen lanes, ``_lane`` numbered in the order of `chosen`."""
    number = np.full(lanes, -1)
    number[chosen.to_numpy()] = np.arange(len(chosen))
    mine = number[lane]
    kept = mine >= 0
    return frame.filter(pl.Series(kept)).with_columns(pl.Series("_lane", mine[kept]))


def _stretches(actions: pl.DataFrame, starts: Codes, book: RuleBook) -> _Int:
    """Length of the loop's stretch of every judged event of these lanes, 0 where it has none."""
    lanes = numbered(actions, starts).lazy().with_columns(book.number().alias("_rule"))
    found = np.zeros(actions.height, dtype=np.int64)
    for number, rule in enumerate(book.rules):
        length = pl.coalesce(
            pl.when(pl.col("period") == p).then(pl.col(f"S_{p}")) for p in range(1, rule.max_period + 1)
        )
        mine = cycles.with_lengths(lanes, rule, versions=True).filter(pl.col("_rule") == number)
        told = mine.select("row", length.alias("stretch")).drop_nulls().collect(engine="in-memory")
        found[told["row"].to_numpy()] = told["stretch"].to_numpy()
    return found


@dataclass
class _Episode:
    """One episode while it is walked: positions of actions, but ``end``, a row of the walked frame.

    ``noted`` is the span of actions of the lane whose fingerprints are in ``seen`` already.
    """

    period: int
    onset: int
    alert: int
    lap: range
    end: int
    last_stuck: int
    noted: tuple[int, int]
    closed_by: str | None = None
    seen: set[tuple[int, int]] = field(default_factory=set)
    versions: set[int] = field(default_factory=set)


class _Actions:
    """The judged actions of the walk, one after the other; ``row`` says where each stands in the frame.

    Only few of them are looked at, one by one: memoryviews give Python's own integers without a copy.
    ``next_stuck`` is the first stuck action at or after each (one more than there are where none follows), and
    ``passed`` the row of an outside judgement ``passed`` between an action and the next of its lane, else -1.
    """

    def __init__(self, frame: pl.DataFrame, book: RuleBook) -> None:
        judged = frame["verdict"].is_not_null()
        actions = frame.filter(judged)
        row = np.flatnonzero(judged.to_numpy())
        stuck = actions["verdict"].eq(str(Verdict.STUCK_LOOP)).to_numpy()
        lane = actions["_lane"].to_numpy().astype(np.int64)
        starts = np.flatnonzero(np.diff(lane, prepend=-1)).astype(np.int32)
        self.row = row.data
        self.starts = starts.tolist()
        self.stuck = stuck.data
        self.period = actions["period"].fill_null(0).to_numpy().data
        self.stretch = _stretches(actions, starts, book).data
        self.milestone = actions["milestone"].is_not_null().to_numpy().data
        self.signature = codes_of(actions, "action_signature").data
        self.tool = codes_of(actions, "tool").data
        self.evidence = codes_of(actions, "progress_fingerprint").data
        self.seen = actions["progress_fingerprint"].is_not_null().to_numpy().data
        self.named = codes_of(actions, *_VERSIONS).data
        self.valued = codes_of(actions, *_VERSIONS, "fingerprint_version").data
        place = np.where(stuck, np.arange(len(row)), len(row))
        self.next_stuck = np.append(np.minimum.accumulate(place[::-1])[::-1], len(row)).data
        self.passed = _passed(frame, row, lane).data

    def may_be_equal(self, one: int, other: int) -> bool:
        """Whether two actions may be the same."""
        symbols = self.signature if self.named[one] == self.named[other] else self.tool
        return bool(symbols[one] == symbols[other])


def _passed(frame: pl.DataFrame, row: _Int, lane: _Int) -> _Int:
    """Row of the first outside judgement ``passed`` after each action, not after the next of its lane; else -1."""
    passed = frame["kind"].eq_missing(str(Kind.VERDICT)) & frame["outcome"].eq_missing(str(Outcome.PASSED))
    rows = np.append(np.flatnonzero(passed.to_numpy()), frame.height)
    after = rows[np.searchsorted(rows, row, side="right")]
    until = np.append(row[1:], frame.height - 1)
    same = frame["_lane"].to_numpy()[np.minimum(after, frame.height - 1)] == lane
    return np.where((after <= until) & same, after, -1)


def _walk(frame: pl.DataFrame, book: RuleBook) -> pl.DataFrame:
    """Walk lanes that were stuck at least once and write their episodes down."""
    if frame.is_empty():
        return EPISODES.to_frame()
    actions = _Actions(frame, book)
    ends = [*actions.starts[1:], len(actions.row)]
    found = [e for start, stop in zip(actions.starts, ends, strict=True) for e in _lane(actions, start, stop)]
    return _table(frame, actions, found)


def _lane(actions: _Actions, start: int, stop: int) -> Iterator[_Episode]:
    """Episodes of one lane, in order of their alerts; what lies between them is passed over."""
    current: _Episode | None = None
    at = actions.next_stuck[start]
    while at < stop:
        same = current is not None and actions.stuck[at] and _same_loop(actions, current, at)
        if current is not None and not same:
            current.closed_by = _closes(actions, current, at)
            current.end = actions.row[at]
            if current.closed_by is not None:
                yield current
                current = None
        if actions.stuck[at]:
            current = current or _begin(actions, at)
            _extend(actions, current, at)
        if current is not None and actions.passed[at] >= 0:
            current.end, current.closed_by = actions.passed[at], "outcome"
            yield current
            current = None
        at = at + 1 if current is not None else actions.next_stuck[at + 1]
    if current is not None:
        yield current


def _same_loop(actions: _Actions, episode: _Episode, at: int) -> bool:
    """Whether the lap that ends here is a rotation of the episode's.

    Actions whose signatures were made in different ways cannot be compared; then only another tool tells.
    """
    p = episode.period
    if actions.period[at] != p:
        return False
    if at - 1 == episode.last_stuck:
        return True  # moving a lap on by one event rotates it
    lap, known = range(at + 1 - p, at + 1), [*episode.lap]
    rotations = (known[k:] + known[:k] for k in range(p))
    return any(all(map(actions.may_be_equal, lap, rotation)) for rotation in rotations)


def _closes(actions: _Actions, episode: _Episode, at: int) -> str | None:
    """Why an event that does not go on with the loop closes the episode; None where it does not.

    A fingerprint that can be compared with none of the laps' (made in another way) is not known to be new.
    """
    evidence, version = actions.evidence[at], actions.valued[at]
    if actions.seen[at] and version in episode.versions and (evidence, version) not in episode.seen:
        return "evidence"
    if actions.milestone[at]:
        return "milestone"
    return "other_loop" if actions.stuck[at] else None


def _begin(actions: _Actions, at: int) -> _Episode:
    onset = at + 1 - actions.stretch[at]
    return _Episode(
        period=actions.period[at],
        onset=onset,
        alert=at,
        lap=range(at + 1 - actions.period[at], at + 1),
        end=actions.row[at],
        last_stuck=at,
        noted=(onset, onset),
    )


def _extend(actions: _Actions, episode: _Episode, at: int) -> None:
    """Take the stretch of a stuck event into the loop's laps; what was taken before is not read again."""
    episode.end, episode.last_stuck = actions.row[at], at
    begin, end = at + 1 - actions.stretch[at], at + 1
    low, high = episode.noted
    for i in [*range(begin, min(low, end)), *range(max(high, begin), end)]:
        if actions.seen[i]:
            episode.seen.add((actions.evidence[i], actions.valued[i]))
            episode.versions.add(actions.valued[i])
    episode.noted = (min(low, begin), end) if begin <= high else (begin, end)


def _table(frame: pl.DataFrame, actions: _Actions, found: list[_Episode]) -> pl.DataFrame:
    def at(name: str, rows: list[int]) -> pl.Series:
        return frame[name].gather(rows)

    onset, alert = ([actions.row[getattr(e, name)] for e in found] for name in ("onset", "alert"))
    end = [e.end for e in found]
    tokens, cost = _inside(_tokens(frame), onset, end), _inside(_nano(frame), onset, end)
    periods = [e.period for e in found]
    lap = _laps(frame, [[actions.row[i] for i in e.lap] for e in found])
    columns = {
        "run_id": at("run_id", alert),
        "agent": at("agent", alert),
        "period": periods,
        "laps": [actions.stretch[e.last_stuck] // e.period for e in found],
        "tools": lap["tool"],
        **{
            f"{n}_{c}": at(c, rows)
            for n, rows in (("onset", onset), ("alert", alert), ("end", end))
            for c in ("seq", "at")
        },
        "closed_by": [e.closed_by for e in found],
        "tokens": tokens,
        "cost_usd": cost.to_frame("nano").select(dollars(pl.col("nano"))).to_series(),
        "lap_signatures": lap["action_signature"],
        "lap_fingerprints": lap["progress_fingerprint"],
    }
    return pl.DataFrame(columns, schema_overrides=EPISODES).select(
        pl.col(n).cast(t) for n, t in EPISODES.items()
    )


def _laps(frame: pl.DataFrame, laps: list[list[int]]) -> pl.DataFrame:
    """Tools, signatures and fingerprints of each episode's lap, as lists."""
    names = ("tool", "action_signature", "progress_fingerprint")
    rows = pl.Series([row for lap in laps for row in lap], dtype=pl.UInt32)
    number = pl.Series("number", [i for i, lap in enumerate(laps) for _ in lap], dtype=pl.UInt32)
    told = frame.select(pl.col(names).gather(rows)).with_columns(number)
    return told.group_by("number", maintain_order=True).agg(names)


def tokens() -> pl.Expr:
    """Tokens of an event, Int64; null where it says none."""
    both = pl.col("tokens_in").fill_null(0) + pl.col("tokens_out").fill_null(0)
    return pl.when(pl.col("tokens_in").is_not_null() | pl.col("tokens_out").is_not_null()).then(both)


def nano_cost() -> pl.Expr:
    """Cost of an event in integer nano-dollars; null where it says none or nothing finite."""
    cost = pl.col("cost_usd")
    return pl.when(cost.is_finite()).then((cost * NANO).round()).cast(pl.Int64, strict=False)


def dollars(nano: pl.Expr) -> pl.Expr:
    """Nano-dollars as dollars; dividing by a literal would multiply by its inexact reciprocal."""
    scale = pl.int_range(pl.len()) * 0 + NANO
    return nano.cast(pl.Float64) / scale.cast(pl.Float64)


def _tokens(frame: pl.DataFrame) -> pl.Series:
    return frame.select(tokens()).to_series()


def _nano(frame: pl.DataFrame) -> pl.Series:
    return frame.select(nano_cost()).to_series()


def _inside(amount: pl.Series, onset: list[int], end: list[int]) -> pl.Series:
    """Sum between two rows, both included, from running sums; null where nothing is known."""

    def between(values: pl.Series) -> _Int:
        running = np.concatenate([[0], np.cumsum(values.to_numpy().astype(np.int64))])
        return np.asarray(
            running[np.asarray(end, dtype=np.int64) + 1] - running[np.asarray(onset, dtype=np.int64)]
        )

    known = between(amount.is_not_null())
    total = pl.Series(between(amount.fill_null(0)))
    return pl.select(pl.when(pl.Series(known) > 0).then(total)).to_series()
