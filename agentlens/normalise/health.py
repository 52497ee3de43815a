"""Is the evidence fit for verdicts? Counts per tool, and warnings where an answer would mean little.

Pure expressions over the event table: lazy in, lazy out, integers only; a rate is always two counts.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from agentlens.model.event import ACTIONS

LANE: Final = ("run_id", "agent")

REASONS: Final = {
    "signatures_missing": "arguments are not exported: repetition cannot be seen",
    "signatures_never_repeat": "no two calls are equal: an argument is probably volatile (add it to the tables)",
    "fingerprints_missing": "results are not exported or redacted: verdicts will be uncertain",
    "evidence_always_changes": "equal calls never see equal results: they probably hold a clock or an id (add a mask)",
    "evidence_never_changes": "different calls always see the same result: it does not show progress",
    "errors_without_policy": "calls fail and no retry policy is declared: retries cannot be told from loops",
    "waits_without_lease": "waiting is seen and no owner or deadline is declared: it cannot be honoured",
    "times_missing": "events carry no time: leases and gaps between attempts cannot be judged",
}
"""What each warning means and what to do about it."""

COUNTS: Final = pl.Schema(
    {
        "tool": pl.String(),
        "events": pl.Int64(),
        "runs": pl.Int64(),
        "signatures": pl.Int64(),
        "distinct_signatures": pl.Int64(),
        "fingerprints": pl.Int64(),
        "distinct_fingerprints": pl.Int64(),
        "pairs": pl.Int64(),
        "pairs_changed": pl.Int64(),
        "errors": pl.Int64(),
        "policies": pl.Int64(),
        "waits": pl.Int64(),
        "leases": pl.Int64(),
        "timed": pl.Int64(),
    }
)
"""``signatures`` and ``fingerprints`` count known ones; ``pairs``: an action and its last equal one in the lane,
both with known evidence; ``pairs_changed``: those whose evidence differs."""

WARNINGS: Final = pl.Schema(
    {
        "tool": pl.String(),
        "reason": pl.String(),
        "counted": pl.Int64(),
        "of": pl.Int64(),
        "meaning": pl.String(),
    }
)
"""``counted`` of ``of`` events (or pairs) of the tool show it."""


def tool_counts(events: pl.LazyFrame, actions: tuple[str, ...] = ACTIONS) -> pl.LazyFrame:
    """Count, per tool, what signatures, evidence, times and declarations there are.

    Parameters
    ----------
    events : LazyFrame with the columns of `agentlens.model.event.EVENTS`
    actions : kinds that count as actions

    Returns
    -------
    LazyFrame
        Schema `COUNTS`, sorted by tool.

    """
    signature, evidence = pl.col("action_signature"), pl.col("progress_fingerprint")
    same = [*LANE, "tool", "action_signature"]
    before = evidence.shift(1).over(same, order_by="seq")
    pair = signature.is_not_null() & evidence.is_not_null() & before.is_not_null()
    return (
        events.filter(pl.col("kind").is_in(actions))
        .with_columns(pair=pair, changed=pair & (evidence != before))
        .group_by("tool")
        .agg(
            events=pl.len(),
            runs=pl.col("run_id").n_unique(),
            signatures=signature.count(),
            distinct_signatures=signature.drop_nulls().n_unique(),
            fingerprints=evidence.count(),
            distinct_fingerprints=evidence.drop_nulls().n_unique(),
            pairs=pl.col("pair").sum(),
            pairs_changed=pl.col("changed").sum(),
            errors=pl.col("error_class").count(),
            policies=pl.col("retry_policy").is_not_null().sum(),
            waits=pl.col("pause").fill_null(False).sum(),
            leases=pl.col("lease").is_not_null().sum(),
            timed=pl.col("at").count(),
        )
        .select(pl.col(name).cast(dtype) for name, dtype in COUNTS.items())
        .sort("tool")
    )


def health(
    events: pl.LazyFrame, *, min_events: int = 20, min_pairs: int = 10, missing_percent: int = 20
) -> pl.LazyFrame:
    """Warn per tool where verdicts would rest on little.

    Parameters
    ----------
    events : LazyFrame with the columns of `agentlens.model.event.EVENTS`
    min_events : int
        Fewer events of a tool give no warning about repetition or constant evidence.
    min_pairs : int
        Fewer pairs of equal calls give no warning about evidence that always changes.
    missing_percent : int
        From this share of events without signature, fingerprint or time on, it is said.

    Returns
    -------
    LazyFrame
        Schema `WARNINGS`, sorted by tool and reason; empty where all is well.

    """
    counts = tool_counts(events)
    many = pl.col("events") >= min_events
    found = [
        _missing(counts, "signatures_missing", "signatures", missing_percent),
        _missing(counts, "fingerprints_missing", "fingerprints", missing_percent),
        _missing(counts, "times_missing", "timed", missing_percent),
        _warning(
            counts.filter(
                many,
                pl.col("signatures") >= min_events,
                pl.col("distinct_signatures") == pl.col("signatures"),
            ),
            "signatures_never_repeat",
            "distinct_signatures",
            "signatures",
        ),
        _warning(
            counts.filter(pl.col("pairs") >= min_pairs, pl.col("pairs_changed") == pl.col("pairs")),
            "evidence_always_changes",
            "pairs_changed",
            "pairs",
        ),
        _warning(
            counts.filter(
                pl.col("fingerprints") >= min_events,
                pl.col("distinct_fingerprints") == 1,
                pl.col("distinct_signatures") > 1,
            ),
            "evidence_never_changes",
            "fingerprints",
            "events",
        ),
        _warning(
            counts.filter(pl.col("errors") > 0, pl.col("policies") == 0),
            "errors_without_policy",
            "errors",
            "events",
        ),
        _warning(
            counts.filter(pl.col("waits") > 0, pl.col("leases") == 0),
            "waits_without_lease",
            "waits",
            "events",
        ),
    ]
    return pl.concat(found).sort("tool", "reason")


def _missing(counts: pl.LazyFrame, reason: str, known: str, percent: int) -> pl.LazyFrame:
    absent = pl.col("events") - pl.col(known)
    short = counts.with_columns(absent=absent).filter(
        pl.col("absent") > 0, pl.col("absent") * 100 >= pl.col("events") * percent
    )
    return _warning(short, reason, "absent", "events")


def _warning(rows: pl.LazyFrame, reason: str, counted: str, of: str) -> pl.LazyFrame:
    return rows.select(
        "tool",
        reason=pl.lit(reason),
        counted=pl.col(counted),
        of=pl.col(of),
        meaning=pl.lit(REASONS[reason]),
    )
