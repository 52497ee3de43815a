"""Verbs on records written here: explain, handoffs, resets, forget, formats."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import agentlens
from agentlens.cli import main

RECEIPT = {"operation_id": "op", "handoff_id": "op/1", "author": "lead", "expected_artifact": "brief.md"}


@pytest.fixture(autouse=True)
def _own_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test touches the user's key."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("AGENTLENS_KEY", "a key for the tests, long enough")


def ndjson(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    call = {"run_id": "r", "seq": 0, "tool": "search", "call_id": "c1"}
    events = [
        {**call, "args": {"q": " x ", "request_id": "77"}},
        {**call, "result": {"hits": 3, "timestamp": "now"}},
        {"run_id": "r", "seq": 1, "tool": "note", "args": {"text": "y"}},
    ]
    source = ndjson(tmp_path / "events.ndjson", events)
    assert main(["ingest", str(source), "--into", str(tmp_path / "lake")]) == 0
    return tmp_path / "lake"


def test_explain_names_what_was_dropped_kept_and_why(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Start and end of one call are read again, put together, and the rule of each dropped field is named."""
    capsys.readouterr()
    assert main(["explain", str(lake), "r", "0", "--json"]) == 0
    told = printed(capsys)[0]
    assert told["same_key"] is True
    assert told["action"]["dropped"] == [{"field": "request_id", "rule": "volatile"}]
    assert told["action"]["kept"] == ["q"]
    assert told["evidence"]["dropped"] == [{"field": "timestamp", "rule": "volatile"}]
    assert told["action"]["signature"] == told["event"]["action_signature"]
    assert told["evidence"]["fingerprint"] == told["event"]["progress_fingerprint"]


def test_explain_says_why_there_is_no_evidence(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing result is null evidence, with the reason."""
    capsys.readouterr()
    assert main(["explain", str(lake), "r", "1", "--json"]) == 0
    told = printed(capsys)[0]
    assert told["evidence"]["fingerprint"] is None
    assert told["evidence"]["why"]


def test_explain_of_no_event_says_which_there_are(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A number out of range names the range."""
    capsys.readouterr()
    assert main(["explain", str(lake), "r", "9"]) == 2
    assert "a seq from 0 to 1" in capsys.readouterr().err


def test_handoffs_of_a_receipts_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """States with their reasons; limits from the command line; --fail-on by state."""
    receipts = [
        {**RECEIPT, "event": "delegated", "at": "2026-10-05T08:00:00Z", "recipient": "worker"},
        {**RECEIPT, "event": "accepted", "at": "2026-10-05T08:02:30Z", "author": "worker"},
        {
            **RECEIPT,
            "handoff_id": "op/2",
            "event": "delegated",
            "at": "2026-10-05T08:00:00Z",
            "recipient": "worker",
        },
    ]
    path = str(ndjson(tmp_path / "receipts.ndjson", receipts))
    assert main(["handoffs", path, "--json", "--as-of", "2026-10-05T08:03:00Z"]) == 0
    rows = {row["handoff_id"]: row for row in printed(capsys)}
    assert (rows["op/1"]["state"], rows["op/1"]["late_ack"], rows["op/1"]["ack_latency_us"]) == (
        "working",
        True,
        150_000_000,
    )
    assert rows["op/2"]["state"] == "orphaned"
    assert (
        main(
            [
                "handoffs",
                path,
                "--as-of",
                "2026-10-05T08:03:00Z",
                "--ack-limit",
                "300",
                "--fail-on",
                "orphaned",
            ]
        )
        == 0
    )
    assert main(["handoffs", path, "--as-of", "2026-10-05T08:03:00Z", "--fail-on", "orphaned"]) == 1


def test_resets_of_a_branches_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Six gates, a state, and the tables in a folder."""
    branch = {"branch_id": "b", "parent_id": "p", "fork_point": "c1"}
    path = str(ndjson(tmp_path / "branches.ndjson", [branch]))
    assert main(["resets", path, "--json"]) == 0
    row = printed(capsys)[0]
    assert (row["state"], row["gate_1"], row["gate_2"]) == ("restore_uncertain", "pass", "unknown")
    assert main(["resets", path, "--out", str(tmp_path / "out"), "--fail-on", "restore_uncertain"]) == 1
    assert pl.read_parquet(tmp_path / "out" / "branches.parquet").height == 1


def test_state_keys_of_a_file_are_required(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys written down beforehand count whatever the receipt says."""
    state = [{"key": "agent_memory", "before": "d", "restored": "d", "result": "exact"}]
    branch = {
        "branch_id": "b",
        "parent_id": "p",
        "fork_point": "c1",
        "required_state": ["agent_memory"],
        "state": state,
    }
    path = str(ndjson(tmp_path / "branches.ndjson", [branch]))
    keys = tmp_path / "keys.toml"
    keys.write_text('[default]\nrequired = ["workspace"]\n', encoding="utf-8")
    assert main(["resets", path, "--json"]) == 0
    assert printed(capsys)[0]["gate_2"] == "pass"
    assert main(["resets", path, "--state-keys", str(keys), "--json"]) == 0
    assert printed(capsys)[0]["gate_2"] != "pass"
    assert main(["resets", path, "--state-keys", str(keys), "--json", "--table", "state_keys"]) == 0
    assert {row["key"] for row in printed(capsys)} == {"agent_memory", "workspace"}


def test_forget_deletes_a_run_and_says_what_is_gone(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Afterwards the lake has no row of it."""
    assert main(["forget", str(lake), "--run", "r"]) == 0
    assert agentlens.Lake.open(lake).events().collect().height == 0


def test_the_python_functions_take_frames_files_and_lakes(lake: Path, tmp_path: Path) -> None:
    """The same data through three doors gives the same verdicts."""
    events = agentlens.Lake.open(lake).events()
    from_frame = agentlens.loops(events)
    from_lake = agentlens.loops(lake, rule=agentlens.laps((4, 3, 2)))
    from_file = agentlens.loops(tmp_path / "events.ndjson")
    assert from_frame.verdicts.equals(from_lake.verdicts)
    assert from_lake.verdicts.equals(from_file.verdicts)
    assert "verdicts" in from_lake._repr_html_()


def test_a_frame_of_other_types_is_one_clear_error() -> None:
    """The column, its type, and what would be accepted."""
    frame = pl.DataFrame({"run_id": ["r"], "seq": ["first"], "tool": ["t"]})
    with pytest.raises(agentlens.AgentlensError, match=r"'seq' is String .* accepted: Int64"):
        agentlens.loops(frame)


def test_a_key_that_had_to_be_made_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python as from the command line: digests of two keys can not be compared."""
    monkeypatch.delenv("AGENTLENS_KEY")
    source = ndjson(tmp_path / "e.ndjson", [{"run_id": "r", "seq": 0, "tool": "t", "args": {}}])
    with pytest.warns(UserWarning, match="a digest key was made"):
        agentlens.loops(source)
    agentlens.loops(source)  # the second time it is there


def test_charts_can_be_imported_by_name() -> None:
    """``agentlens.chart`` is a module like any other."""
    from agentlens.chart import timeline

    assert agentlens.chart.timeline is timeline


def test_an_escape_sequence_in_a_file_name_stays_off_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors are text of the input too."""
    path = tmp_path / "a\u001b[31m.ndjson"
    path.write_text('{"x": 1}\n', encoding="utf-8")
    assert main(["ingest", str(path), "--into", str(tmp_path / "lake")]) == 2
    said = capsys.readouterr()
    assert "\u001b" not in said.out + said.err


def receipts(tmp_path: Path) -> Path:
    told = [
        {**RECEIPT, "event": "delegated", "at": "2026-10-05T08:00:00Z", "recipient": "worker"},
        {**RECEIPT, "event": "accepted", "at": "2026-10-05T08:00:30Z", "author": "worker"},
    ]
    return ndjson(tmp_path / "receipts.ndjson", told)


def test_a_lake_of_receipts_or_branches_alone_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No events is no error: a runtime may write receipts and nothing else."""
    for name, source in (
        ("handoffs", receipts(tmp_path)),
        ("resets", ndjson(tmp_path / "b.ndjson", [{"branch_id": "b", "parent_id": "p", "fork_point": "c"}])),
    ):
        lake = tmp_path / f"lake-{name}"
        assert main(["ingest", str(source), "--into", str(lake)]) == 0
        capsys.readouterr()
        assert main([name, str(lake), "--json"]) == 0
        assert len(printed(capsys)) == 1
        assert main(["health", str(lake)]) == 0
        assert main(["loops", str(lake)]) == 0


def test_what_a_file_of_receipts_sets_aside_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lost receipt changes answers, so it is named with its line."""
    path = receipts(tmp_path)
    path.write_text(
        path.read_text(encoding="utf-8") + '{"operation_id": "op", "handoff_id": 1.5, "event": "progress"}\n'
    )
    assert main(["handoffs", str(path), "--json"]) == 0
    assert "line 3 set aside" in capsys.readouterr().err


def test_a_selection_shows_less_and_changes_no_answer(tmp_path: Path) -> None:
    """The parent's calls after the fork are evidence, also where --since leaves them out of sight."""
    call = {"run_id": "p", "tool": "send_email", "result": "sent", "external": True}
    events = [
        {**call, "seq": 0, "at": "2026-10-05T08:00:00Z", "args": {"to": "a"}, "span_id": "c1"},
        {**call, "seq": 1, "at": "2026-10-05T08:01:00Z", "args": {"to": "b"}},
    ]
    state = [{"key": "k", "before": "d", "restored": "d", "result": "exact"}]
    branch = {
        "branch_id": "b", "parent_id": "p", "fork_point": "c1", "at": "2026-10-05T08:05:00Z", "required_state": ["k"],
        "state": state, "effects": [], "edit_class": "none", "local": True, "resumed": False,
        "config": {"parent_digest": "x", "branch_digest": "x", "pinned": True},
    }  # fmt: skip
    folder = tmp_path / "in"
    folder.mkdir()
    ndjson(folder / "events.ndjson", events)
    ndjson(folder / "branches.ndjson", [branch])
    whole = agentlens.resets(folder).branches
    assert whole["state"].to_list() == ["effects_unreconciled"]
    assert agentlens.resets(folder, since="2026-10-05T08:04:00Z").branches.equals(whole)
    assert agentlens.resets(folder, since="2026-10-05T09:00:00Z").branches.height == 0


def test_as_of_is_the_newest_time_of_traces_too(tmp_path: Path) -> None:
    """A handoff that nobody took is lost by the time the giver has worked on for hours."""
    folder = tmp_path / "in"
    folder.mkdir()
    told = [{**RECEIPT, "event": "delegated", "at": "2026-10-05T08:00:00Z", "recipient": "worker"}]
    ndjson(folder / "receipts.ndjson", told)
    ndjson(
        folder / "events.ndjson",
        [{"run_id": "r", "seq": 0, "at": "2026-10-05T11:00:00Z", "tool": "t", "args": {}}],
    )
    assert agentlens.handoffs(folder).handoffs["state"].to_list() == ["orphaned"]


def test_fail_on_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A list without a name could never fail."""
    assert main(["handoffs", str(receipts(tmp_path)), "--fail-on", ","]) == 2
    assert main(["handoffs", str(receipts(tmp_path)), "--fail-on", "orphand"]) == 2
    assert "did you mean 'orphaned'" in capsys.readouterr().err


def test_explain_takes_the_beginning_of_a_run_as_tables_show_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The beginning will do where no other run begins so, with or without the dots; else the runs are listed."""
    rows = [{"run_id": run, "seq": 0, "tool": "note", "args": {}} for run in ("abc-1", "abc-2", "xyz-1", "x")]
    source = ndjson(tmp_path / "events.ndjson", rows)
    lake = str(tmp_path / "lake")
    assert main(["ingest", str(source), "--into", lake]) == 0
    capsys.readouterr()
    for given, run in (("abc-2", "abc-2"), ("xyz…", "xyz-1"), ("xy", "xyz-1"), ("x", "x")):
        assert main(["explain", lake, given, "0", "--json"]) == 0
        (told,) = printed(capsys)
        assert told["event"]["run_id"] == run
    assert main(["explain", lake, "abc", "0"]) == 2
    assert "2 runs begin like this; accepted: more of it, as in abc-1, abc-2" in capsys.readouterr().err
    assert main(["explain", lake, "nothing", "0"]) == 2
    assert "no such event" in capsys.readouterr().err
