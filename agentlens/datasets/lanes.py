"""Thousands of synthetic lanes at once, with their truth: for simulations of a calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl

from agentlens.datasets.fleet import LABELS
from agentlens.errors import SettingsError
from agentlens.model.event import EVENTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Bits: TypeAlias = NDArray[np.bool_]

START_US = 1_793_606_400_000_000  # 2026-11-02T08:00:00Z
_RING = 1_000_000  # symbols of planted rounds stand apart from those of work


@dataclass(frozen=True, kw_only=True)
class LaneModel:
    """How synthetic lanes behave.

    ``min_events``, ``max_events``: length of a run, drawn evenly. ``incident_share``: share of runs with one
    planted loop. ``periods``: its period, drawn evenly (2: an edit and its reverse).
    ``min_laps``, ``max_laps``: its length. ``noise``: chance
    that a step of the loop is replaced by a stray action with new evidence. ``alphabet``: how many different
    actions work is made of. ``repeat``: chance that a working step repeats the one before. ``fresh``: chance that
    a working step sees new evidence. ``spread``: how much ``repeat`` differs between task groups (0: not at all,
    near 1: some groups always, others never), which correlates runs of one group. ``runs_per_group``: size of a
    task group. ``unknown_share``: share of events without a fingerprint, in a tenth of the runs.
    ``onset``: first and last place, as shares of the room there is, where the loop may begin. ``onset_blur``: labels
    give the onset as an interval of so many events around the true one, drawn evenly where the true one lies in it.
    ``label_noise``: chance that a label says the opposite. ``gap_s``: mean seconds between two events.
    """

    min_events: int = 20
    max_events: int = 80
    incident_share: float = 0.1
    periods: tuple[int, ...] = (1, 2, 3)
    min_laps: int = 3
    max_laps: int = 10
    noise: float = 0.0
    alphabet: int = 12
    repeat: float = 0.3
    fresh: float = 0.7
    spread: float = 0.2
    runs_per_group: int = 3
    unknown_share: float = 0.0
    onset: tuple[float, float] = (0.0, 1.0)
    onset_blur: int = 0
    label_noise: float = 0.0
    gap_s: float = 5.0

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        for name in ("incident_share", "noise", "repeat", "fresh", "unknown_share", "label_noise"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingsError.value(name, getattr(self, name), "a probability from 0 to 1")
        if not 0 <= self.spread < 1:
            raise SettingsError.value("spread", self.spread, "0 to below 1")
        if not 0 <= self.onset[0] <= self.onset[1] <= 1:
            raise SettingsError.value(
                "onset", self.onset, "two shares from 0 to 1, the first not above the second"
            )
        if self.onset_blur < 0:
            raise SettingsError.value("onset_blur", self.onset_blur, "events from 0")
        if not self.periods or min(self.periods) < 1:
            raise SettingsError.value("periods", self.periods, "at least one period of at least 1")
        if not 1 <= self.min_laps <= self.max_laps:
            raise SettingsError.value("min_laps", self.min_laps, f"1 to max_laps ({self.max_laps})")
        if min(self.alphabet, self.runs_per_group) < 1 or self.gap_s <= 0:
            raise SettingsError.value("alphabet, runs_per_group, gap_s", self.gap_s, "values above 0")
        if not self.min_laps * max(self.periods) < self.min_events <= self.max_events:
            accepted = f"more than min_laps * the largest period, up to max_events ({self.max_events})"
            raise SettingsError.value("min_events", self.min_events, accepted)


@dataclass(frozen=True, kw_only=True)
class SyntheticLanes:
    """Canonical events, one label row a run (schema `LABELS`, perhaps noisy), and the truth without noise.

    ``truth``: ``run_id, label, period, onset_seq, end_seq, task_group``; the three in the middle are null on
    healthy runs.
    """

    events: pl.DataFrame
    labels: pl.DataFrame
    truth: pl.DataFrame


@dataclass(slots=True, kw_only=True)
class _Layout:
    """Where each run lies in the long arrays."""

    lengths: Ints
    starts: Ints
    run: Ints  # run of each event
    seq: Ints  # position of each event in its run


def synthetic_lanes(runs: int, *, seed: int, model: LaneModel | None = None) -> SyntheticLanes:
    """Draw ``runs`` runs of one lane each, with signatures and fingerprints as the normaliser would give them.

    Parameters
    ----------
    runs
        How many runs.
    seed
        Seed of NumPy's PCG64. The same seed and NumPy version give the same frames.
    model
        How the lanes behave (default `LaneModel()`).

    Returns
    -------
    SyntheticLanes
        ``events`` has schema `EVENTS`, sorted by run, agent and seq.

    Raises
    ------
    SettingsError
        For fewer than one run, or a seed below 0.

    Notes
    -----
    Everything is drawn for all runs at once; a million events take about a second.

    Examples
    --------
    >>> lanes = synthetic_lanes(100, seed=3)
    >>> lanes.truth["label"].value_counts().height
    2
    """
    if runs < 1:
        raise SettingsError.value("runs", runs, "an integer of at least 1")
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise SettingsError.value("seed", seed, "a whole number from 0")
    model = model or LaneModel()
    rng = np.random.default_rng(seed)
    layout = _layout(rng, runs, model)
    group = np.arange(runs, dtype=np.int64) // model.runs_per_group
    action = _working_actions(rng, layout, group, model)
    evidence = _working_evidence(rng, layout, model)
    period, onset, end = _plant(rng, layout, action, evidence, model)
    known = _known(rng, layout, model)
    events = _events(rng, layout, model, action=action, evidence=evidence, known=known)
    truth = _truth(period, onset, end, group)
    return SyntheticLanes(events=events, labels=_labels(rng, events, truth, model), truth=truth)


def _layout(rng: np.random.Generator, runs: int, model: LaneModel) -> _Layout:
    lengths = rng.integers(model.min_events, model.max_events + 1, runs, dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    run = np.repeat(np.arange(runs, dtype=np.int64), lengths)
    seq = np.arange(lengths.sum(), dtype=np.int64) - starts[run]
    return _Layout(lengths=lengths, starts=starts, run=run, seq=seq)


def _held(value: Ints, new: Bits) -> Ints:
    """Carry each value forward over the positions that are not new."""
    index = np.where(new, np.arange(len(value)), 0)
    return value[np.maximum.accumulate(index)]


def _working_actions(rng: np.random.Generator, layout: _Layout, group: Ints, model: LaneModel) -> Ints:
    """Draw actions evenly, some repeating the one before; how many is a trait of the task group."""
    groups = int(group[-1]) + 1
    lean = rng.random(groups) if model.spread else np.full(groups, 0.5)
    repeat = np.clip(model.repeat * (1 + model.spread * (2 * lean - 1)), 0, 1)
    new = (rng.random(len(layout.run)) >= repeat[group[layout.run]]) | (layout.seq == 0)
    return _held(rng.integers(0, model.alphabet, len(layout.run), dtype=np.int64), new)


def _working_evidence(rng: np.random.Generator, layout: _Layout, model: LaneModel) -> Ints:
    new = (rng.random(len(layout.run)) < model.fresh) | (layout.seq == 0)
    return _held(np.arange(len(layout.run), dtype=np.int64), new)


def _plant(
    rng: np.random.Generator, layout: _Layout, action: Ints, evidence: Ints, model: LaneModel
) -> tuple[Ints, Ints, Ints]:
    """Overwrite one stretch of each incident run with a round; return period, onset and end (-1: none)."""
    runs = len(layout.lengths)
    hit = rng.random(runs) < model.incident_share
    period = rng.choice(np.array(model.periods, dtype=np.int64), runs)
    laps = rng.integers(model.min_laps, model.max_laps + 1, runs, dtype=np.int64)
    size = np.minimum(period * laps, layout.lengths)
    size = np.maximum(size, model.min_laps * period)
    low, high = model.onset
    room = layout.lengths - size
    onset = np.minimum(((low + (high - low) * rng.random(runs)) * (room + 1)).astype(np.int64), room)
    end = onset + size - 1
    run, seq = layout.run, layout.seq
    inside = hit[run] & (seq >= onset[run]) & (seq <= end[run])
    stray = inside & (seq > onset[run]) & (rng.random(len(run)) < model.noise)
    phase = (seq - onset[run]) % period[run]
    round_ = inside & ~stray
    action[round_] = _RING + phase[round_]
    evidence[round_] = -1 - (run[round_] * max(model.periods) + phase[round_])
    outside = np.arange(len(run), dtype=np.int64)
    evidence[stray] = outside[stray]
    none = np.int64(-1)
    return np.where(hit, period, none), np.where(hit, onset, none), np.where(hit, end, none)


def _known(rng: np.random.Generator, layout: _Layout, model: LaneModel) -> Bits:
    runs = len(layout.lengths)
    affected = rng.random(runs) < 0.1
    unknown = affected[layout.run] & (rng.random(len(layout.run)) < model.unknown_share)
    return ~unknown


def _digest(column: str, prefix: str) -> pl.Expr:
    """Text of the shape of a digest: 32 digits, different for different numbers of one kind."""
    return pl.format("{}{}", pl.lit(prefix), pl.col(column).cast(pl.String).str.zfill(31))


def _task(column: str, size: int) -> pl.Expr:
    return pl.format("task-{}", (pl.col(column) // size).cast(pl.String).str.zfill(7))


def _events(
    rng: np.random.Generator, layout: _Layout, model: LaneModel, *, action: Ints, evidence: Ints, known: Bits
) -> pl.DataFrame:
    gap = rng.exponential(model.gap_s * 1e6, len(action)).astype(np.int64) + 1
    total = np.cumsum(gap)
    at = START_US + layout.run * 60_000_000 + total - total[layout.starts][layout.run]
    lowest = int(evidence.min())
    frame = pl.DataFrame(
        {
            "run": layout.run,
            "seq": layout.seq,
            "at": at,
            "action": action,
            "evidence": evidence - lowest,
            "known": known,
        }
    )
    tool = pl.format("tool_{}", pl.col("action") % 7)
    columns = {
        "run_id": pl.format("run-{}", pl.col("run").cast(pl.String).str.zfill(7)),
        "agent": pl.lit(""),
        "seq": pl.col("seq"),
        "at": pl.col("at"),
        "ended_at": pl.col("at"),
        "kind": pl.lit("tool"),
        "tool": tool,
        "external_input": pl.lit(False),
        "action_signature": _digest("action", "a"),
        "progress_fingerprint": pl.when("known").then(_digest("evidence", "e")),
        "reachable": pl.lit(True),
        "task_group": _task("run", model.runs_per_group),
        "source": pl.format("synthetic:{}", pl.int_range(pl.len())),
        "reader": pl.lit("synthetic/1"),
        "normaliser_version": pl.lit("synthetic-1"),
        "fingerprint_version": pl.lit("synthetic-1"),
        "key_id": pl.lit("synthetic"),
    }
    filled = [columns.get(name, pl.lit(None)).cast(dtype).alias(name) for name, dtype in EVENTS.items()]
    return frame.select(filled)


def _truth(period: Ints, onset: Ints, end: Ints, group: Ints) -> pl.DataFrame:
    frame = pl.DataFrame(
        {"run": np.arange(len(period)), "period": period, "onset_seq": onset, "end_seq": end, "group": group}
    )
    hit = pl.col("period") > 0
    return frame.select(
        pl.format("run-{}", pl.col("run").cast(pl.String).str.zfill(7)).alias("run_id"),
        pl.when(hit).then(pl.lit("incident")).otherwise(pl.lit("healthy")).alias("label"),
        *(pl.when(hit).then(name).alias(name) for name in ("period", "onset_seq", "end_seq")),
        _task("group", 1).alias("task_group"),
    )


def _labels(
    rng: np.random.Generator, events: pl.DataFrame, truth: pl.DataFrame, model: LaneModel
) -> pl.DataFrame:
    flipped = pl.Series("flipped", rng.random(truth.height) < model.label_noise)
    at = events.select("run_id", "seq", "at")
    joined = (
        truth.with_columns(flipped)
        .join(
            at.rename({"at": "onset_at"}),
            left_on=["run_id", "onset_seq"],
            right_on=["run_id", "seq"],
            how="left",
        )
        .join(
            at.rename({"at": "end_at"}), left_on=["run_id", "end_seq"], right_on=["run_id", "seq"], how="left"
        )
    )
    joined = _blurred(rng, joined, model.onset_blur)
    incident = (pl.col("label") == "incident") != pl.col("flipped")
    kept = incident & pl.col("onset_seq").is_not_null()
    columns = {
        "run_id": pl.col("run_id"),
        "scope": pl.when(kept).then(pl.lit("interval")).otherwise(pl.lit("run")),
        **{name: pl.when(kept).then(name) for name in ("onset_seq", "end_seq", "onset_at", "end_at")},
        "onset_hi_seq": pl.when(kept & (pl.col("onset_hi_seq") > pl.col("onset_seq"))).then("onset_hi_seq"),
        "label": pl.when(incident).then(pl.lit("incident")).otherwise(pl.lit("healthy")),
        "kind": pl.when(kept).then(pl.format("ring_{}", "period")),
        "source": pl.lit("planted"),
        "task_group": pl.col("task_group"),
    }
    filled = [columns.get(name, pl.lit(None)).cast(dtype).alias(name) for name, dtype in LABELS.items()]
    return joined.select(filled).sort("run_id")


def _blurred(rng: np.random.Generator, labelled: pl.DataFrame, blur: int) -> pl.DataFrame:
    """Put an interval of ``blur`` more events around each onset, cut to the run and the incident; 0 draws nothing."""
    if not blur:
        return labelled.with_columns(onset_hi_seq=pl.lit(None, pl.Int64))
    before = pl.Series(rng.integers(0, blur + 1, labelled.height))
    low = pl.max_horizontal(pl.col("onset_seq") - before, 0)
    high = pl.min_horizontal(pl.col("onset_seq") - before + blur, "end_seq")
    some = pl.col("onset_seq").is_not_null()
    return labelled.with_columns(
        onset_hi_seq=pl.when(some).then(high),
        onset_seq=pl.when(some).then(low),
        onset_at=pl.lit(None, pl.Int64),
    )
