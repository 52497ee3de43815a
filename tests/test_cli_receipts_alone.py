"""``agentlens calibrate`` of a lake with receipts and no action: limits of handoffs, and no loop rule."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import polars as pl
import pytest

from agentlens.calibrate.labels import conform_labels
from agentlens.calibrate.limits_only import loop_tables
from agentlens.calibrating import calibrate
from agentlens.cli import main
from agentlens.datasets import Urgency, synthetic_handoffs
from agentlens.verbs.label import export

CLASSES = (
    Urgency(name="normal", median_s=20.0, sigma=0.8, lost=0.06, weight=3.0),
    Urgency(name="urgent", median_s=5.0, sigma=0.8, lost=0.02, weight=2.0),
)


@pytest.fixture(scope="module")
def planted():
    """Handoffs with their truth."""
    return synthetic_handoffs(400, seed=3, classes=CLASSES, watched_s=3_000.0)


@pytest.fixture(scope="module")
def lake(planted, tmp_path_factory) -> Path:
    """A lake of receipts, labels of handoffs beside it."""
    folder = tmp_path_factory.mktemp("alone")
    known = [name for name in planted.receipts.columns if name not in {"inferred", "verifiable"}]
    rows = planted.receipts.select(known).iter_rows(named=True)
    told = [
        json.dumps({k: v for k, v in row.items() if v is not None} | {"at": row["at"].isoformat()})
        for row in rows
    ]
    (folder / "receipts.ndjson").write_text("\n".join(told))
    export(conform_labels(planted.labels), str(folder / "handoffs.ndjson"))
    assert main(["ingest", str(folder / "receipts.ndjson"), "--into", str(folder / "lake")]) == 0
    return folder / "lake"


@pytest.fixture(scope="module")
def out(lake) -> Path:
    """The calibration without labels, with a cap that the data contradict and one they keep."""
    folder = lake.parent / "out"
    more = ["--ack-cap", "normal=30", "--ack-cap", "urgent=600"]
    assert main(["calibrate", str(lake), "--out", str(folder), *more]) == 0
    return folder


def profile(out: Path) -> dict:
    return tomllib.loads((out / "profile.toml").read_text(encoding="utf-8"))


def test_limits_without_labels_or_actions(out):
    """Each class has its limit above the true 95 % quantile; the loop part is refused and says why."""
    told = profile(out)
    for name, median_s in (("normal", 20.0), ("urgent", 5.0)):
        truth = median_s * 2.718281828 ** (0.8 * 1.645)
        assert truth <= told["handoffs"]["ack_limits"][name] <= 1.8 * truth
    assert told["profile"] == {
        "status": "INFEASIBLE",
        "reason": "the data hold receipts and no action of a run",
    }
    assert "default" not in told
    assert told["made"]["labels_from"] == "none"
    assert pl.read_parquet(out / "certificate.parquet").is_empty()


def test_a_cap_conflict_is_in_the_profile_and_said_where_the_limit_is_used(out, lake, capsys):
    """30 s for normal is below its limit, 600 s for urgent is not; the limit is used, and the conflict is told."""
    told = profile(out)["acknowledgement"]
    row = pl.read_parquet(out / "ack_limits.parquet").row(
        by_predicate=pl.col("urgency") == "normal", named=True
    )
    assert told["conflicts"] == ["normal"]
    assert told["caps_s"] == {"normal": 30.0, "urgent": 600.0}
    assert told["silent_at_cap"]["normal"] == row["silent_at_cap"] > 0.05
    assert main(["handoffs", str(lake), "--profile", str(out / "profile.toml")]) == 0
    said = capsys.readouterr().err
    assert f"normal: the limit, {row['limit_us'] / 1e6:g} s, exceeds the cap of 30 s" in said
    assert "urgent: the limit" not in said


def test_labels_of_handoffs_are_used(lake, planted, capsys):
    """With them the table against labelled handoffs counts every lost one."""
    folder = lake.parent / "labelled"
    labels = str(lake.parent / "handoffs.ndjson")
    assert main(["calibrate", str(lake), "--labels", labels, "--out", str(folder)]) == 0
    table = pl.read_parquet(folder / "ack_labelled.parquet")
    assert table["lost"][0] == planted.truth["lost"].sum()
    shown = capsys.readouterr().out
    assert "no loop rule: the data hold receipts and no action of a run" in shown
    assert "Acknowledgement limits" in shown


def test_the_profile_is_no_rule_and_holds_for_traces_too(out, lake, tmp_path, capsys):
    """``loops`` refuses it with the reason; ``handoffs`` takes it on data with events: durations have no versions."""
    events = tmp_path / "events.ndjson"
    events.write_text(
        "".join(json.dumps({"run_id": "r", "seq": n, "tool": "t", "args": {"n": n}}) + "\n" for n in range(3))
    )
    assert main(["loops", str(events), "--rule", str(out / "profile.toml")]) == 2
    assert "no rule (the data hold receipts and no action of a run)" in capsys.readouterr().err
    assert main(["handoffs", str(events), "--profile", str(out / "profile.toml")]) == 0


def test_labels_of_handoffs_alone_need_no_rule_where_there_are_actions(lake, tmp_path):
    """Runs without a label of theirs: the loop part is refused, for that reason."""
    events = tmp_path / "events.ndjson"
    events.write_text(json.dumps({"run_id": "r", "seq": 0, "tool": "t", "args": {}}) + "\n")
    both = tmp_path / "lake"
    assert main(["ingest", str(events), str(lake.parent / "receipts.ndjson"), "--into", str(both)]) == 0
    found = calibrate(str(both), labels=str(lake.parent / "handoffs.ndjson"))
    assert found.profile["profile"]["reason"] == "every label is about a handoff, none about a run"
    assert "normal" in found.profile["handoffs"]["ack_limits"]


def test_a_label_of_a_run_that_is_not_there_stays_an_error(lake, tmp_path, capsys):
    """So do selections of runs, and no labels beside actions."""
    told = tmp_path / "labels.csv"
    told.write_text("run_id,scope,label\nr1,run,healthy\n")
    out = str(tmp_path / "o")
    assert main(["calibrate", str(lake), "--labels", str(told), "--out", out]) == 2
    assert "1 run not in the data: r1" in capsys.readouterr().err
    assert main(["calibrate", str(lake), "--workflow", "w", "--out", out]) == 2
    assert "it selects runs" in capsys.readouterr().err


def test_the_empty_tables_are_those_of_a_calibration(tmp_path):
    """Each table of the loop part has the columns and types that it has where a rule was calibrated."""
    rows, told = [], []
    for k in range(8):
        word = "x" * 9 if k % 4 == 0 else "abcdefghi"
        rows += [
            {"run_id": f"r{k}", "seq": n, "tool": "t", "args": {"a": c}, "result": "same"}
            for n, c in enumerate(word)
        ]
        told.append(f"r{k},run,{'incident' if k % 4 == 0 else 'healthy'},g{k}")
    (tmp_path / "events.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "labels.csv").write_text("run_id,scope,label,task_group\n" + "\n".join(told) + "\n")
    found = calibrate(str(tmp_path / "events.ndjson"), labels=str(tmp_path / "labels.csv"), max_fpr=0.3)
    for name, empty in loop_tables().items():
        assert found.tables()[name].schema == empty.schema, name
