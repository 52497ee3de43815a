"""The command line: exit codes, one-line errors, JSON lines, hostile text."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from agentlens.cli import main

EVENTS = [
    {"run_id": "loop", "seq": i, "tool": "search", "args": {"q": "x"}, "result": "nothing"} for i in range(5)
] + [
    {"run_id": "paging", "seq": i, "tool": "fetch", "args": {"page": i}, "result": f"rows {i}"}
    for i in range(5)
]


@pytest.fixture(autouse=True)
def _own_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test touches the user's key."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("AGENTLENS_KEY", "a key for the tests, long enough")


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.ndjson"
    path.write_text("".join(json.dumps(e) + "\n" for e in EVENTS), encoding="utf-8")
    return path


def test_loops_on_a_file_prints_one_object_per_event(
    events: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A native file is judged without a lake; each line carries the columns of the verdict table."""
    assert main(["loops", str(events), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [r["verdict"] for r in rows if r["run_id"] == "loop"] == ["working"] * 3 + ["stuck_loop"] * 2
    assert {r["verdict"] for r in rows if r["run_id"] == "paging"} == {"working"}


def test_fail_on_exits_with_1_only_for_what_was_found(
    events: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 is findings, 0 is none of the named."""
    assert main(["loops", str(events), "--fail-on", "stuck_loop"]) == 1
    assert main(["loops", str(events), "--fail-on", "failed_outcome,uncertain"]) == 0
    capsys.readouterr()


def test_a_wrong_verdict_name_is_one_line_with_the_names(
    events: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message lists what would be accepted, and nothing ran."""
    assert main(["loops", str(events), "--fail-on", "stuck"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "stuck_loop" in said.err


@pytest.mark.parametrize(
    "argv",
    [
        ["loops", "no-such-folder"],
        ["loops"],
        ["nonsense"],
        ["ingest", "nothing-here-*", "--into", "lake"],
        ["loops", "{events}", "--rule", "no_such_rule"],
        ["loops", "{events}", "--since", "yesterday"],
        ["loops", "{events}", "--actions", "tools"],
        ["loops", "{events}", "--policies", "no-such-file.toml"],
        ["loops", "{events}", "--format", "otlp-xml"],
        ["loops", "{events}", "--key-file", "no-such-key"],
        ["loops", "{events}", "--fingerprint", "durable:cooking"],
        ["sql", "no-lake", "SELECT 1"],
        ["report", "{events}", "--out", ""],
        ["report", "{events}", "--out", "."],
        ["report", "{events}", "--out", "/"],
        ["report", "{events}", "--labels", ""],
        ["report", ""],
        ["loops", "{events}", "--html", ""],
        ["loops", "{events}", "--policies", ""],
        ["compare", "{events}", "--at", ""],
        ["handoffs", "{events}", "--since", ""],
        ["review", "{events}", "--out", ""],
        ["review", "{events}", "--out", ".", "--decisions", "a.csv"],
        ["review", "{events}", "--decisions", "a.csv", ""],
    ],
    ids=" ".join,
)
def test_bad_input_is_one_line_and_exit_2(
    argv: list[str],
    events: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """No traceback, no usage page: what, where, what would be accepted."""
    monkeypatch.chdir(tmp_path)
    try:
        code = main([word.replace("{events}", str(events)) for word in argv])
    except SystemExit as stopped:  # argparse stops by itself
        code = int(stopped.code or 0)
    said = capsys.readouterr()
    assert code == 2
    assert said.err.strip().count("\n") == 0, said.err
    assert "Traceback" not in said.err


def test_ingest_then_everything_from_the_lake(
    events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lake answers as the file does, its tables name the rule, and SQL reads it."""
    lake, out = tmp_path / "lake", tmp_path / "out"
    assert main(["ingest", str(events), "--into", str(lake)]) == 0
    assert main(["loops", str(lake), "--out", str(out)]) == 0
    assert main(["loops", str(events), "--out", str(tmp_path / "direct")]) == 0
    for name in ("verdicts", "episodes", "runs"):
        assert pl.read_parquet(out / f"{name}.parquet").equals(
            pl.read_parquet(tmp_path / "direct" / f"{name}.parquet")
        )
    metadata = pl.read_parquet_metadata(out / "verdicts.parquet")
    assert {"rule", "rule_digest", "normaliser_version", "key_id"} <= set(metadata)
    capsys.readouterr()
    assert (
        main(
            [
                "sql",
                str(lake),
                "SELECT run_id, count(*) AS n FROM events GROUP BY run_id ORDER BY run_id",
                "--json",
            ]
        )
        == 0
    )
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"run_id": "loop", "n": 5},
        {"run_id": "paging", "n": 5},
    ]
    assert main(["health", str(lake)]) == 0


def test_results_are_the_same_bytes_each_time(
    events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Same inputs, settings and key: same files."""
    for name in ("one", "two"):
        assert main(["loops", str(events), "--out", str(tmp_path / name)]) == 0
    for path in sorted((tmp_path / "one").iterdir()):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_escape_sequences_of_a_trace_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tool named with an escape sequence is printed as text."""
    path = tmp_path / "hostile.ndjson"
    event = {"run_id": "r\u001b[31m", "tool": "\u001b]0;owned\u0007[bold]x", "args": {}, "result": "same"}
    path.write_text("".join(json.dumps({**event, "seq": i}) + "\n" for i in range(5)), encoding="utf-8")
    assert main(["loops", str(path)]) == 0
    said = capsys.readouterr()
    assert "\u001b" not in said.out + said.err
    assert "[bold]" in said.out


def test_csv_cells_that_look_like_formulas_are_inert(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A spreadsheet is given text, not a formula."""
    path = tmp_path / "events.ndjson"
    path.write_text(
        json.dumps({"run_id": "=cmd|calc", "seq": 0, "tool": "t", "args": {}}) + "\n", encoding="utf-8"
    )
    assert main(["ingest", str(path), "--into", str(tmp_path / "lake")]) == 0
    capsys.readouterr()
    assert main(["sql", str(tmp_path / "lake"), "SELECT run_id FROM events", "--csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "'=cmd|calc"


def test_a_closed_pipe_is_no_error(events: Path) -> None:
    """``agentlens loops FILE --json | head -1`` ends quietly."""
    code = f"{sys.executable} -m agentlens loops {events} --json | head -n 1"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""


def test_completion_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """A shell can complete verbs and options."""
    assert main(["--print-completion", "bash"]) == 0
    assert "--fail-on" in capsys.readouterr().out
