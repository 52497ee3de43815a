"""Limits of handoffs from the receipts of the data: every table, and the profile's ``[handoffs]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens.calibrate.ack_checks import ACK_CHECKS
from agentlens.calibrate.ack_times import ack_times, observed_until_from
from agentlens.calibrate.evidence_window import EVIDENCE_WINDOW, evidence_window, progress_gaps
from agentlens.calibrate.handoff_labels import LIMIT_TABLE, handoff_claims, labelled_silence, limit_table
from agentlens.calibrate.latency import ACK_CURVE, ACK_LIMITS, POOLED, AckSettings, ack_limits
from agentlens.detect.handoffs import handoffs
from agentlens.model.label import Scope, State

if TYPE_CHECKING:
    from collections.abc import Mapping

_HANDOFF = ("operation_id", "handoff_id")
_CANDIDATES_S = (5, 10, 15, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1800, 3600)


@dataclass(frozen=True, kw_only=True)
class HandoffTables:
    """Limits of handoffs.

    ``tables``: ``ack_limits, ack_curves, ack_checks, ack_labelled, evidence_window``. ``profile``: ``[handoffs]``,
    absent where the data give no limit, and ``[acknowledgement]`` (`how_limits_were_made`).
    """

    tables: dict[str, pl.DataFrame]
    profile: dict[str, dict[str, Any]]


def handoff_tables(receipts: pl.DataFrame, labels: pl.DataFrame, settings: AckSettings) -> HandoffTables:
    """Calibrate acknowledgement limits and the evidence window.

    Parameters
    ----------
    receipts
        Native receipts (`agentlens.model.receipt.RECEIPTS`); without any every table is empty.
    labels
        Rows of scope ``handoff`` say which silent handoffs were lost, which were good, and which to leave out.
    settings
        Beta, delta, caps, seed.

    Raises
    ------
    InputError
        For labels of handoffs that are not in the data, and labels that contradict each other.
    """
    tables = {
        "ack_limits": ACK_LIMITS.to_frame(),
        "ack_curves": ACK_CURVE.to_frame(),
        "ack_checks": ACK_CHECKS.to_frame(),
        "ack_labelled": LIMIT_TABLE.to_frame(),
        "evidence_window": EVIDENCE_WINDOW.to_frame(),
    }
    told = labels.filter(pl.col("scope") == str(Scope.HANDOFF))
    watched = observed_until_from(told.lazy())
    times = ack_times(handoffs(receipts.lazy()), observed_until=watched).collect()
    if told.height:
        claims = handoff_claims(told, times.select(_HANDOFF))
        excluded = claims.filter(pl.col("label") == str(State.EXCLUDE)).select(_HANDOFF)
        receipts = receipts.join(excluded, on=_HANDOFF, how="anti")
        times = _left_out(times, excluded)
        silent = labelled_silence(times, told)
        if not silent.filter(~pl.col("lost")).is_empty():
            candidates = [1_000_000 * s for s in _CANDIDATES_S]
            tables["ack_labelled"] = limit_table(
                silent, candidates, max_fpr=settings.beta, delta=settings.delta
            )
    if times.is_empty():
        return HandoffTables(tables=tables, profile={})
    found = ack_limits(times, settings)
    window = evidence_window(progress_gaps(receipts.lazy()).collect(), settings)
    tables |= {"ack_limits": found.limits, "ack_curves": found.curves, "ack_checks": found.checks}
    tables["evidence_window"] = window.window
    limits = {**found.settings(), **window.settings()}
    profile = {"handoffs": limits} if limits else {}
    made = how_limits_were_made(found.limits, settings)
    return HandoffTables(tables=tables, profile={**profile, "acknowledgement": made})


def _left_out(times: pl.DataFrame, excluded: pl.DataFrame) -> pl.DataFrame:
    """Mark the silences of handoffs that a label excludes."""
    marked = times.join(excluded.with_columns(told=True), on=_HANDOFF, how="left", maintain_order="left")
    reason = pl.when(pl.col("told").fill_null(False)).then(pl.lit("excluded")).otherwise("left_out")
    return marked.with_columns(left_out=reason).drop("told")


def how_limits_were_made(limits: pl.DataFrame, settings: AckSettings) -> dict[str, Any]:
    """Return the profile's ``[acknowledgement]``: beta and delta, and each cap with what the data say of it.

    Parameters
    ----------
    limits
        `agentlens.calibrate.latency.ACK_LIMITS`.
    settings
        What was asked for.

    Returns
    -------
    dict
        ``conflicts``: classes whose limit exceeds their cap, for a person to settle: ``[handoffs]`` holds the limit.
        ``silent_at_cap``: share of good deliveries that are still silent at the cap. Empty without limits.
    """
    if limits.is_empty():
        return {}
    capped = limits.filter(pl.col("cap_us").is_not_null()).sort("urgency")
    made: dict[str, Any] = {"beta": settings.beta, "delta": settings.delta, "seed": settings.seed}
    if capped.is_empty():
        return made
    silent = capped.filter(pl.col("silent_at_cap").is_not_null())
    return {
        **made,
        "conflicts": capped.filter(pl.col("cap_conflict").fill_null(value=False))["urgency"].to_list(),
        "caps_s": {row["urgency"]: row["cap_us"] / 1e6 for row in capped.iter_rows(named=True)},
        "silent_at_cap": {row["urgency"]: row["silent_at_cap"] for row in silent.iter_rows(named=True)},
    }


def cap_conflicts(profile: Mapping[str, Any]) -> list[str]:
    """Say each cap that a profile's limit exceeds, a line a class; wrong types say nothing.

    Examples
    --------
    >>> cap_conflicts({"handoffs": {"ack_limits": {"page": 74.5}}, "acknowledgement": {
    ...     "conflicts": ["page"], "caps_s": {"page": 30.0}, "silent_at_cap": {"page": 0.31}}})
    ['page: the limit, 74.5 s, exceeds the cap of 30 s; at the cap 31.0% of good deliveries are still silent']
    """
    told, held = profile.get("acknowledgement"), profile.get("handoffs")
    if (
        not isinstance(told, dict)
        or not isinstance(held, dict)
        or not isinstance(told.get("conflicts"), list)
    ):
        return []
    limits, lines = {POOLED: held.get("ack_limit_s"), **_table(held, "ack_limits")}, []
    for name in map(str, told["conflicts"]):
        limit, cap = limits.get(name), _table(told, "caps_s").get(name)
        share = _table(told, "silent_at_cap").get(name)
        if not isinstance(limit, int | float) or not isinstance(cap, int | float):
            continue
        still = (
            f"; at the cap {share:.1%} of good deliveries are still silent"
            if isinstance(share, float)
            else ""
        )
        lines.append(f"{name}: the limit, {limit:g} s, exceeds the cap of {cap:g} s{still}")
    return lines


def _table(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = table.get(name)
    return found if isinstance(found, dict) else {}
