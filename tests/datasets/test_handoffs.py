"""Planted receipts and branches, judged by the detectors they are meant for."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agentlens.datasets import fleet, handoffs
from agentlens.datasets.branches import STATES, branches
from agentlens.datasets.fleet import START_MS
from agentlens.detect.handoff_limits import HandoffLimits
from agentlens.detect.handoffs import handoffs as judge
from agentlens.detect.resets import resets
from agentlens.errors import SettingsError
from agentlens.model.branch import branches_frame
from agentlens.model.raw import RawBranch, RawReceipt
from agentlens.model.receipt import receipts_frame

EXPECTED = {
    "verified": "verified",
    "late": "verified",
    "lost": "orphaned",
    "redelivered": "verified",
    "never_verified": "failed_outcome",
    "failed": "failed_outcome",
    "waiting": "waiting",
    "stuck": "stuck",
    "rejected": "rejected",
    "two_takers": "uncertain",
}


def test_every_planted_handoff_is_in_the_state_of_its_fate() -> None:
    """Judged a day later, each fate has its state, and only the late ones were accepted late."""
    planted = handoffs(seed=9, start_ms=START_MS)
    typed = receipts_frame([RawReceipt(fields=row) for row in planted.receipts], source="planted")
    assert typed.faults == []
    assert not typed.unknown
    assert not typed.warned
    as_of = typed.frame["at"].max() + timedelta(days=1)
    states = judge(typed.frame.lazy(), HandoffLimits(), as_of=as_of).collect()
    found = {row["handoff_id"]: row for row in states.iter_rows(named=True)}
    fates = {row["handoff_id"]: row["kind"] for row in planted.labels}
    assert {h: row["state"] for h, row in found.items()} == {h: EXPECTED[fate] for h, fate in fates.items()}
    assert {fates[h] for h, row in found.items() if row["late_ack"]} == {"late"}
    assert set(EXPECTED) <= set(fates.values())


def test_lost_work_is_labelled_an_incident() -> None:
    """A redelivered handoff is healthy, its first attempt is not."""
    labels = {row["handoff_id"]: row["label"] for row in handoffs(seed=9, start_ms=0, count=200).labels}
    retried = [h for h in labels if h.endswith("/h2")]
    assert len(retried) > 5
    assert {labels[h] for h in retried} == {"healthy"}
    assert {labels[h.replace("/h2", "/h1")] for h in retried} == {"incident"}


def test_every_planted_branch_is_in_the_state_it_was_made_for() -> None:
    """Every branch is a good record with an id of its own, and the one thing left out of it decides."""
    press = [run for run in fleet(seed=1, runs=60).runs if run.world == "press"]
    rows = branches(press[:18], seed=1)
    typed = branches_frame([RawBranch(fields=row) for row in rows], source="planted")
    assert typed.faults == []
    assert not typed.unknown
    assert len({row["branch_id"] for row in rows}) == 2 * len(STATES)
    judged = resets(typed.frame.lazy()).collect()
    assert dict(judged.select("branch_id", "state").iter_rows()) == {
        row["branch_id"]: STATES[k % len(STATES)] for k, row in enumerate(rows)
    }


@pytest.mark.parametrize(
    "settings", [{"count": 0}, {"urgencies": ()}, {"start_ms": 10**18}, {"start_ms": -(10**18)}]
)
def test_empty_plans_are_refused(settings) -> None:
    """At least one handoff, at least one urgency class, a time that a calendar has."""
    with pytest.raises(SettingsError):
        handoffs(**{"seed": 1, "start_ms": 0, **settings})
