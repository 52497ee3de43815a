"""Label files and the label store."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.calibrate.label_store import LabelStore
from agentlens.calibrate.labels import conform_labels, labels_digest, read_labels
from agentlens.calibrate.truth import strongest
from agentlens.calibrate.weak import weak_labels
from agentlens.errors import InputError, LakeError
from agentlens.model.label import LABELS
from tests.calibrate.small import labels, lane, lanes

CSV = """run_id,scope,label,onset_seq,onset_at,source
r1,run,healthy,,,human
r2,interval,incident,3,2026-11-02T10:00:00.5Z,
r3,interval,incident,,2026-11-02 12:00:00+02:00,planted
"""


def test_the_three_formats_say_the_same(tmp_path):
    """CSV, NDJSON and Parquet of the same rows give the same frame; times keep their zone."""
    (tmp_path / "a.csv").write_text(CSV)
    frame = read_labels(tmp_path / "a.csv")
    assert frame.schema == LABELS
    assert frame["onset_at"].dt.epoch("us").to_list() == [None, 1_793_613_600_500_000, 1_793_613_600_000_000]
    assert frame["source"].to_list() == ["human", "human", "planted"]
    plain = frame.with_columns(pl.col("onset_at").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"))
    plain.write_ndjson(tmp_path / "a.ndjson")
    frame.write_parquet(tmp_path / "a.parquet")
    assert read_labels(tmp_path / "a.ndjson").equals(frame)
    assert read_labels(tmp_path / "a.parquet").equals(frame)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("run_id,scope,label\nr1,run,sick\n", "row 1: label is none of incident, healthy, exclude"),
        ("run_id,scope,label\nr1,run,healthy\n,run,healthy\n", "row 2: run_id is missing"),
        ("run_id,scope,label,mood\nr1,run,healthy,x\n", "unknown column 'mood'"),
        ("run_id,label\nr1,healthy\n", "no column scope"),
        ("run_id,scope,label\nr1,interval,incident\n", "an interval needs onset_seq or onset_at"),
        ("run_id,scope,label,onset_seq,end_seq\nr1,interval,incident,5,3\n", "the end is before the onset"),
        ("run_id,scope,label,onset_seq\nr1,step,incident,two\n", "onset_seq is no whole number"),
        ("run_id,scope,label,onset_at\nr1,interval,incident,yesterday\n", "onset_at is no time"),
        ("operation_id,scope,label\n,handoff,incident\n", "operation_id is missing"),
        ("run_id,scope,label\n" + "r,week,healthy\n" * 9, "row 1, 2, 3, 4, 5 and 4 more: scope is none of"),
    ],
)
def test_a_bad_label_file_is_one_line_that_names_the_rows(tmp_path, text, said):
    """What is wrong with a label file is said with its rows, and what would be accepted."""
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(InputError) as error:
        read_labels(tmp_path / "bad.csv")
    assert said in str(error.value)
    assert "accepted:" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["labels.txt", "gone.csv", "gone.parquet", "dir.csv"])
def test_a_file_that_is_none_is_one_line(tmp_path, name):
    """An unknown ending, a missing file and a folder are errors in one line."""
    (tmp_path / "dir.csv").mkdir()
    with pytest.raises(InputError, match="accepted:") as error:
        read_labels(tmp_path / name)
    assert "\n" not in str(error.value)


def test_the_store_only_grows_and_knows_its_rows(tmp_path):
    """A part is added once; rows that are there already add nothing; a changed part is refused."""
    store = LabelStore(tmp_path / "labels")
    one = labels({"run_id": "a", "scope": "run", "label": "healthy"})
    two = labels({"run_id": "b", "scope": "run", "label": "incident", "onset_seq": None})
    assert store.read().is_empty()
    path = store.add(one)
    assert store.add(one) is None
    store.add(pl.concat([one, two]))
    assert store.read()["run_id"].to_list() == ["a", "b"]
    assert [p.name for p in tmp_path.rglob("*.new")] == []
    two.write_parquet(path)
    with pytest.raises(LakeError, match="changed after it was written"):
        store.read()


def test_the_digest_is_that_of_the_rows_in_any_order():
    """Order and repetition of labels do not matter, their values do."""
    one = labels(
        {"run_id": "a", "scope": "run", "label": "healthy"},
        {"run_id": "b", "scope": "run", "label": "exclude"},
    )
    assert labels_digest(one) == labels_digest(pl.concat([one.reverse(), one]))
    assert labels_digest(one) != labels_digest(one.with_columns(reviewer=pl.lit("x")))


def test_the_strongest_origin_and_then_the_newest_version_stand():
    """A person outweighs what was derived; version 10 replaces version 9."""
    told = labels(
        {"run_id": "a", "scope": "run", "label": "healthy", "source": "weak", "label_version": "7"},
        {"run_id": "a", "scope": "run", "label": "incident", "source": "human", "label_version": "9"},
        {"run_id": "a", "scope": "run", "label": "exclude", "source": "human", "label_version": "10"},
        {"run_id": "b", "scope": "run", "label": "healthy", "source": "weak", "label_version": "1"},
    )
    assert strongest(told).select("run_id", "label").rows() == [("a", "exclude"), ("b", "healthy")]


def test_weak_labels_follow_the_stated_rule():
    """Solved is healthy; before the best reward is healthy and after it an incident; no outcome, no label."""

    def facts(run, outcome, best=None):
        rows = [
            {"run_id": run, "seq": 90, "kind": "verdict", "tool": "g", "outcome": outcome, "task_group": "k"}
        ]
        rows += (
            []
            if best is None
            else [{"run_id": run, "seq": 91, "kind": "log", "tool": "best_reward", "target": best}]
        )
        return pl.DataFrame(rows, infer_schema_length=None)

    events = lanes(
        lane("a", "xy"),
        facts("a", "passed", "1"),
        facts("b", "failed", "2"),
        facts("c", "failed", "0"),
        facts("d", "failed"),
        facts("e", "unknown"),
        facts("f", "passed"),
        facts("f", "failed"),
    )
    found = weak_labels(events.lazy()).select("run_id", "scope", "label", "onset_seq", "end_seq")
    assert found.rows() == [
        ("a", "run", "healthy", None, None),
        ("b", "interval", "healthy", 0, 1),
        ("b", "interval", "incident", 2, None),
        ("c", "interval", "incident", 0, None),
        ("d", "run", "incident", None, None),
    ]


def test_a_frame_of_labels_needs_no_column_that_it_does_not_use():
    """Absent columns are null, the origin is a person, the version is 1."""
    one = conform_labels(pl.DataFrame({"run_id": ["a"], "scope": ["run"], "label": ["healthy"]}))
    assert one.select("source", "label_version", "onset_seq").row(0) == ("human", "1", None)


def test_equal_rows_count_once_whatever_the_door(tmp_path):
    """A file with a row twice, and a frame with it twice, are one assertion, as in the store."""
    path = tmp_path / "l.csv"
    path.write_text("run_id,scope,label\nr1,run,healthy\nr1,run,healthy\nr2,run,incident\n")
    assert read_labels(path)["run_id"].to_list() == ["r1", "r2"]
    frame = read_labels(path)
    assert conform_labels(pl.concat([frame, frame])).equals(frame)


def test_ids_that_are_objects_are_refused(tmp_path):
    """A run id has to be text or a number: an object would never match."""
    path = tmp_path / "l.ndjson"
    path.write_text('{"run_id": {"a": 1}, "scope": "run", "label": "healthy"}\n')
    with pytest.raises(InputError, match="run_id holds objects or lists; accepted: plain text"):
        read_labels(path)
