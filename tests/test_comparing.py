"""Two rules, versions or periods beside each other: paired where they can be, and the same again each time."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from agentlens.cli import main
from agentlens.comparing import compare
from agentlens.errors import InputError, SettingsError
from tests.report.lanes import START
from tests.report.made import events, lane
from tests.report.test_labelled import told
from tests.report.test_page import words


def fleet() -> pl.DataFrame:
    """Twelve runs that poll (equal calls, other results) and twelve that are stuck, in two versions and two days."""
    lanes = []
    for i in range(12):
        facts = {"agent_version": "1" if i < 6 else "2", "workflow": "w"}
        polling = lane(f"poll{i:02d}", "ABBBBBC", **facts)
        stuck = lane(
            f"stuck{i:02d}", "ABBBB" + ("BB" if i < 6 else "CD"), "axxxx" + ("xx" if i < 6 else "cd"), **facts
        )
        shift = timedelta(days=0 if i < 6 else 1)
        lanes += [[row | {"at": row["at"] + shift} for row in one] for one in (polling, stuck)]
    return events(*lanes)


def labels() -> pl.DataFrame:
    healthy = {f"poll{i:02d}": "healthy" for i in range(12)}
    return told(**healthy, **{f"stuck{i:02d}": "1" for i in range(12)})


def row(result, measure: str) -> dict:
    return result.measures.filter(pl.col("measure") == measure).row(0, named=True)


def test_two_rules_on_the_same_runs_are_paired() -> None:
    """Counting calls alone alarms on every poll; comparing results alarms on none; both find the stuck runs."""
    result = compare(fleet(), rule="laps", against="same_call", labels=labels())
    false = row(result, "false_alarm")
    assert (false["first"], false["second"], false["difference"], false["groups"]) == (0.0, 1.0, 1.0, 12)
    assert false["paired"]
    assert false["p_value"] < 0.001
    assert (false["low"], false["high"]) == (pytest.approx(0.025 ** (1 / 12)), 1.0)
    found = row(result, "detected")
    assert (found["first"], found["second"], found["p_value"]) == (1.0, 1.0, 1.0)
    assert found["high"] == -found["low"] == pytest.approx(1 - 0.025 ** (1 / 12))
    assert result.totals["flagged_runs"].to_list() == [12, 24]


def test_versions_of_different_tasks_are_drawn_apart() -> None:
    """The difference has limits and no p-value; tokens in loops are nothing where there was no loop."""
    result = compare(fleet(), versions=("1", "2"))
    tokens = row(result, "loop_tokens")
    assert (tokens["runs_first"], tokens["runs_second"], tokens["paired"], tokens["p_value"]) == (
        12,
        12,
        False,
        None,
    )
    assert tokens["first"] == 300.0  # six of twelve runs, 600 tokens each
    assert tokens["second"] == 250.0
    assert tokens["low"] < tokens["difference"] == -50.0 < tokens["high"]


def test_few_groups_are_said_wherever_the_numbers_are(tmp_path, capsys) -> None:
    """Twelve paired groups are few, as are 6 on one side beside 24 on the other; 24 are enough."""
    few = compare(fleet(), against="same_call", labels=labels())
    assert row(few, "false_alarm")["thin"]
    assert not row(few, "flagged")["thin"]
    page = words(few.html())
    assert "12 (thin)" in page
    assert "24 (thin)" not in page
    facts = {"workflow": "w"}
    many = [lane(f"r{i:02d}", "ABC", agent_version="1" if i < 6 else "2", **facts) for i in range(30)]
    uneven = compare(events(*many), versions=("1", "2"))
    assert set(uneven.measures["groups"]) == {30}
    assert uneven.measures["thin"].all()
    assert "30 (thin)" in words(uneven.html())
    enough = compare(events(*many), against="same_call")
    assert not enough.measures["thin"].any()
    assert "(thin)" not in words(enough.html())
    lake = tmp_path / "in.ndjson"
    lake.write_text(
        "".join(
            json.dumps({"run_id": f"r{i}", "kind": "tool", "tool": "t", "args": {}, "result": i, "seq": 0})
            + "\n"
            for i in range(3)
        )
    )
    assert main(["compare", str(lake), "--against", "same_call"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "3 (thin)" in said
    assert "thin: fewer than 20 task groups" in said


def test_a_side_that_shows_nothing_is_not_certain() -> None:
    """Six of six and six of six may differ by chance; draws of what never varies would give limits of nothing."""
    result = compare(fleet(), versions=("1", "2"), labels=labels())
    found = row(result, "detected")
    least = 0.025 ** (1 / 6)  # exact limit of six of six
    assert (found["first"], found["difference"], found["paired"]) == (1.0, 0.0, False)
    assert found["low"] == pytest.approx(least - 1)
    assert found["high"] == pytest.approx(1 - least)
    assert row(result, "stuck_s")["low"] < 0
    alone = row(compare(fleet(), versions=("1", "2"), rule="laps((9, 9))"), "loop_tokens")
    assert (alone["difference"], alone["low"], alone["high"]) == (0.0, None, None)


def test_versions_that_share_tasks_are_paired_by_task() -> None:
    """The same task on both sides is compared with itself."""
    task = pl.col("run_id").str.slice(-2).cast(pl.Int64) % 6
    frame = fleet().with_columns(
        task_group=pl.concat_str(pl.col("run_id").str.slice(0, 1), task.cast(pl.String))
    )
    found = row(compare(frame, versions=("1", "2")), "loop_tokens")
    assert (found["paired"], found["groups"]) == (True, 12)


def test_before_and_after_a_time() -> None:
    """Runs belong to the side in which they start."""
    result = compare(fleet(), at=START + timedelta(hours=12))
    assert result.names == ("before", "after")
    assert result.totals["runs"].to_list() == [12, 12]


def test_what_can_not_be_compared_is_one_line() -> None:
    """No comparison, two of them, a version that is not there, a time outside the data."""
    for wrong in ({}, {"against": "laps", "versions": ("1", "2")}):
        with pytest.raises(SettingsError, match="exactly one comparison"):
            compare(fleet(), **wrong)
    with pytest.raises(SettingsError, match="accepted: 1, 2"):
        compare(fleet(), versions=("1", "3"))
    with pytest.raises(InputError, match="no run with a time after"):
        compare(fleet(), at="2030-01-01")


def test_the_page_names_both_sides_and_is_the_same_each_time() -> None:
    """Equal bytes in any order of rows; the runs on which the two differ are listed."""
    html = compare(fleet(), rule="laps", against="same_call", labels=labels()).html()
    assert (
        html == compare(fleet().reverse(), rule="laps", against="same_call", labels=labels().reverse()).html()
    )
    said = words(html)
    assert "laps beside same_call: 24 runs, 24 runs." in said
    assert "rows" not in said or "poll00" in said
    assert "Runs on which the two differ" in said


def test_each_run_on_which_two_rules_differ_has_its_link() -> None:
    """The address holds the trace or the run, quoted; without a trace id there is none, and no link without asking."""
    hostile = fleet().with_columns(
        run_id=pl.concat_str(pl.col("run_id"), pl.lit('"><b>')),
        trace_id=pl.when(pl.col("run_id") != "poll00").then(pl.concat_str(pl.lit("t/"), pl.col("run_id"))),
    )
    made = compare(hostile, rule="laps", against="same_call")
    page = made.html(link="https://t.example/{trace_id}?run={run_id}")
    addresses = re.findall(r'href="(https://t.example/[^"]*)"', page)
    assert addresses == [
        f"https://t.example/t%2Fpoll{i:02d}?run=poll{i:02d}%22%3E%3Cb%3E" for i in range(1, 12)
    ]
    assert "t.example" not in made.html()
    with pytest.raises(SettingsError, match="an http"):
        made.html(link="javascript:{run_id}")


def test_compare_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    """Tables as Parquet, a page, JSON lines; a bad pair of versions exits with 2."""
    monkeypatch.setenv("AGENTLENS_KEY", "a key for the tests, long enough")
    source = tmp_path / "events.ndjson"
    rows = [
        {"run_id": f"r{n}", "seq": i, "tool": "t", "args": {}, "result": "x" if n else str(i)}
        for n in (0, 1)
        for i in range(5)
    ]
    source.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    out = ["--out", str(tmp_path / "out"), "--html", str(tmp_path / "page.html"), "--json"]
    out += ["--link", "https://t.example/{run_id}"]
    assert main(["compare", str(source), "--against", "same_call", *out]) == 0
    measures = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (measures[0]["measure"], measures[0]["first"], measures[0]["second"]) == ("flagged", 0.5, 1.0)
    assert pl.read_parquet(tmp_path / "out" / "totals.parquet").height == 2
    assert 'href="https://t.example/r0"' in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert main(["compare", str(source), "--against", "same_call", "--link", "t.example"]) == 2
    assert "an http(s) address" in capsys.readouterr().err
    assert main(["compare", str(source), "--versions", "1"]) == 2
    assert "two different agent versions" in capsys.readouterr().err
