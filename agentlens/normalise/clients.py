"""Database clients: the SQL that a command line gives them, as an option, an operand or on standard input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.normalise.commands import Command


class _Client(NamedTuple):
    """``valued``: letters of the other options with a value; ``glued``: letters may stand behind one dash."""

    letters: str
    names: tuple[str, ...]
    valued: str = ""
    files: tuple[str, ...] = ()
    glued: bool = True
    operand: bool = False


_MYSQL: Final = _Client("e", ("--execute",), "uphPSD")
_SQLITE: Final = _Client("", ("-cmd",), files=("-init",), glued=False, operand=True)
_CLIENTS: Final[dict[str, _Client]] = {
    "psql": _Client("c", ("--command",), "dhpUvLoFPRTf", ("-f", "--file")),
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "sqlcmd": _Client("Qq", (), "SUPdiosw", ("-i",)),
    "sqlite3": _SQLITE,
    "duckdb": _Client("", ("-cmd", "-c", "-s"), files=("-init", "-f"), glued=False, operand=True),
    "clickhouse-client": _Client("q", ("--query",), "hud"),
}
_OPERAND_VALUED: Final = frozenset({
    "-separator", "-newline", "-nullvalue", "-init", "-maxsize", "-mmap", "-vfs", "-f",
})  # fmt: skip


def sql_given(command: Command) -> str | None:
    """Return the SQL text given to a database client, None for any other program and where the line has none."""
    client = _CLIENTS.get(command.name)
    if client is None:
        return None
    texts = list(_of_options(command.words, client))
    if client.operand:
        texts += _operands(command.words, client)[1:]
    if not texts and not any(_is_file(word, client) for word in command.words[1:]):
        texts = [_statements(text) for text in command.fed]
    return " ; ".join(texts) if texts else None


def _of_options(words: tuple[str, ...], client: _Client) -> Iterator[str]:
    at = 1
    while at < len(words):
        word, following = words[at], words[at + 1 : at + 2]
        at += 1
        if word in client.names:
            yield from following
            at += 1
        elif word.startswith("--"):
            name, mark, given = word.partition("=")
            if mark and name in client.names:
                yield given
        elif client.glued and word.startswith("-"):
            value, takes_next = _in_cluster(word, client)
            at += takes_next
            if value is not None:
                yield from (value,) if value else following


def _in_cluster(word: str, client: _Client) -> tuple[str | None, bool]:
    """Text glued to the option that gives SQL ("" where it is the next word), and whether the next word is a value."""
    for at, letter in enumerate(word[1:], start=2):
        if letter in client.letters:
            return word[at:], at == len(word)
        if letter in client.valued:  # a password is only ever glued
            return None, at == len(word) and not (letter == "p" and client is _MYSQL)
    return None, False


def _operands(words: tuple[str, ...], client: _Client) -> list[str]:
    found: list[str] = []
    at = 1
    while at < len(words):
        word = words[at]
        if not word.startswith("-"):
            found.append(word)
        at += 2 if word in _OPERAND_VALUED or word in client.names else 1
    return found


def _is_file(word: str, client: _Client) -> bool:
    return word.startswith("-") and word.partition("=")[0] in client.files


def _statements(text: str) -> str:
    """Return a script without the lines that are for the client itself, as ``.mode csv``."""
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith((".", "\\")))
