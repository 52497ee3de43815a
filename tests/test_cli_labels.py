"""``agentlens label``: what can not be a label is one line and stores nothing; what is stored comes out as it went in."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlens.calibrate.labels import conform_labels, read_labels
from agentlens.cli import main
from agentlens.model.label import LABELS
from agentlens.verbs.label import export

START = 1_790_000_000  # 2026-09-21T14:13:20Z


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A lake: runs r1 and r2 of agents main, sub#1 and sub#2, twelve events each; operations op0 and op1."""
    folder = tmp_path_factory.mktemp("labels")
    events = [
        {
            "run_id": run,
            "agent": agent,
            "seq": n,
            "at": START + 10 * n,
            "tool": "t",
            "args": {"n": n},
            "result": "x",
        }
        for run in ("r1", "r2")
        for agent in ("main", "sub#1", "sub#2")
        for n in range(12)
    ]
    receipts = [
        {"operation_id": f"op{k}", "handoff_id": f"op{k}/h1", "event": event, "at": START + after, "author": author,
         "expected_artifact": "a"}
        for k in range(2)
        for event, after, author in (("delegated", 0, "lead"), ("accepted", 9, "worker"))
    ]  # fmt: skip
    (folder / "events.ndjson").write_text("\n".join(map(json.dumps, events)))
    (folder / "receipts.ndjson").write_text("\n".join(map(json.dumps, receipts)))
    sources = [str(folder / name) for name in ("events.ndjson", "receipts.ndjson")]
    assert main(["ingest", *sources, "--into", str(folder / "lake")]) == 0
    return folder / "lake"


@pytest.fixture
def lake(made, tmp_path) -> Path:
    """The lake without labels."""
    return shutil.copytree(made, tmp_path / "lake")


RUN = {"run_id": "r1", "scope": "run", "label": "incident"}
STRETCH = {"run_id": "r1", "scope": "interval", "label": "incident", "onset_seq": 3}
STEP = {"run_id": "r1", "scope": "step", "label": "incident", "onset_seq": 3}
HANDOFF = {"scope": "handoff", "label": "incident", "operation_id": "op1"}
WELL = {"run_id": "r1", "scope": "run", "label": "healthy"}

BAD = [
    ({**RUN, "run_id": "zz"}, "1 run not in the lake: zz"),
    ({**RUN, "run_id": " "}, "run_id is missing"),
    ({**RUN, "agent": "nobody"}, "1 agent not in the run: nobody (run r1); accepted: no agent, or one of"),
    ({**WELL, "agent": "sub#9"}, "one of the run: main, sub#1, sub#2"),
    ({**WELL, "label": "exclude", "agent": "mai"}, "agent not in the run: mai"),
    ({**STEP, "label": "healthy", "agent": "nobody"}, "agent not in the run: nobody"),
    ({**RUN, "operation_id": "op1"}, "operation_id and handoff_id need scope handoff"),
    ({**RUN, "handoff_id": "op1/h1"}, "operation_id and handoff_id need scope handoff"),
    ({**HANDOFF, "operation_id": "opx"}, "1 operation not in the lake: opx"),
    ({**HANDOFF, "operation_id": None, "handoff_id": "op1/h1"}, "operation_id is missing"),
    ({**HANDOFF, "handoff_id": "hx"}, "no handoff for op1/hx"),
    ({**HANDOFF, "run_id": "r1"}, "scope handoff has no run_id or agent"),
    ({**HANDOFF, "onset_seq": 1}, "a handoff has no onset or end"),
    ({**RUN, "scope": "week"}, "scope is none of run, interval, step, handoff"),
    ({**RUN, "label": "sick"}, "label is none of incident, healthy, exclude"),
    ({**RUN, "source": "oracle"}, "source is none of human, harness, planted, weak"),
    ({**STRETCH, "onset_seq": None}, "an interval needs onset_seq or onset_at"),
    ({**STRETCH, "onset_seq": "three"}, "onset_seq is no whole number"),
    ({**STRETCH, "onset_seq": 3.5}, "onset_seq is no whole number"),
    ({**STRETCH, "onset_seq": -1}, "onset outside the run: r1 (onset_seq -1, run 0..11)"),
    ({**STRETCH, "onset_seq": 12}, "onset outside the run: r1 (onset_seq 12, run 0..11)"),
    ({**STRETCH, "onset_hi_seq": 2}, "onset_hi_seq is before onset_seq"),
    ({**STRETCH, "onset_hi_seq": 12}, "last onset outside the run: r1 (onset_hi_seq 12, run 0..11)"),
    ({**STRETCH, "onset_hi_seq": 8, "end_seq": 5}, "the end is before the onset"),
    ({**RUN, "onset_hi_seq": 3}, "onset_hi_seq needs onset_seq"),
    ({**STRETCH, "label": "healthy", "onset_hi_seq": 4}, "onset_hi_seq is for incidents"),
    ({**STRETCH, "end_seq": 2}, "the end is before the onset"),
    ({**STRETCH, "end_seq": 12}, "end outside the run: r1 (end_seq 12, run 0..11)"),
    ({**WELL, "onset_seq": 3}, "a run is healthy or excluded whole"),
    ({**STEP, "onset_seq": None}, "a step needs onset_seq"),
    ({**STEP, "end_seq": 5}, "a step has no end"),
    ({**STRETCH, "onset_at": "yesterday"}, "onset_at is no time"),
    ({**STRETCH, "onset_at": "12345"}, "onset_at is no time"),
    ({**STRETCH, "onset_seq": None, "onset_at": "1999-01-01T00:00:00Z"}, "onset outside the run: r1 (onset_at 1999"),
    ({**STRETCH, "onset_at": "2026-09-21T14:14:00Z", "end_at": "2026-09-21T14:13:30Z"}, "the end is before the onset"),
    ({**STRETCH, "observed_until": "99999999999"}, None),
    ({**STRETCH, "observed_until": "soon"}, "observed_until is no time"),
    ({**STRETCH, "observed_until": "1999-01-01T00:00:00Z"}, "observed_until is before the run: r1"),
    ({**STRETCH, "observed_until": "2026-09-21T14:13:40Z"}, "no action lies inside the stretch of: r1"),
    ({**STRETCH, "onset_at": "2026-09-21T14:14:00Z", "observed_until": "2026-09-21T14:13:40Z"},
     "observed_until is before the onset"),
]  # fmt: skip


def stored(lake: Path) -> list[Path]:
    return sorted((lake / "labels").glob("*.parquet"))


def words(row: dict) -> list[str]:
    return [word for name, value in row.items() if value is not None for word in (f"--{name}".replace("_", "-"), str(value))]  # fmt: skip


@pytest.mark.parametrize(("row", "said"), [pair for pair in BAD if pair[1]])
def test_what_can_not_be_a_label_is_one_line_and_stores_nothing(lake, capsys, row, said):
    """Typed in and read from each format: exit 2, the fault, what is accepted, and an empty store."""
    folder = lake.parent
    table = {name: [None if value is None else str(value)] for name, value in row.items()}
    pl.DataFrame(table).write_csv(folder / "bad.csv")
    (folder / "bad.ndjson").write_text(json.dumps(row) + "\n")
    pl.DataFrame([row]).write_parquet(folder / "bad.parquet")
    asked = [
        ["label", "import", str(lake), str(folder / f"bad.{end}")] for end in ("csv", "ndjson", "parquet")
    ]
    for typed in (["label", "add", str(lake), *words(row)], *asked):
        assert main(typed) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert said in error
        assert "accepted: " in error
    assert stored(lake) == []


def test_one_bad_row_keeps_every_row_out(lake, capsys):
    """A file is taken whole or not at all."""
    path = lake.parent / "half.csv"
    path.write_text("run_id,agent,scope,label\nr1,,run,healthy\nr2,nobody,run,healthy\n")
    assert main(["label", "import", str(lake), str(path)]) == 2
    assert "nobody (run r2)" in capsys.readouterr().err
    assert stored(lake) == []


def test_labels_of_handoffs_that_contradict_are_refused_unless_newer(lake, capsys):
    """The same handoff good and lost at once is no label; a newer version replaces."""
    one = ["label", "add", str(lake), *words(HANDOFF)]
    assert main(one) == 0
    other = ["label", "add", str(lake), *words({**HANDOFF, "label": "healthy", "handoff_id": "op1/h1"})]
    assert main(other) == 0  # the one that names the attempt speaks for it
    clash = ["label", "add", str(lake), *words({**HANDOFF, "handoff_id": "op1/h1"})]
    assert main(clash) == 2
    assert "contradict each other for op1/op1/h1" in capsys.readouterr().err
    assert main([*clash, "--label-version", "2"]) == 0
    assert len(stored(lake)) == 3


def test_times_may_be_seconds_since_1970_in_every_format(tmp_path):
    """Epoch seconds in CSV, NDJSON and Parquet are the same moment; zones are kept; whole floats are numbers."""
    row = {**STRETCH, "onset_at": START + 30}
    (tmp_path / "a.ndjson").write_text(json.dumps(row))
    pl.DataFrame([{**row, "onset_seq": 3.0}]).write_parquet(tmp_path / "a.parquet")
    with (tmp_path / "a.csv").open("w") as out:
        sheet = csv.DictWriter(out, row)
        sheet.writeheader()
        sheet.writerow(row)
    frames = [read_labels(tmp_path / f"a.{end}") for end in ("csv", "ndjson", "parquet")]
    assert all(frame.equals(frames[0]) for frame in frames)
    assert frames[0]["onset_at"].dt.epoch("s").to_list() == [START + 30]
    assert frames[0]["onset_seq"].to_list() == [3]


@pytest.mark.parametrize("value", [True, float("nan"), float("inf"), 1e300])
@pytest.mark.parametrize("name", ["onset_seq", "onset_at"])
def test_a_frame_of_labels_with_odd_types_is_one_line(name, value):
    """Truth values and numbers without end are neither positions nor times, and no traceback."""
    from agentlens.errors import InputError

    frame = pl.DataFrame([{**RUN, "onset_seq": 3, name: value}])
    with pytest.raises(InputError, match=f"{name} is no "):
        conform_labels(frame)


TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=8
).map(str.strip)
ROW = st.fixed_dictionaries(
    {
        "run_id": TEXT,
        "scope": st.just("interval"),
        "label": st.sampled_from(["incident", "healthy", "exclude"]),
    },
    optional={
        "agent": TEXT,
        "end_seq": st.integers(10, 2**62),
        "end_at": st.integers(2_000_000_000, 9_000_000_000),
        "kind": TEXT,
        "reviewer": TEXT,
        "found_by": TEXT,
        "task_group": TEXT,
        "label_version": TEXT,
        "source": st.sampled_from(["human", "harness", "planted", "weak"]),
    },
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ROW.filter(lambda row: row["run_id"]), min_size=1, max_size=4))
def test_what_is_exported_is_read_back_equal(rows, tmp_path_factory):
    """Every column, hostile text and times of a microsecond survive CSV, NDJSON and Parquet."""
    folder = tmp_path_factory.mktemp("round")
    names = sorted({name for row in rows for name in row})
    columns = {n: [row.get(n) or None for row in rows] for n in names}
    frame = conform_labels(pl.DataFrame(columns).with_columns(onset_seq=3, onset_at=pl.lit(START + 0.000123)))
    assert frame.schema == LABELS
    for end in ("csv", "ndjson", "parquet"):
        path = folder / f"l.{end}"
        export(frame, str(path))
        assert read_labels(path).equals(frame), end


def test_a_lane_is_named_with_or_without_its_mark(lake):
    """``sub`` means both of its instances, ``sub#1`` one."""
    for agent in ("sub", "sub#1", "main"):
        assert main(["label", "add", str(lake), *words({**STRETCH, "agent": agent})]) == 0
    assert len(stored(lake)) == 3
