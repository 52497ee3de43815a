"""SWE-bench reports beside trajectories."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from agentlens.detect.claims import claims
from agentlens.readers import registry
from agentlens.readers.source import Source
from tests.readers.reading import events, records
from tests.readers.test_real_loops import events as assembled

if TYPE_CHECKING:
    from pathlib import Path


def outcomes(document: Any) -> dict[str, str | None]:
    return {event.run_id: event.outcome for event in events(json.dumps(document).encode())}


def judged(*, resolved: bool, **more: Any) -> dict[str, Any]:
    status = {"FAIL_TO_PASS": {"success": [], "failure": ["x"]}}
    return {
        "patch_exists": True,
        "patch_successfully_applied": True,
        "resolved": resolved,
        "tests_status": status,
        **more,
    }


def test_the_report_of_an_instance_is_its_runs_verdict() -> None:
    """A patch that does not apply failed; tests that left nothing behind say nothing."""
    assert outcomes(
        {
            "a__a-1": judged(resolved=True),
            "a__a-2": judged(resolved=False),
            "a__a-3": judged(resolved=False, patch_successfully_applied=False, tests_status={}),
            "a__a-4": judged(resolved=False, tests_status={}),
        }
    ) == {"a__a-1": "passed", "a__a-2": "failed", "a__a-3": "failed", "a__a-4": "unknown"}


def test_the_summary_of_an_evaluation_has_three_values() -> None:
    """An evaluation that broke is unknown; a list of results names only what passed."""
    summary = {
        "resolved_ids": ["a"],
        "unresolved_ids": ["b"],
        "empty_patch_ids": ["c"],
        "error_ids": ["d"],
        "total_instances": 4,
    }
    assert outcomes(summary) == {"a": "passed", "b": "failed", "c": "failed", "d": "unknown"}
    assert outcomes({"no_generation": [], "no_logs": ["x"], "resolved": ["a"]}) == {
        "a": "passed",
        "x": "unknown",
    }


@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, [None], True])
def test_a_wrong_type_anywhere_is_never_an_exception(junk: Any) -> None:
    """Each field is replaced in turn."""
    for key in judged(resolved=False):
        records(json.dumps({"a": {**judged(resolved=False), key: junk}, "b": junk}).encode(), "swe-bench")
    records(json.dumps({"resolved_ids": junk, "unresolved_ids": [junk]}).encode(), "swe-bench")
    records(json.dumps(junk).encode(), "swe-bench")


def test_a_summary_beside_trajectories_shows_19_false_claims(shared: Path, tmp_path: Path) -> None:
    """72 runs submitted; the summary is made of the labels that come with them."""
    folder = shared / "traces" / "mini-swe-gemini3"
    labels = pl.read_csv(folder / "labels.csv", infer_schema=False).filter(pl.col("label") == "resolved")
    by = {value: labels.filter(pl.col("value") == value)["run_id"].to_list() for value in ("true", "false")}
    summary = tmp_path / "gemini.all.json"
    summary.write_text(json.dumps({"resolved_ids": by["true"], "unresolved_ids": by["false"]}))
    assert registry.sniff(Source.of(summary).head()).name == "swe-bench"
    told = claims(assembled([*sorted((folder / "runs").glob("*.gz")), summary]).lazy()).collect()
    assert told.height == 72
    assert told["false_success"].sum() == 19
