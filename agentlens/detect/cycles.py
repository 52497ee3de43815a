"""Suffix lengths: how far back a lane repeats itself, for every period in one pass (CALIBRATION 3.1).

A stretch that ends at row i and may not reach row c has length ``i - c``. A comparison of j with j - p that
fails forbids row j - p to every stretch ending at or after j, so the length is i minus the cumulative
maximum of the forbidden rows. Row numbers are global and grow, so that no grouping by lane is needed: the
row before the lane's first bounds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from agentlens.detect.lanes import ROW, previous

if TYPE_CHECKING:
    from agentlens.detect.rules import Evidence, Rule

_NOWHERE = pl.lit(-1, dtype=ROW)


def mark() -> pl.Expr:
    """Changed evidence whatever the result: a milestone, or the first action after a human turn."""
    return pl.col("milestone").is_not_null() | pl.col("external_input").fill_null(False)


def new_normaliser(p: int) -> pl.Expr:
    """Whether signatures and fingerprints of j and j - p were made in ways that cannot be compared."""
    return pl.any_horizontal(
        pl.col(n).ne_missing(pl.col(n).shift(p)) for n in ("normaliser_version", "key_id")
    )


def new_fingerprint(p: int) -> pl.Expr:
    """The same for fingerprints alone."""
    return new_normaliser(p) | pl.col("fingerprint_version").ne_missing(
        pl.col("fingerprint_version").shift(p)
    )


def long_pause(max_gap_us: int) -> pl.Expr:
    """Whether the pause before this action is longer than allowed; false where a time is not known."""
    before = pl.coalesce(previous("ended_at"), previous("at"))
    return ((pl.col("at") - before).dt.total_microseconds() > max_gap_us).fill_null(False)


def differs(name: str, p: int) -> pl.Expr:
    """Whether j differs from j - p, an unknown value counting as different."""
    return pl.col(name).ne(pl.col(name).shift(p)).fill_null(True)


def forbidden(fails: pl.Expr, back: int) -> pl.Expr:
    """Last row that a stretch may not contain, where `fails` forbids the row `back` before."""
    return pl.when(fails).then(pl.col("row") - back).otherwise(_NOWHERE).cum_max()


def suffix(*cuts: pl.Expr) -> pl.Expr:
    """Length of the longest suffix that contains no forbidden row and stays inside its lane."""
    return pl.col("row") - pl.max_horizontal(*cuts, pl.col("start") - 1)


def action_lengths(rule: Rule, *, versions: bool) -> list[pl.Expr]:
    """``L_1..L_P``: longest suffix that is p-periodic in known signatures."""
    gap = [] if rule.max_gap_us is None else [forbidden(pl.col("_pause"), 1)]
    return [
        suffix(forbidden(_other_action(p, versions=versions), p), *gap).alias(f"L_{p}")
        for p in range(1, rule.max_period + 1)
    ]


def evidence_lengths(rule: Rule, *, versions: bool) -> list[pl.Expr]:
    """``S_1..S_P`` from ``L_1..L_P``: the same and unchanged known evidence (``S_lo`` where there are unknowns)."""
    return [
        pl.min_horizontal(pl.col(f"L_{p}"), suffix(_evidence_cut(rule.evidence, p, versions=versions))).alias(
            f"S_{p}"
        )
        for p in range(1, rule.max_period + 1)
    ]


def stalled(*, versions: bool) -> pl.Expr:
    """Number of events just before this one, without a break, whose known fingerprint equals this one's."""
    return (suffix(forbidden(_other_evidence(1, versions=versions), 1)) - 1).alias("stalled_events")


def _other_action(p: int, *, versions: bool) -> pl.Expr:
    other = differs("action_signature", p)
    return other | new_normaliser(p) if versions else other


def _other_evidence(p: int, *, versions: bool) -> pl.Expr:
    other = differs("progress_fingerprint", p)
    return other | new_fingerprint(p) if versions else other


def _evidence_cut(evidence: Evidence, p: int, *, versions: bool) -> pl.Expr:
    if evidence == "none":
        return forbidden(pl.col("_mark"), p)
    back = 1 if evidence == "constant" else p
    return forbidden(_other_evidence(back, versions=versions) | pl.col("_mark"), back)


def with_lengths(lanes: pl.LazyFrame, rule: Rule, *, versions: bool = False) -> pl.LazyFrame:
    """Add ``L_p``, ``S_p`` and ``stalled_events`` to lanes numbered by `in_lanes`.

    ``versions``: also treat comparisons across a change of version as unknown; only lanes that have such a
    change need to pay for it.
    """
    pause = pl.lit(False) if rule.max_gap_us is None else long_pause(rule.max_gap_us)
    return (
        lanes.with_columns(mark().alias("_mark"), pause.alias("_pause"))
        .with_columns(*action_lengths(rule, versions=versions), stalled(versions=versions))
        .with_columns(*evidence_lengths(rule, versions=versions))
    )
