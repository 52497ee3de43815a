"""Literal tables behind the charts of lanes, handoffs, resets and calibrations, and those charts drawn on them."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from agentlens.calibrate.chance import CHANCE
from agentlens.calibrate.counterfactual_cases import CHANGES
from agentlens.calibrate.delay import DETECTION_CURVE
from agentlens.calibrate.latency import ACK_CURVE, ACK_LIMITS
from agentlens.calibrate.pareto import AMOC, STABILITY
from agentlens.calibrate.rates import RATES
from agentlens.calibrate.recommend import CERTIFICATE
from agentlens.comparing import SIDES
from agentlens.model.handoff import HANDOFFS
from agentlens.model.receipt import RECEIPTS
from agentlens.model.reset import FUNNEL, RESETS
from agentlens.report import charts
from agentlens.report.misses import MISSES
from tests.report.lanes import START, filled, tables

SECOND = 1_000_000


def after(seconds: float):
    return START + timedelta(seconds=seconds)


def handoffs() -> pl.DataFrame:
    """Two urgencies: accepted in time, accepted late, delegated again after silence, and one without a time."""
    key = {"ack_limit_us": 120 * SECOND, "as_of": after(10_000), "urgency": "normal"}
    rows = [
        {
            "operation_id": "op-1",
            "handoff_id": "h1",
            "state": "orphaned",
            "attempt": 1,
            "delegated_at": after(0),
        },
        {
            "operation_id": "op-1",
            "handoff_id": "h2",
            "state": "verified",
            "attempt": 2,
            "delegated_at": after(300),
            "ack_latency_us": 30 * SECOND,
            "late_ack": False,
            "newest_at": after(900),
        },
        {
            "operation_id": "op-2",
            "handoff_id": "h3",
            "state": "working",
            "delegated_at": after(50),
            "ack_latency_us": 400 * SECOND,
            "late_ack": True,
            "urgency": "urgent",
        },
        {
            "operation_id": "op-3",
            "handoff_id": "h4",
            "state": "failed_outcome",
            "delegated_at": after(60),
            "ack_latency_us": 31 * SECOND,
            "late_ack": False,
        },
        {"operation_id": "op-4", "handoff_id": "h5", "state": "uncertain", "reason": "no_time"},
    ]
    rows[0]["newest_at"] = after(0)
    return filled([key | row for row in rows], HANDOFFS)


def receipts() -> pl.DataFrame:
    """The receipts of op-1."""
    told = [
        ("h1", "delegated", 0, "lead"),
        ("h2", "delegated", 300, "lead"),
        ("h2", "accepted", 330, "worker"),
        ("h2", "progress", 600, "worker"),
        ("h2", "completed", 800, "worker"),
        ("h2", "outcome_verified", 900, "checker"),
    ]
    rows = [
        {"operation_id": "op-1", "handoff_id": h, "event": e, "at": after(s), "author": a}
        for h, e, s, a in told
    ]
    return filled(rows, RECEIPTS)


def acknowledgement() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Limits and curves of two classes and all together; one class borrows the limit."""
    limits = [
        {
            "urgency": "*",
            "handoffs": 90,
            "acknowledged": 80,
            "silent": 10,
            "limit_us": 90 * SECOND,
            "pooled": False,
        },
        {
            "urgency": "normal",
            "handoffs": 80,
            "acknowledged": 72,
            "silent": 8,
            "limit_us": 95 * SECOND,
            "cap_us": 60 * SECOND,
            "pooled": False,
        },
        {
            "urgency": "urgent",
            "handoffs": 10,
            "acknowledged": 8,
            "silent": 2,
            "limit_us": 90 * SECOND,
            "pooled": True,
        },
    ]
    curves = [
        {
            "urgency": name,
            "after_us": (10 * step + shift) * SECOND,
            "silent": 1 - 0.2 * step,
            "silent_low": 0.9 - 0.2 * step,
            "silent_high": min(1.0, 1.1 - 0.2 * step),
        }
        for name, shift in (("*", 0), ("normal", 1), ("urgent", 2))
        for step in range(1, 5)
    ]
    return filled(limits, ACK_LIMITS), filled(curves, ACK_CURVE)


def branches() -> pl.DataFrame:
    """A run with two branches, one of which has a branch of its own; and a branch of another run."""
    rows = [
        {"branch_id": "b-1", "parent_id": "run-1", "family": "run-1", "depth": 1, "state": "verified"},
        {"branch_id": "b-2", "parent_id": "run-1", "family": "run-1", "depth": 1, "state": "needs_approval"},
        {"branch_id": "b-3", "parent_id": "b-1", "family": "run-1", "depth": 2, "state": "resumed"},
        {"branch_id": "b-9", "parent_id": "run-2", "family": "run-2", "depth": 1, "state": "false_success"},
    ]
    rows[1]["reason"] = "not_approved"
    return filled(rows, RESETS)


def funnel() -> pl.DataFrame:
    """Ten branches; two facts stop some at the second gate, one at the fourth."""
    rows = [
        ("lineage", 10, 10, None, 0),
        ("restore", 10, 7, "not_restored", 2),
        ("restore", 10, 7, "drift", 1),
        ("effects", 7, 7, None, 0),
        ("authority", 7, 6, "not_approved", 1),
        ("configuration", 6, 6, None, 0),
        ("outcome", 4, 3, "no_outcome", 1),
    ]
    return pl.DataFrame(rows, schema=FUNNEL, orient="row")


def rates() -> pl.DataFrame:
    """Six rules of two shapes on forty healthy runs and twenty incidents."""
    told = [
        (0, "laps((4, 3, 2))", [4, 6, 6], 2, 15),
        (1, "same_call(3)", [3], 12, 9),
        (2, "full_window(6, 1, 2)", [6], 1, 10),
        (3, "full_window(6, 3, 2)", [6, 6, 6], 1, 14),
        (4, "full_window(6, 3, 2, short_starts=False)", [6, 6, 6], 0, 13),
        (5, "full_window(8, 3, 2)", [8, 8, 8], 0, 11),
    ]
    rows = [
        {
            "cell": cell,
            "rule": rule,
            "settings": 1,
            "evidence": "lap",
            "thresholds": thresholds,
            "healthy_runs": 40,
            "alarmed_runs": false,
            "fpr": false / 40,
            "fpr_low": max(0.0, false / 40 - 0.03),
            "fpr_high": false / 40 + 0.08,
            "incidents": 20,
            "detected": found,
            "detection": found / 20,
            "detection_low": found / 20 - 0.2,
            "detection_high": min(1.0, found / 20 + 0.2),
        }
        for cell, rule, thresholds, false, found in told
    ]
    return filled(rows, RATES)


def certificate() -> pl.DataFrame:
    """A chain of three rules; the first two are certified."""
    rows = [
        {"chain": "windows", "step": step, "cell": cell, "rule": rule, "tested": True, "certified": step < 2}
        for step, (cell, rule) in enumerate([(5, "T 8"), (4, "T 6, late starts"), (3, "T 6")])
    ]
    return filled(rows, CERTIFICATE)


def curves() -> pl.DataFrame:
    """How soon two rules find twenty incidents."""
    told = {
        "laps((4, 3, 2))": [(3, 0.2), (6, 0.6), (9, 0.75)],
        "full_window(8, 3, 2)": [(7, 0.4), (12, 0.55)],
    }
    parts = []
    for rule, steps in told.items():
        rows = [
            {"after": a, "at_risk": 20, "detected": 1, "share": s, "low": s - 0.1, "high": s + 0.1}
            for a, s in steps
        ]
        parts.append(filled(rows, DETECTION_CURVE).with_columns(rule=pl.lit(rule)))
    return pl.concat(parts)


def chance() -> pl.DataFrame:
    """One rule that alarms far above chance, one that never alarmed."""
    rows = [
        ("laps((4, 3, 2))", "independent", 0.002, 50, 0.0001, 0.0001, 1.5, 750.0, True),
        ("laps((4, 3, 2))", "markov", 0.02, 50, 0.001, 0.001, 1.5, 75.0, True),
        ("openhands", "independent", 0.001, 50, 0.0001, 0.0001, 0.0, 0.0, False),
        ("openhands", "markov", 0.01, 50, 0.0005, 0.0005, 0.0, 0.0, False),
    ]
    return pl.DataFrame(rows, schema=CHANCE, orient="row")


def amoc() -> pl.DataFrame:
    """Three rules; the last is beaten by both others."""
    told = [
        ("laps((4, 3, 2))", 2.0, 6.0, True),
        ("openhands", 3.0, 5.0, True),
        ("same_call(3)", 9.0, 7.0, False),
    ]
    rows = [
        {
            "rule": rule,
            "false_per_1000": false,
            "false_low": false / 2,
            "false_high": false * 2,
            "false_method": "bootstrap",
            "delay": late,
            "delay_low": late - 1,
            "delay_high": late + 2,
            "detected_share": 0.5,
            "on_front": front,
            "thin": False,
        }
        for rule, false, late, front in told
    ]
    return pl.DataFrame(rows, schema=AMOC)


def stability() -> pl.DataFrame:
    """One rule is chosen in most draws, one rarely, one never; in five of a hundred none keeps the limit."""
    told = [("laps((4, 3, 2))", True, 94), ("openhands", False, 1), ("same_call(3)", False, 0)]
    rows = [{"rule": r, "chosen": c, "wins": w, "draws": 100, "share": w / 100} for r, c, w in told]
    return filled(rows, STABILITY)


def fixes() -> pl.DataFrame:
    """Two changes at one point, one of another kind, and one of a kind that no colour is set for."""
    told = [
        ("equal results of poll are no evidence (it is polled)", "exemption", 3, 0),
        ("confirm 1 event longer", "threshold", 1, 1),
        ("confirm 2 events longer", "threshold", 1, 1),
        ("link the receipt", "handoff", 2, 0),
    ]
    rows = [{"change": c, "kind": k, "false_cleared": f, "incidents_lost": i} for c, k, f, i in told]
    return filled(rows, CHANGES)


def misses() -> pl.DataFrame:
    """One that an edit would have found, one that none would, and one of a rule of which no edit is known."""
    told = [
        ("r-1", "main", 1, 3, 4, 5, "inserted", 7),
        ("r-2", "", 2, 4, 6, 4, None, None),
        ("r-2", "", 1, 2, 4, None, None, None),
    ]
    names = ("run_id", "agent", "period", "stretch", "needed", "near", "edit", "edit_seq")
    return filled([dict(zip(names, row, strict=True)) for row in told], MISSES)


def sides() -> pl.DataFrame:
    """Two shares, one of them without limits, and a sum that is no share."""
    told = [
        ("flagged", 0.3, 0.4, 0.1, 0.02, 0.2),
        ("false_alarm", 0.1, 0.05, -0.05, None, None),
        ("stuck_s", 9.0, 5.0, -4.0, -6.0, -1.0),
    ]
    names = ("measure", "first", "second", "difference", "low", "high")
    return filled([dict(zip(names, row, strict=True)) for row in told], SIDES)


def drawings() -> dict[str, object]:
    """Every chart of these tables by its public name."""
    have = tables()
    return {
        "acknowledgement": charts.acknowledgement(*acknowledgement()),
        "agents": charts.agents(have["verdicts"]),
        "amoc": charts.amoc(amoc(), named=["laps((4, 3, 2))"]),
        "chain": charts.chain(certificate(), rates(), limit=0.05),
        "chance": charts.chance(chance()),
        "detection": charts.detection(curves(), within=8),
        "differences": charts.differences(sides(), ("laps", "openhands")),
        "fixes": charts.fixes(fixes()),
        "gates": charts.gates(funnel()),
        "latencies": charts.latencies(handoffs()),
        "lengths": charts.lengths(have["runs"]),
        "lineage": charts.lineage(branches()),
        "near_misses": charts.near_misses(misses()),
        "operation": charts.operation(receipts(), handoffs(), operation_id="op-1"),
        "pareto": charts.pareto(rates(), named=[3, 0, 1]),
        "stability": charts.stability(stability()),
        "states": charts.states(handoffs()),
        "sweep": charts.sweep(rates(), named=[0, 1], certified=[(3, 6), (3, 8), (2, 9)]),
    }
