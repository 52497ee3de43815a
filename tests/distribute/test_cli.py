"""The verbs with ``--engine spark``: the screen, the exit codes and the JSON of the local ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentlens.cli import main
from tests.distribute import exports
from tests.distribute.test_handoffs import linked_lake

__all__ = ["linked_lake"]

SPARK = ["--engine", "spark", "--master", "local[2]"]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTLENS_KEY", "a key of this test alone")


def both(capsys: pytest.CaptureFixture[str], typed: list[str]) -> tuple[str, str, int]:
    """Run a verb on Spark and locally; return what each prints, and the exit code, which is the same."""
    code = main([*typed, *SPARK])
    there = capsys.readouterr().out
    assert main(typed) == code
    return there, capsys.readouterr().out, code


def without_next(text: str) -> list[str]:
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(("Next:", "Tables:")))
    return lines[:at]


def test_loops_say_the_same(
    session: Any, small_lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sums, costliest episodes, ``--fail-on`` and ``--json``; ``--out`` says where the tables are."""
    typed = ["loops", str(small_lake), "--fail-on", "stuck_loop"]
    there, here, code = both(capsys, typed)
    assert code == 1
    assert without_next(there) == without_next(here)
    there, here, _ = both(capsys, [*typed, "--json", "--table", "episodes"])
    assert there == here
    assert main([*typed, *SPARK, "--out", str(tmp_path / "out")]) == 1
    assert "metadata.json" in capsys.readouterr().out
    assert (tmp_path / "out" / "metadata.json").is_file()


def test_handoffs_say_the_same(session: Any, linked_lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """States, what needs a look, claims and cues; ``--json``."""
    there, here, _ = both(capsys, ["handoffs", str(linked_lake)])
    assert without_next(there) == here.splitlines()
    there, here, _ = both(capsys, ["handoffs", str(linked_lake), "--json", "--table", "operations"])
    assert there == here


def test_ingest_says_the_same(session: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report of an ingest, with the workers' key from the file that is named."""
    source = str(exports.write(tmp_path / "source", exports.stuck("run", 9)))
    key = tmp_path / "key"
    key.write_bytes(b"another key for the workers")
    typed = ["ingest", source, "--key-file", str(key), "--into"]
    assert main([*typed, str(tmp_path / "lake"), *SPARK]) == 0
    there = capsys.readouterr().out
    assert main([*typed, str(tmp_path / "LAKE")]) == 0
    here = capsys.readouterr().out
    assert there.lower().split() == here.lower().split()
