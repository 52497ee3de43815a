"""The handoff rules, written out one receipt at a time: slow, literal, and independent of the engine."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

LIFECYCLE = [
    "delegated",
    "accepted",
    "progress",
    "waiting",
    "completed",
    "outcome_verified",
    "rejected",
    "cancelled",
]
WORK = ("progress", "waiting", "completed")

Receipt = dict[str, Any]


def judge(
    receipts: list[Receipt], limits: dict[str, Any], as_of: int | None = None
) -> dict[tuple[str, str], dict[str, Any]]:
    """State, reason and acknowledgement of every handoff; times are integers of one unit, limits too.

    ``limits``: ``ack``, ``ack_by_urgency``, ``window``, ``verification``, ``skew``, ``wait``.
    """
    now = as_of if as_of is not None else max((r["at"] for r in receipts), default=0)
    handoffs: dict[tuple[str, str], list[Receipt]] = defaultdict(list)
    for receipt in receipts:
        if receipt["at"] <= now and receipt not in handoffs[receipt["operation_id"], receipt["handoff_id"]]:
            handoffs[receipt["operation_id"], receipt["handoff_id"]].append(receipt)
    return {key: judge_one(own, limits, now) for key, own in handoffs.items() if own}


def judge_one(own: list[Receipt], limits: dict[str, Any], now: int) -> dict[str, Any]:
    """Judge one handoff with all its receipts up to now."""

    def of(*events: str) -> list[Receipt]:
        return [r for r in own if r["event"] in events]

    def first(*events: str) -> int | None:
        return min((r["at"] for r in of(*events)), default=None)

    def place(receipt: Receipt) -> tuple[int, int]:
        event = receipt["event"]
        return receipt["at"], LIFECYCLE.index(event) if event in LIFECYCLE else len(LIFECYCLE)

    delegated, accepted = first("delegated"), first("accepted")
    recipients = {r.get("recipient") for r in of("delegated")} - {None}
    implied = None
    if accepted is None and delegated is not None:
        givers = sorted(r["author"] for r in of("delegated"))
        by_recipient = [
            r["at"]
            for r in own
            if r["at"] >= delegated
            and (
                (recipients and r["event"] in (*WORK, "outcome_verified") and r["author"] in recipients)
                or (not recipients and r["event"] in WORK and r["author"] != givers[0])
            )
        ]
        implied = min(by_recipient, default=None)
    taken = accepted if accepted is not None else implied
    newest = max(own, key=place)
    outcomes = of("outcome_verified")
    outcome = None
    if outcomes:
        last = max(r["at"] for r in outcomes)
        severity = ["unknown", "failed", "passed"]
        outcome = max((r["outcome"] or "unknown" for r in outcomes if r["at"] == last), key=severity.index)
    urgencies = sorted(r.get("urgency") or "~" for r in of("delegated") if r["at"] == delegated)
    all_urgencies = {r.get("urgency") for r in of("delegated")} - {None}
    urgency = (
        next((u for u in urgencies if u != "~"), None)
        if len(all_urgencies) > 1
        else next(iter(all_urgencies), None)
    )
    ack_limit = limits.get("ack_by_urgency", {}).get(urgency, limits["ack"])
    waits = [
        wait_of(r, own, place, limits["wait"]) for r in of("waiting") if r.get("reason") or r.get("owner")
    ]
    waits = [wait for wait in waits if wait["until"] > wait["at"]]
    told = {
        "ack_latency": None if taken is None or delegated is None else taken - delegated,
        "implied_ack": accepted is None and implied is not None,
        "late_ack": None if taken is None or delegated is None else taken - delegated > ack_limit,
        "disagreement": disagreements(own, of, first, recipients, limits["skew"]),
        "reason": None,
    }
    completed = max((r["at"] for r in of("completed")), default=None)
    standing = [
        w for w in waits if place(newest) == (w["at"], LIFECYCLE.index("waiting")) and w["until"] > now
    ]
    signs = [r["at"] for r in of("accepted", "progress")]
    signs += [
        end
        for w in waits
        if (end := min(w["until"], w["next"] if w["next"] is not None else w["until"])) <= now
    ]
    if taken is not None:
        signs.append(taken)
    if told["disagreement"]:
        state, reason = "uncertain", None
    elif outcome == "passed":
        state, reason = "verified", None
    elif outcome == "failed":
        state, reason = "failed_outcome", "verification_failed"
    elif newest["event"] in ("rejected", "cancelled"):
        state, reason = newest["event"], None
    elif outcome == "unknown":
        state, reason = "uncertain", "verification_unknown"
    elif completed is not None and now - completed >= limits["verification"]:
        state, reason = "failed_outcome", "never_verified"
    elif standing:
        state, reason = "waiting", None if any(w["dated"] for w in standing) else "no_deadline"
    elif taken is None:
        assert delegated is not None
        state, reason = ("orphaned" if now - delegated > ack_limit else "delegated"), None
    elif now - max(signs) > limits["window"]:
        state, reason = "stuck", None
    else:
        state, reason = "working", None
    return told | {"state": state, "reason": reason}


def wait_of(receipt: Receipt, own: list[Receipt], place: Any, limit: int) -> dict[str, Any]:
    """When a wait would end: its deadline (or the longest wait), and its next receipt."""
    later = [r["at"] for r in own if place(r) > place(receipt)]
    deadline = receipt.get("deadline")
    return {
        "at": receipt["at"],
        "until": receipt["at"] + limit if deadline is None else deadline,
        "dated": deadline is not None,
        "next": min(later, default=None),
    }


def disagreements(own: list[Receipt], of: Any, first: Any, recipients: set[str], skew: int) -> set[str]:
    """Names of all the ways in which the receipts disagree."""
    accepters = {r["author"] for r in of("accepted")}
    found = {
        "no_delegation": not of("delegated"),
        "two_acceptors": len(accepters) > 1,
        "other_acceptor": any(a != r for a in accepters for r in recipients),
        "artifact_changed": len({r.get("expected_artifact") for r in own} - {None}) > 1,
        "unknown_event": any(r["event"] not in LIFECYCLE for r in own),
        "outcomes_differ": any(
            a["at"] == b["at"] and (a["outcome"] or "unknown") != (b["outcome"] or "unknown")
            for a in of("outcome_verified")
            for b in of("outcome_verified")
        ),
    }
    pairs = {
        "accepted_before_delegated": (first("accepted"), first("delegated")),
        "work_before_accepted": (first(*WORK), first("accepted")),
        "verified_before_completed": (first("outcome_verified"), first("completed")),
    }
    for name, (early, late) in pairs.items():
        found[name] = early is not None and late is not None and late - early > skew
    return {name for name, is_so in found.items() if is_so}
