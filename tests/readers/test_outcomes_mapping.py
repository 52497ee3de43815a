"""Outcomes that stand in a table beside the traces."""

from __future__ import annotations

from pathlib import Path

import agentlens
from agentlens.model.raw import RawEvent
from agentlens.normalise import Key, Normaliser, Tables
from agentlens.readers.base import Report
from agentlens.readers.source import Source
from agentlens.readers.sql import mapped

TABLE = """run_id,level,step,label,value,source
a,run,,resolved,true,harness
b,run,,resolved,False,harness
c,run,,is_resolved,none,harness
d,run,,reward,0.5,env
e,run,,success,true,agent_self
f,step,3,reward,1.0,env
g,run,,exit_status,Submitted,harness
"""


def test_only_words_from_outside_the_agent_are_outcomes(tmp_path: Path) -> None:
    """Three values; the agent's own word, step rows and other labels give none."""
    path = tmp_path / "labels.csv"
    path.write_text(TABLE, encoding="utf-8")
    found = [e for e in mapped("outcomes").read(Source.of(path), Report()) if isinstance(e, RawEvent)]
    assert {e.run_id: e.outcome for e in found} == {
        "a": "passed",
        "b": "failed",
        "c": "unknown",
        "d": "unknown",
    }
    assert {e.kind for e in found} == {"verdict"}


def test_72_submitted_19_failed(shared: Path, tmp_path: Path) -> None:
    """mini-swe-gemini3: every run claims to have submitted a solution, 19 fail the hidden tests."""
    folder = shared / "traces" / "mini-swe-gemini3"
    normaliser = Normaliser(key=Key.public_demo(), tables=Tables.load())
    lake = tmp_path / "lake"
    agentlens.ingest(folder / "runs", into=lake, normaliser=normaliser)
    agentlens.ingest(folder / "labels.csv", into=lake, sql="outcomes", normaliser=normaliser)
    claims = agentlens.handoffs(lake).claims
    assert claims.height == 72
    assert (claims["claimed"] == "success").sum() == 72
    assert claims["false_success"].sum() == 19
