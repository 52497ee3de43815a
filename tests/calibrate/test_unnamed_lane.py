"""Labels of the lane of events without an agent: apart from labels of the whole run, in every format."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from agentlens.calibrate.label_check import selected_labels
from agentlens.calibrate.label_store import LabelStore
from agentlens.calibrate.labels import conform_labels, read_labels
from agentlens.calibrate.spans import run_spans
from agentlens.calibrate.sweep import sweep
from agentlens.calibrate.truth import Matching, Place, lay
from agentlens.cli import main
from agentlens.errors import InputError
from agentlens.lake import Lake
from tests.calibrate.small import labels, lane, lanes
from tests.calibrate.test_truth import CELLS, classes

EVENTS = lanes(lane("m", "xxxxx"), lane("m", "abcdefgh", agent="A"), lane("m", "ab", agent="#1"))
WELL = {"run_id": "m", "scope": "run", "label": "healthy"}


def laid(*rows: dict):
    found = sweep([EVENTS.lazy()], classes(CELLS), actions=("tool",))
    truth = lay(labels(*rows), found.actions, run_spans([EVENTS.lazy()]), Matching())
    return {
        agent: set(places)
        for agent, places in found.actions.with_columns(place=pl.Series(truth.place))
        .group_by("agent")
        .agg("place")
        .iter_rows()
    }, truth


def test_the_empty_name_means_the_unnamed_lane_alone():
    """Healthy is said of it and of no other, nor of a lane whose name is an instance mark; the run is partly so."""
    places, truth = laid({**WELL, "agent": ""})
    assert places == {"": {Place.HEALTHY_PART}, "A": {Place.UNJUDGED}, "#1": {Place.UNJUDGED}}
    assert truth.runs.rows() == [("m", "partly")]


def test_no_name_means_the_whole_run():
    """Null speaks of every lane."""
    places, truth = laid(WELL)
    assert set.union(*places.values()) == {Place.HEALTHY_RUN}
    assert truth.runs.rows() == [("m", "healthy")]


def test_an_incident_of_the_unnamed_lane_lies_in_no_other():
    """One row for the one lane; of the whole run it may lie in each."""
    incident = {**WELL, "label": "incident"}
    assert laid({**incident, "agent": ""})[1].incidents.height == 1
    assert laid(incident)[1].incidents.height == 3


def test_a_run_without_an_unnamed_lane_refuses_the_empty_name():
    """The message names the lanes there are, in quotes where there is no name."""
    named = lanes(lane("m", "abc", agent="A"))
    with pytest.raises(InputError, match=r'1 agent not in the run: "" \(run m\); accepted: .*: A$'):
        lay(
            labels({**WELL, "agent": ""}),
            sweep([named.lazy()], classes(CELLS)).actions,
            run_spans([named.lazy()]),
            Matching(),
        )
    with pytest.raises(InputError, match='one of the run: "", #1, A'):
        laid({**WELL, "agent": "B"})


@pytest.mark.parametrize("end", ["csv", "ndjson", "parquet"])
def test_a_file_keeps_the_two_apart(tmp_path, end):
    """In CSV two quotes are a name that is empty, and nothing is none; blanks are none."""
    path = tmp_path / f"labels.{end}"
    rows = [{**WELL, "agent": agent} for agent in ("", None, " ", "A")]
    if end == "csv":
        path.write_text(
            'run_id,scope,label,agent\nm,run,healthy,""\nm,run,healthy,\nm,run,healthy," "\nm,run,healthy,A\n'
        )
    elif end == "ndjson":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pl.DataFrame(rows).write_parquet(path)
    assert read_labels(path)["agent"].to_list() == ["", None, "A"]


def test_a_handoff_has_no_lane_to_name():
    """An empty agent says nothing there, a name is refused."""
    row = {"scope": "handoff", "label": "incident", "operation_id": "o", "agent": ""}
    assert conform_labels(pl.DataFrame([row]))["agent"].to_list() == [None]
    with pytest.raises(InputError, match="scope handoff has no run_id or agent"):
        conform_labels(pl.DataFrame([row | {"agent": "A"}]))


def test_a_label_of_the_unnamed_lane_goes_in_and_out_of_a_lake(tmp_path):
    """``--agent ''``, then out as CSV and in again: the same label, not one of the run."""
    events = tmp_path / "events.ndjson"
    rows = [
        {"run_id": "m", "seq": n, "tool": "t", "args": {}, "agent": agent}
        for agent in (None, "A")
        for n in range(2)
    ]
    events.write_text("".join(json.dumps(row) + "\n" for row in rows))
    lake = str(tmp_path / "lake")
    assert main(["ingest", str(events), "--into", lake]) == 0
    typed = ["--run-id", "m", "--scope", "run", "--label", "healthy", "--agent", ""]
    assert main(["label", "add", lake, *typed]) == 0
    assert main(["label", "export", lake, str(tmp_path / "out.csv")]) == 0
    assert main(["label", "import", lake, str(tmp_path / "out.csv")]) == 0
    assert LabelStore.of(Lake.open(Path(lake))).read()["agent"].to_list() == [""]


def test_a_selection_of_a_lane_leaves_the_unnamed_one_out():
    """Its label is counted as one of another lane."""
    kept = EVENTS.filter(pl.col("agent") == "A")
    told = labels({**WELL, "agent": ""}, {**WELL, "agent": "A"})
    left, out = selected_labels(told, [EVENTS.lazy()], [kept.lazy()])
    assert (left["agent"].to_list(), out) == (["A"], 1)
