"""Charts of lanes, handoffs and resets: what their rows say."""

from __future__ import annotations

import json

import polars as pl
import pytest

from agentlens.errors import InputError
from agentlens.model.handoff import HANDOFFS
from agentlens.model.reset import FUNNEL, RESETS
from agentlens.model.verdict import RUNS, VERDICTS
from agentlens.report import charts
from agentlens.report.states import STATE_COLOURS
from tests.report.drawings import acknowledgement, branches, funnel, handoffs, receipts
from tests.report.lanes import filled


def data(chart) -> dict:
    return chart.to_dict()["datasets"]


def test_a_lane_counts_once_by_its_last_verdict_and_instances_are_one_agent() -> None:
    """Two instances of one agent are two lanes of it; what a lane was before its end does not count."""
    told = [
        ("a", "r", 0, "stuck_loop"),
        ("a", "r", 1, "working"),
        ("a", "r#2", 0, "uncertain"),
        ("b", "", 0, "working"),
    ]
    rows = [dict(zip(("run_id", "agent", "seq", "verdict"), row, strict=True)) for row in told]
    found = data(charts.agents(filled(rows, VERDICTS)))["agents"]
    assert [(row["agent"], row["verdict"], row["share"]) for row in found] == [
        ("(no name) · 1", "working", "1 of 1"),
        ("r · 2", "uncertain", "1 of 2"),
        ("r · 2", "working", "1 of 2"),
    ]


def test_agents_beyond_twelve_share_one_bar() -> None:
    """However many agents there are, nothing is left out of the total."""
    rows = [{"run_id": "r", "agent": f"a{n:02d}", "seq": 0, "verdict": "working"} for n in range(15)]
    spec = charts.agents(filled(rows, VERDICTS)).to_dict()
    found = spec["datasets"]["agents"]
    assert len(found) == 13
    assert [row["lanes"] for row in found if row["agent"].startswith("3 other agents")] == [3]
    assert spec["title"]["subtitle"].startswith("15 lanes of 15 agents")


def test_lengths_fall_into_bins_that_double() -> None:
    """0, 1, 2 to 3, 4 to 7 and so on; every run is in one."""
    rows = [{"run_id": f"r{n}", "events": n, "verdict": "working"} for n in (0, 1, 2, 3, 4, 7, 8, 9_000)]
    found = data(charts.lengths(filled(rows, RUNS)))["lengths"]
    assert [(row["actions"], row["runs"]) for row in found] == [
        ("0", 1),
        ("1", 1),
        ("2–3", 2),
        ("4–7", 2),
        ("8–15", 1),
        ("8,192+", 1),
    ]


def test_latencies_stack_in_one_bin_and_say_what_was_not_drawn() -> None:
    """30 s and 31 s share a bin; the handoff without a time is counted, not drawn."""
    spec = charts.latencies(handoffs()).to_dict()
    bars = [row for row in spec["datasets"]["latencies"] if "ended" in row]
    assert [(row["urgency"], row["low"], row["high"]) for row in bars] == [
        ("normal", 0, 2),
        ("normal", 0, 1),
        ("urgent", 0, 1),
    ]
    assert sum(row["handoffs"] for row in bars) == 4
    assert spec["title"]["subtitle"][0] == (
        "5 handoffs, 2 within its limit, 1 after its limit, 2 not yet, or never; 1 without times, not drawn"
    )
    limits = {row["limit_s"] for row in spec["datasets"]["latencies"] if "limit_s" in row}
    assert limits == {120.0}


def test_a_silent_handoff_stands_at_the_time_it_was_silent() -> None:
    """10,000 s of silence until the judgement lie in the bin that holds 10,000 s."""
    bars = data(charts.latencies(handoffs()))["latencies"]
    (silent,) = [row for row in bars if row.get("ended") == "not yet, or never"]
    assert silent["from_s"] <= 10_000 <= silent["to_s"]


def test_a_long_curve_is_thinned_to_its_steps() -> None:
    """Five thousand steps are drawn as less than two hundred, and the last value stays."""
    limits, curves = acknowledgement()
    many = pl.concat(
        [
            curves.head(1).with_columns(
                after_us=pl.lit(1_000_000 * n, pl.Int64), silent=pl.lit(1 - n / 6_000, pl.Float64)
            )
            for n in range(1, 5_001)
        ]
    )
    rows = data(charts.acknowledgement(limits.head(1), many))["silence"]
    steps = [row for row in rows if "silent" in row]
    assert len(steps) < 200
    assert steps[0]["silent"] == 1.0
    assert steps[-1]["silent"] == pytest.approx(1 - 5_000 / 6_000)


def test_limit_and_cap_of_each_class_are_marked_and_told() -> None:
    """A borrowed limit says so."""
    spec = charts.acknowledgement(*acknowledgement()).to_dict()
    marks = {(row["class"], row["mark"]): row["at_s"] for row in spec["datasets"]["silence"] if "mark" in row}
    assert marks == {
        ("all classes", "limit"): 90.0,
        ("normal", "limit"): 95.0,
        ("normal", "cap"): 60.0,
        ("urgent", "limit"): 90.0,
    }
    assert "limit 1 min 30 s (pooled)" in spec["title"]["subtitle"][2]


def test_an_operation_shows_each_attempt_with_its_receipts_and_its_time_to_accept() -> None:
    """Two attempts, six receipts; the bar ends 120 s after the delegation."""
    found = data(charts.operation(receipts(), handoffs(), operation_id="op-1"))
    assert [line["attempt"] for line in found["lines"]] == ["h1 · orphaned", "h2 · verified"]
    assert all(line["limit_at"] - line["delegated_at"] == 120_000 for line in found["lines"])
    assert [point["event"] for point in found["receipts"] if point["attempt"].startswith("h2")] == [
        "delegated",
        "accepted",
        "progress",
        "completed",
        "outcome_verified",
    ]


def test_an_operation_that_is_not_there_is_named() -> None:
    """One line: which operation, and what would do."""
    with pytest.raises(InputError, match="op-9"):
        charts.operation(receipts(), handoffs(), operation_id="op-9")


def test_the_funnel_adds_up_at_every_gate() -> None:
    """What entered a gate passed it or was stopped there; the commonest fact is written beside it."""
    found = data(charts.gates(funnel()))
    for label in found["labels"]:
        of = [row["branches"] for row in found["gates"] if row["gate"] == label["gate"]]
        assert sum(of) == label["entered"]
    assert found["labels"][1]["told"] == "7 of 10 · not_restored 2, 1 other"


def test_a_tree_puts_children_below_their_parent() -> None:
    """Depth first, sorted; the family with most branches where none is named."""
    found = data(charts.lineage(branches()))
    assert [(node["run"], node["depth"]) for node in found["nodes"]] == [
        ("run-1", 0),
        ("b-1", 1),
        ("b-3", 2),
        ("b-2", 1),
    ]
    assert [(link["from_row"], link["row"]) for link in found["links"]] == [(0, 1), (1, 2), (0, 3)]
    other = data(charts.lineage(branches(), family="run-2"))
    assert [node["told"] for node in other["nodes"]] == ["run-2 · first run", "b-9 · false_success"]


def test_a_cycle_of_branches_is_drawn_once() -> None:
    """Two branches that name each other as parent end the drawing, they do not repeat it."""
    rows = [
        {"branch_id": "x", "parent_id": "y", "family": "x", "state": "invalid_lineage"},
        {"branch_id": "y", "parent_id": "x", "family": "x", "state": "invalid_lineage"},
    ]
    found = data(charts.lineage(filled(rows, RESETS)))
    assert sorted(node["run"] for node in found["nodes"]) == ["x", "y"]


def test_a_large_family_is_cut_and_says_so() -> None:
    """Sixty runs are drawn; the rest are counted."""
    rows = [
        {"branch_id": f"b{n:03d}", "parent_id": "top", "family": "top", "state": "resumed"}
        for n in range(100)
    ]
    spec = charts.lineage(filled(rows, RESETS)).to_dict()
    assert len(spec["datasets"]["nodes"]) == 60
    assert spec["title"]["subtitle"] == "100 branches; 41 more not drawn"


def test_every_state_has_a_colour_and_a_bar() -> None:
    """Handoffs, operations and branches are told apart by their columns."""
    spec = charts.states(handoffs()).to_dict()
    assert spec["title"] == {"text": "Handoffs by state", "subtitle": "5 handoffs"}
    assert {row["state"] for row in spec["datasets"]["states"]} <= set(STATE_COLOURS)
    assert charts.states(branches()).to_dict()["title"]["subtitle"] == "4 branches"
    assert charts.states(branches().select("state")).to_dict()["title"]["text"] == "Operations by state"


def test_empty_tables_draw_empty_charts() -> None:
    """Nothing to show is no error."""
    for chart in (
        charts.agents(VERDICTS.to_frame()),
        charts.lengths(RUNS.to_frame()),
        charts.latencies(HANDOFFS.to_frame()),
        charts.states(RESETS.to_frame()),
        charts.gates(FUNNEL.to_frame()),
    ):
        assert json.dumps(chart.to_dict())
    with pytest.raises(InputError, match="family"):
        charts.lineage(RESETS.to_frame())
