"""Mappings: any other log through one SELECT."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.errors import AgentlensError
from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers.base import Report
from agentlens.readers.source import Source
from agentlens.readers.sql import mapped, mapping_text, shipped

if TYPE_CHECKING:
    from pathlib import Path

JSON = "SELECT r AS run_id, t AS tool FROM read_json(getvariable('source'))"
TWO = b'{"r": "a", "t": "x"}\n{"r": "b", "t": "y"}\n'


def through(sql: str | Path, path: Path) -> tuple[list[RawEvent], Report]:
    report = Report()
    found = list(mapped(sql).read(Source.of(path), report))
    assert all(isinstance(event, RawEvent) for event in found)
    return found, report  # type: ignore[return-value]


def kept(folder: Path, data: bytes = TWO, name: str = "log.jsonl") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_rows_become_events_in_their_order(tmp_path: Path) -> None:
    """Each row is one event at its row number; nothing else is made up."""
    found, report = through(JSON, kept(tmp_path))
    assert [(event.run_id, event.tool, event.position) for event in found] == [
        ("a", "x", (0, 0)),
        ("b", "y", (1, 0)),
    ]
    assert found[0].args is ABSENT
    assert (report.faults, report.unknown) == ([], {})


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log", "[a]*?'x.csv"])
def test_csv_plain_or_compressed_under_any_name(tmp_path: Path, name: str) -> None:
    """Names that look like patterns are one file; compression is told by content where no ending says so."""
    data = b"r,t\na,x\nb,y\n"
    path = kept(tmp_path, gzip.compress(data) if name in {"log", "log.csv.gz"} else data, name)
    kept(tmp_path, b"r,t\nother,x\n", "ab.csv")
    sql = "SELECT r AS run_id, t AS tool FROM read_csv(getvariable('source'))"
    assert [event.run_id for event in through(sql, path)[0]] == ["a", "b"]


def test_parquet_and_typed_columns(tmp_path: Path) -> None:
    """Times, decimals, structs and JSON text arrive as the contract's types."""
    import polars as pl

    path = tmp_path / "log.parquet"
    pl.DataFrame({"id": ["a"], "n": [3]}).write_parquet(path)
    sql = """
      SELECT id AS run_id, 'x' AS tool, TIMESTAMP '2026-01-01 00:00:01' AS at, n::HUGEINT AS tokens_in,
        1.5::DECIMAL(4, 2) AS cost_usd, {'owner': 'o', 'deadline': TIMESTAMPTZ '2026-01-02 00:00:00+00'} AS lease,
        '{"errors": ["*"], "max_attempts": 3}'::JSON AS retry_policy, 'nan'::DOUBLE AS result, NULL AS progress_fingerprint
      FROM read_parquet(getvariable('source'))
    """
    ((event,), _) = through(sql, path)
    assert (event.at, event.tokens_in, event.cost_usd) == (1_767_225_601_000_000, 3, 1.5)
    assert event.lease is not None
    assert (event.lease["owner"], event.lease["deadline"]) == ("o", 1_767_312_000_000_000)
    assert event.retry_policy is not None
    assert event.retry_policy["errors"] == ["*"]
    assert event.result is ABSENT
    assert event.has_fingerprint is True


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELEC 1", "Parser Error"),
        (f"{JSON}; COPY (SELECT 1) TO 'x.csv'", "found SELECT, COPY"),
        ("CREATE TABLE t AS SELECT 1", "found CREATE"),
        ("SELECT 1 AS x, '' AS run_id, '' AS tool", "unknown column of the mapping 'x'"),
        ("SELECT r AS run_id, t AS tol FROM read_json(getvariable('source'))", "did you mean 'tool'"),
        ("SELECT r AS run_id FROM read_json(getvariable('source'))", "lacks tool, action_signature or kind"),
        ("SELECT t AS tool FROM read_json(getvariable('source'))", "lacks run_id"),
        ("SELECT r AS run_id, t AS tool, t AS tool FROM read_json(getvariable('source'))", "'tool"),
        ("SELECT zz AS run_id, t AS tool FROM read_json(getvariable('source'))", "does not fit"),
        ("SELECT content AS run_id, 'x' AS tool FROM read_text('/etc/hostname')", "may not do that"),
        ("SELECT name AS run_id, 'x' AS tool FROM read_csv('https://example.org/x.csv')", "may not do that"),
        ("no-such-mapping", "no such mapping"),
    ],
)
def test_a_mapping_that_cannot_be_used_says_why(tmp_path: Path, sql: str, says: str) -> None:
    """The message names what is wrong and what would be accepted; nothing outside the file is reached."""
    with pytest.raises(AgentlensError, match="accepted") as raised:
        through(sql, kept(tmp_path))
    assert says in str(raised.value)


def test_no_other_file_of_the_folder_can_be_read(tmp_path: Path) -> None:
    """Only the source itself is open to the query."""
    other = kept(tmp_path, TWO, "other.jsonl")
    with pytest.raises(AgentlensError, match="may not do that"):
        through(JSON.replace("getvariable('source')", f"'{other}'"), kept(tmp_path))


def test_rows_with_wrong_types_are_set_aside_one_by_one(tmp_path: Path) -> None:
    """A row that breaks the contract is a fault; the others are read."""
    data = b'{"r": "a", "n": 1}\n{"r": null, "n": 2}\n{"r": "c", "n": -3}\n'
    sql = "SELECT r AS run_id, 'x' AS tool, n AS tokens_in FROM read_json(getvariable('source'))"
    found, report = through(sql, kept(tmp_path, data))
    assert [event.run_id for event in found] == ["a"]
    assert [fault.position for fault in report.faults] == [1, 2]


@pytest.mark.parametrize(
    ("data", "runs", "faults"),
    [
        (b'{"r": "a", "t": "x"}\n{"r": "b", "t":\n{"r": "c", "t": "z"}\n', ["a", "c"], 1),
        (b'[{"r": "a", "t": "x"},\n{"r": "b", "t": "y"},\n{"r": "c"', ["a", "b"], 1),
        (b"", [], 1),
        (b"no JSON", [], 1),
    ],
)
def test_of_damaged_json_the_whole_records_are_read(
    tmp_path: Path, data: bytes, runs: list[str], faults: int
) -> None:
    """DuckDB stops at the first damage; the rest is set aside and the query runs on what is whole."""
    found, report = through(JSON, kept(tmp_path, data))
    assert [event.run_id for event in found] == runs
    assert len(report.faults) == faults


def _intercode(**runs: tuple[list[str], list[str], float]) -> bytes:
    return json.dumps(
        {
            key: {
                "environment": "ic_bash",
                "dataset": "./data/a_fs_1.json",
                "task_id": 4,
                "turn_history": {
                    "actions": actions,
                    "observations": seen,
                    "rewards": [0.1, reward][: len(actions)],
                },
                "summary": {"max_reward": reward, "turns_taken": len(actions)},
            }
            for key, (actions, seen, reward) in runs.items()
        }
    ).encode()


def test_the_shipped_mapping_of_intercode_files(tmp_path: Path) -> None:
    """Each action is a call of the environment, each observation its result; the best reward is the verdict."""
    data = _intercode(**{"0": (["ls", "blocked"], ["a.txt"], 1.0), "7": (["pwd"], [""], 0.7)})
    path = kept(tmp_path, gzip.compress(data), "ic_bash_multiturn_gpt-4_10_turns_fs_1.json.gz")
    found, report = through("intercode", path)
    assert (report.faults, report.unknown) == ([], {})
    name = "bash/ic_bash_multiturn_gpt-4_10_turns_fs_1.json"
    assert [
        (event.run_id, event.seq, event.args, event.result) for event in found if event.kind == "tool"
    ] == [
        (f"{name}#0", 0, "ls", "a.txt"),
        (f"{name}#0", 1, "blocked", ABSENT),
        (f"{name}#7", 0, "pwd", ""),
    ]
    assert [(event.run_id[-1], event.outcome) for event in found if event.kind == "verdict"] == [
        ("0", "passed"),
        ("7", "failed"),
    ]
    best = [(event.run_id[-1], event.tool, event.target) for event in found if event.kind == "log"]
    assert best == [("0", "best_reward", "1"), ("7", "best_reward", "0")]
    assert {(event.model, event.task_group) for event in found} == {("gpt-4", "a_fs_1.json#4")}


def test_the_shipped_mapping_of_swe_agent_files(tmp_path: Path) -> None:
    """A step's action is a shell line, named by its first word; the observation is its result."""
    steps = [
        {"action": "open a.py\n", "observation": "x", "thought": "t", "state": "{}"},
        {"action": "", "observation": None, "state": {}},
    ]
    found, report = through(
        "swe_agent", kept(tmp_path, json.dumps({"trajectory": steps, "info": {}}).encode(), "r-1.traj")
    )
    assert [(event.run_id, event.seq, event.tool, event.args, event.result) for event in found] == [
        ("r-1", 0, "open", "open a.py", "x"),
        ("r-1", 1, "none", "", ABSENT),
    ]
    assert report.faults == []


def test_mappings_are_found_by_file_and_by_name(tmp_path: Path) -> None:
    """A path, a shipped name and a query as it stands are all taken."""
    path = kept(tmp_path, JSON.encode(), "map.sql")
    assert mapping_text(path) == mapping_text(str(path)) == mapping_text(JSON) == JSON
    assert {"intercode", "swe_agent"} <= set(shipped())
    assert mapping_text("intercode").startswith("-- InterCode")


def test_all_intercode_runs(shared: Path) -> None:
    """7,201 runs, 47,557 actions (291 never answered), 2,969 solved; run names are those of the labels."""
    folder = shared / "traces" / "intercode"
    kinds: Counter[str] = Counter()
    runs: set[str] = set()
    silent = 0
    mapping = mapped("intercode")
    for path in sorted(folder.glob("*/*.json.gz")):
        report = Report()
        for event in mapping.read(Source.of(path), report):
            assert isinstance(event, RawEvent)
            kinds[event.outcome or event.kind] += 1
            silent += event.kind == "tool" and event.result is ABSENT
            runs.add(event.run_id)
        assert (report.faults, report.unknown) == ([], {})
    assert (len(runs), kinds["tool"], silent, kinds["passed"]) == (7_201, 47_557, 291, 2_969)
    assert runs == {line.rsplit(",", 5)[0] for line in (folder / "labels.csv").read_text().splitlines()[1:]}


def test_the_true_loop_of_the_swe_agent_files(shared: Path) -> None:
    """Steps 9 to 12 of one trajectory submit the same flag and are refused with the same words."""
    paths = sorted((shared / "traces" / "swe-agent-traj" / "runs").glob("*.traj"))
    assert len(paths) == 12
    found, _ = through("swe_agent", next(path for path in paths if path.stem == "eps--270eca"))
    steps: list[Any] = [(event.args, event.result) for event in found]
    assert len({*steps[9:13]}) == 1 or len({*steps[8:12]}) == 1
