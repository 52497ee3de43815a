"""Episodes: maximal stretches of one lane under one loop; their first stuck event is the alert (SPEC section 3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from agentlens.detect import cycles
from agentlens.detect.lanes import LANE, conform, in_lanes
from agentlens.detect.profile_rules import RuleBook
from agentlens.model.enums import Kind, Outcome, Verdict
from agentlens.model.verdict import EPISODES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.detect.rules import Rule

NANO = 1_000_000_000
"""Cost is summed as integer nano-dollars, so that the order of addition does not matter."""

_KEY = (*LANE, "seq")
_FACTS = (
    *_KEY,
    *("kind", "at", "ended_at", "workflow", "tool", "external_input", "milestone", "outcome"),
    *("action_signature", "progress_fingerprint", "normaliser_version", "fingerprint_version", "key_id"),
    *("tokens_in", "tokens_out", "cost_usd"),
)
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
    stuck = verdicts.filter(pl.col("verdict") == str(Verdict.STUCK_LOOP)).select(LANE).unique()
    judged = verdicts.join(stuck, on=LANE, how="semi").select(*_KEY, "verdict", "period")
    facts = conform(events, _FACTS).join(stuck, on=LANE, how="semi")
    lanes = in_lanes(facts.join(judged, on=_KEY, how="semi"), tuple(Kind))
    stretches = _stretches(lanes.join(judged, on=_KEY, how="left", maintain_order="left"), RuleBook.of(rule))
    walked = facts.join(stretches, on=_KEY, how="left").sort(_KEY)
    return walked.map_batches(_walk, schema=EPISODES)


def _stretches(lanes: pl.LazyFrame, book: RuleBook) -> pl.LazyFrame:
    """Verdict, period and length of the loop's stretch of every judged event of these lanes."""
    kept = (
        *_KEY,
        "verdict",
        "period",
        "tool",
        "action_signature",
        "progress_fingerprint",
        "_mark",
        "_names",
        "_values",
    )
    parts = []
    for number, rule in enumerate(book.rules):
        length = pl.coalesce(
            pl.when(pl.col("period") == p).then(pl.col(f"S_{p}")) for p in range(1, rule.max_period + 1)
        )
        mine = cycles.with_lengths(lanes.with_columns(book.number().alias("_rule")), rule, versions=True)
        parts.append(
            mine.filter(pl.col("_rule") == number)
            .with_columns(length.alias("stretch"), *_versions())
            .select(*kept, "stretch")
        )
    return pl.concat(parts)


def _versions() -> list[pl.Expr]:
    """Two texts that are equal where signatures, or fingerprints, can be compared."""
    names = [pl.col(name).fill_null("") for name in ("normaliser_version", "key_id")]
    names = [pl.concat_str(*names, separator="\0").alias("_names")]
    return [
        *names,
        pl.concat_str(*names, pl.col("fingerprint_version").fill_null(""), separator="\0").alias("_values"),
    ]


@dataclass
class _Episode:
    """One episode while it is walked; positions are rows of the walked frame.

    ``noted`` is the span of actions of the lane whose fingerprints are in ``seen`` already.
    """

    period: int
    onset: int
    alert: int
    lap: list[int]
    end: int
    last_stuck: int
    noted: tuple[int, int]
    closed_by: str | None = None
    seen: set[tuple[int, int]] = field(default_factory=set)
    versions: set[int] = field(default_factory=set)


class _Lanes:
    """The columns of the walk as plain lists of integers."""

    def __init__(self, frame: pl.DataFrame) -> None:
        def codes(name: str) -> list[int | None]:
            return frame[name].cast(pl.Categorical).to_physical().to_list()

        self.action = frame["verdict"].is_not_null().to_list()
        self.stuck = frame["verdict"].eq_missing(str(Verdict.STUCK_LOOP)).to_list()
        self.passed = (
            frame["kind"].eq_missing(str(Kind.VERDICT)) & frame["outcome"].eq_missing(str(Outcome.PASSED))
        ).to_list()
        self.period = frame["period"].to_list()
        self.stretch = frame["stretch"].to_list()
        self.milestone = frame["milestone"].is_not_null().to_list()
        self.signature = codes("action_signature")
        self.tool = codes("tool")
        self.evidence = codes("progress_fingerprint")
        self.named = codes("_names")
        self.valued = codes("_values")

    def may_be_equal(self, one: int, other: int) -> bool:
        """Whether two actions may be the same."""
        symbols = self.signature if self.named[one] == self.named[other] else self.tool
        return symbols[one] == symbols[other]


def _walk(frame: pl.DataFrame) -> pl.DataFrame:
    """Walk lanes that were stuck at least once and write their episodes down."""
    if frame.is_empty():
        return EPISODES.to_frame()
    lanes = _Lanes(frame)
    opens = frame.select(
        pl.any_horizontal(pl.col(n).ne_missing(pl.col(n).shift(1)) for n in LANE)
    ).to_series()
    starts = [0, *(i for i in np.flatnonzero(opens.to_numpy()).tolist() if i)]
    found = [e for s, t in zip(starts, [*starts[1:], frame.height], strict=True) for e in _lane(lanes, s, t)]
    return _table(frame, found)


def _lane(lanes: _Lanes, start: int, stop: int) -> Iterator[_Episode]:
    """Episodes of one lane, in order of their alerts."""
    actions: list[int] = []
    current: _Episode | None = None
    for row in range(start, stop):
        if lanes.passed[row] and current is not None:
            current.end, current.closed_by = row, "outcome"
            yield current
            current = None
        if not lanes.action[row]:
            continue
        actions.append(row)
        same = current is not None and lanes.stuck[row] and _same_loop(lanes, current, actions)
        if current is not None and not same:
            current.closed_by = _closes(lanes, current, row)
            current.end = row
            if current.closed_by is not None:
                yield current
                current = None
        if not lanes.stuck[row]:
            continue
        if current is None:
            current = _begin(lanes, actions)
        _extend(lanes, current, actions)
    if current is not None:
        yield current


def _same_loop(lanes: _Lanes, episode: _Episode, actions: list[int]) -> bool:
    """Whether the lap that ends here is a rotation of the episode's.

    Actions whose signatures were made in different ways cannot be compared; then only another tool tells.
    """
    row, p = actions[-1], episode.period
    if lanes.period[row] != p:
        return False
    if len(actions) > 1 and actions[-2] == episode.last_stuck:
        return True  # moving a lap on by one event rotates it
    lap = actions[-p:]
    rotations = (episode.lap[k:] + episode.lap[:k] for k in range(p))
    return any(all(map(lanes.may_be_equal, lap, rotation)) for rotation in rotations)


def _closes(lanes: _Lanes, episode: _Episode, row: int) -> str | None:
    """Why an event that does not go on with the loop closes the episode; None where it does not.

    A fingerprint that can be compared with none of the laps' (made in another way) is not known to be new.
    """
    evidence, version = lanes.evidence[row], lanes.valued[row]
    if evidence is not None and version in episode.versions and (evidence, version) not in episode.seen:
        return "evidence"
    if lanes.milestone[row]:
        return "milestone"
    return "other_loop" if lanes.stuck[row] else None


def _begin(lanes: _Lanes, actions: list[int]) -> _Episode:
    row = actions[-1]
    p, stretch = lanes.period[row], lanes.stretch[row]
    onset = len(actions) - stretch
    return _Episode(
        period=p,
        onset=actions[onset],
        alert=row,
        lap=actions[-p:],
        end=row,
        last_stuck=row,
        noted=(onset, onset),
    )


def _extend(lanes: _Lanes, episode: _Episode, actions: list[int]) -> None:
    """Take the stretch of a stuck event into the loop's laps; what was taken before is not read again."""
    row = actions[-1]
    episode.end = episode.last_stuck = row
    begin, end = len(actions) - lanes.stretch[row], len(actions)
    low, high = episode.noted
    for i in [*range(begin, min(low, end)), *range(max(high, begin), end)]:
        evidence, version = lanes.evidence[actions[i]], lanes.valued[actions[i]]
        if evidence is not None and version is not None:
            episode.seen.add((evidence, version))
            episode.versions.add(version)
    episode.noted = (min(low, begin), end) if begin <= high else (begin, end)


def _table(frame: pl.DataFrame, found: list[_Episode]) -> pl.DataFrame:
    def at(name: str, rows: list[int]) -> pl.Series:
        return frame[name].gather(rows)

    onset, alert, end = ([getattr(e, name) for e in found] for name in ("onset", "alert", "end"))
    tokens, cost = _inside(_tokens(frame), onset, end), _inside(_nano(frame), onset, end)
    periods = [e.period for e in found]
    laps = _laps(frame, found)
    columns = {
        "run_id": at("run_id", alert),
        "agent": at("agent", alert),
        "period": periods,
        "laps": at("stretch", [e.last_stuck for e in found]) // pl.Series(periods, dtype=pl.Int32),
        "tools": laps["tool"],
        **{
            f"{n}_{c}": at(c, rows)
            for n, rows in (("onset", onset), ("alert", alert), ("end", end))
            for c in ("seq", "at")
        },
        "closed_by": [e.closed_by for e in found],
        "tokens": tokens,
        "cost_usd": cost.to_frame("nano").select(dollars(pl.col("nano"))).to_series(),
        "lap_signatures": laps["action_signature"],
        "lap_fingerprints": laps["progress_fingerprint"],
    }
    return pl.DataFrame(columns, schema_overrides=EPISODES).select(
        pl.col(n).cast(t) for n, t in EPISODES.items()
    )


def _laps(frame: pl.DataFrame, found: list[_Episode]) -> pl.DataFrame:
    """Tools, signatures and fingerprints of each episode's lap, as lists."""
    names = ("tool", "action_signature", "progress_fingerprint")
    rows = pl.Series([row for e in found for row in e.lap], dtype=pl.UInt32)
    number = pl.Series("number", [i for i, e in enumerate(found) for _ in e.lap], dtype=pl.UInt32)
    lap = frame.select(pl.col(names).gather(rows)).with_columns(number)
    return lap.group_by("number", maintain_order=True).agg(names)


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
