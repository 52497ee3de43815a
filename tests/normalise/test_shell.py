"""Commands as words: spacing and quoting make no difference, meaning does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlens.normalise.shell import Unparseable, canonical, parse

SAME = [
    ("ls -la|wc -l", "ls   -la  |  wc -l"),
    ("a&&b||c;d", "a && b || c ; d"),
    ("echo 'a b'", 'echo "a b"'),
    ("echo a\\ b", "echo 'a b'"),
    ("cat f>out 2>&1", "cat f > out 2>&1"),
    ("a\nb", "a; b"),
    ("a;\n\nb;", "a; b"),
    ("make \\\n  test", "make test"),
    ("ls # the files", "ls"),
    ("for i in 1 2; do\n  echo $i\ndone", "for i in 1 2; do echo $i; done"),
    ("x=1", 'x="1"'),
]
DIFFERENT = [
    ("echo 2>x", "echo 2 >x"),
    ("ls *", "ls '*'"),
    ("echo $HOME", "echo '$HOME'"),
    ("echo '|' x", "echo | x"),
    ("echo a  b", "echo 'a  b'"),
    ("a; b", "a & b"),
    ("echo ''", "echo"),
    ("echo a#b", "echo a"),
    ("ls ~", "ls '~'"),
    ("head -n 5 f", "head -n 6 f"),
]


@pytest.mark.parametrize(("one", "two"), SAME)
def test_same_words_are_the_same_command(one, two):
    """Spacing, quoting style, comments and line ends are no difference."""
    assert canonical(one) == canonical(two)


@pytest.mark.parametrize(("one", "two"), DIFFERENT)
def test_different_meaning_stays_different(one, two):
    """What the shell would treat differently is never made equal."""
    assert canonical(one) != canonical(two)


def test_what_cannot_be_parsed_is_compared_as_text():
    """An open quote and a here-document stay as they are, trimmed."""
    assert canonical("  echo 'open ") == "echo 'open"
    text = "cat <<'EOF' > f\n  two  spaces\nEOF"
    assert canonical(text + "\n") == text


def test_a_comment_alone_stays():
    """Two scripts that are nothing but comments are not made equal by leaving everything out."""
    assert canonical("# one") != canonical("# two")


def test_heredoc_body_is_kept_apart():
    """The body of a here-document is no part of the words."""
    line = parse("cat <<-EOF\n\trm -rf x\n\tEOF\nls")
    assert line.heredocs == ("\trm -rf x",)
    assert [t.text for t in line.tokens] == ["cat", "<<-", "EOF", ";", "ls"]


def test_substitutions_are_found():
    """Commands inside ``$( )`` and backticks are listed, in double quotes too; arithmetic is none."""
    tokens = parse('echo "$(date)" `pwd` $((1 + 2))').tokens
    assert [t.inner for t in tokens] == [(), ("date",), ("pwd",), ()]


@pytest.mark.parametrize("text", ["'", '"', "$(", "`", "a \\", "cat <<", "$'", "(" * 50 + "$(" * 50])
def test_broken_text_never_raises_anything_else(text):
    """Broken command lines give their text back."""
    assert canonical(text) == text.strip()


@given(st.text(alphabet="ab '\"\\$`(){}<>|&;#\n\t2-*=", max_size=40))
def test_canonical_form_is_stable(text):
    """Any text has a canonical form, and that form is its own."""
    once = canonical(text)
    try:
        parse(text)
    except Unparseable:
        return
    assert canonical(once) == once
