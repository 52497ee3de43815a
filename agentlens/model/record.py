"""The record table: what readers found, digested, before records of one action are merged and ordered."""

from __future__ import annotations

import polars as pl

from agentlens.model.event import EVENTS

_DECIDED_LATER = ("seq", "progress_fingerprint", "fingerprint_version")

RECORDS = pl.Schema(
    {
        **{name: dtype for name, dtype in EVENTS.items() if name not in _DECIDED_LATER},
        "seq_given": pl.Int64(),
        "given_fingerprint": pl.String(),
        "has_given": pl.Boolean(),
        "observed_fingerprint": pl.String(),
        "durable_fingerprint": pl.String(),
        "observed_version": pl.String(),
        "durable_version": pl.String(),
        "identity": pl.String(),
        "session": pl.String(),
        "instance": pl.String(),
        "reader_rank": pl.Int64(),
        "source_id": pl.String(),
        "position": pl.Int64(),
        "position_in": pl.Int64(),
    }
)
"""One row a record, content-free. ``agent`` is null where it is inherited from an ancestor span.

``observed_fingerprint``: digest of the result; ``durable_fingerprint``: digest of the durable state after an
event that changes it, null elsewhere (carried forward when lanes are assembled). Which of the three becomes
`progress_fingerprint` is decided for a whole run: ``given`` if any of its records carries one.
"""
