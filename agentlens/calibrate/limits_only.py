"""A calibration without a loop rule: of data that hold receipts alone, or with labels of handoffs alone.

Limits of handoffs need neither actions nor labels. The loop part is then refused with its reason, never guessed: the
profile has no ``[default]``, so ``loops`` refuses it, and ``handoffs`` uses its ``[handoffs]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens.calibrate.calibrate import SETTINGS
from agentlens.calibrate.certificate import Status
from agentlens.calibrate.chance import CHANCE
from agentlens.calibrate.counterfactual import COUNTERFACTUALS
from agentlens.calibrate.delay import DETECTION, DETECTION_CURVE
from agentlens.calibrate.drift import DRIFT
from agentlens.calibrate.labels import labels_digest
from agentlens.calibrate.measures import MEASURES
from agentlens.calibrate.near_misses import NEAR_MISSES
from agentlens.calibrate.nested import NESTED
from agentlens.calibrate.pareto import AMOC, STABILITY
from agentlens.calibrate.ppv import PREDICTIVE
from agentlens.calibrate.rates import RATES
from agentlens.calibrate.recommend import CERTIFICATE
from agentlens.calibrate.splits import PLACED
from agentlens.calibrate.views import CASES, MISSED
from agentlens.model.event import EVENTS
from agentlens.model.label import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_RULE = {"rule": pl.String()}
_LOOP_TABLES = {
    "rates": RATES,
    "measures": pl.Schema({**_RULE, **MEASURES}),
    "test": RATES,
    "certificate": CERTIFICATE,
    "nested": NESTED,
    "settings": SETTINGS,
    "splits": pl.Schema({**PLACED, "state": pl.String()}),
    "cases": CASES,
    "missed": MISSED,
    "near_misses": NEAR_MISSES,
    "detection": pl.Schema({**_RULE, **DETECTION, "onset": pl.String()}),
    "detection_curve": pl.Schema({**_RULE, **DETECTION_CURVE}),
    "stability": STABILITY,
    "amoc": AMOC,
    "chance": CHANCE,
    "predictive": pl.Schema({**_RULE, **PREDICTIVE}),
    "drift": DRIFT,
    "counterfactuals": COUNTERFACTUALS,
}


def has_actions(parts: Sequence[pl.LazyFrame], actions: Sequence[str]) -> bool:
    """Whether some event of the data is of a kind that takes part in cycles."""
    kinds = [str(kind) for kind in actions]
    return any(
        part.filter(pl.col("kind").cast(pl.String).is_in(kinds)).head(1).collect().height
        for part in parts
        if set(part.collect_schema().names()) & set(EVENTS) >= {"run_id", "kind"}
    )


def why_no_rule(labels: pl.DataFrame, receipts: pl.DataFrame, *, actions: bool) -> str | None:
    """Say why there can be no loop rule although limits of handoffs are asked for; None where a rule is the question.

    Parameters
    ----------
    labels
        `agentlens.model.label.LABELS`. One about a run asks for a rule: what is wrong with it is then an error.
    receipts
        `agentlens.model.receipt.RECEIPTS`.
    actions
        `has_actions` of the events.
    """
    if receipts.is_empty() or not labels.filter(pl.col("scope") != str(Scope.HANDOFF)).is_empty():
        return None
    if not actions:
        return "the data hold receipts and no action of a run"
    return None if labels.is_empty() else "every label is about a handoff, none about a run"


def loop_tables() -> dict[str, pl.DataFrame]:
    """Return every table of the loop part, without rows."""
    return {name: schema.to_frame() for name, schema in _LOOP_TABLES.items()}


def limits_profile(
    labels: pl.DataFrame,
    reason: str,
    versions: Mapping[str, str],
    made: Mapping[str, Any],
) -> dict[str, dict[str, Any]]:
    """Return the tables of a profile that holds no rule, without those of handoffs.

    Parameters
    ----------
    labels
        Labels of handoffs, or none.
    reason
        From `why_no_rule`.
    versions, made
        What the limits hold for and how they were made.
    """
    return {
        "profile": {"status": str(Status.INFEASIBLE), "reason": reason},
        "versions": {**versions, "labels": labels_digest(labels)},
        "made": {
            "label_sources": sorted(set(labels["source"].cast(pl.String).to_list())),
            **made,
        },
    }
