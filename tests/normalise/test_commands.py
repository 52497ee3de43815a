"""The simple commands inside a line, through wrappers, shells and substitutions."""

from __future__ import annotations

import pytest

from agentlens.normalise.commands import UNFINISHED, Command, commands, from_words


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
        ("bash <<EOF\nrm -rf x\nEOF", ["rm"]),
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


def test_an_open_quote_is_read_as_far_as_it_goes():
    """Commands before an open quote are known; what the rest would be is not, and is said so."""
    assert commands("rm x; echo 'y") == (Command(("rm", "x")), Command(("echo",)), UNFINISHED)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("time -p rm x", ["rm"]),
        ("time { rm x; }", ["rm"]),
        ("env -S 'A=1 rm -f' x", ["rm"]),
        ("function f { rm x; }", ["rm"]),
        ("function rm { ls; }", ["ls"]),
        ("find . -okdir rm {} \\;", ["find", "rm"]),
        ("parallel rm ::: a b", ["rm"]),
        ("parallel echo ::: 'rm -rf x'", ["echo"]),
        ("flock -w 5 /tmp/lock rm x", ["rm"]),
        ("flock 9 -c 'rm x'", ["rm"]),
        ("busybox rm x", ["rm"]),
        ("docker run --rm -v /a:/b image rm x", ["rm"]),
        ("docker run --entrypoint sh image -c 'rm x'", ["rm"]),
        ("docker compose -f a.yml exec -T web rm x", ["rm"]),
        ("ssh host echo 'a; rm x'", ["echo", "rm"]),
        ("bash -o pipefail -c 'rm x'", ["rm"]),
        ("bash -euo pipefail -c 'rm x'", ["rm"]),
        ("bash -n -c 'rm x'", ["bash"]),
        ("bash -o noexec -c 'rm x'", ["bash"]),
        ("echo ${a:-`rm x`}", ["rm", "echo"]),
        ('echo "${a:-$(rm ${b})}"', ["rm", "echo"]),
    ],
)
def test_who_is_called_through_more_wrappers(text, expected):
    """Shell options, containers, locks and defaults of variables are looked through."""
    assert names(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sh -s <<EOF\nrm x\nEOF", ["rm"]),
        ("ssh host <<EOF\nrm x\nEOF", ["rm"]),
        ("ssh host bash -s <<EOF\nrm x\nEOF", ["rm"]),
        ("cat <<EOF | sudo bash\nrm x\nEOF", ["cat", "rm"]),
        ("echo 'rm x' | bash", ["echo", "rm"]),
        ("printf '%s\\n' 'cd y' 'rm x' | sh", ["printf", "cd", "rm"]),
        ("echo 'rm x' > f | bash", ["echo", "bash"]),
        ("echo 'rm x' | bash run.sh", ["echo", "bash"]),
        ("echo 'rm x' | grep rm", ["echo", "grep"]),
        ("echo 'rm x' | ls; bash", ["echo", "ls", "bash"]),
        ("echo 'rm x' | xargs bash", ["echo", "bash"]),
        ("cat <<EOF\n$(rm x) `ls`\nEOF", ["rm", "ls", "cat"]),
        ("cat <<'EOF'\n$(rm x)\nEOF", ["cat"]),
        ("cat <<EOF\n\\$(rm x)\nEOF", ["cat"]),
    ],
)
def test_what_a_shell_reads_runs(text, expected):
    """A here-document or a printed text that a shell reads runs; one that something else reads does not."""
    assert names(text) == expected


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
