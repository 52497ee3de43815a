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
    ]
    assert [reset_class(q) for q in asked] == [
        "drop_table", "drop_database", "truncate_table", "delete_all_rows", None, None,
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["/*" * 50_000, "'" * 99_999, "(" * 50_000, "`" * 99_999, "'\\" * 50_000])
def test_hostile_text_takes_linear_time(text):
    """What is never closed is read once."""
    began = time.process_time()
    canonical(text)
    assert time.process_time() - began < 5
