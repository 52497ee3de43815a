"""Acknowledgement limits held against labelled handoffs: which of the silent ones were lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens.calibrate.ack_times import ACKNOWLEDGED, used
from agentlens.calibrate.bootstrap import FEW_GROUPS
from agentlens.calibrate.certificate import check_limits, p_bet, p_binomial, walk_chain
from agentlens.calibrate.intervals import clopper_pearson
from agentlens.calibrate.labels import conform_labels, listed
from agentlens.calibrate.truth import strongest
from agentlens.errors import InputError, SettingsError
from agentlens.model.label import Scope, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

LABELLED_SILENCE = pl.Schema(
    {
        "operation_id": pl.String(),
        "handoff_id": pl.String(),
        "urgency": pl.String(),
        "task_group": pl.String(),
        "lost": pl.Boolean(),
        "silent_us": pl.Int64(),
        "acknowledged": pl.Boolean(),
        "kind": pl.String(),
    }
)
"""One row a labelled handoff with a silence. ``lost``: labelled an incident and never acknowledged. Handoffs that
were labelled an incident for what happened after their acknowledgement are good deliveries here."""

LIMIT_TABLE = pl.Schema(
    {
        "limit_us": pl.Int64(),
        "lost": pl.Int64(),
        "found": pl.Int64(),
        "found_low": pl.Float64(),
        "found_high": pl.Float64(),
        "delivered": pl.Int64(),
        "false_alarms": pl.Int64(),
        "not_known": pl.Int64(),
        "false_low": pl.Float64(),
        "false_high": pl.Float64(),
        "groups": pl.Int64(),
        "p_value": pl.Float64(),
        "certified": pl.Boolean(),
    }
)
"""One row a candidate limit, longest (strictest) first. ``false_alarms``: good deliveries still silent after the limit;
``not_known``: of them, those whose observation ended before it: counted as false alarms. ``p_value``: of "the true
false-alarm rate exceeds the limit allowed", per task group; ``certified``: along the chain from the longest limit."""


def labelled_silence(times: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """Join silences with handoff labels (`LABELLED_SILENCE`, sorted).

    Parameters
    ----------
    times
        Schema `ACK_TIMES`.
    labels
        Label rows; those of scope ``handoff`` are read, as `handoff_claims` does; ``exclude`` is left out.

    Raises
    ------
    InputError
        When a label names no handoff of the data, or two labels of one handoff contradict each other.
    """
    every = handoff_claims(labels, times.select("operation_id", "handoff_id"))
    every = every.filter(pl.col("label") != str(State.EXCLUDE))
    silent = pl.col("ended") != ACKNOWLEDGED
    return (
        used(times)
        .join(every, on=["operation_id", "handoff_id"])
        .with_columns(
            lost=silent & (pl.col("label") == "incident"),
            acknowledged=~silent,
            task_group=pl.coalesce("task_group", "cluster"),
        )
        .select(pl.col(name).cast(dtype) for name, dtype in LABELLED_SILENCE.items())
        .sort("operation_id", "handoff_id")
    )


def handoff_claims(labels: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """What the strongest labels say of each handoff (``operation_id, handoff_id, label, kind, task_group``, sorted).

    Parameters
    ----------
    labels
        `agentlens.model.label.LABELS`; rows of scope ``handoff`` are read. One without ``handoff_id`` speaks of every
        attempt of its operation that no other names.
    attempts
        ``operation_id, handoff_id`` of the handoffs there are.

    Raises
    ------
    InputError
        When a label names no handoff of the data, or two labels of one handoff contradict each other.
    """
    mine = conform_labels(labels.filter(pl.col("scope") == str(Scope.HANDOFF)))
    told = strongest(mine).select("operation_id", "handoff_id", "label", "kind", "task_group")
    exact = told.filter(pl.col("handoff_id").is_not_null())
    whole = told.filter(pl.col("handoff_id").is_null()).drop("handoff_id")
    attempts = attempts.unique()
    _all_known(exact, attempts, ["operation_id", "handoff_id"])
    _all_known(whole, attempts, ["operation_id"])
    spread = whole.join(attempts, on="operation_id").join(
        exact, on=["operation_id", "handoff_id"], how="anti"
    )
    every = pl.concat([exact, spread], how="diagonal").unique(maintain_order=True)
    twice = every.group_by("operation_id", "handoff_id").agg(pl.col("label").n_unique().alias("n"))
    clash = twice.filter(pl.col("n") > 1).sort("operation_id", "handoff_id")
    if clash.height:
        names = listed([f"{a}/{b}" for a, b, _ in clash.rows()])
        raise InputError.at("labels", f"contradict each other for {names}", accepted="one label a handoff")
    one = every.unique(subset=["operation_id", "handoff_id"], keep="first", maintain_order=True)
    return one.sort("operation_id", "handoff_id")


def _all_known(told: pl.DataFrame, attempts: pl.DataFrame, on: list[str]) -> None:
    unknown = told.join(attempts, on=on, how="anti").unique().sort(on)
    if unknown.height:
        names = listed(["/".join(row) for row in unknown.select(on).rows()])
        raise InputError.at(
            "labels", f"no handoff for {names}", accepted="operations and handoffs that the receipts have"
        )


def limit_table(
    rows: pl.DataFrame, limits_us: Sequence[int], *, max_fpr: float = 0.05, delta: float = 0.05
) -> pl.DataFrame:
    """What each limit would have found and falsely raised (`LIMIT_TABLE`), tested along the chain.

    Parameters
    ----------
    rows
        `LABELLED_SILENCE`.
    limits_us
        Candidate limits, fixed before the labels are read; any order.
    max_fpr, delta
        Largest share of good deliveries (averaged over task groups) that may raise an alarm, and the chance of being
        wrong about that.

    Raises
    ------
    SettingsError
        Without good deliveries or candidates, or for a limit of 0 or 1.
    """
    check_limits(max_fpr, delta)
    good = rows.filter(~pl.col("lost"))
    if not good.height or not limits_us:
        raise SettingsError.value(
            "good deliveries, limits",
            (good.height, len(limits_us)),
            "at least one labelled healthy, one limit",
        )
    lost = rows.filter("lost")["silent_us"].to_numpy()
    chain = sorted(set(limits_us), reverse=True)
    found = [_one_limit(good, lost, limit, max_fpr) for limit in chain]
    for row, step in zip(found, walk_chain([row["p_value"] for row in found], delta), strict=True):
        row["certified"] = step.certified
    return pl.DataFrame(found, schema=LIMIT_TABLE)


def _one_limit(good: pl.DataFrame, lost: NDArray[np.int64], limit: int, alpha: float) -> dict[str, Any]:
    late = pl.col("silent_us") > limit
    # not acknowledged within what was watched: it may have been silent past the limit, so it counts as an alarm
    unknown = ~pl.col("acknowledged") & ~late
    marked = good.with_columns(late=late | unknown, unknown=unknown)
    per_group = marked.group_by("task_group").agg(pl.col("late").mean().alias("loss")).sort("task_group")
    false, groups = int(marked["late"].sum()), per_group.height
    rate = clopper_pearson(false, good.height)
    hits = clopper_pearson(int((lost > limit).sum()), lost.size)
    one_each = groups == good.height
    p = p_binomial(false, groups, alpha) if one_each else p_bet(per_group["loss"].to_numpy(), alpha)
    return {
        "limit_us": limit,
        "lost": lost.size,
        "found": int(hits.count),
        "found_low": hits.low,
        "found_high": hits.high,
        "delivered": good.height,
        "false_alarms": false,
        "not_known": int(marked["unknown"].sum()),
        "false_low": rate.low if one_each or groups >= FEW_GROUPS else None,
        "false_high": rate.high if one_each or groups >= FEW_GROUPS else None,
        "groups": groups,
        "p_value": p,
    }
