"""The simple commands inside a line, through wrappers, shells and substitutions."""

from __future__ import annotations

import pytest

from agentlens.normalise.commands import commands, from_words


def names(text):
    return [c.name for c in commands(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cd x && git status | head; ls &", ["cd", "git", "head", "ls"]),
        ("(cd x; rm y)", ["cd", "rm"]),
        ("sudo -u root env A=1 B=2 timeout -k 5 10 /bin/rm -r x", ["rm"]),
        ("bash -lc 'cd x && make'", ["cd", "make"]),
        ("sh script.sh -c", ["sh"]),
        ("find . -name '*.o' -exec rm {} \\; -print", ["find", "rm"]),
        ("ls | xargs -n 1 rm -f", ["ls", "rm"]),
        ('echo "$(rm -rf x)"', ["rm", "echo"]),
        ("echo '$(rm -rf x)'", ["echo"]),
        ("A=1 B=2", []),
        ("A=$(date) make", ["date", "make"]),
        ("if test -f x; then rm x; else touch x; fi", ["test", "rm", "touch"]),
        ("ssh -p 22 host 'rm -rf /srv'", ["rm"]),
        ("docker exec -w /app box rm -rf data", ["rm"]),
        ("kubectl exec pod -c main -- ls /", ["ls"]),
        ("uv run pytest -q", ["pytest"]),
        ("uv sync", ["uv"]),
        ("eval 'rm x'", ["rm"]),
        ("bash <<EOF\nrm -rf x\nEOF", ["bash", "rm"]),
        ("cat <<EOF\nrm -rf x\nEOF", ["cat"]),
        ("diff <(ls a) <(ls b)", ["diff", "ls", "ls"]),
        ("", []),
    ],
)
def test_who_is_called(text, expected):
    """Names of the programs that run, in order; text that is only mentioned runs nothing."""
    assert names(text) == expected


def test_files_written():
    """Redirections name the files they write; descriptors and the null device are none."""
    found = commands("make > log 2>&1; ls >/dev/null 2>> err; > empty")
    assert [c.writes for c in found] == [("log",), ("err",), ("empty",)]


def test_unparseable_is_not_known():
    """An open quote gives nothing, not a guess."""
    assert commands("echo 'x") is None


def test_argument_vector():
    """A command given as a list is read like one given as text."""
    assert [c.words for c in from_words(["/bin/bash", "-lc", "ls | wc -l"])] == [("ls",), ("wc", "-l")]


def test_wrappers_within_wrappers_end():
    """Nesting without end is given up, not followed."""
    assert commands("sudo " * 50 + "ls") is None
    assert names("sudo sudo ls") == ["ls"]


def test_options_and_operands():
    """Short options may be glued; after ``--`` everything is an operand."""
    (found,) = commands("rm -fr --one-file-system -- -x y")
    assert found.has("r")
    assert found.has("", "--one-file-system")
    assert not found.has("x")
    assert found.operands == ("-x", "y")
