"""Acknowledgement limits from the command line, on planted handoffs: lost and slow ones, caps, labels, versions."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import polars as pl
import pytest

from agentlens.calibrate.labels import conform_labels
from agentlens.cli import main
from agentlens.datasets import Urgency, synthetic_handoffs
from agentlens.verbs.label import export

CLASSES = (
    Urgency(name="normal", median_s=20.0, sigma=0.8, lost=0.06, weight=3.0),
    Urgency(name="urgent", median_s=5.0, sigma=0.8, lost=0.02, weight=2.0),
    Urgency(name="rare", median_s=20.0, sigma=0.8, lost=0.0, weight=0.02),
)
PER_DELIVERED = 1.645  # standard normal quantile of 95 %


def record(row: dict) -> str:
    kept = {
        name: value
        for name, value in row.items()
        if value is not None and name not in {"inferred", "verifiable"}
    }
    return json.dumps(kept | {"at": row["at"].isoformat()})


@pytest.fixture(scope="module")
def planted():
    """Handoffs with their truth."""
    return synthetic_handoffs(900, seed=11, classes=CLASSES, watched_s=3_000.0)


@pytest.fixture(scope="module")
def lake(planted, tmp_path_factory) -> Path:
    """A lake of some runs and of the handoffs; labels of both in it."""
    folder = tmp_path_factory.mktemp("acks")
    known = [name for name in planted.receipts.columns if name not in {"inferred", "verifiable"}]
    receipts = [record(row) for row in planted.receipts.select(known).iter_rows(named=True)]
    (folder / "receipts.ndjson").write_text("\n".join(receipts))
    events, told = [], ["run_id,scope,label,task_group"]
    for k in range(8):
        word = "x" * 9 if k % 4 == 0 else "abcdefghi"
        events += [
            json.dumps({"run_id": f"r{k}", "seq": n, "tool": "t", "args": {"a": c}, "result": "same"})
            for n, c in enumerate(word)
        ]
        told.append(f"r{k},run,{'incident' if k % 4 == 0 else 'healthy'},g{k}")
    (folder / "events.ndjson").write_text("\n".join(events))
    (folder / "runs.csv").write_text("\n".join(told) + "\n")
    export(conform_labels(planted.labels), str(folder / "handoffs.ndjson"))
    sources = [str(folder / name) for name in ("events.ndjson", "receipts.ndjson")]
    assert main(["ingest", *sources, "--into", str(folder / "lake")]) == 0
    for name in ("runs.csv", "handoffs.ndjson"):
        assert main(["label", "import", str(folder / "lake"), str(folder / name)]) == 0
    return folder / "lake"


@pytest.fixture(scope="module")
def out(lake) -> Path:
    """Where the calibration went, with a cap that the data contradict."""
    folder = lake.parent / "out"
    more = ["--ack-cap", "normal=30", "--ack-cap", "urgent=600"]
    assert main(["calibrate", str(lake), "--max-fpr", "0.3", "--out", str(folder), *more]) == 0
    return folder


def limits(out: Path) -> dict[str, dict]:
    return {row["urgency"]: row for row in pl.read_parquet(out / "ack_limits.parquet").iter_rows(named=True)}


@pytest.mark.parametrize(("name", "median_s"), [("normal", 20.0), ("urgent", 5.0)])
def test_the_limit_of_a_class_is_just_above_the_true_quantile(out, planted, name, median_s):
    """95 % of what is ever accepted is accepted by then; the lost share is inside its limits."""
    row = limits(out)[name]
    truth = median_s * 2.718281828 ** (0.8 * PER_DELIVERED)
    assert truth <= row["limit_us"] / 1e6 <= 1.6 * truth
    lost = planted.truth.filter(pl.col("urgency") == name)["lost"].mean()
    assert row["lost_low"] <= lost <= row["lost_high"]
    assert not row["pooled"]


def test_a_thin_class_borrows_and_a_cap_below_the_limit_is_told(out, capsys):
    """The rare class has the pooled limit; 30 s for normal contradicts the data, 600 s for urgent does not."""
    rows = limits(out)
    assert rows["rare"]["pooled"]
    assert rows["rare"]["limit_us"] == rows["*"]["limit_us"]
    assert (rows["normal"]["cap_conflict"], rows["urgent"]["cap_conflict"]) == (True, False)
    assert "conflict: at the cap" in rows["normal"]["note"]
    profile = tomllib.loads((out / "profile.toml").read_text())
    assert profile["handoffs"]["ack_limits"]["normal"] > 30


def test_labelled_handoffs_say_what_each_limit_would_have_found(out, planted):
    """Every lost one is silent for ever; at a limit above all latencies no good delivery is called lost."""
    table = pl.read_parquet(out / "ack_labelled.parquet")
    longest = table.row(0, named=True)
    assert longest["lost"] == planted.truth["lost"].sum()
    assert (longest["limit_us"], longest["false_alarms"] - longest["not_known"]) == (3_600_000_000, 0)
    shortest = table.row(-1, named=True)
    late = planted.truth.filter(~pl.col("lost") & (pl.col("latency_us") > 5_000_000)).height
    assert shortest["false_alarms"] == late
    assert shortest["found"] == shortest["lost"]


def test_handoffs_use_the_profile_and_refuse_one_of_other_versions(lake, out, planted, capsys):
    """Orphaned is what is silent beyond its class's limit, at the end of the data; other versions are refused."""
    told = lake.parent / "judged"
    assert main(["handoffs", str(lake), "--profile", str(out / "profile.toml"), "--out", str(told)]) == 0
    found = pl.read_parquet(told / "handoffs.parquet").join(planted.truth, on="handoff_id")
    limit = {name: row["limit_us"] for name, row in limits(out).items()}
    newest = planted.receipts["at"].max()
    first = planted.receipts.filter(pl.col("event") == "delegated").select("handoff_id", "at")
    open_ = first.join(planted.receipts.filter(pl.col("event") == "accepted"), on="handoff_id", how="anti")
    aged = open_.join(planted.truth, on="handoff_id").filter(
        (pl.lit(newest) - pl.col("at")).dt.total_microseconds()
        > pl.col("urgency").replace_strict(limit, return_dtype=pl.Int64)
    )
    orphaned = found.filter(pl.col("state") == "orphaned")["handoff_id"]
    assert sorted(orphaned) == sorted(aged["handoff_id"])
    text = (out / "profile.toml").read_text()
    key = tomllib.loads(text)["versions"]["key_id"]
    other = out / "other.toml"
    other.write_text(text.replace(key, "another-key"))
    capsys.readouterr()
    assert main(["handoffs", str(lake), "--profile", str(other)]) == 2
    assert main(["handoffs", str(lake), "--profile", str(other), "--any-version"]) == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--ack-cap", "normal"], "ack-cap = 'normal' is not allowed"),
        (["--ack-cap", "normal=-1"], "a class and seconds above 0"),
        (["--ack-cap", "normal=1", "--ack-cap", "normal=2"], "each once"),
        (["--ack-cap", "purple=9"], "unknown urgency class 'purple'"),
        (["--ack-beta", "0"], "beta = 0.0 is not allowed"),
    ],
)
def test_settings_of_limits_that_can_not_be_are_one_line(lake, tmp_path, capsys, more, said):
    """Caps and beta out of range, and a class that no handoff has."""
    assert main(["calibrate", str(lake), "--max-fpr", "0.3", "--out", str(tmp_path / "o"), *more]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_an_excluded_handoff_is_left_out_and_counted(lake, out, tmp_path):
    """A label takes a handoff out of the limits: one handoff fewer, one more left out."""
    runs = (lake.parent / "runs.csv").read_text().splitlines()
    whole = tmp_path / "all.csv"
    whole.write_text(
        "run_id,scope,label,task_group,operation_id,label_version\n"
        + "".join(f"{line},,\n" for line in runs[1:])
        + ",handoff,exclude,,op-0000003,2\n"
    )
    assert (
        main(
            ["calibrate", str(lake), "--labels", str(whole), "--max-fpr", "0.3", "--out", str(tmp_path / "o")]
        )
        == 0
    )
    before, after = limits(out)["*"], limits(tmp_path / "o")["*"]
    assert (after["handoffs"], after["left_out"]) == (before["handoffs"] - 1, before["left_out"] + 1)
