"""SQL over a lake."""

from __future__ import annotations

import pytest

from agentlens.errors import InputError
from agentlens.lake import Lake, ingest
from tests.lake.exports import NORMALISER, event, receipt, run_of, write


@pytest.fixture
def lake(tmp_path):
    source = write(tmp_path / "a'[x]*.ndjson", *run_of("r"), *run_of("s", 2))
    ingest(source, tmp_path / "la[k]e's *", normaliser=NORMALISER)
    return Lake.open(tmp_path / "la[k]e's *")


def test_views_of_all_tables(lake):
    """Every table is a view, those without rows too."""
    assert lake.sql("SELECT run_id, count(*) AS n FROM events GROUP BY 1 ORDER BY 1").rows() == [
        ("r", 5),
        ("s", 2),
    ]
    for name in ("records", "receipts", "branches", "quarantine", "sessions", "sources"):
        lake.sql(f"SELECT * FROM {name}")
    assert lake.sql("SELECT count(*) FROM receipts").item() == 0
    assert lake.sql("FROM sources").height == 1


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('{outside}')",
        "SELECT * FROM read_text('{outside}')",
        "SELECT * FROM '{outside}'",
        "SELECT * FROM read_json('https://example.org/x.json')",
        "SELECT * FROM glob('/*')",
        "COPY (SELECT 1) TO '{outside}'",
        "COPY (SELECT 1 AS a) TO '{inside}' (FORMAT parquet)",
        "ATTACH '{outside}.duckdb'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW events",
        "PRAGMA database_list",
        "SELECT 1; SELECT 2",
        "",
        "SELEC 1",
        "SELECT nothing FROM events",
        "SELECT * FROM NORMALISER",
    ],
)
def test_nothing_else_can_be_reached(lake, tmp_path, query):
    """No other file, no network, no writing, no settings: one clear error each."""
    outside = tmp_path / "outside.csv"
    outside.write_text("a\n1\n")
    inside = next((tmp_path / "la[k]e's *" / "events").rglob("*.parquet"))
    before = inside.read_bytes()
    text = query.format(outside=str(outside).replace("'", "''"), inside=str(inside).replace("'", "''"))
    with pytest.raises(InputError, match="sql"):
        lake.sql(text)
    assert inside.read_bytes() == before
    assert outside.read_text() == "a\n1\n"


@pytest.mark.parametrize(
    "query", ["SELECT run FROM events", "SELECT * FROM event", "SELECT lenght(run_id) FROM events"]
)
def test_an_error_with_hints_is_one_line(lake, query):
    """What DuckDB says in several lines, with what may have been meant, is folded into one."""
    with pytest.raises(InputError, match="sql: ") as raised:
        lake.sql(query)
    assert "\n" not in str(raised.value)
    assert "Candidate" in str(raised.value) or "Did you mean" in str(raised.value)


def test_selections_keep_whole_runs_of_a_workflow(tmp_path):
    """Time, workflow and agent narrow the events; a workflow named once counts for its run."""
    rows = [event("r", 0, workflow="w"), event("r", 1, agent="x"), event("s", 2)]
    ingest(write(tmp_path / "a.ndjson", *rows, receipt("op")), tmp_path / "lake", normaliser=NORMALISER)
    lake = Lake.open(tmp_path / "lake")
    assert lake.events(workflow="w").collect()["run_id"].to_list() == ["r", "r"]
    assert lake.events(agent="x").collect().height == 1
    cut = "2026-09-21T14:13:22Z"
    assert lake.events(since=cut).collect()["run_id"].to_list() == ["s"]
    assert sum(part.collect().height for part in lake.buckets(until=cut)) == 2


def test_columns_that_are_words_of_sql_are_named(lake):
    """Every other column can be written as it is; those are pointed out where a query does not parse."""
    words = {"at", "check", "order"}
    for view in ("events", "records", "receipts", "branches", "quarantine", "sessions", "sources"):
        for column in lake.sql(f"DESCRIBE {view}")["column_name"]:
            if column in words:
                with pytest.raises(InputError, match=rf'double quotes \("{column}"\)'):
                    lake.sql(f"SELECT 1, {column}, 2 FROM {view}")
                column = f'"{column}"'  # noqa: PLW2901 - as the message says
            lake.sql(f"SELECT 1, {column}, 2 FROM {view}")


@pytest.mark.parametrize(
    "query", ['SELECT "at", FROM FROM events', "SELECT seq seq seq FROM events ORDER BY e.at"]
)
def test_words_that_are_quoted_or_told_apart_are_not_pointed_out(lake, query):
    """Something else is wrong there."""
    with pytest.raises(InputError) as caught:
        lake.sql(query)
    assert "double quotes" not in str(caught.value)
