"""Handoffs on Spark: receipts of linked runs come together, operations are judged whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import agentlens
from agentlens.distribute import engine, spark, whole
from agentlens.distribute.links import groups, links
from agentlens.lake import ingest
from agentlens.model.event import EVENTS
from tests.distribute.exports import at, event, normaliser

_LIFE = ("delegated", "accepted", "completed", "outcome_verified")


def receipts(count: int) -> list[dict[str, Any]]:
    """Operations of one to four receipts; the last author is another's recipient."""
    rows = []
    for number in range(count):
        for step, name in enumerate(_LIFE[: 1 + number % 4]):
            row = {"operation_id": f"op-{number:02}", "handoff_id": f"op-{number:02}/1", "event": name}
            row |= {
                "at": at(number + step),
                "author": "lead" if step == 0 else "helper",
                "recipient": "helper",
            }
            rows.append(row | ({"outcome": "passed"} if name == "outcome_verified" else {}))
    return rows


def handed(run: str, child: str) -> list[dict[str, Any]]:
    """A run hands over, and another run starts for that call and claims success."""
    return [
        event(run, 0),
        event(run, 1, kind="handoff", tool="task", target="helper", call_id=f"call-{run}"),
        event(run, 2),
        event(child, 0, agent="helper", kind="accept", call_id=f"call-{run}", parent_run_id=run),
        event(child, 1, agent="helper"),
        event(child, 2, agent="helper", kind="claim", tool="", target="success"),
        event(child, 3, agent="helper", kind="verdict", tool="", target="tests", outcome="failed"),
    ]


@pytest.fixture(scope="module")
def linked_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that hand over to runs in other buckets, one that does so inside itself, and native receipts."""
    folder = tmp_path_factory.mktemp("linked")
    rows = [row for n in range(6) for row in handed(f"parent-{n}", f"child-{n * 7}")]
    rows += [event("alone", 0), event("alone", 1, kind="handoff", tool="task", target="nobody")]
    source = folder / "source"
    source.mkdir()
    for name, lines in (("events", rows), ("receipts", receipts(9))):
        (source / f"{name}.ndjson").write_text("".join(json.dumps(row) + "\n" for row in lines))
    told = ingest([str(source)], folder / "lake", normaliser=normaliser(), workers=1)
    assert told.quarantined == 0
    return folder / "lake"


def same(found: Any, wanted: Any) -> None:
    for name, frame in wanted.tables().items():
        assert_frame_equal(found.fetch(name), frame)
    assert found.metadata == wanted.metadata


def test_links_over_runs_are_followed(
    session: Any, linked_lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handoff that another run took is accepted on Spark as on one machine, in batches of two rows."""
    monkeypatch.setattr(engine, "BATCH_ROWS", 2)
    monkeypatch.setattr(whole, "CHUNK_ROWS", 5)
    wanted = agentlens.handoffs(linked_lake)
    taken = wanted.handoffs.filter(pl.col("inferred") & pl.col("accepted"))
    assert taken.height == 6
    assert wanted.cues["false"].to_list()[0] == 6
    with spark.handoffs(session, str(linked_lake)) as found:
        same(found, wanted)


def test_a_selection_selects_the_same(session: Any, linked_lake: Path) -> None:
    """Workflow, agent and time select what is shown, not what is judged; a moment may be given."""
    chosen = {"workflow": "desk", "agent": "worker", "since": "2026-09-21", "as_of": "2026-10-01"}
    wanted = agentlens.handoffs(linked_lake, **chosen)
    assert 0 < wanted.handoffs.height < agentlens.handoffs(linked_lake).handoffs.height
    with spark.handoffs(session, str(linked_lake), **chosen) as found:
        same(found, wanted)


def test_an_empty_lake_gives_empty_tables(session: Any, tmp_path: Path) -> None:
    """A lake of receipts alone has no bucket and still has handoffs; its loops are empty tables."""
    (tmp_path / "receipts.ndjson").write_text("".join(json.dumps(row) + "\n" for row in receipts(2)))
    ingest([str(tmp_path / "receipts.ndjson")], tmp_path / "lake", normaliser=normaliser(), workers=1)
    with spark.handoffs(session, str(tmp_path / "lake")) as found:
        same(found, agentlens.handoffs(tmp_path / "lake"))
    with spark.loops(session, str(tmp_path / "lake")) as found:
        assert found.fetch("runs").equals(agentlens.loops(tmp_path / "lake").runs)


def test_runs_without_a_common_name_are_no_group() -> None:
    """Two runs of one trace are one group when one hands over and the other holds an agent's span; others are none."""
    frame = pl.DataFrame(
        {
            "run_id": ["a", "b", "c"],
            "kind": ["handoff", "agent", "agent"],
            "trace_id": ["t", "t", "u"],
            "span_id": ["s", "x", "y"],
            "call_id": [None, "s", "s"],
        }
    )
    events = pl.concat([pl.DataFrame(schema=EVENTS), frame], how="diagonal")
    found = links(events.lazy()).collect()
    assert groups(found.rows()).rows() == [("a", "a"), ("b", "a")]
