"""Handoffs against labels: what is counted as raised, what as missed, and where no label is."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.calibrate.labels import conform_labels
from agentlens.errors import InputError
from agentlens.report.boundary import handoff_tab
from agentlens.report.pages import report_page
from agentlens.report.told_handoffs import handoff_labels
from tests.report.drawings import handoffs
from tests.report.made import events, lane, material
from tests.report.test_page import words


def labels(**told: str) -> pl.DataFrame:
    """Labels by operation, of every attempt: ``op_1="incident"``."""
    rows = [
        {"operation_id": name.replace("_", "-"), "scope": "handoff", "label": label, "kind": f"{label} kind"}
        for name, label in told.items()
    ]
    return conform_labels(pl.DataFrame(rows))


def test_raised_and_missed_are_counted_by_label() -> None:
    """op-1 was lost and redelivered, op-2 accepted late, op-3 failed; op-4 has no label and stands apart."""
    sections, tables = handoff_labels(handoffs(), labels(op_1="incident", op_2="healthy", op_3="incident"))
    rows = {row["label"]: row for row in tables["handoff_outcomes"].iter_rows(named=True)}
    assert (rows["incident"]["handoffs"], rows["incident"]["raised"]) == (3, 2)
    assert rows["incident"]["states"] == "failed_outcome 1, orphaned 1, verified 1"
    assert (rows["healthy"]["raised"], rows["healthy"]["late"]) == (0, 1)
    assert 0.09 < rows["incident"]["low"] < rows["incident"]["share"] < rows["incident"]["high"] < 1
    (section,) = sections
    assert section.text[0].startswith("4 labelled handoffs; 1 without a label stand apart.")
    assert "Of the good ones 1 were raised or late, of the incidents 1 were not raised" in section.text[0]
    assert tables["handoffs_labelled"]["handoff_id"].to_list() == ["h3", "h1", "h2", "h4"]


def test_labels_of_runs_say_nothing_of_handoffs() -> None:
    """No label of scope handoff, no part."""
    runs = conform_labels(pl.DataFrame([{"run_id": "r", "scope": "run", "label": "healthy"}]))
    assert handoff_labels(handoffs(), runs) == ((), {})
    assert [s.anchor for s in handoff_tab({"handoffs": handoffs()}, runs)[0]][:2] == [
        "handoff-states",
        "handoff-look",
    ]


def test_a_label_of_a_handoff_that_is_not_there_is_refused_unless_data_were_selected() -> None:
    """One line that names it; a selection leaves it out."""
    told = labels(op_1="incident", op_77="healthy")
    with pytest.raises(InputError, match="op-77"):
        handoff_labels(handoffs(), told)
    assert handoff_labels(handoffs(), told, partial=True)[1]["handoffs_labelled"].height == 2


def test_a_report_with_labels_of_handoffs_alone_is_triage_for_loops() -> None:
    """The loops' tab needs no label of a run; the handoffs' tab has its part."""
    made = material(events(lane("r", "ABC")), boundaries={"handoffs": handoffs()})
    page = report_page(made, labels=labels(op_1="incident"))
    assert "Against the labels" in words(page.html)
    assert "A first sample to label" in words(page.html)
    assert "handoff_outcomes" in page.tables
