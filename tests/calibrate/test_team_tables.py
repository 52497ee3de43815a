"""Transcripts of agent teams: what the table in docs/team-transcripts.md gains over exact text, and controls."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path

import polars as pl
import pytest

from agentlens.api import loops
from agentlens.calibrate.label_store import LabelStore
from agentlens.cli import main
from agentlens.lake import Lake

PAGE = (Path(__file__).parents[2] / "docs" / "team-transcripts.md").read_text(encoding="utf-8")
HEAD = "The following metadata was extracted from the webpage:"
READ = "Automatic OCR of the page screenshot has detected the following text:"


def block(language: str) -> str:
    return re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[1]


@pytest.fixture
def tables(tmp_path) -> Path:
    """The table of the page as a file."""
    path = tmp_path / "tables.toml"
    path.write_text(block("toml"))
    return path


def look(n: int, action: str, seen: str) -> str:
    """A worker's message: its head and the reading of its picture differ each time."""
    return f'{action}\n\nHere is a screenshot of {seen}\n{HEAD}\n\n{{"token": "{n}"}}\n\n{READ}\n\nword {n}\nword {n * 7}'


def transcript(seen: list[tuple[str, str]]) -> str:
    history = [{"role": "human", "content": "Find the page."}]
    for n, (action, page) in enumerate(seen):
        history.append({"role": "Orchestrator (thought)", "content": '{"is_in_loop": true}'})
        history.append({"role": "Orchestrator (-> Surfer)", "content": f"Please go on, {n}."})
        history.append({"role": "Surfer", "content": look(n, action, page)})
    return json.dumps({"history": history})


@pytest.fixture
def runs(tmp_path) -> Path:
    """Four clicks on one page; four pages scrolled; four searches whose session differs."""
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "stuck.json").write_text(
        transcript([("I clicked 'Menu'.", "[Home](https://a.example/). It shows 20 %.")] * 4)
    )
    moved = [("I scrolled down.", f"[Home](https://a.example/). It shows {n}0 %.") for n in range(1, 5)]
    (folder / "moved.json").write_text(transcript(moved))
    asked = [("I typed 'x'.", f"[x](https://s.example/?q=x&session={n}). It shows 20 %.") for n in range(4)]
    (folder / "asked.json").write_text(transcript(asked))
    return folder


def alarming(lake: Path, rule: str | None = None) -> list[str]:
    found = loops(str(lake), rule=rule, actions="message").runs
    return sorted(found.filter(pl.col("alerts") > 0)["run_id"].to_list())


def test_a_table_shows_the_loop_that_exact_text_hides(runs, tables, tmp_path):
    """Exact text: no alarm. With the table: the four clicks and the four searches, and never the page that moved."""
    assert main(["ingest", str(runs), "--into", str(tmp_path / "exact")]) == 0
    assert main(["ingest", str(runs), "--into", str(tmp_path / "told"), "--tables", str(tables)]) == 0
    assert alarming(tmp_path / "exact") == []
    assert alarming(tmp_path / "told") == ["asked", "stuck"]


def test_the_ledgers_word_is_no_evidence(runs, tables, tmp_path):
    """The flag in every ledger of these runs: turned round, nothing changes."""
    for path in runs.iterdir():
        path.write_text(path.read_text().replace("is_in_loop", "is_fine"))
    assert main(["ingest", str(runs), "--into", str(tmp_path / "told"), "--tables", str(tables)]) == 0
    assert alarming(tmp_path / "told") == ["asked", "stuck"]


def weak_labels_of(source: Path, folder: Path) -> Path:
    """Run the page's example on a label table."""
    os.chdir(folder)
    Path("labels.csv").write_bytes(source.read_bytes())
    exec(compile(block("python"), "team-transcripts.md", "exec"), {})
    return folder / "weak.csv"


def test_the_flag_becomes_a_weak_label(runs, tmp_path, monkeypatch):
    """As the page shows: any flag makes the run a weak incident; the store keeps the origin."""
    monkeypatch.chdir(tmp_path)
    with Path("flags.csv").open("w") as out:
        sheet = csv.writer(out)
        sheet.writerow(["run_id", "label", "value"])
        sheet.writerows(
            [
                ["stuck", "is_in_loop", "false"],
                ["stuck", "is_in_loop", "true"],
                ["moved", "is_in_loop", "false"],
            ]
        )
    weak = weak_labels_of(Path("flags.csv"), tmp_path)
    assert main(["ingest", str(runs), "--into", "lake"]) == 0
    assert main(["label", "import", "lake", str(weak)]) == 0
    told = (
        LabelStore.of(Lake.open(Path("lake"))).read().select("run_id", "label", "source", "found_by").rows()
    )
    assert told == [("moved", "healthy", "weak", "ledger"), ("stuck", "incident", "weak", "ledger")]


def test_magentic_one_before_and_after(shared, tables, tmp_path, monkeypatch):
    """The counts of the page, on the real runs: alarms of three rules, all of them in runs that the flag names."""
    monkeypatch.chdir(tmp_path)
    source = shared / "traces" / "magentic-one"
    counts, runs = {}, {}
    for name, more in (("exact", []), ("told", ["--tables", str(tables)])):
        lake = tmp_path / name
        assert main(["ingest", str(source / "runs"), "--into", str(lake), *more]) == 0
        events = Lake.open(lake).events().filter(pl.col("kind") == "message").collect()
        worker = events.filter(pl.col("agent") != "Orchestrator")
        runs[name] = [alarming(lake, rule) for rule in ("laps((2, 2, 2))", "laps((3, 2, 2))", None)]
        counts[name] = [worker["progress_fingerprint"].n_unique(), *(len(found) for found in runs[name])]
    assert worker.height == 262
    assert counts == {"exact": [258, 0, 0, 0], "told": [235, 3, 2, 1]}
    weak = pl.read_csv(weak_labels_of(source / "labels.csv", tmp_path))
    flagged = set(weak.filter(pl.col("label") == "incident")["run_id"])
    assert (weak.height, len(flagged)) == (25, 15)
    assert set(runs["told"][0]) <= flagged
    assert main(["label", "import", str(tmp_path / "told"), "weak.csv"]) == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mini-swe-gemini3/runs", "Alarms: 0 of 72 runs, 0.0 % (exact 95 %: 0.0 to 5.0 %)."),
        ("tau-airline-gpt4o", "Alarms: 1 of 200 runs, 0.5 % (exact 95 %: 0.0 to 2.8 %)."),
        ("terminal-bench-claude-code/runs", "Alarms: 0 of 49 runs, 0.0 % (exact 95 %: 0.0 to 7.3 %)."),
    ],
)
def test_healthy_controls_alarm_at_a_rate_that_is_told_with_its_interval(
    shared, tmp_path, capsys, name, said
):
    """Real runs of other agents under the default rule."""
    assert main(["ingest", str(shared / "traces" / name), "--into", str(tmp_path / "lake")]) == 0
    assert main(["loops", str(tmp_path / "lake")]) == 0
    assert said in capsys.readouterr().out


def test_a_rate_of_few_runs_says_so(runs, tables, tmp_path, capsys):
    """Three runs are no rate, and the words stand beside it."""
    assert main(["ingest", str(runs), "--into", str(tmp_path / "l"), "--tables", str(tables)]) == 0
    capsys.readouterr()
    assert main(["loops", str(tmp_path / "l"), "--actions", "message"]) == 0
    assert "Alarms: 2 of 3 runs, 66.7 % (exact 95 %: 9.4 to 99.2 %); thin: fewer than 20 runs." in " ".join(
        capsys.readouterr().out.split()
    )
