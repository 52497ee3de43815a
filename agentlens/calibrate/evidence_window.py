"""The evidence window of accepted handoffs, from the gaps between signs of work (CALIBRATION section 2.5).

How old may the newest sign of work be before an accepted handoff is stuck? The same question as for
acknowledgements: gaps that end in another sign, gaps that something else ends, and the last gap, cut off by the end
of observation. Gaps of one handoff are one cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from agentlens.calibrate.quantile import follow_up, lost_share, upper_limit
from agentlens.calibrate.survival import Ended, Waits, incidence
from agentlens.detect.handoff_limits import to_us
from agentlens.model.event import TIME
from agentlens.model.receipt import ReceiptEvent

if TYPE_CHECKING:
    from datetime import datetime

    from agentlens.calibrate.latency import AckSettings

_HANDOFF: Final = ("operation_id", "handoff_id")
_STARTS: Final = ("accepted", "progress")
_SIGNS: Final = ("progress", "completed", "outcome_verified")
_ENDS: Final = ("completed", "rejected", "cancelled")

PROGRESS_GAPS = pl.Schema(
    {
        "operation_id": pl.String(),
        "handoff_id": pl.String(),
        "from_at": TIME,
        "gap_us": pl.Int64(),
        "ended": pl.String(),
        "watched_us": pl.Int64(),
    }
)
"""One row a gap, sorted. It begins with an acceptance, with progress, or where a declared wait ran out. ``ended``:
``sign`` (more progress, completion), ``other`` (a declared wait, rejection, cancellation) or ``silent`` (nothing)."""

EVIDENCE_WINDOW = pl.Schema(
    {
        "handoffs": pl.Int64(),
        "gaps": pl.Int64(),
        "signs": pl.Int64(),
        "silent": pl.Int64(),
        "competing": pl.Int64(),
        "follow_up": pl.String(),
        "stalled_share": pl.Float64(),
        "stalled_low": pl.Float64(),
        "stalled_high": pl.Float64(),
        "estimate_us": pl.Int64(),
        "limit_us": pl.Int64(),
        "method": pl.String(),
        "silent_at_limit": pl.Float64(),
        "note": pl.String(),
    }
)
"""One row. ``estimate_us``: the gap that all but beta of the gaps that ever end in a sign stay within; ``limit_us``:
its upper confidence limit. ``stalled_share``: share of gaps that never end, null where follow-up is short."""


@dataclass(frozen=True, kw_only=True)
class EvidenceWindow:
    """The window (`EVIDENCE_WINDOW`) and the gaps it rests on (`PROGRESS_GAPS`)."""

    window: pl.DataFrame
    gaps: pl.DataFrame

    def settings(self) -> dict[str, float]:
        """``evidence_window_s`` as the profile's table ``[handoffs]`` holds it; empty where the data give none."""
        limit = self.window["limit_us"][0]
        return {} if limit is None else {"evidence_window_s": limit / 1e6}


def progress_gaps(
    receipts: pl.LazyFrame, *, as_of: datetime | None = None, wait_limit_s: float = 86_400.0
) -> pl.LazyFrame:
    """Gaps between signs of work (schema `PROGRESS_GAPS`).

    Parameters
    ----------
    receipts
        Schema `RECEIPTS`; exact repetitions change nothing. Handoffs with an untimed receipt are left out, and so is
        what follows a completion.
    as_of
        When observation ended; the newest time in the data where None.
    wait_limit_s
        How long a declared wait without a deadline holds.
    """
    rank = {str(event): at for at, event in enumerate(ReceiptEvent)}
    end = pl.col("at").max() if as_of is None else pl.lit(as_of, dtype=TIME)
    rows = receipts.with_columns(as_of=end).filter(
        pl.col("event").is_in(list(rank)) & pl.col("at").is_not_null().all().over(_HANDOFF)
    )
    rows = rows.filter(pl.col("at") <= pl.col("as_of")).unique(subset=[*_HANDOFF, "at", "event"])
    order = pl.col("event").replace_strict(rank, return_dtype=pl.Int64)
    rows = rows.with_columns(rank=order).sort(*_HANDOFF, "at", "rank")
    rows = rows.with_columns(
        next_at=pl.col("at").shift(-1).over(_HANDOFF),
        next_event=pl.col("event").shift(-1).over(_HANDOFF),
        done=pl.col("event").is_in(_ENDS).cum_sum().over(_HANDOFF),
    ).with_columns(until=pl.coalesce("next_at", "as_of"))
    # a wait that ran out is followed by silence; one that a receipt ended goes on from that receipt
    ran_out = pl.coalesce("deadline", pl.col("at") + pl.duration(microseconds=to_us(wait_limit_s)))
    starts = (
        pl.when(pl.col("event").is_in(_STARTS))
        .then("at")
        .when((pl.col("event") == "waiting") & (ran_out < pl.col("until")))
        .then(pl.max_horizontal(ran_out, "at"))
    )
    gaps = rows.with_columns(from_at=starts).filter(pl.col("from_at").is_not_null() & (pl.col("done") == 0))
    return (
        gaps.with_columns(
            gap_us=(pl.col("until") - pl.col("from_at")).dt.total_microseconds(),
            watched_us=(pl.col("as_of") - pl.col("from_at")).dt.total_microseconds(),
            ended=pl.when(pl.col("next_event").is_in([*_SIGNS, *_STARTS]))
            .then(pl.lit("sign"))
            .when(pl.col("next_event").is_not_null())
            .then(pl.lit("other"))
            .otherwise(pl.lit("silent")),
        )
        .select(pl.col(name).cast(dtype) for name, dtype in PROGRESS_GAPS.items())
        .sort(*_HANDOFF, "from_at")
    )


def evidence_window(gaps: pl.DataFrame, settings: AckSettings | None = None) -> EvidenceWindow:
    """Calibrate the evidence window: upper limit of the gap that all but beta of good gaps stay within.

    Parameters
    ----------
    gaps
        Schema `PROGRESS_GAPS`.
    settings
        Beta, delta, draws and seed; caps are not looked at.
    """
    from agentlens.calibrate.latency import AckSettings

    chosen = settings or AckSettings()
    ended = gaps["ended"].replace_strict(
        {"silent": int(Ended.UNSEEN), "sign": int(Ended.EVENT), "other": int(Ended.COMPETING)},
        return_dtype=pl.Int64,
    )
    cluster = gaps.select(pl.struct(_HANDOFF).rank("dense").cast(pl.Int64)).to_series()
    waits = Waits(gaps["gap_us"].to_numpy(), ended.to_numpy(), cluster.to_numpy().astype(np.int64))
    followed = follow_up(waits, gaps["watched_us"].to_numpy())
    limit = upper_limit(
        waits, followed, beta=chosen.beta, delta=chosen.delta, draws=chosen.draws, seed=chosen.seed
    )
    told = followed in {"complete", "adequate"}
    share, low, high = lost_share(waits) if told else (None, None, None)
    curve = incidence(waits)
    row = {
        "handoffs": waits.groups,
        "gaps": waits.size,
        "signs": waits.events,
        "silent": int((waits.ended == Ended.UNSEEN).sum()),
        "competing": int((waits.ended == Ended.COMPETING).sum()),
        "follow_up": followed,
        "stalled_share": share,
        "stalled_low": low,
        "stalled_high": high,
        "estimate_us": limit.point,
        "limit_us": limit.limit,
        "method": limit.method,
        "silent_at_limit": None if limit.limit is None else curve.remaining_at(limit.limit),
        "note": _of_signs(limit.why),
    }
    return EvidenceWindow(window=pl.DataFrame([row], schema=EVIDENCE_WINDOW), gaps=gaps)


def _of_signs(why: str | None) -> str | None:
    """Say of signs of work what a limit says of acknowledgements."""
    for word, sign in (("acknowledgements", "signs of work"), ("an acknowledgement", "a sign of work")):
        why = why.replace(word, sign) if why else None
    return why
