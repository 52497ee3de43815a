"""Receipts as short tuples, for tests of handoff calibration."""

from __future__ import annotations

from typing import Any

import polars as pl

from agentlens.calibrate.ack_times import ack_times
from agentlens.detect.handoffs import handoffs
from agentlens.model.raw import RawReceipt
from agentlens.model.receipt import receipts_frame


def receipts(*rows: tuple[str, str, float], **more: Any) -> pl.DataFrame:
    """Rows of ``operation/attempt, event, at`` in seconds; the lead delegates to the worker."""
    raw = []
    for name, event, at in rows:
        operation, _, attempt = name.partition("/")
        author = "lead" if event in {"delegated", "cancelled"} else "worker"
        fields = {
            "operation_id": operation,
            "handoff_id": f"{operation}/{attempt or 1}",
            "event": event,
            "at": at,
            "author": author,
        }
        if event == "delegated":
            fields["recipient"] = "worker"
        raw.append(RawReceipt(fields=fields | more.get(event, {})))
    return receipts_frame(raw, source="r").frame


def silences(*rows: tuple[str, str, float], **settings: Any) -> pl.DataFrame:
    """`ACK_TIMES` of the receipts."""
    return ack_times(handoffs(receipts(*rows).lazy()), **settings).collect()
