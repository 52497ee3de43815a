"""What the shown rules of a calibration find and cost: measures, detection, trade-offs, predictive values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from agentlens.calibrate import views
from agentlens.calibrate.delay import (
    DETECTION,
    DETECTION_CURVE,
    detection,
    detection_curve,
    found_at_all,
)
from agentlens.calibrate.incident_delays import ONSETS, incident_delays
from agentlens.calibrate.intervals import clopper_pearson
from agentlens.calibrate.measures import MEASURES, measures
from agentlens.calibrate.pareto import AMOC, STABILITY, amoc, selection_stability
from agentlens.calibrate.ppv import PREDICTIVE, predictive_values

if TYPE_CHECKING:
    from agentlens.calibrate.calibrate import LoopCalibration


def trade_offs(found: LoopCalibration, seen: tuple[str, ...]) -> dict[str, pl.DataFrame]:
    """Return ``measures, detection, detection_curve, predictive, stability, amoc`` of the shown rules and the chain.

    Parameters
    ----------
    found
        A calibration.
    seen
        Splits that are looked at.
    """
    goal, rule = found.plan.goal, pl.lit(None, pl.String).alias("rule")
    frames = {
        "measures": [MEASURES.to_frame().with_columns(rule)],
        "detection": [DETECTION.to_frame().with_columns(rule, pl.lit(None, pl.String).alias("onset"))],
        "detection_curve": [DETECTION_CURVE.to_frame().with_columns(rule)],
        "predictive": [PREDICTIVE.to_frame().with_columns(rule)],
    }
    for cell in found.shown():
        name = pl.lit(found.cells[cell].text).alias("rule")
        frames["measures"].append(
            measures(found.board, cell, seen, looking=goal.looking, seed=goal.seed).with_columns(name)
        )
        for onset in ONSETS:
            delays = incident_delays(found.board, cell, seen, onset)
            if delays.height:
                said = pl.lit(onset).alias("onset")
                summary = detection(delays, goal.looking.within_events, seed=goal.seed)
                frames["detection"].append(summary.with_columns(name, said))
            if delays.height and onset == "first":
                frames["detection_curve"].append(detection_curve(delays, seed=goal.seed).with_columns(name))
        row = found.rates.row(cell, named=True)
        if row["incidents"] and not row["incidents_with_onset"]:
            summary = found_at_all(row["detected"], row["incidents"])
            frames["detection"].append(summary.with_columns(name, pl.lit("unknown").alias("onset")))
        if row["healthy_groups"] and row["incidents"]:
            false = round(row["fpr"] * row["healthy_groups"])
            told = predictive_values(
                clopper_pearson(row["detected"], row["incidents"], 0.975),
                clopper_pearson(false, row["healthy_groups"], 0.975),
            )
            frames["predictive"].append(told.with_columns(name))
    tables = {key: pl.concat(parts).select("rule", pl.exclude("rule")) for key, parts in frames.items()}
    chosen = list(dict.fromkeys([*found.chain, *found.shown()]))
    beside = views.sample(found, chosen, seen)
    tables["stability"], tables["amoc"] = STABILITY.to_frame(), AMOC.to_frame()
    if beside is not None:
        tables["stability"] = selection_stability(beside, goal.max_fpr, seed=goal.seed)[0]
        tables["amoc"] = amoc(beside, seed=goal.seed)
    return tables
