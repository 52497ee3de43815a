"""The report from a lake: page and tables on disk, link, raw content, profile, and the same bytes again."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import agentlens
from agentlens.cli import main
from agentlens.errors import InputError
from agentlens.reporting import make_report
from tests.report.test_page import words

SECRET = "<b>what nobody should see"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One stuck run with a trace id, eight that work."""
    monkeypatch.setenv("AGENTLENS_KEY", "a key for the tests, long enough")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    rows = []
    for n in range(9):
        for i in range(6):
            args, result = ({"q": SECRET}, "nothing") if n == 0 and i else ({"q": i}, f"{n} {i}")
            rows.append(
                {
                    "run_id": f"r{n}",
                    "seq": i,
                    "tool": "look",
                    "args": args,
                    "result": result,
                    "trace_id": f"t/{n}",
                }
            )
    source = tmp_path / "events.ndjson"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert main(["ingest", str(source), "--into", str(tmp_path / "lake")]) == 0
    return tmp_path / "lake"


def labels(path: Path) -> Path:
    lines = [
        "run_id,scope,onset_seq,label",
        "r0,interval,1,incident",
        *[f"r{n},run,,healthy" for n in range(1, 9)],
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_report_writes_a_page_and_a_parquet_twin_of_every_table(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tables lie beside the page, and each says which rule and data it is of."""
    out = tmp_path / "out" / "report.html"
    assert main(["report", str(lake), "--labels", str(labels(tmp_path / "l.csv")), "--out", str(out)]) == 0
    assert "report_tables" in capsys.readouterr().out
    tables = {path.stem for path in (tmp_path / "out" / "report_tables").iterdir()}
    wanted = {
        "episodes",
        "runs",
        "health",
        "verdict_box",
        "causes",
        "slices",
        "counterfactuals",
        "near_misses",
    }
    assert wanted | {"ledger", "rates", "review_queue", "by_agent", "fixes", "detection_curve"} <= tables
    assert pl.read_parquet_metadata(tmp_path / "out" / "report_tables" / "causes.parquet")["rule"] == "laps"
    said = words(out.read_text(encoding="utf-8"))
    assert "0 of 8 runs in 8 groups" in said
    assert SECRET not in said


def test_equal_inputs_give_equal_bytes(lake: Path, tmp_path: Path) -> None:
    """Page and tables, twice."""
    made = []
    for name in ("a", "b"):
        paths = agentlens.write_report(
            lake, tmp_path / name / "report.html", labels=labels(tmp_path / "l.csv")
        )
        made.append([path.read_bytes() for path in paths])
    assert made[0] == made[1]


def test_raw_content_is_shown_only_when_asked_for_and_as_text(lake: Path, tmp_path: Path) -> None:
    """It is read through the source pointers, marked, and gone when the source is."""
    agentlens.write_report(lake, tmp_path / "plain.html")
    assert "what nobody should see" not in (tmp_path / "plain.html").read_text(encoding="utf-8")
    agentlens.write_report(lake, tmp_path / "shown.html", reveal=True)
    html = (tmp_path / "shown.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;what nobody should see" in html
    assert SECRET not in html
    assert "This file holds raw content of the traces" in words(html)
    (tmp_path / "events.ndjson").unlink()
    with pytest.raises(InputError, match="--root"):
        agentlens.write_report(lake, tmp_path / "gone.html", reveal=True)


def test_links_lead_to_the_users_own_viewer(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The trace id is escaped; a template that is no web address is refused before anything is read."""
    out = str(tmp_path / "report.html")
    assert main(["report", str(lake), "--link", "https://tracer.example/t/{trace_id}", "--out", out]) == 0
    assert 'href="https://tracer.example/t/t%2F0"' in Path(out).read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["report", str(lake), "--link", "javascript:alert({run_id})", "--out", out]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_profile_brings_its_rule_its_status_and_its_versions(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of other versions is void; with --any-version it is used all the same."""
    profile = tmp_path / "profile.toml"
    text = '[default]\nthresholds = [9]\nname = "nine"\n[profile]\nstatus = "PROVISIONAL"\nmax_fpr = 0.01\ndelta = 0.05\nmore_groups = 291\n'
    profile.write_text(text + '[versions]\nnormaliser_version = "other"\n', encoding="utf-8")
    args = ["report", str(lake), "--profile", str(profile), "--labels", str(labels(tmp_path / "l.csv"))]
    out = tmp_path / "report.html"
    assert main([*args, "--out", str(out)]) == 2
    assert "calibrate again" in capsys.readouterr().err
    assert main([*args, "--any-version", "--out", str(out)]) == 0
    said = words(out.read_text(encoding="utf-8"))
    assert "nine: PROVISIONAL." in said
    assert "291 more task groups like these would certify it." in said
    assert "0 of 1" in said


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--base-rate", "1"], "base_rate"),
        (["--labels", "nowhere.csv"], "nowhere.csv"),
        (["--profile", "nowhere.toml"], "nowhere.toml"),
        (["--rule", "lapses"], "did you mean"),
    ],
)
def test_bad_settings_are_one_line(
    lake: Path, capsys: pytest.CaptureFixture[str], option: list[str], said: str
) -> None:
    """Exit code 2, and what would be accepted."""
    capsys.readouterr()
    assert main(["report", str(lake), *option]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_labels_that_the_lake_keeps_are_taken_unless_none_are_wanted(lake: Path, tmp_path: Path) -> None:
    """Stored labels make a labelled report by themselves; "none" makes a triage page; there is no need of any."""
    assert "verdict_box" not in agentlens.make_report(lake).tables
    stored = pl.read_csv(labels(tmp_path / "l.csv"), infer_schema=False)
    stored.write_csv(tmp_path / "labels.csv")
    assert main(["label", "import", str(lake), str(tmp_path / "labels.csv")]) == 0
    made = agentlens.make_report(lake)
    assert made.tables["verdict_box"].height
    assert "labels" in made.metadata
    assert "verdict_box" not in agentlens.make_report(lake, labels="none").tables
    sides = agentlens.compare(lake, against="gemini_cli")
    assert "false_alarm" in sides.measures["measure"].to_list()
    assert (
        "false_alarm" not in agentlens.compare(lake, against="gemini_cli", labels="none").measures["measure"]
    )


def test_the_stamp_says_how_to_make_it_again(lake: Path, tmp_path: Path) -> None:
    """Versions of the libraries, the command without folders, and what a profile says of its test split."""
    told = labels(tmp_path / "l.csv")
    made = agentlens.make_report(lake, labels=told, reveal=True, link="https://t.example/{run_id}")
    assert made.metadata["libraries"].startswith(f"polars {pl.__version__}, numpy ")
    assert made.metadata["command"] == (
        "agentlens report lake --labels l.csv --link 'https://t.example/{run_id}' --reveal"
    )
    found = agentlens.calibrate(lake, labels=told, max_fpr=0.4)
    found.write(tmp_path / "rule")
    again = agentlens.make_report(lake, labels=told, profile=tmp_path / "rule" / "profile.toml")
    assert again.metadata["test split opened"].startswith(str(found.openings))
    assert again.metadata["splits"] == found.profile["made"]["splits"]
    assert str(tmp_path) not in again.html


def test_arguments_are_read_again_to_see_whether_actions_were_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of the user's drops what tells two questions apart: the false alert has that for a cause."""
    monkeypatch.setenv("AGENTLENS_KEY", "a key for the tests, long enough")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    rows = [
        {
            "run_id": run,
            "seq": i,
            "tool": "ask",
            "args": {"q": i, "where": run if run == "merged" else f"{run} {i}"},
            "result": r,
        }
        for run in ("merged", *(f"calm{n}" for n in range(3)))
        for i, r in enumerate(["same"] * 6 if run == "merged" else [f"{run} {n}" for n in range(6)])
    ]
    rows += [{"run_id": "merged", "seq": 6, "tool": "save", "args": {}, "result": "done"}]
    source, table = tmp_path / "events.ndjson", tmp_path / "own.toml"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    table.write_text('[[tool]]\nname = "asking"\ntools = ["ask"]\ndrop = ["q"]\n', encoding="utf-8")
    lake = str(tmp_path / "lake")
    assert main(["ingest", str(source), "--into", lake, "--tables", str(table)]) == 0
    healthy = pl.DataFrame(
        {
            "run_id": ["merged", "calm0", "calm1", "calm2"],
            "scope": "run",
            "label": "healthy",
            "task_group": None,
        }
    )
    found = agentlens.make_report(lake, labels=healthy).tables["false_alerts"]
    assert dict(found.select("run_id", "cause").iter_rows()) == {"merged": "distinct actions merged"}
    source.unlink()
    gone = agentlens.make_report(lake, labels=healthy).tables["false_alerts"]
    assert gone["cause"].to_list() != ["distinct actions merged"]


def test_a_page_written_again_leaves_no_table_of_the_one_before(lake: Path, tmp_path: Path) -> None:
    """Triage has no causes: those of the labelled report before it go; a file that is no table of a report stays."""
    out, folder = tmp_path / "r.html", tmp_path / "r_tables"
    make_report(lake, labels=labels(tmp_path / "l.csv")).write(out)
    assert (folder / "causes.parquet").exists()
    mine = folder / "mine.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(mine)
    (folder / "notes.parquet").write_text("no table at all", encoding="utf-8")
    report = make_report(lake, labels="none")
    report.write(out)
    assert {path.stem for path in folder.iterdir()} == {*report.tables, "mine", "notes"}


def test_a_folder_is_no_page(lake: Path, tmp_path: Path) -> None:
    """Nothing is put beside it."""
    (tmp_path / "there").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        make_report(lake, labels="none").write(tmp_path / "there")
    assert not (tmp_path / "there_tables").exists()
