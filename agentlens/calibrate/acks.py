"""Limits of handoffs from the receipts of the data: every table, and the profile's ``[handoffs]``."""

from __future__ import annotations

from typing import Any

import polars as pl

from agentlens.calibrate.ack_checks import ACK_CHECKS
from agentlens.calibrate.ack_times import ack_times, observed_until_from
from agentlens.calibrate.evidence_window import EVIDENCE_WINDOW, evidence_window, progress_gaps
from agentlens.calibrate.handoff_labels import LIMIT_TABLE, handoff_claims, labelled_silence, limit_table
from agentlens.calibrate.latency import ACK_CURVE, ACK_LIMITS, AckSettings, ack_limits
from agentlens.detect.handoffs import handoffs
from agentlens.model.label import Scope, State

_HANDOFF = ("operation_id", "handoff_id")
_CANDIDATES_S = (5, 10, 15, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1800, 3600)


def handoff_tables(
    receipts: pl.DataFrame, labels: pl.DataFrame, settings: AckSettings
) -> tuple[dict[str, pl.DataFrame], dict[str, Any]]:
    """Calibrate acknowledgement limits and the evidence window.

    Parameters
    ----------
    receipts
        Native receipts (`agentlens.model.receipt.RECEIPTS`); without any every table is empty.
    labels
        Rows of scope ``handoff`` say which silent handoffs were lost, which were good, and which to leave out.
    settings
        Beta, delta, caps, seed.

    Returns
    -------
    tables, limits
        ``ack_limits, ack_curves, ack_checks, ack_labelled, evidence_window``, and what goes into ``[handoffs]``.

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
    limits: dict[str, Any] = {}
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
        return tables, limits
    found = ack_limits(times, settings)
    window = evidence_window(progress_gaps(receipts.lazy()).collect(), settings)
    tables |= {"ack_limits": found.limits, "ack_curves": found.curves, "ack_checks": found.checks}
    tables["evidence_window"] = window.window
    return tables, {**found.settings(), **window.settings()}


def _left_out(times: pl.DataFrame, excluded: pl.DataFrame) -> pl.DataFrame:
    """Mark the silences of handoffs that a label excludes."""
    marked = times.join(excluded.with_columns(told=True), on=_HANDOFF, how="left", maintain_order="left")
    reason = pl.when(pl.col("told").fill_null(False)).then(pl.lit("excluded")).otherwise("left_out")
    return marked.with_columns(left_out=reason).drop("told")
