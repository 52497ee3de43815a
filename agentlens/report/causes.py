"""Why a false alert came: one cause each, the first that fits (CALIBRATION section 5, part 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from agentlens.model.label import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentlens.report.cases import Bench
    from agentlens.report.evaluation import Evaluation

CAUSES: Final[dict[str, str]] = {
    "label in doubt": "a weak label, or something outside the agent says that the run failed: look at the label first",
    "open handoff": "a handoff of the run was out and within its limit: link the receipt, or declare the wait",
    "poll": "the same question later got another answer: declare a wait with owner and deadline, or exempt the tool",
    "evidence missing or coarse": "its results never show progress, or were not compared: finer evidence",
    "distinct actions merged": "arguments that the shipped tables tell apart have one signature: keep the field",
    "retry that succeeded": "the action failed, was tried again and worked: declare the retry policy",
    "idempotent sweep": "only looks and checks, nothing was changed: patrols repeat by nature",
    "chance": "so short a repetition is to be expected among so many actions: a stricter threshold",
    "unexplained": "none of the above: read the case",
}
"""Every cause with what to do about it, in the order in which they are tried."""

FALSE_ALERTS = pl.Schema(
    {
        "run_id": pl.String(),
        "agent": pl.String(),
        "onset_seq": pl.Int64(),
        "alert_seq": pl.Int64(),
        "place": pl.String(),
        "cause": pl.String(),
    }
)
"""One row a false alert, sorted."""

COMPARED: Final = 500
"""So many false alerts at most have their arguments read again."""
_EXPECTED: Final = 1.0
"""Chance is the cause where at least so many alerts like this one are expected among the healthy actions."""


def causes(bench: Bench, evaluation: Evaluation) -> pl.DataFrame:
    """Give each false alert the first cause that fits (`FALSE_ALERTS`)."""
    wrong = evaluation.alerts.filter(pl.col("false"))
    key = ["run_id", "agent", "alert_seq"]
    rows = bench.episodes.join(wrong.select(*key, "place"), on=key).sort(key)
    doubtful = _doubtful_runs(bench, evaluation)
    coarse = _coarse_tools(bench)
    healthy = int(evaluation.rates["healthy_events"][0])
    lanes = _lanes(bench, rows)
    asked = _arguments(bench, lanes, rows)
    told = [
        (
            *(row[name] for name in ("run_id", "agent", "onset_seq", "alert_seq", "place")),
            _cause(
                bench,
                row,
                lane=lanes[row["run_id"], row["agent"]],
                doubtful=row["run_id"] in doubtful,
                coarse=coarse,
                healthy=healthy,
                asked=asked,
            ),
        )
        for row in rows.iter_rows(named=True)
    ]
    return pl.DataFrame(told, schema=FALSE_ALERTS, orient="row")


def _lanes(bench: Bench, rows: pl.DataFrame) -> dict[tuple[str, str], pl.DataFrame]:
    """Actions of each lane of the alerts, in order."""
    key = ["run_id", "agent"]
    acts = bench.events.filter(pl.col("kind").is_in(bench.made.actions)).join(
        rows.select(key), on=key, how="semi"
    )
    return {
        (run, agent): lane for (run, agent), lane in acts.sort(*key, "seq").group_by(key, maintain_order=True)
    }


def _arguments(
    bench: Bench, lanes: Mapping[tuple[str, str], pl.DataFrame], rows: pl.DataFrame
) -> Mapping[tuple[str, str, int], str]:
    """Digests of the arguments inside the first alerts, of as many events as their sources still tell."""
    if bench.made.arguments is None or rows.is_empty():
        return {}
    spans = zip(*rows.head(COMPARED).select("run_id", "agent", "onset_seq", "alert_seq"), strict=True)
    inside = [
        lanes[run, agent].filter(pl.col("seq").is_between(onset, alert)) for run, agent, onset, alert in spans
    ]
    wanted = pl.concat(inside).select("run_id", "agent", "seq", "kind", "source")
    return bench.made.arguments(wanted.unique().sort("run_id", "agent", "seq"))


def _cause(
    bench: Bench,
    row: dict[str, Any],
    lane: pl.DataFrame,
    *,
    doubtful: bool,
    coarse: set[str],
    healthy: int,
    asked: Mapping[tuple[str, str, int], str],
) -> str:
    inside = lane.filter(pl.col("seq").is_between(row["onset_seq"], row["alert_seq"]))
    looped = inside.filter(pl.col("action_signature").is_in(row["lap_signatures"]))
    later = lane.filter(
        (pl.col("seq") > row["alert_seq"]) & pl.col("action_signature").is_in(row["lap_signatures"])
    )
    fits: Mapping[str, bool] = {
        "label in doubt": doubtful,
        "open handoff": _open_handoff(bench, row),
        "poll": _polled(row, looped, later),
        "evidence missing or coarse": _coarse(bench, row, coarse),
        "distinct actions merged": _merged(looped, asked),
        "retry that succeeded": _retried(looped, later),
        "idempotent sweep": _looks_only(looped),
        "chance": _by_chance(bench, row, healthy),
    }
    return next((name for name, fit in fits.items() if fit), "unexplained")


def _doubtful_runs(bench: Bench, evaluation: Evaluation) -> set[str]:
    weak = set(evaluation.labels.filter(pl.col("source") == str(Origin.WEAK))["run_id"])
    claims = bench.made.boundaries.get("claims")
    failed = set() if claims is None else set(claims.filter(pl.col("outcome") == "failed")["run_id"])
    return weak | failed


def _coarse_tools(bench: Bench) -> set[str]:
    found = bench.made.health.filter(
        pl.col("reason").is_in(["evidence_never_changes", "fingerprints_missing"])
    )
    return set(found["tool"])


def _open_handoff(bench: Bench, row: dict[str, Any]) -> bool:
    handoffs, at = bench.made.boundaries.get("handoffs"), row["alert_at"]
    if handoffs is None or at is None:
        return False
    closed = pl.min_horizontal("completed_at", "verified_at", "closed_at")
    limit = pl.col("delegated_at") + pl.duration(microseconds=pl.col("ack_limit_us"))
    waits = (
        pl.when(pl.col("accepted_at").is_null() | (pl.col("accepted_at") > at))
        .then(limit >= at)
        .otherwise(True)
    )
    mine = handoffs.filter(
        (pl.col("run_id") == row["run_id"])
        & (pl.col("delegated_at") <= at)
        & (closed.is_null() | (closed > at))
        & waits
    )
    return mine.height > 0


def _polled(row: dict[str, Any], looped: pl.DataFrame, later: pl.DataFrame) -> bool:
    """Nothing was changed, and the same action saw something new in the end; or an explicit pause is part of it."""
    if looped["pause"].any():
        return True
    changes = looped["change"].fill_null(value=False).any()
    seen = set(row["lap_fingerprints"] or ())
    failed = looped["error_class"].is_not_null().all()
    return not changes and not failed and bool(set(later["progress_fingerprint"].drop_nulls()) - seen)


def _coarse(bench: Bench, row: dict[str, Any], coarse: set[str]) -> bool:
    if any(tool in coarse for tool in row["tools"] or ()):
        return True
    rule = bench.made.book.default
    known = {digest for digest in row["lap_fingerprints"] or () if digest}
    return rule.evidence == "none" and not known


def _merged(looped: pl.DataFrame, asked: Mapping[tuple[str, str, int], str]) -> bool:
    """One signature, and arguments that the shipped tables tell apart."""
    seen: dict[str, set[str]] = {}
    for run, agent, seq, signature in looped.select("run_id", "agent", "seq", "action_signature").iter_rows():
        digest = asked.get((run, agent, seq))
        if digest is not None:
            seen.setdefault(signature, set()).add(digest)
    return any(len(digests) > 1 for digests in seen.values())


def _retried(looped: pl.DataFrame, later: pl.DataFrame) -> bool:
    return bool(looped["error_class"].is_not_null().any()) and bool(later["error_class"].is_null().any())


def _looks_only(looped: pl.DataFrame) -> bool:
    """Every step is known to change nothing, and none reaches out."""
    kept = looped.select(pl.col("change").eq_missing(False), pl.col("external").fill_null(value=False))
    return bool(looped.height and kept["change"].all() and not kept["external"].any())


def _by_chance(bench: Bench, row: dict[str, Any], healthy: int) -> bool:
    period = row["period"]
    if period > len(bench.distinct):
        return False
    mine = bench.stuck.filter((pl.col("episode") == row["episode"]) & (pl.col("period") == period))
    compared = max(mine["stretch"].to_list()) - period
    evidence = 1.0 if bench.made.book.default.evidence == "none" else bench.unchanged
    expected = healthy * (evidence / bench.distinct[period - 1]) ** compared
    return bool(expected >= _EXPECTED)


def cause_counts(found: pl.DataFrame) -> pl.DataFrame:
    """``cause, alerts, share, example, what``: every cause, in order, with the run of its first alert."""
    first = found.group_by("cause").agg(alerts=pl.len().cast(pl.Int64), example=pl.col("run_id").first())
    frame = pl.DataFrame({"cause": list(CAUSES), "what": list(CAUSES.values())})
    total = max(found.height, 1)
    return (
        frame.join(first, on="cause", how="left", maintain_order="left")
        .with_columns(pl.col("alerts").fill_null(0))
        .with_columns((pl.col("alerts") / total).alias("share"))
        .select("cause", "alerts", "share", "example", "what")
    )
