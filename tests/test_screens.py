"""What every verb prints on the shipped fleet: no wider than 100 columns, JSON where it is asked for; completion."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import agentlens
from agentlens.cli import VERBS, build_parser, main
from agentlens.demo import demo_lake

WIDE = 100


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str, int]:
    """The lake of the demo, its exports, and an event of an episode."""
    lake, data = demo_lake(tmp_path_factory.mktemp("demo"))
    row = agentlens.loops(lake).episodes.sort("run_id").filter(agent="").row(0, named=True)
    return lake, data, row["run_id"], row["alert_seq"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("AGENTLENS_KEY", "a key for the tests, long enough")
    monkeypatch.setenv("COLUMNS", str(WIDE))


def lines(verb: str, fleet: tuple[Path, Path, str, int]) -> list[list[str]]:
    """What is typed for a verb, one or more lines of it."""
    lake, data, run, seq = (str(part) for part in fleet)
    labels = f"{data}/labels.csv"
    return {
        "demo": [["demo"]],
        "ingest": [
            ["ingest", f"{data}/native", "--into", "new"],
            ["ingest", data, "--into", "d", "--dry-run"],
        ],
        "loops": [["loops", lake]],
        "handoffs": [["handoffs", lake]],
        "resets": [["resets", lake]],
        "calibrate": [["calibrate", lake, "--labels", labels, "--max-fpr", "0.1", "--out", "rule"]],
        "label": [
            ["label", "import", "own", labels],
            ["label", "list", "own"],
            ["label", "weak", "own"],
            ["label", "export", "own", "out.csv"],
        ],
        "report": [["report", lake, "--labels", labels]],
        "review": [["review", lake]],
        "compare": [["compare", lake, "--against", "gemini_cli", "--labels", labels]],
        "explain": [["explain", lake, run, seq]],
        "health": [["health", lake]],
        "formats": [["formats"]],
        "lab": [["lab", "--copy-only"]],
        "sql": [["sql", lake, "SELECT * FROM events LIMIT 3"]],
        "forget": [["forget", "own", "--run", run]],
    }[verb]


def own(fleet: tuple[Path, Path, str, int]) -> None:
    """A copy of the lake that may be changed."""
    shutil.copytree(fleet[0], "own")


@pytest.mark.parametrize("verb", VERBS)
def test_no_line_is_wider_than_a_hundred_columns(verb, fleet, capsys) -> None:
    """Paths and queries that a line ends in may be as long as they are; tables may not."""
    own(fleet)
    capsys.readouterr()
    for argv in lines(verb, fleet):
        assert main(argv) == 0, argv
        out = capsys.readouterr().out
        assert out or verb in {"label", "lab"}
        long = [line for line in out.splitlines() if len(line.rstrip()) > WIDE and "/" not in line]
        assert long == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_speaks_json(verb, fleet, capsys) -> None:
    """One object a line on standard output and nothing else there."""
    own(fleet)
    capsys.readouterr()
    for argv in lines(verb, fleet):
        assert main([*argv, "--json"]) == 0, argv
        out = capsys.readouterr().out.splitlines()
        assert out
        assert all(isinstance(json.loads(line), dict) for line in out)


def test_help_fits_too(capsys) -> None:
    """Every page of help."""
    parser = build_parser()
    (verbs,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    for one in [parser, *verbs.choices.values()]:
        assert max(len(line) for line in one.format_help().splitlines()) <= WIDE


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_verbs_and_options(capsys) -> None:
    """The script that is printed is one that bash takes, and it completes."""
    assert main(["--print-completion", "bash"]) == 0
    script = capsys.readouterr().out
    ask = """
COMP_WORDS=(agentlens {words}); COMP_CWORD={at}; COMP_LINE="agentlens {words}"; COMP_POINT=${{#COMP_LINE}}
_shtab_agentlens agentlens "{word}" "{before}"; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    verbs = _bash(script + ask.format(words="re", at=1, word="re", before="agentlens"))
    assert verbs == ["resets", "report", "review"]
    options = _bash(script + ask.format(words="report --la", at=2, word="--la", before="report"))
    assert options == ["--labels"]


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_get_a_script(shell, capsys) -> None:
    """It names the verbs."""
    assert main(["--print-completion", shell]) == 0
    out = capsys.readouterr().out
    assert all(verb in out for verb in VERBS)


def _bash(script: str) -> list[str]:
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True, env={**os.environ}
    )
    return done.stdout.split()
