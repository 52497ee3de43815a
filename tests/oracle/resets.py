"""The six gates, written out one branch at a time: slow, literal, and independent of the engine."""

from __future__ import annotations

from typing import Any

LOW = {"none", "detail", "simplify", "plan"}
STOPPED = [
    "invalid_lineage",
    "restore_uncertain",
    "effects_unreconciled",
    "needs_approval",
    "config_unpinned",
]

Branch = dict[str, Any]


def judge(receipts: list[Branch]) -> dict[str, dict[str, Any]]:
    """State, gates and exactness of every branch, without any run at hand; ``receipts`` in the order of the file."""
    own: dict[str, list[Branch]] = {}
    for receipt in receipts:
        own.setdefault(receipt["branch_id"], []).append(receipt)
    standing = {
        name: max(enumerate(rows), key=lambda r: (r[1].get("at") or 0, r[0]))[1] for name, rows in own.items()
    }
    outcomes: dict[str, set[str]] = {}
    for receipt in receipts:
        named = (receipt.get("outcome") or {}).get("receipt_id")
        if named is not None:
            outcomes.setdefault(named, set()).add(receipt["branch_id"])
    return {name: judge_one(branch, own[name], standing, outcomes) for name, branch in standing.items()}


def judge_one(
    branch: Branch, own: list[Branch], standing: dict[str, Branch], outcomes: dict[str, set[str]]
) -> dict[str, Any]:
    """Judge one branch; gates are 1 (pass), 0 (fail) or None (unknown)."""
    statuses = required_statuses(branch)
    gates = [
        lineage(branch, own, standing),
        worst(statuses),
        effects(branch),
        authority(branch),
        configuration(branch),
        outcome(branch, outcomes),
    ]
    exact = gates[1] == 1 and all(status == "exact" for status in statuses or [])
    resumed, answered = branch.get("resumed"), bool(branch.get("final_answer"))
    went_on = answered if resumed is None else resumed
    if any(gate != 1 for gate in gates[:5]):
        state = STOPPED[next(at for at, gate in enumerate(gates) if gate != 1)]
    elif not went_on:
        state = "ready_to_resume"
    elif not answered:
        state = "resumed"
    else:
        state = "verified" if gates[5] == 1 else "false_success"
    return {"state": state, "gates": gates, "exact_replay": exact}


def lineage(branch: Branch, own: list[Branch], standing: dict[str, Branch]) -> int | None:
    """Gate 1."""
    parent, point = branch.get("parent_id"), branch.get("fork_point")
    if branch["branch_id"] == parent:
        return 0
    for name in ("parent_id", "fork_point"):
        if len({receipt.get(name) for receipt in own} - {None}) > 1:
            return 0
    seen, at = {branch["branch_id"]}, branch
    while at.get("parent_id") in standing and at["parent_id"] != at["branch_id"]:
        if at["parent_id"] in seen:
            return 0
        seen.add(at["parent_id"])
        at = standing[at["parent_id"]]
    known = standing.get(parent, {}).get("checkpoints") if parent else None
    if known is not None and point and point not in known:
        return 0
    return 1 if parent and point else None


def required_statuses(branch: Branch) -> list[str] | None:
    """Worst status of each required key, None where nothing can be said."""
    required, reported = branch.get("required_state"), branch.get("state")
    if not required or reported is None:
        return None
    found = []
    for name in required:
        entries = [status(entry) for entry in reported if entry.get("key") == name]
        order = ["fail", "unknown", "drift", "exact"]
        found.append(min(entries, key=order.index) if entries else "unknown")
    return found


def status(entry: dict[str, Any]) -> str:
    """Status of one reported key."""
    result, tested = (
        entry.get("result"),
        bool(entry.get("before")) and bool(entry.get("restored")),
    )
    if result is None:
        return "unknown"
    if result in {"partial", "failed"} or (
        result == "drift_acknowledged" and entry.get("key") != "tool_registry"
    ):
        return "fail"
    if not tested:
        return "unknown"
    if result == "drift_acknowledged":
        return "drift"
    return "exact" if entry["before"] == entry["restored"] else "fail"


def worst(statuses: list[str] | None) -> int | None:
    """Gate 2."""
    if statuses is None:
        return None
    if "fail" in statuses:
        return 0
    return None if "unknown" in statuses else 1


def effects(branch: Branch) -> int | None:
    """Gate 3, with no run of the parent at hand."""
    listed = branch.get("effects")
    if listed is None:
        return None
    for effect in listed:
        if effect.get("status") == "pending" or (
            effect.get("status") == "irreversible" and not effect.get("decision_id")
        ):
            return 0
    return 1 if listed and all(effect.get("status") is not None for effect in listed) else None


def authority(branch: Branch) -> int | None:
    """Gate 4."""
    kind, local, given = branch.get("edit_class"), branch.get("local"), branch.get("authority")
    decision, approved = (given or {}).get("decision_id"), (given or {}).get("approved")
    if (kind in LOW and local) or (decision and approved):
        return 1
    if kind is None or (kind in LOW and local is None) or given is None:
        return None
    if (decision and approved is None) or (not decision and approved):
        return None
    return 0


def configuration(branch: Branch) -> int | None:
    """Gate 5."""
    config = branch.get("config")
    if config is None:
        return None
    if config.get("pinned") is False:
        return 0
    if config.get("pinned") is None or not config.get("branch_digest"):
        return None
    if config.get("delta"):
        return 1
    if not config.get("parent_digest"):
        return None
    if config["parent_digest"] == config["branch_digest"]:
        return 1
    return None if config.get("delta") is None else 0


def outcome(branch: Branch, outcomes: dict[str, set[str]]) -> int | None:
    """Gate 6."""
    told = branch.get("outcome")
    if told is None:
        return None
    receipt, verified = told.get("receipt_id"), told.get("verified")
    if receipt is not None and len(outcomes[receipt]) > 1:
        return 0
    if verified is False:
        return 0
    return 1 if receipt and verified and branch.get("resumed") else None
