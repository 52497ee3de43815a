"""Bad input of ``agentlens calibrate``: exit 2 and one line that says what is missing and what would do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentlens.cli import main

TASKS, STUCK = 12, (3, 7)
HEAD = "run_id,scope,label,onset_seq,end_seq,task_group"


@pytest.fixture(autouse=True)
def _own_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test touches the user's key."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("AGENTLENS_KEY", "a key for the tests, long enough")


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve runs of seven actions, two of them stuck; a run after another."""
    path = tmp_path_factory.mktemp("bad") / "events.ndjson"
    rows = []
    for n in range(TASKS):
        for i in range(7):
            same = n in STUCK and i > 0
            rows.append(
                {
                    "run_id": f"r{n:02d}",
                    "seq": i,
                    "at": 1_790_000_000 + 1_000 * n + 10 * i,
                    "tool": "search",
                    "args": {"q": "same" if same else f"q{i}"},
                    "result": "nothing" if same else f"{n} {i}",
                }
            )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def labelled(*changed: str, without: str = "") -> list[str]:
    """Rows of a label file: runs are healthy or incidents of their own task, but for the rows given."""
    rows = {}
    for n in range(TASKS):
        tail = f"interval,incident,1,6,t{n}" if n in STUCK else f"run,healthy,,,t{n}"
        rows[f"r{n:02d}"] = f"r{n:02d},{tail}"
    kept = [row for row in rows.values() if not without or without not in row]
    return [*kept, *changed]


def said(
    export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[str], *more: str
) -> str:
    """What is printed on standard error; there is exit code 2, one line, nothing else and no profile."""
    told, out = tmp_path / "labels.csv", tmp_path / "out"
    told.write_text("\n".join([HEAD, *rows]) + "\n", encoding="utf-8")
    code = main(["calibrate", str(export), "--labels", str(told), "--out", str(out), *more])
    shown = capsys.readouterr()
    assert code == 2
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "accepted:" in shown.err
    assert not (out / "profile.toml").exists()
    return shown.err


@pytest.mark.parametrize(
    ("rows", "missing"),
    [
        (labelled(without="healthy"), "no healthy run: a false-positive rate can not be measured"),
        (labelled(without="incident"), "no incident: what a rule would miss can not be measured"),
        ([row.rpartition(",")[0] + ",one" for row in labelled()], "at least two independent task groups"),
        (labelled("r03,interval,incident,99,,t3"), "outside the run"),
        (labelled("r04,interval,incident,5,2,t4", without="r04"), "row 12: the end is before the onset"),
        (labelled("r03,interval,healthy,2,4,t3"), "healthy and incident at once: r03"),
        (labelled("r03,run,healthy,,,t3"), "healthy and incident at once: r03"),
        (labelled("ghost,run,healthy,,,t3"), "1 run not in the data: ghost"),
        (labelled("r04,run,fine,,,t4", without="r04"), "row 12: label is none of incident, healthy, exclude"),
        (
            labelled("r04,runs,healthy,,,t4", without="r04"),
            "row 12: scope is none of run, interval, step, handoff",
        ),
        ([], "labels.csv: holds no label"),
    ],
)
def test_labels_that_can_not_calibrate(export, tmp_path, capsys, rows, missing):
    """No healthy runs, no incidents, one task, places outside the run, contradictions, unknown runs and words, none."""
    assert missing in said(export, tmp_path, capsys, rows)


@pytest.mark.parametrize(
    ("more", "missing"),
    [
        (["--max-fpr", "0"], "max_fpr = 0.0"),
        (["--max-fpr", "1"], "max_fpr = 1.0"),
        (["--max-fpr", "nan"], "max_fpr = nan"),
        (["--delta", "0"], "delta = 0.0"),
        (["--delta", "1"], "delta = 1.0"),
        (["--max-uncertain", "0"], "max_uncertain = 0.0"),
        (["--max-uncertain", "1"], "max_uncertain = 1.0"),
        (["--max-alerts-per-hour", "0"], "max_alerts_per_hour = 0.0"),
        (["--max-alerts-per-hour", "2", "--alerts-cap", "1"], "alerts_cap = 1.0"),
        (["--alerts-cap", "1"], "alerts_cap = 1.0"),
        (["--incumbent", "lapps"], "unknown rule 'lapps' (did you mean 'laps'?)"),
        (["--only", "lapps"], "unknown rule 'lapps' (did you mean 'laps'?)"),
        (["--only", "laps(1)"], "laps = 1"),
        (["--only", "gone.toml"], "gone.toml"),
        (["--only", "laps(4, 2)", "--folds", "3"], "folds = 3"),
        (["--folds", "1"], "folds = 1"),
        (["--folds", "4", "--shares", "0,1,0"], "folds = 4"),
        (["--shares", "0,0,1"], "shares = (0.0, 0.0, 1.0)"),
        (["--shares", "0.4,nan,0.2"], "shares = (0.4, nan, 0.2)"),
        (["--shares", "0.4,0.4,0.4"], "three shares from 0 that are 1 together"),
        (["--shares", "4,4,2"], "three shares from 0 that are 1 together"),
        (["--largest", "3"], "largest = 3"),
    ],
)
def test_settings_that_mean_nothing(export, tmp_path, capsys, more, missing):
    """Limits of 0 and 1, unknown rules, an empty certify split, settings that exclude each other."""
    assert missing in said(export, tmp_path, capsys, labelled(), *more)


def test_a_certify_split_without_healthy_runs(export, tmp_path, capsys):
    """All healthy tasks are the oldest and explore takes them."""
    rows = [row.replace("run,healthy", "run,incident") if row[1:3] > "03" else row for row in labelled()]
    missing = said(export, tmp_path, capsys, rows, "--shares", "0.5,0.3,0.2")
    assert "certify: the split holds no healthy run" in missing
    assert "other --shares or --seed" in missing


def test_alerts_per_hour_without_times(export, tmp_path, capsys):
    """No hour can be counted, so the limit can not be certified."""
    untimed = tmp_path / "untimed.ndjson"
    rows = [json.loads(line) for line in export.read_text().splitlines()]
    untimed.write_text(
        "".join(json.dumps({k: v for k, v in row.items() if k != "at"}) + "\n" for row in rows)
    )
    missing = said(untimed, tmp_path, capsys, labelled(), "--max-alerts-per-hour", "2")
    assert "no hour can be counted; accepted: data with times, or no limit per hour" in missing
