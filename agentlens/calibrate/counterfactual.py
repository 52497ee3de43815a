"""What would have cleared each false alert, and what it would have cost (CALIBRATION section 5, item 7).

An alert with period p whose stretch grew to m events is cleared by every threshold ``T_p > m``, and by looking for no
period of p or more. Each such change is a rule of its own: it is swept like any other, so its price is exact. Tools
whose equal results are no evidence, and retry policies, are changes of what the rule is given: the base rule is swept
over it. A fix that is chosen here is a new hypothesis; it needs a certificate from runs that did not suggest it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens.calibrate.board import Board
from agentlens.calibrate.counterfactual_given import false_alerts, given_otherwise
from agentlens.calibrate.grid import Setting, classes, key_of
from agentlens.calibrate.rates import rates
from agentlens.calibrate.sweep import sweep
from agentlens.model.event import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.calibrate.calibrate import LoopCalibration
    from agentlens.calibrate.sweep import Sweep
    from agentlens.detect.policies import Policies
    from agentlens.detect.rules import Rule

COUNTERFACTUALS = pl.Schema(
    {
        "rule": pl.String(),
        "kind": pl.String(),
        "fix": pl.String(),
        "thresholds": pl.List(pl.Int64()),
        "suggested_by": pl.Int64(),
        "false_alerts": pl.Int64(),
        "false_alerts_cleared": pl.Int64(),
        "alarmed_runs": pl.Int64(),
        "alarmed_runs_cleared": pl.Int64(),
        "incidents_lost": pl.Int64(),
        "true_alarms_lost": pl.Int64(),
        "added_delay_events": pl.Float64(),
    }
)
"""One row a fix, the cheapest first: fewest incidents and true alarms lost, then most false alerts cleared.

``kind``: ``threshold``, ``period``, ``exemption`` or ``retry``. ``suggested_by``: false alerts that it was made for.
``added_delay_events``: of the restricted mean, null without onsets.
"""

MOST_FIXES = 40


def counterfactuals(
    found: LoopCalibration,
    parts: Sequence[pl.LazyFrame],
    *,
    policies: Policies | None = None,
    actions: Sequence[str] = ACTIONS,
) -> pl.DataFrame:
    """Price the fixes for the false alerts of the recommended rule (the incumbent where there is none).

    Only explore and certify are read. The frame is empty where there are no false alerts.
    """
    cell = found.incumbent if found.answer.cell is None else found.answer.cell
    base = found.cells[cell].rule
    fixes = _fixes(found, cell, base)
    if not fixes:
        return COUNTERFACTUALS.to_frame()
    settings = [Setting(family="base", text=found.cells[cell].text, rule=base)]
    settings += [Setting(family="fix", text=text, rule=rule) for _, text, rule, _ in fixes]
    cells = classes(settings)
    number = {one.key: n for n, one in enumerate(cells)}
    table = _rates_of(found, sweep(parts, cells, policies=policies, actions=actions))
    before = table.row(0, named=True)
    rows = [
        {
            "kind": kind,
            "fix": text,
            "thresholds": list(rule.thresholds),
            "suggested_by": count,
            **_price(before, table.row(number[key_of(rule)], named=True)),
        }
        for kind, text, rule, count in fixes
    ]
    for other in given_otherwise(found, cell, parts, policies, actions):
        swept = sweep(other.parts, cells[:1], policies=other.policies, actions=actions)
        price = _price(before, _rates_of(found, swept).row(0, named=True))
        told = {"kind": other.kind, "fix": other.text, "thresholds": list(base.thresholds)}
        rows.append({**told, "suggested_by": other.suggested_by, **price})
    frame = pl.DataFrame([{"rule": settings[0].text, **row} for row in rows], schema=COUNTERFACTUALS)
    return frame.sort(
        ["incidents_lost", "true_alarms_lost", "false_alerts_cleared", "fix"],
        descending=[False, False, True, False],
    )


def _rates_of(found: LoopCalibration, swept: Sweep) -> pl.DataFrame:
    """Rates of swept cells on the splits that may be looked at."""
    board = Board(swept, found.truth, found.board.runs)
    return rates(board, ["explore", "certify"], incumbent=0, looking=found.plan.goal.looking)


def _price(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    old, new = before["restricted_delay_events"], after["restricted_delay_events"]
    return {
        "false_alerts": after["false_alerts"],
        "false_alerts_cleared": before["false_alerts"] - after["false_alerts"],
        "alarmed_runs": after["alarmed_runs"],
        "alarmed_runs_cleared": before["alarmed_runs"] - after["alarmed_runs"],
        "incidents_lost": before["detected"] - after["detected"],
        "true_alarms_lost": before["true_alarms"] - after["true_alarms"],
        "added_delay_events": None if old is None or new is None else new - old,
    }


def _fixes(found: LoopCalibration, cell: int, base: Rule) -> list[tuple[str, str, Rule, int]]:
    """Distinct changes of the rule, with how many false alerts ask for each; the most asked for first."""
    mine = false_alerts(found, cell).select("period", (pl.col("last") - pl.col("onset") + 1).alias("peak"))
    fixes: dict[tuple[int, ...], tuple[str, str, Rule, int]] = {}
    for period, peak, count in mine.group_by("period", "peak").len().sort("period", "peak").iter_rows():
        for kind, text, thresholds in (_raised(base, period, peak), _capped(base, period)):
            if thresholds and thresholds != base.thresholds:
                rule = replace(base, thresholds=thresholds, window=None, head_repetitions=None, name=text)
                asked = count + fixes.get(thresholds, ("", "", rule, 0))[3]
                fixes[thresholds] = (kind, text, rule, asked)
    return sorted(fixes.values(), key=lambda fix: (-fix[3], fix[1]))[:MOST_FIXES]


def _raised(base: Rule, period: int, peak: int) -> tuple[str, str, tuple[int, ...]]:
    """Ask for more than the stretch that was seen; longer periods follow, since thresholds never fall."""
    least = peak + 1
    raised = tuple(max(t, least) if p >= period else t for p, t in enumerate(base.thresholds, 1))
    return "threshold", f"T_{period} = {least}", raised


def _capped(base: Rule, period: int) -> tuple[str, str, tuple[int, ...]]:
    return "period", f"periods below {period} only", base.thresholds[: period - 1]
