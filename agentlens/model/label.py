"""Labels: what somebody asserts of a run, a stretch of it, a step, or a handoff (SPEC section 8).

``healthy`` is an assertion. A run without a label is neither healthy nor an incident.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

import polars as pl

from agentlens.model.event import TIME


class Scope(StrEnum):
    """What a label is about."""

    RUN = "run"
    INTERVAL = "interval"
    STEP = "step"
    HANDOFF = "handoff"


class State(StrEnum):
    """What is asserted."""

    INCIDENT = "incident"
    HEALTHY = "healthy"
    EXCLUDE = "exclude"


class Origin(StrEnum):
    """Where an assertion comes from, strongest first: of several about one run only the strongest counts."""

    HUMAN = "human"
    HARNESS = "harness"
    PLANTED = "planted"
    WEAK = "weak"


LABELS = pl.Schema(
    {
        "run_id": pl.String(),
        "agent": pl.String(),
        "operation_id": pl.String(),
        "handoff_id": pl.String(),
        "scope": pl.String(),
        "onset_seq": pl.Int64(),
        "onset_hi_seq": pl.Int64(),
        "end_seq": pl.Int64(),
        "onset_at": TIME,
        "end_at": TIME,
        "observed_until": TIME,
        "label_version": pl.String(),
        "label": pl.String(),
        "kind": pl.String(),
        "source": pl.String(),
        "reviewer": pl.String(),
        "found_by": pl.String(),
        "task_group": pl.String(),
    }
)
"""One row an assertion.

``onset_seq`` .. ``onset_hi_seq``: first and last event that may be the first of the first cycle; the second is the
first where it is null. ``end_seq`` is the last event of the incident, null for the end of the run. ``*_at`` say the
same by time. ``observed_until``: when somebody ended or stopped watching the run. ``agent`` null: every lane of the
run; empty: the lane of events without an agent. ``label_version``: a newer assertion of the same origin about the
same run replaces an older one whole.
"""


def labels_digest(labels: pl.DataFrame) -> str:
    """Digest of the assertions, whatever their order: the version that a profile records.

    Examples
    --------
    >>> labels_digest(LABELS.to_frame()) == labels_digest(LABELS.to_frame())
    True
    """
    ordered = labels.select(list(LABELS)).unique().sort(list(LABELS), nulls_last=False)
    plain = ordered.with_columns(
        pl.col(name).dt.epoch("us") for name, dtype in LABELS.items() if dtype == TIME
    )
    return hashlib.blake2b(plain.write_ndjson().encode(), digest_size=16).hexdigest()
