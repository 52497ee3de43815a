"""What is typed to select a part: a part that holds nothing is said, and a span of no time is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from agentlens.cli import main

if TYPE_CHECKING:
    from pathlib import Path

VERBS = ("loops", "health", "handoffs", "resets")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """One run of one lane that has no times."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    source = tmp_path / "events.jsonl"
    event = {"kind": "tool", "run_id": "r", "agent": "a", "tool": "read", "action_signature": "x"}
    source.write_text("".join(json.dumps({**event, "seq": seq}) + "\n" for seq in range(3)), encoding="utf-8")
    assert main(["ingest", str(source), "--into", str(tmp_path / "lake")]) == 0
    return str(tmp_path / "lake")


@pytest.mark.parametrize("verb", VERBS)
def test_a_selection_of_nothing_is_said(verb: str, lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing found in nothing looks like good news."""
    capsys.readouterr()
    assert main([verb, lake, "--agent", "nobody", "--workflow", "w"]) == 0
    told = capsys.readouterr()
    assert f"{lake}: no " in told.err
    assert "of it is selected by --workflow w --agent nobody" in told.err
    assert "Nothing to warn about" not in told.out


def test_a_report_of_nothing_says_so(lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page is written all the same."""
    page = tmp_path / "page.html"
    assert main(["report", lake, "--agent", "nobody", "--out", str(page)]) == 0
    assert "no run of it is selected by --agent nobody" in capsys.readouterr().err
    assert page.exists()


def test_a_selection_that_holds_something_says_nothing(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither does a lake that is looked at whole."""
    for more in ([], ["--agent", "a"]):
        capsys.readouterr()
        assert main(["loops", lake, *more]) == 0
        assert "selected" not in capsys.readouterr().err


@pytest.mark.parametrize("verb", [*VERBS, "report"])
@pytest.mark.parametrize("until", ["2026-01-01", "2025-12-31"])
def test_a_span_of_no_time_is_refused(
    verb: str, until: str, lake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An end at or before the beginning is a slip of the hand."""
    capsys.readouterr()
    assert main([verb, lake, "--since", "2026-01-01", "--until", until]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "until" in line
    assert "accepted: a time after 2026-01-01T00:00:00+00:00" in line
