"""The simple commands inside a command line: who is really called, with which words.

``sudo env A=1 timeout 10 bash -c 'cd x && rm -rf y'`` runs ``cd`` and ``rm``. A commit message, an ``echo`` or
a ``grep`` that mentions ``rm -rf`` runs no ``rm``. Judgements about commands are made from these words only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from agentlens.normalise.shell import CONTROL, Line, Token, Unparseable, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_RESERVED: Final = frozenset(
    {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "time", "fi", "done", "esac"}
)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_WRITES: Final = frozenset({">", ">>", ">|", "&>", "&>>", "<>"})
_NOWHERE: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash", "ksh", "ash"})
_MAX_DEPTH: Final = 5

# wrappers: name -> options that take a value; the command starts at the first word that is neither
_WRAPPERS: Final[dict[str, frozenset[str]]] = {
    "sudo": frozenset(
        {"-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-U", "-r", "-t", "--user", "--group"}
    ),
    "doas": frozenset({"-u", "-C"}),
    "env": frozenset({"-u", "-C", "--unset", "--chdir"}),
    "nohup": frozenset(),
    "time": frozenset({"-f", "-o"}),
    "command": frozenset(),
    "builtin": frozenset(),
    "exec": frozenset({"-a"}),
    "nice": frozenset({"-n", "--adjustment"}),
    "ionice": frozenset({"-c", "-n", "-p"}),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "setsid": frozenset(),
    "unbuffer": frozenset(),
    "caffeinate": frozenset({"-t", "-w"}),
    "xargs": frozenset(
        {"-I", "-n", "-P", "-L", "-d", "-a", "-E", "-s", "--max-args", "--max-procs", "--delimiter"}
    ),
    "timeout": frozenset({"-s", "-k", "--signal", "--kill-after"}),
    "uv": frozenset({"--with", "--python", "-p", "--directory", "--project"}),
    "poetry": frozenset({"-C", "--directory"}),
    "pipenv": frozenset(),
    "pdm": frozenset({"-p"}),
    "rye": frozenset(),
    "hatch": frozenset({"-e"}),
    "npx": frozenset({"-p", "--package"}),
    "conda": frozenset({"-n", "--name", "-p", "--prefix"}),
}
_RUN_WORD: Final = frozenset(
    {"uv", "poetry", "pipenv", "pdm", "rye", "hatch", "conda"}
)  # only "<name> run ..." wraps
_SKIPS_ONE: Final = frozenset({"timeout"})  # one operand of its own (the duration)

# commands run on another machine or in a container: after the options, one operand (where), then the command
_ELSEWHERE: Final[dict[tuple[str, ...], frozenset[str]]] = {
    ("ssh",): frozenset(
        {"-i", "-p", "-l", "-o", "-F", "-J", "-L", "-R", "-D", "-b", "-c", "-E", "-m", "-S", "-W", "-w"}
    ),
    ("docker", "exec"): frozenset({"-e", "--env", "-u", "--user", "-w", "--workdir", "--env-file"}),
    ("podman", "exec"): frozenset({"-e", "--env", "-u", "--user", "-w", "--workdir"}),
    ("kubectl", "exec"): frozenset({"-c", "--container", "-n", "--namespace", "--context"}),
}


class Command(NamedTuple):
    """One simple command: its words without quotes, ``words[0]`` without its folder, and the files it writes."""

    words: tuple[str, ...]
    writes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The program, "" for a bare assignment or redirection."""
        return self.words[0] if self.words else ""

    @property
    def operands(self) -> tuple[str, ...]:
        """Words after the first that are no options; all of them after ``--``."""
        words = self.words[1:]
        if "--" in words:
            at = words.index("--")
            return tuple(word for word in words[:at] if not word.startswith("-")) + words[at + 1 :]
        return tuple(word for word in words if not word.startswith("-") or word == "-")

    def has(self, letters: str = "", *names: str) -> bool:
        """Whether a short option holds one of the letters (``-rf`` holds ``f``), or a long one is there."""
        for word in self.words[1:]:
            if word == "--":
                return False
            if word in names or any(name.startswith("--") and word.startswith(name + "=") for name in names):
                return True
            if (
                letters
                and len(word) > 1
                and word[0] == "-"
                and word[1] != "-"
                and any(c in word for c in letters)
            ):
                return True
        return False


def commands(text: str) -> tuple[Command, ...] | None:
    """List the simple commands of a command line in order, those inside wrappers and substitutions too.

    None where the text cannot be parsed: then nothing is known about it.

    >>> [c.words for c in commands("echo 'rm -rf a' && sudo bash -c 'rm -rf b'")]
    [('echo', 'rm -rf a'), ('rm', '-rf', 'b')]
    """
    try:
        return of_line(parse(text))
    except Unparseable:
        return None


def of_line(line: Line) -> tuple[Command, ...] | None:
    """List the simple commands of a parsed command line; None where something inside cannot be parsed."""
    try:
        return tuple(_of_line(line, 0))
    except Unparseable:
        return None


def from_words(words: Sequence[str]) -> tuple[Command, ...]:
    """List the simple commands of an argument vector (``["bash", "-lc", "ls | wc"]``)."""
    try:
        return tuple(_unwrap(tuple(words), (), 0, ()))
    except Unparseable:
        return (Command(tuple(words)),)


def _of_text(text: str, depth: int) -> Iterator[Command]:
    if depth > _MAX_DEPTH:
        raise Unparseable("nested too deeply")
    yield from _of_line(parse(text, depth), depth)


def _of_line(line: Line, depth: int) -> Iterator[Command]:
    bodies = iter(line.heredocs)
    words: list[str] = []
    writes: list[str] = []
    documents: list[str] = []
    inner: list[str] = []
    tokens = iter(line.tokens)

    def flush() -> Iterator[Command]:
        for text in inner:
            yield from _of_text(text, depth + 1)
        if words or writes:
            yield from _unwrap(tuple(words), tuple(writes), depth, tuple(documents))
        words.clear()
        writes.clear()
        documents.clear()
        inner.clear()

    for token in tokens:
        if not token.operator:
            inner.extend(token.inner)
            if words or token.plain not in _RESERVED:
                words.append(token.plain)
        elif token.text in CONTROL or token.text in ("<(", ">("):
            yield from flush()
        else:
            target = next(tokens, None)
            _redirect(token, target, bodies, writes, documents)
            inner.extend(target.inner if target else ())
    yield from flush()


def _redirect(
    token: Token, target: Token | None, bodies: Iterator[str], writes: list[str], documents: list[str]
) -> None:
    operator = token.text.lstrip("0123456789")
    if target is None or target.operator:
        raise Unparseable("a redirection has no target")
    if operator.startswith("<<"):
        documents.append(target.plain if operator == "<<<" else next(bodies, ""))
    elif (operator in _WRITES and target.plain not in _NOWHERE) or (
        operator == ">&" and not target.plain.rstrip("-").isdigit() and target.plain not in _NOWHERE | {"-"}
    ):
        writes.append(target.plain)


def _unwrap(
    words: tuple[str, ...], writes: tuple[str, ...], depth: int, documents: tuple[str, ...]
) -> Iterator[Command]:
    if depth > _MAX_DEPTH:
        raise Unparseable("nested too deeply")
    while words and _ASSIGNMENT.match(words[0]):
        words = words[1:]
    if not words:
        if writes:
            yield Command((), writes)
        return
    words = (_basename(words[0]), *words[1:])
    name = words[0]
    rest = _wrapped(words)
    if rest is not None:
        if writes:
            yield Command((), writes)
        yield from _unwrap(rest, (), depth + 1, documents)
        return
    script = _script(words)
    if script is not None:
        if writes:
            yield Command((), writes)
        yield from _of_text(script, depth + 1)
        return
    yield Command(words, writes)
    if name in _SHELLS and len(words) == 1:
        for text in documents:  # bash <<EOF ... EOF
            yield from _of_text(text, depth + 1)
    if name == "find":
        yield from _find_exec(words, depth)


def _wrapped(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the words of the command that a wrapper runs, None if this is no wrapper."""
    name = words[0]
    if name in _WRAPPERS:
        start = 1
        if name in _RUN_WORD:
            if words[1:2] != ("run",):
                return None
            start = 2
        at = _skip_options(words, start, _WRAPPERS[name])
        if name == "env":
            while at < len(words) and _ASSIGNMENT.match(words[at]):
                at += 1
        if name in _SKIPS_ONE:
            at += 1
        return words[at:] or None
    for prefix, valued in _ELSEWHERE.items():
        if words[: len(prefix)] == prefix:
            at = _skip_options(words, len(prefix), valued) + 1
            # `kubectl exec pod -c main -- ls`: everything after the dashes runs there
            rest = words[words.index("--") + 1 :] if "--" in words else words[at:]
            if not rest:
                return None
            return rest if len(rest) > 1 else ("sh", "-c", rest[0])
    return None


def _skip_options(words: tuple[str, ...], at: int, valued: frozenset[str]) -> int:
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        if words[at] == "--":
            return at + 1
        at += 2 if words[at] in valued else 1
    return at


def _script(words: tuple[str, ...]) -> str | None:
    """Return the command text given to a shell (``bash -lc TEXT``), ``eval`` or ``su -c``."""
    name = words[0]
    if name == "eval":
        return " ".join(words[1:])
    if name in _SHELLS or name == "su":
        for at, word in enumerate(words[1:], start=1):
            if word == "--command" or (
                word.startswith("-") and not word.startswith("--") and word.endswith("c")
            ):
                return words[at + 1] if at + 1 < len(words) else None
            if not word.startswith(("-", "+")) and name != "su":
                return None
    return None


def _find_exec(words: tuple[str, ...], depth: int) -> Iterator[Command]:
    for at, word in enumerate(words):
        if word in ("-exec", "-execdir", "-ok"):
            stop = next((i for i in range(at + 1, len(words)) if words[i] in (";", "+")), len(words))
            yield from _unwrap(words[at + 1 : stop], (), depth + 1, ())


def _basename(word: str) -> str:
    return word.rsplit("/", 1)[-1] or word
