"""What needs no Spark: types on both sides, whole runs over batches, messages where the engine is not there."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime
from typing import Any, cast

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from agentlens.cli import main
from agentlens.distribute import engine
from agentlens.distribute.ingest import refuse_foreign
from agentlens.distribute.reading import Reading, task_text
from agentlens.distribute.types import arrow_schema, from_batch, spark_schema, to_batches
from agentlens.distribute.whole import whole_runs
from agentlens.errors import EngineError, LakeError, SchemaError
from agentlens.model.branch import BRANCHES
from agentlens.model.event import EVENTS, TIME
from agentlens.model.handoff import HANDOFFS, OPERATIONS
from agentlens.model.receipt import RECEIPTS
from agentlens.model.record import RECORDS
from agentlens.model.verdict import EPISODES, RUNS, VERDICTS

_RUNS = pl.Schema({"run_id": pl.String(), "seq": pl.Int64()})


@pytest.mark.parametrize(
    "schema", [EVENTS, RECORDS, RECEIPTS, BRANCHES, VERDICTS, EPISODES, RUNS, HANDOFFS, OPERATIONS]
)
def test_every_table_has_types_on_both_sides(schema: pl.Schema) -> None:
    """Each column of each table goes to Spark and comes back; nulls in every place among them."""
    frame = pl.DataFrame({name: [None, None] for name in schema}, schema=schema)
    (batch,) = to_batches(frame, schema)
    assert batch.schema == arrow_schema(schema)
    assert_frame_equal(from_batch(batch, schema), frame)
    assert len(spark_schema(schema).split("` ")) > len(schema)


def test_values_come_back_exactly() -> None:
    """Microseconds, null structs beside structs of nulls, empty lists beside null ones, and any text."""
    schema = {
        "at": TIME,
        "lease": EVENTS["lease"],
        "tools": pl.List(pl.String),
        "text": pl.String(),
        "x": pl.Float64(),
    }
    empty = dict.fromkeys(("owner", "waits_on", "deadline", "renewals", "max_renewals"))
    frame = pl.DataFrame(
        {
            "at": [
                datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
                datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            ],
            "lease": [None, empty],
            "tools": [[], None],
            "text": ["\u0000 ✓", ""],
            "x": [float("nan"), -0.0],
        },
        schema=schema,
    )
    back = pl.concat([from_batch(batch, schema) for batch in to_batches(frame, schema, rows=1)])
    assert_frame_equal(back, frame)


@pytest.mark.parametrize(
    "dtype", [pl.UInt32(), pl.Duration("us"), pl.Null(), pl.Datetime("us"), pl.Categorical()]
)
def test_types_that_spark_lacks_are_refused(dtype: Any) -> None:
    """A column that could only go through Spark changed does not go."""
    with pytest.raises(SchemaError, match="'odd' is"):
        spark_schema({"odd": dtype})


def batches(frame: pl.DataFrame, rows: int) -> Any:
    return to_batches(frame, _RUNS, rows=rows)


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 100])
def test_runs_are_put_together_over_batches(rows: int) -> None:
    """Whatever the batches, no run is in two frames and no row is lost."""
    lengths = [1, 9, 2, 1, 1, 30, 3]
    frame = pl.DataFrame(
        {
            "run_id": [f"r{n}" for n, length in enumerate(lengths) for _ in range(length)],
            "seq": [seq for length in lengths for seq in range(length)],
        },
        schema=_RUNS,
    )
    found = list(whole_runs(batches(frame, rows), _RUNS, least=4))
    assert_frame_equal(pl.concat(found), frame)
    seen = [run for part in found for run in part["run_id"].unique().to_list()]
    assert len(seen) == len(set(seen)) == len(lengths)
    assert max(part.height for part in found[:-1] or found) <= max(4 + max(lengths), rows + max(lengths))


def test_an_empty_partition_gives_nothing() -> None:
    """No batch, and batches without rows, are no runs."""
    assert list(whole_runs([], _RUNS)) == []
    empty = arrow_schema(_RUNS).empty_table().to_batches()
    assert list(whole_runs(empty, _RUNS)) == []


def test_rows_out_of_order_are_refused() -> None:
    """A run that comes again later could have been judged in halves: that ends the job."""
    frame = pl.DataFrame({"run_id": ["a", "b", "a"], "seq": [0, 0, 1]}, schema=_RUNS)
    for rows in (1, 3):
        with pytest.raises(EngineError, match="not in the order of run_id"):
            list(whole_runs(batches(frame, rows), _RUNS))


def test_names_of_files_that_spark_brings() -> None:
    """A file is known by the name that was typed, or by the one under which the lake has it."""
    how = Reading(
        normaliser=None,  # type: ignore[arg-type]
        prefixes=(("s3a://b/", "s3a://b/"), ("file:/x/", "in/")),
        known={"s3a://b/old": ("", "other")},
    )
    assert [how.name(uri) for uri in ("s3a://b/a/c", "file:/x/y/z", "s3a://b/old")] == [
        "s3a://b/a/c",
        "in/y/z",
        "other",
    ]


def test_a_missing_engine_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    """Without pyspark, and without Java, the command line says in one line what to install, and exits with 2."""
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyspark" else there(name))
    assert main(["loops", "s3a://bucket/lake", "--engine", "spark"]) == 2
    assert "agentlens-toolkit[spark]" in capsys.readouterr().err
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["loops", "s3a://bucket/lake", "--engine", "spark", "--master", "local[2]"]) == 2
    assert "Java 17" in capsys.readouterr().err


def test_what_a_cluster_cannot_do_is_refused_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Options that mean nothing on a cluster are refused before anything starts."""
    for typed in (["loops", "x", "--html", "p.html"], ["ingest", "x", "--into", "y", "--dry-run"]):
        assert main([*typed, "--engine", "spark"]) == 2
        assert "goes with --engine local only" in capsys.readouterr().err


def test_the_last_line_of_a_worker_is_what_is_told() -> None:
    """Of a traceback in a worker the line that names the error is kept, without the module of our own."""
    said = "An exception was thrown:\nTraceback (most recent call last):\n  File x\nagentlens.errors.EngineError: no key\n"
    assert engine._line(RuntimeError(said)) == "no key"
    assert (
        engine._line(RuntimeError("[PATH_NOT_FOUND] no such path\nmore")) == "[PATH_NOT_FOUND] no such path"
    )
    lacks = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'agentlens'\n"
    assert engine._line(RuntimeError(lacks)).startswith(
        "ModuleNotFoundError: No module named 'agentlens'; accepted: a Python on the workers"
    )


def test_a_task_is_plain_text() -> None:
    """What tells a worker what to read is JSON: names, ranges and digests, nothing to execute."""
    from pathlib import Path

    from agentlens.lake.reading import Piece, Task
    from agentlens.readers.source import Source

    piece = Piece(source=Source(name="n", path=Path("/a/b"), start=3, stop=9, first_line=2), source_id="s")
    assert '"stop":9' in task_text(Task(number=1, pieces=(piece,), folder=Path()))


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ([], None),
        (["notes.txt"], "is no lake"),
        (["records/g000001/bucket=3/part-0.parquet", ".aside-spark-g000001/part-0.parquet"], None),
        (["records/g000001/bucket=3/part-0.parquet"], "cut off"),
        (["events/bucket=0003/g000001.parquet"], "cut off"),
        (["records/g000002/bucket=3/part-0.parquet", ".aside-spark-g000002/part-0.parquet"], "cut off"),
    ],
)
def test_a_folder_without_a_manifest_is_taken_only_where_nothing_is_lost(
    there: list[str], said: str | None
) -> None:
    """On an object store: empty, or what a first ingest that was killed leaves; never the rest of a lake."""

    class Folder:
        def sizes(self) -> dict[str, int]:
            return dict.fromkeys(there, 1)

    if said is None:
        refuse_foreign(cast("Any", Folder()), "s3a://b/lake")
    else:
        with pytest.raises(LakeError, match=said):
            refuse_foreign(cast("Any", Folder()), "s3a://b/lake")
