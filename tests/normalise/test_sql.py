"""Statements as SQL words."""

from __future__ import annotations

import time

import pytest

from agentlens.normalise.sql import canonical, changes, reset_class


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("SELECT a,b FROM t;", "select a , b\nfrom t"),
        ("select 1 -- why", "select /* why */ 1"),
        ("select COUNT( * ) from t", "SELECT COUNT(*) FROM t"),
    ],
)
def test_same_statement(one, two):
    """Spacing, comments, keyword case and the last semicolon are no difference."""
    assert canonical(one) == canonical(two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("select 'a  b'", "select 'a b'"),
        ("select A from t", "select a from t"),
        ("select 'SELECT'", "select 'select'"),
        ("select a from t limit 5", "select a from t limit 6"),
        ("select 1; select 2", "select 1"),
        ("-- one", "-- two"),
    ],
)
def test_different_statement(one, two):
    """Text in quotes and the case of names stay."""
    assert canonical(one) != canonical(two)


def test_what_changes_data():
    """A comment or a quoted word that names a statement is none."""
    asked = ["select 'drop table t'", "with x as (select 1) delete from t", "-- drop\nselect 1", "frobnicate"]
    assert [changes(q) for q in asked] == [False, True, False, None]


def test_reset_classes():
    """Dropped tables and databases, emptied tables, deletes without a condition."""
    asked = [
        "drop  table t",
        "DROP DATABASE d",
        "select 1; truncate t",
        "delete from t",
        "delete from t where a",
        "drop view v",
        "drop temporary table t",
        "drop index i",
    ]
    assert [reset_class(q) for q in asked] == [
        "drop_table", "drop_database", "truncate_table", "delete_all_rows", None, "drop_view", "drop_table", None,
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["/*" * 50_000, "'" * 99_999, "(" * 50_000, "`" * 99_999, "'\\" * 50_000])
def test_hostile_text_takes_linear_time(text):
    """What is never closed is read once."""
    began = time.process_time()
    canonical(text)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("with a as (select 1) delete from t", "delete_all_rows"),
        ("with a as (delete from t returning id) select * from a where id > 1", "delete_all_rows"),
        ("with a as (select 1) delete from t where id in (select * from a)", None),
        ("with a as (select 'delete from t') select 1", None),
        ("do $$ begin drop table t; end $$", "drop_table"),
        ("DO $body$ BEGIN IF true THEN EXECUTE 'truncate t'; END IF; END $body$", "truncate_table"),
        ("create function f() as $$ begin drop table t; drop table u; end $$ language plpgsql", None),
        ("do $$ begin perform 'drop table t'; end $$", None),
    ],
)
def test_resets_inside_a_statement(text, expected):
    """A delete behind WITH and a block that runs at once destroy; a function only defined, or a text, does not."""
    assert reset_class(text) == expected


@pytest.mark.parametrize(
    "text", ["$a$b$c" * 20_000, "with " + "delete from " * 20_000, "do " + "$$" * 40_001]
)
def test_hostile_statements_end(text):
    """Marks that are never closed take linear time."""
    assert reset_class(text) in (None, "delete_all_rows")
