"""Tables: what is shipped, how a user's own merge, what is refused."""

from __future__ import annotations

import pickle

import pytest

from agentlens.errors import SettingsError
from agentlens.normalise.tables import Tables, lookup_names
from tests.normalise.norm import TABLES, fingerprint, signature


def user(tmp_path, text, name="mine.toml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return Tables.load(path)


def test_version_is_the_content(tmp_path):
    """The same tables have the same version everywhere; any change has another."""
    assert Tables.load().version == TABLES.version
    assert len(TABLES.version) == 8
    assert user(tmp_path, 'volatile = ["nonce2"]').version != TABLES.version


def test_lists_are_joined(tmp_path):
    """A user's volatile name is dropped beside the shipped ones."""
    mine = user(tmp_path, 'volatile = ["ticket"]')
    assert signature("find", {"q": 1, "ticket": 5}, tables=mine) == signature(
        "find", {"q": 1, "nonce": 7}, tables=mine
    )
    assert signature("find", {"q": 1, "ticket": 5}) != signature("find", {"q": 1})


def test_any_name_can_be_kept(tmp_path):
    """``keep`` wins over ``volatile``, for all tools or for one."""
    everywhere = user(tmp_path, 'keep = ["seed"]')
    one = user(tmp_path, '[[tool]]\nname = "s"\ntools = ["sample"]\nkeep = ["seed"]', "b.toml")

    def differ(tool, tables):
        return signature(tool, {"n": 1, "seed": 1}, tables=tables) != signature(
            tool, {"n": 1, "seed": 2}, tables=tables
        )

    assert [differ("sample", t) for t in (TABLES, everywhere, one)] == [False, True, True]
    assert [differ("other", t) for t in (TABLES, everywhere, one)] == [False, True, False]


def test_entries_of_one_name_are_replaced_or_disabled(tmp_path):
    """A mask can be replaced by its name and taken out by its name."""
    gone = user(tmp_path, '[disable]\nmasks = ["gemini footer"]')
    other = user(tmp_path, "[[mask]]\nname = 'gemini footer'\npattern = 'nothing'", "b.toml")
    one, two = "x\nProcess Group PGID: 1", "x\nProcess Group PGID: 2"
    assert fingerprint(one) == fingerprint(two)
    assert fingerprint(one, tables=gone) != fingerprint(two, tables=gone)
    assert fingerprint(one, tables=other) != fingerprint(two, tables=other)


def test_families_by_user(tmp_path):
    """A tool that a user calls a shell is compared by words."""
    mine = user(tmp_path, '[families]\nshell = ["my_box"]\n[command]\nshell = ["line"]')
    assert signature("my_box", {"line": "a|b"}, tables=mine) == signature(
        "my_box", {"line": "a | b"}, tables=mine
    )
    assert mine.tool("Bash").families == {"shell"}


def test_names_are_looked_up_whole_then_by_their_last_part():
    """Prefixes of servers and name spaces do not hide a known tool."""
    assert lookup_names("mcp__fs__Write") == ("mcp__fs__write", "write")
    assert lookup_names("functions.Bash:3") == ("functions.bash:3", "3")
    assert "change" in TABLES.tool("mcp__fs__Write").families
    assert TABLES.tool("").families == frozenset()


def test_addressing_tools_keep_their_address():
    """``get_message(message_id, format)`` is about that message; ``send_message`` has only a label of its own."""
    assert signature("get_message", {"message_id": 1, "f": 1}) != signature(
        "get_message", {"message_id": 2, "f": 1}
    )
    assert signature("send_message", {"message_id": 1, "f": 1}) == signature(
        "send_message", {"message_id": 2, "f": 1}
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("volatil = []", "did you mean 'volatile'"),
        ("volatile = 3", "volatile is no list"),
        ("volatile = [1]", "no list of names"),
        ("families = []", "families is no table"),
        ("[families]\nshel = ['x']", "did you mean 'shell'"),
        ("[[mask]]\npattern = 'x'", "needs a name"),
        ("[[mask]]\nname = 'm'\npattern = '('", "does not compile"),
        ("[[mask]]\nname = 'm'\npattern = 'a'\nreplace = '\\1'", "does not fit"),
        ("[[stub]]\nname = 's'\npattern = 'a'\nwhere = 'middle'", "whole, end"),
        ("[durable.x]\nversion = 1", "list `from`"),
        ("[durable.x]\n[[durable.x.from]]\ntool = ['y']", "did you mean 'tools'"),
        ("[hard_failure]\nfoo = ['y']", "permission_lost"),
        ("x = ", "mine.toml"),
    ],
)
def test_mistakes_are_said_in_one_line(tmp_path, text, says):
    """A wrong table is refused with what was wrong and what would be accepted."""
    with pytest.raises(SettingsError, match=says) as caught:
        user(tmp_path, text)
    assert "Traceback" not in str(caught.value)


def test_missing_file_is_said(tmp_path):
    """A table file that is not there is named."""
    with pytest.raises(SettingsError, match="nowhere"):
        Tables.load(tmp_path / "nowhere.toml")


def test_tables_travel_to_workers():
    """Pickled tables are the same tables."""
    assert pickle.loads(pickle.dumps(TABLES)).version == TABLES.version
