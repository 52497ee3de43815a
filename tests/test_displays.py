"""What a notebook shows of each result: the answer first, few rows, and nothing of a trace that is more than text."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import agentlens
from agentlens.reviewing import review_queue

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two stuck runs and twelve that work, of a tool whose name is a script."""
    monkeypatch.setenv("AGENTLENS_KEY", "a key for the tests, long enough")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    rows = [
        {
            "run_id": f"{SCRIPT}{n:02d}",
            "seq": i,
            "tool": SCRIPT,
            "args": {"q": 1 if n < 2 and i else i},
            "result": "x" if n < 2 and i else i,
        }
        for n in range(14)
        for i in range(6)
    ]
    source = tmp_path / f"{SCRIPT.replace('/', '_')}.ndjson"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    report = agentlens.ingest(source, into=tmp_path / "lake")
    shown = report._repr_html_()
    assert "<script" not in shown
    assert "The lake holds 14 runs, 84 events." in shown
    assert "<td>native</td><td>new</td><td>1</td><td>84</td><td>0</td>" in shown
    return tmp_path / "lake"


def labels() -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "run_id": f"{SCRIPT}{n:02d}",
                "scope": "interval" if n < 2 else "run",
                "label": "incident" if n < 2 else "healthy",
                "onset_seq": 1 if n < 2 else None,
                "task_group": f"{SCRIPT}{n}",
            }
            for n in range(14)
        ]
    )


def test_each_result_is_shown_and_is_inert(lake: Path) -> None:
    """Loops, handoffs, resets, a calibration, a report, a comparison, a review queue and what came back."""
    found = agentlens.loops(lake)
    assert "verdicts (84 rows)" in found._repr_html_()
    calibrated = agentlens.calibrate(lake, labels=labels(), max_fpr=0.4)
    said = calibrated._repr_html_()
    assert said.startswith(f"<h4>{calibrated.status}</h4>")
    assert "certificate (" in said
    assert said.count("<h4>") == 3  # the answer, the rules, the certificate: not two dozen tables
    assert ".counterfactuals" in said
    queue = review_queue(lake)
    assert f"{queue.key.height} items" in queue._repr_html_()
    answers = [found, calibrated, queue, agentlens.handoffs(lake), agentlens.resets(lake)]
    answers += [agentlens.make_report(lake, labels=labels()), agentlens.compare(lake, against="gemini_cli")]
    for answer in answers:
        assert "<script" not in answer._repr_html_()


def test_a_table_without_rows_is_one_line(lake: Path) -> None:
    """Not an empty grid with thirty headings."""
    assert "<p><b>handoffs</b>: no rows</p>" in agentlens.handoffs(lake)._repr_html_()
