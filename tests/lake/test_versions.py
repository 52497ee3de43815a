"""A lake of another schema version is refused with a command, and that command makes a lake that opens."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from polars.testing import assert_frame_equal

from agentlens.cli import main
from agentlens.errors import LakeError
from agentlens.lake import Lake
from agentlens.lake.manifest import NAMED
from tests.lake.exports import events, run_of, write


@pytest.fixture
def ingest(tmp_path, monkeypatch):
    """Ingest from the command line, with a key of the test's own."""
    monkeypatch.setenv("AGENTLENS_KEY", "0123456789abcdef0123456789abcdef")
    monkeypatch.chdir(tmp_path)
    return lambda *words: main(["ingest", *words])


def of_version(lake, version):
    """Make a lake say that it is of another schema version."""
    manifest = lake / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"schema_version": version}))


@pytest.mark.parametrize("files", [1, NAMED + 1], ids=["files", "a folder"])
@pytest.mark.parametrize("version", [0, 2], ids=["older", "newer"])
def test_the_command_in_the_refusal_makes_the_lake_anew(tmp_path, ingest, capsys, files, version):
    """It is typed as it stands, for reading and for writing alike; the lake that was refused is as it was."""
    for number in range(files):
        write(tmp_path / "all of it" / f"a {number}.ndjson", *run_of(f"r{number}"))
    assert ingest("all of it", "--into", "lake") == 0
    before = events(tmp_path / "lake")
    of_version(tmp_path / "lake", version)
    kept = (tmp_path / "lake" / "manifest.json").read_bytes()
    capsys.readouterr()
    assert ingest("all of it", "--into", "lake") == 2
    told = " ".join(capsys.readouterr().err.split())
    with pytest.raises(LakeError, match=f"schema version {version}") as refused:
        Lake.open("lake")
    command = re.search(r"run: agentlens (.*) and copy", str(refused.value))
    assert command is not None
    assert shlex.split(command[1])[0] == "ingest"
    assert "--into lake-v1" in told
    assert main(shlex.split(command[1])) == 0
    assert_frame_equal(events(tmp_path / "lake-v1"), before)
    assert (tmp_path / "lake" / "manifest.json").read_bytes() == kept
