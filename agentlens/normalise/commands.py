"""The simple commands inside a command line: who is really called, with which words.

``sudo env A=1 timeout 10 bash -c 'cd x && rm -rf y'`` runs ``cd`` and ``rm``. A commit message, an ``echo`` or
a ``grep`` that mentions ``rm -rf`` runs no ``rm``. Judgements about commands are made from these words only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from agentlens.normalise.shell import CONTROL, Line, Token, Unparseable, parse_start
from agentlens.normalise.wrappers import (
    ASSIGNMENT,
    FIND_RUNS,
    find_expression,
    printed,
    script_of,
    takes_input,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_RESERVED: Final = frozenset({
    "if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "time", "fi", "done", "esac", "coproc",
    "function",
})  # fmt: skip
_WRITES: Final = frozenset({">", ">>", ">|", "&>", "&>>", "<>"})
_NOWHERE: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_MAX_DEPTH: Final = 5


class Command(NamedTuple):
    """One simple command: its words without quotes, ``words[0]`` without its folder, and the files it writes.

    ``fed``: texts it reads on its standard input, where the line shows them.
    """

    words: tuple[str, ...]
    writes: tuple[str, ...] = ()
    fed: tuple[str, ...] = ()

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


UNFINISHED: Final = Command(("",))
"""Stands for what a text that ends in an open quote does not show: some command of which nothing is known."""


def commands(text: str) -> tuple[Command, ...] | None:
    """List the simple commands of a command line in order, those inside wrappers and substitutions too.

    A text that ends in an open quote is read as far as it goes, and `UNFINISHED` is the last command. None where
    commands are nested too deeply: then nothing is known about it.

    >>> [c.words for c in commands("echo 'rm -rf a' && sudo bash -c 'rm -rf b'")]
    [('echo', 'rm -rf a'), ('rm', '-rf', 'b')]
    """
    try:
        return of_line(parse_start(text))
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


def _of_text(text: str, depth: int, fed: tuple[str, ...] = ()) -> Iterator[Command]:
    if depth > _MAX_DEPTH:
        raise Unparseable("nested too deeply")
    yield from _of_line(parse_start(text, depth), depth, fed)


def _of_line(line: Line, depth: int, fed: tuple[str, ...] = ()) -> Iterator[Command]:
    reader = _Stages(line, depth, fed)
    tokens = iter(line.tokens)
    for token in tokens:
        if not token.operator:
            reader.word(token)
        elif token.text in CONTROL or token.text in ("<(", ">("):
            yield from reader.flush(token.text)
        else:
            reader.redirect(token, next(tokens, None))
    yield from reader.flush("")
    if line.cut:
        yield UNFINISHED


class _Stages:
    """The simple commands of one line as they come: words, redirections, and what the command before prints."""

    __slots__ = ("bodies", "depth", "documents", "header", "inner", "piped", "running", "words", "writes")

    def __init__(self, line: Line, depth: int, fed: tuple[str, ...]) -> None:
        self.depth = depth
        self.bodies = iter(line.heredocs)
        self.running = iter(line.running)
        self.words: list[str] = []
        self.writes: list[str] = []
        self.documents: list[str] = []
        self.inner: list[str] = []
        self.piped = fed  # what the next command may read
        self.header = ""  # the reserved word before, where it takes more than a command

    def word(self, token: Token) -> None:
        self.inner.extend(token.inner)
        plain = token.plain
        if self.words:
            self.words.append(plain)
        elif self.header == "function" or (self.header == "time" and plain == "-p"):
            self.header = ""
        elif plain in _RESERVED:
            self.header = plain
        else:
            self.words.append(plain)

    def redirect(self, token: Token, target: Token | None) -> None:
        """Take a redirection; substitutions in its target or in an unquoted here-document run."""
        _redirect(token, target, self.bodies, self.writes, self.documents)
        self.inner.extend(target.inner if target else ())
        if token.text.lstrip("0123456789") in ("<<", "<<-"):
            self.inner.extend(next(self.running, ()))

    def flush(self, control: str) -> Iterator[Command]:
        """Yield the command that ends here; what it prints feeds the next one of a pipe."""
        for text in self.inner:
            yield from _of_text(text, self.depth + 1)
        words, fed = tuple(self.words), tuple(self.documents) or self.piped
        self.piped = ()
        if words or self.writes:
            yield from _unwrap(words, tuple(self.writes), self.depth, fed)
            if control in ("|", "|&") and not self.writes:
                self.piped = printed(words, fed)
        self.words.clear()
        self.writes.clear()
        self.documents.clear()
        self.inner.clear()
        self.header = ""


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
    while words and ASSIGNMENT.match(words[0]):
        words = words[1:]
    if not words:
        if writes:
            yield Command((), writes)
        return
    words = (_basename(words[0]), *words[1:])
    name = words[0]
    rest = wrapped(words)
    if rest is not None:
        if writes:
            yield Command((), writes)
        yield from _unwrap(rest, (), depth + 1, documents if takes_input(name) else ())
        return
    script = script_of(words)
    if script is not None:
        if writes:
            yield Command((), writes)
        for text in script or documents:
            yield from _of_text(text, depth + 1, documents if script else ())
        if script or documents:
            return
    yield Command(words, writes, documents)
    if name == "find":
        yield from _find_exec(words, depth)


def _find_exec(words: tuple[str, ...], depth: int) -> Iterator[Command]:
    for part in find_expression(words):
        if part[0] in FIND_RUNS:
            yield from _unwrap(part[1:], (), depth + 1, ())


def _basename(word: str) -> str:
    return word.rsplit("/", 1)[-1] or word
