"""The definitions of evidence: observed, durable, given."""

from __future__ import annotations

import pytest

from agentlens.errors import SettingsError
from agentlens.normalise.tables import Tables
from tests.normalise.norm import TABLES, frame, normaliser


def durable(*events, name="code", tables=TABLES):
    return frame(*events, made=normaliser(fingerprint=f"durable:{name}", tables=tables))[
        "durable_fingerprint"
    ].to_list()


def test_observed_says_nothing_durable():
    """By default no event has a durable fingerprint and no version of one."""
    rows = frame({"tool": "Write", "args": {"file_path": "a", "content": "x"}, "result": "ok"})
    assert rows["durable_fingerprint"].to_list() == rows["durable_version"].to_list() == [None]


def test_code_changes_by_what_is_written():
    """The same contents give the same state, other contents another; reading gives none."""
    one, two, again, read = durable(
        {"tool": "Write", "args": {"file_path": "a.py", "content": "x"}, "result": "took 1 ms"},
        {"tool": "Write", "args": {"file_path": "a.py", "content": "y"}, "result": "took 2 ms"},
        {"tool": "Write", "args": {"file_path": "a.py", "content": "x"}, "result": "took 3 ms"},
        {"tool": "Read", "args": {"file_path": "a.py"}, "result": "x"},
    )
    assert one == again != two
    assert read is None


def test_code_changes_by_test_results():
    """A test run is state by its result, failing or not, without its duration."""
    found = durable(
        {
            "tool": "Bash",
            "args": {"command": "pytest"},
            "result": "1 failed in 0.1s",
            "error_class": "exit_1",
        },
        {
            "tool": "Bash",
            "args": {"command": "pytest -q"},
            "result": "1 failed in 0.3s",
            "error_class": "exit_1",
        },
        {"tool": "Bash", "args": {"command": "pytest"}, "result": "1 passed in 0.1s"},
        {"tool": "Bash", "args": {"command": "ls"}, "result": "a.py"},
    )
    assert found[0] == found[1] != found[2]
    assert found[3] is None


def test_failed_edit_leaves_nothing_behind():
    """An edit that failed is no change of state."""
    edit = {"tool": "Edit", "args": {"file_path": "a", "old_string": "x", "new_string": "y"}}
    failed, done = durable({**edit, "error_class": "not_found"}, {**edit, "result": "ok"})
    assert failed is None
    assert done is not None


def test_change_that_was_not_exported_is_unknown():
    """A write without arguments, a test run without result: changed, nobody knows into what."""
    assert durable({"tool": "Write"}, {"tool": "run_tests", "args": {}}) == ["?", "?"]


def test_research_counts_accepted_sources():
    """Accepted ids and the brief's digest; a search is no change."""
    found = durable(
        {"tool": "search", "args": {"q": "x"}, "result": {"hits": [1, 2]}},
        {"tool": "accept_source", "args": '{"source_ids": ["s1"]}', "result": "ok"},
        {"tool": "state", "args": {}, "result": {"source_ids": ["s1"], "brief_digest": "b1"}},
        {"tool": "state", "args": {}, "result": {"brief_digest": "b1", "source_ids": ["s1"], "at": "12:00"}},
        name="research",
    )
    assert found[0] is None
    assert found[1] is not None
    assert found[2] == found[3] != found[1]


def test_publishing_counts_what_is_public():
    """Content digest, public id and verification state; nothing else of the answer."""
    found = durable(
        {
            "tool": "publish",
            "args": {"content_digest": "c1"},
            "result": {"resource_id": "p9", "verified": False, "ms": 3},
        },
        {
            "tool": "publish",
            "args": {"content_digest": "c1"},
            "result": {"resource_id": "p9", "verified": False, "ms": 9},
        },
        {
            "tool": "publish",
            "args": {"content_digest": "c1"},
            "result": {"resource_id": "p9", "verified": True, "ms": 3},
        },
        name="publishing",
    )
    assert found[0] == found[1] != found[2]


def test_own_definition(tmp_path):
    """A user's table may define durable evidence."""
    path = tmp_path / "t.toml"
    path.write_text(
        '[durable.cart]\nversion = 2\n[[durable.cart.from]]\ntools = ["add"]\nresult = ["items"]\n'
    )
    tables = Tables.load(path)
    found = durable(
        {"tool": "add", "args": {}, "result": {"items": 3, "t": 1}}, {"tool": "x"}, name="cart", tables=tables
    )
    assert found[0] is not None
    assert found[1] is None
    rows = frame({"tool": "x"}, made=normaliser(fingerprint="durable:cart", tables=tables))
    assert rows["durable_version"].item().startswith("durable:cart.2.")


@pytest.mark.parametrize(
    ("choice", "says"), [("durable:cod", "did you mean 'code'"), ("seen", "durable:publishing")]
)
def test_unknown_definition_is_refused(choice, says):
    """The message lists what there is."""
    with pytest.raises(SettingsError, match=says):
        normaliser(fingerprint=choice)


def test_given_passes_unchanged_and_null_is_given_too():
    """A record that carries the key is marked, also where it is null; a text longer than a digest is digested."""
    rows = frame(
        {"tool": "a", "progress_fingerprint": "rows:50", "has_fingerprint": True, "result": "x"},
        {"tool": "a", "has_fingerprint": True, "result": "x"},
        {"tool": "a", "progress_fingerprint": "y" * 5000, "has_fingerprint": True},
        {"tool": "a", "result": "x"},
    )
    assert rows["given_fingerprint"].to_list()[:2] == ["rows:50", None]
    assert len(rows["given_fingerprint"][2]) == 32
    assert rows["has_given"].to_list() == [True, True, True, False]
