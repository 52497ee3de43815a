"""The tabs of handoffs and resets: what they list, and that their charts draw."""

from __future__ import annotations

from agentlens.model.handoff import HANDOFFS
from agentlens.model.reset import FUNNEL, RESETS, UNRECEIPTED
from agentlens.report.boundary import handoff_tab, reset_tab
from agentlens.report.pages import report_page
from tests.report.lanes import START, filled
from tests.report.made import events, lane, material
from tests.report.test_page import words
from tests.report.test_triage import HOSTILE, in_a_browser


def boundaries(name: str = "h") -> dict:
    handoffs = [
        {"operation_id": "o1", "handoff_id": f"{name}1", "state": "orphaned", "late_ack": None},
        {
            "operation_id": "o2",
            "handoff_id": f"{name}2",
            "state": "verified",
            "late_ack": True,
            "ack_latency_us": 300_000_000,
        },
        {
            "operation_id": "o3",
            "handoff_id": f"{name}3",
            "state": "uncertain",
            "reason": "verification_unavailable",
        },
    ]
    common = {"inferred": False, "delegated_at": START, "as_of": START}
    branches = [
        {
            "branch_id": f"{name}-b1",
            "parent_id": "p",
            "state": "needs_approval",
            "reason": "no_decision",
            "gate_4": "fail",
        },
        {"branch_id": f"{name}-b2", "parent_id": "p", "state": "verified"},
    ]
    gates = ("lineage", "restore", "effects", "authority", "configuration", "outcome")
    funnel = [
        {"gate": g, "entered": 2 if n < 4 else 1, "passed": 1 if n > 2 else 2} for n, g in enumerate(gates)
    ]
    loose = [{"run_id": name, "agent": "", "seq": 4, "tool": "Bash", "reset": "git_reset_hard"}]
    return {
        "handoffs": filled([row | common for row in handoffs], HANDOFFS),
        "branches": filled(branches, RESETS),
        "funnel": filled(funnel, FUNNEL),
        "unreceipted": filled(loose, UNRECEIPTED),
    }


def test_handoffs_that_need_a_look_and_late_ones_are_listed() -> None:
    """Orphaned is to be looked at; that a source carries no verification is not; late is a list of its own."""
    sections, tables = handoff_tab(boundaries())
    looked, late = (section.table.rows for section in sections[1:])
    assert [row[0] for row in looked] == ["h1"]
    assert [row[0] for row in late] == ["h2"]
    assert tables["handoffs"].height == 3


def test_blocked_branches_and_resets_without_a_receipt_are_listed() -> None:
    """A verified branch is not blocked; a destroying command nobody wrote a receipt for stands apart."""
    sections, tables = reset_tab(boundaries())
    by = {section.anchor: section for section in sections}
    assert [row[0] for row in by["blocked"].table.rows] == ["h-b1"]
    assert by["unreceipted"].table.rows[0][4] == "git_reset_hard"
    assert set(tables) == {"branches", "funnel", "unreceipted"}


def test_without_receipts_the_tabs_say_so() -> None:
    """An empty tab is a sentence."""
    said = words(report_page(material(events(lane("r", "AB")))).html)
    assert "No handoff: no receipt was given" in said
    assert "No branch: no branch receipt was given" in said


def test_a_browser_draws_both_tabs_with_hostile_names(tmp_path) -> None:
    """Charts of tabs that are not open draw too."""
    html = report_page(material(events(lane("r", "AB")), boundaries=boundaries(HOSTILE))).html
    dom, complaints = in_a_browser(tmp_path, html, "#handoffs")
    assert complaints == ""
    assert dom.count('role="graphics-document"') == dom.count("data-spec=") == 3
    assert "could not be drawn" not in dom
    assert "<title>Loops, handoffs and resets in finished runs</title>" in dom
